"""``medal label``: labels of a judge for every dialogue, malformed users apart."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from medal_judges.inference.judge_options import judge_options

if TYPE_CHECKING:
    from medal_judges.data_prep.labelling.summary import Summary
    from medal_judges.models.base.judge import Judge

JUDGE = "configs/judges/medal_gpt41.yaml"
USER_JUDGE = "configs/judges/malformed.yaml"
OF_USER = "user."
_WRITTEN = (
    *("judgements.jsonl", "user_judgements.jsonl", "labelled.jsonl", "malformed.jsonl"),
    *("unlabelled.jsonl", "language_check.jsonl"),
)


def label(
    file: Annotated[Path, typer.Argument(help="JSONL of dialogues (.gz too).")],
    settings: Annotated[
        list[str] | None,
        typer.Argument(metavar="[FIELD=VALUE]...", help="Of --judge; user.FIELD of --user-judge."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Folder to write.")] = None,
    judge: Annotated[
        str,
        typer.Option("--judge", help="Shipped name (medal judges), YAML file, folder or hub id."),
    ] = JUDGE,
    repeats: Annotated[
        int | None, typer.Option("--repeats", min=1, help="Answers for each dialogue.")
    ] = None,
    user_check: Annotated[
        bool, typer.Option("--user-check/--no-user-check", help="Look for malformed users first.")
    ] = True,
    user_judge: Annotated[
        str | None,
        typer.Option("--user-judge", help=f"{USER_JUDGE} with the model of --judge, unless given."),
    ] = None,
    language_check: Annotated[
        bool, typer.Option("--language-check/--no-language-check", help="By a library, too.")
    ] = True,
    replace_labels: Annotated[
        bool, typer.Option("--replace-labels", help="Label rows that have labels already.")
    ] = False,
    min_coverage: Annotated[
        float, typer.Option("--min-coverage", min=0, max=1, help="Floor; below it exit code 3.")
    ] = 0.98,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, cuda:1, ...")] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Start DIR again from the beginning.")
    ] = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again for every row without a label.")
    ] = False,
    no_cache: Annotated[
        bool,
        typer.Option("--no-cache", help="No answers kept on disk (rows of OUT stay: --overwrite)."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Requests, tokens and dollars at most; sends nothing.")
    ] = False,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0, help="US dollars, both judges together.")
    ] = None,
) -> None:
    """Label dialogues by a judge. The same command resumes after a stop, and asks again for rows
    that failed because a server was down or a limit was met."""
    from medal_judges.data_prep.labelling.labels import languages_to_label
    from medal_judges.data_prep.labelling.run import LabellingRun, require_repeats
    from medal_judges.files import only_run
    from medal_judges.inference.progress import show_kept
    from medal_judges.jsonl import read_labelled
    from medal_judges.shipped import judge_file

    folder = _required(out, file, dry_run)
    judge = judge_file(judge) or judge
    langs = languages_to_label(
        read_labelled(file), replace_labels=replace_labels, need_lang=user_check
    )
    own, of_user = _split(settings or [])
    if repeats is not None and _is_yaml(judge):  # require_repeats tells the others
        own = [*own, f"repeats={repeats}"]
    chosen = [(judge, judge_options(judge, device, None, own))]
    if user_check:
        chosen.append(_user_judge(user_judge, *chosen[0], of_user))
    if no_cache:
        chosen = [(name, _without_cache(name, options)) for name, options in chosen]
    judges = _loaded(chosen, dry_run, max_cost)
    require_repeats(judges[0], repeats or 1)
    if dry_run:
        _estimate(file, judges)
        return
    users = judges[1] if user_check else None
    checked_langs = langs if language_check else None
    run = LabellingRun(
        file, folder, judges[0], users, checked_langs, min_coverage, overwrite, retry_failed
    )
    with only_run(folder):
        summary, report = run.run()
    _show(summary, folder, report.next_try)
    show_kept(judges)
    report.require_coverage(min_coverage)


def _required(out: Path | None, file: Path, dry_run: bool) -> Path:
    """The folder to write to, none of whose files is the one that is read."""
    from medal_judges.errors import ConfigError
    from medal_judges.files import require_other_file

    if out is None and not dry_run:
        raise ConfigError("no folder given to write to", hint="--out runs/labelled")
    for name in _WRITTEN if out else ():
        require_other_file(Path(out or "") / name, [file], option=f"--out: its {name}")
    return out or Path()


def _is_yaml(judge: str) -> bool:
    return judge.endswith((".yaml", ".yml"))


def _without_cache(name: str, options: dict[str, Any]) -> dict[str, Any]:
    from medal_judges.cli.spending_options import speaks, without_cache

    return without_cache(name, options) if speaks(name, options) else options


def _split(settings: list[str]) -> tuple[list[str], list[str]]:
    of_user = [s.removeprefix(OF_USER) for s in settings if s.startswith(OF_USER)]
    return [s for s in settings if not s.startswith(OF_USER)], of_user


def _user_judge(
    given: str | None, judge: str, options: dict[str, Any], settings: list[str]
) -> tuple[str, dict[str, Any]]:
    """The file of the user check and its options: the language model of ``judge``, unless a file is
    given or ``judge`` has none."""
    import json

    from medal_judges.config import read_yaml
    from medal_judges.shipped import judge_file

    name = given or USER_JUDGE
    name = judge_file(name) or name
    llm = options.get("llm", read_yaml(judge).get("llm")) if _is_yaml(judge) else None
    if given is None and llm is not None:
        settings = [f"llm={json.dumps(llm)}", *settings]
    return name, judge_options(name, None, None, settings)


def _loaded(
    chosen: list[tuple[str, dict[str, Any]]], dry_run: bool, max_cost: float | None
) -> list[Judge]:
    from medal_judges.cli.spending_options import (
        speaks,
        speaks_through_api,
        with_spending,
    )
    from medal_judges.data_prep.labelling.run import share_limiter
    from medal_judges.models.base.judge import Judge

    loaded = []
    pays = [speaks_through_api(*each) for each in chosen]
    for (name, options), paid in zip(chosen, pays, strict=True):
        limit = max_cost if paid or not any(pays) else None  # refused where nothing is paid
        if limit is not None or (dry_run and speaks(name, options)):
            options = with_spending(name, options, dry_run=dry_run, max_cost=limit)
        loaded.append(Judge.from_pretrained(name, **options))
    if len(loaded) > 1 and max_cost is not None:
        share_limiter(loaded)
    return loaded


def _estimate(file: Path, judges: list[Judge]) -> None:
    from medal_judges.inference.dry_run import dry_run, show
    from medal_judges.jsonl import read_dialogues
    from medal_judges.models.llm.counting import CountingModel

    costs: list[float | None] = []
    names = ("labels", "check of users")[: len(judges)]
    for judge, what in zip(judges, names, strict=True):
        if not isinstance(getattr(judge, "llm", None), CountingModel):
            typer.echo(f"{what}: by a judge that asks no language model")
            continue
        counted = dry_run(read_dialogues(file), judge)
        costs.append(counted.estimate.money)
        typer.echo(f"{what}: {show(counted)}")
    known = [cost for cost in costs if cost is not None]
    if len(known) == len(costs) > 1:  # a sum that leaves one out would be no bound
        typer.echo(f"together at most ${sum(known):.4f}, if no user is malformed")


def _show(summary: Summary, folder: Path, next_try: str) -> None:
    from medal_judges.data_prep.labelling.tables import tables
    from medal_judges.report.console import wide_console

    console = wide_console(stderr=True)
    for table in tables(summary):
        console.print(table)
    if summary.comparison is not None:
        for line in summary.comparison.lines():
            console.print(line, highlight=False, soft_wrap=True)
    for reason, count in summary.failures.most_common():
        console.print(f"without a label: {count} x {reason}", soft_wrap=True)
    if next_try:
        console.print(f"  {next_try.removesuffix('; ')}")
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(summary.kinds.items()))
    typer.echo(f"{counts or 'no dialogues'}: {folder}")
