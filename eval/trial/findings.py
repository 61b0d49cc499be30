"""Figures, verdicts and worst pairs of one judge's trial, from its judgements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    undefined_reason,
    weighted_auc,
    weighted_spearman,
    within_system_statistic,
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
_TOKEN = re.compile(r"\s+|\w+|[^\w\s]", re.UNICODE)
_CJK = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")
Parts = list[tuple[str, bool]] | None  # (text, changed); None: this version has no such turn
_AGAIN_WHAT = {
    AGAIN: "The same dialogues scored again, without the cache.",
    ROW_ORDER: "The same dialogues in reverse order and in smaller batches.",
    DIMENSION_ORDER: "The same dialogues with the dimensions in reverse order.",
}
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

    def counts(self, group: Group) -> Counter[Verdict]:
        """Returns the number of findings in ``group`` by verdict."""
        return Counter(f.verdict for f in self.findings if f.group == group)

    def finding(self, group: Group, check: str) -> TrialFinding | None:
        """Returns the finding of a check, None if the judge has none."""
        found = (f for f in self.findings if f.group == group and f.check == check)
        return next(found, None)


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
        langs = dict.fromkeys(self.plan.dialogues[id].lang for id in self.plan.originals)
        return tuple([lang for lang in langs if lang in self.languages] or langs)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The plan's pairs with a score on both sides, in every language."""
        pairs = self.plan.pairs
        return with_scores(pairs, map(self._score, pairs.before), map(self._score, pairs.after))

    def own(self, name: str) -> pd.DataFrame:
        """Returns the scored pairs of a check in the languages of the figures."""
        return self.pairs[(self.pairs.check == name) & self.pairs.lang.isin(self.judged)]

    def _score(self, id: str) -> float | None:
        return quality(self.versions.get(id), self.parts)

    def findings(self) -> Iterator[TrialFinding]:
        """Yields one finding for each check that has pairs, in the order of the groups."""
        ids = self.plan.originals
        for name, what in _AGAIN_WHAT.items():
            if name in self.again:
                again = (quality(self.again[name].get(id), self.parts) for id in ids)
                before = map(self._score, ids)
                pairs = with_scores(pd.DataFrame({"conversation": ids}), before, again)
                figures = {"shift": mean(pairs, pairs.change.abs()), **_common(pairs)}
                bounds = {"shift": "again.shift", "moved": "again.moved"}
                yield self._finding("same", name, what, pairs, figures, bounds)
        edits = {edit.name: edit for edit in self.plan.edits}.values()
        yield from (self._edit(edit) for edit in edits if edit.group == "same")
        if (self.plan.pairs.check == LANGUAGE).any():
            pairs = self.pairs[self.pairs.check == LANGUAGE]
            figures = {"shift": mean(pairs, pairs.change), **_common(pairs)}
            figures["spearman"] = spearman_by_language(pairs)
            bounds = {"shift": "language.shift", "spearman": "language.spearman"}
            what = "The same dialogue in another language, against English."
            found = self._finding("same", LANGUAGE, what, pairs, figures, bounds)
            yield replace(found, by_language=_by_language(pairs, +1.0))
        for group in ("no_gain", "attack", "must_fall"):
            yield from (self._edit(edit) for edit in edits if edit.group == group)
        ids = list(self.plan.dialogues)
        missing = pd.DataFrame({"conversation": [id.partition("+")[0] for id in ids]})
        figures = {"unscored": share(missing, pd.Series([self._score(id) is None for id in ids]))}
        what = "Share of dialogues and versions without a score."
        bounds = {"unscored": "use.unscored"}
        yield self._finding("use", "unscored", what, missing, figures, bounds)
        if AGAIN in self.again:
            reason = None if self.seconds else "not timed"
            figures = {"seconds": Estimate(self.seconds, reason=reason)}
            judgements = self.again[AGAIN].values()
            for name in ("tokens", "money"):
                if values := [j.usage[name] for j in judgements if name in j.usage]:
                    figures[name] = Estimate(float(np.mean(values)))
            what = "Seconds (on this machine), tokens and dollars of a dialogue."
            reason, count = "reported without a verdict", len(judgements)
            yield TrialFinding(
                "use", "cost", what, "none", reason, "seconds", figures, count, count
            )

    def _edit(self, edit: Edit) -> TrialFinding:
        """Returns the finding of an edit that should not move the score, or should lower it."""
        every, pairs = self.pairs[self.pairs.check == edit.name], self.own(edit.name)
        figures: dict[str, Estimate] = {}
        if edit.group == "must_fall":
            sign, bounds = -1.0, {"auc": "must_fall.auc"}
            strengths = sorted({e.strength for e in self.plan.edits if e.name == edit.name})
            doses = pairs
            every, pairs = (t[t.strength == strengths[-1]] for t in (every, pairs))
            figures = {"auc": auc(pairs), "win": win(pairs), "drop": mean(pairs, -pairs.change)}
            if len(strengths) > 1:
                for strength in strengths:
                    dose = doses[doses.strength == strength]
                    figures[f"drop_{strength}"] = mean(dose, -dose.change)
                    figures[f"auc_{strength}"] = auc(dose)
                figures["slope"] = dose_slope(doses)
                bounds["slope"] = "must_fall.slope"
        else:
            sign, bounds = (-1.0 if edit.harm == "down" else 1.0), _MOVED[edit.group]
            toward = sign * pairs.change if edit.group == "attack" else pairs.change
            figures["shift" if edit.group == "same" else "gain"] = mean(pairs, toward)
            if edit.group != "same":
                name = "harmed" if edit.group == "attack" else "raised"
                figures[name] = share(pairs, _above_half(toward))
            figures |= _common(pairs)
        found = self._finding(edit.group, edit.name, edit.what, pairs, figures, bounds)
        return replace(found, by_language=_by_language(every, sign))

    def _finding(
        self,
        group: Group,
        check: str,
        what: str,
        rows: pd.DataFrame,
        figures: Mapping[str, Estimate],
        bounds: Mapping[str, str],
    ) -> TrialFinding:
        """Returns a finding about ``rows`` with its verdict. ``bounds`` maps figures to bounds; the
        first figure is the headline."""
        headline = next(iter(bounds))
        verdict: Verdict = "none"
        reason = f"{len(rows)} pairs, fewer than {MIN_PAIRS}"
        if len(rows) >= MIN_PAIRS:
            verdicts = {n: self.bounds[bound].verdict(figures[n]) for n, bound in bounds.items()}
            order: tuple[Verdict, ...] = ("red", "amber", "none", "green")
            verdict = min(verdicts.values(), key=order.index)
            decided = [name for name in bounds if verdicts[name] == verdict]
            headline = decided[0]
            texts = []
            for name in decided:
                value, why = figures[name].value, figures[name].reason
                shown = why if value is None else number(value)
                texts.append(f"{name} {shown} ({self.bounds[bounds[name]].text()})")
            reason = "; ".join(texts)
        return TrialFinding(
            group, check, what, verdict, reason, headline, figures, len(rows),
            rows.conversation.nunique(),
        )  # fmt: skip


def quality(judgement: Judgement | None, parts: Sequence[Dimension]) -> float | None:
    """Returns the mean of ``parts`` from 1 (poor) to 5; None if one of them has no score."""
    units = []
    for dimension in parts:
        score = None if judgement is None else judgement.scores.get(dimension.name)
        if score is None:
            return None
        unit = dimension.to_unit(score)
        units.append(unit if dimension.good == "high" else 1 - unit)
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
    numbers = Values(values.to_numpy(), _TOLERANCE)
    return mean_of(Sample(numbers, pairs.conversation.tolist()))


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
        lambda w: float(weighted_auc(labels, numbers, w[None])[0]), names.tolist(), LOGIT
    )


def win(pairs: pd.DataFrame) -> Estimate:
    """Returns the share of faulty versions that score below their own control; ties count half."""
    return share(pairs, 0.5 - 0.5 * np.sign(pairs.change))


def spearman(table: pd.DataFrame) -> Estimate:
    """Returns the rank correlation of ``x`` and ``y``."""
    x, y = (Values(side.to_numpy(), _TOLERANCE) for side in (table.x, table.y))
    if (reason := undefined_reason(x, y)) is not None:
        return Estimate(None, reason=reason)
    groups = table.conversation.tolist()
    return _estimate(lambda w: float(weighted_spearman(x, y, w[None])[0]), groups, FISHER)


def spearman_by_language(pairs: pd.DataFrame) -> Estimate:
    """Returns the mean rank correlation within a language, weighted by pairs."""
    if pairs.empty:
        return Estimate(None, reason="no scored pair")
    x, y = (Values(side.to_numpy(), _TOLERANCE) for side in (pairs.x, pairs.y))
    statistic = within_system_statistic(x, y, pairs.lang.tolist())

    def figure(weights: Floats) -> float:
        return float(statistic(weights[None])["within_system"][0])

    if not np.isfinite(figure(np.ones(len(pairs)))):
        return Estimate(None, reason="no language with five pairs on which the scores vary")
    return _estimate(figure, pairs.conversation.tolist(), FISHER)


def dose_slope(pairs: pd.DataFrame) -> Estimate:
    """Returns how much further the score falls with each step of strength, in points: the mean
    least-squares slope of the drop over dialogues with two strengths or more."""
    pairs = pairs.sort_values("strength", kind="stable")
    original = pairs.after.map(lambda id: id.rpartition("+")[0])
    slopes, names = [], []
    for (conversation, _), rows in pairs.groupby(["conversation", original], sort=False):
        if len(rows) > 1:
            away = rows.strength.to_numpy(dtype=float) - rows.strength.mean()
            slopes.append(float(-(away @ rows.change) / (away @ away)))
            names.append(conversation)
    return mean_of(Sample(Values(np.array(slopes), _TOLERANCE), names))


def _common(pairs: pd.DataFrame) -> dict[str, Estimate]:
    moved = share(pairs, _above_half(pairs.change.abs()))
    return {"moved": moved, "spearman": spearman(pairs)}


def _above_half(points: pd.Series[float]) -> pd.Series[bool]:
    """Returns whether each is above half a point; a score of such steps moves by just that."""
    return points > HALF + _TOLERANCE


def _by_language(pairs: pd.DataFrame, sign: float) -> dict[str, Estimate]:
    """Returns the mean shift of each language, times ``sign``."""
    return {lang: mean(part, sign * part.change) for lang, part in pairs.groupby("lang")}


def _estimate(
    statistic: Callable[[Floats], float], groups: Sequence[str], scale: Scale
) -> Estimate:
    """Returns a figure of row weights with its interval, which comes from leaving out one
    conversation at a time."""
    return estimated(
        lambda weights: {"figure": np.array([statistic(one) for one in weights])},
        Clusters("conversation", tuple(groups)),
        "undefined for these pairs",
        scale=lambda name: scale,
    )["figure"]


def worst_pairs(analysis: Analysis) -> list[dict[str, Any]]:
    """Returns the pairs with the largest ``harm`` (points in the wrong direction), the worst first,
    at most one of each check. templates/pair.html shows them. ``alike``: unchanged turns that are
    left out before a turn, or at the end."""
    found = []
    for edit in {e.name: e for e in analysis.plan.edits}.values():
        pairs = analysis.own(edit.name)
        sign = -1.0 if edit.harm == "down" else 1.0
        harm = pairs.change.abs() if edit.group == "same" else sign * pairs.change
        if harm.max() > 0:  # NaN without a pair
            found.append((float(harm.max()), edit, pairs.loc[harm.idxmax()]))
    found.sort(key=lambda one: (-one[0], one[1].name))
    worst = []
    for points, edit, pair in found[:_WORST]:
        one, two = (analysis.plan.dialogues[id].turns for id in (pair.before, pair.after))
        turns: list[tuple[Turn | None, Turn | None]] = list(zip_longest(one, two))
        changed = [i for i, (before, after) in enumerate(turns) if before != after]
        rows, last = [], -1  # the turns that differ, with one unchanged turn before and after
        for i in sorted({j for k in changed for j in (k - 1, k, k + 1) if 0 <= j < len(turns)}):
            left, right = marked(*(None if turn is None else turn.content for turn in turns[i]))
            role = next(turn.role for turn in turns[i] if turn is not None)
            row = {"index": i, "role": role, "before": left, "after": right, "alike": i - last - 1}
            rows.append(row)
            last = i
        worst.append(
            {
                "group": GROUPS[edit.group],
                "check": f"{edit.name}, strength {pair.strength}" if pair.strength else edit.name,
                "what": edit.what,
                "lang": pair.lang,
                "id": pair.after,
                "before": float(pair.x),
                "after": float(pair.y),
                "harm": points,
                "rows": rows,
                "alike": len(turns) - last - 1,
            }
        )
    return worst


def marked(before: str | None, after: str | None) -> tuple[Parts, Parts]:
    """Splits both texts into changed and unchanged parts, word by word (Chinese and Japanese: by
    character)."""
    if before is None or after is None:
        one, two = (None if text is None else [(text, True)] for text in (before, after))
        return one, two
    left, right = (
        [t for word in _TOKEN.findall(text) for t in (word if _CJK.search(word) else [word])]
        for text in (before, after)
    )
    codes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    one = [("".join(left[a:b]), kind != "equal") for kind, a, b, _, _ in codes if b > a]
    two = [("".join(right[a:b]), kind != "equal") for kind, _, _, a, b in codes if b > a]
    return one, two
