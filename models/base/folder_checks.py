"""What a judge's folder may hold: no code when it is loaded, no secrets when it is published.

transformers is told ``trust_remote_code=False`` at every call as well; the check for code needs no
library to honour it, and finds what has no such switch (the classes that modules.json names).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from medal_judges.errors import JudgeLoadError

# auto_map: classes of a file in the folder. custom_pipelines: the same for pipelines.
# attn_implementation: may name a kernel of the Hub, which is code too.
_CODE_KEYS = ("auto_map", "custom_pipelines", "trust_remote_code")
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
        for what in _code_in(content, path, folder):
            raise JudgeLoadError(
                f"{folder}: {path.relative_to(folder)} {what}: a judge brings no code, and none "
                "is run",
                hint="do not use this folder unless you know who made it",
            )


def _code_in(content: object, path: Path, folder: Path) -> Iterator[str]:
    for key, value in _entries(content):
        if key in _CODE_KEYS or (key in _ATTENTION and value not in _PLAIN_ATTENTION):
            yield f"sets {key} to {value!r:.80}"
    if path.name != "modules.json":
        return
    for module in content if isinstance(content, list) else [content]:
        kind = module.get("type") if isinstance(module, dict) else module
        place = module.get("path", "") if isinstance(module, dict) else ""
        package, _, name = str(kind).rpartition(".")
        if not package.startswith("sentence_transformers.") or name not in _MODULES:
            yield f"names the module {kind!r:.80}"
        if not (path.parent / str(place)).resolve().is_relative_to(folder.resolve()):
            yield f"names the place {place!r:.80}"


def _entries(content: object) -> Iterator[tuple[str, object]]:
    """All (key, value) of the objects in ``content``, however deep."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from value.items()
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
