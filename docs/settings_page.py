"""The page of every setting of a model and of a training run, from the classes that read them.

Names, types and defaults are pydantic's. The meaning of a setting is its entry under "Attributes"
in the docstring of its class.
"""

from __future__ import annotations

import html
import inspect
import json
import re
import types
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, Literal, Union, get_args, get_origin

from griffe import Docstring, DocstringSection, DocstringSectionKind
from pydantic.fields import FieldInfo

from medal_judges.config import Config
from medal_judges.models.base.saving import FAMILIES as JUDGES
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.settings import BACKENDS
from medal_judges.training.arguments import argument_defaults
from medal_judges.training.config import FAMILIES as TRAINED
from medal_judges.training.config import TrainConfig

TRANSFORMERS = "https://huggingface.co/docs/transformers/main_classes/trainer"
# The field that says which class reads the others: its value is in the heading.
CHOICES = ("family", "backend")
# Defaults of `args` that depend on the machine.
BY_MACHINE = {
    "bf16": "true if the GPU has it",
    "disable_tqdm": "true unless in a terminal",
}
BOUNDS = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
_INTRODUCTION = """# Settings

Every setting of a training run, of the models that it trains, of judges in a YAML file and of
language models. An unknown name is refused with the nearest one. Each can be set in the YAML file
or after the command:

```bash
medal train --config lora_medal model.peft.r=8 args.learning_rate=1e-4
medal score FILE --judge contrast llm=ORG/NAME llm.context=8192
```

`medal configs show NAME` prints a file in use.
"""


def settings_page() -> str:
    """Returns the text of the page."""
    text = [_INTRODUCTION, "## A training run", "`medal train --config FILE`."]
    shown: list[type[Config]] = []
    models = list(TRAINED.values())
    text += _sections(TrainConfig, shown, without=models)
    text += ["### Arguments of the Trainer", _arguments()]
    text += ["## Models that are trained", "The group `model` of a training run."]
    for model in models:
        text += _sections(model, shown)
    text += ["## Judges in a YAML file", "`--judge FILE.yaml`, or a shipped name."]
    for name in JUDGES:
        if name not in TRAINED:
            module, _, judge = JUDGES[name].partition(":")
            text += _sections(getattr(import_module(module), judge).config_class, shown)
    text += [
        "## Language models",
        "The group `llm` of a judge: `llm=ORG/NAME llm.NAME=VALUE`.",
    ]
    for backend in BACKENDS.values():
        text += _sections(backend, shown)
    return "\n\n".join(text) + "\n"


def _sections(
    kind: type[Config],
    shown: list[type[Config]],
    without: list[type[Config]] | None = None,
) -> Iterator[str]:
    """Yields heading, first sentence and table of ``kind`` and of the classes in its fields, once
    each: those in ``shown``, which grows, are skipped."""
    if kind in shown or kind in (without or ()):
        return
    shown.append(kind)
    yield f"### {heading(kind)}"
    yield _markdown((inspect.getdoc(kind) or "").split("\n\n")[0])
    meanings = meanings_of(kind)
    rows = ["| setting | type | default | meaning |", "|---|---|---|---|"]
    for name, field in kind.model_fields.items():
        if name not in CHOICES:
            cells = [
                f"`{name}`",
                _type(field),
                _default(field),
                _markdown(meanings[name]),
            ]
            rows.append(
                f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"
            )
    yield "\n".join(rows)
    for field in kind.model_fields.values():
        for inner in _classes_in(field.annotation):
            if inner not in BACKENDS.values():
                yield from _sections(inner, shown, without)


def heading(kind: type[Config]) -> str:
    """Returns the heading of a class: the value that chooses it (`family: lora`), or its name."""
    for choice in CHOICES:
        if choice in kind.model_fields and kind.model_fields[choice].default:
            return f"`{choice}: {kind.model_fields[choice].default}`"
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind.__name__.removesuffix("Config"))
    return words.capitalize()


def meanings_of(kind: type[Config]) -> dict[str, str]:
    """Returns the meaning of each setting: its entry under "Attributes" in the docstring of the
    class or of a base. Raises ValueError for a setting without one."""
    entries = {
        entry.name: " ".join(entry.description.split())
        for section in _sections_of_docstrings(kind)
        if section.kind is DocstringSectionKind.attributes
        for entry in section.value
    }
    lacking = kind.model_fields.keys() - entries.keys() - set(CHOICES)
    if lacking:
        raise ValueError(f"the docstring of {kind.__name__} lacks {sorted(lacking)}")
    return entries


def _sections_of_docstrings(kind: type[Config]) -> Iterator[DocstringSection]:
    """Yields the sections of the docstrings of a class and of its bases among the configs."""
    for base in reversed(kind.__mro__):
        if base is not Config and issubclass(base, Config):
            text = inspect.cleandoc(base.__dict__.get("__doc__") or "")
            yield from Docstring(text).parse("google")


def _classes_in(annotation: Any) -> Iterator[type[Config]]:
    """Yields the classes of settings in a type."""
    if isinstance(annotation, type) and issubclass(annotation, Config):
        yield annotation
    for part in get_args(annotation):
        yield from _classes_in(part)


def _type(field: FieldInfo) -> str:
    bounds = []
    for constraint in field.metadata:
        for bound, words in BOUNDS.items():
            value = getattr(constraint, bound, None)
            if value is not None:
                bounds.append(f"{words} {value:g}")
    return ", ".join([_type_text(field.annotation), *bounds])


def _type_text(annotation: Any) -> str:
    """Returns a type in words: `text`, a list of numbers, a link to a group's section."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if set(_classes_in(annotation)) & set(BACKENDS.values()):
        return "text or [language model](#language-models)"
    if origin is Literal:
        return " or ".join(f"`{json.dumps(part).strip(chr(34))}`" for part in parts)
    if origin in (Union, types.UnionType):
        kinds = [_type_text(part) for part in parts if part is not types.NoneType]
        return " or ".join(dict.fromkeys(kinds))
    if hasattr(annotation, "__metadata__"):
        return _type_text(parts[0])
    if origin in (tuple, list):
        inner = dict.fromkeys(_type_text(part) for part in parts if part is not ...)
        return f"list of {' and '.join(inner)}"
    if origin is not None and issubclass(origin, Mapping):
        return f"mapping of {_type_text(parts[0])} to {_type_text(parts[1])}"
    if isinstance(annotation, type) and issubclass(annotation, Config):
        return f"[{heading(annotation)}](#{_anchor(heading(annotation))})"
    names = {
        str: "text",
        bool: "true or false",
        int: "integer",
        float: "number",
        Any: "any",
    }
    if annotation is None or annotation is LanguageModel:
        return ""
    return names.get(annotation, str(getattr(annotation, "__name__", annotation)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, Config):
        is_language_model = type(value) in BACKENDS.values()
        return f"`{value.model}`" if is_language_model else "its defaults"
    if value is None:
        return "none"
    return (
        f"`{json.dumps(value, ensure_ascii=False).strip(chr(34))}`"
        if value != ""
        else "empty"
    )


def _arguments() -> str:
    lines = [
        f"`args` is [TrainingArguments]({TRANSFORMERS}#transformers.TrainingArguments) of "
        "transformers, under its own names. The defaults that differ from the Trainer's, in a run "
        "with validation rows:",
        "",
        "| `args` | default |",
        "|---|---|",
    ]
    for name, value in argument_defaults({}, validated=True).items():
        lines.append(
            f"| `{name}` | {BY_MACHINE.get(name) or f'`{json.dumps(value)}`'} |"
        )
    return "\n".join(lines)


def _markdown(text: str) -> str:
    return html.escape(re.sub(r"``([^`]+)``", r"`\1`", text), quote=False)


def _anchor(title: str) -> str:
    """Returns the anchor that Markdown's table of contents gives a heading."""
    plain = re.sub(r"[^\w\s-]", "", title).strip().lower()
    return re.sub(r"[-\s]+", "-", plain)
