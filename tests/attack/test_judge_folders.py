"""A judge folder from anybody: it decides no server, key, cache or path, and runs no code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medal_judges import Judge
from medal_judges.errors import JudgeLoadError
from medal_judges.models.hybrid.judge import (
    Formula,
    HybridJudge,
    MemberConfig,
    load_member,
)
from medal_judges.models.model_files import base_hash
from medal_judges.records.dimension import Dimension, load_rubric

from ..linear_judges import random_judge

OVERALL = Dimension("overall", "ordinal", 1, 5)
ROOT = Path(__file__).parents[2]
MEDAL: dict[str, Any] = {
    "family": "prompted",
    "name": "medal",
    "prompts": "medal",
    "rubric": "medal",
    "llm": "embedded:smollm2",
}


@pytest.fixture
def hybrid(tmp_path: Path) -> Path:
    """A saved hybrid of one member in YAML."""
    one = load_member("one", MemberConfig(path="configs/judges/length.yaml"))
    judge = HybridJudge({"one": one}, {"overall": Formula(("one",), (1.0,))}, [OVERALL])
    return judge.save_pretrained(tmp_path / "hybrid")


def changed(folder: Path, change: Callable[[dict[str, Any]], object]) -> Path:
    """``folder`` after somebody wrote into its judge.json."""
    path = folder / "judge.json"
    config = json.loads(path.read_text())
    change(config)
    path.write_text(json.dumps(config))
    return folder


def state_base_hash(folder: Path) -> None:
    base = json.loads((folder / "judge.json").read_text())["linear"]["base"]
    now = base_hash(base, folder / "encoder")
    changed(folder, lambda c: c.update(base_hash=now))


def test_a_folder_decides_no_settings_of_a_member(hybrid: Path) -> None:
    """Not its server, key, cache, model or file: what judge.json says of them is not read."""
    setting = {"settings": MEDAL, "file": "/etc/passwd", "options": {"llm": "openai:x"}}
    changed(hybrid, lambda c: c["members"]["one"].update(setting))
    member = Judge.from_pretrained(hybrid).members["one"]
    assert member.file == "configs/judges/length.yaml" and not member.options


@pytest.mark.parametrize("name", ["/tmp/x", "..", "", "a\\b"])
def test_members_are_no_paths(hybrid: Path, name: str) -> None:
    changed(hybrid, lambda c: c["members"].update({name: c["members"].pop("one")}))
    with pytest.raises(JudgeLoadError, match="is a path"):
        Judge.from_pretrained(hybrid)


@pytest.mark.parametrize("shipped", ["/tmp/x", "../judges/length", ""])
def test_a_member_in_yaml_is_a_shipped_one(hybrid: Path, shipped: str) -> None:
    changed(hybrid, lambda c: c["members"]["one"].update(path=shipped))
    with pytest.raises(JudgeLoadError, match="is a path"):
        Judge.from_pretrained(hybrid)


def test_saving_leaves_out_the_server_and_loading_asks_for_it(tmp_path: Path) -> None:
    rubric = tmp_path / "mine.yaml"
    rubric.write_text((ROOT / "configs/rubrics/medal.yaml").read_text())
    judge = tmp_path / "judge.yaml"
    llm = {"model": "x", "backend": "openai", "base_url": "http://127.0.0.1:9/v1"}
    llm |= {"api_key_env": "MY_KEY", "cache": True}
    judge.write_text(json.dumps(MEDAL | {"llm": llm, "rubric": str(rubric)}))
    member = load_member("strong", MemberConfig(path=str(judge)))
    line = Formula(("strong",), (1.0,))
    made = HybridJudge({"strong": member}, {"overall": line}, [OVERALL])
    folder = made.save_pretrained(tmp_path / "hybrid")
    config = (folder / "judge.json").read_text()
    for secret in ("127.0.0.1", "MY_KEY", str(tmp_path)):
        assert secret not in config
    with pytest.raises(JudgeLoadError) as caught:
        Judge.from_pretrained(folder)
    assert caught.value.hint and "strong.path=" in caught.value.hint
    given = {"path": str(judge)}
    again = Judge.from_pretrained(folder, strong=given)
    assert str(again.signature()) == str(made.signature())
    assert made.unsaved_options() == {"strong": given}


# -- code ------------------------------------------------------------------------------------------

EVIL = "import pathlib\npathlib.Path({0!r}).write_text('ran')\nclass Evil:\n    pass\n"


@pytest.fixture
def encoder(tiny_bert: Path, tmp_path: Path) -> Path:
    return random_judge(tiny_bert, load_rubric("medal")).save_pretrained(
        tmp_path / "judge"
    )


@pytest.mark.parametrize("place", ["encoder/tokenizer_config.json", "judge.json"])
def test_auto_map_never_runs_code(
    encoder: Path, place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object) -> str:
        raise AssertionError("a question was asked at the terminal")

    monkeypatch.setattr("builtins.input", ask)
    witness = tmp_path / "witness"
    (encoder / "encoder" / "evil.py").write_text(EVIL.format(str(witness)))
    path = encoder / place
    config = json.loads(path.read_text())
    target = config["linear"] if place == "judge.json" else config
    target["auto_map"] = {
        "AutoTokenizer": ["evil.Evil", None],
        "AutoModel": "evil.Evil",
    }
    target["tokenizer_class"] = "Evil"
    path.write_text(json.dumps(config))
    with pytest.raises(JudgeLoadError, match="a judge folder must not contain code"):
        Judge.from_pretrained(encoder)
    assert not witness.exists()


@pytest.mark.parametrize("name", ["encoder/config.json", "judge.json", "x.yaml"])
def test_settings_above_one_mebibyte_are_refused(encoder: Path, name: str) -> None:
    (encoder / name).write_text(json.dumps({"padding": "x" * 2**20}))
    with pytest.raises(JudgeLoadError, match=name):
        Judge.from_pretrained(encoder)


# -- sizes -----------------------------------------------------------------------------------------

A_TO_AA = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
NOTHING_TO_A = {"type": "Replace", "pattern": {"Regex": "(?:)"}, "content": "a"}
PARTS = {"type": "TemplateProcessing", "single": [{"Sequence": {}}] * 1000}
MARK = {"id": 5, "content": "x"}
REFUSED: dict[str, dict[str, Any]] = {
    "judge.json": {"attn_implementation": "somebody/kernel"},
    "config.json layers": {"num_hidden_layers": 10**9},
    "config.json labels": {"num_labels": 10**6},
    "config.json groups": {"model_type": "albert", "num_hidden_groups": 200},
    "tokenizer_config.json": {"additional_special_tokens": ["x"] * 60_000},
    "tokenizer.json growth": {"normalizer": [A_TO_AA] * 34},
    "tokenizer.json nothing": {"normalizer": [NOTHING_TO_A] * 34},
    "tokenizer.json bytes": {"pre_tokenizer": [{"type": "ByteLevel"}] * 40},
    "tokenizer.json template": {"post_processor": PARTS},
    "tokenizer.json unknown": {"normalizer": {"type": "Python"}},
    "tokenizer.json marks": {"added_tokens": [MARK] * 300_000},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_on_the_list_is_refused_and_named(encoder: Path, name: str) -> None:
    place = name.split()[0]
    path = encoder / ("" if place == "judge.json" else "encoder") / place
    path.write_text(json.dumps(json.loads(path.read_text()) | REFUSED[name]))
    with pytest.raises(JudgeLoadError) as caught:
        Judge.from_pretrained(encoder)
    assert f"{encoder}: {path.relative_to(encoder)}" in caught.value.message


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 7])
def test_weights_that_are_not_finite_numbers_are_refused(
    encoder: Path, value: float
) -> None:
    path = encoder / ("encoder" * (value == 7)) / "model.safetensors"
    tensors = load_file(path)
    name = next(iter(tensors))
    tensors[name] = torch.full_like(tensors[name], value)
    if value == 7:
        tensors[name] = tensors[name].to(torch.int8)
    save_file(tensors, path, metadata={"format": "pt"})
    state_base_hash(encoder)
    with pytest.raises(JudgeLoadError, match=r"model\.safetensors"):
        Judge.from_pretrained(encoder)


@pytest.mark.parametrize(
    ("place", "problem"),
    [
        ("model.safetensors", "not finite numbers"),
        ("tokenizer_config.json", "beyond the network's vocabulary"),
        ("tokenizer.json", "damaged"),  # Rust panics
    ],
)
def test_a_base_that_does_not_fit_is_refused(
    encoder: Path, place: str, problem: str
) -> None:
    path = encoder / "encoder" / place
    if place == "model.safetensors":
        tensors = load_file(path)
        for tensor in tensors.values():
            tensor.fill_(float("nan"))
        save_file(tensors, path, metadata={"format": "pt"})
    else:
        changes = {
            "extra_special_tokens": {"x": "y"},
            "normalizer": {"type": "Precompiled", "precompiled_charsmap": None},
        }
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    state_base_hash(encoder)
    with pytest.raises(JudgeLoadError, match=problem):
        Judge.from_pretrained(encoder)


@pytest.mark.parametrize("name", ["x.json", "x.safetensors", "link", "links", "names"])
def test_only_files_of_the_folder_are_opened(encoder: Path, name: str) -> None:
    problem = "is not a file of the folder"
    if name.startswith("x."):
        os.mkfifo(encoder / name)
    elif name == "link":
        (encoder / "x").symlink_to("/")
    elif name == "links":
        (encoder / "x").symlink_to("y")
        (encoder / "y").symlink_to("x")
    else:
        problem = "names too many tensors"
        (encoder / "x.safetensors").write_bytes(
            (90_000_000).to_bytes(8, "little") + b"{"
        )
    with pytest.raises(JudgeLoadError, match=problem):
        Judge.from_pretrained(encoder)


def test_the_chat_template_of_an_adapter_is_that_of_its_base(judge_folder: Any) -> None:
    folder: Path = judge_folder("lora")
    for path in folder.rglob("chat_template.jinja"):
        path.write_text("{% for i in range(99999) %}{% for j in range(99999) %}")
    made: Any = Judge.from_pretrained(folder)
    assert "99999" not in made.tokenizer.chat_template
