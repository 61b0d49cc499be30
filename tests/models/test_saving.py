"""Judges as folders: what is saved comes back, and what is not whole says so."""

import json
import multiprocessing
import random
import time
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.judge import Judge as BaseJudge
from medal_judges.models.base.saving import (
    FAMILIES,
    FORMAT,
    read_weights,
    require_same_keys,
)
from medal_judges.models.hybrid.judge import HybridJudge, Line, Member
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


def test_saving_over_a_judge_keeps_what_else_stands_there(tmp_path: Path) -> None:
    folder = Judge.from_pretrained("configs/judges/length.yaml").save_pretrained(
        tmp_path / "judge"
    )
    (folder / "notes.txt").write_text("mine")
    made = Judge.from_pretrained(YAML)
    made.save_pretrained(folder)
    assert scores(Judge.from_pretrained(folder)) == pytest.approx(
        scores(made), abs=4e-5
    )
    assert (folder / "notes.txt").read_text() == "mine"
    assert [p.name for p in tmp_path.iterdir()] == ["judge"]


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
    with pytest.raises(OSError, match="no space"):
        broken.save_pretrained(path)
    assert not path.exists()
    made = Judge.from_pretrained(YAML)
    made.save_pretrained(path)  # the half is in nobody's way
    with pytest.raises(OSError, match="no space"):
        broken.save_pretrained(path)
    assert scores(Judge.from_pretrained(path)) == pytest.approx(scores(made), abs=4e-5)


def numbered(number: int) -> HybridJudge:
    """A judge of several files that all hold its number."""
    judge = Judge.from_pretrained(YAML)
    judge.name = f"n{number}"
    line = Line(("one",), (1.0,), intercept=number)
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


def test_two_processes_that_save_one_folder_leave_one_judge_whole(
    tmp_path: Path,
) -> None:
    path, seen = tmp_path / "judge", set[bytes]()
    processes = [_saving([numbered(n)], path) for n in (1, 2)]
    while len(seen) < 2 and all(process.is_alive() for process in processes):
        if path.is_dir():  # there is always a whole config to be read
            seen.add((path / "judge.json").read_bytes())
    assert all(process.is_alive() for process in processes)
    for process in processes:
        process.kill()
        process.join()
    assert len(seen) == 2 and _is_whole(path)


def test_a_half_written_config_is_told(tmp_path: Path) -> None:
    folder = Judge.from_pretrained(YAML).save_pretrained(tmp_path / "judge")
    path = folder / "judge.json"
    whole = path.read_text(encoding="utf-8")
    for half in (whole[: len(whole) // 2].encode(), b"", b'{"family": "\xff'):
        path.write_bytes(half)
        with pytest.raises(JudgeLoadError, match="not valid JSON"):
            Judge.from_pretrained(folder)
    kept = {k: v for k, v in json.loads(whole).items() if k != "heads"}
    path.write_text(json.dumps(kept), encoding="utf-8")
    with pytest.raises(JudgeLoadError, match=r"no 'heads' in judge\.json") as caught:
        Judge.from_pretrained(folder)
    assert "saved by medal-judges" in str(caught.value)


@pytest.mark.parametrize("content", ['{"model_type": "bert"}', "[]", "7"])
def test_a_folder_that_is_no_judge_is_told(tmp_path: Path, content: str) -> None:
    with pytest.raises(JudgeLoadError, match=r"no judge\.json"):
        Judge.from_pretrained(tmp_path)
    (tmp_path / "judge.json").write_text(content)
    with pytest.raises(JudgeLoadError, match="names no 'family'"):
        Judge.from_pretrained(tmp_path)


@pytest.mark.parametrize("config", [{"model_type": "bert"}, [7]])
def test_a_config_json_alone_is_a_plain_model(tmp_path: Path, config: object) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(JudgeLoadError, match=r"no judge\.json") as caught:
        Judge.from_pretrained(tmp_path)
    assert "a plain model becomes a judge by training" in str(caught.value)


@pytest.mark.parametrize("family", ["oracle", "", None, 3, ["linear"]])
def test_an_unknown_family_names_the_known_ones(tmp_path: Path, family: object) -> None:
    config = {"family": family, "format": FORMAT, "medal_judges_version": "0.1.0"}
    (tmp_path / "judge.json").write_text(json.dumps(config))
    path = tmp_path / "judge.yaml"
    path.write_text(json.dumps({"family": family, "name": "x"}))
    for source in (tmp_path, path):
        with pytest.raises(JudgeLoadError, match="unknown family") as caught:
            Judge.from_pretrained(source)
        assert "linear" in str(caught.value) and "encoder" in str(caught.value)


def test_an_entry_point_that_does_not_load(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(FAMILIES, "sorry", "json:SorryJudge")
    (tmp_path / "judge.yaml").write_text("family: sorry")
    with pytest.raises(
        JudgeLoadError, match=r"family 'sorry' \(json:SorryJudge\): .*no attribute"
    ):
        Judge.from_pretrained(tmp_path / "judge.yaml")


@pytest.mark.parametrize(
    ("changes", "told", "typed"),
    [
        ({"format": 99}, "in format 99", "pip install 'medal-judges==9.1'"),
        ({"format": "x"}, "in format x", "pip install 'medal-judges==9.1'"),
        ({"format": 1}, "in format 1", "train it again"),
        ({"family": "oracle"}, "unknown family 'oracle'", "linear"),
    ],
)
def test_a_judge_of_another_package_says_which_reads_it(
    tmp_path: Path, changes: dict[str, object], told: str, typed: str
) -> None:
    folder = Judge.from_pretrained(YAML).save_pretrained(tmp_path / "judge")
    path = folder / "judge.json"
    config = json.loads(path.read_text())
    assert config["format"] == FORMAT
    path.write_text(json.dumps(config | {"medal_judges_version": "9.1"} | changes))
    with pytest.raises(JudgeLoadError) as caught:
        Judge.from_pretrained(folder)
    assert told in caught.value.message and typed in (caught.value.hint or "")


def test_a_yaml_of_a_trained_family_or_with_a_setting_missing_is_told(
    tmp_path: Path,
) -> None:
    path = tmp_path / "judge.yaml"
    path.write_text("family: encoder\nname: x\n")
    with pytest.raises(JudgeLoadError, match="is trained, not described"):
        Judge.from_pretrained(path)
    path.write_text("family: linear\nname: x\nrubric: medal\n")
    with pytest.raises(JudgeLoadError, match="'features' is missing"):
        Judge.from_pretrained(path)
    with pytest.raises(JudgeLoadError, match="nowhere"):
        Judge.from_pretrained(tmp_path / "nowhere.yaml")


def test_all_keys_or_an_error_that_names_them(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    expected = net.state_dict()
    path = tmp_path / "model.safetensors"
    save_file(expected, path)
    require_same_keys(expected, read_weights(path), path)
    for changed, told in (
        ({k: v for k, v in expected.items() if k != "1.bias"}, r"missing 1\.bias"),
        (expected | {"2.weight": torch.zeros(1)}, r"unexpected 2\.weight"),
        (
            expected | {"0.bias": torch.zeros(5)},
            r"of another shape 0\.bias \[5\] instead of \[2\]",
        ),
    ):
        save_file(changed, path)
        with pytest.raises(JudgeLoadError, match=told):
            require_same_keys(expected, read_weights(path), path)


def test_pickles_and_broken_files_are_refused(tmp_path: Path) -> None:
    net = torch.nn.Linear(3, 2)
    path = tmp_path / "model.safetensors"
    torch.save(net.state_dict(), tmp_path / "model.bin")
    with pytest.raises(JudgeLoadError, match=r"no model\.safetensors, and a pickle"):
        read_weights(path)
    save_file(net.state_dict(), path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(JudgeLoadError, match="a damaged safetensors file"):
        read_weights(path)
