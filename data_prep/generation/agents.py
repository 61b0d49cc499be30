"""The language models of a run, loaded when they are first needed, and asked together."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.models.batching import windows
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Completion, LanguageModel, OnAnswer
from medal_judges.models.llm.settings import LLMConfig

GRACE = 3.0  # seconds that servers have to end after Ctrl-C
# Where a model is found and how fast it is asked changes no dialogue; the rest does.
_CONNECTION = {
    *("base_url", "api_key_env", "max_in_flight", "timeout", "attempts", "longest_wait"),
    *("max_cost", "prices", "cache", "batch", "device", "token_budget", "tokenizer"),
}


@dataclass(slots=True)
class Call:
    """Requests for one model, and what to do with each answer (index, completion)."""

    model: LanguageModel
    requests: list[ChatRequest]
    on_answer: OnAnswer


def settings_of(config: GenerateConfig) -> dict[str, LLMConfig]:
    """Agent (``user:``, ``judge:`` or ``chatbot:`` and its name) -> its ``llm`` setting."""
    users = {f"user:{agent.name}": agent.llm for agent in config.users}
    judge = {f"judge:{config.user_judge.name}": config.user_judge.llm}
    return users | judge | {f"chatbot:{agent.name}": agent.llm for agent in config.chatbots}


def identity(llm: LLMConfig) -> dict[str, object]:
    """What of an ``llm`` setting a dialogue depends on: the model, not where it is served."""
    return llm.model_dump(mode="json", exclude=_CONNECTION, exclude_unset=True)


@dataclass(slots=True)
class Agents:
    """``get(agent)`` is its model; agents with the same setting share one."""

    settings: Mapping[str, LLMConfig]
    loaded: dict[str, LanguageModel] = field(default_factory=dict)

    def get(self, agent: str) -> LanguageModel:
        """The model of ``agent``. Raises ConfigError where it is not available."""
        key = self.settings[agent].model_dump_json()
        if key not in self.loaded:
            self.loaded[key] = load_llm(self.settings[agent])
        return self.loaded[key]


def ask_all(calls: Sequence[Call], per_call: int) -> list[CostLimitError]:
    """Ask all models, servers side by side and local ones after each other.

    Answers are handed on as they arrive. Returns the limits of cost that were met; raises the first
    other error of a server once the other servers' answers are in. Where this thread is stopped
    (Ctrl-C) or a local model fails, no server is asked anything more.
    """
    stop = threading.Event()
    servers = [_Server(call, stop) for call in calls if call.model.capabilities.api]
    try:
        for server in servers:
            server.start()
        for call in calls:
            if not call.model.capabilities.api:
                _ask_local(call, per_call)
        for server in servers:
            server.done.wait()
    except BaseException:
        stop.set()
        end = time.monotonic() + GRACE
        for server in servers:
            if server.ident is not None:  # it was started
                server.done.wait(max(0.0, end - time.monotonic()))
        raise
    errors = [server.error for server in servers if server.error is not None]
    for error in errors:
        if not isinstance(error, CostLimitError):
            raise error
    return [error for error in errors if isinstance(error, CostLimitError)]


class _Stopped(Exception):
    """Nothing more is to be asked."""


class _Server(threading.Thread):
    """One server's call, on a thread that does not hold up the end of the process: a server may be
    silent for minutes, and a batch for hours."""

    def __init__(self, call: Call, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self.call, self.stop = call, stop
        self.error: BaseException | None = None
        # Not join(): until Python 3.13 one that Ctrl-C interrupts takes the thread for ended.
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self.call.model.chat_each(self.call.requests, self._on_answer)
        except BaseException as error:  # raised in the caller's thread
            self.error = error
        finally:
            self.done.set()

    def _on_answer(self, index: int, completion: Completion) -> None:
        self.call.on_answer(index, completion)
        if self.stop.is_set():  # after the answer was taken: it is paid for
            raise _Stopped


def _ask_local(call: Call, per_call: int) -> None:
    for part in windows(enumerate(call.requests), per_call):
        answers = call.model.chat([request for _, request in part])
        for (index, _), completion in zip(part, answers, strict=True):
            call.on_answer(index, completion)
