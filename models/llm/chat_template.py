"""Language models whose prompts are token ids built here, with the chat template and with thinking.

The chat template renders the text. A model without a template gets a plain transcript. A prompt
starts with exactly one beginning-of-sequence token, if the model has such a token. Two of them
would change every likelihood (lm-evaluation-harness issue 3333).
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from medal_judges.errors import ConfigError
from medal_judges.models.batching import SpecialTokens
from medal_judges.models.llm.protocol import (
    ChatRequest,
    ChatRole,
    Completion,
    Continuation,
    LanguageModel,
    Message,
    failed_completion,
)
from medal_judges.models.model_files import tokenizer_hash
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import PicklableLock

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Prompts = Sequence[Sequence[int]]  # token ids
# Placeholder for the text of a turn while the template renders its surroundings.
_MARK = "\u2063medal-judges-mark\u2063"
_NAMES = {"user": "User", "assistant": "Assistant"}


@dataclass(frozen=True, slots=True)
class TokenSequence:
    """The token ids of a chat, followed by those of a text whose likelihood is computed.

    Attributes:
        ids: The token ids of the chat, then of the text.
        start: The index in ``ids`` of the first token of the text, at least 1. Log-probabilities
            are computed from this token on.
    """

    ids: tuple[int, ...]
    start: int


class ChatTemplate:
    """Renders chats as text or token ids with the chat template of a tokenizer.

    Args:
        tokenizer: A tokenizer of transformers.

    Attributes:
        source: The Jinja text of the template, or None if the tokenizer has none.
        system: How system messages are shown. ``native``: by the template. ``folded``: at the
            beginning of the first user turn. ``transcript``: there is no template, so a chat is
            rendered as lines such as ``User: Hi``.
        alternates: Whether the template requires that user and assistant turns alternate.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.tokenizer = tokenizer
        self.marks = SpecialTokens(tokenizer)
        self.source: str | None = tokenizer.chat_template
        if isinstance(self.source, dict):  # several named templates
            self.source = tokenizer.get_chat_template()
        self.system, self.alternates = "transcript", False
        firsts = [tokenizer("a").input_ids[:1]]
        if self.source is not None:
            self.system = "folded"
            system = self._render_or_none(
                [Message("system", _MARK), Message("user", "a")]
            )
            if system is not None and _MARK in system:
                self.system = "native"
            neighbours = [Message("user", "a"), Message("user", "b")]
            self.alternates = self._render_or_none(neighbours) is None
            firsts.append(
                self.token_ids(self._apply_template([Message("user", "a")]))[:1]
            )
        self._bos: int | None = None
        if [tokenizer.bos_token_id] in firsts:
            self._bos = tokenizer.bos_token_id
        self._around = lru_cache(maxsize=4096)(self._render_around)
        self._head = lru_cache(maxsize=4096)(self._encode_with_bos)
        self._parted = lru_cache(maxsize=4096)(self._encode_up_to_special)

    def identity(self) -> dict[str, str]:
        """Returns what distinguishes this template: the hash of its text and how it shows roles. An
        example is ``{"template": HASH, "system": "native", "turns": "alternating"}``."""
        return {
            "template": content_hash(self.source or "transcript"),
            "system": self.system,
            "turns": "alternating" if self.alternates else "as they are",
        }

    # -- prompts --------------------------------------------------------------------------------

    def prefix_ids(
        self, messages: Sequence[Message], role: ChatRole, prefill: str = ""
    ) -> list[int]:
        """Returns the token ids of a chat and of the header of its next turn, such as
        ``<|im_start|>assistant``.

        Args:
            messages: The chat before the next turn.
            role: Who speaks in the next turn.
            prefill: Text with which the next turn already begins. It follows the header.

        Raises:
            ConfigError: The template leaves out the next turn, because it never ends a chat with a
                turn by ``role``.
        """
        return self.encode_prompt(self.prefix_text(messages, role, prefill))

    def prefix_text(
        self, messages: Sequence[Message], role: ChatRole, prefill: str = ""
    ) -> str:
        """Returns the text of a chat and the header of its next turn, such as
        ``<|im_start|>assistant``.

        Args:
            messages: The chat before the next turn.
            role: Who speaks in the next turn.
            prefill: Text with which the next turn already begins. It follows the header.

        Raises:
            ConfigError: The template leaves out the next turn, because it never ends a chat with a
                turn by ``role``.
        """
        return self._around(tuple(messages), role, prefill.strip())[0]

    def render_prompt(self, messages: Sequence[Message], **settings: bool) -> str:
        """Returns the text of a prompt that asks the model to answer ``messages``.

        Args:
            messages: The chat to answer.
            settings: Variables of the template, such as ``enable_thinking=True``.
        """
        # With some models this differs from prefix_text, the beginning of a finished turn.
        return self._apply_template(
            self._adapt_messages(messages), add_generation_prompt=True, **settings
        )

    def encode_prompt(self, text: str) -> list[int]:
        """Returns the token ids of the prompt ``text``. They begin with exactly one
        beginning-of-sequence token if the model uses one."""
        return list(self._head(text))

    def to_sequence(self, continuation: Continuation) -> TokenSequence:
        """Returns the token ids of a chat and of the text after it, from which the text's
        likelihood can be computed.

        Args:
            continuation: The chat and the text. If its ``score_eos`` is True, the token that ends
                the turn is included.

        Raises:
            ConfigError: The text is empty. Or the template leaves out the text, because it never
                ends a chat with a turn by this speaker.
        """
        c = continuation
        if not c.text.strip():
            raise ConfigError("a continuation without text has no likelihood")
        head, gap, after = self._around(tuple(c.messages), c.role, c.prefill.strip())
        before, tail = self._parted(head)

        def encode_with_head(text: str) -> list[int]:
            if not before:
                return self._encode_with_bos(text)
            return before + self.token_ids(text)

        # Encoded together, so that the token where prompt and text meet is as in one text.
        text = tail + gap + self.marks.break_up(c.text.strip())
        ids = encode_with_head(text)
        start = _common_prefix_length(self._head(head), ids)
        if c.score_eos:
            # The end is the first special token after the text, or a line break without one.
            with_end = encode_with_head(text + after)
            special = np.isin(with_end, self.tokenizer.all_special_ids)
            end = length = _common_prefix_length(ids, with_end)
            if special[length:].any():
                end += int(special[length:].argmax())
            ids = with_end[: end + 1]
        return TokenSequence(tuple(ids), max(1, start))

    # -- rendering ------------------------------------------------------------------------------

    def _render_around(
        self, messages: tuple[Message, ...], role: ChatRole, prefill: str
    ) -> tuple[str, str, str]:
        """Returns the text that the template writes before and after the content of a turn.

        Args:
            messages: The chat before the turn.
            role: Who speaks in the turn.
            prefill: The beginning of the turn, which becomes part of the text before.

        Returns:
            (text before the content, space or empty string to put between, text after the content).

        Raises:
            ConfigError: The template drops a last turn by ``role``.
        """
        if self.source is None:
            before = ""
            for message in messages:
                content = self.marks.break_up(message.content)
                if message.role == "system":
                    before += content.strip() + "\n\n"
                else:
                    before += f"{_NAMES[message.role]}: {' '.join(content.split())}\n"
            return f"{before}{_NAMES[role]}:{prefill}", " ", "\n"
        text = self._apply_template(
            self._adapt_messages([*messages, Message(role, _MARK)])
        )
        before, mark, after = text.partition(_MARK)
        if not mark:
            raise ConfigError(
                f"the chat template drops a last turn by {role}. Use another model"
            )
        if prefill:
            return f"{before}{prefill}", " ", after
        # A space belongs to the next text: alone, some tokenizers encode it as a separate token,
        # which the model has not seen there in training.
        head = before.rstrip(" ")
        return head, before[len(head) :], after

    def _adapt_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Returns ``messages`` in a form that the template accepts, for example with the system
        message moved into the first user turn."""
        fitted = list(messages)
        if self.system == "folded":
            fitted = with_folded_system(messages)
        if not self.alternates:
            return fitted
        joined: list[Message] = []
        for message in fitted:
            if joined and joined[-1].role == message.role:
                text = f"{joined.pop().content}\n{message.content}"
                message = replace(message, content=text)
            joined.append(message)
        spoken = [i for i, message in enumerate(joined) if message.role != "system"]
        if spoken and joined[spoken[0]].role == "assistant":
            joined.insert(spoken[0], Message("user", ""))
        return joined

    def _render_or_none(self, messages: Sequence[Message]) -> str | None:
        """Returns the text of ``messages``, or None if the template refuses them."""
        try:
            return self._apply_template(messages)
        except Exception:  # jinja raises whatever the template's author chose
            return None

    def _apply_template(self, messages: Sequence[Message], **settings: Any) -> str:
        break_up = self.marks.break_up
        chat = [{"role": m.role, "content": break_up(m.content)} for m in messages]
        return str(self.tokenizer.apply_chat_template(chat, tokenize=False, **settings))

    def token_ids(self, text: str) -> list[int]:
        """Returns the token ids of ``text`` without special tokens."""
        return list(self.tokenizer(text, add_special_tokens=False).input_ids)

    def _encode_with_bos(self, text: str) -> list[int]:
        ids = self.token_ids(text)
        if self._bos is None:
            return ids
        while ids[:1] == [self._bos]:
            ids = ids[1:]
        return [self._bos, *ids]

    def _encode_up_to_special(self, head: str) -> tuple[list[int], str]:
        """Encodes the prompt text ``head`` up to its last special token, such as ``<|im_start|>``.

        Returns:
            (token ids before the special token, text from the special token on).
        """
        # Tokenizers split a text there too, so text added at the end does not change the ids.
        at = max(map(head.rfind, self.tokenizer.all_special_tokens), default=0)
        if at <= 0:
            return [], head
        return self._encode_with_bos(head[:at]), head[at:]


def with_folded_system(messages: Sequence[Message]) -> list[Message]:
    """Returns ``messages`` with the system messages moved to the beginning of the first user turn.
    If the chat does not begin with a user turn, they become a new user turn at its beginning."""
    texts = [message.content for message in messages if message.role == "system"]
    folded = [message for message in messages if message.role != "system"]
    if any(texts):
        if folded and folded[0].role == "user":
            texts.append(folded.pop(0).content)
        folded.insert(0, Message("user", "\n\n".join(texts)))
    return folded


def _common_prefix_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Returns how many tokens at the beginning of ``a`` and ``b`` are equal."""
    length = min(len(a), len(b))
    differ = np.not_equal(a[:length], b[:length])
    if differ.any():
        return int(differ.argmax())
    return length


# -- thinking -------------------------------------------------------------------------------------
# A model that thinks writes its thoughts, the end of the block, and the answer. A schema holds the
# answer alone.

# Tokens to think for a model that always thinks, unless llm.thinking is set.
BUDGET = 4096
OPENING, STOP = "<think>\n", "</think>"


def _has_open_thoughts(text: str) -> bool:
    opening = OPENING.strip()
    return opening in text and STOP not in text.rpartition(opening)[2]


class TokenModel(LanguageModel):
    """Base class of language models whose input is token ids, rendered with a chat template.

    Args:
        tokenizer: A tokenizer of transformers, with the chat template.
        name: The name of the model.
        window: The context length in tokens, for prompt, thinking and answer together.
        thinking: The maximum number of tokens of thinking before an answer. None is 4096 if the
            chat template begins each answer with ``<think>``, otherwise 0.

    Raises:
        ConfigError: ``thinking`` is above 0, but the chat template has no block for thoughts
            (``</think>``).
    """

    def __init__(
        self,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        window: int,
        thinking: int | None,
    ) -> None:
        self.tokenizer, self.name, self.window = tokenizer, name, window
        self.template = ChatTemplate(tokenizer)
        self._vocabulary = tokenizer_hash(tokenizer)
        self.computing = PicklableLock()  # one network, one thread at a time
        has_block = STOP in (self.template.source or "")
        if thinking and not has_block:
            raise ConfigError(
                f"llm.thinking: {thinking}, but the model's chat template has no block to think in",
                hint="Leave llm.thinking out",
            )
        if thinking is None:
            thinking = 0
            if has_block and _has_open_thoughts(
                self.template.render_prompt((Message("user", "a"),))
            ):
                thinking = BUDGET
        self.thinking = thinking
        # Prompt and answer have the rest of the window.
        self.context = window - min(thinking, window // 2)

    def identity(self) -> dict[str, str]:
        fingerprint = self.template.identity() | {"tokenizer": self._vocabulary}
        if self.thinking:
            fingerprint["thinking"] = str(self.thinking)
        return fingerprint

    @abstractmethod
    def complete_prompts(
        self, prompts: Prompts, requests: Sequence[ChatRequest]
    ) -> list[Completion]:
        """Returns one answer for each of ``prompts``. If the model thinks, the text of the answer
        includes the thoughts.

        Args:
            prompts: The token ids of each prompt.
            requests: The request of each prompt, with its sampling settings. Its ``max_tokens``
                includes the tokens of thinking.
        """

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return len(self.template.prefix_ids(messages, "assistant"))

    def to_sequence(self, continuation: Continuation) -> TokenSequence:
        """Returns the token ids of a chat and of the text after it, from which the text's
        likelihood can be computed.

        Args:
            continuation: The chat and the text.

        Raises:
            ConfigError: The text is empty, or there are more tokens than the context length.
        """
        sequence = self.template.to_sequence(continuation)
        self.require_room(len(sequence.ids))
        return sequence

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        start = time.perf_counter()
        answers: list[Completion] = []
        fitting: dict[int, tuple[list[int], ChatRequest]] = {}
        with self.computing:
            for index, request in enumerate(requests):
                prompt, tokens = self._prompt_ids(request.messages), request.max_tokens
                room = self.window - len(prompt) - tokens
                answers.append(
                    failed_completion(
                        f"a prompt of {len(prompt)} tokens and an answer of {tokens} do not fit "
                        f"the {self.window} tokens of {self.name}"
                    )
                )
                if room >= 0:
                    tokens += min(self.thinking, room)
                    fitting[index] = prompt, replace(request, max_tokens=tokens)
            prompts = [prompt for prompt, _ in fitting.values()]
            limited = [request for _, request in fitting.values()]
            completions = self.complete_prompts(prompts, limited)
        seconds = (time.perf_counter() - start) / max(1, len(fitting))
        for index, completion in zip(fitting, completions, strict=True):
            if self.thinking:
                answer = completion.text.rpartition(STOP)[2].strip()
                if STOP not in completion.text:
                    answer = ""
                completion = replace(completion, text=answer)
            answers[index] = completion.with_usage(seconds=seconds)
        return answers

    def _prompt_ids(self, messages: Sequence[Message]) -> list[int]:
        """Returns the token ids of a prompt that asks for an answer to ``messages``. If the model
        thinks, the prompt ends where its thoughts begin."""
        if not self.thinking:
            return self.template.prefix_ids(messages, "assistant")
        text = self.template.render_prompt(
            messages, enable_thinking=True, thinking=True
        )
        if not _has_open_thoughts(text):
            text += OPENING
        return self.template.encode_prompt(text)
