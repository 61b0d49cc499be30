"""Checkpoints: pickles are refused, and the line the error gives does convert them."""

import re
import shlex
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.saving import load_judge

JUDGE = "configs/judges/unieval.yaml"


@pytest.fixture
def pickled(tiny_t5: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "published"
    shutil.copytree(tiny_t5, folder)
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    return folder


def test_a_pickle_is_refused_and_the_hint_converts_it(
    pickled: Path, tiny_t5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(JudgeLoadError, match="no safetensors file") as caught:
        load_judge(JUDGE, model=str(pickled), device="cpu")
    (line,) = re.findall(r"^ *(python -c .*)$", str(caught.value), re.MULTILINE)
    monkeypatch.chdir(pickled.parent)
    commands = shlex.split(line)
    assert commands[:2] == commands[4:6] == ["python", "-c"] and commands[3] == "&&"
    exec(commands[2], {})
    exec(commands[6], {})
    converted = load_judge(JUDGE, model=str(pickled.parent / "published-safetensors"), device="cpu")
    first = load_judge(JUDGE, model=str(tiny_t5), device="cpu")
    assert converted.signature().revision == first.signature().revision
    assert first.signature().base == "unieval"  # no path


def test_the_wrong_architecture_is_refused(tiny_roberta: Path) -> None:
    with pytest.raises(JudgeLoadError, match="it is a roberta, not a t5"):
        load_judge(JUDGE, model=str(tiny_roberta), device="cpu")


def test_missing_weights_are_not_drawn_at_random(tiny_t5: Path, tmp_path: Path) -> None:
    folder = tmp_path / "short"
    shutil.copytree(tiny_t5, folder)
    state = load_file(folder / "model.safetensors")
    del state["decoder.final_layer_norm.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(JudgeLoadError, match=r"decoder\.final_layer_norm\.weight"):
        load_judge(JUDGE, model=str(folder), device="cpu")
