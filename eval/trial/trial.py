"""Trial: judges score dialogues and edited versions of them, and findings show which edits moved
the scores.

The judgements are written to ``OUT/judgements/JUDGE/`` one by one; a second run resumes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from markupsafe import Markup

from medal_judges import __version__
from medal_judges.eval.trial.config import (
    GROUPS,
    Bounds,
    Group,
    TrialConfig,
    Verdict,
    load_bounds,
)
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
from medal_judges.eval.trial.findings import (
    Analysis,
    TrialFinding,
    TrialResult,
    worst_pairs,
)
from medal_judges.inference.scoring import ScoreOptions, judge_once
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport, ReadOptions
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.report.console import Printout
from medal_judges.report.figure import Axis, Dot, Figure, Line, Plot, Range, padded
from medal_judges.report.page import (
    Block,
    Fold,
    Page,
    Section,
    counted,
    facts_section,
    fragment,
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

    ``data``: a file or spec, read by ``options``; default: the shipped dialogues. Writes
    versions.jsonl, pairs.jsonl and, in judgements/JUDGE/, the judgements and trial.json of each
    judge under ``out``; ``trial_page`` is the page. Raises ConfigError for an unknown check and if
    no dialogue can carry an edit.
    """
    config = config or TrialConfig()
    bounds = load_bounds(config.bounds)
    trial_data = load_data(config, data, reading=reading, options=options)
    plan = make_plan(trial_data, config, trial_edits(trial_data, config, edits))
    write_records(out / "versions.jsonl", plan.dialogues.values())
    write_records(out / "pairs.jsonl", plan.pairs.to_dict("records"))
    results, worst = [], {}
    for trial_judge in _with_unique_names(judges):
        scoring = _Scoring(
            trial_judge, plan, out / "judgements" / trial_judge.name, progress
        )
        analysis = scoring.analysis(config, bounds)
        quality = ", ".join(dimension.name for dimension in analysis.parts)
        if len(analysis.parts) > 1:
            quality = f"the mean of {quality}"
        result = TrialResult(
            judge=trial_judge.name,
            signature=str(trial_judge.judge.signature()),
            quality=quality,
            version=__version__,
            seed=config.seed,
            data=plan.data,
            dialogues=len(plan.originals),
            versions=len(plan.dialogues),
            judged=analysis.judged,
            made_for=tuple(analysis.languages),
            findings=tuple(analysis.findings()),
            notes=tuple(trial_data.notes),
        )
        write_json(scoring.folder / TRIAL_NAME, asdict(result))
        results.append(result)
        worst[trial_judge.name] = worst_pairs(analysis)
    return Trial(tuple(results), worst, plan, bounds)


def _with_unique_names(judges: Sequence[TrialJudge]) -> Iterator[TrialJudge]:
    """Yields the judges; the second ``length`` is ``length-2``."""
    counts = Counter[str]()
    for trial_judge in judges:
        counts[trial_judge.name] += 1
        if counts[trial_judge.name] > 1:
            name = f"{trial_judge.name}-{counts[trial_judge.name]}"
            trial_judge = replace(trial_judge, name=name)
        yield trial_judge


@dataclass(frozen=True, slots=True)
class _Scoring:
    """Scores with one judge everything that the plan needs, each file once."""

    trial_judge: TrialJudge
    plan: TrialPlan
    folder: Path
    progress: Progress | None

    def analysis(self, config: TrialConfig, bounds: Bounds) -> Analysis:
        judge = self.trial_judge.judge
        versions = self.judgements(
            judge, "versions", list(self.plan.dialogues.values())
        )
        analysis = Analysis(
            self.plan, bounds, judge.dimensions, judge.languages or (), versions
        )
        again = analysis.again
        originals = [self.plan.dialogues[id] for id in self.plan.originals]
        # other batches too: half of the tokens in each
        if config.wants(ROW_ORDER, "same"):
            budget = max(1, judge.token_budget // 2)
            backwards = originals[::-1]
            again[ROW_ORDER] = self.judgements(
                judge, ROW_ORDER, backwards, token_budget=budget
            )
        names = [dimension.name for dimension in judge.dimensions]
        if config.wants(DIMENSION_ORDER, "same") and len(names) > 1:
            again[DIMENSION_ORDER] = self.judgements(
                judge, DIMENSION_ORDER, originals, dimensions=names[::-1]
            )
        if config.wants(AGAIN, "same"):
            if self.trial_judge.afresh is not None:
                judge = self.trial_judge.afresh()
            again[AGAIN] = self.judgements(judge, AGAIN, originals)
        return analysis

    def judgements(
        self, judge: Judge, name: str, dialogues: Sequence[Dialogue], **options: Any
    ) -> Mapping[str, Judgement]:
        """Returns the judgements by id, read from the file ``name`` if it has them."""
        label = f"{self.trial_judge.name}: {len(dialogues):,} {name.replace('_', ' ')}"
        advance = None
        if self.progress is not None:
            advance = partial(self.progress, label)
        judgements = judge_once(
            judge,
            dialogues,
            self.folder / f"{name}.jsonl",
            ScoreOptions(unknown_language="allow", **options),
            progress=advance,
        )
        return {judgement.id: judgement for judgement in judgements}


TRIAL_NAME = "trial.json"
_WORST_FIRST: tuple[Verdict, ...] = ("red", "amber", "green")
_DOSES = (1, 2, 3)
Drops = Sequence[tuple[float, float]]  # (dose, points)
_NAMES = {
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
    "unscored": "Unscored",
    "seconds": "Seconds",
    "tokens": "Tokens",
    "money": "Dollars",
}
_COLUMNS: Mapping[Group, tuple[str, ...]] = {
    "same": ("shift", "moved", "spearman"),
    "no_gain": ("gain", "raised", "spearman"),
    "attack": ("harmed", "gain", "moved", "spearman"),
    "must_fall": ("auc", "win", "drop", "slope"),
    "use": ("unscored", "seconds", "tokens", "money"),
}


def trial_page(trial: Trial) -> Page:
    """Returns trial.html, trial.json of all judges, and what the terminal shows."""
    results, plan, first = trial.results, trial.plan, trial.results[0]
    bounds = {name: bound.model_dump() for name, bound in trial.bounds.items()}
    record = {"trials": [asdict(result) for result in results], "bounds": bounds}
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
    details: list[Block] = []
    signatures: list[Block] = []
    heading = Markup('<h3 dir="auto">{}</h3><p><code>{}</code></p>')
    for result in results:
        blocks = list(_details(result))
        details.append(Fold(result.judge, blocks, is_open=len(results) == 1))
        signatures.append(heading.format(result.judge, result.signature))
    bound_rows = []
    for name, bound in trial.bounds.items():
        bound_rows.append((_spaced(name, ": "), bound.text(), bound.why))
    bound_table = Table("Bounds", ("Figure", "Bound", "Why"), bound_rows)
    overview = _overview(results)
    sections = [
        Section("glance", "At a glance", overview),
        Section("doses", "Dose and response", _dose_figure(results), link="Doses"),
        Section(
            "worst", "The worst pairs to read", _worst_folds(trial), link="Worst pairs"
        ),
        Section("details", "All figures", details, link="Figures"),
        Section("bounds", "Bounds", [bound_table]),
        facts_section(facts),
    ]
    return Page(
        name="trial",
        title=f"Trial: {', '.join(result.judge for result in results)}",
        subtitle=counted(counts),
        sections=sections,
        foot=Section("signatures", "Signatures", signatures),
        leads=__package__,
        record=record,
        printout=Printout(overview, first.notes),
    )


def _worst_folds(trial: Trial) -> list[Block]:
    """The worst pairs of each judge; those of the first judge that has any are unfolded."""
    folds: list[Block] = []
    is_first = True
    for judge, pairs in trial.worst.items():
        summary = judge
        cards: list[Block] = ["No pair went the wrong way."]
        if pairs:
            summary = f"{judge}: {len(pairs)} pairs"
            cards = [fragment(str(__package__), "pair.html", pair=p) for p in pairs]
        folds.append(Fold(summary, cards, is_open=bool(pairs) and is_first))
        is_first = is_first and not pairs
    return folds


def _overview(results: Sequence[TrialResult]) -> list[Table]:
    """A table of judges with the verdicts of each group, and a table of checks with the verdict of
    each judge."""
    judges: list[Row] = []
    for result in results:
        seconds = None
        cost = result.finding("use", "cost")
        if cost is not None and cost.figures["seconds"].value is not None:
            seconds = cost.figures["seconds"]
        lights = [_group_light(result.counts(group)) for group in GROUPS]
        judges.append((result.judge, *lights, seconds))
    checks: list[Row] = []
    headings: dict[int, str] = {}
    for group, heading in GROUPS.items():
        names: dict[str, None] = {}
        for result in results:
            names |= dict.fromkeys(finding.check for finding in result.of_group(group))
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


def _group_light(counts: Mapping[Verdict, int]) -> Cell:
    """The worst verdict of a group, with the number of each."""
    texts = []
    worst: Verdict = "none"
    for verdict in _WORST_FIRST:
        if counts[verdict]:
            texts.append(f"{counts[verdict]} {verdict}")
            if worst == "none":
                worst = verdict
    return Light(worst, ", ".join(texts) or "no check", "", float(counts["red"]))


def _light(finding: TrialFinding | None) -> Cell:
    """The verdict with the headline figure; None if the judge has no such finding."""
    if finding is None:
        return None
    name, value = finding.headline, finding.figure.value
    if value is None:
        text = "–"
    elif name in ("moved", "raised", "harmed", "unscored"):
        text = f"{number(100 * value, 0)}%"
    elif name == "seconds":
        text = f"{value:.2g} s"
    else:
        text = number(value)
        if name in ("shift", "gain") and value > 0.005:
            text = f"+{text}"
    word = _NAMES[name].lower()
    if name == "auc":
        word = "AUC"
    tooltip = " ".join(filter(None, (finding.reason, interval(finding.figure))))
    return Light(finding.verdict, f"{word} {text}", tooltip, value)


def _spaced(name: str, dot: str = ".") -> str:
    return name.replace("_", " ").replace(".", dot)


def _details(result: TrialResult) -> Iterator[Block]:
    """All figures of a judge: one table a group, then the shifts by language."""
    set_names = ", ".join(result.judged)
    yield (
        f"Quality is {result.quality}. Figures are over {set_names}; supported languages of the "
        f"judge: {', '.join(result.made_for) or 'any, or unknown'}."
    )
    for group, heading in GROUPS.items():
        findings = result.of_group(group)
        if findings:
            yield _group_table(f"{result.judge}: {heading}", findings, _COLUMNS[group])
    findings = [finding for finding in result.findings if len(finding.by_language) > 1]
    if findings:
        note = (
            "Mean shift of the score in points from 1 to 5 (of attacks toward harm, of injected "
            f"issues downwards), in every language; the verdicts are over {set_names}."
        )
        yield _language_table(f"{result.judge}: shift by language", findings, note)


def _group_table(
    title: str, findings: Sequence[TrialFinding], columns: Sequence[str]
) -> Table:
    """The findings of a group, with those of the figures ``columns`` that any of them has."""
    names: list[str] = []
    for name in columns:
        if any(name in finding.figures for finding in findings):
            names.append(name)
    rows: list[Row] = []
    for finding in findings:
        figures = [finding.figures.get(name) for name in names]
        counts = (finding.pairs, finding.conversations)
        check = _spaced(finding.check)
        rows.append((check, _light(finding), *figures, *counts, finding.what))
    heads = [_NAMES[name] for name in names]
    heads = ["Check", "Verdict", *heads, "Pairs", "Conversations", "What"]
    return Table(title, heads, rows)


def _language_table(title: str, findings: Sequence[TrialFinding], note: str) -> Table:
    languages = sorted(set().union(*(finding.by_language for finding in findings)))
    none = Estimate(None, reason="no pair in this language")
    rows: list[Row] = []
    for finding in findings:
        shifts = [finding.by_language.get(language, none) for language in languages]
        rows.append((_spaced(finding.check), *shifts))
    return Table(title, ("Check", *languages), rows, note)


def _dose_figure(results: Sequence[TrialResult]) -> list[Block]:
    """A plot for each judge of how far the score falls at each strength of each issue. Empty for a
    trial with one strength."""
    drops_of: dict[str, dict[str, Drops]] = {}
    for result in results:
        for finding in result.findings:
            if "drop_1" in finding.figures:
                by_issue = drops_of.setdefault(result.judge, {})
                by_issue[finding.check] = _drops(finding)
    if not drops_of:
        return []
    issues: dict[str, int] = {}
    points = [0.0]
    for by_issue in drops_of.values():
        for issue, drops in by_issue.items():
            issues.setdefault(issue, len(issues))
            points += [point for _, point in drops]
    span = padded(points)
    panels = [
        _dose_panel(judge, by_issue, issues, span)
        for judge, by_issue in drops_of.items()
    ]
    legend = [(_spaced(issue), colour) for issue, colour in issues.items()]
    return [Figure("Dose and response", panels, "", legend)]


def _drops(finding: TrialFinding) -> Drops:
    drops = []
    for dose in _DOSES:
        figure = finding.figures.get(f"drop_{dose}")
        if figure is not None and figure.value is not None:
            drops.append((float(dose), figure.value))
    return drops


def _dose_panel(
    judge: str, by_issue: Mapping[str, Drops], colours: Mapping[str, int], span: Range
) -> Plot:
    ends = (_DOSES[0] - 0.2, _DOSES[-1] + 0.2)
    marks: list[Line | Sequence[Dot]] = [
        Line([(end, 0.0) for end in ends], style="ideal")
    ]
    for issue, colour in colours.items():
        drops = by_issue.get(issue, [])
        dots = []
        for dose, points in drops:
            dots.append(Dot(dose, points, colour))
        marks += Line(drops, colour=colour), dots
    strengths = Axis("strength", ends, named=[(dose, str(dose)) for dose in _DOSES])
    about = f"Points that {judge} takes off for each issue at strengths 1 to 3"
    return Plot(judge, strengths, Axis("points lost", span), marks, about)
