"""Models that think before they answer: the block they think in, and where their answer begins.

An answer is asked for in two steps: the thinking first, free of any grammar and up to a budget of
its own; then, with the block closed, the answer. So a schema holds the answer alone, a thought that
is cut still gets an answer, and the tokens of both are counted apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from medal_judges.errors import ConfigError
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.protocol import ChatRequest, Completion, Message

# Tokens to think where a model does so unasked and nothing else is set.
BUDGET = 4096


@dataclass(frozen=True, slots=True)
class Block:
    """``opening`` begins the thinking, ``stop`` ends it, ``after`` stands before the answer;
    ``sign`` tells by its place in a template that the model has the block."""

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
    """``ids`` are the prompt of the answer, the thinking in it; ``tokens`` were thought."""

    ids: list[int]
    tokens: int


class Thinking:
    """How the model of ``template`` thinks, with ``budget`` tokens for it (0: not at all).

    ``budget`` None is 4096 where the model's template opens the block by itself, else 0: a model
    that may think does so when it is told to. Raises ConfigError for a budget where the template
    has no block.
    """

    def __init__(self, template: ChatTemplate, budget: int | None = None) -> None:
        self.template = template
        source = template.source or ""
        self.block = next((block for block in BLOCKS if block.sign in source), None)
        if budget and self.block is None:
            raise ConfigError(
                f"llm.thinking: {budget} tokens to think, and the model's chat template has no "
                "block to think in",
                hint="leave llm.thinking out",
            )
        self.unasked = self.block is not None and self._is_open(
            template.asked((Message("user", "a"),)), self.block
        )
        self.budget = budget if budget is not None else BUDGET * self.unasked

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
        """What is asked of the thinking after ``prompt``: the budget, or what the window leaves."""
        left = context - len(prompt) - request.max_tokens - len(self._closing())
        tokens = max(1, min(self.budget, left))
        return replace(
            request,
            max_tokens=tokens,
            schema=None,
            top_logprobs=0,
            prefill="",
            presence_penalty=0.0,
        )

    def thought(self, prompt: Sequence[int], ids: Sequence[int], prefill: str) -> Thought:
        """``prompt`` with what was thought after it, the block closed, and the prefill."""
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


def counted(completion: Completion, thought: Thought) -> Completion:
    """``completion`` with the tokens that were thought before it counted: as reasoning, which is
    part of the output, and not as input."""
    usage = completion.usage
    return replace(
        completion,
        usage=replace(
            usage,
            input=usage.input - thought.tokens,
            output=usage.output + thought.tokens,
            reasoning=thought.tokens,
        ),
    )
