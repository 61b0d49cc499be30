"""Weights: every key of a head is there, and no other."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.saving import load_weights


def test_all_keys_or_an_error_that_names_them(tmp_path: Path) -> None:
    net = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1))
    whole = {k: torch.full_like(v, 0.5) for k, v in net.state_dict().items()}
    path = tmp_path / "model.safetensors"
    save_file(whole, path)
    load_weights(net, path)
    assert all(bool((v == 0.5).all()) for v in net.state_dict().values())
    for changed, told in (
        ({k: v for k, v in whole.items() if k != "1.bias"}, r"missing 1\.bias"),
        (whole | {"2.weight": torch.zeros(1)}, r"unexpected 2\.weight"),
        (whole | {"0.bias": torch.zeros(5)}, r"of another shape 0\.bias \[5\] instead of \[2\]"),
    ):
        save_file({k: v * 0 for k, v in changed.items()}, path)
        with pytest.raises(JudgeLoadError, match=told):
            load_weights(net, path)
    assert all(bool((v == 0.5).all()) for v in net.state_dict().values())  # nothing half loaded


def test_pickles_and_broken_files_are_refused(tmp_path: Path) -> None:
    net = torch.nn.Linear(3, 2)
    path = tmp_path / "model.safetensors"
    torch.save(net.state_dict(), tmp_path / "model.bin")
    with pytest.raises(JudgeLoadError, match=r"no model\.safetensors, and a pickle"):
        load_weights(net, path)
    save_file(net.state_dict(), path)
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(JudgeLoadError, match="a damaged safetensors file"):
        load_weights(net, path)
