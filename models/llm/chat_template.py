"""From messages to token ids: the chat template, or a plain transcript for a model without one.

Exactly one beginning-of-sequence token starts a prompt if the model has one: two of them change
every likelihood (lm-evaluation-harness issue 3333).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError
from medal_judges.models.batching import SpecialTokens
from medal_judges.models.llm.protocol import ChatRole, Continuation, Message
from medal_judges.records.signature import content_hash

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Placeholder for the text of a turn while the template renders what surrounds it.
_MARK = "\u2063medal-judges-mark\u2063"
_NAMES = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """Token ids; those from ``start`` (at least 1) on are scored."""

    ids: tuple[int, ...]
    start: int


class ChatTemplate:
    """Renders chats for one tokenizer.

    ``system`` says how a system message is rendered: ``native``, ``folded`` (into the first user
    turn, if the template refuses or ignores it) or ``transcript``. ``alternates``: the template
    wants user and assistant in turns, so neighbours of one role are joined, and an empty user turn
    precedes an opening by the assistant.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.marks = SpecialTokens(tokenizer)
        self.source: str | None = tokenizer.chat_template
        if isinstance(self.source, dict):  # several named templates
            self.source = tokenizer.get_chat_template()
        self.system = "transcript"
        if self.source is not None:
            system = self._rendered([Message("system", _MARK), Message("user", "a")])
            self.system = "native" if system is not None and _MARK in system else "folded"
        two = [Message("user", "a"), Message("user", "b")]
        self.alternates = self.source is not None and self._rendered(two) is None
        self._bos = self._bos_id()
        self._around = lru_cache(maxsize=4096)(self._around_uncached)
        self._head = lru_cache(maxsize=4096)(self._encode)
        self._parted = lru_cache(maxsize=4096)(self._parted_uncached)

    def _rendered(self, messages: Sequence[Message]) -> str | None:
        """The rendered messages; None if the template refuses them."""
        try:
            return self._apply(messages)
        except Exception:  # jinja raises what the template's author chose
            return None

    def _bos_id(self) -> int | None:
        bos = self.tokenizer.bos_token_id
        if bos is None:
            return None
        firsts = [self.tokenizer("a").input_ids[:1]]
        if self.source is not None:
            firsts.append(self._tokens(self._apply([Message("user", "a")]))[:1])
        return int(bos) if [bos] in firsts else None

    def fingerprint(self) -> dict[str, str]:
        """Hash of the template, and how messages are adapted to it."""
        return {
            "template": content_hash(self.source or "transcript"),
            "system": self.system,
            "turns": "alternating" if self.alternates else "as they are",
        }

    # -- prompts --------------------------------------------------------------------------------

    def prefix(self, messages: Sequence[Message], role: ChatRole, prefill: str = "") -> list[int]:
        """Ids of everything before the text that ``role`` says next, ``prefill`` included.

        A final space belongs to the text: a tokenizer with a word-start piece would encode it as a
        piece of its own, which no text that it was trained on has.
        """
        head, _, _ = self._around(tuple(messages), role, prefill.strip())
        return self.encode(head)

    def asked(self, messages: Sequence[Message], **settings: bool) -> str:
        """The prompt with the template's own generation prompt, which for some models differs from
        the beginning of a finished turn; ``settings`` are the template's."""
        return self._apply(self._fit(messages), asks=True, **settings)

    def encode(self, text: str) -> list[int]:
        """Ids of a whole prompt."""
        return list(self._head(text))

    def sequence(self, continuation: Continuation) -> TokenSequence:
        """Ids of a continuation with everything before it, and where its scored part begins.

        The text is encoded as a whole, so the ids at the boundary are those of running text.
        ``score_eos``: up to the first special token after the text, or the line break.
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
            with_end = self._joined(before, text + after)
            own, special = _common(ids, with_end), set(self.tokenizer.all_special_ids)
            ends = (i for i in range(own, len(with_end)) if with_end[i] in special)
            ids = with_end[: next(ends, own) + 1]
        return TokenSequence(tuple(ids), max(1, start))

    # -- rendering ------------------------------------------------------------------------------

    def _around_uncached(
        self, messages: tuple[Message, ...], role: ChatRole, prefill: str
    ) -> tuple[str, str, str]:
        """(the text before, the space between, the text after) a turn by ``role``."""
        if self.source is None:
            before = "".join(map(self._line, messages)) + f"{_NAMES[role]}:"
            return f"{before}{prefill}", " ", "\n"
        text = self._apply(self._fit([*messages, Message(role, _MARK)]))
        before, mark, after = text.partition(_MARK)
        if not mark:
            raise ConfigError(f"the chat template drops a last turn by {role}")
        if prefill:
            return f"{before}{prefill}", " ", after
        head = before.rstrip(" ")
        return head, before[len(head) :], after

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
        ids = self._tokens(text)
        if self._bos is None:
            return ids
        while ids[:1] == [self._bos]:
            ids = ids[1:]
        return [self._bos, *ids]

    def _parted_uncached(self, head: str) -> tuple[list[int], str]:
        """(ids up to the last special token of ``head``, the rest of its text): tokenizers split a
        text there, so what follows does not change the ids before."""
        at = max((head.rfind(token) for token in self.tokenizer.all_special_tokens), default=0)
        return ([], head) if at <= 0 else (self._encode(head[:at]), head[at:])

    def _joined(self, before: list[int], text: str) -> list[int]:
        return [*before, *self._tokens(text)] if before else self._encode(text)


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """The number of ids that both begin with."""
    pairs = zip(a, b, strict=False)
    return next((i for i, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def _fold_system(messages: Sequence[Message]) -> list[Message]:
    """System messages joined to the front of the first user turn, or as a new one."""
    system = "\n\n".join(m.content for m in messages if m.role == "system")
    rest = [m for m in messages if m.role != "system"]
    if not system:
        return rest
    if rest and rest[0].role == "user":
        return [Message("user", f"{system}\n\n{rest[0].content}"), *rest[1:]]
    return [Message("user", system), *rest]


def _alternate(messages: Sequence[Message]) -> list[Message]:
    """Joins neighbours of one role by a line break and puts an empty user turn before an
    assistant's opening."""
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
