"""Turns a function with typed parameters into a command with options and arguments."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from pydantic import create_model
from pydantic.fields import FieldInfo

from medal_judges.config import Config, build_config
from medal_judges.storage.files import output_lock, protect_inputs, require_safe_out

OUTPUTS = ("out", "junit")  # the options that name what a command writes
# What help calls the value of an option that states no metavar.
_METAVARS = """
sources=FILE... out=PATH chats=FILE junit=FILE labels=FILE data=FILE source=FILE scenes=FILE
personas=FILE by=COLUMN cluster=COLUMN context=COLUMN keep=COLUMN to=LANG issues=ISSUE form=FORM
chatbots=NAME user_judge=JUDGE fail_if_worse=MARGIN fail_if_more_bad=MARGIN
"""


def with_options(
    *, locks: Literal["file", "folder"] | None = None
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Returns a decorator that turns a typed function into a command with options.

    A parameter whose default is ``config.option(...)`` becomes an option. A parameter whose type is
    a Config becomes one option for each field. The command refuses to overwrite its input files.

    Args:
        locks: What ``--out`` names, a ``file`` or a ``folder``. It is locked during the command, so
            that no other run writes to it. None locks nothing.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        fields: Any = {}
        hints = get_type_hints(command)
        for name, parameter in inspect.signature(command).parameters.items():
            default = parameter.default
            if default is parameter.empty:
                default = ...
            fields[name] = (hints[name], default)
        kind = create_model(command.__name__, __base__=Config, **fields)

        @wraps(command)
        def run(**values: Any) -> None:
            outputs = {name: values[name] for name in OUTPUTS if values.get(name)}
            inputs = [
                *_existing_files(
                    [v for name, v in values.items() if name not in OUTPUTS]
                )
            ]
            options = _build_options(kind, values)
            with ExitStack() as stack:
                stack.enter_context(protect_inputs(*inputs))
                for name, output in outputs.items():
                    require_safe_out(output, option=f"--{name}")
                if locks is not None and "out" in outputs:
                    lock = output_lock(outputs["out"], folder=locks == "folder")
                    stack.enter_context(lock)
                command(**{name: getattr(options, name) for name in fields})

        parameters = [*_typer_parameters(kind)]
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {
            parameter.name: parameter.annotation for parameter in parameters
        }
        return run

    return decorate


def _typer_parameters(kind: type[Config]) -> Iterator[inspect.Parameter]:
    """Yields one parameter for each option of ``kind``, in the form in which Typer reads a
    function's signature."""
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        extra: Any = field.json_schema_extra
        if isinstance(annotation, type) and issubclass(annotation, Config):
            yield from _typer_parameters(annotation)
        if not isinstance(extra, dict) or "flag" not in extra:
            continue  # set in Python only
        default: Any = inspect.Parameter.empty
        if not field.is_required():
            default = field.get_default(call_default_factory=True)
        if get_origin(annotation) is tuple:  # repeated on the command line
            element: Any = get_args(annotation)[0]
            if get_origin(element) is Literal:  # typer accepts no list of literals
                element = str
            annotation = list[element]
            if default is not inspect.Parameter.empty:
                default = list(default)
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[annotation, _option_or_argument(name, field)],
        )


def _option_or_argument(name: str, field: FieldInfo) -> Any:
    """Returns Typer's description of the option or argument ``name``, made from its ``field``."""
    extra: Any = field.json_schema_extra
    flag = extra["flag"] or "--" + name.replace("_", "-")
    words = dict(word.split("=") for word in _METAVARS.split())
    metavar = extra["metavar"] or words.get(name)
    words = {"str": flag.strip("-").upper(), "int": "N", "float": "X", "Path": "PATH"}
    for kind, word in words.items():
        if kind in str(field.annotation):
            metavar = metavar or word
    settings: dict[str, Any] = {"help": field.description, "metavar": metavar}
    if extra["argument"]:
        return typer.Argument(**settings)
    return typer.Option(flag, rich_help_panel=extra["panel"], **settings)


def _build_options(kind: type[Config], options: Mapping[str, Any]) -> Config:
    """Returns an instance of ``kind`` with the values of its options.

    Args:
        options: Option -> value, in one mapping for ``kind`` and the Configs in it.
    """
    values: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Config):
            values[name] = _build_options(annotation, options)
        elif name in options:
            values[name] = options[name]
    return build_config(kind, values, where="command line")


def exit_by_gates(verdicts: Collection[str]) -> None:
    """Ends the command with exit status 1 if a gate failed, otherwise with 4 if one is undecided.
    Does nothing if there is neither.

    Args:
        verdicts: One for each gate (check that can stop a release): ``passed``, ``failed`` or
            ``undecided``.
    """
    for verdict, status in {"failed": 1, "undecided": 4}.items():
        if verdict in verdicts:
            raise typer.Exit(status)


def _existing_files(value: object) -> Iterator[Path]:
    """Yields the existing files that arguments of a command name.

    Args:
        value: One or several arguments of the form PATH, NAME=PATH or PATH:SPLIT. Values of other
            types are ignored.
    """
    if isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _existing_files(part)
    elif isinstance(value, str | Path):
        name = str(value)
        for text in (name, name.partition("=")[2], name.rpartition(":")[0]):
            if os.path.isfile(text):  # False for a text that is no path at all
                yield Path(text)
