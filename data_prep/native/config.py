"""Settings of translating and comparing: configs/native/."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from medal_judges.config import Config
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import ChatRequest, Message


class AskingConfig(Config):
    """How a model is asked. ``tries`` counts the requests for one answer; ``at_once`` is how many
    items are worked on together; ``enforce`` sends the answer's JSON schema along."""

    llm: str | dict[str, Any]
    prompt: str
    tries: int = Field(default=3, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=4096, ge=1)
    enforce: bool = True
    at_once: int = Field(default=64, ge=1)
    seed: int = Field(default=0, ge=0)

    def request(
        self, messages: list[Message], schema: Mapping[str, Any], attempt: int
    ) -> ChatRequest:
        """A request with these settings; each attempt samples anew."""
        return ChatRequest(
            tuple(messages),
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_p=self.top_p,
            seed=self.seed + attempt,
            schema=schema if self.enforce else None,
        )

    def decoding(self) -> dict[str, Any]:
        """What of the settings an answer depends on, but for the model and the prompts."""
        names = {"tries", "temperature", "top_p", "max_tokens", "enforce"}
        return self.model_dump(include=names)


class TranslateConfig(AskingConfig):
    """``style``: a whole dialogue in one request, or turn by turn with ``turn_prompt``.
    ``check_language``: a turn in another language than asked for is a failed try, where the extra
    lang is installed."""

    prompt: str = "translate"
    turn_prompt: str = "translate_turn"
    style: Literal["whole", "turns"] = "whole"
    check_language: bool = True


class CompareConfig(AskingConfig):
    """``criteria``: name to the question asked of the judge. ``ties``: it may say that neither is
    better."""

    prompt: str = "compare_native"
    criteria: dict[str, str] = Field(min_length=1)
    ties: bool = False


def with_limit(llm: str | dict[str, Any], max_cost: float | None) -> str | dict[str, Any]:
    """The setting ``llm`` held to ``max_cost`` US dollars. Raises ConfigError for a model that is
    not behind a server: it costs nothing."""
    if max_cost is None:
        return llm
    setting = llm if isinstance(llm, dict) else {"model": llm}
    if setting.get("backend") != "openai" and not str(setting.get("model")).startswith("openai:"):
        raise ConfigError("--max-cost goes with models behind an API", hint="leave it out")
    return {**setting, "max_cost": max_cost}
