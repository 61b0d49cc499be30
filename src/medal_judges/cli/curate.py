"""``medal curate``: choose the dialogues that people annotate, or compare ways to choose them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from medal_judges.data_prep.curation.job import Plan
    from medal_judges.data_prep.curation.policy import Judges, Policy
    from medal_judges.jsonl import Skipped

POLICY_HELP = "balanced, random, uncertainty, disagreement or expected-information."


def curate(
    files: Annotated[
        list[str], typer.Argument(metavar="IN", help="Labelled dialogues: JSONL, or medal.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for the selection and its report.")],
    n: Annotated[int, typer.Option("--n", min=1, help="Dialogues per language.")] = 100,
    policy: Annotated[str, typer.Option("--policy", help=POLICY_HELP)] = "balanced",
    judgements: Annotated[
        list[str] | None, typer.Option("--judgements", help="File of medal score; one a judge.")
    ] = None,
    lang: Annotated[
        list[str] | None, typer.Option("--lang", help="Only this language; may be repeated.")
    ] = None,
    aggregate: Annotated[
        str, typer.Option("--aggregate", help="Of several answers: majority, any or all.")
    ] = "majority",
    keywords: Annotated[
        str, typer.Option("--keywords", help="YAML of the foreign-language filter.")
    ] = "curate/foreign_language",
    keep_foreign: Annotated[
        bool, typer.Option("--keep-foreign", help="Do not filter by the judge's comments.")
    ] = False,
    max_per_context: Annotated[
        int | None, typer.Option("--max-per-context", min=1, help="With balanced; else no limit.")
    ] = None,
    rubric: Annotated[str, typer.Option("--rubric", help="Issues and overall.")] = "medal",
    rescale: Annotated[
        str, typer.Option("--rescale", help="Judges' scores brought together by ranks or scale.")
    ] = "ranks",
    expected_correlation: Annotated[
        float, typer.Option("--expected-correlation", help="Judges with people; a guess.")
    ] = 0.4,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of every draw.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an earlier one.")] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave bad lines out, count and list them.")
    ] = False,
) -> None:
    """Select n dialogues per language for annotation, and report the balance reached.

    Writes selection.jsonl (with the weight of each dialogue), left_out.jsonl, curation.json,
    counts.csv and curation.html. `medal data simulate-curation` compares the policies.
    """
    from medal_judges.data_prep.curation.candidate import label_reading
    from medal_judges.data_prep.curation.foreign import load_foreign
    from medal_judges.data_prep.curation.job import Plan
    from medal_judges.jsonl import Skipped

    plan = Plan(
        label_reading(rubric, aggregate),
        n,
        _policy(policy, judgements, max_per_context),
        seed,
        None if keep_foreign else load_foreign(keywords),
        _judges(judgements or [], rescale, expected_correlation),
        max_per_context,
    )
    skipped = Skipped(out / "skipped.jsonl") if skip_bad else None
    _run(files, out, plan, lang or [], overwrite, skipped)


def _policy(name: str, judgements: list[str] | None, max_per_context: int | None) -> Policy:
    """The policy, once the options that go with it, or do not, are seen to."""
    from medal_judges.data_prep.curation.policy import NEED_JUDGES, parse_policy
    from medal_judges.errors import ConfigError

    chosen = parse_policy(name)
    if judgements and chosen not in NEED_JUDGES:
        raise ConfigError(f"--policy {chosen} asks no judges; leave --judgements out")
    if max_per_context is not None and chosen != "balanced":
        raise ConfigError("--max-per-context goes with --policy balanced")
    return chosen


def _judges(paths: list[str], rescale: str, correlation: float) -> Judges:
    from medal_judges.data_prep.curation.information import parse_rescale, read_views
    from medal_judges.data_prep.curation.policy import Judges

    return Judges(read_views(paths, "overall"), parse_rescale(rescale), correlation)


def _run(
    files: list[str],
    out: Path,
    plan: Plan,
    langs: list[str],
    overwrite: bool,
    skipped: Skipped | None,
) -> None:
    from medal_judges.data_prep.curation.job import curate as run
    from medal_judges.data_prep.curation.job import read_pool, selected_rows
    from medal_judges.data_prep.curation.report import print_report, write_report
    from medal_judges.data_prep.sources.registry import files_of
    from medal_judges.errors import ConfigError, MedalError
    from medal_judges.files import require_other_file
    from medal_judges.jsonl import Skipped, write_records

    selection = out / "selection.jsonl"
    for name in ("selection.jsonl", "left_out.jsonl", "skipped.jsonl"):
        read = [path for text in files for path in files_of(text)]
        require_other_file(out / name, read, option=f"--out: its {name}")
    if selection.exists() and not overwrite:
        raise ConfigError(f"{selection} is there already", hint="--overwrite, or another --out")
    try:
        pool = read_pool(files, plan, langs=langs, skipped=skipped)
    except MedalError:
        if skipped is not None:
            skipped.require_rest()  # no row at all because all lines are bad
        raise
    curation = run(pool, plan)
    again = None if skipped is None else Skipped()
    count = write_records(selection, selected_rows(files, curation, skipped=again))
    write_records(out / "left_out.jsonl", curation.left_out)
    write_report(curation, out)
    print_report(curation)
    if skipped is not None and skipped.count:
        typer.echo(skipped.summary(), err=True)
    typer.echo(f"{count} dialogues written to {selection}; report: {out / 'curation.html'}")
