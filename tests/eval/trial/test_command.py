"""``medal trial``: what it writes, resumes and refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from medal_judges.cli import app
from medal_judges.cli.trial import split_settings
from medal_judges.errors import ConfigError, MedalError
from medal_judges.eval.trial.config import TrialConfig
from medal_judges.eval.trial.findings import TrialResult
from medal_judges.eval.trial.page import write_trial
from medal_judges.eval.trial.trial import Trial, TrialJudge, run_trial
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.records.validation import parse
from medal_judges.storage.judgements import read_judgements

from .judges import Oracle

TINY = ["dialogues=3", "own=2", "languages=[en, de]", "doses=[2]", "turn_level=0", "parallel=null",
        "rated={}"]  # fmt: skip


def read(path: Path) -> TrialResult:
    return parse(TrialResult, json.loads(path.read_text(encoding="utf-8")))


def medal(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["trial", *arguments])


def test_two_judges_in_one_table(tmp_path: Path) -> None:
    out = tmp_path / "trial"
    done = medal("length", "repetition", *TINY, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "self praise" in done.output and str(out / "trial.html") in done.output
    written = json.loads((out / "trial.json").read_text(encoding="utf-8"))
    results = [parse(TrialResult, record) for record in written["trials"]]
    assert [result.judge for result in results] == ["length", "repetition"]
    assert read(out / "judgements" / "length" / "trial.json") == results[0]
    assert results[0].signature.startswith("judge:length|")
    # 3 + 2 in two languages, each scored once, with all their versions
    versions = list(read_dialogues(out / "versions.jsonl"))
    assert len(versions) == results[0].versions == len({d.id for d in versions})
    judged = list(read_judgements(out / "judgements" / "length" / "versions.jsonl"))
    assert [j.id for j in judged] == [d.id for d in versions]
    assert results[0].dialogues == 7


def test_one_judge_in_two_settings_is_two_judges(tmp_path: Path) -> None:
    words = ["dialogues=3", "own=2", "languages=[de]", "checks=[length]", *TINY[3:]]
    other = "features={said_before_3: {mean: 0.2, std: 0.1, good: -1}}"
    done = medal("repetition", "repetition", other, *words, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    folders = {path.name for path in (tmp_path / "judgements").iterdir()}
    assert len(folders) == 2 and "repetition" in folders


def test_a_setting_that_changes_nothing_is_no_second_judge(tmp_path: Path) -> None:
    same = "name=repetition"  # as it is already
    done = medal("repetition", "repetition", same, *TINY, "--out", str(tmp_path / "out"))
    assert isinstance(done.exception, ConfigError) and "one and the same judge" in str(
        done.exception
    )
    assert not (tmp_path / "out").exists()


def test_a_run_that_was_stopped_goes_on(tmp_path: Path) -> None:
    class Stopped(Oracle):
        def quality(self, request: ScoreRequest) -> float:
            if self.scored > 300:
                raise KeyboardInterrupt
            return super().quality(request)

    config = TrialConfig(dialogues=6, own=3, languages=("en",), doses=(3,), parallel=None, rated={})
    with pytest.raises(KeyboardInterrupt):
        run_trial([TrialJudge("one", Stopped(tmp_path))], tmp_path, config)
    judged = tmp_path / "judgements" / "one" / "versions.jsonl"
    kept = len(judged.read_bytes().splitlines())
    rest = Stopped(tmp_path)
    rest.quality = Oracle.quality.__get__(rest)  # type: ignore[method-assign]
    trial = run_trial([TrialJudge("one", rest)], tmp_path, config)
    whole = Oracle(tmp_path / "again")
    run_trial([TrialJudge("one", whole)], tmp_path / "again", config)
    assert 0 < kept <= 300 and rest.scored == whole.scored - kept
    assert all(found.verdict in ("green", "none") for found in trial.results[0].findings)


def test_a_second_run_asks_nothing_and_says_the_same(tmp_path: Path) -> None:
    out = tmp_path / "trial"
    assert medal("length", *TINY, "--out", str(out)).exit_code == 0
    judged = out / "judgements" / "length" / "versions.jsonl"
    first, page = judged.stat().st_mtime_ns, (out / "trial.html").read_text(encoding="utf-8")
    assert medal("length", *TINY, "--out", str(out)).exit_code == 0
    assert judged.stat().st_mtime_ns == first
    assert (out / "trial.html").read_text(encoding="utf-8") == page


def test_the_judge_and_the_trial_have_settings_of_their_own() -> None:
    words = ["length", "geval", "llm=openai:x", "seed=3", "samples=5", "runs/mine"]
    named, settings = split_settings(words)
    assert named == [("length", []), ("geval", ["llm=openai:x", "samples=5"]), ("runs/mine", [])]
    assert settings == ["seed=3"]
    with pytest.raises(ConfigError, match="no judge stands before it"):
        split_settings(["llm=x", "length"])
    assert split_settings(["seed=1"]) == ([("boxed", [])], ["seed=1"])


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("checks=[politenes]", "no check 'politenes'"),
        ("doses=[4]", "doses are 1, 2 or 3"),
        ("texts=[nowhere.yaml]", "no config file nowhere.yaml"),
        ("bounds=nowhere.yaml", "no config file nowhere.yaml"),
        ("own=9", "less than or equal to 8"),
    ],
)
def test_bad_settings_say_what_is_wrong(tmp_path: Path, setting: str, told: str) -> None:
    done = medal("length", *TINY, setting, "--out", str(tmp_path))
    assert isinstance(done.exception, MedalError)
    assert told in str(done.exception)


def test_save_wants_the_folder_of_a_judge(tmp_path: Path) -> None:
    done = medal("length", *TINY, "--save", "--out", str(tmp_path / "trial"))
    assert isinstance(done.exception, ConfigError)
    assert not (tmp_path / "trial").exists()  # refused before anything was asked


def test_trial_json_comes_back_as_it_was(finished: tuple[Trial, Path], tmp_path: Path) -> None:
    trial, _ = finished
    write_trial(trial, tmp_path)
    for result in trial.results:
        assert read(tmp_path / "judgements" / result.judge / "trial.json") == result
