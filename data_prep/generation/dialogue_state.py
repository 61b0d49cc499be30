"""The state of a first message or a dialogue under way, as the answers so far have left it.

All that is known of it follows from the answers in their order (``take``), whether they come from a
language model or are read from the journal: this is what lets a killed run resume.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_args

from medal_judges.data_prep.generation.reading import (
    END_OF_DIALOGUE,
    Utterance,
    Verdict,
    read_utterance,
    read_verdict,
    without_thinking,
)
from medal_judges.data_prep.seeds.context import SeedContext
from medal_judges.data_prep.sources.source import hash_split
from medal_judges.errors import RecordError
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue

Stage = Literal["say", "check", "reply"]  # whose answer is waited for: user, user judge, chatbot
# user: END_OF_DIALOGUE. cap: max_turns. rejected: no attempt at the user's turn was accepted.
End = Literal["user", "cap", "rejected"]
SOURCE = "medal-generated"
_EMPTY = Verdict(False, "The message is empty.")
_EARLY = Verdict(False, "A first message cannot end the dialogue.")


@dataclass(frozen=True, slots=True)
class Event:
    """An agent's answer, one line of the journal: in which dialogue (or first message) and at which
    stage, its text, whether it was cut at its limit, and what it took (Usage.to_record)."""

    id: str
    stage: Stage
    answer: str
    cut: bool = False
    usage: dict[str, float] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """The journal's line; ``cut`` only where it is true."""
        record = asdict(self)
        if not self.cut:
            del record["cut"]
        return record


def parse_event(record: object) -> Event:
    """Event of a line of the journal. Raises RecordError for anything else."""
    if isinstance(record, Mapping):
        stage: Any = record.get("stage")
        answer, usage = record.get("answer"), record.get("usage", {})
        if stage in get_args(Stage) and isinstance(answer, str) and isinstance(usage, dict):
            return Event(str(record.get("id")), stage, answer, bool(record.get("cut")), usage)
    raise RecordError("(line)", "a line of a generation's journal", record)


@dataclass(frozen=True, slots=True)
class ProtocolLimits:
    """Attempts at a user's turn and turns of a dialogue (MEDAL, appendix C.2)."""

    first_tries: int
    later_tries: int
    max_turns: int


@dataclass(frozen=True, slots=True)
class Rejection:
    """One rejected turn, a line of rejected.jsonl: what was said in which attempt (from 1) at which
    turn, and why it was rejected.

    ``by`` is the user judge, or a rule that needs no judge (an empty message).
    """

    id: str
    turn: int
    attempt: int
    text: str
    reason: str
    by: Literal["judge", "rule"]
    readable: bool

    def to_record(self) -> dict[str, Any]:
        """A line of rejected.jsonl."""
        return asdict(self)


@dataclass(slots=True)
class DialogueState:
    """``chatbot`` None is a first message in the making, shared by all chatbots once accepted.

    ``tries``: how many attempts each accepted user turn took. ``rejections``: the rejected attempts
    at the current turn, the first one first. ``cut``: indices of turns that were cut at their limit
    of tokens.
    """

    id: str
    context: SeedContext
    user: str
    limits: ProtocolLimits
    chatbot: str | None = None
    turns: list[Turn] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    candidate: Utterance | None = None
    candidate_cut: bool = False
    ended: End | None = None

    @property
    def stage(self) -> Stage:
        """Whose answer is waited for."""
        if self.candidate is not None:
            return "check"
        waits = self.chatbot is not None and self.turns[-1].role == "user"
        return "reply" if waits else "say"

    @property
    def candidate_text(self) -> str:
        """The utterance to be checked as the user judge sees it, with its mark of the end."""
        assert self.candidate is not None
        return f"{self.candidate.text} {END_OF_DIALOGUE * self.candidate.ends}".strip()

    @property
    def opened(self) -> bool:
        """Whether this is a first message that was accepted."""
        return self.chatbot is None and bool(self.turns)

    @property
    def over(self) -> bool:
        """Whether nothing more is waited for."""
        return self.ended is not None or self.opened

    def take(self, answer: str, cut: bool) -> Rejection | None:
        """Apply one answer to the question of ``stage``; returns the rejection that it led to."""
        if self.stage == "reply":
            self._add(Turn("assistant", without_thinking(answer)), cut)
            return None
        if self.stage == "say":
            self.candidate, self.candidate_cut = read_utterance(answer), cut
            if not self.candidate.text and not self.candidate.ends:
                return self._reject(_EMPTY, "rule")
            if not self.turns and self.candidate.ends:
                return self._reject(_EARLY, "rule")
            return None
        verdict = read_verdict(answer)
        if not verdict.accepted:
            return self._reject(verdict, "judge")
        self._accept()
        return None

    def _accept(self) -> None:
        assert self.candidate is not None
        utterance, self.candidate = self.candidate, None
        self.tries.append(len(self.rejections) + 1)
        self.rejections = []
        if utterance.text:
            self._add(Turn("user", utterance.text), self.candidate_cut)
        if utterance.ends:
            self.ended = "user"

    def _reject(self, verdict: Verdict, by: Literal["judge", "rule"]) -> Rejection:
        text, attempt = self.candidate_text, len(self.rejections) + 1
        self.candidate = None
        rejection = Rejection(
            self.id, len(self.turns), attempt, text, verdict.reason, by, verdict.readable
        )
        self.rejections.append(rejection)
        if attempt == (self.limits.later_tries if self.turns else self.limits.first_tries):
            self.ended = "rejected"
        return rejection

    def _add(self, turn: Turn, cut: bool) -> None:
        if cut:
            self.cut.append(len(self.turns))
        self.turns.append(turn)
        if len(self.turns) >= self.limits.max_turns:
            self.ended = "cap"

    def with_chatbot(self, chatbot: str) -> DialogueState:
        """The dialogue of ``chatbot`` that begins with this accepted first message."""
        assert self.opened
        shared = (list(self.turns), list(self.tries), list(self.cut))
        id = dialogue_id(self.id, chatbot)
        return DialogueState(id, self.context, self.user, self.limits, chatbot, *shared)

    def row(self) -> LabelledDialogue:
        """The finished dialogue as a line without labels."""
        extra: dict[str, Any] = {"ended": self.ended, "tries": list(self.tries)}
        if self.cut:
            extra["cut_turns"] = list(self.cut)
        group = self.context.group
        dialogue = Dialogue(
            id=self.id,
            turns=tuple(self.turns),
            lang=self.context.lang,
            source=SOURCE,
            models={"user": self.user, "assistant": self.chatbot},
            context=self.context.of_dialogue(),
        )
        split = hash_split(group, seed=0)
        return LabelledDialogue(dialogue, {}, {}, split=split, group=group, extra=extra)


def dialogue_id(opener: str, chatbot: str) -> str:
    """Name of the dialogue that ``chatbot`` has after the first message ``opener``."""
    return f"{opener}--{chatbot}"
