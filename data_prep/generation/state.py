"""The state of a first message or a dialogue, as the answers so far have left it, and what is read
from an answer: an utterance, the mark that ends a dialogue, the user judge's verdict.

The state follows from the answers in their order, live or from the journal (see jobs.py).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.seeds.contexts import SeedContext
from medal_judges.data_prep.sources.source import hash_split
from medal_judges.models.prompted.answers import after_thinking
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue

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


def read_utterance(answer: str) -> tuple[str, bool]:
    """The message in a user agent's answer, without a whole label such as ``user:`` before it and
    quotation marks around it, and whether it ends the dialogue. Letters of the message are never
    removed."""

    def bare(text: str) -> str:
        text = _LABEL.sub("", text, count=1)
        if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
            text = text[1:-1].strip()
        return text

    text = bare(without_thinking(answer))
    ends = _END.search(text) is not None
    return (bare(_END.sub(" ", text).strip()) if ends else text), ends


def read_verdict(answer: str) -> tuple[bool | None, str]:
    """Whether the user judge accepts, and its reason. ``Yes.`` accepts; ``No. reason`` rejects
    (MEDAL, Table 10). So do the two fields of a JSON object, also of one that was truncated after
    the verdict. None for an answer that is neither yes nor no."""
    text = without_thinking(answer)
    if (fields := _FIELDS.match(text)) is not None:
        text = f"{fields[1]}. {fields[2] or ''}"
    verdict = _VERDICT.match(text)
    if verdict is None:
        return None, " ".join(text.split())
    if verdict[1].lower() == "yes":
        return True, ""
    return False, " ".join(text[verdict.end() :].split())


def without_thinking(answer: str) -> str:
    """The answer after the model's reasoning; empty if the reasoning has no end. Nothing else of a
    chatbot's answer is removed: it is what is judged."""
    rest = after_thinking(answer)
    return "" if rest is None else rest[0].strip()


@dataclass(slots=True)
class DialogueState:
    """``chatbot`` None is a first message, which all chatbots share once it is accepted.

    ``tries``: attempts at each accepted user turn. ``rejections``: the rejected attempts at the
    current turn, as lines of rejected.jsonl. ``cut``: indices of turns that were truncated at their
    token limit. ``candidate``: the message that waits for the user judge, and whether it ends the
    dialogue. ``ended``: by END_OF_DIALOGUE of the ``user``, by the ``cap`` on turns, or because all
    attempts at a user's turn were ``rejected``.
    """

    id: str
    context: SeedContext
    user: str
    config: GenerateConfig
    chatbot: str | None = None
    turns: list[Turn] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    rejections: list[dict[str, Any]] = field(default_factory=list)
    candidate: tuple[str, bool] | None = None
    candidate_cut: bool = False
    ended: Literal["user", "cap", "rejected"] | None = None

    @property
    def stage(self) -> Literal["say", "check", "reply"]:
        """Who answers next: the user, the user judge, or the chatbot."""
        if self.candidate is not None:
            return "check"
        return "reply" if self.chatbot is not None and self.turns[-1].role == "user" else "say"

    @property
    def agent(self) -> str:
        """The agent that answers next: ``user:``, ``judge:`` or ``chatbot:`` and its name."""
        if self.stage == "say":
            return f"user:{self.user}"
        if self.stage == "check":
            return f"judge:{self.config.user_judge.name}"
        return f"chatbot:{self.chatbot}"

    @property
    def candidate_text(self) -> str:
        """The message as the user judge sees it, with its mark of the end."""
        text, ends = self.candidate or ("", False)
        return f"{text} {END_OF_DIALOGUE * ends}".strip()

    @property
    def opened(self) -> bool:
        """Whether this is an accepted first message."""
        return self.chatbot is None and bool(self.turns)

    @property
    def over(self) -> bool:
        """Whether it waits for nothing more."""
        return self.ended is not None or self.opened

    def take(self, answer: str, cut: bool) -> dict[str, Any] | None:
        """Apply the answer to the question of ``stage``; returns the rejection it led to."""
        if self.stage == "reply":
            self._add(Turn("assistant", without_thinking(answer)), cut)
            return None
        if self.stage == "say":
            text, ends = self.candidate = read_utterance(answer)
            self.candidate_cut = cut
            if not text and not ends:
                return self._reject("The message is empty.", "rule")
            if not self.turns and ends:
                return self._reject("A first message cannot end the dialogue.", "rule")
            return None
        accepted, reason = read_verdict(answer)
        if not accepted:
            return self._reject(reason, "judge", readable=accepted is not None)
        assert self.candidate is not None
        (text, ends), self.candidate = self.candidate, None
        self.tries.append(len(self.rejections) + 1)
        self.rejections = []
        if text:
            self._add(Turn("user", text), self.candidate_cut)
        if ends:
            self.ended = "user"
        return None

    def _reject(self, reason: str, by: str, readable: bool = True) -> dict[str, Any]:
        attempt = len(self.rejections) + 1
        rejection = {
            "id": self.id,
            "turn": len(self.turns),
            "attempt": attempt,
            "text": self.candidate_text,
            "reason": reason,
            "by": by,
            "readable": readable,
        }
        self.candidate = None
        self.rejections.append(rejection)
        decoding = self.config.later_turns if self.turns else self.config.first_turn
        if attempt == decoding.tries:
            self.ended = "rejected"
        return rejection

    def _add(self, turn: Turn, cut: bool) -> None:
        if cut:
            self.cut.append(len(self.turns))
        self.turns.append(turn)
        if len(self.turns) >= self.config.max_turns:
            self.ended = "cap"

    def with_chatbot(self, chatbot: str) -> DialogueState:
        """The dialogue of ``chatbot`` that begins with this accepted first message."""
        shared = (list(self.turns), list(self.tries), list(self.cut))
        id = f"{self.id}--{chatbot}"
        return DialogueState(id, self.context, self.user, self.config, chatbot, *shared)

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
            source="medal-generated",
            models={"user": self.user, "assistant": self.chatbot},
            context=self.context.of_dialogue(),
        )
        split = hash_split(group, seed=0)
        return LabelledDialogue(dialogue, {}, {}, split=split, group=group, extra=extra)
