"""Unit: a first message or a dialogue under way, as the answers so far have left it.

All that is known of it follows from the answers in their order (``take``), whether they come from a
language model or out of the journal: that is what makes a killed run go on where it was.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from medal_judges.data_prep.generation.reading import (
    END_OF_DIALOGUE,
    Utterance,
    Verdict,
    read_utterance,
    read_verdict,
    said,
)
from medal_judges.data_prep.seeds.context import SeedContext
from medal_judges.data_prep.sources.splits import hash_split
from medal_judges.dialogue import Dialogue, Turn
from medal_judges.labelled import LabelledDialogue

Stage = Literal["say", "check", "reply"]  # whose answer is waited for: user, user judge, chatbot
# user: END_OF_DIALOGUE. cap: max_turns. rejected: no try of the user's turn was accepted.
End = Literal["user", "cap", "rejected"]
SOURCE = "medal-generated"
_EMPTY = Verdict(False, "The message is empty.")
_EARLY = Verdict(False, "A first message cannot end the dialogue.")


@dataclass(frozen=True, slots=True)
class Rules:
    """Tries of a user's turn and turns of a dialogue (MEDAL, appendix C.2)."""

    first_tries: int
    later_tries: int
    max_turns: int


@dataclass(frozen=True, slots=True)
class Rejection:
    """One rejected turn: what was said at which try (from 1) of which turn, and why not.

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
        names = ("id", "turn", "attempt", "text", "reason", "by", "readable")
        return {name: getattr(self, name) for name in names}


@dataclass(slots=True)
class Unit:
    """``chatbot`` None is a first message in the making, shared by all chatbots once accepted.

    ``tries``: how many tries each accepted user turn took. ``rejections``: the rejected tries of
    the turn under way, the first one first. ``cut``: indices of turns that were cut at their limit
    of tokens.
    """

    id: str
    context: SeedContext
    user: str
    chatbot: str | None = None
    turns: list[Turn] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    rejections: list[Rejection] = field(default_factory=list)
    candidate: Utterance | None = None
    candidate_cut: bool = False
    ended: End | None = None

    @property
    def attempt(self) -> int:
        """How many tries of the turn under way were rejected."""
        return len(self.rejections)

    @property
    def stage(self) -> Stage:
        """Whose answer is waited for."""
        if self.candidate is not None:
            return "check"
        waits = self.chatbot is not None and self.turns[-1].role == "user"
        return "reply" if waits else "say"

    @property
    def candidate_text(self) -> str:
        """The utterance under way as the user judge sees it, with its mark of the end."""
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

    def take(self, answer: str, cut: bool, rules: Rules) -> Rejection | None:
        """Go on by one answer to the question of ``stage``; the rejection it led to, if any."""
        if self.stage == "reply":
            self._add(Turn("assistant", said(answer)), cut, rules)
            return None
        if self.stage == "say":
            self.candidate, self.candidate_cut = read_utterance(answer), cut
            if not self.candidate.text and not self.candidate.ends:
                return self._reject(_EMPTY, "rule", rules)
            if not self.turns and self.candidate.ends:
                return self._reject(_EARLY, "rule", rules)
            return None
        verdict = read_verdict(answer)
        if not verdict.accepted:
            return self._reject(verdict, "judge", rules)
        self._accept(rules)
        return None

    def _accept(self, rules: Rules) -> None:
        assert self.candidate is not None
        found, self.candidate = self.candidate, None
        self.tries.append(self.attempt + 1)
        self.rejections = []
        if found.text:
            self._add(Turn("user", found.text), self.candidate_cut, rules)
        if found.ends:
            self.ended = "user"

    def _reject(self, verdict: Verdict, by: Literal["judge", "rule"], rules: Rules) -> Rejection:
        text = self.candidate_text
        self.candidate = None
        attempt = self.attempt + 1
        rejection = Rejection(
            self.id, len(self.turns), attempt, text, verdict.reason, by, verdict.readable
        )
        self.rejections.append(rejection)
        if attempt == (rules.later_tries if self.turns else rules.first_tries):
            self.ended = "rejected"
        return rejection

    def _add(self, turn: Turn, cut: bool, rules: Rules) -> None:
        if cut:
            self.cut.append(len(self.turns))
        self.turns.append(turn)
        if len(self.turns) >= rules.max_turns:
            self.ended = "cap"

    def with_chatbot(self, chatbot: str) -> Unit:
        """The dialogue of ``chatbot`` that begins with this accepted first message."""
        assert self.opened
        return Unit(
            dialogue_id(self.id, chatbot),
            self.context,
            self.user,
            chatbot,
            list(self.turns),
            list(self.tries),
            list(self.cut),
        )

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


def opener_id(context: SeedContext, user: str) -> str:
    """Name of the first message that ``user`` makes of ``context``."""
    return f"{context.id}--{user}"


def dialogue_id(opener: str, chatbot: str) -> str:
    """Name of the dialogue that ``chatbot`` has after the first message ``opener``."""
    return f"{opener}--{chatbot}"
