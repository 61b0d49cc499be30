"""From messages to token ids: the chat template, or a plain transcript where there is none.

Ids are built once, here. Exactly one beginning-of-sequence token stands in front where the model
knows one: two of them change every likelihood (lm-evaluation-harness issue 3333).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import ChatRole, Continuation, Message
from medal_judges.models.special_tokens import SpecialTokens
from medal_judges.records.signature import content_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Stands for the text of a turn while the template is asked what it puts around it.
_MARK = "\u2063medal-judges-mark\u2063"
_NAMES = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Token ids, of which those from ``start`` on are scored. ``start`` is at least 1."""

    ids: tuple[int, ...]
    start: int


class ChatTemplate:
    """Renders chats for one tokenizer.

    ``system`` says how a system message is given: ``native``, ``folded`` (into the first user turn,
    where the template refuses or ignores it) or ``transcript``. ``alternates``: the template wants
    user and assistant in turns, so neighbours of one role are joined and an opening by the
    assistant gets an empty user turn before it.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.marks = SpecialTokens(tokenizer)
        self.source: str | None = tokenizer.chat_template
        if isinstance(self.source, dict):  # several named templates
            self.source = tokenizer.get_chat_template()
        self.system = self._system_style()
        self.alternates = self.source is not None and not self._takes(
            [Message("user", "a"), Message("user", "b")]
        )
        self._bos = self._bos_id()
        self._around = lru_cache(maxsize=4096)(self._around_uncached)
        self._head = lru_cache(maxsize=4096)(self._encode)
        self._parted = lru_cache(maxsize=4096)(self._parted_uncached)

    def fingerprint(self) -> dict[str, str]:
        """Hash of the template, and what was done to fit it."""
        return {
            "template": content_hash(self.source or "transcript"),
            "system": self.system,
            "turns": "alternating" if self.alternates else "as they are",
        }

    def prefix(self, messages: Sequence[Message], role: ChatRole, prefill: str = "") -> list[int]:
        """Ids of everything before the text that ``role`` says next, ``prefill`` included.

        A space at its end is left to the text: tokenizers with a word-start piece would leave that
        piece alone there, which stands in no text they were trained on.
        """
        head, _, _ = self._around(tuple(messages), role, prefill.strip())
        return self.encode(head)

    def asked(self, messages: Sequence[Message], **settings: bool) -> str:
        """The text by which the template itself asks for the assistant's turn, which some models
        begin otherwise than a turn that stands there whole; ``settings`` are the template's."""
        return self._apply(self._fit(messages), asks=True, **settings)

    def encode(self, text: str) -> list[int]:
        """Ids of a whole prompt, one beginning-of-sequence token in front where there is one."""
        return list(self._head(text))

    def sequence(self, continuation: Continuation) -> TokenSequence:
        """Ids of a continuation with all that stands before it, and where its scored part begins.

        The whole text is encoded at once, so the ids at the boundary are those of a text that goes
        on. ``score_eos``: up to the first special token after the text, or the line break.
        """
        c = continuation
        if not c.text.strip():
            raise ConfigError("a continuation without text has no likelihood")
        head, gap, after = self._around(tuple(c.messages), c.role, c.prefill.strip())
        before, tail = self._parted(head)
        text = tail + gap + self.marks.broken_up(c.text.strip())
        ids = self._joined(before, text)
        start = _common(self._head(head), ids)
        if c.score_eos:
            ids = self._closed(ids, self._joined(before, text + after))
        return TokenSequence(tuple(ids), max(1, start))

    def _closed(self, ids: list[int], with_end: list[int]) -> list[int]:
        """``with_end`` up to the first special token behind the text's ``ids``; where there is
        none, with one token more than the text has."""
        special = set(self.tokenizer.all_special_ids)
        own = _common(ids, with_end)
        for i in range(own, len(with_end)):
            if with_end[i] in special:
                return with_end[: i + 1]
        return with_end[: own + 1]

    # -- how a template behaves -------------------------------------------------------------

    def _system_style(self) -> str:
        if self.source is None:
            return "transcript"
        try:
            text = self._apply([Message("system", _MARK), Message("user", "a")])
        except Exception:  # jinja raises what the template's author chose
            return "folded"
        return "native" if _MARK in text else "folded"

    def _takes(self, messages: Sequence[Message]) -> bool:
        try:
            self._apply(messages)
        except Exception:  # as above
            return False
        return True

    def _bos_id(self) -> int | None:
        bos = self.tokenizer.bos_token_id
        if bos is None:
            return None
        added = self.tokenizer("a").input_ids[:1] == [bos]
        in_template = self.source is not None and self._tokens(self._apply([Message("user", "a")]))[
            :1
        ] == [bos]
        return int(bos) if added or in_template else None

    # -- rendering ----------------------------------------------------------------------------

    def _around_uncached(
        self, messages: tuple[Message, ...], role: ChatRole, prefill: str
    ) -> tuple[str, str, str]:
        """(what stands before, the space between, what comes after) a text by ``role``."""
        before, after = self._split(messages, role)
        if prefill or self.source is None:
            return f"{before}{prefill}", " ", after
        head = before.rstrip(" ")
        return head, before[len(head) :], after

    def _split(self, messages: Sequence[Message], role: ChatRole) -> tuple[str, str]:
        if self.source is None:
            lines = [self._line(m) for m in messages]
            return "".join(lines) + f"{_NAMES[role]}:", "\n"
        fitted = self._fit([*messages, Message(role, _MARK)])
        text = self._apply(fitted)
        before, mark, after = text.partition(_MARK)
        if not mark:
            raise ConfigError(f"the chat template drops a last turn by {role}")
        return before, after

    def _line(self, message: Message) -> str:
        content = self.marks.broken_up(message.content)
        if message.role == "system":
            return content.strip() + "\n\n"
        return f"{_NAMES[message.role]}: {' '.join(content.split())}\n"

    def _fit(self, messages: Sequence[Message]) -> list[Message]:
        fitted = _fold_system(messages) if self.system == "folded" else list(messages)
        return _alternate(fitted) if self.alternates else fitted

    def _apply(self, messages: Sequence[Message], *, asks: bool = False, **settings: Any) -> str:
        plain = self.marks.broken_up
        chat = [{"role": m.role, "content": plain(m.content)} for m in messages]
        text = self.tokenizer.apply_chat_template(
            chat, tokenize=False, add_generation_prompt=asks, **settings
        )
        return str(text)

    def _tokens(self, text: str) -> list[int]:
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def _encode(self, text: str) -> list[int]:
        """Ids of ``text``, one beginning-of-sequence token in front where the model knows one."""
        ids = self._tokens(text)
        if self._bos is None:
            return ids
        while ids[:1] == [self._bos]:
            ids = ids[1:]
        return [self._bos, *ids]

    def _parted_uncached(self, head: str) -> tuple[list[int], str]:
        """(ids up to the last special token of ``head``, the rest of its text): tokenizers part a
        text at these, so what follows does not change the ids before, and is encoded alone."""
        at = max((head.rfind(token) for token in self.tokenizer.all_special_tokens), default=0)
        return ([], head) if at <= 0 else (self._encode(head[:at]), head[at:])

    def _joined(self, before: list[int], text: str) -> list[int]:
        return [*before, *self._tokens(text)] if before else self._encode(text)


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """How many ids both begin with."""
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _fold_system(messages: Sequence[Message]) -> list[Message]:
    """System messages joined to the front of the first user turn, a new one if there is none."""
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    rest = [m for m in messages if m.role != "system"]
    if not system:
        return rest
    if rest and rest[0].role == "user":
        return [Message("user", f"{system}\n\n{rest[0].content}"), *rest[1:]]
    return [Message("user", system), *rest]


def _alternate(messages: Sequence[Message]) -> list[Message]:
    """Neighbours of one role joined by a line break; an assistant's opening gets a user before."""
    joined: list[Message] = []
    for message in messages:
        if joined and joined[-1].role == message.role:
            last = joined.pop()
            message = Message(last.role, f"{last.content}\n{message.content}")
        joined.append(message)
    spoken = [i for i, m in enumerate(joined) if m.role != "system"]
    if spoken and joined[spoken[0]].role == "assistant":
        joined.insert(spoken[0], Message("user", ""))
    return joined
