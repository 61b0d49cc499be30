"""Every file of a saved judge cut, swapped, of another shape or of a size that no file has:
an error that names the folder, or the judge as it was; never a traceback, a pickle that is opened,
or a judge with weights that nobody trained."""

from __future__ import annotations

import json
import pickle
import resource
import shutil
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
# One family in the timed suite; the others take minutes together.
SOME = ["encoder", *(pytest.param(f, marks=pytest.mark.slow) for f in FAMILIES if f != "encoder")]
DIALOGUES = [
    Dialogue(str(n), (Turn("user", "music " * n), Turn("assistant", "film river"))) for n in (1, 5)
]
# What of a judge's folder is read when it is loaded.
READ = (".json", ".safetensors", ".txt", ".yaml", ".model", ".jinja")


SOME_LORA = [pytest.param(f, marks=pytest.mark.slow) for f in ("lora", "generative")]
GROWTH = 1 << 20  # KiB of memory that a damaged judge of kilobytes may take: 1 GiB


def peak() -> int:
    """The most memory that this process has had, in KiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def files(folder: Path) -> list[Path]:
    return sorted(p for p in folder.rglob("*") if p.is_file() and p.suffix in READ)


def scores(folder: Path) -> list[Any]:
    judge = Judge.from_pretrained(folder)
    return [dict(judgement.scores) for judgement in judge.score(DIALOGUES)]


def outcome(folder: Path) -> list[Any] | str:
    """The scores, or the message of the error that is meant for such a folder."""
    try:
        return scores(folder)
    except MedalError as error:
        assert len(str(error)) < 4000
        return str(error)


def cut(data: bytes) -> bytes:
    return data[: len(data) // 2]


def longer(data: bytes) -> bytes:
    return data + b"\x00" * 100


def flipped(data: bytes) -> bytes:
    return data[:20] + bytes([data[20] ^ 0x40]) + data[21:] if len(data) > 20 else b"x"


CONTENT: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "cut": cut,
    "longer": longer,
    "flipped": flipped,
    "null": lambda data: b"null",
    "a list": lambda data: b"[]",
    "an object": lambda data: b"{}",
    "text": lambda data: b'"x"',
    "deep": lambda data: b"[" * 100_000,
    "no UTF-8": lambda data: b"\xff\xfe\x00",
    "pickle": lambda data: pickle.dumps({"a": 1}),
}


@pytest.mark.parametrize("family", SOME)
def test_a_file_that_is_not_what_it_was(family: str, judge_folder: Copy) -> None:
    folder = judge_folder(family)
    wanted = scores(folder)
    for path in files(folder):
        data = path.read_bytes()
        for name, change in CONTENT.items():
            path.write_bytes(change(data))
            found = outcome(folder)
            # Settings of a tokenizer and the like can be missing; what is read stays the same.
            if path.suffix == ".safetensors" and name not in ("flipped", "longer"):
                assert isinstance(found, str), (path, name)
            assert isinstance(found, str) or len(found) == len(wanted)
        path.unlink()
        outcome(folder)
        path.write_bytes(data)
    assert outcome(folder) == wanted


def declared(header: object) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text


HUGE: dict[str, bytes] = {
    "a header of 8 EB": struct.pack("<Q", 1 << 63) + b"{}",
    "a header of 4 GB": struct.pack("<Q", 1 << 32) + b"{}",
    "a tensor of 1 TB": declared(
        {"a": {"dtype": "F32", "shape": [1 << 38], "data_offsets": [0, 1 << 40]}}
    ),
    "offsets backwards": declared({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}}),
    "a negative shape": declared({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 4]}}),
    "no such type": declared({"a": {"dtype": "F7", "shape": [1], "data_offsets": [0, 4]}}),
}


@pytest.mark.parametrize("family", SOME)
@pytest.mark.parametrize("kind", HUGE)
def test_sizes_that_no_file_has(family: str, kind: str, judge_folder: Copy) -> None:
    folder = judge_folder(family)
    for path in folder.rglob("*.safetensors"):
        data = path.read_bytes()
        path.write_bytes(HUGE[kind])
        assert isinstance(outcome(folder), str), path
        path.write_bytes(data)


# Settings of a network that its weights are not of.
SIZES = (
    *("hidden_size", "num_hidden_layers", "vocab_size", "intermediate_size"),
    *("num_attention_heads", "max_position_embeddings", "type_vocab_size"),
)


@pytest.mark.parametrize("family", SOME)
@pytest.mark.parametrize("value", [0, 3, 1 << 40, "many", None])
def test_a_network_of_another_size_than_its_weights(
    family: str, value: Any, judge_folder: Copy
) -> None:
    folder = judge_folder(family)
    wanted, memory = scores(folder), peak()
    for path in folder.rglob("config.json"):
        before = path.read_text()
        whole = json.loads(before)
        config = whole.get("body", whole)
        for name in (n for n in SIZES if n in config):
            path.write_text(json.dumps(changed_at(whole, name, value)))
            found = outcome(folder)
            if isinstance(found, list):  # weights of another shape would be drawn at random
                assert name in ("num_attention_heads", "max_position_embeddings") or (
                    found == wanted
                ), (path, name, value, found)
                assert outcome(folder) == found
        path.write_text(before)
    assert peak() - memory < GROWTH


# Settings of the judge's own, by family, that say how much is built.
OWN_SIZES = {
    "encoder": ("width", "layers", "members", "attention_heads"),
    "lora": ("rank",),
    "generative": ("rank",),
}


@pytest.mark.parametrize("family", [p for p in SOME if p == "encoder"] + SOME_LORA)
@pytest.mark.parametrize("value", [0, 3, 1 << 20, 1 << 40, -1, "many", None])
def test_own_settings_of_a_size_that_no_machine_has(
    family: str, value: Any, judge_folder: Copy
) -> None:
    folder = judge_folder(family)
    path, wanted, before = folder / "config.json", scores(folder), peak()
    whole = json.loads(path.read_text())
    part = "encoder" if family == "encoder" else "lora"
    for name in OWN_SIZES[family]:
        path.write_text(json.dumps(whole | {part: whole[part] | {name: value}}))
        found = outcome(folder)
        assert isinstance(found, str) or found == wanted or name == "attention_heads", (name, found)
    assert peak() - before < GROWTH


def changed_at(whole: dict[str, Any], name: str, value: Any) -> dict[str, Any]:
    if "body" in whole:
        return whole | {"body": whole["body"] | {name: value}}
    return whole | {name: value}


@pytest.mark.parametrize("family", SOME)
def test_config_fields_of_another_type_or_missing(family: str, judge_folder: Copy) -> None:
    folder = judge_folder(family)
    path = folder / "config.json"
    whole = json.loads(path.read_text())
    for name in whole:
        for value in (None, 5, "x", [], {}, [[]], True, 1e308):
            path.write_text(json.dumps(whole | {name: value}))
            outcome(folder)
        path.write_text(json.dumps({k: v for k, v in whole.items() if k != name}))
        outcome(folder)
    path.write_text(json.dumps(whole | {"more": {"a": 1}}))
    outcome(folder)


@pytest.mark.slow
def test_files_of_another_judge(judge_folder: Copy, made_judges: dict[str, Path]) -> None:
    for family in FAMILIES:
        for other in FAMILIES:
            if family == other:
                continue
            folder = judge_folder(family)
            for path in files(folder):
                same = made_judges[other] / path.relative_to(folder)
                if same.is_file() and same.read_bytes() != path.read_bytes():
                    data = path.read_bytes()
                    shutil.copyfile(same, path)
                    try:
                        outcome(folder)
                    except Exception as error:
                        raise AssertionError(f"{path} of {other}") from error
                    path.write_bytes(data)
            shutil.rmtree(folder)


class Bomb:
    def __init__(self, witness: Path) -> None:
        self.witness = str(witness)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(self.witness),))


@pytest.mark.parametrize("family", SOME)
def test_pickles_beside_are_never_opened(family: str, judge_folder: Copy, tmp_path: Path) -> None:
    folder, witness = judge_folder(family), tmp_path / "witness"
    wanted = scores(folder)
    bomb = pickle.dumps(Bomb(witness))
    names = ("pytorch_model.bin", "adapter_model.bin", "model.pt", "training_args.bin", "x.pkl")
    for place in [folder, *(p for p in folder.rglob("*") if p.is_dir())]:
        for name in names:
            (place / name).write_bytes(bomb)
    assert outcome(folder) == wanted
    for path in list(folder.rglob("*.safetensors")):  # nor where the safetensors are missing
        path.rename(path.with_suffix(".gone"))
        assert isinstance(outcome(folder), str), path
        path.with_suffix(".gone").rename(path)
    assert not witness.exists()
