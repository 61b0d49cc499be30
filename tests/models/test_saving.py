"""Judges as folders: what is saved comes back, and what is not whole says so."""

import multiprocessing
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.models.base.judge import Judge as BaseJudge
from medal_judges.models.hybrid.judge import Formula, HybridJudge, Member
from medal_judges.models.linear.judge import LinearJudge

YAML = "configs/judges/repetition.yaml"
SAME = Turn("assistant", "I like the sea a lot.")
DIALOGUE = Dialogue("a", (Turn("user", "Hello"), SAME, Turn("user", "And else?"), SAME))


def scores(judge: BaseJudge) -> dict[str, float | None]:
    (found,) = judge.score([DIALOGUE])
    return dict(found.scores)


def test_a_round_trip_keeps_scores_and_signature(tmp_path: Path) -> None:
    made = Judge.from_pretrained(YAML)
    folder = made.save_pretrained(tmp_path / "deep" / "judge")
    loaded = Judge.from_pretrained(str(folder))
    assert type(loaded) is type(made)
    assert scores(loaded) == pytest.approx(scores(made), abs=4e-5)
    assert str(loaded.signature()) == str(made.signature())
    assert loaded.dimensions == made.dimensions
    again = loaded.save_pretrained(tmp_path / "again")
    assert (again / "judge.json").read_bytes() == (folder / "judge.json").read_bytes()


class FullDisk(LinearJudge):
    """Saving breaks off with half a config written."""

    def _save(self, folder: Path) -> None:
        super()._save(folder)
        path = folder / "judge.json"
        path.write_bytes(path.read_bytes()[:100])
        raise OSError("no space left on device")


def test_saving_that_breaks_off_leaves_no_judge_and_harms_none(tmp_path: Path) -> None:
    broken = FullDisk.from_settings(
        {
            "name": "x",
            "rubric": "medal",
            "features": {"log_words": {"mean": 1, "std": 1, "good": 1}},
        }
    )
    path = tmp_path / "judge"
    with pytest.raises(OSError):
        broken.save_pretrained(path)
    assert not path.exists()
    made = Judge.from_pretrained(YAML)
    made.save_pretrained(path)  # the half is in nobody's way
    with pytest.raises(OSError):
        broken.save_pretrained(path)
    assert scores(Judge.from_pretrained(path)) == pytest.approx(scores(made), abs=4e-5)


def numbered(number: int) -> HybridJudge:
    """A judge of several files that all hold its number."""
    judge = Judge.from_pretrained(YAML)
    judge.name = f"n{number}"
    line = Formula(("one",), (1.0,), intercept=number)
    return HybridJudge(
        {"one": Member("one", judge)},
        {"overall": line},
        [judge.dimension("overall")],
        name=f"n{number}",
    )


def _save_forever(judges: list[HybridJudge], path: Path) -> None:
    while True:
        for judge in judges:
            judge.save_pretrained(path)


def _saving(judges: list[HybridJudge], path: Path) -> BaseProcess:
    process = multiprocessing.get_context("fork").Process(
        target=_save_forever, args=(judges, path)
    )
    process.start()
    return process


def _is_whole(path: Path) -> bool:
    loaded = Judge.from_pretrained(path)
    assert isinstance(loaded, HybridJudge)
    number = f"n{loaded.lines['overall'].intercept:g}"
    return loaded.name == loaded.members["one"].judge.name == number


def test_a_kill_while_saving_leaves_one_judge_whole(tmp_path: Path) -> None:
    path, rng = tmp_path / "judge", random.Random(0)
    judges = [numbered(1), numbered(2)]
    judges[0].save_pretrained(path)
    (path / "notes.txt").write_text("mine")
    for _ in range(25):
        process = _saving(judges, path)
        time.sleep(rng.uniform(0.02, 0.06))
        process.kill()
        process.join()
        assert _is_whole(path) and (path / "notes.txt").read_text() == "mine"
    judges[0].save_pretrained(path)
    assert [p.name for p in tmp_path.iterdir() if not p.name.startswith(".")] == [
        "judge"
    ]
