"""medal doctor: it tells what is here, keeps secrets, and fails where a judge answers otherwise."""

import json
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest
from typer.testing import CliRunner

from medal_judges import Judge
from medal_judges.cli import app
from medal_judges.errors import JudgeLoadError
from medal_judges.inference import doctor


def medal(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["doctor", *words], catch_exceptions=True)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    judge = Judge.from_pretrained("configs/judges/length.yaml")
    made = judge.save_pretrained(tmp_path / "judge")
    return made


def test_the_machine_is_told_and_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-shown")
    monkeypatch.setenv("HF_TOKEN", "hf_nottobeshown")
    code, said = medal()
    assert code == 0 and "shown" not in said
    lines = {line[:25].strip(): line[25:] for line in said.splitlines()}
    assert lines["OPENAI_API_KEY"] == "yes" and lines["token of the Hub"] == "yes"
    for name in (
        "python",
        "torch",
        "transformers",
        "cuda",
        "cache of the Hub",
        "extra log",
    ):
        assert lines[name]
    assert "GB free" in lines["this folder"]


def test_what_is_missing_is_named_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = {"openai": "1.0", "tenacity": "99.0"}

    def version(name: str) -> str:
        if name not in here:
            raise PackageNotFoundError(name)
        return here[name]

    monkeypatch.setattr(doctor, "version", version)
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    monkeypatch.setattr("medal_judges.models.model_files.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("MEDAL_JUDGES_DATA", str(tmp_path))
    (tmp_path / "conture_dialogue.jsonl.gz").touch()
    lines = {line[:25].strip(): line[25:] for line in medal()[1].splitlines()}
    assert lines["extra api"] == (
        "no: openai 1.0 is installed, >=2.0 is needed (pip install '.[api]' in a checkout)"
    )
    assert "tensorboard missing" in lines["extra log"]
    assert lines["embedded:minilm"].startswith(
        "no: boxed, and judges trained on it (pip install"
    )
    assert lines["data"].startswith("2 of ") and "conture, dstc12" in lines["data"]


def test_a_judge_that_answers_otherwise_is_exit_code_1(folder: Path) -> None:
    code, said = medal(str(folder))
    assert code == 0 and "deviation" in said and "judge:length" in said
    path = folder / "golden.json"
    record = json.loads(path.read_text())
    record["scores"][0]["overall"] += 0.01
    record["versions"]["torch"] = "1.0"
    path.write_text(json.dumps(record))
    code, said = medal(str(folder))
    assert code == 1
    assert "golden-01, overall" in said and "1.0 then, " in said
    assert "does not give its golden scores" in said


def test_a_hybrid_is_given_what_its_folder_may_not_hold(tmp_path: Path) -> None:
    from medal_judges.models.hybrid.judge import (
        HybridJudge,
        Line,
        MemberConfig,
        open_member,
    )
    from medal_judges.records.dimension import Dimension

    overall = Dimension("overall", "ordinal", 1, 5)
    members = {
        "plain": open_member("plain", MemberConfig(path="configs/judges/length.yaml")),
        "paid": open_member(
            "paid",
            MemberConfig(
                path="configs/judges/medal.yaml",
                options={"llm": {"backend": "openai", "model": "x", "cache": False}},
            ),
        ),
    }
    made = HybridJudge(members, {"overall": Line(("plain",), (1.0,))}, [overall])
    folder = made.save_pretrained(tmp_path / "hybrid", golden=True)
    asked = CliRunner().invoke(app, ["doctor", str(folder)])
    assert isinstance(asked.exception, JudgeLoadError)
    assert "paid.llm=" in str(asked.exception)
    given = ["paid.llm.backend=openai", "paid.llm.model=x", "paid.llm.cache=false"]
    held = CliRunner().invoke(app, ["doctor", str(folder), *given])
    assert held.exit_code == 0 and "gives its golden scores" in held.output
    two = CliRunner().invoke(app, ["doctor", str(folder), "another"])
    assert "one judge" in str(two.exception)
