"""Tables and figures of a trial: at a glance, judge by judge, check by check, dose and response."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from medal_judges.eval.trial.findings import BoundsByName
from medal_judges.eval.trial.results import GROUPS, Group, TrialFinding, TrialResult, Verdict
from medal_judges.report.figure import Axis, Dot, Figure, Line, Plot, padded
from medal_judges.report.numbers import interval, number
from medal_judges.report.table import Cell, Light, Row, Table
from medal_judges.stats.estimate import Estimate

WORST: tuple[Verdict, ...] = ("red", "amber", "green", "none")
NAMES = {
    "shift": "Shift",
    "moved": "Moved",
    "spearman": "ρ",
    "gain": "Gain",
    "raised": "Raised",
    "harmed": "Harmed",
    "auc": "AUC",
    "win": "Below its control",
    "drop": "Drop",
    "slope": "Drop a step",
    "own_auc": "AUC of its own label",
    "above_chance": "Above chance",
    "found": "Turn found",
    "chance": "By chance",
    "gap": "Gap",
    "unscored": "Unscored",
    "kinship": "Kin minus others",
    "seconds": "Seconds",
    "tokens": "Tokens",
    "money": "Dollars",
}
_COLUMNS: Mapping[Group, tuple[str, ...]] = {
    "same": ("shift", "moved", "spearman"),
    "no_gain": ("gain", "raised", "spearman"),
    "attack": ("harmed", "gain", "moved", "spearman"),
    "must_fall": ("auc", "win", "drop", "slope", "own_auc", "above_chance", "found", "chance"),
    "use": ("gap", "spearman", "unscored", "kinship", "seconds", "tokens", "money"),
}


def light(finding: TrialFinding | None) -> Cell:
    """The verdict with the headline figure; a dash where the judge was not asked."""
    if finding is None:
        return None
    figure = finding.figure
    shown = "–" if figure.value is None else _shown(finding.headline, figure.value)
    shown = f"{NAMES[finding.headline].lower() if finding.headline != 'auc' else 'AUC'} {shown}"
    tooltip = " ".join(part for part in (finding.reason, interval(figure)) if part)
    return Light(finding.verdict, shown, tooltip, figure.value)


def _shown(figure: str, value: float) -> str:
    """Shares in percent, seconds with the digits they need, the rest with a sign where it is a
    shift."""
    if figure in ("moved", "raised", "harmed", "unscored"):
        return f"{number(100 * value, 0)}%"
    if figure == "seconds":
        return f"{value:.2g} s"
    if figure in ("shift", "gain", "kinship", "above_chance") and value > 0.005:
        return f"+{number(value)}"
    return number(value)


def glance_table(results: Sequence[TrialResult]) -> Table:
    """One line a judge: for each group the worst verdict and how many findings have which."""
    rows: list[Row] = []
    for result in results:
        cells: list[Cell] = [result.judge]
        for group in GROUPS:
            counts = result.counts(group)
            worst: Verdict = next((v for v in WORST if counts[v]), "none")
            shown = ", ".join(f"{counts[v]} {v}" for v in WORST[:3] if counts[v]) or "not asked"
            cells.append(Light(worst, shown, "", float(counts["red"])))
        seconds = next((f.figures["seconds"] for f in result.findings if f.check == "cost"), None)
        cells.append(seconds if seconds is not None and seconds.value is not None else None)
        rows.append(cells)
    columns = ("Judge", *GROUPS.values(), "Seconds a dialogue")
    return Table("At a glance", columns, rows)


def check_table(results: Sequence[TrialResult]) -> Table:
    """One row a check and one column a judge, group by group."""
    rows: list[Row] = []
    headings: dict[int, str] = {}
    for group, heading in GROUPS.items():
        checks = dict.fromkeys(f.check for r in results for f in r.findings if f.group == group)
        if checks:
            headings[len(rows)] = heading
        for check in checks:
            by_judge = [finding_of(result, group, check) for result in results]
            rows.append((check.replace("_", " "), *map(light, by_judge)))
    columns = ("Check", *(result.judge for result in results))
    return Table("Check by check", columns, rows, headings=headings)


def finding_of(result: TrialResult, group: Group, check: str) -> TrialFinding | None:
    """The judge's finding of a check, None where it has none."""
    found = (f for f in result.findings if f.group == group and f.check == check)
    return next(found, None)


def detail_tables(result: TrialResult) -> Iterator[Table]:
    """All figures of one judge, one table a group."""
    for group, heading in GROUPS.items():
        findings = [f for f in result.findings if f.group == group]
        if not findings:
            continue
        names = [n for n in _COLUMNS[group] if any(n in f.figures for f in findings)]
        rows: list[Row] = [
            (
                f.check.replace("_", " "),
                light(f),
                *(f.figures.get(name) for name in names),
                f.pairs,
                f.conversations,
                f.what,
            )
            for f in findings
        ]
        columns = ("Check", "Verdict", *(NAMES[n] for n in names), "Pairs", "Conversations", "What")
        yield Table(f"{result.judge}: {heading}", columns, rows)


def language_table(result: TrialResult) -> Table | None:
    """The headline shift of each check by language; None where there is one language only."""
    found = [f for f in result.findings if len(f.by_language) > 1]
    langs = sorted({lang for f in found for lang in f.by_language})
    if not found:
        return None
    none = Estimate(None, reason="no pair in this language")
    rows: list[Row] = [
        (f.check.replace("_", " "), *(f.by_language.get(lang, none) for lang in langs))
        for f in found
    ]
    note = (
        "Mean shift of the score in points from 1 to 5 (of attacks towards harm, of planted issues "
        f"downwards), in every language; the verdicts are over {', '.join(result.judged)}."
    )
    return Table(f"{result.judge}: shift by language", ("Check", *langs), rows, note)


def dimension_table(result: TrialResult) -> Table | None:
    """Mean shift of each dimension by check, in percent of its scale; None for one dimension."""
    names = list(dict.fromkeys(n for f in result.findings for n in f.dimensions))
    if len(names) < 2:
        return None
    rows: list[Row] = [
        (f.check.replace("_", " "), *(f.dimensions.get(name) for name in names))
        for f in result.findings
        if f.dimensions
    ]
    note = "Mean of after minus before as a share of the dimension's scale, in its own direction."
    columns = ("Check", *(name.replace("_", " ") for name in names))
    return Table(f"{result.judge}: shift by dimension", columns, rows, note)


def dose_figure(results: Sequence[TrialResult]) -> Figure | None:
    """A panel a judge: how far the score falls at each strength of each issue; None where only one
    strength was asked."""
    issues = list(
        dict.fromkeys(f.check for r in results for f in r.findings if "drop_1" in f.figures)
    )
    if not issues:
        return None
    values = [v for r in results for f in r.findings for v in _drops(f).values()]
    span = padded([0.0, *values])
    panels = [_dose_panel(result, issues, span) for result in results]
    legend = [(issue.replace("_", " "), i) for i, issue in enumerate(issues)]
    return Figure("Dose and response", panels, "", legend, "Issues")


def _drops(finding: TrialFinding) -> dict[int, float]:
    """Mean drop by strength."""
    drops = {
        int(name.removeprefix("drop_")): told.value
        for name, told in finding.figures.items()
        if name.startswith("drop_")
    }
    return {strength: value for strength, value in drops.items() if value is not None}


def _dose_panel(result: TrialResult, issues: Sequence[str], span: tuple[float, float]) -> Plot:
    marks: list[Line | Sequence[Dot]] = [Line([(0.8, 0.0), (3.2, 0.0)], style="ideal")]
    for colour, issue in enumerate(issues):
        finding = finding_of(result, "must_fall", issue)
        drops = {} if finding is None else _drops(finding)
        marks.append(Line(sorted(drops.items()), colour=colour))
        marks.append(
            [
                Dot(strength, drop, colour, f"{issue} at strength {strength}: {number(drop)}")
                for strength, drop in sorted(drops.items())
            ]
        )
    return Plot(
        result.judge,
        Axis("strength", (0.8, 3.2), named=[(dose, str(dose)) for dose in (1, 2, 3)]),
        Axis("points lost", span),
        marks,
        f"Points that {result.judge} takes off for each issue at strengths 1 to 3",
    )


def bounds_table(bounds: BoundsByName) -> Table:
    """Where green ends and red begins, and why."""
    rows = [
        (name.replace(".", ": ").replace("_", " "), bound.told(), bound.why)
        for name, bound in bounds.items()
    ]
    return Table("Bounds", ("Figure", "Bound", "Why"), rows)
