"""``medal trial``: what it writes, resumes and refuses."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from medal_judges.cli import app
from medal_judges.cli.trial import split_settings
from medal_judges.errors import ConfigError, MedalError
from medal_judges.eval.trial.config import TrialConfig
from medal_judges.eval.trial.findings import TrialResult
from medal_judges.eval.trial.trial import TrialJudge, run_trial
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.records.validation import parse
from medal_judges.storage.judgements import read_judgements

from .judges import Oracle

pytestmark = pytest.mark.usefixtures("no_figure_files")
TINY = ["dialogues=3", "own=2", "languages=[en, de]", "doses=[2]"]


def medal(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["trial", *arguments])


def test_two_judges_in_one_table_and_a_second_run_scores_nothing(
    tmp_path: Path,
) -> None:
    out = tmp_path / "trial"
    done = medal("length", "repetition", *TINY, "--out", str(out))
    assert done.exit_code == 0, done.output
    assert "self praise" in done.output and str(out / "trial.html") in done.output
    written = json.loads((out / "trial.json").read_text(encoding="utf-8"))
    results = [parse(TrialResult, record) for record in written["trials"]]
    assert [result.judge for result in results] == ["length", "repetition"]
    folder = out / "judgements" / "length"
    own = json.loads((folder / "trial.json").read_text(encoding="utf-8"))
    assert parse(TrialResult, own) == results[0]
    assert results[0].signature.startswith("judge:length|")
    # 3 + 2 in two languages, each scored once, with all their versions
    versions = list(read_dialogues(out / "versions.jsonl"))
    assert len(versions) == results[0].versions == len({d.id for d in versions})
    judged = list(read_judgements(folder / "versions.jsonl"))
    assert [j.id for j in judged] == [d.id for d in versions]
    assert results[0].dialogues == 7
    first, page = (
        (folder / "versions.jsonl").stat().st_mtime_ns,
        (out / "trial.html").read_bytes(),
    )
    assert medal("length", "repetition", *TINY, "--out", str(out)).exit_code == 0
    assert (folder / "versions.jsonl").stat().st_mtime_ns == first
    assert (out / "trial.html").read_bytes() == page


def test_one_judge_in_two_settings_is_two_judges(tmp_path: Path) -> None:
    words = ["dialogues=3", "own=2", "languages=[de]", "checks=[length]", *TINY[3:]]
    other = "features={said_before_3: {mean: 0.2, std: 0.1, good: -1}}"
    done = medal("repetition", "repetition", other, *words, "--out", str(tmp_path))
    assert done.exit_code == 0, done.output
    folders = {path.name for path in (tmp_path / "judgements").iterdir()}
    assert len(folders) == 2 and "repetition" in folders


@pytest.mark.slow
def test_a_stopped_run_resumes(tmp_path: Path) -> None:
    class Stopped(Oracle):
        def quality(self, request: ScoreRequest) -> float:
            if self.scored > 300:
                raise KeyboardInterrupt
            return super().quality(request)

    config = TrialConfig(dialogues=6, own=3, languages=("en",), doses=(3,))
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
    assert all(
        found.verdict in ("green", "none") for found in trial.results[0].findings
    )


def test_settings_of_judges_and_of_the_trial_are_split() -> None:
    words = ["length", "geval", "llm=openai:x", "seed=3", "samples=5", "runs/mine"]
    named, settings = split_settings(words)
    assert named == [
        ("length", []),
        ("geval", ["llm=openai:x", "samples=5"]),
        ("runs/mine", []),
    ]
    assert settings == ["seed=3"]
    with pytest.raises(ConfigError, match="no judge stands before it"):
        split_settings(["llm=x", "length"])
    assert split_settings(["seed=1"]) == ([("boxed", [])], ["seed=1"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("length checks=[politenes]", "no check 'politenes'"),
        ("length doses=[4]", "doses are 1, 2 or 3"),
        ("length texts=[nowhere.yaml]", "no config file nowhere.yaml"),
        ("length bounds=nowhere.yaml", "no config file nowhere.yaml"),
        ("length own=9", "less than or equal to 8"),
        ("length --save", "length is not a folder"),
        ("repetition repetition name=repetition", "the same judge"),
    ],
)
def test_bad_settings_are_refused_before_anything_is_scored(
    tmp_path: Path, words: str, message: str
) -> None:
    out = tmp_path / "out"
    done = medal("dialogues=0", *words.split(), "--out", str(out))
    assert isinstance(done.exception, MedalError)
    assert message in str(done.exception) and not out.exists()


def test_bounds_of_a_users_own(tmp_path: Path) -> None:
    bounds = tmp_path / "mine.yaml"
    bounds.write_text(
        "use.unscored: {green: 0.5, red: 0.6, why: Mine.}\n", encoding="utf-8"
    )
    words = ["checks=[use]", f"bounds={bounds}", "--out", str(tmp_path / "out")]
    assert medal("length", "dialogues=0", *words).exit_code == 0
    written = json.loads((tmp_path / "out" / "trial.json").read_text(encoding="utf-8"))[
        "bounds"
    ]
    assert written["use.unscored"]["green"] == 0.5 and "same.shift" in written
    bounds.write_text(
        "use.speed: {green: 0.5, red: 0.6, why: Mine.}\n", encoding="utf-8"
    )
    assert "no figure 'use.speed'" in str(
        medal("length", "dialogues=0", *words).exception
    )
