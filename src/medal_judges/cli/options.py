"""Options that several commands share; each stands here once."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import typer

from medal_judges.config import Config, build_config
from medal_judges.errors import MedalError

Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="FIELD=VALUE",
        help="A setting of the YAML file, changed: a=1, or a.b=1 inside a group.",
    ),
]
JudgeName = Annotated[
    str, typer.Option("--judge", help="Shipped name (medal judges), YAML file, folder or hub id.")
]
Dimensions = Annotated[
    list[str] | None, typer.Option("--dimension", help="Only this dimension; may be repeated.")
]
Languages = Annotated[
    list[str] | None, typer.Option("--lang", help="ISO 639-1 code; may be repeated.")
]
Device = Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, ...")]
Dtype = Annotated[
    Literal["fp32", "bf16", "fp16"] | None,
    typer.Option(
        "--dtype",
        help="Precision; saved judges score in fp32 by default. bf16 is faster on a GPU, and on a "
        "CPU that multiplies it (medal doctor); scores then change in the third digit.",
    ),
]
Workers = Annotated[
    int,
    typer.Option("--workers", min=1, help="Processes that judge; on GPUs one a GPU."),
]
Ray = Annotated[
    str | None,
    typer.Option(
        "--ray",
        metavar="ADDRESS",
        help="Judge on a Ray cluster (auto, HOST:6379) or a Ray of this machine (local); --out is "
        "a folder of parquet parts, --workers the number of judges (as many as fit).",
    ),
]
Revision = Annotated[
    str | None, typer.Option("--revision", help="Branch, tag or commit of a judge on the Hub.")
]
Weights = Annotated[
    Literal["none", "curation"] | None,
    typer.Option(
        "--weights", help="curation: weight rows by curation.weight, so that figures hold for all."
    ),
]
Offline = Annotated[bool, typer.Option("--offline", help="Never use the network.")]
Seed = Annotated[int, typer.Option("--seed", min=0, help="Seed of every random draw.")]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="Start again from the beginning; replaces OUT.")
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="Ask again for every row without a score.")
]
MinCoverage = Annotated[
    float,
    typer.Option(
        "--min-coverage", min=0, max=1, help="Least share of scored rows; below it exit code 3."
    ),
]
Keep = Annotated[
    list[str] | None,
    typer.Option("--keep", help="Field of a chat to write beside its scores; may be repeated."),
]
UnknownLanguages = Annotated[
    Literal["warn", "refuse"],
    typer.Option("--unknown-language", help="Languages that the judge was not made for."),
]
DetectLanguage = Annotated[
    bool | None,
    typer.Option(
        "--detect-language/--no-detect-language",
        help="Detect the language of chats that state none (extra lang); by default where the "
        "judge was made for certain languages, or lang is kept.",
    ),
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache", help="Ask language models for every answer again, and keep no answer."
    ),
]
Repeats = Annotated[
    int | None,
    typer.Option("--repeats", min=1, help="Answers that a prompted judge gives on each dialogue."),
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show requests, tokens and dollars at most; send nothing."),
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0, help="US dollars; stops before it spends more.")
]


def from_options(command: Callable[[Any], None]) -> Callable[..., None]:
    """The command line of ``command``, whose one parameter is an options object: one option for
    each field made by ``config.option``. The fields of a nested options object become options too.
    """
    (kind,) = (hint for name, hint in get_type_hints(command).items() if name != "return")

    @wraps(command)
    def run(**given: Any) -> None:
        command(_built(kind, given))

    parameters = [*_parameters(kind)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


# By another name, because mypy reads a call of Enum as the definition of a class.
make_enum: Any = Enum


def _is_options(annotation: object) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, Config)


def _parameters(kind: type[Config]) -> Iterator[inspect.Parameter]:
    for name, field in kind.model_fields.items():
        annotation: Any = field.annotation
        extra: Any = field.json_schema_extra
        if _is_options(annotation):
            yield from _parameters(annotation)
        if not isinstance(extra, dict) or "flag" not in extra:
            continue  # set in Python only
        default = ... if field.is_required() else field.get_default(call_default_factory=True)
        shown: dict[str, Any] = {"help": field.description, "metavar": extra["metavar"]}
        for limit in field.metadata:
            shown |= {
                word: getattr(limit, short)
                for word, short in (("min", "ge"), ("max", "le"))
                if hasattr(limit, short)
            }
        if get_origin(annotation) is not tuple and Path in get_args(annotation):
            annotation = Path | None  # in Python also the content of the file
        if get_origin(annotation) is tuple:  # repeated on the command line
            each = get_args(annotation)[0]
            if get_origin(each) is Literal:  # typer accepts no list of literals
                each = make_enum(name, {value: value for value in get_args(each)}, type=str)
            annotation = list[each]  # type: ignore[valid-type]
            default = default if default is ... else list(default)
        flag = extra["flag"] or "--" + name.replace("_", "-")
        if annotation == bool | None:
            flag = f"{flag}/--no-{flag[2:]}"
        mark = (
            typer.Argument(**shown)
            if extra["argument"]
            else typer.Option(flag, rich_help_panel=extra["panel"], **shown)
        )
        yield inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if default is ... else default,
            annotation=Annotated[annotation, mark],
        )


def _built(kind: type[Config], given: Mapping[str, Any]) -> Config:
    values = {
        name: _built(field.annotation, given) if _is_options(field.annotation) else given[name]  # type: ignore[arg-type]
        for name, field in kind.model_fields.items()
        if _is_options(field.annotation) or name in given
    }
    return build_config(kind, values, where="command line")


def writes(
    *names: str, folder: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command that holds its ``out`` while it runs, so that no other run writes there (into it,
    for a ``folder``), and that never overwrites what its arguments ``names`` say is read."""

    def held(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def run(**given: Any) -> None:
            from medal_judges.storage.files import kept_inputs, only_run, only_run_in

            if given["out"] is None:
                command(**given)
                return
            lock = only_run_in if folder else only_run
            with kept_inputs(_read_by(given, names)), lock(given["out"]):
                command(**given)

        return run

    return held


def _read_by(given: Mapping[str, Any], names: Iterable[str]) -> Iterator[Path]:
    """The files that the arguments ``names`` lead to: paths, NAME=PATH, or specs of sources."""
    from medal_judges.data_prep.sources.registry import files_of

    for name in names:
        value = given[name]
        for text in map(str, value if isinstance(value, list) else [value] if value else []):
            for part in (text, text.partition("=")[2]):
                if Path(part).is_file():
                    yield Path(part)
            with suppress(MedalError):  # no spec: the command itself says what is wrong with it
                yield from files_of(text)
