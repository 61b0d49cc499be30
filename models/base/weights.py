"""Weights of a judge from safetensors, every key accounted for."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import JudgeLoadError

if TYPE_CHECKING:
    from torch import Tensor, nn

_SHOWN = 6  # names in a message; a body has hundreds


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
    assign_weights(module, read_weights(path), str(path))


def assign_weights(module: nn.Module, state: Mapping[str, Any], where: str) -> None:
    """``load_weights`` of tensors that are read already; ``where`` names them in the message."""
    require_same_keys(module.state_dict(), state, where)
    module.load_state_dict(state)


def require_same_keys(own: Mapping[str, Any], state: Mapping[str, Any], where: str) -> None:
    """Raise JudgeLoadError that names the keys of ``state`` that are missing, unexpected or of
    another shape beside ``own``."""
    problems = [
        *_named("missing", own.keys() - state.keys()),
        *_named("unexpected", state.keys() - own.keys()),
        *_shapes(own, state),
    ]
    if problems:
        raise JudgeLoadError(
            f"{where}: weights and config do not fit: {'; '.join(problems)}",
            hint="the folder mixes files of two judges, or was saved by another version: "
            "copy or download it whole",
        )


def _named(what: str, keys: Collection[str]) -> list[str]:
    if not keys:
        return []
    rest = f" and {len(keys) - _SHOWN} more" if len(keys) > _SHOWN else ""
    return [f"{what} {', '.join(sorted(keys)[:_SHOWN])}{rest}"]


def _shapes(own: Mapping[str, Any], state: Mapping[str, Any]) -> list[str]:
    wrong = [k for k in own if k in state and own[k].shape != state[k].shape]
    told = {f"{k} {list(state[k].shape)} instead of {list(own[k].shape)}" for k in wrong}
    return _named("of another shape", told)
