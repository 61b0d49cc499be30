"""The one runner of language-model jobs: requests out, answers into the journal, state replayed.

A job (a dialogue to generate or to translate, ...) waits for one answer at a time. Each round sends
the questions of all active jobs, one call per model: servers side by side, local models in turn.
Each answer is one line of the journal, and the state of a job follows from its answers alone. So a
resume is a replay, and a kill loses at most the requests that are running. The seed of a request
depends on the job and its answers only: after a kill the same question is sent again.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from medal_judges.errors import ConfigError, MedalError, RecordError
from medal_judges.models.batching import windows
from medal_judges.models.llm.cost import CostLimiter, CostLimitError, Usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Completion, LanguageModel, OnAnswer
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.storage.journal import Journal

GRACE = 3.0  # seconds that servers have to end after Ctrl-C
AGENT_FAILURES = 25  # failures in a row of one agent that end the run
_AGAIN = "give another --out, or start again from the beginning with --overwrite"


@dataclass(frozen=True, slots=True)
class Answer:
    """One line of the journal: the answer to the question ``stage`` of the job ``id``. ``cut``: it
    was truncated at its token limit. ``usage``: Usage.to_record(). ``by``: the signature of the
    settings that it was made with, if the journal has no other record of them."""

    id: str
    stage: str
    answer: str
    cut: bool = False
    usage: dict[str, float] = field(default_factory=dict)
    by: str = ""

    def to_record(self) -> dict[str, Any]:
        """The line; ``cut`` and ``by`` only if they are set."""
        return {k: v for k, v in asdict(self).items() if v or k not in ("cut", "by")}


def parse_answer(record: object) -> Answer:
    """Inverse of ``to_record``. Raises RecordError."""
    if isinstance(record, Mapping):
        id, stage, answer = (record.get(name) for name in ("id", "stage", "answer"))
        usage, by = record.get("usage", {}), record.get("by", "")
        texts = all(isinstance(each, str) for each in (id, stage, answer, by))
        if texts and isinstance(usage, dict):
            return Answer(str(id), str(stage), str(answer), bool(record.get("cut")), usage, by)
    raise RecordError("(line)", "a line of a journal of answers", record)


class Job(Protocol):
    """A unit of work with a name and the stage that it waits at."""

    id: str

    @property
    def stage(self) -> str:
        """The name of the question that waits for an answer."""


J = TypeVar("J", bound=Job)


class Agents:
    """The language models of a run by the name of an agent, each loaded when it is first needed.
    Agents with the same setting share one."""

    def __init__(self, settings: Mapping[str, LLMConfig]) -> None:
        self.settings = settings
        self.loaded: dict[str, LanguageModel] = {}

    def get(self, agent: str) -> LanguageModel:
        """The model of ``agent``. Raises ConfigError if it cannot be loaded."""
        key = self.settings[agent].model_dump_json()
        if key not in self.loaded:
            self.loaded[key] = load_llm(self.settings[agent])
        return self.loaded[key]

    def limit_cost(self, max_cost: float) -> None:
        """Let all paid models together spend at most ``max_cost`` US dollars.

        Raises ConfigError if no model is behind an API, if the price of one is unknown, or if one
        has a limit of its own.
        """
        models = [self.get(agent) for agent, llm in self.settings.items() if llm.api]
        if not models:
            raise ConfigError("--max-cost needs a model behind an API", hint="leave it out")
        limiter = CostLimiter(max_cost)
        for model in models:
            if model.limiter is not None and model.limiter.own is not None:
                raise ConfigError(
                    f"--max-cost cannot be combined with llm.max_cost of {model.name}",
                    hint="leave out one of them",
                )
            if model.cost(Usage()) is None and not model.capabilities.private:
                raise ConfigError(
                    f"the price of {model.name} is unknown, so --max-cost cannot be guaranteed",
                    hint="give its llm a file of prices (prices: PATH, in the form of "
                    "configs/prices.yaml; 0 for a server that costs nothing)",
                )
        for model in models:
            model.spend_from(limiter)


class JobRunner(ABC, Generic[J]):
    """Runs jobs until none is left. A subclass says what they are.

    ``active``: jobs that wait for an answer. ``waiting``: jobs that failed ``failures`` times in a
    row, with the reason; the same command resumes them. ``usage`` and ``requests`` count what this
    run paid for, ``cached`` its answers from the cache.
    """

    def __init__(
        self,
        journal: Journal,
        agents: Agents,
        *,
        max_cost: float | None = None,
        per_call: int = 256,
        failures: int = 3,
    ) -> None:
        self.journal, self.agents, self.max_cost = journal, agents, max_cost
        self.per_call, self.failures = per_call, failures
        self.active: dict[str, J] = {}
        self.waiting: dict[str, str] = {}
        self.usage, self.requests, self.cached = Usage(money=0.0), 0, 0
        self._failed: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closed = False

    @abstractmethod
    def begin(self, id: str) -> J | None:
        """The new job that the journal's first answer for ``id`` belongs to, None if there is
        none."""

    @abstractmethod
    def agent(self, job: J) -> str:
        """The name of the agent that answers next."""

    @abstractmethod
    def request(self, job: J) -> ChatRequest:
        """The question that ``job`` waits at."""

    @abstractmethod
    def apply(self, job: J, answer: Answer) -> None:
        """Change the state of ``job`` by an answer, live or replayed; remove it from ``active`` if
        it is over."""

    def fill(self) -> None:
        """Admit more jobs to ``active``; called before each round."""

    def answered(self, job: J) -> None:
        """Called after a live answer was applied."""

    def flush(self) -> None:
        """Make what there is durable; called after each round."""
        self.journal.sync()

    def replay(self) -> None:
        """Apply the answers of earlier runs. Raises DataError with the line for a damaged one."""
        for answer in self.journal.records(parse_answer):
            if self.replays(answer):
                self._take(answer)

    def replays(self, answer: Answer) -> bool:
        """Whether a line of the journal belongs to this run."""
        return True

    def run(self, progress: Callable[[], None] | None = None) -> None:
        """Send questions until no job is active; ``progress`` is called after each answer.

        Raises CostLimitError at the limit of cost and MedalError if an agent does not answer. All
        answers are in the journal, and the same command resumes.
        """
        try:
            if self.max_cost is not None:
                self.agents.limit_cost(self.max_cost)
            while self._round(progress):
                self.flush()
        finally:
            with self._lock:
                self._closed = True
            self.journal.sync()

    def _round(self, progress: Callable[[], None] | None) -> bool:
        self.fill()
        by_model: dict[int, tuple[LanguageModel, list[J]]] = {}
        for job in self.active.values():
            model = self.agents.get(self.agent(job))
            by_model.setdefault(id(model), (model, []))[1].append(job)
        if not by_model:
            return False
        before = self.requests + self.cached

        def receiver(jobs: Sequence[J]) -> OnAnswer:
            def on_answer(index: int, completion: Completion) -> None:
                with self._lock:
                    if self._closed:  # a server's late answer, after the run was stopped
                        return
                    self._receive(jobs[index], completion)
                    if progress is not None:
                        progress()

            return on_answer

        calls = [
            (model, [self.request(job) for job in jobs], receiver(jobs))
            for model, jobs in by_model.values()
        ]
        limits = ask_all(calls, self.per_call)
        if limits and self.requests + self.cached == before:
            raise limits[0]
        return True

    def _receive(self, job: J, completion: Completion) -> None:
        agent, usage = self.agent(job), completion.usage
        if usage.from_cache:
            self.cached += 1
        else:
            self.usage += usage
        if completion.finish == "failed":
            self._fail(job, agent, completion)
            return
        self.requests += not usage.from_cache
        self._failed[agent] = self._failed[job.id] = 0
        # Half a surrogate pair has no UTF-8: neither the journal nor a server could take it.
        text = completion.text.encode("utf-8", "replace").decode("utf-8")
        answer = self.line(job, text, completion)
        self.journal.append([answer], sync=False)
        self._take(answer)
        self.answered(job)

    def line(self, job: J, text: str, completion: Completion) -> Answer:
        """The journal's line for a completion."""
        cut = completion.finish == "length"
        return Answer(job.id, job.stage, text, cut, completion.usage.to_record())

    def _fail(self, job: J, agent: str, completion: Completion) -> None:
        reason = completion.failure or "no reason given"
        self._failed[job.id] += 1
        # A server that refuses one request (a filter, say) has read it and is not down.
        read = completion.usage.input or completion.usage.output
        self._failed[agent] = 0 if read else self._failed[agent] + 1
        if self._failed[job.id] >= self.failures:
            self.waiting[job.id] = f"{agent}: {reason}"
            self.active.pop(job.id, None)
        if self._failed[agent] >= AGENT_FAILURES:
            raise MedalError(
                f"{agent} failed {AGENT_FAILURES} times in a row: {reason}",
                hint="run the same command again: it resumes from here",
            )

    def _take(self, answer: Answer) -> None:
        job = self.active.get(answer.id) or self.begin(answer.id)
        if job is None or job.stage != answer.stage:
            expected = "another job" if job is None else f"stage {job.stage!r}"
            raise MedalError(
                f"{self.journal.path} does not fit this run: it has {answer.id} at stage "
                f"{answer.stage!r}, but {expected} was expected",
                hint=_AGAIN,
            )
        self.active[job.id] = job
        self.apply(job, answer)


Call = tuple[LanguageModel, list[ChatRequest], OnAnswer]


class _Stopped(Exception):
    """No further request is sent."""


def ask_all(calls: Sequence[Call], per_call: int) -> list[CostLimitError]:
    """Ask all models, servers side by side and local ones in turn, ``per_call`` requests at a time.

    Returns the limits of cost that were reached; raises the first other error of a server once the
    other servers have answered. If this thread is stopped (Ctrl-C) or a local model fails, no
    server gets another request.
    """
    stop = threading.Event()
    errors: list[BaseException] = []

    def serve(call: Call, done: threading.Event) -> None:
        model, requests, on_answer = call

        def until_stopped(index: int, completion: Completion) -> None:
            on_answer(index, completion)
            if stop.is_set():  # after the answer was taken: it is paid for
                raise _Stopped

        try:
            model.chat_each(requests, until_stopped)
        except BaseException as error:  # raised in the caller's thread
            errors.append(error)
        finally:
            done.set()

    # Events, not join(): before Python 3.13 a join that Ctrl-C interrupts marks the thread as
    # ended. Daemons: a server may be silent for minutes, and a batch for hours.
    served = [(call, threading.Event()) for call in calls if call[0].capabilities.api]
    started = []
    try:
        for each in served:
            threading.Thread(target=serve, args=each, daemon=True).start()
            started.append(each[1])
        for model, requests, on_answer in calls:
            for part in windows(enumerate(requests), per_call):
                if model.capabilities.api:
                    break
                answers = model.chat([request for _, request in part])
                for (index, _), completion in zip(part, answers, strict=True):
                    on_answer(index, completion)
        for done in started:
            done.wait()
    except BaseException:
        stop.set()
        end = time.monotonic() + GRACE
        for done in started:
            done.wait(max(0.0, end - time.monotonic()))
        raise
    limits = [error for error in errors if isinstance(error, CostLimitError)]
    if others := [error for error in errors if not isinstance(error, CostLimitError)]:
        raise others[0]
    return limits
