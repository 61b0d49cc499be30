"""What ``medal trial`` writes and prints: the page, trial.json and tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.trial.results import (
    GROUPS,
    TRIAL_NAME,
    Group,
    TrialFinding,
    TrialResult,
    Verdict,
)
from medal_judges.eval.trial.trial import Trial
from medal_judges.report.console import print_tables
from medal_judges.report.figure import Axis, Dot, Figure, Line, Plot, padded
from medal_judges.report.numbers import interval, number
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.table import Cell, Light, Row, Table
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import METHOD
from medal_judges.storage.files import atomic_write

PAGE_NAME = "trial.html"
_VERDICTS: tuple[Verdict, ...] = ("red", "amber", "green", "none")
_NAMES = {
    "shift": "Shift", "moved": "Moved", "spearman": "ρ", "gain": "Gain", "raised": "Raised",
    "harmed": "Harmed", "auc": "AUC", "win": "Below its control", "drop": "Drop",
    "slope": "Drop a step", "own_auc": "AUC of its own label", "above_chance": "Above chance",
    "found": "Turn found", "chance": "By chance", "gap": "Gap", "unscored": "Unscored",
    "kinship": "Kin minus others", "seconds": "Seconds", "tokens": "Tokens", "money": "Dollars",
}  # fmt: skip
_COLUMNS: Mapping[Group, tuple[str, ...]] = {
    "same": ("shift", "moved", "spearman"),
    "no_gain": ("gain", "raised", "spearman"),
    "attack": ("harmed", "gain", "moved", "spearman"),
    "must_fall": ("auc", "win", "drop", "slope", "own_auc", "above_chance", "found", "chance"),
    "use": ("gap", "spearman", "unscored", "kinship", "seconds", "tokens", "money"),
}


def write_trial(trial: Trial, out: Path) -> Path:
    """Writes trial.html, trial.json of all judges and judgements/JUDGE/trial.json of each under
    ``out``; returns the path of the page."""
    results, plan, first = trial.results, trial.plan, trial.results[0]
    for result in results:
        write_result(result, out / "judgements" / result.judge / TRIAL_NAME)
    bounds = {name: bound.model_dump() for name, bound in trial.bounds.items()}
    record = {"trials": [asdict(result) for result in results], "bounds": bounds}
    atomic_write(out / TRIAL_NAME, _json(record))
    counts = [
        (len(results), "judge"),
        (first.dialogues, "dialogue"),
        (first.versions, "version"),
        (len(plan.pairs), "pair"),
        (len({plan.dialogues[id].lang for id in plan.originals}), "language"),
    ]
    refused = ", ".join(f"{key} {n}" for key, n in sorted(plan.refused.items()))
    facts = [
        ("Seed", str(first.seed)),
        ("Data", first.data),
        *(("Missing", note) for note in trial.notes),
        ("Could not carry", refused or "every dialogue carried every edit"),
        ("Intervals", METHOD),
        ("medal-judges", first.version),
    ]
    signatures: list[Block] = [
        Markup('<h3 dir="auto">{}</h3><p><code>{}</code></p>').format(r.judge, r.signature)
        for r in results
    ]
    rows = [
        (name.replace(".", ": ").replace("_", " "), bound.text(), bound.why)
        for name, bound in trial.bounds.items()
    ]
    doses = _dose_figure(results)
    sections = [
        Section("glance", "At a glance", [_glance_table(results), _check_table(results)]),
        Section("doses", "Dose and response", [doses] if doses else [], link="Doses"),
        Section("worst", "The worst pairs to read", _worst(trial), link="Worst pairs"),
        Section("details", "All figures", _details(results), link="Figures"),
        Section("bounds", "Bounds", [Table("Bounds", ("Figure", "Bound", "Why"), rows)]),
        facts_section(facts),
    ]
    return write_page(
        out / PAGE_NAME,
        f"Trial: {', '.join(result.judge for result in results)}",
        counted(counts),
        sections,
        foot=Section("signatures", "Signatures", signatures),
        leads=__package__,
    )


def write_result(result: TrialResult, path: Path) -> Path:
    """Writes the trial of one judge as JSON; returns the path."""
    return atomic_write(path, _json(asdict(result)))


def _json(record: object) -> str:
    return json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def print_trial(trial: Trial) -> None:
    """Prints the overview, the checks, and what is missing on this machine."""
    print_tables([_glance_table(trial.results), _check_table(trial.results)], trial.notes)


def _glance_table(results: Sequence[TrialResult]) -> Table:
    """One row a judge: the worst verdict of each group, and the number of each verdict."""
    rows: list[Row] = []
    for result in results:
        cells: list[Cell] = [result.judge]
        for group in GROUPS:
            counts = result.counts(group)
            worst: Verdict = next((v for v in _VERDICTS if counts[v]), "none")
            shown = ", ".join(f"{counts[v]} {v}" for v in _VERDICTS[:3] if counts[v]) or "no check"
            cells.append(Light(worst, shown, "", float(counts["red"])))
        cost = result.finding("use", "cost")
        seconds = None if cost is None else cost.figures["seconds"]
        cells.append(None if seconds is None or seconds.value is None else seconds)
        rows.append(cells)
    return Table("At a glance", ("Judge", *GROUPS.values(), "Seconds a dialogue"), rows)


def _check_table(results: Sequence[TrialResult]) -> Table:
    """One row a check and one column a judge, by group."""
    rows: list[Row] = []
    headings: dict[int, str] = {}
    for group, heading in GROUPS.items():
        checks = dict.fromkeys(f.check for r in results for f in r.findings if f.group == group)
        if checks:
            headings[len(rows)] = heading
        for check in checks:
            cells = [_light(result.finding(group, check)) for result in results]
            rows.append((_spaced(check), *cells))
    columns = ("Check", *(result.judge for result in results))
    return Table("Check by check", columns, rows, headings=headings)


def _light(finding: TrialFinding | None) -> Cell:
    """The verdict with the headline figure; a dash if the judge has no such finding."""
    if finding is None:
        return None
    name, value = finding.headline, finding.figure.value
    if value is None:
        shown = "–"
    elif name in ("moved", "raised", "harmed", "unscored"):
        shown = f"{number(100 * value, 0)}%"
    elif name == "seconds":
        shown = f"{value:.2g} s"
    else:
        signed = name in ("shift", "gain", "kinship", "above_chance") and value > 0.005
        shown = f"{'+' if signed else ''}{number(value)}"
    word = "AUC" if name == "auc" else _NAMES[name].lower()
    tooltip = " ".join(part for part in (finding.reason, interval(finding.figure)) if part)
    return Light(finding.verdict, f"{word} {shown}", tooltip, value)


def _spaced(name: str) -> str:
    return name.replace("_", " ")


def _worst(trial: Trial) -> list[Block]:
    blocks: list[Block] = []
    opened = False
    for judge, pairs in trial.worst.items():
        body: list[Block] = [
            fragment("medal_judges.eval.trial", "pair.html", pair=pair) for pair in pairs
        ]
        name = f"{judge}: {len(pairs)} pairs" if pairs else judge
        is_open = bool(pairs) and not opened
        opened = opened or is_open
        blocks.append(Fold(name, body or ["No pair went the wrong way."], is_open=is_open))
    return blocks


def _details(results: Sequence[TrialResult]) -> list[Block]:
    """All figures of each judge."""
    folds: list[Block] = []
    for result in results:
        made_for = ", ".join(result.made_for) if result.made_for else "any, or unknown"
        lead = (
            f"Quality is {result.quality}. Figures are over {', '.join(result.judged)}; supported "
            f"languages of the judge: {made_for}."
        )
        tables = list(_detail_tables(result))
        folds.append(Fold(result.judge, [lead, *tables], is_open=len(results) == 1))
    return folds


def _detail_tables(result: TrialResult) -> Iterator[Table]:
    """One table a group, then the shifts by language and by dimension."""
    for group, heading in GROUPS.items():
        findings = [f for f in result.findings if f.group == group]
        names = [n for n in _COLUMNS[group] if any(n in f.figures for f in findings)]
        rows: list[Row] = [
            (
                _spaced(f.check),
                _light(f),
                *map(f.figures.get, names),
                f.pairs,
                f.conversations,
                f.what,
            )
            for f in findings
        ]
        shown = [_NAMES[name] for name in names]
        columns = ["Check", "Verdict", *shown, "Pairs", "Conversations", "What"]
        if findings:
            yield Table(f"{result.judge}: {heading}", columns, rows)
    found = [f for f in result.findings if len(f.by_language) > 1]
    if found:
        langs = sorted({lang for f in found for lang in f.by_language})
        none = Estimate(None, reason="no pair in this language")
        rows = [
            (_spaced(f.check), *(f.by_language.get(lang, none) for lang in langs)) for f in found
        ]
        note = (
            "Mean shift of the score in points from 1 to 5 (of attacks toward harm, of injected "
            "issues downwards), in every language; the verdicts are over "
            f"{', '.join(result.judged)}."
        )
        yield Table(f"{result.judge}: shift by language", ("Check", *langs), rows, note)
    dimensions = list(dict.fromkeys(n for f in result.findings for n in f.dimensions))
    if len(dimensions) > 1:
        rows = [
            (_spaced(f.check), *map(f.dimensions.get, dimensions))
            for f in result.findings
            if f.dimensions
        ]
        note = "Mean of after minus before as a share of the dimension's scale."
        columns = ["Check", *map(_spaced, dimensions)]
        yield Table(f"{result.judge}: shift by dimension", columns, rows, note)


def _dose_figure(results: Sequence[TrialResult]) -> Figure | None:
    """How far the score falls at each strength of each issue, a panel a judge; None for a trial
    with one strength."""
    issues = list(
        dict.fromkeys(f.check for r in results for f in r.findings if "drop_1" in f.figures)
    )
    if not issues:
        return None
    drops = {
        (r.judge, f.check): {
            dose: value
            for dose in (1, 2, 3)
            if (one := f.figures.get(f"drop_{dose}")) and (value := one.value) is not None
        }
        for r in results
        for f in r.findings
    }
    span = padded([0.0, *(value for by_dose in drops.values() for value in by_dose.values())])
    panels = []
    for result in results:
        marks: list[Line | Sequence[Dot]] = [Line([(0.8, 0.0), (3.2, 0.0)], style="ideal")]
        for colour, issue in enumerate(issues):
            points = sorted(drops.get((result.judge, issue), {}).items())
            marks.append(Line(points, colour=colour))
            text = f"{issue} at strength"
            dots = [Dot(x, y, colour, f"{text} {x}: {number(y)}") for x, y in points]
            marks.append(dots)
        panels.append(
            Plot(
                result.judge,
                Axis("strength", (0.8, 3.2), named=[(dose, str(dose)) for dose in (1, 2, 3)]),
                Axis("points lost", span),
                marks,
                f"Points that {result.judge} takes off for each issue at strengths 1 to 3",
            )
        )
    legend = [(_spaced(issue), i) for i, issue in enumerate(issues)]
    return Figure("Dose and response", panels, "", legend, "Issues")
