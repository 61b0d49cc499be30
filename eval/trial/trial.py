"""Trial: judges score dialogues and edited versions of them, and findings show which edits moved
the scores.

The judgements are written to ``OUT/judgements/JUDGE/`` one by one; a second run resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from markupsafe import Markup

from medal_judges import __version__
from medal_judges.eval.scores.trust import trust_section
from medal_judges.eval.trial.config import GROUPS, Bounds, Group, TrialConfig, Verdict, load_bounds
from medal_judges.eval.trial.edits import (
    AGAIN,
    DIMENSION_ORDER,
    ROW_ORDER,
    Edit,
    TrialPlan,
    load_data,
    make_plan,
    trial_edits,
)
from medal_judges.eval.trial.findings import Analysis, TrialFinding, TrialResult, worst_pairs
from medal_judges.inference.scoring import ScoreOptions, judge_once, judging_time
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport, ReadOptions
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import content_hash
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
from medal_judges.stats.equal import EQUAL_FACT
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import METHOD
from medal_judges.storage.files import write_json
from medal_judges.storage.jsonl import write_records

Progress = Callable[[str, int], None]  # label, rows done since the last call


@dataclass(frozen=True, slots=True)
class TrialJudge:
    """A judge on trial. ``afresh`` returns the same judge without its cache, for the second scoring
    of the originals; if it is None, ``judge`` scores them again."""

    name: str
    judge: Judge
    afresh: Callable[[], Judge] | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """The result and the worst pairs of each judge."""

    results: tuple[TrialResult, ...]
    worst: dict[str, list[dict[str, Any]]]
    plan: TrialPlan
    bounds: Bounds


def run_trial(
    judges: Sequence[TrialJudge],
    out: Path,
    config: TrialConfig | None = None,
    *,
    data: str | None = None,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
    edits: Sequence[Edit] = (),
    progress: Progress | None = None,
) -> Trial:
    """Puts ``judges`` on trial, with ``edits`` in addition to the shipped ones.

    ``data``: a file or spec, read by ``options``; default: the shipped dialogues. Writes the
    judgements, versions.jsonl and pairs.jsonl under ``out``; ``write_trial`` writes the page.
    Raises ConfigError for an unknown check and if no dialogue can carry an edit.
    """
    config = config or TrialConfig()
    bounds = load_bounds(config.bounds)
    given = load_data(config, data, reading=reading, options=options)
    plan = make_plan(given, config, trial_edits(given, config, edits))
    write_records(out / "versions.jsonl", plan.dialogues.values())
    write_records(out / "pairs.jsonl", plan.pairs.to_dict("records"))
    results, worst = [], {}
    names: dict[str, int] = {}
    for one in judges:
        number = names[one.name] = names.get(one.name, 0) + 1
        if number > 1:  # the second ``length`` is ``length-2``
            one = replace(one, name=f"{one.name}-{number}")
        analysis = _judged(one, plan, config, bounds, out, progress or (lambda *_: None))
        parts = ", ".join(d.name for d in analysis.parts)
        result = TrialResult(
            judge=one.name,
            signature=str(one.judge.signature()),
            quality=parts if len(analysis.parts) == 1 else f"the mean of {parts}",
            version=__version__,
            seed=config.seed,
            data=plan.data,
            dialogues=len(plan.originals),
            versions=len(plan.dialogues),
            judged=analysis.judged,
            made_for=tuple(analysis.languages),
            findings=tuple(analysis.findings()),
            notes=tuple(given.notes),
        )
        results.append(result)
        worst[one.name] = worst_pairs(analysis)
    return Trial(tuple(results), worst, plan, bounds)


def _judged(
    one: TrialJudge,
    plan: TrialPlan,
    config: TrialConfig,
    bounds: Bounds,
    out: Path,
    progress: Progress,
) -> Analysis:
    """Scores with one judge everything that the plan needs, each file once."""
    judge, folder = one.judge, out / "judgements" / one.name

    def scored(
        name: str, dialogues: Sequence[Dialogue], judge: Judge = judge, **options: Any
    ) -> list[Judgement]:
        what = f"{one.name}: {len(dialogues):,} {name.replace('_', ' ')}"
        return judge_once(
            judge,
            dialogues,
            folder / f"{name}.jsonl",
            ScoreOptions(unknown_language="allow", **options),
            data=content_hash([d.to_record() for d in dialogues]),
            progress=lambda n: progress(what, n),
        )

    def by_id(judgements: Sequence[Judgement]) -> Mapping[str, Judgement]:
        return {judgement.id: judgement for judgement in judgements}

    originals = [plan.dialogues[id] for id in plan.originals]
    names = [d.name for d in judge.dimensions]
    versions = by_id(scored("versions", list(plan.dialogues.values())))
    analysis = Analysis(plan, bounds, judge.dimensions, judge.languages or (), versions)
    if config.wants(ROW_ORDER, "same"):  # other batches too: half of the tokens in each
        budget = max(1, judge.token_budget // 2)
        analysis.again[ROW_ORDER] = by_id(scored(ROW_ORDER, originals[::-1], token_budget=budget))
    if config.wants(DIMENSION_ORDER, "same") and len(names) > 1:
        judgements = scored(DIMENSION_ORDER, originals, dimensions=names[::-1])
        analysis.again[DIMENSION_ORDER] = by_id(judgements)
    if config.wants(AGAIN, "same"):
        fresh = judge if one.afresh is None else one.afresh()
        analysis.again[AGAIN] = by_id(scored(AGAIN, originals, fresh))
        count, seconds = judging_time(folder / f"{AGAIN}.jsonl")
        analysis.seconds = seconds / count if count else None
    return analysis


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
        write_json(out / "judgements" / result.judge / TRIAL_NAME, asdict(result))
    bounds = {name: bound.model_dump() for name, bound in trial.bounds.items()}
    record = {"trials": [asdict(result) for result in results], "bounds": bounds}
    write_json(out / TRIAL_NAME, record)
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
        *(("Missing", note) for note in first.notes),
        ("Intervals", METHOD),
        EQUAL_FACT,
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
        trust_section(result.signature for result in results),
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


def print_trial(trial: Trial) -> None:
    """Prints the overview, the checks, and notes on missing data."""
    print_tables(_overview(trial.results), trial.results[0].notes)


def _overview(results: Sequence[TrialResult]) -> list[Table]:
    """A table of judges with the verdicts of each group, and a table of checks with the verdict of
    each judge."""
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
    """The verdict with the headline figure; None if the judge has no such finding."""
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
    """A plot for each judge of how far the score falls at each strength of each issue. Empty for a
    trial with one strength."""
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
