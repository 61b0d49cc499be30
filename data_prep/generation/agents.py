"""The language models of a run: loaded when they are first needed, asked together, and held to one
limit of cost."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.errors import ConfigError
from medal_judges.models.batching import windows
from medal_judges.models.llm.cost import CostLimiter, CostLimitError, Usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Completion, LanguageModel, OnAnswer
from medal_judges.models.llm.settings import LLMConfig

GRACE = 3.0  # seconds that servers have to end after Ctrl-C
# Where a model is found and how fast it is asked changes no dialogue; the rest does.
_CONNECTION = {
    *("base_url", "api_key_env", "max_in_flight", "timeout", "attempts", "longest_wait"),
    *("max_cost", "prices", "cache", "batch", "device", "token_budget"),
    "tokenizer",
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
    """One server's call, on a thread that does not delay the end of the process: a server may be
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


@dataclass(slots=True)
class RunBudget:
    """``limit`` US dollars of this run; None for no limit.

    Each model keeps to a limiter of its own (CostLimiter). Before each round what is left is shared
    out evenly among the models that are asked in it, so that all together never pass the limit. A
    limit in a model's own settings (``llm.max_cost``) holds beside it.
    """

    limit: float | None = None
    _limiters: dict[int, CostLimiter] = field(default_factory=dict)
    _before: dict[int, float] = field(default_factory=dict)  # spent by earlier runs of this process

    def share(self, models: Iterable[LanguageModel]) -> None:
        """Give each paid model of the coming round its share of what is left.

        Raises ConfigError for a server elsewhere whose prices are not known: its cost could not be
        bounded.
        """
        asked = [(m, limiter) for m in models if (limiter := m.limiter) is not None]
        if self.limit is None:
            for _, limiter in asked:  # an earlier run of this process may have given it a share
                limiter.limit = limiter.own
            return
        paid = []
        for model, limiter in asked:
            if model.cost(Usage()) is not None:
                paid.append(limiter)
            elif not model.capabilities.private:
                raise ConfigError(
                    f"no price of {model.name} is known, so --max-cost could not be kept",
                    hint="give its llm a file of prices (prices: PATH; configs/prices.yaml is the "
                    "form, 0 for a server that costs nothing)",
                )
            self._limiters[id(limiter)] = limiter
            self._before.setdefault(id(limiter), limiter.spent)
        left = self.limit - self.spent
        for limiter in paid:
            share = limiter.spent + max(0.0, left) / len(paid)
            limiter.limit = share if limiter.own is None else min(share, limiter.own)

    @property
    def spent(self) -> float:
        """US dollars so far."""
        return sum(limiter.spent - self._before[key] for key, limiter in self._limiters.items())

    def error(self, limit: CostLimitError) -> CostLimitError:
        """The error for the ``limit`` that one model met: its own, or the one of the run."""
        limiters = self._limiters.values()
        if self.limit is None or any(p.own is not None and p.limit == p.own for p in limiters):
            return limit
        return CostLimitError(
            f"stopped before the limit of ${self.limit:.2f}: all models together spent "
            f"${self.spent:.4f}, and the next answer could pass it; every answer is kept",
            hint="run the same command again with a higher --max-cost: it resumes from here",
        )
