"""The run of a trial: each judge scores the originals and all versions once; files are used again.

Under ``OUT/judgements/JUDGE/`` stand the judgements, written as they come; the same command goes on
where it was stopped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medal_judges.eval.trial.config import TrialConfig
from medal_judges.eval.trial.dialogues import RatedSet
from medal_judges.eval.trial.plan import TrialPlan, VersionPair, wants
from medal_judges.inference.predictions import judge_once, judging_time
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import content_hash

ById = Mapping[str, Judgement]
Progress = Callable[[str, int], None]  # what is being judged, rows done since the last call
AGAIN, ROW_ORDER, DIMENSION_ORDER = "again", "row_order", "dimension_order"


@dataclass(frozen=True, slots=True)
class TrialJudge:
    """A judge on trial. ``afresh`` gives the judge that is asked again, without the answers that a
    cache keeps; None: the same one."""

    name: str
    judge: Judge
    afresh: Callable[[], Judge] | None = None


@dataclass(slots=True)
class TrialAnswers:
    """What one judge said: of every version by id, of the originals asked in another way, of rated
    sets, and of single turns by (id, turn). ``seconds``: of a dialogue, None where nothing was
    timed."""

    name: str
    signature: str
    dimensions: tuple[Dimension, ...]
    languages: tuple[str, ...] | None
    versions: ById
    asked_again: dict[str, ById] = field(default_factory=dict)
    rated: dict[str, ById] = field(default_factory=dict)
    turns: dict[tuple[str, int], Judgement] = field(default_factory=dict)
    seconds: float | None = None


class TrialRunner:
    """Asks one judge after the other; see ``answers``."""

    def __init__(
        self,
        plan: TrialPlan,
        rated: Sequence[RatedSet],
        config: TrialConfig,
        out: Path,
        progress: Progress | None = None,
    ) -> None:
        self.plan, self.rated, self.config, self.out = plan, rated, config, out
        self.progress = progress or (lambda what, done: None)
        self.originals = [plan.dialogues[id] for id in plan.originals]

    def answers(self, one: TrialJudge) -> TrialAnswers:
        """Everything that the judge is asked. Raises what ``Judge.score`` raises, and MedalError
        where another process writes to the same files."""
        judge, folder = one.judge, self.out / "judgements" / one.name
        every = list(self.plan.dialogues.values())
        names = [d.name for d in judge.dimensions]
        done = TrialAnswers(
            one.name,
            str(judge.signature()),
            judge.dimensions,
            judge.languages,
            self._ask(judge, every, folder / "versions.jsonl"),
        )
        if wants(self.config, ROW_ORDER):
            # Another order and other batches: half of the tokens in each.
            budget = max(1, judge.token_budget // 2)
            done.asked_again[ROW_ORDER] = self._ask(
                judge, self.originals[::-1], folder / "row_order.jsonl", token_budget=budget
            )
        if wants(self.config, DIMENSION_ORDER) and len(names) > 1:
            done.asked_again[DIMENSION_ORDER] = self._ask(
                judge, self.originals, folder / "dimension_order.jsonl", dimensions=names[::-1]
            )
        for rated in self.rated if wants(self.config, "calibration") else ():
            place = folder / f"rated-{content_hash(rated.name)}.jsonl"
            done.rated[rated.name] = self._ask(judge, rated.dialogues, place)
        self._ask_turns(judge, folder, done)
        if wants(self.config, AGAIN):
            place = folder / "again.jsonl"
            fresh = judge if one.afresh is None else one.afresh()
            done.asked_again[AGAIN] = self._ask(fresh, self.originals, place)
            count, seconds = judging_time(place)
            done.seconds = seconds / count if count else None
        return done

    def _ask(
        self,
        judge: Judge,
        dialogues: Sequence[Dialogue],
        place: Path,
        *,
        dimensions: Sequence[str] | None = None,
        token_budget: int | None = None,
        level: ScoreLevel = "dialogue",
    ) -> ById:
        return {j.id: j for j in self._judged(judge, dialogues, place, ScoreOptions(
            level=level, dimensions=tuple(dimensions or ()), token_budget=token_budget,
            unknown_language="allow",
        ))}  # fmt: skip

    def _judged(
        self, judge: Judge, dialogues: Sequence[Dialogue], place: Path, options: ScoreOptions
    ) -> Iterable[Judgement]:
        what = f"{place.parent.name}: {len(dialogues):,} {place.stem.replace('_', ' ')}"
        data = content_hash([d.to_record() for d in dialogues])
        advance = lambda done: self.progress(what, done)  # noqa: E731  (bound to this call)
        return judge_once(judge, dialogues, place, options, data=data, progress=advance)

    def _ask_turns(self, judge: Judge, folder: Path, done: TrialAnswers) -> None:
        """Score some pairs with a planted issue turn by turn too."""
        ids = dict.fromkeys(id for pair in self.turn_pairs() for id in (pair.before, pair.after))
        if not ids:
            return
        dialogues = [self.plan.dialogues[id] for id in ids]
        place = folder / "turns.jsonl"
        options = ScoreOptions(level="turn", unknown_language="allow")
        judged = self._judged(judge, dialogues, place, options)
        done.turns = {(j.id, j.turn): j for j in judged if j.turn is not None}

    def turn_pairs(self) -> list[VersionPair]:
        """Pairs with one turn that carries a strong issue, one of each issue in rotation."""
        strongest = max(self.config.doses, default=0)
        by_issue: dict[str, list[VersionPair]] = {}
        issues = {edit.name for edit in self.plan.edits if edit.issue is not None}
        for pair in self.plan.pairs:
            if pair.check in issues and pair.strength == strongest and pair.touched:
                by_issue.setdefault(pair.check, []).append(pair)
        rounds = max((len(pairs) for pairs in by_issue.values()), default=0)
        mixed = [p[i] for i in range(rounds) for p in by_issue.values() if i < len(p)]
        return mixed[: self.config.turn_level]


def named_apart(judges: Sequence[TrialJudge]) -> list[TrialJudge]:
    """The judges with names that no two share: the second ``length`` is ``length-2``."""
    seen: dict[str, int] = {}
    named = []
    for one in judges:
        seen[one.name] = seen.get(one.name, 0) + 1
        number = seen[one.name]
        named.append(one if number == 1 else replace(one, name=f"{one.name}-{number}"))
    return named
