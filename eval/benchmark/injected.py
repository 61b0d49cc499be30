"""What a judge finds of issues injected on purpose, from its judgements and the injected rows only.

The rows are those of ``medal data plant``: injected (label 1), the matched control (a harmless edit
in the same turns, label 0) and clean (untouched); files call the first two ``planted`` and
``innocent``. Clean rows say whether the judge finds the issue, control rows whether it finds the
issue rather than the edit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.table import Cell, Table
from medal_judges.stats.correlation import weighted_auc
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import Clusters, too_few, wilson, with_intervals

Floats = npt.NDArray[np.float64]
THRESHOLD = 0.5
_SHOWN = {"planted": "injected", "innocent": "control", "clean": "clean"}  # of a kind in files


@dataclass(frozen=True, slots=True)
class Counted:
    """An estimate and the number of rows (pairs, for a win rate) that it rests on."""

    estimate: Estimate
    n: int


@dataclass(frozen=True, slots=True)
class InjectedResult:
    """One judge on one injected issue.

    ``figures``: ``f1_clean``, ``auc_clean`` (injected against clean), ``f1_control``,
    ``auc_control`` (injected against matched controls), ``win_rate`` (injected scored above its own
    control; a tie counts half), ``false_alarms`` and ``control_alarms`` (share at or above the
    threshold), ``recall``, ``localisation`` (the turn with the largest contribution among the
    assistant's carries the issue; ties share the point) and ``localisation_chance`` (the same for
    a turn drawn at random). Everything lies in [0, 1].
    ``rows`` and ``scored`` count the rows of each kind.
    """

    issue: str
    figures: Mapping[str, Counted]
    rows: Mapping[str, int] = field(default_factory=dict)
    scored: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Row:
    kind: str
    score: float
    group: str
    pair: str
    hit: float | None  # localisation, injected rows with contributions only
    chance: float | None


def injected_results(
    rows: Iterable[LabelledDialogue],
    judgements: Iterable[Judgement],
    *,
    names: Mapping[str, str] | None = None,
) -> list[InjectedResult]:
    """One result for each issue injected into ``rows``, in order of appearance.

    ``names`` maps an issue to the judge's name for it, where that is another. Judgements are
    matched by id, those of single turns are passed over; what has no score is left out and shows
    in ``scored``. Intervals are those of intervals.py, by ``group``; a share of 0 or 1 has
    Wilson's, one trial a group.
    """
    known = {j.id: j for j in judgements if j.turn is None}
    listed = [row for row in rows if "planted" in row.extra]
    issues = dict.fromkeys(row.extra["planted"]["issue"] for row in listed)
    issues.pop(None, None)  # the clean rows, which belong to every issue
    own = names or {}
    return [_of_issue(issue, own.get(issue, issue), listed, known) for issue in issues]


def _of_issue(
    issue: str,
    judged: str,
    listed: Sequence[LabelledDialogue],
    known: Mapping[str, Judgement],
) -> InjectedResult:
    mine = [row for row in listed if row.extra["planted"]["issue"] in (issue, None)]
    rows = [scored for row in mine if (scored := _row(row, judged, known.get(row.id))) is not None]
    kinds = ("planted", "innocent", "clean")
    return InjectedResult(
        issue=issue,
        figures=_Figures(rows).all(),
        rows={k: sum(r.extra["planted"]["kind"] == k for r in mine) for k in kinds},
        scored={k: sum(r.kind == k for r in rows) for k in kinds},
    )


def _row(row: LabelledDialogue, issue: str, judgement: Judgement | None) -> _Row | None:
    score = judgement.scores.get(issue) if judgement is not None else None
    if judgement is None or score is None:
        return None
    about: Mapping[str, Any] = row.extra["planted"]
    hit, chance = None, None
    contributions = judgement.contributions.get(issue)
    if about["kind"] == "planted" and contributions:
        hit, chance = localisation(
            contributions.turns, row.dialogue.assistant_turns, tuple(about["turns"])
        )
    return _Row(about["kind"], float(score), row.group, about["pair"], hit, chance)


def localisation(
    contributions: Sequence[float], assistant: Sequence[int], injected: Sequence[int]
) -> tuple[float, float]:
    """(hit, chance) of one dialogue with one contribution per turn, both in [0, 1].

    hit: share of the assistant turns with the largest contribution that carry the issue (1 or 0
    unless tied, so that a judge that says the same of all turns scores chance). chance: share of
    all assistant turns that carry it.
    """
    most = max(contributions[i] for i in assistant)
    top = [i for i in assistant if contributions[i] == most]
    marked = set(injected)
    return len(marked.intersection(top)) / len(top), len(marked) / len(assistant)


@dataclass(frozen=True)
class _Figures:
    """Statistics of rows under group weights: the rows are sorted once, weighted often."""

    rows: Sequence[_Row]

    def all(self) -> dict[str, Counted]:
        return {
            "recall": self._alarms("planted"),
            "auc_clean": self._versus("clean", area),
            "win_rate": self._win_rate(),
            "f1_clean": self._versus("clean", weighted_f1),
            "f1_control": self._versus("innocent", weighted_f1),
            "auc_control": self._versus("innocent", area),
            "false_alarms": self._alarms("clean"),
            "control_alarms": self._alarms("innocent"),
            "localisation": self._mean([r for r in self.rows if r.hit is not None], _hit, _NO_TURN),
            "localisation_chance": self._mean(
                [r for r in self.rows if r.chance is not None], _chance, _NO_TURN
            ),
        }

    def _versus(self, kind: str, statistic: Callable[[Floats, Floats, Floats], float]) -> Counted:
        rows = [row for row in self.rows if row.kind in ("planted", kind)]
        labels = np.array([row.kind == "planted" for row in rows], dtype=np.float64)
        if not labels.any() or labels.all():
            missing = _SHOWN["planted" if not labels.any() else kind]
            return Counted(Estimate(None, reason=f"no scored {missing} rows"), len(rows))
        scores = np.array([row.score for row in rows])
        order = np.argsort(scores, kind="stable")
        scores, labels = scores[order], labels[order]
        groups = Clusters("conversation", tuple(rows[i].group for i in order))
        return self._estimate(lambda w: statistic(scores, labels, w), groups)

    def _alarms(self, kind: str) -> Counted:
        rows = [row for row in self.rows if row.kind == kind]
        return self._mean(
            rows, lambda r: float(r.score >= THRESHOLD), f"no scored {_SHOWN[kind]} rows"
        )

    def _win_rate(self) -> Counted:
        controls = {row.pair: row.score for row in self.rows if row.kind == "innocent"}
        rows = [row for row in self.rows if row.kind == "planted" and row.pair in controls]
        return self._mean(
            rows,
            lambda r: 0.5 + 0.5 * float(np.sign(r.score - controls[r.pair])),
            "no injected row scored together with its control",
        )

    def _mean(self, rows: Sequence[_Row], value: Callable[[_Row], float], reason: str) -> Counted:
        if not rows:
            return Counted(Estimate(None, reason=reason), 0)
        values = np.array([value(row) for row in rows])
        groups = Clusters("conversation", tuple(row.group for row in rows))
        share = float(values.mean())
        if share in (0, 1) and not too_few(groups):
            low, high = wilson(share * groups.count, groups.count)
            return Counted(Estimate(share, low, high), len(rows))
        return self._estimate(lambda w: float(w @ values / w.sum()), groups)

    def _estimate(self, statistic: Callable[[Floats], float], groups: Clusters) -> Counted:
        value = statistic(np.ones(len(groups.names)))

        def shares(weights: Floats) -> dict[str, Floats]:
            return {"share": np.array([statistic(one) for one in weights])}

        estimate = with_intervals({"share": Estimate(value)}, shares, groups)["share"]
        return Counted(estimate, len(groups.names))


_NO_TURN = "the judge gives no contributions by turn"


def _hit(row: _Row) -> float:
    assert row.hit is not None
    return row.hit


def _chance(row: _Row) -> float:
    assert row.chance is not None
    return row.chance


def area(scores: Floats, labels: Floats, weights: Floats) -> float:
    """Chance that an injected row scores above another, ties half, of one sample; NaN when the
    weights leave rows of one label only."""
    return float(weighted_auc(labels, scores, weights[None])[0])


def weighted_f1(scores: Floats, labels: Floats, weights: Floats) -> float:
    """F1 of label 1 at the threshold 0.5; 0 when no injected row is found.

    NaN when the weights leave neither injected nor alarmed rows.
    """
    alarmed = scores >= THRESHOLD
    hits = float(weights @ (labels * alarmed))
    total = float(weights @ labels + weights @ alarmed)
    return 2 * hits / total if total else float("nan")


_COLUMNS = {
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
_NOTE = (
    "Issues injected on purpose. Clean rows are untouched; matched controls have harmless edits in "
    "the same turns, so that noticing an edit is not enough. The threshold is 0.5; AUC and the "
    "share of injected rows above their own control need none (0.5 is chance)."
)


def injected_table(
    name: str, results: Mapping[str, Sequence[InjectedResult]], *, min_coverage: float = 0.98
) -> Table | None:
    """One row for each issue and judge, issue by issue; None where nothing was judged."""
    issues = dict.fromkeys(result.issue for of_judge in results.values() for result in of_judge)
    rows = [
        (issue, judge, *_cells(result, min_coverage))
        for issue in issues
        for judge, of_judge in results.items()
        for result in of_judge
        if result.issue == issue
    ]
    if not rows:
        return None
    columns = ("Issue", "Judge", *_COLUMNS.values(), "Injected rows", "Coverage")
    return Table(f"Injected issues: {name}", columns, rows, _NOTE)


def _cells(result: InjectedResult, min_coverage: float) -> list[Cell]:
    total = sum(result.rows.values())
    coverage = sum(result.scored.values()) / total
    injected = result.rows["planted"]
    if coverage < min_coverage:
        reason = f"coverage {coverage:.1%} is under the floor of {100 * min_coverage:g}%"
        return [*[Estimate(None, reason=reason)] * len(_COLUMNS), injected, coverage]
    return [*(result.figures[key].estimate for key in _COLUMNS), injected, coverage]
