"""A trial in a judge's folder: the card shows it, a push asks for it, no other judge's counts."""

from pathlib import Path

from typer.testing import CliRunner

from medal_judges import Judge
from medal_judges.cli import app
from medal_judges.models.card.writer import read_current_trial

from ..hub_stub import Hub

TINY = ["dialogues=2", "languages=[en]", "checks=[same, no_gain]"]


def saved(folder: Path, name: str) -> Path:
    return Judge.from_pretrained(name).save_pretrained(folder)


def on_trial(folder: Path, out: Path) -> None:
    words = ["trial", str(folder), *TINY, "--save", "--out", str(out)]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    assert (folder / "trial.json").is_file()


def test_the_card_shows_the_trial_and_the_push_takes_it(
    hub: Hub, tmp_path: Path
) -> None:
    folder = saved(tmp_path / "judge", "length")
    home = tmp_path / "home"
    on_trial(folder, tmp_path / "trial")
    done = hub.medal(home, "push", str(folder), "org/judge")
    assert done.returncode == 0, done.stderr
    files = hub.repos["org/judge"].files
    assert files["trial.json"] == (folder / "trial.json").read_bytes()
    card = files["README.md"].decode()
    trial = read_current_trial(folder)
    assert trial is not None and trial["dialogues"] == 10
    verdicts = [f["verdict"] for f in trial["findings"] if f["group"] == "no_gain"]
    counts = (str(verdicts.count(v)) for v in ("green", "red", "none"))
    row = f"| {' | '.join(counts)} |"
    assert f"| Cheap gains {row}" in card
