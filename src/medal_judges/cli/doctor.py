"""``medal doctor [JUDGE [FIELD=VALUE ...]]`` and ``medal doctor --llm MODEL [field=value ...]``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from medal_judges.cli import options as opt
from medal_judges.config import overridden
from medal_judges.errors import ConfigError
from medal_judges.inference.doctor import judge_facts, machine_facts
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.base.golden import compare, write_golden
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import GOLDEN_NAME, judge_folder, read_config
from medal_judges.shipped import judge_file


def doctor(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[JUDGE] [FIELD=VALUE]...",
            help="Folder or hub id of a saved judge, and MEMBER.FIELD=VALUE of a hybrid's members; "
            "none: the machine. With --llm: its settings, field=value.",
        ),
    ] = None,
    llm: Annotated[
        str | None, typer.Option("--llm", help="A language model, as a judge's llm names it.")
    ] = None,
    revision: opt.Revision = None,
    device: Annotated[
        str | None,
        typer.Option(
            "--device", help="cpu, cuda, cuda:1, ...; else the one that golden.json names."
        ),
    ] = None,
    write: Annotated[
        bool, typer.Option("--write", help="Write golden.json where a folder has none.")
    ] = False,
) -> None:
    """Tell what is here, and what is missing for what; with JUDGE, check its golden scores; with
    --llm, whether a language model computes what its weights say (exit 1: it does not)."""
    if llm is not None:
        if write:
            raise ConfigError("--write is of a judge, and --llm checks a language model")
        named = {"device": device, "revision": revision}
        own = [f"{name}={value}" for name, value in named.items() if value is not None]
        _check_llm(llm, [*own, *(words or [])])
        return
    if not words:
        _show([*machine_facts(), _data()])
        return
    judge, *settings = words
    if not all("=" in setting for setting in settings):
        raise ConfigError("medal doctor checks one judge, and more words are MEMBER.FIELD=VALUE")

    folder = _folder(judge, revision)
    options = choose_judge(str(folder), settings).options
    if write:
        _write(folder, options)
    check = compare(folder, device=device, options=options)
    _show(judge_facts(check))
    if not check.holds:
        typer.echo(f"error: {judge} does not answer here as it did when it was saved", err=True)
        raise typer.Exit(1)
    typer.echo("the judge answers here as it did when it was saved")


def _data() -> tuple[str, str]:
    from medal_judges.data_prep.sources.registry import sources_here

    sources = sources_here()
    here = [name for name, there in sources.items() if there]
    told = f"{len(here)} of {len(sources)} sources here: {', '.join(here) or 'none'}"
    return "data", f"{told}; the others, for benchmarks and training: medal data list"


def _check_llm(model: str, settings: list[str]) -> None:
    """The table of ``model``, a line as soon as it is known."""
    from medal_judges.inference.doctor_llm import check_llm

    given = [text if text.startswith("llm.") else f"llm.{text}" for text in settings]
    setting = overridden({"llm": {"model": model}}, given)["llm"]
    verdicts: Counter[str] = Counter()
    for check in check_llm(setting):
        verdicts[check.verdict] += 1
        note = f"  {check.note}" if check.note else ""
        typer.echo(f"{check.verdict:5} {check.name:38} {check.figure:28}{note}".rstrip())
    typer.echo(", ".join(f"{count} {verdict}" for verdict, count in verdicts.items()))
    if verdicts["fail"]:
        typer.echo(f"error: {model} does not compute here what it should", err=True)
        raise typer.Exit(1)


def _folder(judge: str, revision: str | None) -> Path:
    if judge_file(judge) is not None:
        raise ConfigError(
            f"{judge} is a description: it has no weights, and so no golden scores",
            hint="give the folder or hub id of a saved judge",
        )
    folder = judge_folder(judge, revision)
    read_config(folder)
    return folder


def _write(folder: Path, options: Mapping[str, Any]) -> None:
    if (folder / GOLDEN_NAME).exists():
        raise ConfigError(f"{folder} has a {GOLDEN_NAME}; --write is for judges without one")
    write_golden(Judge.from_pretrained(folder, device="cpu", **options), folder)


def _show(facts: Iterable[tuple[str, str]]) -> None:
    for name, value in facts:
        typer.echo(f"{name:24} {value}")
