"""What ``medal trial`` writes: the page, trial.json of all judges and of each, tables."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.trial.results import TRIAL_NAME, TrialResult
from medal_judges.eval.trial.tables import (
    bounds_table,
    check_table,
    detail_tables,
    dimension_table,
    dose_figure,
    glance_table,
    language_table,
)
from medal_judges.eval.trial.trial import Trial
from medal_judges.eval.trial.worst import WorstPair
from medal_judges.report.console import print_tables
from medal_judges.report.numbers import number
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.table import Table
from medal_judges.stats.intervals import METHOD
from medal_judges.storage.files import atomic_write

PAGE_NAME = "trial.html"


def write_trial(trial: Trial, out: Path) -> Path:
    """Write trial.html, trial.json (all judges) and judgements/JUDGE/trial.json (one each, what a
    card shows) under ``out``; path of the page."""
    for result in trial.results:
        write_result(result, out / "judgements" / result.judge / TRIAL_NAME)
    record = {
        "trials": [result.to_record() for result in trial.results],
        "bounds": {name: bound.model_dump() for name, bound in trial.bounds.items()},
    }
    atomic_write(out / TRIAL_NAME, _json(record))
    return _write_page(trial, out / PAGE_NAME)


def write_result(result: TrialResult, path: Path) -> Path:
    """Write the trial of one judge as JSON; the path."""
    return atomic_write(path, _json(result.to_record()))


def _json(record: object) -> str:
    return json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _write_page(trial: Trial, path: Path) -> Path:
    results = trial.results
    title = f"Trial: {', '.join(result.judge for result in results)}"
    first = results[0]
    langs = {trial.plan.dialogues[id].lang for id in trial.plan.originals}
    counts = [
        (len(results), "judge"),
        (first.dialogues, "dialogue"),
        (first.versions, "version"),
        (len(trial.plan.pairs), "pair"),
        (len(langs), "language"),
    ]
    figure = dose_figure(results)
    sections = [
        Section("glance", "At a glance", [glance_table(results), check_table(results)]),
        Section("doses", "Dose and response", [figure] if figure else [], link="Doses"),
        Section("worst", "The worst pairs to read", _worst(trial), link="Worst pairs"),
        Section("details", "All figures", _details(results), link="Figures"),
        Section("bounds", "Bounds", [bounds_table(trial.bounds)]),
        facts_section(_facts(trial)),
    ]
    foot = _signatures(results)
    return write_page(path, title, counted(counts), sections, foot=foot, leads=__package__)


def _worst(trial: Trial) -> list[Block]:
    blocks: list[Block] = []
    for judge, pairs in trial.worst.items():
        body: list[Block] = [_pair(pair) for pair in pairs]
        none = "No pair went the wrong way."
        name = f"{judge}: {len(pairs)} pairs" if pairs else judge
        first = bool(pairs) and not any(b.is_open for b in blocks if isinstance(b, Fold))
        blocks.append(Fold(name, body or [none], is_open=first))
    return blocks


def _pair(pair: WorstPair) -> Markup:
    told = f"{number(pair.harm)} points the wrong way · {pair.id}"
    return fragment("medal_judges.eval.trial", "pair.html", pair=pair, told=told)


def _details(results: Sequence[TrialResult]) -> list[Block]:
    blocks: list[Block] = []
    for result in results:
        tables: list[Table] = list(detail_tables(result))
        more = [t for t in (language_table(result), dimension_table(result)) if t is not None]
        made_for = ", ".join(result.made_for) if result.made_for else "any, or not known"
        lead = (
            f"Quality is {result.quality}. Figures are over {', '.join(result.judged)}; the judge "
            f"was made for: {made_for}."
        )
        blocks.append(Fold(result.judge, [lead, *tables, *more], is_open=len(results) == 1))
    return blocks


def _facts(trial: Trial) -> list[tuple[str, str]]:
    first = trial.results[0]
    refused = ", ".join(f"{key} {n}" for key, n in sorted(trial.plan.refused.items()))
    return [
        ("Seed", str(first.seed)),
        ("Data", first.data),
        *((("Not here"), note) for note in trial.notes),
        ("Could not carry", refused or "every dialogue carried every edit"),
        ("Intervals", METHOD),
        ("medal-judges", first.version),
    ]


def _signatures(results: Sequence[TrialResult]) -> Section:
    items = [
        Markup('<h3 dir="auto">{}</h3><p><code>{}</code></p>').format(r.judge, r.signature)
        for r in results
    ]
    return Section("signatures", "Signatures", items)


def print_trial(trial: Trial) -> None:
    """The tables at a glance and check by check, and what was not here."""
    print_tables([glance_table(trial.results), check_table(trial.results)], trial.notes)
