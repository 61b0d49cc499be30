"""Weights that are published as .bin alone: tensors are read, nothing is run."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch

from medal_judges.errors import MedalError
from medal_judges.models.llm.loading import load_llm

from . import architectures


@pytest.fixture
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as of 2023: two .bin files with their index, no safetensors."""
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "vicuna"
    model = architectures.tiny_model("llama")
    model.config.save_pretrained(folder)
    architectures.tiny_tokenizer().save_pretrained(folder)
    state = model.state_dict()
    parts = [dict(list(state.items())[0::2]), dict(list(state.items())[1::2])]
    places = {}
    for number, part in enumerate(parts, start=1):
        name = f"pytorch_model-{number:05d}-of-00002.bin"
        torch.save(part, folder / name)
        places |= dict.fromkeys(part, name)
    index = {"metadata": {}, "weight_map": places}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index))
    return folder


def test_they_are_read_with_the_flag_alone_and_are_part_of_the_fingerprint(
    published: Path,
) -> None:
    with pytest.raises(MedalError) as refused:
        load_llm({"model": str(published), "device": "cpu"})
    assert "llm.bin_weights=true" in str(refused.value.hint)
    llm: Any = load_llm({"model": str(published), "device": "cpu", "bin_weights": True})
    wanted = architectures.tiny_model("llama").state_dict()
    given = llm.model.state_dict()
    assert given.keys() == wanted.keys()
    assert all(torch.equal(given[name], wanted[name]) for name in wanted)
    assert llm.name == "vicuna"
    state = torch.load(published / "pytorch_model-00001-of-00002.bin")
    torch.save(
        {k: v + 1 for k, v in state.items()},
        published / "pytorch_model-00001-of-00002.bin",
    )
    other = load_llm(
        {"model": str(published), "device": "cpu", "bin_weights": True, "context": 99}
    )
    assert other.identity()["weights"] != llm.identity()["weights"]


class Evil:
    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.mark),)


def test_a_file_that_would_run_something_is_refused(
    published: Path, tmp_path: Path
) -> None:
    mark = tmp_path / "it-ran"
    torch.save({"a": Evil(mark)}, published / "pytorch_model-00002-of-00002.bin")
    with pytest.raises(MedalError, match="Weights only load failed"):
        load_llm({"model": str(published), "device": "cpu", "bin_weights": True})
    assert not mark.exists()
