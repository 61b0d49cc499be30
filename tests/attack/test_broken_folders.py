"""Every file of a saved judge or checkpoint damaged, and configs with other sizes and types: an
error that names the folder, or the same judge; never a traceback, an opened pickle, or a judge with
untrained weights. The suite takes one family and some damages; nightly takes all."""

from __future__ import annotations

import json
import pickle
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medal_judges import Judge
from medal_judges.errors import MedalError
from medal_judges.records.dialogue import Dialogue, Turn

from .conftest import FAMILIES

Copy = Callable[[str], Path]
NIGHTLY = pytest.mark.nightly
SOME = [pytest.param(f, marks=() if f == "encoder" else NIGHTLY) for f in FAMILIES]
DIALOGUES = [
    Dialogue(str(n), (Turn("user", "music " * n), Turn("assistant", "film river")))
    for n in (1, 5)
]
READ = (".json", ".safetensors", ".txt", ".yaml", ".model", ".jinja")  # read in loading


def outcome(folder: Path) -> list[Any] | str:
    """The scores, or the message of the error for such a folder."""
    try:
        judge = Judge.from_pretrained(folder)
        return [dict(judgement.scores) for judgement in judge.score(DIALOGUES)]
    except MedalError as error:
        assert len(str(error)) < 4000
        return str(error)


def same(one: list[Any] | str, other: list[Any] | str) -> bool:
    """Whether two outcomes are scores, and the same ones."""
    if isinstance(one, str) or isinstance(other, str):
        return False
    pairs = zip(one, other, strict=True)
    return all(scores == pytest.approx(wanted, abs=4e-5) for scores, wanted in pairs)


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in READ)


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "cut": lambda data: data[: len(data) // 2],
    "an object": lambda data: b"{}",
    "pickle": lambda data: pickle.dumps({"a": 1}),
    "deep": lambda data: b"[" * 100_000,
    "longer": lambda data: data + b"\x00" * 100,
    "flipped": lambda data: (
        data[:20] + bytes([data[20] ^ 0x40]) + data[21:] if data[20:] else b"x"
    ),
}


def damage_every_file(folder: Path, names: list[str]) -> None:
    wanted = outcome(folder)
    assert isinstance(wanted, list)
    for path in files(folder):
        data = path.read_bytes()
        for name in names:
            path.write_bytes(DAMAGES[name](data))
            found = outcome(folder)
            if path.suffix == ".safetensors" and name not in ("flipped", "longer"):
                assert isinstance(found, str), (path, name)
            assert isinstance(found, str) or len(found) == len(wanted)
        path.unlink()
        outcome(folder)
        path.write_bytes(data)
    assert same(outcome(folder), wanted)


def test_a_damaged_file(judge_folder: Copy) -> None:
    damage_every_file(judge_folder("encoder"), list(DAMAGES)[:4])


@NIGHTLY
@pytest.mark.parametrize("family", FAMILIES)
def test_every_damage_of_every_file(family: str, judge_folder: Copy) -> None:
    damage_every_file(judge_folder(family), list(DAMAGES))


def declared(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


HUGE: dict[str, bytes] = {
    "a header of 8 EB": struct.pack("<Q", 1 << 63) + b"{}",
    "a tensor of 1 TB": declared(
        {"a": {"dtype": "F32", "shape": [1 << 38], "data_offsets": [0, 1 << 40]}}
    ),
    "offsets backwards": declared(
        {"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}
    ),
}


@pytest.mark.parametrize("family", SOME)
def test_weights_whose_header_lies(family: str, judge_folder: Copy) -> None:
    folder = judge_folder(family)
    for path in folder.rglob("*.safetensors"):
        data = path.read_bytes()
        for kind, content in HUGE.items():
            path.write_bytes(content)
            assert isinstance(outcome(folder), str), (path, kind)
        path.write_bytes(data)


SIZES = (
    *("hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"),
    *("num_attention_heads", "max_position_embeddings", "type_vocab_size"),
)


@pytest.mark.parametrize("family", SOME)
def test_a_network_of_another_size_than_its_weights(
    family: str, judge_folder: Copy
) -> None:
    folder = judge_folder(family)
    wanted = outcome(folder)
    for path in folder.rglob("*.json"):
        before = path.read_text()
        whole = json.loads(before)
        config = whole.get("body", whole)
        for name in (n for n in SIZES if n in config):
            changed = config | {name: 3}
            path.write_text(
                json.dumps(whole | {"body": changed} if "body" in whole else changed)
            )
            found = outcome(folder)
            # no weight's shape
            free = name in ("num_attention_heads", "max_position_embeddings")
            assert isinstance(found, str) or free or same(found, wanted), (
                path,
                name,
                found,
            )
        path.write_text(before)


class Bomb:
    def __init__(self, witness: Path) -> None:
        self.witness = str(witness)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.witness),))


@pytest.mark.parametrize("family", SOME)
def test_pickles_beside_are_never_opened(
    family: str, judge_folder: Copy, tmp_path: Path
) -> None:
    folder, witness = judge_folder(family), tmp_path / "witness"
    wanted, bomb = outcome(folder), pickle.dumps(Bomb(witness))
    names = (
        "pytorch_model.bin",
        "adapter_model.bin",
        "model.pt",
        "training_args.bin",
        "x.pkl",
    )
    for place in [folder, *(p for p in folder.rglob("*") if p.is_dir())]:
        for name in names:
            (place / name).write_bytes(bomb)
    assert same(outcome(folder), wanted)
    for path in list(folder.rglob("*.safetensors")):  # nor without the safetensors
        path.rename(path.with_suffix(".gone"))
        assert isinstance(outcome(folder), str), path
        path.with_suffix(".gone").rename(path)
    assert not witness.exists()
