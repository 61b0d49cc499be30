"""Language models whose prompts are token ids built here: chat template, window and thinking.

An answer of a model that thinks takes two requests: the thinking first, without a grammar and up to
a budget of its own; then, after the end of the block, the answer. So a schema applies to the answer
alone, a truncated thought still gets an answer, and the tokens of both are counted separately.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

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
from medal_judges.storage.process_lock import ProcessLock

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Prompts = Sequence[Sequence[int]]
# Tokens to think for a model that always does, unless llm.thinking says otherwise.
BUDGET = 4096


@dataclass(frozen=True, slots=True)
class Block:
    """``opening`` begins the thinking, ``stop`` ends it, ``after`` precedes the answer; a template
    with ``sign`` in it has the block."""

    opening: str
    stop: str
    after: str
    sign: str


BLOCKS = (
    Block("<think>\n", "</think>", "\n\n", "</think>"),  # Qwen3, DeepSeek-R1, QwQ, SmolLM3, GLM
    Block(  # gpt-oss
        "<|channel|>analysis<|message|>",
        "<|end|>",
        "<|start|>assistant<|channel|>final<|message|>",
        "<|channel|>analysis",
    ),
    Block("[THINK]", "[/THINK]", "", "[/THINK]"),  # Magistral
    Block("<seed:think>", "</seed:think>", "", "</seed:think>"),
)


@dataclass(frozen=True, slots=True)
class Thought:
    """``ids`` are the prompt of the answer with the thinking in it, ``tokens`` the thought ones."""

    ids: list[int]
    tokens: int

    def counted(self, completion: Completion) -> Completion:
        """``completion`` with the thought tokens counted as reasoning, which is output."""
        usage = completion.usage
        return completion.with_usage(
            input=usage.input - self.tokens,
            output=usage.output + self.tokens,
            reasoning=self.tokens,
        )


class Thinking:
    """How the model of ``template`` thinks, with ``budget`` tokens for it (0: not at all).

    The default is 4096 if the template opens the block by itself, else 0. Raises ConfigError for a
    budget if the template has no block.
    """

    def __init__(self, template: ChatTemplate, budget: int | None = None) -> None:
        self.template = template
        source = template.source or ""
        self.block = next((block for block in BLOCKS if block.sign in source), None)
        if budget and self.block is None:
            raise ConfigError(
                f"llm.thinking: {budget}, but the model's chat template has no block to think in",
                hint="leave llm.thinking out",
            )
        always = self.block is not None and self._is_open(
            template.asked((Message("user", "a"),)), self.block
        )
        self.budget = budget if budget is not None else BUDGET * always

    @staticmethod
    def _is_open(text: str, block: Block) -> bool:
        opening = block.opening.strip()
        return opening in text and block.stop not in text.rpartition(opening)[2]

    def prompt(self, messages: Sequence[Message]) -> list[int]:
        """Ids up to where the thinking begins."""
        assert self.block is not None
        text = self.template.asked(messages, enable_thinking=True, thinking=True)
        if not self._is_open(text, self.block):
            text = text.removesuffix(self.block.stop) + self.block.opening
        return self.template.encode(text)

    def request(self, request: ChatRequest, prompt: Sequence[int], context: int) -> ChatRequest:
        """The request for the thinking after ``prompt``: the budget, or what the window leaves."""
        left = context - len(prompt) - request.max_tokens - len(self._closing())
        return replace(
            request,
            max_tokens=max(1, min(self.budget, left)),
            schema=None,
            top_logprobs=0,
            prefill="",
            presence_penalty=0.0,
        )

    def thought(self, prompt: Sequence[int], ids: Sequence[int], prefill: str) -> Thought:
        """``prompt``, the thinking ``ids``, the end of the block and the prefill."""
        assert self.block is not None
        closed = self.block.stop in self.template.tokenizer.decode(list(ids)[-16:])
        rest = self._closing()[0 if not closed else len(self._tokens(self.block.stop)) :]
        prefill_ids = self._tokens(prefill.strip()) if prefill.strip() else []
        return Thought([*prompt, *ids, *rest, *prefill_ids], len(ids))

    def _closing(self) -> list[int]:
        assert self.block is not None
        return [*self._tokens(self.block.stop), *self._tokens(self.block.after)]

    def _tokens(self, text: str) -> list[int]:
        ids: Any = self.template.tokenizer(text, add_special_tokens=False).input_ids
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
            fits = self._fitting([thought.ids for thought in thoughts], requests)
            done = self._complete([thoughts[i].ids for i in fits], [requests[i] for i in fits])
        seconds = (time.perf_counter() - start) / max(1, len(fits))
        answers = {
            i: thoughts[i].counted(completion.with_usage(seconds=seconds))
            for i, completion in zip(fits, done, strict=True)
        }
        return [
            answers.get(i)
            or failed(
                f"a prompt of {len(thoughts[i].ids)} tokens and an answer of {request.max_tokens} "
                f"do not fit the {self.window} tokens of {self.name}"
            )
            for i, request in enumerate(requests)
        ]

    def _thoughts(self, requests: Sequence[ChatRequest]) -> list[Thought]:
        """The prompts of the answers, with the thinking before them."""
        if not self.thinking.budget:
            prefix = self.template.prefix
            return [Thought(prefix(r.messages, "assistant", r.prefill), 0) for r in requests]
        assert self.thinking.block is not None
        prompts = [self.thinking.prompt(request.messages) for request in requests]
        thinking = [
            self.thinking.request(request, prompt, self.window)
            for request, prompt in zip(requests, prompts, strict=True)
        ]
        fits = self._fitting(prompts, thinking)
        written = self._write_until(
            [prompts[i] for i in fits], [thinking[i] for i in fits], self.thinking.block.stop
        )
        ids = dict(zip(fits, written, strict=True))
        return [
            self.thinking.thought(prompts[i], ids.get(i, ()), request.prefill)
            for i, request in enumerate(requests)
        ]

    def _fitting(self, prompts: Prompts, requests: Sequence[ChatRequest]) -> list[int]:
        pairs = zip(prompts, requests, strict=True)
        return [i for i, (p, r) in enumerate(pairs) if len(p) + r.max_tokens <= self.window]
