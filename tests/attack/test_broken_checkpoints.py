"""Folders of the families that test_broken_folders.py does not have: the judge in the package (no
body of its own), feature judges (no weights), and published metrics (plain checkpoints): every file
damaged gives the scores as they were, or an error that says which folder; never a traceback."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.models.trained_metrics.conftest import tiny_roberta, tiny_t5  # noqa: F401

from medal_judges import Judge
from medal_judges.errors import MedalError
from medal_judges.models.base.saving import load_judge
from medal_judges.models.feature.judge import FeatureJudge
from medal_judges.shipped import boxed_folder

from .test_broken_folders import CONTENT, DIALOGUES, HUGE, SIZES, files

Load = Callable[[Path], Judge]
LOADED: dict[str, Load] = {
    "boxed": lambda folder: Judge.from_pretrained(folder),
    "feature": lambda folder: Judge.from_pretrained(folder),
    "unieval": lambda folder: load_judge("configs/judges/unieval.yaml", model=str(folder)),
    "endex": lambda folder: load_judge(
        "configs/judges/endex.yaml", model=str(folder), tokenizer=None
    ),
}

# Every field and file of these in turn takes half a minute each: once in a while.
LONG = ("boxed", "unieval")
QUICK_FIRST = [
    pytest.param(name, marks=pytest.mark.slow if name in LONG else ()) for name in LOADED
]


@pytest.fixture
def copy_of(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[[str], Path]:
    def copied(family: str) -> Path:
        folder = tmp_path / family
        if family == "feature":
            judge = Judge.from_pretrained("configs/judges/length.yaml")
            assert isinstance(judge, FeatureJudge)
            return judge.save_pretrained(folder)
        fixtures = {"unieval": "tiny_t5", "endex": "tiny_roberta"}
        source = boxed_folder() if family == "boxed" else request.getfixturevalue(fixtures[family])
        shutil.copytree(source, folder)
        return folder

    return copied


def outcome(load: Load, folder: Path) -> list[Any] | str:
    try:
        return [dict(told.scores) for told in load(folder).score(DIALOGUES)]
    except MedalError as error:
        assert len(str(error)) < 4000
        return str(error)


@pytest.mark.parametrize("family", QUICK_FIRST)
def test_a_file_that_is_not_what_it_was(family: str, copy_of: Callable[[str], Path]) -> None:
    load, folder = LOADED[family], copy_of(family)
    wanted = outcome(load, folder)
    assert isinstance(wanted, list)
    for path in files(folder):
        data = path.read_bytes()
        for name, change in CONTENT.items():
            path.write_bytes(change(data))
            found = outcome(load, folder)
            if path.suffix == ".safetensors" and name not in ("flipped", "longer"):
                assert isinstance(found, str), (path, name)
        path.unlink()
        outcome(load, folder)
        path.write_bytes(data)
    assert outcome(load, folder) == wanted


@pytest.mark.parametrize("family", ["boxed", "unieval", "endex"])
def test_sizes_that_no_file_has(family: str, copy_of: Callable[[str], Path]) -> None:
    load, folder = LOADED[family], copy_of(family)
    for path in folder.rglob("*.safetensors"):
        for kind, content in HUGE.items():
            path.write_bytes(content)
            assert isinstance(outcome(load, folder), str), (path, kind)


@pytest.mark.parametrize("family", ["unieval", "endex"])
@pytest.mark.parametrize("value", [0, 3, "many", None])
def test_a_network_of_another_size_than_its_weights(
    family: str, value: Any, copy_of: Callable[[str], Path]
) -> None:
    load, folder = LOADED[family], copy_of(family)
    wanted = outcome(load, folder)
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    for name in (*SIZES, "d_model", "d_ff", "num_layers", "num_heads", "num_decoder_layers"):
        if name in whole:
            path.write_text(json.dumps(whole | {name: value}))
            found = outcome(load, folder)
            heads = name in ("num_attention_heads", "num_heads", "max_position_embeddings")
            assert isinstance(found, str) or heads or found == wanted, (name, value)


@pytest.mark.parametrize("family", QUICK_FIRST)
def test_config_fields_of_another_type_or_missing(
    family: str, copy_of: Callable[[str], Path]
) -> None:
    load, folder = LOADED[family], copy_of(family)
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    for name in whole:
        for value in (None, 5, "x", [], {}, [[]], True, 1e308):
            path.write_text(json.dumps(whole | {name: value}))
            outcome(load, folder)
        path.write_text(json.dumps({k: v for k, v in whole.items() if k != name}))
        outcome(load, folder)
