"""Figures, verdicts and worst pairs of one judge's trial, from its judgements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cached_property
from itertools import zip_longest
from typing import Any

import numpy as np
import pandas as pd

from medal_judges.eval.trial.config import GROUPS, Bounds, Group, Verdict
from medal_judges.eval.trial.edits import (
    AGAIN,
    DIMENSION_ORDER,
    LANGUAGE,
    ROW_ORDER,
    Edit,
    TrialPlan,
)
from medal_judges.records.dialogue import Turn
from medal_judges.records.dimension import EQUAL, Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.report.table import number
from medal_judges.stats.correlation import (
    Floats,
    correlation_statistic,
    undefined_reason,
    weighted_auc,
    weighted_spearman,
)
from medal_judges.stats.equal import Values
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, LOGIT, Clusters, Scale, estimated
from medal_judges.stats.means import Sample, mean_of, share_of

MIN_PAIRS = 10  # a check with fewer pairs gets no verdict
HALF = 0.5  # points; a larger shift counts as moved
_QUALITY = (1.0, 5.0)  # the scale of every score of a trial
_TOLERANCE = EQUAL * (_QUALITY[1] - _QUALITY[0])
_WORST = 5  # pairs to read
_WORST_FIRST: Sequence[Verdict] = ("red", "amber", "none", "green")
_CHARACTER = r"[\u3040-\u9fff\uac00-\ud7af]"  # Chinese, Japanese, Korean
_WORD = re.compile(rf"{_CHARACTER}|\s+|(?:(?!{_CHARACTER})\w)+|[^\w\s]")
# (text, changed); None: this version has no such turn
Parts = list[tuple[str, bool]] | None
_AGAIN_WHAT = {
    AGAIN: "The same dialogues scored again, without the cache.",
    ROW_ORDER: "The same dialogues in reverse order and in smaller batches.",
    DIMENSION_ORDER: "The same dialogues with the dimensions in reverse order.",
}
About = tuple[Group, str, str]  # group, check, description
# Bounds of an edit's figures, by its group.
_MOVED: Mapping[Group, dict[str, str]] = {
    "same": {"shift": "same.shift", "moved": "same.moved"},
    "no_gain": {"gain": "no_gain.gain", "raised": "no_gain.raised"},
    "attack": {"harmed": "attack.harmed", "gain": "attack.gain"},
}


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """One check of one judge.

    ``figures`` are points of quality from 1 to 5 (``shift``, ``gain``, ``drop``, ``slope``), or
    shares and correlations (``moved``: share of pairs by more than half a point; ``raised``,
    ``harmed``; ``auc``, ``win``; ``spearman``), with intervals by conversation.
    ``headline`` is the figure that decided the verdict. ``by_language``: the mean shift in each
    language.
    """

    group: Group
    check: str
    what: str
    verdict: Verdict
    reason: str
    headline: str
    figures: Mapping[str, Estimate]
    pairs: int = 0
    conversations: int = 0
    by_language: Mapping[str, Estimate] = field(default_factory=dict)

    @property
    def figure(self) -> Estimate:
        """The headline figure."""
        return self.figures.get(self.headline, Estimate(None, reason=self.reason))


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The trial of one judge, as in trial.json. ``quality``: the dimensions behind its score from 1
    to 5; ``judged``: the languages of the figures; ``made_for``: the judge's supported languages
    (empty: any)."""

    judge: str
    signature: str
    quality: str
    version: str
    seed: int
    data: str
    dialogues: int
    versions: int
    judged: tuple[str, ...]
    findings: tuple[TrialFinding, ...]
    made_for: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def of_group(self, group: Group) -> list[TrialFinding]:
        """Returns the findings in ``group``."""
        return [finding for finding in self.findings if finding.group == group]

    def counts(self, group: Group) -> Counter[Verdict]:
        """Returns the number of findings in ``group`` by verdict."""
        return Counter(finding.verdict for finding in self.of_group(group))

    def finding(self, group: Group, check: str) -> TrialFinding | None:
        """Returns the finding of a check, None if the judge has none."""
        for finding in self.findings:
            if (finding.group, finding.check) == (group, check):
                return finding
        return None


@dataclass
class Analysis:
    """One judge's judgements of a plan, and the findings from them. ``versions``: judgements of all
    versions by id; ``again``: of the originals, scored again in other ways; ``seconds``: time for
    one dialogue."""

    plan: TrialPlan
    bounds: Bounds
    dimensions: Sequence[Dimension]
    languages: Sequence[str]
    versions: Mapping[str, Judgement]
    again: dict[str, Mapping[str, Judgement]] = field(default_factory=dict)
    seconds: float | None = None

    @cached_property
    def parts(self) -> Sequence[Dimension]:
        """The dimensions behind the quality of a dialogue: ``overall``, or else all."""
        return [d for d in self.dimensions if d.name == "overall"] or self.dimensions

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """Languages of the figures: those of the data that the judge supports, or all of them if it
        supports none."""
        languages = dict.fromkeys(
            self.plan.dialogues[id].lang for id in self.plan.originals
        )
        supported = [language for language in languages if language in self.languages]
        return tuple(supported or languages)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The plan's pairs with a score on both sides, in every language."""
        pairs = self.plan.pairs
        return with_scores(
            pairs, map(self._score, pairs.before), map(self._score, pairs.after)
        )

    def pairs_of(self, check: str) -> pd.DataFrame:
        """Returns the scored pairs of a check in the languages of the figures."""
        pairs = self.pairs[self.pairs.check == check]
        return pairs[pairs.lang.isin(self.judged)]

    def _score(self, id: str) -> float | None:
        return quality(self.versions.get(id), self.parts)

    def findings(self) -> Iterator[TrialFinding]:
        """Yields one finding for each check that has pairs, in the order of the groups."""
        for name in _AGAIN_WHAT:
            if name in self.again:
                yield self._scored_again(name)
        edits = {edit.name: edit for edit in self.plan.edits}
        for group in GROUPS:
            for edit in edits.values():
                if edit.group == group:
                    yield self._edit(edit)
            if group == "same" and (self.plan.pairs.check == LANGUAGE).any():
                yield self._translations()
        yield self._unscored()
        if AGAIN in self.again:
            yield self._cost(list(self.again[AGAIN].values()))

    def _scored_again(self, name: str) -> TrialFinding:
        ids = self.plan.originals
        again = [quality(self.again[name].get(id), self.parts) for id in ids]
        pairs = pd.DataFrame({"conversation": ids})
        pairs = with_scores(pairs, map(self._score, ids), again)
        figures = {"shift": mean(pairs, pairs.change.abs()), **_common(pairs)}
        bounds = {"shift": "again.shift", "moved": "again.moved"}
        return self._finding(("same", name, _AGAIN_WHAT[name]), pairs, figures, bounds)

    def _translations(self) -> TrialFinding:
        pairs = self.pairs[self.pairs.check == LANGUAGE]
        figures = {"shift": mean(pairs, pairs.change), **_common(pairs)}
        figures["spearman"] = spearman_by_language(pairs)
        bounds = {"shift": "language.shift", "spearman": "language.spearman"}
        description = "The same dialogue in another language, against English."
        about: About = ("same", LANGUAGE, description)
        return self._finding(about, pairs, figures, bounds, _by_language(pairs, 1.0))

    def _unscored(self) -> TrialFinding:
        ids = list(self.plan.dialogues)
        rows = pd.DataFrame({"conversation": [id.partition("+")[0] for id in ids]})
        unscored = pd.Series([self._score(id) is None for id in ids])
        description = "Share of dialogues and versions without a score."
        about: About = ("use", "unscored", description)
        figures = {"unscored": share(rows, unscored)}
        return self._finding(about, rows, figures, {"unscored": "use.unscored"})

    def _cost(self, judgements: Sequence[Judgement]) -> TrialFinding:
        figures = {"seconds": Estimate(self.seconds)}
        if not self.seconds:
            figures = {"seconds": Estimate(self.seconds, reason="not timed")}
        usage = pd.DataFrame([judgement.usage for judgement in judgements])
        for name in ("tokens", "money"):
            if name in usage:
                figures[name] = Estimate(float(usage[name].mean()))
        description = "Seconds (on this machine), tokens and dollars of a dialogue."
        reason, count = "reported without a verdict", len(judgements)
        return TrialFinding(
            "use", "cost", description, "none", reason, "seconds", figures, count, count
        )

    def _edit(self, edit: Edit) -> TrialFinding:
        """Returns the finding of an edit that should not move the score, or should lower it."""
        if edit.group == "must_fall":
            return self._fault(edit)
        pairs = self.pairs_of(edit.name)
        sign = -1.0 if edit.harm == "down" else 1.0
        harm = sign * pairs.change
        figures: dict[str, Estimate] = {}
        if edit.group == "same":
            figures["shift"] = mean(pairs, pairs.change)
        elif edit.group == "no_gain":
            figures["gain"] = mean(pairs, pairs.change)
            figures["raised"] = share(pairs, _above_half(pairs.change))
        else:
            figures["gain"] = mean(pairs, harm)
            figures["harmed"] = share(pairs, _above_half(harm))
        figures |= _common(pairs)
        by_language = _by_language(self.pairs[self.pairs.check == edit.name], sign)
        return self._finding(
            edit.about, pairs, figures, _MOVED[edit.group], by_language
        )

    def _fault(self, edit: Edit) -> TrialFinding:
        """Returns the finding of an injected issue, at its largest strength, with the figures of
        each strength if there are several."""
        doses = self.pairs_of(edit.name)
        strengths = sorted({e.strength for e in self.plan.edits if e.name == edit.name})
        pairs = doses[doses.strength == strengths[-1]]
        drop = mean(pairs, -pairs.change)
        figures = {"auc": auc(pairs), "win": win(pairs), "drop": drop}
        bounds = {"auc": "must_fall.auc"}
        if len(strengths) > 1:
            for strength in strengths:
                dose = doses[doses.strength == strength]
                figures[f"drop_{strength}"] = mean(dose, -dose.change)
            figures["slope"] = dose_slope(doses)
            bounds["slope"] = "must_fall.slope"
        is_strongest = self.pairs.strength == strengths[-1]
        strongest = self.pairs[is_strongest & (self.pairs.check == edit.name)]
        by_language = _by_language(strongest, -1.0)
        return self._finding(edit.about, pairs, figures, bounds, by_language)

    def _finding(
        self,
        about: About,
        rows: pd.DataFrame,
        figures: Mapping[str, Estimate],
        bounds: Mapping[str, str],
        by_language: Mapping[str, Estimate] | None = None,
    ) -> TrialFinding:
        """Returns a finding about ``rows`` with its verdict, the worst of its figures. ``bounds``
        maps figures to bounds; the first figure that has the verdict is the headline."""
        verdict: Verdict = "none"
        headline = next(iter(bounds))
        reason = f"{len(rows)} pairs, fewer than {MIN_PAIRS}"
        if len(rows) >= MIN_PAIRS:
            reasons: dict[Verdict, dict[str, str]] = {v: {} for v in _WORST_FIRST}
            for name, bound_name in bounds.items():
                bound, figure = self.bounds[bound_name], figures[name]
                text = figure.reason
                if figure.value is not None:
                    text = number(figure.value)
                text = f"{name} {text} ({bound.text()})"
                reasons[bound.verdict(figure)][name] = text
            verdict = next(verdict for verdict in reasons if reasons[verdict])
            headline = next(iter(reasons[verdict]))
            reason = "; ".join(reasons[verdict].values())
        return TrialFinding(
            *(*about, verdict, reason, headline, figures),
            pairs=len(rows),
            conversations=rows.conversation.nunique(),
            by_language=by_language or {},
        )


def quality(judgement: Judgement | None, parts: Sequence[Dimension]) -> float | None:
    """Returns the mean of ``parts`` from 1 (poor) to 5; None if one of them has no score."""
    if judgement is None:
        return None
    units = []
    for dimension in parts:
        score = judgement.scores.get(dimension.name)
        if score is None:
            return None
        unit = dimension.to_unit(score)
        if dimension.good != "high":
            unit = 1 - unit
        units.append(unit)
    low, high = _QUALITY
    return low + (high - low) * sum(units) / len(units)


def with_scores(
    pairs: pd.DataFrame, before: Iterable[float | None], after: Iterable[float | None]
) -> pd.DataFrame:
    """Returns ``pairs`` with their scores ``x`` (before) and ``y`` (after), and ``change``: y - x,
    with differences up to the tolerance as 0. Drops pairs without a score on one side."""
    ends = {"x": np.array([*before], dtype=float), "y": np.array([*after], dtype=float)}
    scored = pairs.assign(**ends).dropna(subset=["x", "y"])
    change = scored.y - scored.x
    return scored.assign(change=change.where(change.abs() > _TOLERANCE, 0.0))


def mean(pairs: pd.DataFrame, values: pd.Series[float]) -> Estimate:
    """Returns the mean of ``values``, which has one value for each pair."""
    return mean_of(Sample(_values(values), pairs.conversation.tolist()))


def share(pairs: pd.DataFrame, flags: pd.Series[bool] | pd.Series[float]) -> Estimate:
    """Returns the share of pairs with a true flag."""
    numbers = Values(flags.to_numpy(dtype=np.float64), 0.0)
    return share_of(Sample(numbers, pairs.conversation.tolist()))


def auc(pairs: pd.DataFrame) -> Estimate:
    """Returns the probability that a faulty version (``y``) scores below a sound one (``x``), over
    all dialogues; ties count half."""
    if pairs.empty:
        return Estimate(None, reason="no scored pair")
    scores = -np.r_[pairs.y, pairs.x]
    labels = np.r_[np.ones(len(pairs)), np.zeros(len(pairs))]
    order = np.argsort(scores, kind="stable")
    numbers, labels = Values(scores[order], _TOLERANCE), labels[order]
    names = np.tile(pairs.conversation, 2)[order]
    return _estimate(
        lambda weights: weighted_auc(labels, numbers, weights), names, LOGIT
    )


def win(pairs: pd.DataFrame) -> Estimate:
    """Returns the share of faulty versions that score below their own control; ties count half."""
    return share(pairs, 0.5 - 0.5 * np.sign(pairs.change))


def spearman(table: pd.DataFrame) -> Estimate:
    """Returns the rank correlation of ``x`` and ``y``."""
    x, y = _values(table.x), _values(table.y)
    reason = undefined_reason(x, y)
    if reason is not None:
        return Estimate(None, reason=reason)
    groups = table.conversation
    return _estimate(lambda weights: weighted_spearman(x, y, weights), groups, FISHER)


def spearman_by_language(pairs: pd.DataFrame) -> Estimate:
    """Returns the mean rank correlation within a language, weighted by pairs."""
    if pairs.empty:
        return Estimate(None, reason="no scored pair")
    statistic = correlation_statistic(
        _values(pairs.x), _values(pairs.y), pairs.lang.tolist(), ["within_system"]
    )
    return _estimate(
        lambda weights: statistic(weights)["within_system"],
        pairs.conversation,
        FISHER,
        reason="no language with five pairs on which the scores vary",
    )


def _values(column: pd.Series[float]) -> Values:
    return Values(column.to_numpy(), _TOLERANCE)


def dose_slope(pairs: pd.DataFrame) -> Estimate:
    """Returns how much further the score falls with each step of strength, in points: the mean
    least-squares slope of the drop over dialogues with two strengths or more."""
    pairs = pairs.sort_values("strength", kind="stable")
    original = pairs.after.map(lambda id: id.rpartition("+")[0])
    slopes, conversations = [], []
    for (conversation, _), rows in pairs.groupby(
        ["conversation", original], sort=False
    ):
        if len(rows) > 1:
            away = rows.strength.to_numpy(dtype=float) - rows.strength.mean()
            slopes.append(float(-(away @ rows.change) / (away @ away)))
            conversations.append(conversation)
    return mean_of(Sample(Values(np.array(slopes), _TOLERANCE), conversations))


def _common(pairs: pd.DataFrame) -> dict[str, Estimate]:
    moved = share(pairs, _above_half(pairs.change.abs()))
    return {"moved": moved, "spearman": spearman(pairs)}


def _above_half(points: pd.Series[float]) -> pd.Series[bool]:
    """Returns whether each is above half a point; a score of such steps moves by just that."""
    return points > HALF + _TOLERANCE


def _by_language(pairs: pd.DataFrame, sign: float) -> dict[str, Estimate]:
    """Returns the mean shift of each language, times ``sign``."""
    return {
        lang: mean(part, sign * part.change) for lang, part in pairs.groupby("lang")
    }


def _estimate(
    statistic: Callable[[Floats], Floats],
    conversations: Iterable[str],
    scale: Scale,
    reason: str = "undefined for these pairs",
) -> Estimate:
    """Returns a figure of row weights with its interval, which comes from leaving out one
    conversation at a time."""
    return estimated(
        lambda weights: {"figure": statistic(weights)},
        Clusters("conversation", tuple(conversations)),
        reason,
        scale=lambda _: scale,
    )["figure"]


# -- the worst pairs -------------------------------------------------------------------------------


def worst_pairs(analysis: Analysis) -> list[dict[str, Any]]:
    """Returns the pairs with the largest ``harm`` (points in the wrong direction), the worst first,
    at most one of each check. templates/pair.html shows them. ``alike``: unchanged turns that are
    left out before a turn, or at the end."""
    worst_of_check = []
    for edit in {edit.name: edit for edit in analysis.plan.edits}.values():
        pairs = analysis.pairs_of(edit.name)
        harm = pairs.change
        if edit.group == "same":
            harm = pairs.change.abs()
        elif edit.harm == "down":
            harm = -pairs.change
        if harm.max() > 0:  # NaN without a pair
            worst_of_check.append((float(harm.max()), edit, pairs.loc[harm.idxmax()]))
    worst_of_check.sort(key=lambda worst: (-worst[0], worst[1].name))
    return [_card(analysis.plan, *worst) for worst in worst_of_check[:_WORST]]


def _card(plan: TrialPlan, harm: float, edit: Edit, pair: Any) -> dict[str, Any]:
    check = edit.name
    if pair.strength:
        check += f", strength {pair.strength}"
    before, after = plan.dialogues[pair.before].turns, plan.dialogues[pair.after].turns
    rows = _changed_rows(before, after)
    turns_shown = sum(1 + row["alike"] for row in rows)
    return {
        "group": GROUPS[edit.group],
        "check": check,
        "what": edit.description,
        "lang": pair.lang,
        "id": pair.after,
        "before": float(pair.x),
        "after": float(pair.y),
        "harm": harm,
        "rows": rows,
        "alike": max(len(before), len(after)) - turns_shown,
    }


def _changed_rows(
    before: Sequence[Turn], after: Sequence[Turn]
) -> list[dict[str, Any]]:
    """Returns the turns that differ, with one unchanged turn before and after them."""
    pairs: list[tuple[Turn | None, Turn | None]] = list(zip_longest(before, after))
    near: set[int] = set()
    for i, (turn_before, turn_after) in enumerate(pairs):
        if turn_before != turn_after:
            near.update((i - 1, i, i + 1))
    rows: list[dict[str, Any]] = []
    next_index = 0
    for i in sorted(near.intersection(range(len(pairs)))):
        turns = [turn for turn in pairs[i] if turn is not None]
        parts = marked(*(getattr(turn, "content", None) for turn in pairs[i]))
        row = dict(zip(("before", "after"), parts, strict=True))
        rows.append({"index": i, "role": turns[0].role, "alike": i - next_index, **row})
        next_index = i + 1
    return rows


def marked(before: str | None, after: str | None) -> tuple[Parts, Parts]:
    """Splits both texts into changed and unchanged parts, word by word (Chinese and Japanese: by
    character). A text of None stays None, and the other text is changed."""
    words, words_after = _WORD.findall(before or ""), _WORD.findall(after or "")
    parts_before: list[tuple[str, bool]] = []
    parts_after: list[tuple[str, bool]] = []
    matcher = SequenceMatcher(None, words, words_after, autojunk=False)
    for kind, start, end, start_after, end_after in matcher.get_opcodes():
        is_changed = kind != "equal"
        parts_before.append(("".join(words[start:end]), is_changed))
        text = "".join(words_after[start_after:end_after])
        parts_after.append((text, is_changed))
    if before is None:
        return None, parts_after
    if after is None:
        return parts_before, None
    return parts_before, parts_after
