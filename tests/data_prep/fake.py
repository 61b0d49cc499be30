"""A language model in this process that answers by a script, and agents that are such models."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medal_judges.data_prep.jobs import Agents
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    LanguageModel,
    failed_completion,
)
from medal_judges.models.llm.settings import LLMConfig, llm_config

from ..talks import ChatModel

Script = Callable[[dict[str, Any]], str]
_SENT = ("temperature", "top_p", "presence_penalty", "max_tokens", "seed", "schema")


class Refused(Exception):
    """Raised by a script instead of an answer."""


class FakeModel(ChatModel):
    """Answers with ``answer(body)``; ``bodies`` are the requests, as OpenAI's protocol has them."""

    context = 32_000

    def __init__(
        self, name: str, answer: Script, bodies: list[dict[str, Any]], api: bool
    ) -> None:
        self.name, self.answer, self.bodies = name, answer, bodies
        self.api = api

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        return [self._completion(request) for request in requests]

    def _completion(self, request: ChatRequest) -> Completion:
        messages = [asdict(message) for message in request.messages]
        sent = {name: getattr(request, name) for name in _SENT}
        body = {"model": self.name, "messages": messages, **sent}
        self.bodies.append(body)
        try:
            return Completion(self.answer(body), usage=Usage(input=50, output=20))
        except Refused as refused:
            return failed_completion(
                str(refused),
                Usage(input=len(str(refused)) * ("filter" in str(refused))),
            )


class FakeAgents(Agents):
    """Agents whose models are named as in their settings; ``bodies`` are all requests."""

    def __init__(
        self, settings: Mapping[str, LLMConfig], answer: Script, *, api: bool = False
    ) -> None:
        super().__init__(settings)
        self.bodies: list[dict[str, Any]] = []
        for llm in settings.values():
            model = FakeModel(llm.model, answer, self.bodies, api)
            self.loaded.setdefault(llm.model, model)

    def get(self, agent: str) -> LanguageModel:
        return self.loaded[self.settings[agent].model]


def one_agent(answer: Script) -> FakeAgents:
    """Agents of a runner with the one model ``fake``."""
    return FakeAgents({"fake": llm_config("fake")}, answer)
