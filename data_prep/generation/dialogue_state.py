"""The state of a first message or a dialogue, as the answers so far have left it, and what is read
from an answer: an utterance, the mark that ends a dialogue, the user judge's verdict.

The state follows from the answers in their order, live or from the journal (see jobs.py).
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from medal_judges.data_prep.seeds.contexts import SeedContext
from medal_judges.data_prep.sources.source import hash_split
from medal_judges.models.prompted.answers import after_thinking
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue

Stage = Literal["say", "check", "reply"]  # who answers next: user, user judge, chatbot
# user: END_OF_DIALOGUE. cap: max_turns. rejected: no attempt at the user's turn was accepted.
End = Literal["user", "cap", "rejected"]
SOURCE = "medal-generated"

END_OF_DIALOGUE = "END_OF_DIALOGUE"
# Anywhere as the prompt writes it, also with its underscores escaped or left out; in small letters
# and without them only if it is the whole answer, since people do speak of the end of dialogue.
_MARK = (
    r"(?:END(?:\\?[\s_-]){1,9}OF(?:\\?[\s_-]){1,9}DIALOGUE"
    r"|(?i:end(?:\\?_){1,9}of(?:\\?_){1,9}dialogue))"
)
_ALONE = r"\A\W{0,20}(?i:end\s{1,9}of\s{1,9}dialogue)\W{0,20}\Z"
# What encloses the mark is removed with it.
_END = re.compile(
    rf"{_ALONE}|\s{{0,20}}[*_`\"'(\[{{<]{{0,9}}(?<![A-Za-z]){_MARK}(?![A-Za-z])[*_`\"')\]}}>]*[.!]?\s*"
)
_LABEL = re.compile(r"\A(?:\*\*)?(?:user|human)(?:\*\*)?\s*[:\uff1a]\s*(?:\*\*)?\s*", re.IGNORECASE)
_QUOTES = {'"': '"', "“": "”", "«": "»", "„": "“", "「": "」"}
_VERDICT = re.compile(
    r"\A[\s*_`\"'([]*(yes|no)\b[\s*_`\"')\]]*[.,:;!\-–—\u3002\uff0c\uff1a\uff01]*\s*", re.IGNORECASE
)
_FIELDS = re.compile(r'\A\{\s*"verdict"\s*:\s*"(Yes|No)"\s*(?:,\s*"reason"\s*:\s*"([^"]*))?')


@dataclass(frozen=True, slots=True)
class Utterance:
    """A message of the user; ``ends``: its answer held END_OF_DIALOGUE."""

    text: str
    ends: bool = False


@dataclass(frozen=True, slots=True)
class Verdict:
    """``reason`` is the judge's, empty if it accepts. An answer that is neither yes nor no is a
    rejection that is not ``readable``."""

    accepted: bool
    reason: str = ""
    readable: bool = True


def read_utterance(answer: str) -> Utterance:
    """The message in a user agent's answer, without a whole label such as ``user:`` before it and
    quotation marks around it. Letters of the message are never removed."""
    text = _bare(without_thinking(answer))
    ends = _END.search(text) is not None
    if ends:
        text = _bare(_END.sub(" ", text).strip())
    return Utterance(text, ends)


def _bare(text: str) -> str:
    text = _LABEL.sub("", text, count=1)
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text


def read_verdict(answer: str) -> Verdict:
    """``Yes.`` accepts; ``No. reason`` rejects (MEDAL, Table 10). So do the two fields of a JSON
    object, also of one that was truncated after the verdict."""
    text = without_thinking(answer)
    if (fields := _FIELDS.match(text)) is not None:
        text = f"{fields[1]}. {fields[2] or ''}"
    verdict = _VERDICT.match(text)
    if verdict is None:
        return Verdict(False, " ".join(text.split()), readable=False)
    if verdict[1].lower() == "yes":
        return Verdict(True)
    return Verdict(False, " ".join(text[verdict.end() :].split()))


def without_thinking(answer: str) -> str:
    """The answer after the model's reasoning; empty if the reasoning has no end. Nothing else of a
    chatbot's answer is removed: it is what is judged."""
    rest = after_thinking(answer)
    return "" if rest is None else rest[0].strip()


@dataclass(frozen=True, slots=True)
class ProtocolLimits:
    """Attempts at a user's turn and turns of a dialogue (MEDAL, appendix C.2)."""

    first_tries: int
    later_tries: int
    max_turns: int


@dataclass(frozen=True, slots=True)
class Rejection:
    """A rejected attempt (from 1) at a user's turn, a line of rejected.jsonl. ``by`` is the user
    judge, or a rule that needs no judge (an empty message)."""

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
    """``chatbot`` None is a first message, which all chatbots share once it is accepted.

    ``tries``: attempts at each accepted user turn. ``rejections``: the rejected attempts at the
    current turn. ``cut``: indices of turns that were truncated at their token limit.
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
        """Who answers next."""
        if self.candidate is not None:
            return "check"
        return "reply" if self.chatbot is not None and self.turns[-1].role == "user" else "say"

    @property
    def candidate_text(self) -> str:
        """The utterance as the user judge sees it, with its mark of the end."""
        assert self.candidate is not None
        return f"{self.candidate.text} {END_OF_DIALOGUE * self.candidate.ends}".strip()

    @property
    def opened(self) -> bool:
        """Whether this is an accepted first message."""
        return self.chatbot is None and bool(self.turns)

    @property
    def over(self) -> bool:
        """Whether it waits for nothing more."""
        return self.ended is not None or self.opened

    def take(self, answer: str, cut: bool) -> Rejection | None:
        """Apply the answer to the question of ``stage``; returns the rejection it led to."""
        if self.stage == "reply":
            self._add(Turn("assistant", without_thinking(answer)), cut)
            return None
        if self.stage == "say":
            self.candidate, self.candidate_cut = read_utterance(answer), cut
            if not self.candidate.text and not self.candidate.ends:
                return self._reject(Verdict(False, "The message is empty."), "rule")
            if not self.turns and self.candidate.ends:
                early = Verdict(False, "A first message cannot end the dialogue.")
                return self._reject(early, "rule")
            return None
        verdict = read_verdict(answer)
        if not verdict.accepted:
            return self._reject(verdict, "judge")
        assert self.candidate is not None
        utterance, self.candidate = self.candidate, None
        self.tries.append(len(self.rejections) + 1)
        self.rejections = []
        if utterance.text:
            self._add(Turn("user", utterance.text), self.candidate_cut)
        if utterance.ends:
            self.ended = "user"
        return None

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
    """Id of the dialogue that ``chatbot`` has after the first message ``opener``."""
    return f"{opener}--{chatbot}"
