"""A judge's revision sees what its numbers depend on: one flipped bit of the weights, a shuffled
vocabulary or another setting is another judge, and no old figure is taken for its own."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medal_judges import Judge
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.saving import hash_judge_files

from .conftest import FAMILIES
from .every_command import some

Copy = Callable[[str], Path]


def revision(folder: Path) -> str:
    """The revision; a linear judge whose base was changed is not loaded."""
    try:
        return str(Judge.from_pretrained(folder).signature().revision)
    except JudgeLoadError as error:
        assert "other weights" in str(error)
        return hash_judge_files(folder)


def scaled(path: Path) -> None:
    tensors = {name: tensor * 1.01 for name, tensor in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})


def flipped(path: Path) -> None:
    """The lowest bit of one number in the middle, size and times of the file as before."""
    about = path.stat()
    data = bytearray(path.read_bytes())
    data[-8] ^= 1
    path.write_bytes(data)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))


def shuffled(path: Path) -> None:
    """Two words of the vocabulary change places."""
    content = json.loads(path.read_text())
    words = content["model"]["vocab"]
    one, other = list(words)[-2:]
    words[one], words[other] = words[other], words[one]
    path.write_text(json.dumps(content))


def changed_field(path: Path, change: Callable[[Any], None]) -> None:
    content = json.loads(path.read_text())
    change(content)
    path.write_text(json.dumps(content))


def files(folder: Path, name: str) -> list[Path]:
    found = sorted(folder.rglob(name))
    assert found
    return found


@pytest.mark.parametrize("family", some(FAMILIES, 9))
def test_weights_and_tokenizer_are_in_the_revision(
    family: str, judge_folder: Copy
) -> None:
    folder = judge_folder(family)
    seen = {revision(folder)}
    for path in files(folder, "*.safetensors"):
        for change in (scaled, flipped):
            change(path)
            now = revision(folder)
            assert now not in seen, (path, change)
            seen.add(now)
    for path in files(folder, "tokenizer.json"):
        shuffled(path)
        now = revision(folder)
        assert now not in seen, path
        seen.add(now)


@pytest.mark.parametrize("family", some(FAMILIES, 9))
def test_who_wrote_a_folder_when_and_where_is_not(
    family: str, judge_folder: Copy, tmp_path: Path
) -> None:
    folder = judge_folder(family)
    first = revision(folder)
    again = Judge.from_pretrained(folder)
    assert (
        again.save_pretrained(tmp_path / "elsewhere")
        and again.signature().revision == first
    )
    assert revision(tmp_path / "elsewhere") == first
    (folder / "README.md").write_text("a card")
    (folder / "golden.json").write_text("{}")
    (folder / "checkpoints").mkdir()
    save_file({"a": torch.ones(3)}, folder / "checkpoints" / "model.safetensors")
    for path in folder.rglob("*.json"):
        if "transformers_version" in path.read_text():
            changed_field(path, lambda c: c.update(transformers_version="4.0.0"))
    changed_field(folder / "judge.json", lambda c: c["facts"].update(seconds=3))
    for path in folder.rglob("tokenizer.json"):  # as it is left behind by a call
        changed_field(path, lambda c: c.update(truncation=None, padding=None))
    assert revision(folder) == first


def test_a_setting_that_the_numbers_depend_on_is_in_the_revision(
    judge_folder: Copy,
) -> None:
    folder = judge_folder("encoder")
    first = revision(folder)
    changed_field(folder / "judge.json", lambda c: c["encoder"].update(max_tokens=32))
    assert revision(folder) != first


def test_the_base_under_an_adapter_is_in_the_revision(
    judge_folder: Copy, tiny_llama: Path, tmp_path: Path
) -> None:
    folder, base = judge_folder("lora"), tmp_path / "base"
    shutil.copytree(tiny_llama, base)
    changed_field(folder / "judge.json", lambda c: c["lora"].update(base=str(base)))
    first = revision(folder)
    flipped(base / "model.safetensors")
    second = revision(folder)
    scaled(base / "model.safetensors")
    assert len({first, second, revision(folder)}) == 3
