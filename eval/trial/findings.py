"""Figures and verdicts of one judge's trial, from its judgements."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import pandas as pd

from medal_judges.eval.benchmark.injected import localisation
from medal_judges.eval.trial import pairs as stat
from medal_judges.eval.trial.config import Bounds, Group, Verdict
from medal_judges.eval.trial.edits import (
    AGAIN,
    DIMENSION_ORDER,
    LANGUAGE,
    ROW_ORDER,
    Edit,
    TrialPlan,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.report.numbers import number
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.means import Sample, difference_of

MIN_PAIRS = 10  # a check with fewer pairs gets no verdict
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
# Families of models by a word of their names; the first match counts.
_FAMILIES = (
    "gpt", "claude", "gemini", "gemma", "smollm", "qwen", "mistral", "mixtral", "deepseek", "phi",
    "llama", "vicuna", "baichuan", "chatglm", "command", "aya", "yi", "blenderbot", "dialogpt",
    "meena", "falcon", "olmo", "t5",
)  # fmt: skip
_SAME_FAMILY = {"mixtral": "mistral", "vicuna": "llama", "aya": "command"}


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """One check of one judge.

    ``figures`` are points of quality from 1 to 5 (``shift``, ``gain``, ``drop``, ``slope``), or
    shares and correlations (``moved``: share of pairs by more than half a point; ``raised``,
    ``harmed``; ``auc``, ``win``; ``spearman``; ``found``), with intervals by conversation.
    ``headline`` is the figure that decided the verdict. ``pairs`` of ``asked`` are scored.
    ``by_language``: the mean shift in each language; ``dimensions``: the mean shift of each
    dimension as a share of its scale.
    """

    group: Group
    check: str
    what: str
    verdict: Verdict
    reason: str
    headline: str
    figures: Mapping[str, Estimate]
    pairs: int = 0
    asked: int = 0
    conversations: int = 0
    by_language: Mapping[str, Estimate] = field(default_factory=dict)
    dimensions: Mapping[str, float] = field(default_factory=dict)

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
    """One judge's judgements of a plan, and the findings from them: of every version by id, of the
    originals scored ``again`` in other ways, of the dialogues of each ``rated`` table, and of the
    single ``turns`` of ``turn_pairs`` by (id, turn). ``seconds`` are of one dialogue."""

    plan: TrialPlan
    bounds: Bounds
    signature: str
    dimensions: tuple[Dimension, ...]
    languages: tuple[str, ...]
    versions: Mapping[str, Judgement]
    again: dict[str, Mapping[str, Judgement]] = field(default_factory=dict)
    rated: dict[str, tuple[pd.DataFrame, Mapping[str, Judgement]]] = field(default_factory=dict)
    turn_pairs: pd.DataFrame = field(default_factory=pd.DataFrame)
    turns: Mapping[tuple[str, int | None], Judgement] = field(default_factory=dict)
    seconds: float | None = None

    @cached_property
    def parts(self) -> tuple[Dimension, ...]:
        """The dimensions behind the quality of a dialogue."""
        return stat.quality_parts(self.dimensions)

    @property
    def quality_text(self) -> str:
        names = ", ".join(d.name for d in self.parts)
        return names if len(self.parts) == 1 else f"the mean of {names}"

    @cached_property
    def judged(self) -> tuple[str, ...]:
        """Languages of the figures: those that the judge supports, or all if it supports none."""
        langs = dict.fromkeys(self.plan.dialogues[id].lang for id in self.plan.originals)
        return tuple([lang for lang in langs if lang in self.languages] or langs)

    @cached_property
    def pairs(self) -> pd.DataFrame:
        """The plan's pairs with a score on both sides, in every language."""
        pairs = self.plan.pairs
        return stat.with_scores(
            pairs, map(self._score, pairs.before), map(self._score, pairs.after)
        )

    def own(self, name: str) -> pd.DataFrame:
        """Returns the scored pairs of a check in the languages of the figures."""
        return self.pairs[(self.pairs.check == name) & self.pairs.lang.isin(self.judged)]

    def _score(self, id: str) -> float | None:
        return stat.quality(self.versions.get(id), self.parts)

    def findings(self) -> Iterator[TrialFinding]:
        """Yields one finding for each check that has pairs, in the order of the groups."""
        for name, what in _AGAIN_WHAT.items():
            if name in self.again:
                yield self._again(name, what)
        edits = {edit.name: edit for edit in self.plan.edits}.values()
        yield from (self._edit(edit) for edit in edits if edit.group == "same")
        if (self.plan.pairs.check == LANGUAGE).any():
            yield self._language()
        for group in ("no_gain", "attack", "must_fall"):
            yield from (self._edit(edit) for edit in edits if edit.group == group)
        yield from self._pointed_at()
        if self.turns:
            yield self._by_turns()
        for name, (table, judgements) in self.rated.items():
            yield from self._against_people(name, table, judgements)
        ids = list(self.plan.dialogues)
        missing = pd.DataFrame({"conversation": [id.partition("+")[0] for id in ids]})
        unscored = stat.share(missing, pd.Series([self._score(id) is None for id in ids]))
        what = "Share of dialogues and versions without a score."
        bounds = {"unscored": "use.unscored"}
        yield self._finding("use", "unscored", what, missing, {"unscored": unscored}, bounds)
        if AGAIN in self.again:
            yield self._cost()

    def _again(self, name: str, what: str) -> TrialFinding:
        ids = self.plan.originals
        again = (stat.quality(self.again[name].get(id), self.parts) for id in ids)
        pairs = stat.with_scores(pd.DataFrame({"conversation": ids}), map(self._score, ids), again)
        figures = {"shift": stat.mean(pairs, pairs.change.abs()), **_common(pairs)}
        bounds = {"shift": "again.shift", "moved": "again.moved"}
        return self._finding("same", name, what, pairs, figures, bounds, asked=len(ids))

    def _language(self) -> TrialFinding:
        pairs = self.pairs[self.pairs.check == LANGUAGE]
        figures = {"shift": stat.mean(pairs, pairs.change), **_common(pairs)}
        figures["spearman"] = stat.spearman_by_language(pairs)
        bounds = {"shift": "language.shift", "spearman": "language.spearman"}
        what = "The same dialogue in another language, against English."
        asked = int((self.plan.pairs.check == LANGUAGE).sum())
        found = self._finding("same", LANGUAGE, what, pairs, figures, bounds, asked)
        return replace(found, by_language=_by_language(pairs, +1.0))

    def _edit(self, edit: Edit) -> TrialFinding:
        """An edit that should not move the score, or not in one direction, or that should lower
        it."""
        every, pairs = self.pairs[self.pairs.check == edit.name], self.own(edit.name)
        figures: dict[str, Estimate] = {}
        if edit.group == "must_fall":
            sign, bounds = -1.0, {"auc": "must_fall.auc"}
            strengths = sorted({e.strength for e in self.plan.edits if e.name == edit.name})
            doses = pairs
            every, pairs = (t[t.strength == strengths[-1]] for t in (every, pairs))
            figures = {"auc": stat.auc(pairs), "win": stat.win(pairs)}
            figures["drop"] = stat.mean(pairs, -pairs.change)
            if len(strengths) > 1:
                for strength in strengths:
                    dose = doses[doses.strength == strength]
                    figures[f"drop_{strength}"] = stat.mean(dose, -dose.change)
                    figures[f"auc_{strength}"] = stat.auc(dose)
                figures["slope"] = stat.dose_slope(doses)
                bounds["slope"] = "must_fall.slope"
            for dimension in self.dimensions:
                if dimension.name == edit.issue:  # the judge's own dimension for this issue
                    before, after = (
                        [stat.oriented(self.versions.get(id), dimension) for id in ids]
                        for ids in (pairs.before, pairs.after)
                    )
                    figures["own_auc"] = stat.auc(stat.with_scores(pairs, before, after))
        else:
            sign, bounds = (-1.0 if edit.harm == "down" else 1.0), _MOVED[edit.group]
            toward = sign * pairs.change if edit.group == "attack" else pairs.change
            figures["shift" if edit.group == "same" else "gain"] = stat.mean(pairs, toward)
            if edit.group != "same":
                name = "harmed" if edit.group == "attack" else "raised"
                figures[name] = stat.share(pairs, toward > stat.HALF)
            figures |= _common(pairs)
        shifts: dict[str, float] = {}  # by dimension
        for dimension in self.dimensions:
            moved = []
            for ends in zip(pairs.before, pairs.after, strict=True):
                scores = [self.versions[id].scores.get(dimension.name) for id in ends]
                units = [dimension.to_unit(score) for score in scores if score is not None]
                if len(units) == 2:
                    moved.append(units[1] - units[0])
            if moved:
                shifts[dimension.name] = float(np.mean(moved))
        found = self._finding(edit.group, edit.name, edit.what, pairs, figures, bounds)
        return replace(found, by_language=_by_language(every, sign), dimensions=shifts)

    def _finding(
        self,
        group: Group,
        check: str,
        what: str,
        rows: pd.DataFrame,
        figures: Mapping[str, Estimate],
        bounds: Mapping[str, str],
        asked: int | None = None,
    ) -> TrialFinding:
        """Returns a finding about ``rows`` with its verdict by ``bounds``, figure -> bound; the
        first is the headline. ``asked``: rows with and without a score, if some have none."""
        count, headline = len(rows), next(iter(bounds or figures))
        verdict: Verdict = "none"
        if not bounds:
            reason = "no verdict: the set states no scale"
        elif count < MIN_PAIRS:
            reason = f"{count} pairs, fewer than {MIN_PAIRS}"
        else:
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
        asked = count if asked is None else asked
        about = group, check, what, verdict, reason, headline
        return TrialFinding(*about, figures, count, asked, rows.conversation.nunique())

    def _pointed_at(self) -> Iterator[TrialFinding]:
        """Whether the turn with the largest contribution is the one with the fault."""
        issues = {edit.name: edit.issue for edit in self.plan.edits}
        by_name = {d.name: d for d in self.dimensions}
        hits = []
        asked = 0
        for pair in self.plan.pairs.itertuples():
            faulty = issues.get(pair.check) or pair.check.startswith(("place_", "long_"))
            if not faulty or not pair.touched or pair.lang not in self.judged:
                continue
            asked += 1
            judgement = self.versions[pair.after]
            names = (issues.get(pair.check), "overall")
            dimension = next((by_name[name] for name in names if name in by_name), None)
            if dimension is None or judgement.scores.get(dimension.name) is None:
                continue
            if (contributions := judgement.contributions.get(dimension.name)) is None:
                continue
            sign = 1.0 if dimension.good == "low" else -1.0
            answers = self.plan.dialogues[pair.after].assistant_turns
            parts = [sign * part for part in contributions.turns]
            hits.append((pair.conversation, *localisation(parts, answers, pair.touched)))
        if hits:
            table = pd.DataFrame(hits, columns=["conversation", "found", "chance"])
            figures = {
                "above_chance": stat.mean(table, table.found - table.chance),
                "found": stat.share(table, table.found),
                "chance": stat.share(table, table.chance),
            }
            what = "The turn with the largest contribution is one with the injected fault."
            bounds = {"above_chance": "must_fall.found"}
            yield self._finding("must_fall", "turn_pointed_at", what, table, figures, bounds, asked)

    def _by_turns(self) -> TrialFinding:
        every = self.turn_pairs.explode("touched")
        before, after = (
            [
                stat.quality(self.turns.get(key), self.parts)
                for key in zip(ids, every.touched, strict=True)
            ]
            for ids in (every.before, every.after)
        )
        pairs = stat.with_scores(every, before, after)
        figures = {
            "auc": stat.auc(pairs),
            "win": stat.win(pairs),
            "drop": stat.mean(pairs, -pairs.change),
        }
        what = "Judged turn by turn, the turn with the fault scores below the sound one."
        bounds = {"auc": "must_fall.auc"}
        return self._finding("must_fall", "faulty_turn", what, pairs, figures, bounds, len(every))

    def _against_people(
        self, name: str, table: pd.DataFrame, judgements: Mapping[str, Judgement]
    ) -> Iterator[TrialFinding]:
        """Calibration, and how much more than people the judge gives chatbots of its own family,
        against others."""
        scores = [stat.quality(judgements.get(id), self.parts) for id in table.id]
        rows = stat.with_scores(table, table.rating, scores)
        scaled = bool(table.scaled.all())
        figures = {"spearman": stat.spearman(rows)}
        bounds: dict[str, str] = {}
        if scaled:
            figures, bounds = {"gap": stat.calibration_gap(rows)} | figures, {"gap": "use.gap"}
        what, asked = f"Against people's ratings of {name}.", len(table)
        yield self._finding("use", f"calibration, {name}", what, rows, figures, bounds, asked)
        own = family_of(self.signature)
        families = rows.chatbot.map(lambda bot: family_of(bot or ""))
        kin, others = rows[families == own], rows[families.notna() & (families != own)]
        if own is None or not scaled or kin.empty or others.empty:
            return
        one, two = (
            Sample((side.y - side.x).to_numpy(), side.conversation.tolist())
            for side in (kin, others)
        )
        what = f"Judge minus people, chatbots of the judge's family ({own}) against others."
        figures, bounds = {"kinship": difference_of(one, two)}, {"kinship": "use.kinship"}
        found = self._finding("use", f"kinship, {name}", what, kin, figures, bounds, asked)
        both = {*kin.conversation, *others.conversation}
        yield replace(found, conversations=len(both))

    def _cost(self) -> TrialFinding:
        """Seconds, tokens and dollars a dialogue; no verdict."""
        again = self.again[AGAIN]
        figures = {"seconds": Estimate(self.seconds, reason=None if self.seconds else "not timed")}
        for name in ("tokens", "money"):
            if values := [j.usage[name] for j in again.values() if name in j.usage]:
                figures[name] = Estimate(float(np.mean(values)))
        what = "Seconds (on this machine), tokens and dollars of a dialogue."
        reason, count = "reported without a verdict", len(again)
        return TrialFinding(
            "use", "cost", what, "none", reason, "seconds", figures, count, count, count
        )


def _common(pairs: pd.DataFrame) -> dict[str, Estimate]:
    return {
        "moved": stat.share(pairs, pairs.change.abs() > stat.HALF),
        "spearman": stat.spearman(pairs),
    }


def _by_language(pairs: pd.DataFrame, sign: float) -> dict[str, Estimate]:
    """Returns the mean shift of each language, times ``sign``."""
    return {lang: stat.mean(part, sign * part.change) for lang, part in pairs.groupby("lang")}


def family_of(name: str) -> str | None:
    """Returns the family of models in the name of a chatbot or of a judge's base; None if
    unknown."""
    words = re.split(r"[^a-z]+", name.lower())
    for family in _FAMILIES:
        if any(word.startswith(family) for word in words):
            return _SAME_FAMILY.get(family, family)
    return None
