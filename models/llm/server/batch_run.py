"""One call of the batch model: from requests to batches under way, and from their files to answers.

It goes in waves. A wave is every batch that answers what is pending: those an earlier start left
behind, and new ones for the rest. A further wave is needed for answers that were cut, for requests
with a field that the server refuses, and where the limit of cost let only some of them go.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.llm.answer_store import chat_key, model_key
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.protocol import ChatRequest, Completion, OnAnswer, failed
from medal_judges.models.llm.server.batch_files import (
    ENDPOINT,
    BatchJob,
    BatchJournal,
    BatchResult,
    read_results,
    request_line,
    split,
)
from medal_judges.models.llm.server.errors import PermanentError, TransientError, words
from medal_judges.models.llm.server.model import RemoteModel, marked_cut
from medal_judges.models.llm.server.wire import Accepted, AnswerReader, chat_body

if TYPE_CHECKING:
    from openai import AsyncOpenAI
    from openai.types import Batch

T = TypeVar("T")
logger = logging.getLogger(__name__)

TAG = "medal_judges"  # the metadata by which a batch is found again
DAY = 86400.0
PATIENCE = 3600.0  # seconds that polling continues while the server cannot be reached
# The states in which a batch stays, and what they mean for a request that it did not answer.
ENDED = {
    "completed": "the batch ended without an answer to this request",
    "failed": "the batch was refused",
    "expired": "the batch expired before this request was answered",
    "cancelled": "the batch was cancelled before this request was answered",
}


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """``poll`` in seconds; how much goes into one batch."""

    poll: float
    max_requests: int
    max_bytes: int


@dataclass(slots=True)
class Ask:
    """A request, whose answer may have ``limit`` tokens and goes to ``indices``. At the second try:
    the answer that was ``cut`` short, and the job and key it came from."""

    request: ChatRequest
    indices: list[int]
    limit: int
    cut: Completion | None = None
    origin: tuple[BatchJob, str] | None = None


class BatchRun:
    """What is pending in one call, and how it is worked off."""

    def __init__(
        self,
        remote: RemoteModel,
        price: Callable[[Usage], float | None],
        journal: BatchJournal,
        limits: BatchLimits,
        on_answer: OnAnswer,
    ) -> None:
        self.remote, self.price, self.journal, self.limits = remote, price, journal, limits
        self.on_answer = on_answer
        self.model_key = model_key(remote)
        self.pending: dict[str, Ask] = {}
        self.accepted = Accepted()  # what this wave's requests were built by
        self.reader = AnswerReader(remote.clean, price)
        self.client: AsyncOpenAI
        self.heard = time.monotonic()

    async def all(self, requests: Sequence[ChatRequest]) -> None:
        """Report an answer for each of ``requests``."""
        for index, request in enumerate(requests):
            new = Ask(request, [], self.remote.limit(request))
            self.pending.setdefault(self._key(request), new).indices.append(index)
        count = len(self.pending)
        async with self.remote.open() as self.client:
            while self.pending:
                self.accepted = self.remote.accepted.copy()
                jobs = await self._submit()
                if not jobs:
                    raise self.remote.limiter.error(count - len(self.pending), count)
                await self._until_ended(jobs)

    def _key(self, request: ChatRequest) -> str:
        return chat_key(self.model_key, request)

    # -- on the way out ---------------------------------------------------------------------

    async def _submit(self) -> list[BatchJob]:
        """The jobs of this wave."""
        with self.journal.lock:
            known = await self._known()
            jobs = [job for job in known if not self.pending.keys().isdisjoint(job.keys)]
            under_way = {key for job in jobs for key in job.keys}
            lines = (
                (key, request_line(key, self._body(self.pending[key])))
                for key in self._affordable(under_way)
            )
            limits = self.limits
            for keys, content in split(
                lines, max_requests=limits.max_requests, max_bytes=limits.max_bytes
            ):
                jobs.append(BatchJob(keys))
                await self._start(jobs[-1], content)
        return jobs

    async def _known(self) -> list[BatchJob]:
        """Jobs of earlier starts; one that never became a batch is forgotten."""
        jobs = self.journal.jobs()
        for job in jobs:
            if job.batch is None:
                job.batch = await self._by_tag(job) if job.tried else None
                self.journal.settle(job, job.keys if job.batch is None else [])
        return [job for job in jobs if job.batch is not None]

    async def _by_tag(self, job: BatchJob) -> str | None:
        """The id of the batch that carries the job's tag, if there is one."""

        async def look() -> str | None:
            async for batch in self.client.batches.list(limit=100):  # newest first
                if (batch.metadata or {}).get(TAG) == job.tag:
                    return str(batch.id)
                if batch.created_at < job.created - DAY:  # clocks differ, but not by a day
                    return None
            return None

        return await self._retried(look)

    def _affordable(self, under_way: set[str]) -> list[str]:
        """Keys not under way that fit under the limit of cost at their highest price; a next wave
        takes more when the real prices of these are known."""
        new = [key for key in self.pending if key not in under_way]
        limit = self.remote.limiter.limit
        if limit is None:
            return new
        left = limit - self.remote.limiter.spent
        left -= sum(self._highest(self.pending[key]) for key in under_way & self.pending.keys())
        fitting = []
        for key in new:
            left -= self._highest(self.pending[key])
            if left < 0:
                break
            fitting.append(key)
        return fitting

    def _highest(self, ask: Ask) -> float:
        return self.price(self.remote.highest(ask.request, ask.limit)) or 0.0

    def _body(self, ask: Ask) -> dict[str, object]:
        return chat_body(self.remote.config, ask.request, ask.limit, self.accepted)

    async def _start(self, job: BatchJob, content: bytes) -> None:
        async def upload() -> str:
            named = (f"{job.tag}.jsonl", content)
            return str((await self.client.files.create(file=named, purpose="batch")).id)

        job.file = file = await self._retried(upload)
        job.batch = await self._retried(lambda: self._make(job, file))
        self.journal.save(job)
        logger.info(
            "batch %s of %d requests is under way; the same command resumes it",
            job.batch,
            len(job.keys),
        )

    async def _make(self, job: BatchJob, file: str) -> str:
        # An earlier try may have been heard although its answer was lost.
        made = await self._by_tag(job) if job.tried else None
        if made is not None:
            return made
        job.tried = True
        self.journal.save(job)
        batch = await self.client.batches.create(
            input_file_id=file,
            endpoint=ENDPOINT,
            completion_window="24h",
            metadata={TAG: job.tag},
        )
        return str(batch.id)

    # -- under way --------------------------------------------------------------------------

    async def _until_ended(self, jobs: Sequence[BatchJob]) -> None:
        left = list(jobs)
        while left:
            for job in list(left):
                batch = await self._look(job)
                if batch is None or batch.status in ENDED:
                    left.remove(job)
                    await self._take(job, batch)
            if left:
                await asyncio.sleep(self.limits.poll)

    async def _look(self, job: BatchJob) -> Batch | None:
        """The batch as it stands, None when the server does not know it any more."""
        while True:
            try:
                assert job.batch is not None
                look = partial(self.client.batches.retrieve, job.batch)
                batch = await self._retried(partial(_unless_gone, look))
                break
            except SourceError:
                if time.monotonic() - self.heard > PATIENCE:
                    raise
                logger.warning("%s cannot be reached; polling continues", self.remote.name)
                await asyncio.sleep(self.limits.poll)
        self.heard = time.monotonic()
        if batch is not None and (counts := batch.request_counts) is not None:
            logger.info("%s: %s, %d of %d", job.batch, batch.status, counts.completed, counts.total)
        return batch

    # -- on the way back --------------------------------------------------------------------

    async def _take(self, job: BatchJob, batch: Batch | None) -> None:
        """Report what an ended batch says of what is pending, and take it out of there."""
        results = await self._results(batch)
        lost = BatchResult("", reason=words(_unanswered(batch), self.remote.clean), transient=True)
        done = [
            key
            for key in job.keys
            if key in self.pending and self._settled(job, key, results.get(key, lost))
        ]
        self.journal.settle(job, done)

    async def _results(self, batch: Batch | None) -> dict[str, BatchResult]:
        results: dict[str, BatchResult] = {}
        for file in (batch.output_file_id, batch.error_file_id) if batch is not None else ():
            if file is not None:
                content = await self._retried(partial(_unless_gone, partial(self._content, file)))
                for result in read_results(content or b"", self.remote.clean):
                    results.setdefault(result.key, result)
        return results

    async def _content(self, file: str) -> bytes:
        content: bytes = (await self.client.files.content(file)).content
        return content

    def _settled(self, job: BatchJob, key: str, result: BatchResult) -> bool:
        """Take one result; whether nothing more is needed of ``job`` for it."""
        ask = self.pending[key]
        if result.body is None:
            failure = PermanentError(result.reason, result.status)
            if self.remote.accepted.learn(failure, self._body(ask)) is not None:
                return True  # stays pending: the next wave asks without what was refused
        del self.pending[key]
        completion = self._completion(ask, result)
        longer = self.remote.longer(ask.request)
        if completion.finish == "length" and ask.cut is None and longer is not None:
            # Not settled: until the second try has ended, a restart has to find this answer again.
            self._ask_longer(job, key, replace(ask, limit=longer, cut=completion))
            return False
        if not ask.request.accept_truncated:
            completion = marked_cut(completion, ask.limit)
        for index in ask.indices:
            self.on_answer(index, completion)
        if ask.origin is not None:
            origin, first = ask.origin
            self.journal.settle(origin, [first])
        return True

    def _ask_longer(self, job: BatchJob, key: str, ask: Ask) -> None:
        again = self._key(replace(ask.request, max_tokens=ask.limit))
        if again in self.pending:  # somebody asks with that limit anyway
            self.pending[again].indices.extend(ask.indices)
        else:
            self.pending[again] = replace(ask, origin=(job, key))

    def _completion(self, ask: Ask, result: BatchResult) -> Completion:
        completion = self._read(ask, result)
        self.remote.limiter.spent += completion.usage.money or 0.0
        if ask.cut is None:
            return completion
        if completion.finish == "failed":
            reason = f"cut, and with {ask.limit} tokens: {completion.failure}"
            completion = replace(completion, failure=reason)
        return replace(completion, usage=ask.cut.usage + completion.usage)

    def _read(self, ask: Ask, result: BatchResult) -> Completion:
        free = Usage(money=self.price(Usage()))
        if result.body is None:
            return failed(result.reason, free, transient=result.transient)
        enforced = "response_format" in self._body(ask)
        highest = self.remote.highest(ask.request, ask.limit)
        try:
            return self.reader.read(result.body, ask.request, enforced=enforced, highest=highest)
        except TransientError as error:
            return failed(str(error), free, transient=True)

    # -- the server's failures --------------------------------------------------------------

    async def _retried(self, call: Callable[[], Awaitable[T]]) -> T:
        """``call()`` with the connection's retries.

        Raises ConfigError where the server refuses, SourceError where it cannot be reached.
        """
        remote = self.remote
        try:
            return await remote.call(call)
        except PermanentError as error:
            if error.status != 404 and (stopped := remote.stop_error(error)) is not None:
                raise stopped from None
            raise ConfigError(
                f"{remote.name}: the server takes no batch: {error}",
                hint="without batch: true the same requests are asked one by one",
            ) from None
        except TransientError as error:
            raise SourceError(
                f"{remote.name}: {error}",
                hint="the same command resumes where this stopped; nothing is paid twice",
            ) from None


async def _unless_gone(call: Callable[[], Awaitable[T]]) -> T | None:
    """``call()``; None where the server does not know what it is about any more."""
    import openai

    try:
        return await call()
    except openai.NotFoundError:
        return None


def _unanswered(batch: Batch | None) -> str:
    """Why a request has no line in the files of ``batch``."""
    if batch is None:
        return "the server does not know the batch any more"
    errors = (batch.errors.data or []) if batch.errors is not None else []
    said = "; ".join(str(error.message or error.code) for error in errors)
    return f"{ENDED[batch.status]}{': ' if said else ''}{said}"
