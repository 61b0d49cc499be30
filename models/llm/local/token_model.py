"""What language models share whose prompts are token ids that are made here: the chat template, the
window, and the thinking before an answer."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from medal_judges.errors import ConfigError
from medal_judges.models.llm.chat_template import ChatTemplate, TokenSequence
from medal_judges.models.llm.local.batches import Prompts
from medal_judges.models.llm.local.thinking import Thinking, Thought, counted
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


class TokenModel(LanguageModel):
    """A model that is given token ids, by the chat template of its ``tokenizer``.

    ``window`` is how many tokens it takes; ``thinking``: see Thinking.
    """

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, *, name: str, window: int, thinking: int | None
    ) -> None:
        self.tokenizer, self.name, self.window = tokenizer, name, window
        self.template = ChatTemplate(tokenizer)
        self._vocabulary = tokenizer_hash(tokenizer)
        self.computing = ProcessLock()  # one network, one thread at a time
        self.thinking = Thinking(self.template, thinking)
        # What is kept free to think in is not there for prompt and answer.
        self.context = window - min(self.thinking.budget, window // 2)

    @abstractmethod
    def _complete(self, prompts: Prompts, requests: Sequence[ChatRequest]) -> list[Completion]:
        """The answer to each request, whose prompt is given."""

    @abstractmethod
    def _write_until(
        self, prompts: Prompts, requests: Sequence[ChatRequest], stop: str
    ) -> Sequence[Sequence[int]]:
        """The ids that follow each prompt up to the text ``stop`` (it is part of them), the end of
        the answer or the request's limit."""

    def prompt_fingerprint(self) -> dict[str, str]:
        """Of the chat template, the tokenizer, and of how long the model thinks."""
        thinks = {"thinking": str(self.thinking.budget)} if self.thinking.budget else {}
        return {**self.template.fingerprint(), "tokenizer": self._vocabulary, **thinks}

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Tokens of the prompt that asks the assistant for its next turn."""
        return len(self.template.prefix(messages, "assistant"))

    def sequence(self, continuation: Continuation) -> TokenSequence:
        """The ids of a continuation. Raises ConfigError where they do not fit."""
        sequence = self.template.sequence(continuation)
        if len(sequence.ids) > self.context:
            raise ConfigError(
                f"{len(sequence.ids)} tokens do not fit the {self.context} tokens of {self.name}",
                hint="drop the oldest turns first (a judge does)",
            )
        return sequence

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """See LanguageModel; prompts that begin alike are read once."""
        start = time.perf_counter()
        with self.computing:
            thoughts = self._thoughts(requests)
            prompts = [thought.ids for thought in thoughts]
            fits = self._fitting(prompts, requests)
            done = self._complete([prompts[i] for i in fits], [requests[i] for i in fits])
        seconds = (time.perf_counter() - start) / max(1, len(fits))
        answers = {
            i: counted(completion.with_usage(seconds=seconds), thoughts[i])
            for i, completion in zip(fits, done, strict=True)
        }
        return [
            answers.get(i) or self._too_long(len(prompts[i]), request)
            for i, request in enumerate(requests)
        ]

    def _thoughts(self, requests: Sequence[ChatRequest]) -> list[Thought]:
        """The prompts of the answers, with what was thought before them."""
        if not self.thinking.budget:
            prefix = self.template.prefix
            return [Thought(prefix(r.messages, "assistant", r.prefill), 0) for r in requests]
        assert self.thinking.block is not None
        prompts = [self.thinking.prompt(request.messages) for request in requests]
        told = [
            self.thinking.request(request, prompt, self.window)
            for request, prompt in zip(requests, prompts, strict=True)
        ]
        fits = self._fitting(prompts, told)
        written = self._write_until(
            [prompts[i] for i in fits], [told[i] for i in fits], self.thinking.block.stop
        )
        ids = dict(zip(fits, written, strict=True))
        return [
            self.thinking.thought(prompts[i], ids.get(i, ()), request.prefill)
            for i, request in enumerate(requests)
        ]

    def _fitting(self, prompts: Prompts, requests: Sequence[ChatRequest]) -> list[int]:
        pairs = zip(prompts, requests, strict=True)
        return [i for i, (p, r) in enumerate(pairs) if len(p) + r.max_tokens <= self.window]

    def _too_long(self, tokens: int, request: ChatRequest) -> Completion:
        return failed(
            f"a prompt of {tokens} tokens and an answer of {request.max_tokens} do not fit the "
            f"{self.window} tokens of {self.name}"
        )
