"""Figures and verdicts of one judge's trial, from its judgements."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from medal_judges.eval.benchmark.injected import localisation
from medal_judges.eval.trial.config import MIN_PAIRS, Bounds
from medal_judges.eval.trial.dialogues import RatedSet
from medal_judges.eval.trial.edits import (
    AGAIN,
    DIMENSION_ORDER,
    LANGUAGE,
    ROW_ORDER,
    Edit,
    TrialPlan,
    VersionPair,
)
from medal_judges.eval.trial.pairs import (
    HALF,
    QualityScale,
    ScoredPairs,
    estimate,
    oriented,
    spearman,
)
from medal_judges.eval.trial.results import Group, TrialFinding, Verdict
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.report.numbers import number
from medal_judges.stats.correlation import (
    Floats,
)
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import PLAIN
from medal_judges.stats.means import Sample, difference_of, mean_of, share_of

_BINS = 5
_AGAIN_WHAT = {
    AGAIN: "The same dialogues scored again, without the cache.",
    ROW_ORDER: "The same dialogues in reverse order and in smaller batches.",
    DIMENSION_ORDER: "The same dialogues with the dimensions in reverse order.",
}
# Families of models by a word of their names; the first match counts.
_FAMILIES = (
    "gpt", "claude", "gemini", "gemma", "smollm", "qwen", "mistral", "mixtral", "deepseek", "phi",
    "llama", "vicuna", "baichuan", "chatglm", "command", "aya", "yi", "blenderbot", "dialogpt",
    "meena", "falcon", "olmo", "t5",
)  # fmt: skip
_SAME_FAMILY = {"mixtral": "mistral", "vicuna": "llama", "aya": "command"}


@dataclass(slots=True)
class TrialAnswers:
    """The judgements of one judge: of every version by id, of the originals scored ``again`` in
    other ways, of rated sets by name, and of single turns by (id, turn). ``seconds`` a dialogue."""

    signature: str
    dimensions: tuple[Dimension, ...]
    languages: tuple[str, ...] | None
    versions: Mapping[str, Judgement]
    again: dict[str, Mapping[str, Judgement]] = field(default_factory=dict)
    rated: dict[str, Mapping[str, Judgement]] = field(default_factory=dict)
    turn_pairs: list[VersionPair] = field(default_factory=list)
    turns: dict[tuple[str, int], Judgement] = field(default_factory=dict)
    seconds: float | None = None


@dataclass(frozen=True)
class Analysis:
    """One judge's answers to a plan, and the findings from them."""

    plan: TrialPlan
    answers: TrialAnswers
    bounds: Bounds
    rated: Sequence[RatedSet]

    @cached_property
    def scale(self) -> QualityScale:
        return QualityScale(self.answers.dimensions)

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """Languages of the figures: those that the judge supports, or all if it supports none."""
        langs = dict.fromkeys(self.plan.dialogues[id].lang for id in self.plan.originals)
        own = [lang for lang in langs if lang in (self.answers.languages or ())]
        return tuple(own or langs)

    def score(self, id: str) -> float | None:
        """Returns the quality of the version ``id``."""
        return self.scale.of(self.answers.versions.get(id))

    def scored(self, name: str, strength: int | None = None) -> ScoredPairs:
        """Returns the pairs of a check, at one strength or at all, in every language."""
        pairs = [p for p in self.plan.pairs if p.check == name and strength in (None, p.strength)]
        return ScoredPairs.of(pairs, lambda p: self.score(p.before), lambda p: self.score(p.after))

    def own(self, scored: ScoredPairs) -> ScoredPairs:
        """Returns the pairs in the languages of the figures."""
        return scored.where(lambda pair: pair.lang in self.judged)

    def findings(self) -> Iterator[TrialFinding]:
        """Yields one finding for each check that has pairs, in the order of the groups."""
        for name, what in _AGAIN_WHAT.items():
            if name in self.answers.again:
                yield self._again(name, what)
        by_name = {edit.name: edit for edit in self.plan.edits}
        edits = {group: [e for e in by_name.values() if e.group == group] for group in _MOVED}
        yield from map(self._moved, edits["same"])
        if any(pair.check == LANGUAGE for pair in self.plan.pairs):
            yield self._language()
        yield from map(self._moved, [*edits["no_gain"], *edits["attack"]])
        yield from map(self._must_fall, [e for e in by_name.values() if e.group == "must_fall"])
        yield from self._pointed_at()
        if self.answers.turns:
            yield self._by_turns()
        for rated in self.rated:
            if rated.name in self.answers.rated:
                yield self._calibration(rated, self.answers.rated[rated.name])
                yield from self._kinship(rated, self.answers.rated[rated.name])
        yield self._unscored()
        if AGAIN in self.answers.again:
            yield self._cost()

    def _again(self, name: str, what: str) -> TrialFinding:
        other, ids = self.answers.again[name], self.plan.originals
        pairs = [VersionPair(name, 0, id, self.plan.dialogues[id].lang, id, id) for id in ids]
        scored = ScoredPairs.of(
            pairs, lambda p: self.score(p.before), lambda p: self.scale.of(other.get(p.after))
        )
        figures = {"shift": scored.mean(np.abs(scored.shift)), **_common(scored)}
        return self._finding(
            "same", name, what, scored, figures, {"shift": "again.shift", "moved": "again.moved"}
        )

    def _language(self) -> TrialFinding:
        every = self.scored(LANGUAGE)
        figures = {"shift": every.mean(every.shift), **_common(every)}
        figures["spearman"] = every.spearman_by_language()
        bounds = {"shift": "language.shift", "spearman": "language.spearman"}
        what = "The same dialogue in another language, against English."
        found = self._finding("same", LANGUAGE, what, every, figures, bounds)
        return replace(found, by_language=_by_language(every, +1.0))

    def _moved(self, edit: Edit) -> TrialFinding:
        """An edit that should not move the score, or not in one direction."""
        every = self.scored(edit.name)
        scored = self.own(every)
        toward = scored.shift if edit.harm == "up" else -scored.shift
        figures = {"shift": scored.mean(scored.shift)}
        if edit.group == "no_gain":
            figures = {
                "gain": scored.mean(scored.shift),
                "raised": scored.share(scored.shift > HALF),
            }
        elif edit.group == "attack":
            figures = {"gain": scored.mean(toward), "harmed": scored.share(toward > HALF)}
        figures |= _common(scored)
        bounds = _MOVED[edit.group]
        found = self._finding(edit.group, edit.name, edit.what, scored, figures, bounds)
        return self._with_details(found, every, -1.0 if edit.harm == "down" else 1.0)

    def _must_fall(self, edit: Edit) -> TrialFinding:
        strengths = sorted({e.strength for e in self.plan.edits if e.name == edit.name})
        by_strength = {s: self.own(self.scored(edit.name, s)) for s in strengths}
        top = by_strength[strengths[-1]]
        figures = {"auc": top.auc(), "win": top.win(), "drop": top.mean(-top.shift)}
        bounds = {"auc": "must_fall.auc"}
        if len(strengths) > 1:
            for strength, scored in by_strength.items():
                figures[f"drop_{strength}"] = scored.mean(-scored.shift)
                figures[f"auc_{strength}"] = scored.auc()
            figures["slope"] = dose_slope(by_strength)
            bounds["slope"] = "must_fall.slope"
        for dimension in self.answers.dimensions:
            if dimension.name == edit.issue:  # the judge's own dimension for this issue

                def own(id: str, dimension: Dimension = dimension) -> float | None:
                    judgement = self.answers.versions.get(id)
                    score = None if judgement is None else judgement.scores.get(dimension.name)
                    return oriented(dimension, score)

                pairs = ScoredPairs.of(top.pairs, lambda p: own(p.before), lambda p: own(p.after))
                figures["own_auc"] = pairs.auc()
        found = self._finding("must_fall", edit.name, edit.what, top, figures, bounds)
        return self._with_details(found, self.scored(edit.name, strengths[-1]), -1.0)

    def _finding(
        self,
        group: Group,
        check: str,
        what: str,
        scored: ScoredPairs | tuple[int, int, Sequence[str]],
        figures: Mapping[str, Estimate],
        bounds: Mapping[str, str],
    ) -> TrialFinding:
        """Returns a finding with its verdict by ``bounds``, figure -> bound; the first is the
        headline. ``scored``: pairs, or (scored, asked, conversations)."""
        if isinstance(scored, ScoredPairs):
            scored = (len(scored.pairs), scored.asked, scored.conversations)
        count, asked, conversations = scored
        headline = next(iter(bounds or figures))
        verdict: Verdict = "none"
        if not bounds:
            reason = "no verdict: the set states no scale"
        elif count < MIN_PAIRS:
            reason = f"{count} pairs, fewer than {MIN_PAIRS}"
        else:
            verdicts = {n: self.bounds[bound].verdict(figures[n]) for n, bound in bounds.items()}
            verdict = worst(list(verdicts.values()))
            decided = [name for name in bounds if verdicts[name] == verdict]
            headline = decided[0]
            texts = []
            for name in decided:
                value, why = figures[name].value, figures[name].reason
                shown = why if value is None else number(value)
                texts.append(f"{name} {shown} ({self.bounds[bounds[name]].text()})")
            reason = "; ".join(texts)
        several = len(set(conversations))
        return TrialFinding(
            group, check, what, verdict, reason, headline, dict(figures), count, asked, several
        )

    def _with_details(self, found: TrialFinding, every: ScoredPairs, sign: float) -> TrialFinding:
        """Adds the mean shift by language, and by dimension as a share of its scale."""
        shifts: dict[str, float] = {}
        versions = self.answers.versions
        for dimension in self.answers.dimensions:
            moved = []
            for pair in self.own(every).pairs:
                ends = [versions[id].scores.get(dimension.name) for id in (pair.before, pair.after)]
                units = [dimension.to_unit(end) for end in ends if end is not None]
                if len(units) == 2:
                    moved.append(units[1] - units[0])
            if moved:
                shifts[dimension.name] = float(np.mean(moved))
        return replace(found, by_language=_by_language(every, sign), dimensions=shifts)

    def _pointed_at(self) -> Iterator[TrialFinding]:
        """Whether the turn with the largest contribution is the one with the fault."""
        issues = {edit.name: edit.issue for edit in self.plan.edits}
        by_name = {d.name: d for d in self.answers.dimensions}
        hits: list[tuple[float, float]] = []
        names: list[str] = []
        asked = 0
        for pair in self.plan.pairs:
            faulty = issues.get(pair.check) or pair.check.startswith(("place_", "long_"))
            if not faulty or not pair.touched or pair.lang not in self.judged:
                continue
            asked += 1
            judgement = self.answers.versions[pair.after]
            judged = (issues.get(pair.check), "overall")
            dimension = next((by_name[n] for n in judged if n in by_name), None)
            if dimension is None or judgement.scores.get(dimension.name) is None:
                continue
            if (contributions := judgement.contributions.get(dimension.name)) is None:
                continue
            sign = 1.0 if dimension.good == "low" else -1.0
            answers = self.plan.dialogues[pair.after].assistant_turns
            parts = [sign * part for part in contributions.turns]
            hits.append(localisation(parts, answers, pair.touched))
            names.append(pair.conversation)
        if hits:
            found, chance = (np.array([hit[i] for hit in hits], dtype=np.float64) for i in (0, 1))
            figures = {
                "above_chance": mean_of(Sample(found - chance, names)),
                "found": share_of(Sample(found, names)),
                "chance": share_of(Sample(chance, names)),
            }
            what = "The turn with the largest contribution is one with the injected fault."
            counts, bounds = (len(hits), asked, names), {"above_chance": "must_fall.found"}
            yield self._finding("must_fall", "turn_pointed_at", what, counts, figures, bounds)

    def _by_turns(self) -> TrialFinding:
        turns = self.answers.turns
        pairs = [replace(p, strength=t) for p in self.answers.turn_pairs for t in p.touched]
        scored = ScoredPairs.of(
            pairs,
            lambda p: self.scale.of(turns.get((p.before, p.strength))),
            lambda p: self.scale.of(turns.get((p.after, p.strength))),
        )
        figures = {"auc": scored.auc(), "win": scored.win(), "drop": scored.mean(-scored.shift)}
        what = "Judged turn by turn, the turn with the fault scores below the sound one."
        return self._finding(
            "must_fall", "faulty_turn", what, scored, figures, {"auc": "must_fall.auc"}
        )

    def _calibration(self, rated: RatedSet, judged: Mapping[str, Judgement]) -> TrialFinding:
        scores = {d.id: self.scale.of(judged.get(d.id)) for d in rated.dialogues}
        kept = [id for id, score in scores.items() if score is not None]
        judge = np.array([scores[id] for id in kept], dtype=np.float64)
        people = np.array([rated.ratings[id] for id in kept])
        groups = [rated.groups[id] for id in kept]
        figures = {"spearman": spearman(people, judge, groups)}
        bounds: dict[str, str] = {}
        if rated.scaled:
            figures = {"gap": _gap(people, judge, groups)} | figures
            bounds = {"gap": "use.gap"}
        what = f"Against people's ratings of {rated.name}."
        counts = len(kept), len(rated.dialogues), groups
        return self._finding("use", f"calibration, {rated.name}", what, counts, figures, bounds)

    def _kinship(self, rated: RatedSet, judged: Mapping[str, Judgement]) -> Iterator[TrialFinding]:
        """How much more than people the judge gives chatbots of its own family, against others."""
        own = family_of(self.answers.signature)
        if own is None or not rated.scaled:
            return
        sides: dict[bool, list[tuple[float, str]]] = {True: [], False: []}
        for dialogue in rated.dialogues:
            score = self.scale.of(judged.get(dialogue.id))
            bot = family_of(dialogue.chatbot or "")
            if score is not None and bot is not None:
                more = score - rated.ratings[dialogue.id]
                sides[bot == own].append((more, rated.groups[dialogue.id]))
        if all(sides.values()):
            kin, others = (
                Sample(np.array([v for v, _ in side]), [g for _, g in side])
                for side in sides.values()
            )
            what = f"Judge minus people, chatbots of the judge's family ({own}) against others."
            names = [group for side in sides.values() for _, group in side]
            counts = len(sides[True]), len(rated.dialogues), names
            figures = {"kinship": difference_of(kin, others)}
            check, bounds = f"kinship, {rated.name}", {"kinship": "use.kinship"}
            yield self._finding("use", check, what, counts, figures, bounds)

    def _unscored(self) -> TrialFinding:
        ids = list(self.plan.dialogues)
        missing = np.array([self.score(id) is None for id in ids], dtype=np.float64)
        groups = [id.partition("+")[0] for id in ids]
        figures = {"unscored": share_of(Sample(missing, groups))}
        what, counts = "Share of dialogues and versions without a score.", (len(ids),) * 2
        return self._finding(
            "use", "unscored", what, (*counts, groups), figures, {"unscored": "use.unscored"}
        )

    def _cost(self) -> TrialFinding:
        """Seconds, tokens and dollars a dialogue; no verdict."""
        again, seconds = self.answers.again[AGAIN], self.answers.seconds
        figures = {"seconds": Estimate(seconds, reason=None if seconds else "not timed")}
        for name in ("tokens", "money"):
            if values := [j.usage[name] for j in again.values() if name in j.usage]:
                figures[name] = Estimate(float(np.mean(values)))
        what = "Seconds (on this machine), tokens and dollars of a dialogue."
        count, reason = len(again), "reported without a verdict"
        return TrialFinding(
            "use", "cost", what, "none", reason, "seconds", figures, count, count, count
        )


_MOVED: Mapping[Group, Mapping[str, str]] = {
    "same": {"shift": "same.shift", "moved": "same.moved"},
    "no_gain": {"gain": "no_gain.gain", "raised": "no_gain.raised"},
    "attack": {"harmed": "attack.harmed", "gain": "attack.gain"},
}


def worst(verdicts: Sequence[Verdict]) -> Verdict:
    """Returns the worst verdict; ``none`` is worse than green."""
    order: tuple[Verdict, ...] = ("red", "amber", "none", "green")
    return min(verdicts, key=order.index)


def _common(scored: ScoredPairs) -> dict[str, Estimate]:
    return {"moved": scored.share(np.abs(scored.shift) > HALF), "spearman": scored.spearman()}


def _by_language(scored: ScoredPairs, sign: float) -> dict[str, Estimate]:
    """Returns the mean shift of each language, times ``sign``."""
    langs = sorted({pair.lang for pair in scored.pairs})
    parts = {lang: scored.where(lambda pair, lang=lang: pair.lang == lang) for lang in langs}  # type: ignore[misc]
    return {lang: part.mean(sign * part.shift) for lang, part in parts.items()}


def dose_slope(by_strength: Mapping[int, ScoredPairs]) -> Estimate:
    """Returns how much more the score falls with each step of strength, in points a step: the mean
    least-squares slope of (strength, drop) over dialogues with two strengths or more."""
    drops: dict[tuple[str, str], list[tuple[int, float]]] = defaultdict(list)
    for strength, scored in by_strength.items():
        for pair, shift in zip(scored.pairs, scored.shift, strict=True):
            original = pair.after.rpartition("+")[0]
            drops[pair.conversation, original].append((strength, -float(shift)))
    slopes, names = [], []
    for (conversation, _), points in drops.items():
        if len(points) > 1:
            x, y = np.array(points, dtype=np.float64).T
            away = x - x.mean()
            slopes.append(float(away @ y / (away @ away)))
            names.append(conversation)
    return mean_of(Sample(np.array(slopes), names))


def family_of(name: str) -> str | None:
    """Returns the family of models in the name of a chatbot or of a judge's base; None if
    unknown."""
    words = re.split(r"[^a-z]+", name.lower())
    for family in _FAMILIES:
        if any(word.startswith(family) for word in words):
            return _SAME_FAMILY.get(family, family)
    return None


def _gap(people: Floats, judge: Floats, groups: Sequence[str]) -> Estimate:
    """Returns the mean distance of the judge's mean from people's mean over bins of equal size by
    the judge's score, weighted by rows."""
    if len(judge) < _BINS:
        return Estimate(None, reason=f"{len(judge)} rows, fewer than {_BINS}")
    parts = np.array_split(np.argsort(judge, kind="stable"), _BINS)

    def gap(weights: Floats) -> float:
        far = 0.0
        for rows in parts:
            w = weights[rows]
            if w.sum():
                far += abs(float(w @ (judge[rows] - people[rows])))
        return far / float(weights.sum())

    return estimate(gap, groups, PLAIN)
