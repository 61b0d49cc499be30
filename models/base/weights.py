"""Weights of a judge in safetensors, every key accounted for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.errors import JudgeLoadError

if TYPE_CHECKING:
    from torch import Tensor, nn

WEIGHTS_NAME = "model.safetensors"
_SHOWN = 6  # names in a message; a body has hundreds


def write_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Write ``tensors`` as a safetensors file."""
    from safetensors.torch import save_file

    state = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    save_file(state, path, metadata={"format": "pt"})


def read_weights(path: Path) -> dict[str, Tensor]:
    """The tensors of a safetensors file. Raises JudgeLoadError; opens no pickle, ever."""
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        there = sorted(p.name for p in path.parent.glob("*") if p.suffix in (".bin", ".pt", ".pkl"))
        only = f"; {', '.join(there)} is a pickle, which can run code when it is opened"
        raise JudgeLoadError(
            f"{path.parent}: the judge has no {path.name}{only if there else ''}",
            hint="copy or download the whole folder again",
        )
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise JudgeLoadError(f"{path}: not a whole safetensors file: {error}") from error


def load_weights(module: nn.Module, path: Path) -> None:
    """Give ``module`` the weights in ``path``, all of them and no others.

    Raises JudgeLoadError that names the keys that are missing, unexpected or of another shape: a
    head that kept its random weights would answer, and wrongly.
    """
    state = read_weights(path)
    require_same_keys(module.state_dict(), state, path)
    module.load_state_dict(state)


def require_same_keys(own: Mapping[str, Tensor], state: Mapping[str, Tensor], path: Path) -> None:
    """Raise JudgeLoadError that names the keys of ``state``, read from ``path``, that are missing,
    unexpected or of another shape beside ``own``."""
    shapes = {k: (list(v.shape), list(state[k].shape)) for k, v in own.items() if k in state}
    differences: dict[str, Iterable[str]] = {
        "missing": own.keys() - state.keys(),
        "unexpected": state.keys() - own.keys(),
        "of another shape": {f"{k} {b} instead of {a}" for k, (a, b) in shapes.items() if a != b},
    }
    problems = []
    for what, keys in differences.items():
        if names := sorted(keys):
            rest = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
            problems.append(f"{what} {', '.join(names[:_SHOWN])}{rest}")
    if problems:
        raise JudgeLoadError(
            f"{path}: weights and config do not fit: {'; '.join(problems)}",
            hint="the folder mixes files of two judges, or was saved by another version: "
            "copy or download it whole",
        )
