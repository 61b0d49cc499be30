"""Whether a network that settings describe is the one in a file, asked before it is built.

Settings from anybody can describe a network of terabytes, or one with more layers than its weights,
which would then be drawn at random and answer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.saving import require_same_keys, require_weights_file

if TYPE_CHECKING:
    import torch
    from torch import nn

_COUNTS = ("layers", "num_hidden_layers", "num_layers", "n_layer", "n_layers", "members")
_TEXT_TOKENS = ("bos", "eos", "cls", "sep", "pad", "unk")
_HINT = "the folder mixes files of two judges: copy or download it whole"


def saved_shapes(path: Path) -> dict[str, torch.Tensor]:
    """The tensors of a safetensors file without their numbers (on the device ``meta``).

    Raises JudgeLoadError; reads the header only.
    """
    import torch
    from safetensors import SafetensorError, safe_open

    require_weights_file(path)
    try:
        with safe_open(path, "pt") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    except (SafetensorError, OSError) as error:
        raise JudgeLoadError(f"{path}: not a whole safetensors file: {error}") from error
    return {name: torch.empty(shape, device="meta") for name, shape in shapes.items()}


def require_countable(settings: Mapping[str, Any], tensors: int, where: Path) -> None:
    """Raise JudgeLoadError where ``settings`` name more layers than there are ``tensors``: so many
    cannot be built, not even without numbers."""
    for name in _COUNTS:
        value = settings.get(name)
        if isinstance(value, int | float) and value > tensors:
            raise JudgeLoadError(
                f"{where}: {name} is {value}, and the weights are {tensors} tensors", hint=_HINT
            )


@contextmanager
def shapes_only() -> Iterator[None]:
    """Networks built inside have no numbers and take no memory (device ``meta``)."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Undrawn(TorchFunctionMode):
        """Drawing nothing at random would load torch.compile, which takes longer than a network."""

        def __torch_function__(  # type: ignore[no-untyped-def]
            self, func, types, args=(), kwargs=None
        ) -> Any:
            given = kwargs or {}
            if getattr(func, "__module__", None) == "torch.nn.init":
                return given["tensor"] if "tensor" in given else args[0]
            return func(*args, **given)

    with torch.device("meta"), Undrawn():
        yield


def require_network(build: Callable[[], nn.Module], path: Path, *, besides: str = "") -> None:
    """Raise JudgeLoadError where what ``build`` builds has not the weights in ``path``; nothing is
    allocated. ``besides`` begins the names of weights that the file does not hold."""
    with shapes_only():
        state = build().state_dict()
    own = {k: v for k, v in state.items() if not (besides and k.startswith(besides))}
    require_same_keys(own, saved_shapes(path), path)


def require_whole_model(folder: Path) -> None:
    """Raise JudgeLoadError where config.json in ``folder`` (a transformers model) names more layers
    than its weights have tensors."""
    from transformers import PreTrainedConfig

    settings, _ = PreTrainedConfig.get_config_dict(folder)
    tensors = sum(len(saved_shapes(path)) for path in folder.glob("*.safetensors"))
    require_countable(settings, tensors, folder)


def require_vocabulary(tokenizer: Any, model: Any, folder: Path) -> None:
    """Raise JudgeLoadError where ``tokenizer`` has tokens that ``model`` has no vectors of.

    Of added tokens that are flagged as special those count that begin, end or fill up a text: some
    models of the Hub have one for images, without a vector, and no text is read as it
    (models/special_tokens.py).
    """
    rows = int(model.get_input_embeddings().weight.shape[0])
    ids = [getattr(tokenizer, f"{name}_token_id", None) for name in _TEXT_TOKENS]
    added = getattr(tokenizer, "added_tokens_decoder", {})
    ids += [number for number, token in added.items() if not token.special]
    tokens = max(tokenizer.vocab_size, *(0 if each is None else each + 1 for each in ids))
    if tokens > rows:
        raise JudgeLoadError(
            f"{folder}: its tokenizer has {tokens} tokens and its network vectors of {rows}",
            hint=_HINT,
        )


def require_all_loaded(loaded: Mapping[str, Any], folder: Path) -> None:
    """Raise JudgeLoadError where transformers' ``output_loading_info`` of the model in ``folder``
    names weights that were missing, too many or of another shape."""
    for what in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if names := sorted(map(str, loaded.get(what, ()))):
            raise JudgeLoadError(
                f"{folder}: its weights and its config.json do not fit: {what.replace('_', ' ')} "
                f"{', '.join(names[:6])}",
                hint=_HINT,
            )
