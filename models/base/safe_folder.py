"""Checks that a judge folder, which can come from anybody, holds data and no code.

The checks run before anything is loaded. They refuse what they do not know."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medal_judges.errors import JudgeLoadError

LARGEST_SETTINGS = 1 << 20  # bytes of a JSON or YAML file
_LARGEST_TEXT = 1 << 25  # bytes of a vocabulary; gemma3 has 33.4 MB
_VOCABULARIES = ("tokenizer.json", "vocab.json", "added_tokens.json")
_LONGEST_HEADER = (
    1 << 22
)  # bytes of the names in a file of weights; some 40,000 tensors
# Networks of the judges that are saved with one, and of the published metrics.
ARCHITECTURES = (
    "bert",
    "camembert",
    "deberta",
    "deberta-v2",
    "distilbert",
    "electra",
    "ernie",
    "eurobert",
    "gte",
    "modernbert",
    "mpnet",
    "nomic_bert",
    "roberta",
    "t5",
    "xlm-roberta",
    "xlm-roberta-xl",
    "llama",
    "qwen2",
    "qwen3",
    "gemma3_text",
)
_LARGEST_NUMBER = 1_000_000  # of a setting: words of a vocabulary
_MOST_LAYERS = 256
_LONGEST_LIST = 10_000  # entries of a list or an object
_INTEGERS = re.compile(
    rb'"dtype":\s*"(C|U|I(?!64))'
)  # old BERTs number positions by I64
_ATTENTION = (None, "eager", "sdpa", "flash_attention_2", "flash_attention_3")
_STEPS = (
    "Sequence",
    "BertPreTokenizer",
    "ByteLevel",
    "Digits",
    "Metaspace",
    "Punctuation",
    "Split",
    "Whitespace",
    "WhitespaceSplit",
    "BertNormalizer",
    "Lowercase",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Precompiled",
    "Prepend",
    "Replace",
    "Strip",
    "StripAccents",
    "BertProcessing",
    "RobertaProcessing",
    "TemplateProcessing",
)
_MOST_GROWTH = 100  # characters that these parts may make of one
_MOST_MARKS = 10_000  # added tokens of a vocabulary
_MOST_STEPS = 100  # such parts
_LONGEST_TEMPLATE = 10_000  # characters of a post-processor's JSON


def require_safe_folder(folder: Path) -> None:
    """Raises JudgeLoadError if loading the judge in ``folder`` could run code or
    exhaust the memory.

    It refuses pipes, links that lead out of the folder, files that are too large, and files with a
    forbidden setting, such as ``auto_map``.
    """
    from huggingface_hub.constants import HF_HUB_CACHE

    # The Hub's cache consists of links.
    roots = folder.resolve(), Path(HF_HUB_CACHE).resolve()
    paths = sorted(folder.rglob("*"))
    for path in paths:  # all of them before one is opened: a pipe would not let go
        real = Path(os.path.realpath(path))  # does not fail for links in a circle
        is_inside = any(map(real.is_relative_to, roots))
        if not is_inside or not (real.is_file() or real.is_dir()):
            raise _refusal(
                folder, path, "is not a file of the folder: a link or a pipe"
            )
    for path in filter(Path.is_file, paths):
        for problem in _file_problems(path):
            raise _refusal(folder, path, problem)


def _refusal(folder: Path, path: Path, problem: str) -> JudgeLoadError:
    return JudgeLoadError(
        f"{folder}: {path.relative_to(folder)} {problem}",
        hint="Do not use this folder unless you know who made it",
    )


def _file_problems(path: Path) -> Iterator[str]:
    """Yields a message for each thing in the file ``path`` that is forbidden."""
    is_vocabulary = path.name in _VOCABULARIES
    is_settings = "config" in path.name or path.name in ("judge.json", "golden.json")
    if path.suffix == ".safetensors":
        with path.open("rb") as stream:
            size = int.from_bytes(stream.read(8), "little")
            if size > _LONGEST_HEADER:
                yield f"names too many tensors: above {_LONGEST_HEADER:,} bytes of names"
            elif _INTEGERS.search(stream.read(size)):
                yield "has weights that are whole or complex numbers"
    elif path.suffix == ".yaml" or (path.suffix == ".json" and is_settings):
        yield from _file_size_problems(path, LARGEST_SETTINGS)
    elif is_vocabulary or path.suffix in (".txt", ".model", ".jinja"):
        yield from _file_size_problems(path, _LARGEST_TEXT)
    if path.suffix == ".json" and (is_settings or path.name == "tokenizer.json"):
        yield from _content_problems(path)


def _file_size_problems(path: Path, most: int) -> Iterator[str]:
    size = path.stat().st_size
    if size > most:
        yield f"has {size:,} bytes, and at most {most:,} are allowed"


def _content_problems(path: Path) -> Iterator[str]:
    """Yields a message for each forbidden thing in ``path``, a JSON file of settings or a
    tokenizer."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        return  # loading reports what is wrong with it, if the file is needed
    if not isinstance(content, dict):
        return
    if path.name == "tokenizer.json":
        yield from _tokenizer_problems(content)
        return
    yield from _code_problems(content)
    if path.name in ("config.json", "adapter_config.json", "tokenizer_config.json"):
        yield from _setting_size_problems(content)
    kind = content.get("model_type")
    is_network = kind is not None or not re.match(r"\d_", path.parent.name)
    if path.name == "config.json" and is_network and kind not in ARCHITECTURES:
        yield f"has the model_type {kind!r:.80}, which is not one of {', '.join(ARCHITECTURES)}"


def _code_problems(content: Mapping[str, Any]) -> Iterator[str]:
    """Yields a message for each setting in ``content`` that makes transformers run downloaded code
    or quantize the network."""
    for settings in _objects_in(content):
        for key, value in settings.items():
            is_code = key in ("auto_map", "custom_pipelines", "trust_remote_code")
            is_kernel = "attn_implementation" in key and value not in _ATTENTION
            if is_code or is_kernel or key == "quantization_config":
                yield f"sets {key}: a judge folder must not contain code"


def _setting_size_problems(content: Mapping[str, Any]) -> Iterator[str]:
    """Yields a message for each number or list that is too large in ``content``, the settings of a
    network or tokenizer."""
    for settings in _objects_in(content):
        for key, value in settings.items():
            is_depth = re.search("layer|group|block|label", key)
            most = _MOST_LAYERS if is_depth else _LARGEST_NUMBER
            is_length = key == "model_max_length"  # 1e30 for any
            if isinstance(value, int) and value > most and not is_length:
                yield f"sets {key} to {value:,}, and at most {most:,} is allowed"
            if isinstance(value, list | dict) and len(value) > _LONGEST_LIST:
                yield f"sets {key} to {len(value):,} values"


def _tokenizer_problems(content: Mapping[str, Any]) -> Iterator[str]:
    """Yields a message for each forbidden property of a tokenizer, such as an unknown normalizer.
    ``content`` is read from tokenizer.json."""
    marks = content.get("added_tokens")
    if isinstance(marks, list) and len(marks) > _MOST_MARKS:
        yield f"has {len(marks):,} added tokens, and at most {_MOST_MARKS:,} are allowed"
    growth = 1
    parts = ("normalizer", "pre_tokenizer", "post_processor")
    objects = _objects_in([content.get(part) for part in parts])
    steps = [step for step in objects if isinstance(step.get("type"), str)]
    for step in steps:
        if step["type"] not in _STEPS:
            yield f"has the part {step['type']!r:.80}, which is not allowed"
        growth *= _max_growth(step)
    if growth > _MOST_GROWTH or len(steps) > _MOST_STEPS:
        yield "has parts that blow text up"
    size = len(json.dumps(content.get("post_processor")))
    if size > _LONGEST_TEMPLATE:
        yield f"has a post-processor of {size:,} characters"


def _max_growth(step: Mapping[str, Any]) -> int:
    """Returns the maximum number of characters into which a tokenizer's ``step`` can turn one
    character.

    If the table of ``step`` cannot be read, returns a number above the allowed maximum.

    Args:
        step: A normalizer, pre-tokenizer or post-processor, from tokenizer.json.
    """
    if step["type"] == "ByteLevel":
        return 4  # letters of bytes
    if step["type"] != "Precompiled":
        # A pattern can match the empty text between two characters.
        return 1 + len(str(step.get("content") or step.get("prepend") or ""))
    try:
        table = base64.b64decode(str(step.get("precompiled_charsmap")), validate=True)
    except ValueError:
        return _MOST_GROWTH + 1
    texts = table[4 + int.from_bytes(table[:4], "little") :].split(b"\0")
    return max(1, *map(len, texts))


def _objects_in(content: object) -> Iterator[dict[str, Any]]:
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            yield value
