"""Findings of a judge in use: the turn it points at, reliability on rated sets, cost, kinship."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from medal_judges.eval.benchmark.injected import localisation
from medal_judges.eval.trial.config import MIN_PAIRS, BoundName
from medal_judges.eval.trial.dialogues import RatedSet
from medal_judges.eval.trial.findings import Analysis, figure_told
from medal_judges.eval.trial.pairs import ScoredPairs, estimate
from medal_judges.eval.trial.plan import VersionPair
from medal_judges.eval.trial.results import Group, TrialFinding, Verdict
from medal_judges.eval.trial.runner import AGAIN
from medal_judges.records.judgement import Judgement
from medal_judges.stats.correlation import Floats, undefined_reason, weighted_spearman
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, PLAIN
from medal_judges.stats.means import Sample, difference_of, mean_of, share_of

_BINS = 5
# Families of models by a word of their names; the first that fits counts.
_FAMILIES = (
    "gpt", "claude", "gemini", "gemma", "smollm", "qwen", "mistral", "mixtral", "deepseek", "phi",
    "llama", "vicuna", "baichuan", "chatglm", "command", "aya", "yi", "blenderbot", "dialogpt",
    "meena", "falcon", "olmo", "t5",
)  # fmt: skip
_SAME_FAMILY = {"mixtral": "mistral", "vicuna": "llama", "aya": "command"}


@dataclass(frozen=True)
class UseFindings:
    """What the answers of one judge say beside pairs of versions."""

    analysis: Analysis
    rated: Sequence[RatedSet]
    turn_pairs: Sequence[VersionPair]

    def located(self) -> Iterator[TrialFinding]:
        """Whether the judge points at the turn with the fault: by contributions, by turn scores."""
        if (found := self._by_contributions()) is not None:
            yield found
        if self.analysis.answers.turns:
            yield self._by_turns()

    def all(self) -> Iterator[TrialFinding]:
        """Calibration, unscored, cost, kinship."""
        for rated in self.rated:
            if (judged := self.analysis.answers.rated.get(rated.name)) is not None:
                yield self._calibration(rated, judged)
                if (kin := self._kinship(rated, judged)) is not None:
                    yield kin
        yield self._unscored()
        if AGAIN in self.analysis.answers.asked_again:
            yield self._cost()

    # -- the turn with the fault -------------------------------------------------------------------

    def _by_contributions(self) -> TrialFinding | None:
        issues = {edit.name: edit.issue for edit in self.analysis.plan.edits}
        by_name = {d.name: d for d in self.analysis.answers.dimensions}
        hits: list[tuple[float, float, str]] = []
        asked = 0
        for pair in self.analysis.plan.pairs:
            if (
                not pair.touched
                or pair.lang not in self.analysis.judged
                or not _planted(pair, issues)
            ):
                continue
            asked += 1
            judgement = self.analysis.answers.versions[pair.after]
            judged = (issues.get(pair.check), "overall")
            dimension = next((by_name[n] for n in judged if n in by_name), None)
            if dimension is None or dimension.name not in judgement.contributions:
                continue
            if judgement.scores.get(dimension.name) is None:
                continue
            told = judgement.contributions[dimension.name]
            sign = 1.0 if dimension.good == "low" else -1.0
            answers = self.analysis.plan.dialogues[pair.after].assistant_turns
            parts = [sign * part for part in told.turns]
            hits.append((*localisation(parts, answers, pair.touched), pair.conversation))
        if not hits:
            return None
        found, chance = (np.array([hit[i] for hit in hits], dtype=np.float64) for i in (0, 1))
        names = [conversation for _, _, conversation in hits]
        figures = {
            "above_chance": mean_of(Sample(found - chance, names)),
            "found": share_of(Sample(found, names)),
            "chance": share_of(Sample(chance, names)),
        }
        what = "The turn with the largest contribution is one that carries the planted fault."
        return self._finding(
            "must_fall",
            "turn_pointed_at",
            what,
            figures,
            "must_fall.found",
            len(hits),
            asked,
            names,
        )

    def _by_turns(self) -> TrialFinding:
        turns = self.analysis.answers.turns
        pairs = [
            VersionPair(p.check, turn, p.conversation, p.lang, p.before, p.after)
            for p in self.turn_pairs
            for turn in p.touched
        ]
        before, after = (
            [self.analysis.scale.of(turns.get((getattr(p, side), p.strength))) for p in pairs]
            for side in ("before", "after")
        )
        kept = [i for i in range(len(pairs)) if before[i] is not None and after[i] is not None]
        scored = ScoredPairs(
            tuple(pairs[i] for i in kept),
            np.array([before[i] for i in kept], dtype=np.float64),
            np.array([after[i] for i in kept], dtype=np.float64),
            len(pairs),
        )
        figures = {
            "auc": scored.auc(),
            "win": scored.win(),
            "drop": scored.mean(-scored.shift),
        }
        what = "Judged turn by turn, the turn with the fault scores below the sound one."
        return self._finding(
            "must_fall", "faulty_turn", what, figures, "must_fall.auc",
            len(kept), len(pairs), scored.conversations,
        )  # fmt: skip

    # -- rated sets --------------------------------------------------------------------------------

    def _calibration(self, rated: RatedSet, judged: Mapping[str, Judgement]) -> TrialFinding:
        scores = {d.id: self.analysis.scale.of(judged.get(d.id)) for d in rated.dialogues}
        kept = [id for id, score in scores.items() if score is not None]
        judge = np.array([scores[id] for id in kept], dtype=np.float64)
        people = np.array([rated.ratings[id] for id in kept])
        groups = [rated.groups[id] for id in kept]
        figures = {"spearman": _spearman(people, judge, groups)}
        what = f"Against people's ratings of {rated.name}."
        bound: BoundName | None = None
        if rated.scaled:
            figures = {"gap": _gap(people, judge, groups)} | figures
            bound = "use.gap"
        check = f"calibration, {rated.name}"
        asked = len(rated.dialogues)
        return self._finding("use", check, what, figures, bound, len(kept), asked, groups)

    def _kinship(self, rated: RatedSet, judged: Mapping[str, Judgement]) -> TrialFinding | None:
        """What the judge adds to chatbots of its own family beyond people's ratings; None where
        the family of either is not known, or no chatbot is kin, or all are."""
        own = family_of(self.analysis.answers.signature)
        if own is None or not rated.scaled:
            return None
        sides: dict[bool, list[tuple[float, str]]] = {True: [], False: []}
        for dialogue in rated.dialogues:
            score = self.analysis.scale.of(judged.get(dialogue.id))
            bot = family_of(dialogue.chatbot or "")
            if score is not None and bot is not None:
                more = score - rated.ratings[dialogue.id]
                sides[bot == own].append((more, rated.groups[dialogue.id]))
        if not all(sides.values()):
            return None
        kin, others = (
            Sample(np.array([v for v, _ in sides[side]]), [g for _, g in sides[side]])
            for side in (True, False)
        )
        figures = {"kinship": difference_of(kin, others)}
        what = f"Judge minus people, chatbots of the judge's family ({own}) against others."
        names = [group for side in sides.values() for _, group in side]
        return self._finding(
            "use", f"kinship, {rated.name}", what, figures, "use.kinship",
            len(sides[True]), len(rated.dialogues), names,
        )  # fmt: skip

    # -- unscored and cost -----------------------------------------------------------------------

    def _unscored(self) -> TrialFinding:
        ids = list(self.analysis.plan.dialogues)
        missing = np.array([self.analysis.score(id) is None for id in ids], dtype=np.float64)
        groups = [id.partition("+")[0] for id in ids]
        what = "Share of all dialogues and versions without a score."
        figures = {"unscored": share_of(Sample(missing, groups))}
        return self._finding(
            "use", "unscored", what, figures, "use.unscored", len(ids), len(ids), groups
        )

    def _cost(self) -> TrialFinding:
        """Seconds, tokens and dollars of a dialogue; no verdict: the user knows what is dear."""
        answers = self.analysis.answers
        asked = answers.asked_again[AGAIN]
        figures = {
            "seconds": Estimate(answers.seconds, reason=None if answers.seconds else "not timed")
        }
        for name in ("tokens", "money"):
            values = [j.usage[name] for j in asked.values() if name in j.usage]
            if values:
                figures[name] = Estimate(float(np.mean(values)))
        return TrialFinding(
            "use", "cost", "Seconds (on this machine), tokens and dollars of a dialogue.", "none",
            "told, not judged", "seconds", figures, len(asked), len(asked), len(asked),
        )  # fmt: skip

    def _finding(
        self,
        group: Group,
        check: str,
        what: str,
        figures: Mapping[str, Estimate],
        bound: BoundName | None,
        count: int,
        asked: int,
        groups: Sequence[str],
    ) -> TrialFinding:
        headline = next(iter(figures))
        verdict: Verdict = "none"
        if bound is None:
            reason = "told, not judged: the set states no scale"
        elif count < MIN_PAIRS:
            reason = f"{count} pairs, fewer than {MIN_PAIRS}"
        else:
            verdict = self.analysis.bounds[bound].verdict(figures[headline])
            reason = figure_told(headline, figures[headline], self.analysis.bounds[bound])
        conversations = len(set(groups))
        return TrialFinding(
            group,
            check,
            what,
            verdict,
            reason,
            headline,
            dict(figures),
            count,
            asked,
            conversations,
        )


def _planted(pair: VersionPair, issues: Mapping[str, str | None]) -> bool:
    return issues.get(pair.check) is not None or pair.check.startswith(("place_", "long_"))


def family_of(name: str) -> str | None:
    """The family of models that a name (of a chatbot, of a judge's base) belongs to, None where it
    names none that is known."""
    words = re.split(r"[^a-z]+", name.lower())
    for family in _FAMILIES:
        if any(word.startswith(family) for word in words):
            return _SAME_FAMILY.get(family, family)
    return None


def _spearman(people: Floats, judge: Floats, groups: Sequence[str]) -> Estimate:
    if (reason := undefined_reason(people, judge)) is not None:
        return Estimate(None, reason=reason)
    return estimate(lambda w: float(weighted_spearman(people, judge, w[None])[0]), groups, FISHER)


def _gap(people: Floats, judge: Floats, groups: Sequence[str]) -> Estimate:
    """Mean distance of the judge's mean from people's mean over bins of equal size by the judge's
    score, weighted by rows."""
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
