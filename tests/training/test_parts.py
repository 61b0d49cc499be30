"""The parts of a run: targets, validation figures, the closed form."""

from pathlib import Path

import pytest

from medal_judges.config import build_config, load_config
from medal_judges.errors import ConfigError, LeakError
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.training.config import DataEntry, TrainConfig
from medal_judges.training.rows import (
    RunRows,
    dimension_by_label,
    label_scales,
    load_rows,
    make_unit_map,
    to_example,
)

LINEAR = {"family": "linear", "vectors": False, "features": ["log_words"]}
CONFIGS = sorted(p.name for p in Path("configs/train").glob("*.yaml"))


@pytest.mark.parametrize("name", CONFIGS)
def test_every_shipped_config_is_valid(name: str) -> None:
    assert load_config(TrainConfig, f"configs/train/{name}").train


def minimal(**more: object) -> dict[str, object]:
    base = {
        "name": "x",
        "output_dir": "o",
        "rubric": "medal",
        "model": LINEAR,
        "train": [{"source": "a.jsonl"}],
    }
    return base | more


@pytest.mark.parametrize(
    "setting",
    [{"args": {"max_steps": 3}}, {"start": "a"}],
)
def test_a_family_fitted_at_once_refuses_settings_of_steps(
    setting: dict[str, object],
) -> None:
    (name,) = setting
    with pytest.raises(ConfigError, match=f"{name} is for judges trained by steps"):
        build_config(TrainConfig, minimal() | setting, where="x")


def row(
    id: str, value: float, scale: tuple[float, float] | None = (0, 4)
) -> LabelledDialogue:
    dialogue = Dialogue(
        id, (Turn("user", f"hello {id}"), Turn("assistant", f"well {id}"))
    )
    return LabelledDialogue(dialogue, {"q": (value, value + 1)}, {"q": scale}, group=id)


def targets_of(rows: list[LabelledDialogue], **entry: object) -> list[float]:
    one = DataEntry(source="s.jsonl", dimensions={"q": "overall"}, **entry)  # type: ignore[arg-type]
    names = dimension_by_label(one, label_scales(rows), ["overall"])
    maps = {n: make_unit_map(one, rows, n) for n in names}
    made = [to_example(r, one, names, maps, {}) for r in rows]
    return [each.targets["overall"] for each in made]  # type: ignore[misc]


def test_targets_are_the_mean_of_the_annotators_on_the_unit_scale() -> None:
    assert targets_of([row("a", 0), row("b", 3)]) == [0.125, 0.875]


def test_a_target_of_levels_is_the_nearest_level_of_the_mean() -> None:
    entry = DataEntry(source="s.jsonl", dimensions={"q": "overall"})
    maps = {"q": make_unit_map(entry, [row("a", 1)], "q")}
    found = to_example(row("a", 1), entry, {"q": "overall"}, maps, {"overall": 5})
    assert list(found.targets["overall"]) == [0, 0, 1, 0, 0]  # type: ignore[arg-type]


def loaded(folder: Path, files: dict[str, list[str]], **more: object) -> RunRows:
    """The rows of a run on tables of ratings whose columns a file maps."""
    columns = {"id": "nr", "prompt": "Frage", "response": "Antwort", "group": "Kunde"}
    labels = {"Note": "fun:1..5"}
    for part, rows in files.items():
        lines = [f"{part}{row},Frage {row}?,Antwort {row},3,{row[0]}" for row in rows]
        (folder / f"{part}.csv").write_text(
            "\n".join(["nr,Frage,Antwort,Note,Kunde", *lines])
        )
        source = {
            "source": str(folder / f"{part}.csv"),
            "columns": columns | {"labels": labels},
        }
        more[part] = [source]
    config = build_config(TrainConfig, minimal(**more), where="x")
    return load_rows(config, [Dimension("fun", "ordinal", 1, 5)])


def test_a_leak_stops_the_run(tmp_path: Path) -> None:
    with pytest.raises(LeakError, match="train4 ~ test4"):
        loaded(tmp_path, {"train": [*"01234"], "test": [*"45678"]})


def test_a_split_divides_groups_by_their_hash(tmp_path: Path) -> None:
    rows = [f"{group}{n}" for group in "abcdefghijklmnopqrst" for n in range(3)]
    split, found = {"validation": 0.2, "test": 0.2}, []
    for order in (rows, rows[::-1]):
        run = loaded(tmp_path, {"train": order}, split=split)
        parts = [run.train, run.validation, run.test]
        found.append([{example.group for example in part} for part in parts])
        assert [3 * len(groups) for groups in found[-1]] == [
            fact["rows"] for fact in run.facts
        ]
    assert found[0] == found[1] and all(found[0]) and sum(map(len, found[0])) == 20
    for wrong in ({"validation": 0.6, "test": 0.4}, {"test": 1e-9}, {"train": 0.5}):
        with pytest.raises(ConfigError, match="split"):
            loaded(tmp_path, {"train": rows}, split=wrong)
