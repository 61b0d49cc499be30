"""Runs jobs of language models, such as dialogues to generate or to translate.

A job asks one question at a time. Each round sends the questions of all active jobs, and each
answer becomes a line of the journal. An interrupted run resumes from the journal alone."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Container, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.batching import chunks
from medal_judges.models.llm.cost import CostLimiter, CostLimitError, Usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    LanguageModel,
)
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.records.validation import parse
from medal_judges.storage.jsonl import Journal
from medal_judges.storage.runs import hash_or_name

GRACE = 3.0  # seconds that servers have to end after Ctrl-C
AGENT_FAILURES = 25  # failures in a row of one agent that end the run
START_AGAIN = "Type another --out, or start again from the beginning with --overwrite"


@dataclass(frozen=True, slots=True)
class Answer:
    """A model's answer to one request of a job. It is one line of the journal, a file from which an
    interrupted run resumes.

    Attributes:
        id: The id of the job, such as the id of the dialogue to generate.
        stage: What the job asked for, such as ``reply`` or ``check``.
        answer: The text of the answer.
        cut: Whether the answer was truncated at its token limit.
        usage: Tokens, seconds and US dollars (``money``), such as
            ``{"input_tokens": 12, "money": 0.01}``.
    """

    id: str
    stage: str
    answer: str
    cut: bool = False
    usage: dict[str, float] = field(default_factory=dict)

    def to_record(self) -> dict[str, Any]:
        """Returns the fields of the answer as a dict, for a line of the journal. ``cut`` is left
        out if it is False."""
        record = asdict(self)
        if not self.cut:
            del record["cut"]
        return record


def parse_answer(record: object) -> Answer:
    """Returns the answer in ``record``, a line of the journal (the file of answers). Raises
    RecordError if a field is missing, malformed or unknown."""
    if isinstance(record, dict):
        record.pop("run", None)  # on the first line
    return parse(Answer, record)


def answer_settings(llm: LLMConfig, connection: Container[str] = ()) -> dict[str, Any]:
    """Returns those settings of the model ``llm`` that can change its answers, as a dict. They tell
    whether an earlier run can be continued.

    A setting that names a file or folder is replaced by a hash of its content.

    Args:
        llm: All settings of the model.
        connection: Names of the settings to leave out, such as ``base_url`` and ``timeout``.
    """
    settings = {}
    for name, value in llm.model_dump(mode="json", exclude_unset=True).items():
        if name not in connection:
            settings[name] = hash_or_name(value) if isinstance(value, str) else value
    return settings


class Agents:
    """The language models of a run, one for each agent (a role such as ``judge``
    or ``chatbot:NAME``).

    A model is loaded when it is first needed. Agents with equal settings share one model.

    Attributes:
        settings: Agent -> settings of its model.
        loaded: Settings as JSON -> loaded model.
    """

    def __init__(self, settings: Mapping[str, LLMConfig]) -> None:
        self.settings = settings
        self.loaded: dict[str, LanguageModel] = {}

    def get(self, agent: str) -> LanguageModel:
        """Returns the loaded model of ``agent``, such as ``judge``. Raises ConfigError if it cannot
        be loaded."""
        key = self.settings[agent].model_dump_json()
        if key not in self.loaded:
            self.loaded[key] = load_llm(self.settings[agent])
        return self.loaded[key]

    def limit_cost(self, max_cost: float) -> None:
        """Limits the costs of all paid models together to ``max_cost`` US dollars.

        Raises:
            ConfigError: No model is used through an API, a price is unknown, or a model already has
                a cost limit.
        """
        models = [self.get(agent) for agent, llm in self.settings.items() if llm.api]
        if not models:
            raise ConfigError(
                "--max-cost needs a model behind an API", hint="Leave it out"
            )
        for model in models:
            if model.limiter is not None and model.limiter.limit is not None:
                problem = (
                    f"--max-cost cannot be combined with llm.max_cost of {model.name}"
                )
                raise ConfigError(problem, hint="Leave one of them out")
            if model.cost(Usage()) is None and not model.private:
                raise ConfigError(
                    f"the price of {model.name} is unknown, so --max-cost cannot be guaranteed",
                    hint="Give its llm prices: FILE, with models: {NAME: {input: X, output: Y}}",
                )
        limiter = CostLimiter(max_cost)
        for model in models:
            model.limiter = limiter


# a job: its ``id``, and ``stage``, the name of its open question
J = TypeVar("J", bound=Any)


Receive = Callable[[J, Completion], None]


class _Call(Generic[J]):
    """The requests of one round (one request per active job) to one model.

    The caller appends to ``jobs`` and ``requests``. ``start`` or ``run_local`` then sends the
    requests.

    Attributes:
        model: The model to ask.
        jobs: The job of each request.
        requests: One request for each of ``jobs``, in the same order.
        finished: Set after the last answer, or after an error.
        error: The exception of the thread that sends the requests, or None.
    """

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.jobs: list[J] = []
        self.requests: list[ChatRequest] = []
        # An event, not join(): before Python 3.13 a join that Ctrl-C interrupts marks the thread as
        # ended.
        self.finished = threading.Event()
        self.error: BaseException | None = None

    def start(self, receive: Receive[J], stop: threading.Event) -> None:
        """Starts a thread that sends the requests to a server. An error in the thread is kept
        in ``error``.

        Args:
            receive: Called with a job and its completion as soon as that arrives.
            stop: An event of the caller. No further request is sent once it is set.
        """

        def receive_until_stopped(index: int, completion: Completion) -> None:
            # even after a stop: the answer is paid for
            receive(self.jobs[index], completion)
            if stop.is_set():
                raise MedalError("stopped")

        def send_requests() -> None:
            try:
                self.model.chat_each(self.requests, receive_until_stopped)
            except BaseException as error:  # raised in the caller's thread
                self.error = error
            finally:
                self.finished.set()

        # A daemon, so that a silent server cannot keep the process alive.
        threading.Thread(target=send_requests, daemon=True).start()

    def run_local(self, receive: Receive[J], per_call: int) -> None:
        """Sends the requests to a local model, ``per_call`` at a time. Calls ``receive`` with each
        job and its completion."""
        for window in chunks(zip(self.jobs, self.requests, strict=True), per_call):
            completions = self.model.chat([request for _, request in window])
            for (job, _), completion in zip(window, completions, strict=True):
                receive(job, completion)
        self.finished.set()


class JobRunner(ABC, Generic[J]):
    """Base class of runners that ask language models on behalf of jobs, until all jobs are
    finished. A job is a piece of work such as one dialogue to translate.

    Subclasses define what a job asks for, and what an answer changes. They also fill ``active``.

    Attributes:
        journal: The file of all answers, from which an interrupted run resumes.
        agents: The language models.
        max_cost: Cost limit in US dollars for all paid models together, or None.
        per_call: The number of requests sent to a local model at a time.
        failures: The number of failed requests in a row after which a job is postponed to the next
            run.
        active: Job id -> job, for the jobs with a request in the next round.
        waiting: Job id -> reason of failure, for the postponed jobs.
        usage: The tokens and costs of this run, without answers from the cache.
        requests: The number of answers in this run that did not come from the cache.
        cached: The number of answers in this run that came from the cache.
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
        self.journal = journal
        self.agents = agents
        self.max_cost = max_cost
        self.per_call = per_call
        self.failures = failures
        self.active: dict[str, J] = {}
        self.waiting: dict[str, str] = {}
        self.usage = Usage(money=0.0)
        self.requests = 0
        self.cached = 0
        self._failed: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._closed = False

    @abstractmethod
    def begin_job(self, id: str) -> J | None:
        """Returns the job ``id`` as it is before its first answer, or None if this run has no
        unfinished job with that id."""

    @abstractmethod
    def make_request(self, job: J) -> ChatRequest:
        """Returns the next request of ``job``. Its seed is the same in each run."""

    @abstractmethod
    def apply_answer(self, job: J, answer: Answer) -> None:
        """Updates ``job`` with ``answer``, which a model gave now or in an earlier run. Removes the
        job from ``active`` when it is finished."""

    def next_agent(self, job: J) -> str:
        """Returns the agent (a role such as ``judge``) whose model gets the next request of
        ``job``. By default it is the first agent."""
        return next(iter(self.agents.settings))

    def activate_jobs(self) -> None:
        """Adds jobs to ``active`` before a round. Does nothing by default."""

    def on_answer(self, job: J) -> None:
        """Called after each new answer of ``job``. Does nothing by default."""

    def flush(self) -> None:
        """Syncs the journal (the file of answers) to the disk."""
        self.journal.sync()

    def belongs_to_run(self, answer: Answer) -> bool:
        """Returns whether ``answer``, a line of the journal (the file of answers), is for a job of
        this run. A line for another job is skipped. By default, returns True."""
        return True

    def replay_journal(self) -> None:
        """Reads the answers that earlier runs wrote to the journal, and applies each to its job.

        Raises:
            DataError: A line of the journal is damaged. The error has the line number.
            MedalError: An answer is for an unknown job or for another step of its job, or the
                journal has other settings.
        """
        self.journal.require_same_run()
        for answer in self.journal.read_records(parse_answer):
            if self.belongs_to_run(answer):
                self._apply_to_job(answer)

    def run(self, progress: Callable[[], None] | None = None) -> None:
        """Sends requests until no job is active.

        After an error, a second run continues from the answers so far.

        Args:
            progress: Called after each answer.

        Raises:
            CostLimitError: The cost limit is reached.
            ConfigError: A model cannot be loaded, or the cost limit cannot be guaranteed.
            MedalError: An agent fails 25 times in a row.
        """
        try:
            if self.max_cost is not None:
                self.agents.limit_cost(self.max_cost)
            while True:
                self.activate_jobs()
                if not self.active:
                    break
                self._run_round(progress or (lambda: None))
                self.flush()
        finally:
            with self._lock:
                self._closed = True
            self.journal.sync()

    def _run_round(self, progress: Callable[[], None]) -> None:
        """Sends one request for each active job, and waits for the answers.

        If a server fails, the error is raised after all servers have finished, so that no answer is
        lost.

        Args:
            progress: Called after each answer.

        Raises:
            CostLimitError: The cost limit is reached and this round got no answer.
        """
        calls: dict[int, _Call[J]] = {}
        for job in self.active.values():
            model = self.agents.get(self.next_agent(job))
            call = calls.setdefault(id(model), _Call(model))
            call.jobs.append(job)
            call.requests.append(self.make_request(job))
        answered = self.requests + self.cached
        stop = threading.Event()

        def receive(job: J, completion: Completion) -> None:
            with self._lock:
                # else a server's late answer, after the run was stopped
                if not self._closed:
                    self._record_completion(job, completion)
                    progress()

        try:
            for call in calls.values():
                if call.model.api:
                    call.start(receive, stop)
            for call in calls.values():
                if not call.model.api:
                    call.run_local(receive, self.per_call)
            for call in calls.values():
                call.finished.wait()
        except BaseException:
            stop.set()
            end = time.monotonic() + GRACE
            for call in calls.values():
                if call.model.api:
                    call.finished.wait(max(0.0, end - time.monotonic()))
            raise
        errors = filter(None, [call.error for call in calls.values()])
        for error in sorted(
            errors, key=lambda error: isinstance(error, CostLimitError)
        ):
            if (
                not isinstance(error, CostLimitError)
                or self.requests + self.cached == answered
            ):
                raise error

    def _record_completion(self, job: J, completion: Completion) -> None:
        """Counts ``completion``, writes it to the journal and applies it to ``job``.

        A failed request is only counted. After ``failures`` failed requests in a row, the job is
        postponed to the next run.

        Raises:
            MedalError: An agent failed 25 times in a row.
        """
        agent = self.next_agent(job)
        usage = completion.usage
        if usage.from_cache:
            self.cached += 1
        else:
            self.usage += usage
        if completion.finish == "failed":
            reason = completion.failure or "no reason given"
            self._failed[job.id] += 1
            # A server that refuses one request (a filter, say) has read it and is not down.
            self._failed[agent] += 1
            if usage.input or usage.output:
                self._failed[agent] = 0
            if self._failed[job.id] >= self.failures:
                self.waiting[job.id] = f"{agent}: {reason}"
                self.active.pop(job.id, None)
            if self._failed[agent] >= AGENT_FAILURES:
                raise MedalError(
                    f"{agent} failed {AGENT_FAILURES} times in a row: {reason}",
                    hint="Type the same command again. It resumes from here",
                )
            return
        self.requests += not usage.from_cache
        self._failed[agent] = self._failed[job.id] = 0
        # Half a surrogate pair has no UTF-8: neither the journal nor a server could take it.
        text = completion.text.encode("utf-8", "replace").decode("utf-8")
        cut = completion.finish == "length"
        answer = Answer(job.id, job.stage, text, cut, usage.to_record())
        self.journal.append([answer], sync=False)
        self._apply_to_job(answer)
        self.on_answer(job)

    def _apply_to_job(self, answer: Answer) -> None:
        """Applies ``answer`` to its job. Raises MedalError if the job did not ask for it."""
        job = self.active.get(answer.id) or self.begin_job(answer.id)
        if job is None or job.stage != answer.stage:
            expected = "another job" if job is None else f"stage {job.stage!r}"
            raise MedalError(
                f"{self.journal.path} does not fit this run: it has {answer.id} at stage "
                f"{answer.stage!r}, but {expected} was expected",
                hint=START_AGAIN,
            )
        self.active[job.id] = job
        self.apply_answer(job, answer)

    @property
    def spending_text(self) -> str:
        """What this run paid for, as text: requests, tokens, and dollars if prices are known."""
        cached = f" ({self.cached} answers came from the cache)" if self.cached else ""
        usage = self.usage
        money = f", ${usage.money:.4f}" if usage.money else ""
        tokens = f"{usage.input} tokens in and {usage.output} out"
        return f"{self.requests} requests{cached}, {tokens}{money}"


def path_beside(out: Path, name: str) -> Path:
    """Returns the path of a JSONL file that accompanies another file, such as ``x.answers.jsonl``.

    Args:
        out: The other file, such as ``x.jsonl``, ``x.jsonl.gz`` or ``x.yaml``.
        name: The middle of the file name, such as ``answers``.
    """
    stem = out.name.removesuffix(".gz").rpartition(".")[0] or out.name
    return out.with_name(f"{stem}.{name}.jsonl")
