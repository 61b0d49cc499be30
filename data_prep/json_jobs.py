"""Jobs whose answers are JSON objects; an unusable answer is requested again with the reason."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Field

from medal_judges import __version__
from medal_judges.config import Config
from medal_judges.data_prep.jobs import Agents, Answer, JobRunner
from medal_judges.errors import MedalError
from medal_judges.inference.dry_run import DryRun
from medal_judges.models.llm.counting import CountingModel
from medal_judges.models.llm.protocol import ChatRequest, Completion
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.models.prompted.answers import find_json
from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.signature import Signature, content_hash
from medal_judges.storage.journal import Journal


class JsonJobsConfig(Config):
    """How a model is asked. ``tries`` is the number of requests for one answer, ``at_once`` how
    many jobs run together; ``enforce`` sends the answer's JSON schema along."""

    llm: LLMConfig
    prompt: str
    tries: int = Field(default=3, ge=1)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_tokens: int = Field(default=4096, ge=1)
    enforce: bool = True
    at_once: int = Field(default=64, ge=1)
    seed: int = Field(default=0, ge=0)


class UnusableError(ValueError):
    """An answer cannot be used; the text says why, for the model and for the record."""


@dataclass(frozen=True, slots=True)
class JsonQuestion:
    """``values`` fill the prompt's placeholders; ``properties`` are those of the answer's schema,
    all required. ``read`` returns the answer's value or raises UnusableError."""

    values: Mapping[str, str | None]
    properties: Mapping[str, object]
    read: Callable[[Mapping[str, object]], Any]


class JsonJob(ABC):
    """One question after the other, each up to ``tries`` times. ``values`` are the usable answers
    so far, ``reason`` says why the last answer was not, ``tries`` counts the answers."""

    def __init__(self, id: str) -> None:
        self.id = id
        self.restart()

    def restart(self) -> None:
        """Forget all answers."""
        self.values: list[Any] = []
        self.tries = self.attempt = 0
        self.reason: str | None = None
        self.failed = False

    @abstractmethod
    def question(self) -> JsonQuestion | None:
        """The question that follows ``values``; None if nothing is left to ask."""

    @property
    def stage(self) -> str:
        """Number of the question and of the attempt, from 0."""
        return f"{len(self.values)}:{self.attempt}"

    def take(self, answer: Answer, most: int) -> bool:
        """Apply an answer; returns whether the job is over. ``most``: attempts at one question."""
        question = self.question()
        assert question is not None
        self.tries += 1
        self.attempt += 1
        try:
            self.values.append(question.read(json_object(answer.answer)))
        except UnusableError as error:
            cut = " (the answer was truncated at its token limit)" if answer.cut else ""
            self.reason = f"{error}{cut}"
            self.failed = self.attempt == most
            return self.failed
        self.attempt, self.reason = 0, None
        return self.question() is None


class JsonRunner(JobRunner[JsonJob]):
    """Runs JsonJobs on one model by the prompt file ``prompt``. Its placeholders are
    ``placeholders`` and ``reason``, why the attempt before was unusable.

    Raises ConfigError for a prompt file that does not fit.
    """

    def __init__(
        self,
        config: JsonJobsConfig,
        prompt: str,
        placeholders: Collection[str],
        *,
        agents: Agents | None = None,
        max_cost: float | None = None,
    ) -> None:
        self.config, self.name = config, config.llm.model
        self.prompt = load_prompt(prompt, {*placeholders, "reason"})
        self.jobs: dict[str, JsonJob] = {}
        self.earlier = self.over = 0  # jobs that earlier runs finished; all that are over
        self.made_by = ""
        self._left: Iterator[JsonJob] = iter(())
        agents = agents or Agents({self.name: config.llm})
        super().__init__(Journal(Path()), agents, max_cost=max_cost, failures=1)

    def signature(self, judge: str, *settings: object, prompts: object = None) -> Signature:
        """What an answer depends on: the model, its decoding, ``settings`` and the prompt."""
        decoding = {"tries", "temperature", "top_p", "max_tokens", "enforce"}
        llm = self.agents.get(self.name)
        return Signature(
            judge=judge,
            revision=content_hash(
                [self.config.model_dump(include=decoding), *settings, dict(llm.fingerprint())]
            ),
            base=llm.name,
            prompt=content_hash([self.prompt.model_dump(), prompts]),
            seed=self.config.seed,
            version=__version__,
        )

    def finish(
        self,
        jobs: Iterable[JsonJob],
        out: Path,
        by: str,
        *,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Run ``jobs``, resuming from the journal of the file ``out``; ``by`` is the signature of
        all its answers. Jobs that failed in an earlier run are tried again. ``progress`` is called
        with the number of jobs that are over.

        Raises MedalError if ``out`` has answers by another signature, or no journal.
        """
        self.journal, self.made_by = Journal(journal_path(out)), by
        if overwrite:
            self.journal.path.unlink(missing_ok=True)
        elif out.exists() and not self.journal.path.exists():
            raise MedalError(
                f"{out} exists, but not {self.journal.path.name}, which a resume needs",
                hint="give another --out, or --overwrite to start again from the beginning",
            )
        for job in jobs:
            if job.id in self.jobs:
                raise MedalError(f"two jobs have the id {job.id!r}", hint="leave one of them out")
            self.jobs[job.id] = job
        with self.journal.stay_open():
            self.replay()
            for job in self.jobs.values():
                if job.failed:
                    job.restart()
            left = [job for job in self.jobs.values() if job.question() is not None]
            self.earlier = self.over = len(self.jobs) - len(left)
            self._left = iter([job for job in left if job.id not in self.active])
            self.run(None if progress is None else lambda: progress(self.over))

    def replays(self, answer: Answer) -> bool:
        if answer.by != self.made_by:
            raise MedalError(
                f"{self.journal.path} holds answers by {answer.by!r}, not {self.made_by!r}",
                hint="give another --out, or --overwrite to start again from the beginning",
            )
        return answer.id in self.jobs

    def begin(self, id: str) -> JsonJob | None:
        job = self.jobs[id]
        if job.failed:  # an earlier run tried it again
            job.restart()
        return None if job.question() is None else job

    def fill(self) -> None:
        while len(self.active) < self.config.at_once and (job := next(self._left, None)):
            self.active[job.id] = job

    def apply(self, job: JsonJob, answer: Answer) -> None:
        if job.take(answer, self.config.tries):
            del self.active[job.id]
            self.over += 1

    def line(self, job: JsonJob, text: str, completion: Completion) -> Answer:
        return replace(super().line(job, text, completion), by=self.made_by)

    def agent(self, job: JsonJob) -> str:
        return self.name

    def request(self, job: JsonJob) -> ChatRequest:
        question = job.question()
        assert question is not None
        return self.asking(question, job.reason, job.attempt)

    def asking(
        self, question: JsonQuestion, reason: str | None = None, attempt: int = 0
    ) -> ChatRequest:
        """The request of one attempt; each has another seed."""
        schema = {
            "type": "object",
            "properties": question.properties,
            "required": list(question.properties),
            "additionalProperties": False,
        }
        again = [] if reason is None else [{"reason": reason}]
        return ChatRequest(
            tuple(self.prompt.messages(question.values, again=again)),
            max_tokens=self.config.max_tokens,
            temperature=self.config.temperature,
            top_p=self.config.top_p,
            seed=self.config.seed + attempt,
            schema=schema if self.config.enforce else None,
        )

    def failure(self, job: JsonJob) -> str | None:
        """Why ``job`` has no result; None if it has one."""
        return self.waiting.get(job.id) or job.reason

    def estimate(self, questions: Iterable[JsonQuestion], dialogues: int) -> DryRun:
        """The most that ``questions`` take if each first answer is usable, without cached ones."""
        counting = CountingModel(self.agents.get(self.name))
        counting.chat([self.asking(question) for question in questions])
        return DryRun(dialogues, counting.counted())

    @property
    def spending(self) -> str:
        """What this run paid for, in words: requests, tokens, and dollars if known."""
        cached = f" ({self.cached} answers came from the cache)" if self.cached else ""
        used = self.usage
        money = f", ${used.money:.4f}" if used.money else ""
        return (
            f"{self.requests} requests{cached}, {used.input} tokens in and {used.output} out{money}"
        )


def journal_path(out: Path) -> Path:
    """``x.answers.jsonl`` beside ``x.jsonl`` or ``x.jsonl.gz``."""
    return beside(out, "answers")


def beside(out: Path, what: str) -> Path:
    """``x.WHAT.jsonl`` beside ``x.jsonl``, ``x.jsonl.gz`` or ``x.yaml``."""
    return out.with_name(
        f"{out.name.removesuffix('.gz').rpartition('.')[0] or out.name}.{what}.jsonl"
    )


def json_object(text: str) -> Mapping[str, Any]:
    """The JSON object that an answer is, after any reasoning or in a code fence. Raises
    UnusableError."""
    found = find_json(text)
    if found is None or not isinstance(found[0], dict):
        raise UnusableError("the answer is not one JSON object and nothing else")
    return dict(found[0])
