"""From one judge's answers to findings: figures of each check, and what they are by the bounds."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from medal_judges.eval.trial.config import MIN_PAIRS, Bound, BoundName, worst
from medal_judges.eval.trial.edits import Edit
from medal_judges.eval.trial.pairs import HALF, QualityScale, ScoredPairs, oriented
from medal_judges.eval.trial.plan import LANGUAGE, TrialPlan, VersionPair
from medal_judges.eval.trial.results import Group, TrialFinding, Verdict
from medal_judges.eval.trial.runner import AGAIN, DIMENSION_ORDER, ROW_ORDER, TrialAnswers
from medal_judges.report.numbers import number
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.means import Sample, mean_of

BoundsByName = Mapping[BoundName, Bound]
_WHAT = {
    AGAIN: "The same dialogues asked again, without kept answers.",
    ROW_ORDER: "The same dialogues in reverse order and in smaller batches.",
    DIMENSION_ORDER: "The same dialogues with the dimensions asked in reverse order.",
}
_LANGUAGE_WHAT = "The same dialogue in another language, against English."


@dataclass(frozen=True)
class Analysis:
    """One judge's answers to a plan. ``judged``: languages that the figures are over, those that
    the judge was made for where the plan has some of them, else all."""

    plan: TrialPlan
    answers: TrialAnswers
    bounds: BoundsByName

    @cached_property
    def scale(self) -> QualityScale:
        return QualityScale(self.answers.dimensions)

    @cached_property
    def judged(self) -> tuple[str, ...]:
        langs = dict.fromkeys(self.plan.dialogues[id].lang for id in self.plan.originals)
        made_for = self.answers.languages
        own = [lang for lang in langs if made_for is not None and lang in made_for]
        return tuple(own or langs)

    def score(self, id: str) -> float | None:
        """Quality of the version ``id``."""
        return self.scale.of(self.answers.versions.get(id))

    def scored(self, name: str, strength: int | None = None) -> ScoredPairs:
        """The pairs of a check, at one strength or at all, in every language."""
        return ScoredPairs.of(
            [
                pair
                for pair in self.plan.pairs
                if pair.check == name and strength in (None, pair.strength)
            ],
            self.score,
        )

    def own(self, scored: ScoredPairs) -> ScoredPairs:
        """Those in the languages that the figures are over."""
        return scored.where(lambda pair: pair.lang in self.judged)

    def findings(self) -> Iterator[TrialFinding]:
        """One for each check of the plan that has pairs, in the order of the groups."""
        for name in (AGAIN, ROW_ORDER, DIMENSION_ORDER):
            if name in self.answers.asked_again:
                yield self._asked_again(name)
        by_name = {edit.name: edit for edit in self.plan.edits}
        for edit in (e for e in by_name.values() if e.group == "same"):
            yield self._same(edit)
        if any(pair.check == LANGUAGE for pair in self.plan.pairs):
            yield self._language()
        for edit in (e for e in by_name.values() if e.group == "no_gain"):
            yield self._no_gain(edit)
        for edit in (e for e in by_name.values() if e.group == "attack"):
            yield self._attack(edit)
        for edit in (e for e in by_name.values() if e.group == "must_fall"):
            yield self._must_fall(edit)

    # -- what should not matter ------------------------------------------------------------------

    def _asked_again(self, name: str) -> TrialFinding:
        other = self.answers.asked_again[name]
        pairs = [
            VersionPair(name, 0, id, self.plan.dialogues[id].lang, id, id)
            for id in self.plan.originals
        ]
        one = ScoredPairs.of(pairs, self.score)
        two = {id: self.scale.of(other.get(id)) for id in self.plan.originals}
        kept = one.where(lambda pair: two[pair.after] is not None)
        scored = replace(
            kept, after=np.array([two[pair.after] for pair in kept.pairs]), asked=len(pairs)
        )
        figures = {
            "shift": scored.mean(np.abs(scored.shift)),
            "moved": scored.share(np.abs(scored.shift) > HALF),
            "spearman": scored.spearman(),
        }
        return self._finding(
            "same", name, _WHAT[name], scored, figures, ("again.shift", "again.moved")
        )

    def _same(self, edit: Edit) -> TrialFinding:
        every = self.scored(edit.name)
        scored = self.own(every)
        figures = {
            "shift": scored.mean(scored.shift),
            "moved": scored.share(np.abs(scored.shift) > HALF),
            "spearman": scored.spearman(),
        }
        found = self._finding(
            "same", edit.name, edit.what, scored, figures, ("same.shift", "same.moved")
        )
        return self._with_details(found, every, edit)

    def _language(self) -> TrialFinding:
        every = self.scored(LANGUAGE)
        figures = {
            "shift": every.mean(every.shift),
            "moved": every.share(np.abs(every.shift) > HALF),
            "spearman": every.spearman_by_language(),
        }
        found = self._finding(
            "same",
            LANGUAGE,
            _LANGUAGE_WHAT,
            every,
            figures,
            ("language.shift", "language.spearman"),
        )
        return replace(found, by_language=_by_language(every, +1.0))

    # -- what must not buy a score, and attacks ----------------------------------------------------

    def _no_gain(self, edit: Edit) -> TrialFinding:
        every = self.scored(edit.name)
        scored = self.own(every)
        figures = {
            "gain": scored.mean(scored.shift),
            "raised": scored.share(scored.shift > HALF),
            "moved": scored.share(np.abs(scored.shift) > HALF),
            "spearman": scored.spearman(),
        }
        found = self._finding(
            "no_gain", edit.name, edit.what, scored, figures, ("no_gain.gain", "no_gain.raised")
        )
        return self._with_details(found, every, edit)

    def _attack(self, edit: Edit) -> TrialFinding:
        every = self.scored(edit.name)
        scored = self.own(every)
        sign = 1.0 if edit.harm == "up" else -1.0
        figures = {
            "gain": scored.mean(sign * scored.shift),
            "harmed": scored.share(sign * scored.shift > HALF),
            "moved": scored.share(np.abs(scored.shift) > HALF),
            "spearman": scored.spearman(),
        }
        found = self._finding(
            "attack", edit.name, edit.what, scored, figures, ("attack.harmed", "attack.gain")
        )
        return self._with_details(found, every, edit)

    # -- what must matter --------------------------------------------------------------------------

    def _must_fall(self, edit: Edit) -> TrialFinding:
        strengths = sorted({e.strength for e in self.plan.edits if e.name == edit.name})
        by_strength = {s: self.own(self.scored(edit.name, s)) for s in strengths}
        top = by_strength[strengths[-1]]
        figures = {"auc": top.auc(), "win": top.win(), "drop": top.mean(-top.shift)}
        names: tuple[BoundName, ...] = ("must_fall.auc",)
        if len(strengths) > 1:
            for strength, scored in by_strength.items():
                figures[f"drop_{strength}"] = scored.mean(-scored.shift)
                figures[f"auc_{strength}"] = scored.auc()
            figures["slope"] = dose_slope(by_strength)
            names = ("must_fall.auc", "must_fall.slope")
        if edit.issue is not None and (own := self._own_label(edit.issue, top)) is not None:
            figures["own_auc"] = own
        found = self._finding("must_fall", edit.name, edit.what, top, figures, names)
        return self._with_details(found, self.scored(edit.name, strengths[-1]), edit)

    def _own_label(self, issue: str, scored: ScoredPairs) -> Estimate | None:
        """The AUC of the judge's own dimension for ``issue``; None where it has none."""
        dimension = next((d for d in self.answers.dimensions if d.name == issue), None)
        if dimension is None:
            return None

        def own(id: str) -> float | None:
            judgement = self.answers.versions.get(id)
            return oriented(dimension, judgement.scores.get(issue) if judgement else None)

        return ScoredPairs.of(scored.pairs, own).auc()

    # -- what all findings have --------------------------------------------------------------------

    def _finding(
        self,
        group: Group,
        check: str,
        what: str,
        scored: ScoredPairs,
        figures: Mapping[str, Estimate],
        names: Sequence[BoundName],
    ) -> TrialFinding:
        headline = names[0].partition(".")[2]
        verdict: Verdict = "none"
        reason = f"{len(scored.pairs)} pairs, fewer than {MIN_PAIRS}"
        if len(scored.pairs) >= MIN_PAIRS:
            told = {n: self.bounds[n].verdict(figures[n.partition(".")[2]]) for n in names}
            verdict = worst(list(told.values()))
            headline = next(n for n in names if told[n] == verdict).partition(".")[2]
            reason = "; ".join(
                _told(n, figures, self.bounds[n]) for n in names if told[n] == verdict
            )
        count = len(set(scored.conversations))
        return TrialFinding(
            group, check, what, verdict, reason, headline, dict(figures),
            len(scored.pairs), scored.asked, count,
        )  # fmt: skip

    def _with_details(self, found: TrialFinding, every: ScoredPairs, edit: Edit) -> TrialFinding:
        """``found`` with the mean shift by language and by dimension."""
        sign = -1.0 if edit.group == "must_fall" or edit.harm == "down" else 1.0
        return replace(
            found,
            by_language=_by_language(every, sign),
            dimensions=self._dimension_shifts(self.own(every)),
        )

    def _dimension_shifts(self, scored: ScoredPairs) -> dict[str, float]:
        """Mean of after - before of each dimension as a share of its scale."""
        shifts: dict[str, float] = {}
        for dimension in self.answers.dimensions:
            moved = []
            for pair in scored.pairs:
                ends = [self.answers.versions[id].scores.get(dimension.name)
                        for id in (pair.before, pair.after)]  # fmt: skip
                if None not in ends:
                    before, after = (dimension.to_unit(float(end or 0.0)) for end in ends)
                    moved.append(after - before)
            if moved:
                shifts[dimension.name] = float(np.mean(moved))
        return shifts


def figure_told(figure: str, told: Estimate, bound: Bound) -> str:
    """``gain 0.31 (green to 0.1, red from 0.25)``."""
    shown = told.reason if told.value is None else number(told.value)
    return f"{figure} {shown} ({bound.told()})"


def _told(name: BoundName, figures: Mapping[str, Estimate], bound: Bound) -> str:
    figure = name.partition(".")[2]
    return figure_told(figure, figures[figure], bound)


def _by_language(scored: ScoredPairs, sign: float) -> dict[str, Estimate]:
    """Mean shift (or drop) of each language."""
    langs = sorted({pair.lang for pair in scored.pairs})
    parts = {lang: scored.where(lambda pair, lang=lang: pair.lang == lang) for lang in langs}  # type: ignore[misc]
    return {lang: part.mean(sign * part.shift) for lang, part in parts.items()}


def dose_slope(by_strength: Mapping[int, ScoredPairs]) -> Estimate:
    """Mean over dialogues of how much more the score falls with each step of strength: the slope of
    a least-squares line through (strength, drop), in points a step. Dialogues that carry two
    strengths or more count."""
    drops: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for strength, scored in by_strength.items():
        for pair, shift in zip(scored.pairs, scored.shift, strict=True):
            original = pair.after.rpartition("+")[0]
            drops[pair.conversation, original].append((strength, -float(shift)))
    several = {key: points for key, points in drops.items() if len(points) > 1}
    slopes = [_slope(points) for points in several.values()]
    return mean_of(Sample(np.array(slopes), [conversation for conversation, _ in several]))


def _slope(points: Sequence[tuple[int, float]]) -> float:
    """Of the least-squares line through the points."""
    x, y = (np.array([point[i] for point in points], dtype=np.float64) for i in (0, 1))
    away = x - x.mean()
    return float(away @ y / (away @ away))
