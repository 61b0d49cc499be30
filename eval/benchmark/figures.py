"""The figures of a benchmark: all its tables, computed from judgements and labelled rows only."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import BenchmarkConfig
from medal_judges.eval.metaeval.alignment import own_judgements
from medal_judges.eval.metaeval.comparison import (
    comparison_tables,
    corrected_ceilings,
    dimension_means_table,
)
from medal_judges.eval.metaeval.metaeval import (
    Disagreement,
    JudgedRows,
    ResultRow,
    SystemAgreement,
    disagreements,
    evaluate,
    system_agreements,
)
from medal_judges.records.dimension import EQUAL
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.records.signature import Signature
from medal_judges.report.table import Cell, Table
from medal_judges.stats.correlation import Floats, ratio, weighted_auc
from medal_judges.stats.equal import EQUAL_FACT, Values, present, signs
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import METHOD, WHOM, Clusters, estimated, too_few, wilson
from medal_judges.storage.files import write_json

FOLLOW_UPS = "Follow-ups that were chosen"
LEFT_OUT = "Rows left out"


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """Rows to judge. ``data``: name and hash of the rows, for signatures. ``dimensions``: the
    dimensions to compare, with the judge's names for them. ``left_out``: rows of the source that
    are not in the set. ``published``: labels by models, as answers."""

    rows: tuple[LabelledDialogue, ...]
    data: str
    dimensions: Mapping[str, str]
    level: str = "dialogue"
    left_out: tuple[LabelledDialogue, ...] = ()
    published: tuple[Answers, ...] = ()


@dataclass(frozen=True, slots=True)
class Answers:
    """The judgements of one set by one judge. ``names``: the set's dimensions with the judge's
    names for them; ``scales``: (lowest, highest) of the judge's dimensions, if known."""

    judge: str
    signature: str
    judgements: Sequence[Judgement]
    names: Mapping[str, str]
    scales: Mapping[str, Scale] = field(default_factory=dict)

    @property
    def dimensions(self) -> list[str]:
        return list(dict.fromkeys(name for one in self.judgements for name in one.scores))


@dataclass(slots=True)
class BenchmarkRun:
    """Loaded sets, and the answers of all judges by set. ``notes``: which sets and judges were
    skipped, and why."""

    config: BenchmarkConfig
    sets: dict[str, BenchmarkSet] = field(default_factory=dict)
    injected: dict[str, BenchmarkSet] = field(default_factory=dict)
    answers: dict[str, list[Answers]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Benchmark:
    """The content of results.json and the page. ``facts``: (label, value) pairs on its making."""

    title: str
    rows: Sequence[ResultRow]
    disagreements: Sequence[Disagreement] = ()
    facts: Sequence[tuple[str, str]] = ()
    tables: Sequence[Table] = ()
    systems: Sequence[SystemAgreement] = ()

    def write(self, path: Path) -> Path:
        """Writes everything as JSON; returns the path."""
        record = asdict(replace(self, tables=()))
        record["tables"] = [table.to_record() for table in self.tables]
        return write_json(path, record)


def compute(run: BenchmarkRun, command: str) -> Benchmark:
    """Computes all figures of the run. Raises MedalError if a judgement's row is in no set."""
    from medal_judges import __version__

    def signed(signature: str, data: str, dimension: str) -> str:
        return str(replace(Signature.parse(signature), data=data, dimension=dimension))

    config = run.config
    judged: list[JudgedRows] = []
    differing: list[Disagreement] = []
    for name, data in run.sets.items():
        for answers in run.answers[name]:
            has = answers.dimensions
            for dimension in data.dimensions:
                wanted = answers.names[dimension]
                if wanted not in has:
                    continue
                one = evaluate(
                    data.rows,
                    answers.judgements,
                    dimension,
                    wanted,
                    judge=answers.judge,
                    signature=signed(answers.signature, data.data, dimension),
                    set_name=name,
                    level=data.level,
                    min_coverage=config.min_coverage,
                    left_out=data.left_out,
                    judge_scale=answers.scales.get(wanted),
                    lead=config.interval_for,
                    headline=config.headline,
                )
                judged.append(one)
                if one.row.kind != "binary" and not one.row.under_floor:
                    differing += disagreements(one, wanted, config.disagreements)
    judged = corrected_ceilings(judged)
    results = [one.row for one in judged]
    tables = [*comparison_tables(judged), dimension_means_table(results)]
    if config.published:
        tables.append(published_table(config, results))
    for name, data in run.injected.items():
        tables.append(injected_table(name, data.rows, run.answers[name], config.min_coverage))
    tables.append(
        follow_up_usage(
            (name, answers.judge, answers.judgements)
            for name in run.sets
            for answers in run.answers[name]
        )
    )
    units = {r.set_name: r.clusters for r in results} | dict.fromkeys(run.injected, "conversation")
    facts = [
        ("Made", time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime())),
        ("Version", f"medal_judges {__version__}"),
        ("Command", command),
        ("Intervals", f"{METHOD}; {', '.join(f'{name} by {u}' for name, u in units.items())}"),
        ("Intervals are for", WHOM[config.interval_for]),
        EQUAL_FACT,
        ("Coverage floor", f"{100 * config.min_coverage:g}%"),
        *(
            (f"Rows of {s.name}", f"langs {[*s.langs] or 'all'}, skip {s.skip}, limit {s.limit}")
            for s in config.sets
            if s.langs or s.skip or s.limit
        ),
        *(
            (LEFT_OUT, f"{name}: {len(data.left_out):,} by its settings")
            for name, data in run.sets.items()
            if data.left_out
        ),
        *(
            (f"Signature, {name}", signed(answers.signature, data.data, "injected issues"))
            for name, data in run.injected.items()
            for answers in run.answers[name]
        ),
        *(("Note", note) for note in run.notes),
    ]
    tables = [table for table in tables if table.rows]
    systems = system_agreements(judged)
    return Benchmark(config.title, results, differing, facts, tables, systems)


def follow_up_usage(answers: Iterable[tuple[str, str, Sequence[Judgement]]]) -> Table:
    """Returns one row for each follow-up that was chosen, the most frequent first. ``answers`` are
    (set, judge, judgements); judges that choose no follow-ups have no rows."""
    rows: list[tuple[Cell, ...]] = []
    for name, judge, judgements in answers:
        for dimension in dict.fromkeys(d for j in judgements for d in j.details):
            details = [j.details[dimension] for j in judgements if dimension in j.details]
            selections = [d for d in details if "unread_runs" in d]
            counts = Counter(text for d in selections for text in d.get("follow_ups", ()))
            choices: list[tuple[str, int, float | None]] = [
                (text, n, 100 * n / counts.total()) for text, n in counts.most_common()
            ]
            empty = sum(d.get("selected") == 0 for d in selections)
            unread = sum("selected" not in d for d in selections)
            choices.append(("(none in common: all were used)", empty, None))
            choices.append(("(no selection could be read)", unread, None))
            for text, n, share in choices:
                if n:
                    rows.append((name, judge, dimension, text, n, 100 * n / len(selections), share))
    columns = ("Set", "Judge", "Dimension", "Follow-up", "Chosen in", "% of the rows",
               "% of choices")  # fmt: skip
    note = (
        "Number and share of the rows with a selection of follow-ups for which all runs chose this "
        "one, and its share of all choices (DIET, Figure 3)."
    )
    return Table(FOLLOW_UPS, columns, rows, note)


KINDS = {"planted": "injected", "innocent": "control", "clean": "clean"}  # files' word: ours
INJECTED_COLUMNS = {
    "f1_clean": "F1+ vs clean",
    "f1_control": "F1+ vs matched controls",
    "auc_clean": "AUC vs clean",
    "auc_control": "AUC vs matched controls",
    "win_rate": "Above its control",
    "recall": "Recall",
    "false_alarms": "False alarms, clean",
    "control_alarms": "False alarms, matched controls",
    "localisation": "Turn found",
    "localisation_chance": "Turn found by chance",
}
_INJECTED_NOTE = (
    "Clean rows are untouched; matched controls have harmless edits in the same turns, so noticing "
    "an edit is not enough. The threshold is 0.5; AUC and the share of injected rows above their "
    "own control need none (0.5 is chance)."
)
# Of one issue: the figures by the names of INJECTED_COLUMNS, and the rows and the scored rows of
# each kind.
Result = tuple[dict[str, Estimate], Counter[str], Counter[str]]


def injected_results(
    rows: Iterable[LabelledDialogue],
    judgements: Iterable[Judgement],
    *,
    names: Mapping[str, str] | None = None,
) -> dict[str, Result]:
    """Returns the figures of each issue injected into ``rows``; ``names`` maps an issue to the
    judge's name for it. Intervals come from leaving out one ``group`` at a time; a share of 0 or 1
    has Wilson's interval, with each group as one trial."""
    listed = [row for row in rows if "planted" in row.extra]
    own, _ = own_judgements(listed, list(judgements))
    known = {judgement.id: judgement for judgement in own if judgement.turn is None}
    results = {}
    for issue in dict.fromkeys(row.extra["planted"]["issue"] for row in listed):
        if issue is None:  # the clean rows, which belong to every issue
            continue
        judged = (names or {}).get(issue, issue)
        mine = [row for row in listed if row.extra["planted"]["issue"] in (issue, None)]
        scored = []
        for row in mine:
            judgement = known.get(row.id)
            if judgement is None or (score := judgement.scores.get(judged)) is None:
                continue
            about = row.extra["planted"]
            given = judgement.contributions.get(judged)
            one = {"kind": about["kind"], "pair": about["pair"]}
            one |= {"score": float(score), "group": row.group}
            if about["kind"] == "planted" and given:
                answers = row.dialogue.assistant_turns
                one["hit"], one["chance"] = localisation(given.turns, answers, about["turns"])
            scored.append(one)
        there = Counter(row.extra["planted"]["kind"] for row in mine)
        results[issue] = _figures(scored), there, Counter(one["kind"] for one in scored)
    return results


def localisation(
    contributions: Sequence[float], assistant: Sequence[int], injected: Sequence[int]
) -> tuple[float, float]:
    """Returns (hit, chance) of one dialogue. Hit: whether the assistant turn with the largest
    contribution has the issue; if several turns tie, the share of them that has it. Chance: the
    share of all assistant turns that has the issue."""
    most = max(contributions[i] for i in assistant)
    top = [i for i in assistant if contributions[i] >= most - EQUAL]
    marked = set(injected)
    return len(marked.intersection(top)) / len(top), len(marked) / len(assistant)


def _figures(rows: Sequence[dict[str, Any]]) -> dict[str, Estimate]:
    """Returns ``f1_*`` and ``auc_*`` (injected against clean or matched controls), ``win_rate``
    (injected scored above its own control, ties half), ``false_alarms`` and ``control_alarms``
    (share at or above the threshold), ``recall``, and means of ``localisation``."""
    of_kind = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    controls = {row["pair"]: row["score"] for row in of_kind["innocent"]}
    paired = [row for row in of_kind["planted"] if row["pair"] in controls]
    located = [row for row in of_kind["planted"] if "hit" in row]
    unlocated = "the judge gives no contributions by turn"

    def estimate(of: Iterable[dict[str, Any]], statistic: Callable[[Floats], Floats]) -> Estimate:
        groups = Clusters("conversation", tuple(row["group"] for row in of))
        return estimated(lambda weights: {"share": statistic(weights)}, groups, "undefined")[
            "share"
        ]

    def mean(
        of: Sequence[dict[str, Any]], value: Callable[[dict[str, Any]], float], reason: str
    ) -> Estimate:
        if not of:
            return Estimate(None, reason=reason)
        values = np.array([value(row) for row in of])
        groups = Clusters("conversation", tuple(row["group"] for row in of))
        share = float(values.mean())
        if share in (0, 1) and not too_few(groups):
            return Estimate(share, *wilson(share * groups.count, groups.count))
        return estimate(of, lambda weights: weights @ values / weights.sum(axis=1))

    def alarms(kind: str) -> Estimate:
        none = f"no scored {KINDS[kind]} rows"
        return mean(of_kind[kind], lambda row: float(present(row["score"])), none)

    def versus(kind: str, statistic: Callable[[Floats, Values, Floats], Floats]) -> Estimate:
        for needed in ("planted", kind):
            if not of_kind[needed]:
                return Estimate(None, reason=f"no scored {KINDS[needed]} rows")
        both = [row for row in rows if row["kind"] in ("planted", kind)]
        labels = np.array([row["kind"] == "planted" for row in both], dtype=np.float64)
        scores = Values(np.array([row["score"] for row in both]), EQUAL)
        return estimate(both, lambda weights: statistic(labels, scores, weights))

    return {
        "recall": alarms("planted"),
        "auc_clean": versus("clean", weighted_auc),
        "win_rate": mean(
            paired,
            lambda row: 0.5 + 0.5 * float(signs(row["score"] - controls[row["pair"]], EQUAL)),
            "no injected row scored together with its control",
        ),
        "f1_clean": versus("clean", weighted_f1),
        "f1_control": versus("innocent", weighted_f1),
        "auc_control": versus("innocent", weighted_auc),
        "false_alarms": alarms("clean"),
        "control_alarms": alarms("innocent"),
        "localisation": mean(located, lambda row: row["hit"], unlocated),
        "localisation_chance": mean(located, lambda row: row["chance"], unlocated),
    }


def weighted_f1(labels: Floats, scores: Values, weights: Floats) -> Floats:
    """Returns F1 of label 1 at a threshold of 0.5 for each row of ``weights``."""
    alarmed = present(scores.numbers)
    return ratio(2 * (weights @ (labels * alarmed)), weights @ labels + weights @ alarmed)


def injected_table(
    name: str, rows: Sequence[LabelledDialogue], answers: Sequence[Answers], min_coverage: float
) -> Table:
    """Returns one row for each issue and judge; no rows if nothing was judged."""
    by_issue: dict[str, list[tuple[Cell, ...]]] = {}
    for one in answers:
        found = injected_results(rows, one.judgements, names=one.names)
        for issue, (estimates, there, scored) in found.items():
            if one.names[issue] not in one.dimensions:
                continue
            coverage = scored.total() / there.total()
            figures = [estimates[key] for key in INJECTED_COLUMNS]
            if coverage < min_coverage:
                floor = f"{100 * min_coverage:g}%"
                reason = f"coverage {coverage:.1%} is below the minimum of {floor}"
                figures = [Estimate(None, reason=reason)] * len(INJECTED_COLUMNS)
            line: tuple[Cell, ...] = (issue, one.judge, *figures, there["planted"], coverage)
            by_issue.setdefault(issue, []).append(line)
    cells = [line for lines in by_issue.values() for line in lines]
    columns = ("Issue", "Judge", *INJECTED_COLUMNS.values(), "Injected rows", "Coverage")
    return Table(f"Injected issues: {name}", columns, cells, _INJECTED_NOTE)


OURS = "Our ρ"  # empty in rows that this run did not measure
PUBLISHED = "Beside the published figures"
_PUBLISHED_COLUMNS = ("Set", "Dimension", "Judge", "Their model", "Their ρ", "Their r", "Our model",
                      OURS, "Our r", "n", "Source")  # fmt: skip
_PUBLISHED_NOTE = (
    "The paper's figures, on its version of the data, beside the figures of this run by the same "
    "method and model.\n\nρ is Spearman's, r Pearson's; ns marks figures that the paper calls not "
    "significant (p > 0.05)."
)


def read_published() -> list[dict[str, Any]]:
    """Returns the published correlations with people, the rows of configs/published.yaml.

    ``judge`` and ``variant`` name the judge, ``model`` its language model. ``key`` is the name for
    ``published_as`` in a config: its ``paper``, judge and variant (``diet/fed``; of the paper's own
    judge ``diet/craft-cll``, ``medal``). ``models``: all names of the model.
    """
    file = read_yaml("published")
    for row in file["figures"]:
        row["paper"] = row["source"].split(",")[0]
        other = None if row["judge"] == row["paper"] else row["judge"]
        row["key"] = "/".join(filter(None, (row["paper"], other, row.get("variant"))))
        row["models"] = (row["model"], *file["models"].get(row["model"], ()))
    return list(file["figures"])


def same_model(one: str, other: str) -> bool:
    """Returns whether two names are of one model, apart from its owner, a date and case.

    >>> same_model("openai/gpt-4.1-2025-04-14", "GPT-4.1")
    True
    """
    names = (re.sub(r"-20\d\d-\d\d-\d\d$", "", n.rpartition("/")[2].lower()) for n in (one, other))
    return len(set(names)) == 1


def check_published(config: BenchmarkConfig) -> None:
    """Raises ConfigError for a paper, judge or set that is not among the published figures."""
    named = [("published", name, "paper") for name in config.published]
    named += [
        ("a judge's published_as", j.published_as, "key") for j in config.judges if j.published_as
    ]
    named += [
        ("a set's published_as", s.published_as, "set") for s in config.sets if s.published_as
    ]
    rows = read_published() if named else []
    for what, name, key in named:
        there = dict.fromkeys(row[key] for row in rows)
        if name not in there:
            raise ConfigError(
                f"{what}: {name!r} is not in configs/published.yaml",
                hint=f"there: {', '.join(there)}",
            )


def published_table(config: BenchmarkConfig, rows: Sequence[ResultRow]) -> Table:
    """Returns the published figures on the sets of this benchmark: a line for each of our judges
    that a figure belongs to, or a line that says why there is none."""
    lines: list[tuple[Cell, ...]] = []
    for figure in (figure for figure in read_published() if figure["paper"] in config.published):
        ours = {j.name: j.model for j in config.judges if j.published_as == figure["key"]}
        printed: list[str | None] = []
        for metric in ("spearman", "pearson"):
            mark = " ns" if metric in figure.get("not_significant", ()) else ""
            value = figure[metric]
            printed.append(None if value is None else f"{value:.2f}{mark}")
        for one in config.sets:
            if (one.published_as, one.level) != (figure["set"], figure["level"]):
                continue
            # Labels that come with a paper's own set are by its own judge.
            labels = one.published if figure["key"] == one.published_as else ()
            named = ours | {f"{model} (published)": model for model in labels}
            for dimension, judged in one.dimensions.items():
                if figure["dimension"] not in (dimension, judged):
                    continue
                measured: list[tuple[Cell, ...]] = []
                for row in rows:
                    at = row.set_name, row.dimension
                    if at == (one.name, dimension) and row.judge in named:
                        signature = Signature.parse(row.signature)
                        own = (named[row.judge], signature.base, signature.judge)
                        model = next(filter(None, own))
                        if any(same_model(model, name) for name in figure["models"]):
                            pair = row.metrics.get("spearman"), row.metrics.get("pearson")
                            measured.append((model, *pair, row.scored))
                why = "no figure of this model in this run" if named else "not among our judges"
                who = figure["key"].replace("/", ", "), figure["model"]
                lines += [
                    (one.name, dimension, *who, *printed, *mine, figure["source"])
                    for mine in measured or [(why, None, None, None)]
                ]
    return Table(PUBLISHED, _PUBLISHED_COLUMNS, lines, _PUBLISHED_NOTE)
