"""What ``medal trial`` writes and prints: the page, trial.json and tables."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from markupsafe import Markup

from medal_judges.eval.trial.config import GROUPS, Group, Verdict
from medal_judges.eval.trial.findings import TrialFinding, TrialResult
from medal_judges.eval.trial.trial import Trial
from medal_judges.report.console import print_tables
from medal_judges.report.figure import Axis, Dot, Figure, Line, Plot, padded
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.table import Cell, Light, Row, Table, interval, number
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import METHOD
from medal_judges.storage.files import atomic_write

PAGE_NAME, TRIAL_NAME = "trial.html", "trial.json"
_VERDICTS: tuple[Verdict, ...] = ("red", "amber", "green", "none")
_DOSES = (1, 2, 3)
_NAMES = {
    "shift": "Shift", "moved": "Moved", "spearman": "ρ", "gain": "Gain", "raised": "Raised",
    "harmed": "Harmed", "auc": "AUC", "win": "Below its control", "drop": "Drop",
    "slope": "Drop a step", "unscored": "Unscored", "seconds": "Seconds", "tokens": "Tokens",
    "money": "Dollars",
}  # fmt: skip
_COLUMNS: Mapping[Group, tuple[str, ...]] = {
    "same": ("shift", "moved", "spearman"),
    "no_gain": ("gain", "raised", "spearman"),
    "attack": ("harmed", "gain", "moved", "spearman"),
    "must_fall": ("auc", "win", "drop", "slope"),
    "use": ("unscored", "seconds", "tokens", "money"),
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
    facts = [
        ("Seed", str(first.seed)),
        ("Data", first.data),
        *(("Missing", note) for note in trial.notes),
        ("Intervals", METHOD),
        ("medal-judges", first.version),
    ]
    worst: list[Block] = []
    shown = next((judge for judge, pairs in trial.worst.items() if pairs), None)
    for judge, pairs in trial.worst.items():
        body: list[Block] = [fragment(str(__package__), "pair.html", pair=pair) for pair in pairs]
        name = f"{judge}: {len(pairs)} pairs" if pairs else judge
        worst.append(Fold(name, body or ["No pair went the wrong way."], is_open=judge == shown))
    details: list[Block] = [
        Fold(result.judge, list(_details(result)), is_open=len(results) == 1) for result in results
    ]
    signature = Markup('<h3 dir="auto">{}</h3><p><code>{}</code></p>')
    signatures = [signature.format(result.judge, result.signature) for result in results]
    rows = [(_spaced(name, ": "), b.text(), b.why) for name, b in trial.bounds.items()]
    sections = [
        Section("glance", "At a glance", _overview(results)),
        Section("doses", "Dose and response", _dose_figure(results), link="Doses"),
        Section("worst", "The worst pairs to read", worst, link="Worst pairs"),
        Section("details", "All figures", details, link="Figures"),
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
    print_tables(_overview(trial.results), trial.notes)


def _overview(results: Sequence[TrialResult]) -> list[Table]:
    """One row a judge with the verdicts of each group, and one row a check with the judges."""
    judges: list[Row] = []
    for result in results:
        cells: list[Cell] = [result.judge]
        for group in GROUPS:
            counts = result.counts(group)
            worst: Verdict = next((v for v in _VERDICTS if counts[v]), "none")
            shown = ", ".join(f"{counts[v]} {v}" for v in _VERDICTS[:3] if counts[v]) or "no check"
            cells.append(Light(worst, shown, "", float(counts["red"])))
        cost = result.finding("use", "cost")
        seconds = cost.figures["seconds"] if cost else None
        cells.append(seconds if seconds and seconds.value is not None else None)
        judges.append(cells)
    checks: list[Row] = []
    headings: dict[int, str] = {}
    for group, heading in GROUPS.items():
        names = dict.fromkeys(f.check for r in results for f in r.findings if f.group == group)
        if names:
            headings[len(checks)] = heading
        for name in names:
            lights = [_light(result.finding(group, name)) for result in results]
            checks.append((_spaced(name), *lights))
    columns = ("Check", *(result.judge for result in results))
    return [
        Table("At a glance", ("Judge", *GROUPS.values(), "Seconds a dialogue"), judges),
        Table("Check by check", columns, checks, headings=headings),
    ]


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
        signed = name in ("shift", "gain") and value > 0.005
        shown = f"{'+' if signed else ''}{number(value)}"
    word = "AUC" if name == "auc" else _NAMES[name].lower()
    tooltip = " ".join(filter(None, (finding.reason, interval(finding.figure))))
    return Light(finding.verdict, f"{word} {shown}", tooltip, value)


def _spaced(name: str, dot: str = ".") -> str:
    return name.replace("_", " ").replace(".", dot)


def _details(result: TrialResult) -> Iterator[Block]:
    """All figures of a judge: one table a group, then the shifts by language."""
    judged = ", ".join(result.judged)
    yield (
        f"Quality is {result.quality}. Figures are over {judged}; supported languages of the "
        f"judge: {', '.join(result.made_for) or 'any, or unknown'}."
    )
    for group, heading in GROUPS.items():
        findings = [f for f in result.findings if f.group == group]
        names = [n for n in _COLUMNS[group] if any(n in f.figures for f in findings)]
        rows: list[Row] = []
        for f in findings:
            figures = map(f.figures.get, names)
            rows.append((_spaced(f.check), _light(f), *figures, f.pairs, f.conversations, f.what))
        shown = [_NAMES[name] for name in names]
        columns = ["Check", "Verdict", *shown, "Pairs", "Conversations", "What"]
        if findings:
            yield Table(f"{result.judge}: {heading}", columns, rows)
    if found := [f for f in result.findings if len(f.by_language) > 1]:
        langs = sorted({lang for f in found for lang in f.by_language})
        none = Estimate(None, reason="no pair in this language")
        rows = [(_spaced(f.check), *(f.by_language.get(n, none) for n in langs)) for f in found]
        note = (
            "Mean shift of the score in points from 1 to 5 (of attacks toward harm, of injected "
            f"issues downwards), in every language; the verdicts are over {judged}."
        )
        yield Table(f"{result.judge}: shift by language", ("Check", *langs), rows, note)


def _dose_figure(results: Sequence[TrialResult]) -> list[Block]:
    """How far the score falls at each strength of each issue, a panel a judge; nothing for a trial
    with one strength."""
    drops: dict[str, dict[str, list[tuple[float, float]]]] = {}  # judge, issue: (dose, points)
    for result in results:
        for f in result.findings:
            if "drop_1" in f.figures:
                figures = [(dose, f.figures.get(f"drop_{dose}")) for dose in _DOSES]
                points = [(float(x), e.value) for x, e in figures if e and e.value is not None]
                drops.setdefault(result.judge, {})[f.check] = points
    if not drops:
        return []
    issues = list(dict.fromkeys(issue for by_issue in drops.values() for issue in by_issue))
    every = [y for by_issue in drops.values() for points in by_issue.values() for _, y in points]
    ends, span = (_DOSES[0] - 0.2, _DOSES[-1] + 0.2), padded([0.0, *every])
    panels = []
    for judge, by_issue in drops.items():
        marks: list[Line | Sequence[Dot]] = [Line([(x, 0.0) for x in ends], style="ideal")]
        for colour, issue in enumerate(issues):
            points, text = by_issue.get(issue, []), f"{issue} at strength"
            dots = [Dot(x, y, colour, f"{text} {x:g}: {number(y)}") for x, y in points]
            marks += [Line(points, colour=colour), dots]
        strengths = Axis("strength", ends, named=[(dose, str(dose)) for dose in _DOSES])
        about = f"Points that {judge} takes off for each issue at strengths 1 to 3"
        panels.append(Plot(judge, strengths, Axis("points lost", span), marks, about))
    legend = [(_spaced(issue), i) for i, issue in enumerate(issues)]
    return [Figure("Dose and response", panels, "", legend, "Issues")]
