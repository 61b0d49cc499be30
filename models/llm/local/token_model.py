"""Language models whose prompts are token ids built here: chat template, window and thinking.

An answer of a model that thinks takes two requests: the thinking first, without a grammar and up to
a budget of its own; then, after the end of the block, the answer. So a schema applies to the answer
alone, a truncated thought still gets an answer, and the tokens of both are counted separately.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from medal_judges.errors import ConfigError
from medal_judges.models.llm.chat_template import ChatTemplate, TokenSequence
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Message,
    failed,
)
from medal_judges.models.model_files import tokenizer_hash
from medal_judges.storage.files import ProcessLock

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Prompts = Sequence[Sequence[int]]
# Tokens to think for a model that always does, unless llm.thinking says otherwise.
BUDGET = 4096


class Block(NamedTuple):
    """``opening`` begins the thinking, ``stop`` ends it, ``after`` precedes the answer; a template
    with ``sign`` in it has the block."""

    opening: str
    stop: str
    after: str
    sign: str


_FINAL = "<|start|>assistant<|channel|>final<|message|>"
BLOCKS = (
    Block("<think>\n", "</think>", "\n\n", "</think>"),  # Qwen3, DeepSeek-R1, QwQ, SmolLM3, GLM
    Block("<|channel|>analysis<|message|>", "<|end|>", _FINAL, "<|channel|>analysis"),  # gpt-oss
    Block("[THINK]", "[/THINK]", "", "[/THINK]"),  # Magistral
)
_NONE = Block("", "", "", "")


class Thinking:
    """How the model of ``template`` thinks, with ``budget`` tokens for it (0: not at all).

    The default is 4096 if the template opens the block by itself, else 0. Raises ConfigError for a
    budget if the template has no block.
    """

    def __init__(self, template: ChatTemplate, budget: int | None = None) -> None:
        self.template = template
        self.block = next((b for b in BLOCKS if b.sign in (template.source or "")), _NONE)
        if budget and self.block is _NONE:
            raise ConfigError(
                f"llm.thinking: {budget}, but the model's chat template has no block to think in",
                hint="leave llm.thinking out",
            )
        if budget is None:
            opens = self.block is not _NONE and self._is_open(
                template.asked((Message("user", "a"),))
            )
            budget = BUDGET * opens
        self.budget = budget

    def _is_open(self, text: str) -> bool:
        opening = self.block.opening.strip()
        return opening in text and self.block.stop not in text.rpartition(opening)[2]

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Ids up to where the thinking begins."""
        text = self.template.asked(messages, enable_thinking=True, thinking=True)
        if not self._is_open(text):
            text = text.removesuffix(self.block.stop) + self.block.opening
        return self.template.encode(text)

    def thought(self, prompt: Sequence[int], ids: Sequence[int], prefill: str) -> list[int]:
        """``prompt``, the thinking ``ids``, the end of the block and the prefill."""
        closed = self.block.stop in self.template.tokenizer.decode(list(ids)[-16:])
        stop = [] if closed else self.tokens(self.block.stop)
        return [*prompt, *ids, *stop, *self.tokens(self.block.after), *self.tokens(prefill.strip())]

    def tokens(self, text: str) -> list[int]:
        """The ids of ``text`` alone."""
        ids: Any = self.template.tokenizer(text, add_special_tokens=False).input_ids if text else ()
        return list(ids)


class TokenModel(LanguageModel):
    """A model with the chat template of its ``tokenizer``, a ``window`` in tokens, and a budget to
    think (see Thinking)."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, name: str, window: int, thinking: int | None
    ) -> None:
        self.tokenizer, self.name, self.window = tokenizer, name, window
        self.template = ChatTemplate(tokenizer)
        self._vocabulary = tokenizer_hash(tokenizer)
        self.computing = ProcessLock()  # one network, one thread at a time
        self.thinking = Thinking(self.template, thinking)
        # What is reserved for thinking is not there for prompt and answer.
        self.context = window - min(self.thinking.budget, window // 2)

    @abstractmethod
    def _complete(self, prompts: Prompts, requests: Sequence[ChatRequest]) -> list[Completion]:
        """The answer to each request, given its prompt."""

    @abstractmethod
    def _write_until(
        self, prompts: Prompts, requests: Sequence[ChatRequest], stop: str
    ) -> Sequence[Sequence[int]]:
        """The ids after each prompt, up to and including the text ``stop``, or to the end of the
        answer or the request's limit."""

    def prompt_fingerprint(self) -> dict[str, str]:
        """The fingerprint of chat template, tokenizer and thinking budget."""
        thinks = {"thinking": str(self.thinking.budget)} if self.thinking.budget else {}
        return {**self.template.fingerprint(), "tokenizer": self._vocabulary, **thinks}

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return len(self.template.prefix(messages, "assistant"))

    def sequence(self, continuation: Continuation) -> TokenSequence:
        """The ids of a continuation. Raises ConfigError if they do not fit."""
        sequence = self.template.sequence(continuation)
        if len(sequence.ids) > self.context:
            raise ConfigError(
                f"{len(sequence.ids)} tokens do not fit the {self.context} tokens of {self.name}",
                hint="drop the oldest turns first (a judge does)",
            )
        return sequence

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        start = time.perf_counter()
        with self.computing:
            thoughts = self._thoughts(requests)
            fits = self._fitting([ids for ids, _ in thoughts], requests)
            done = self._complete([thoughts[i][0] for i in fits], [requests[i] for i in fits])
        seconds = (time.perf_counter() - start) / max(1, len(fits))
        answers = [
            failed(
                f"a prompt of {len(ids)} tokens and an answer of {request.max_tokens} "
                f"do not fit the {self.window} tokens of {self.name}"
            )
            for (ids, _), request in zip(thoughts, requests, strict=True)
        ]
        for i, completion in zip(fits, done, strict=True):
            usage, thought = completion.usage, thoughts[i][1]
            answers[i] = completion.with_usage(
                input=usage.input - thought,
                output=usage.output + thought,
                reasoning=thought,
                seconds=seconds,
            )
        return answers

    def _thoughts(self, requests: Sequence[ChatRequest]) -> list[tuple[list[int], int]]:
        """(the prompt of the answer with the thinking in it, the number of thought tokens) of each
        request."""
        thinking, template = self.thinking, self.template
        if not thinking.budget:
            return [(template.prefix(r.messages, "assistant", r.prefill), 0) for r in requests]
        prompts = [thinking.prompt(request.messages) for request in requests]
        closing = len(thinking.tokens(thinking.block.stop) + thinking.tokens(thinking.block.after))
        first = []  # the requests for the thinking: the budget, or what the window leaves
        for request, prompt in zip(requests, prompts, strict=True):
            left = self.window - len(prompt) - request.max_tokens - closing
            tokens = max(1, min(thinking.budget, left))
            plain: dict[str, Any] = {"top_logprobs": 0, "prefill": "", "presence_penalty": 0.0}
            first.append(replace(request, max_tokens=tokens, schema=None, **plain))
        fits = self._fitting(prompts, first)
        written = self._write_until(
            [prompts[i] for i in fits], [first[i] for i in fits], thinking.block.stop
        )
        ids = dict(zip(fits, written, strict=True))
        return [
            (thinking.thought(prompts[i], ids.get(i, ()), request.prefill), len(ids.get(i, ())))
            for i, request in enumerate(requests)
        ]

    def _fitting(self, prompts: Prompts, requests: Sequence[ChatRequest]) -> list[int]:
        pairs = zip(prompts, requests, strict=True)
        return [i for i, (p, r) in enumerate(pairs) if len(p) + r.max_tokens <= self.window]
