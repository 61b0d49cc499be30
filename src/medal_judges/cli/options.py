"""Makes a command line out of an options object."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer
from pydantic.fields import FieldInfo

from medal_judges.config import Config, build_config
from medal_judges.storage.files import only_run, protected_inputs, require_other_file

OUTPUTS = ("out", "junit")  # the options that name what a command writes


def from_options(command: Callable[[Any], None]) -> Callable[..., None]:
    """Turns ``command``, whose one parameter is an options object, into a function with a parameter
    for each field that ``config.option`` makes. Fields of nested options objects are parameters
    too."""
    (kind,) = (
        hint for name, hint in get_type_hints(command).items() if name != "return"
    )

    @wraps(command)
    def run(**values: Any) -> None:
        outputs = {name: values[name] for name in OUTPUTS if values.get(name)}
        inputs = [*_files_in([v for name, v in values.items() if name not in OUTPUTS])]
        for name, output in outputs.items():
            require_other_file(output, inputs, option=f"--{name}")
        with protected_inputs(inputs):
            command(_built(kind, values))

    parameters = [*_parameters(kind)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return run


def _parameters(kind: type[Config]) -> Iterator[inspect.Parameter]:
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        extra: Any = field.json_schema_extra
        if isinstance(annotation, type) and issubclass(annotation, Config):
            yield from _parameters(annotation)
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
        elif Path in get_args(annotation):
            annotation = Path | None  # in Python also the content of the file
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=default,
            annotation=Annotated[annotation, _mark(name, field, annotation)],
        )


def _mark(name: str, field: FieldInfo, annotation: Any) -> Any:
    """Returns Typer's description of an argument or of an option."""
    extra: Any = field.json_schema_extra
    settings: dict[str, Any] = {"help": field.description, "metavar": extra["metavar"]}
    if extra["argument"]:
        return typer.Argument(**settings)
    flag = extra["flag"] or "--" + name.replace("_", "-")
    if annotation == bool | None:
        flag = f"{flag}/--no-{flag[2:]}"
    return typer.Option(flag, rich_help_panel=extra["panel"], **settings)


def _built(kind: type[Config], options: Mapping[str, Any]) -> Config:
    values: dict[str, Any] = {}
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, Config):
            values[name] = _built(annotation, options)
        elif name in options:
            values[name] = options[name]
    return build_config(kind, values, where="command line")


def writes(
    *, folder: bool = False
) -> Callable[[Callable[[Any], None]], Callable[[Any], None]]:
    """Decorates a command that writes ``options.out``, a file or ``folder``: locks it while the
    command runs."""

    def decorate(command: Callable[[Any], None]) -> Callable[[Any], None]:
        @wraps(command)
        def run(options: Any) -> None:
            lock: AbstractContextManager[None] = nullcontext()
            if options.out is not None:
                lock = only_run(options.out, folder=folder)
            with lock:
                command(options)

        return run

    return decorate


def exit_by_gates(verdicts: Collection[str]) -> None:
    """Exits with status 1 if a gate failed, or else with 4 if one is undecided."""
    for verdict, status in {"failed": 1, "undecided": 4}.items():
        if verdict in verdicts:
            raise typer.Exit(status)


def _files_in(value: object) -> Iterator[Path]:
    """Yields the files that an argument names: PATH, NAME=PATH or PATH:SPLIT."""
    if isinstance(value, Sequence) and not isinstance(value, str):
        for part in value:
            yield from _files_in(part)
    elif isinstance(value, str | Path):
        name = str(value)
        for text in (name, name.partition("=")[2], name.rpartition(":")[0]):
            if os.path.isfile(text):  # False for a text that is no path at all
                yield Path(text)
