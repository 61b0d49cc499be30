"""Language models whose prompts are token ids built here: chat template, window and thinking."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medal_judges.errors import ConfigError
from medal_judges.models.llm.chat_template import ChatTemplate, TokenSequence
from medal_judges.models.llm.local.thinking import Thinking, Thought
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
