"""Judge folders are data: what could make a library run code out of one is refused by name.

transformers is told ``trust_remote_code=False`` at every call as well; this check needs no library
to honour it, and finds what has no such switch (the classes that modules.json names).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medal_judges.errors import JudgeLoadError

# auto_map: classes of a file in the folder. custom_pipelines: the same for pipelines.
# attn_implementation: may name a kernel of the Hub, which is code too.
_KEYS = ("auto_map", "custom_pipelines", "trust_remote_code")
_ATTENTION = ("attn_implementation", "_attn_implementation", "_attn_implementation_internal")
_PLAIN_ATTENTION = (
    None,
    "eager",
    "sdpa",
    "flash_attention_2",
    "flash_attention_3",
    "flex_attention",
)
_MODULES = ("Transformer", "Pooling", "Normalize")  # the rest can name functions to call
_LARGEST = 2_000_000  # bytes; vocabularies are larger, and hold no settings


def require_data_only(folder: Path) -> None:
    """Raise JudgeLoadError for settings anywhere in ``folder`` that name code to run."""
    for path in sorted(folder.rglob("*.json")):
        if path.stat().st_size > _LARGEST or path.name.startswith("tokenizer.json"):
            continue
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
        except (ValueError, RecursionError):
            continue  # whoever needs this file says what is wrong with it
        inside = path.relative_to(folder)
        for key, value in _entries(content):
            if key in _KEYS or (key in _ATTENTION and value not in _PLAIN_ATTENTION):
                raise _refused(folder, f"{inside} sets {key} to {value!r:.80}")
        if path.name == "modules.json":
            _require_known_modules(folder, inside, content)


def _entries(content: Any) -> Iterator[tuple[str, Any]]:
    """All (key, value) of the objects in ``content``, however deep."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value


def _require_known_modules(folder: Path, inside: Path, content: Any) -> None:
    for module in content if isinstance(content, list) else [content]:
        kind = module.get("type") if isinstance(module, dict) else module
        place = module.get("path", "") if isinstance(module, dict) else ""
        package, _, name = str(kind).rpartition(".")
        if not package.startswith("sentence_transformers.") or name not in _MODULES:
            raise _refused(folder, f"{inside} names the module {kind!r:.80}")
        if (
            not (folder / inside)
            .parent.joinpath(str(place))
            .resolve()
            .is_relative_to(folder.resolve())
        ):
            raise _refused(folder, f"{inside} names the place {place!r:.80}")


def _refused(folder: Path, what: str) -> JudgeLoadError:
    return JudgeLoadError(
        f"{folder}: {what}: a judge brings no code, and none is run",
        hint="do not use this folder unless you know who made it",
    )
