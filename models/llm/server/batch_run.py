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
from typing import Any, TypeVar

from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.llm.cache import OnAnswer
from medal_judges.models.llm.protocol import ChatRequest, Completion, Usage
from medal_judges.models.llm.request_key import chat_key, model_key
from medal_judges.models.llm.server.batch_file import (
    ENDPOINT,
    Result,
    read_results,
    request_line,
    split,
)
from medal_judges.models.llm.server.batch_journal import Job, Journal
from medal_judges.models.llm.server.model import RemoteModel, _added, _cut
from medal_judges.models.llm.server.retrying import PermanentError, TransientError, with_retries
from medal_judges.models.llm.server.secrecy import words
from medal_judges.models.llm.server.wire import Accepted
from medal_judges.models.llm.server.wire_answer import AnswerReader

T = TypeVar("T")
logger = logging.getLogger(__name__)

TAG = "medal_judges"  # the metadata by which a batch is found again
DAY = 86400.0
PATIENCE = 3600.0  # seconds that polling goes on while the server cannot be reached
# The states in which a batch stays, and what they mean for a request that it did not answer.
ENDED = {
    "completed": "the batch ended without an answer to this request",
    "failed": "the batch was refused",
    "expired": "the batch expired before this request was answered",
    "cancelled": "the batch was cancelled before this request was answered",
}


@dataclass(frozen=True, slots=True)
class Limits:
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
    origin: tuple[Job, str] | None = None


class BatchRun:
    """What is pending in one call, and how it is worked off."""

    def __init__(
        self, remote: RemoteModel, journal: Journal, limits: Limits, on_answer: OnAnswer
    ) -> None:
        self.remote, self.journal, self.limits = remote, journal, limits
        self.on_answer = on_answer
        self.model_key = model_key(remote)
        self.pending: dict[str, Ask] = {}
        self.accepted = Accepted()  # what this wave's requests were built by
        self.reader = AnswerReader(remote.clean, self._price)
        self.client: Any = None
        self.heard = time.monotonic()

    async def all(self, requests: Sequence[ChatRequest]) -> None:
        """Report an answer for each of ``requests``."""
        for index, request in enumerate(requests):
            new = Ask(request, [], self.remote.limit(request))
            self.pending.setdefault(self._key(request), new).indices.append(index)
        count = len(self.pending)
        async with self.remote._client() as self.client:
            while self.pending:
                self.accepted = self.remote.accepted.copy()
                jobs = await self._submit()
                if not jobs:
                    raise self.remote.limiter.error(count - len(self.pending), count)
                await self._until_ended(jobs)

    def _key(self, request: ChatRequest) -> str:
        return chat_key(self.model_key, request)

    # -- on the way out ---------------------------------------------------------------------

    async def _submit(self) -> list[Job]:
        """The jobs of this wave."""
        with self.journal.locked():
            known = await self._known()
            jobs = [job for job in known if not self.pending.keys().isdisjoint(job.keys)]
            under_way = {key for job in jobs for key in job.keys}
            lines = ((key, self._line(key)) for key in self._affordable(under_way))
            limits = self.limits
            for keys, content in split(
                lines, max_requests=limits.max_requests, max_bytes=limits.max_bytes
            ):
                jobs.append(Job(keys))
                await self._start(jobs[-1], content)
        return jobs

    async def _known(self) -> list[Job]:
        """Jobs of earlier starts; one that never became a batch is forgotten."""
        jobs = self.journal.jobs()
        for job in jobs:
            if job.batch is None:
                job.batch = await self._by_tag(job) if job.tried else None
                self.journal.settle(job, job.keys if job.batch is None else [])
        return [job for job in jobs if job.batch is not None]

    async def _by_tag(self, job: Job) -> str | None:
        """The id of the batch that carries the job's tag, if there is one."""

        async def look() -> str | None:
            async for batch in self.client.batches.list(limit=100):  # newest first
                if (batch.metadata or {}).get(TAG) == job.tag:
                    return str(batch.id)
                if batch.created_at < job.created - DAY:  # clocks differ, but not by a day
                    return None
            return None

        found: str | None = await self._retried(look)
        return found

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
        return self._price(self._highest_usage(ask)) or 0.0

    def _highest_usage(self, ask: Ask) -> Usage:
        return replace(self.remote.highest_usage(ask.request), output=ask.limit)

    def _price(self, usage: Usage) -> float | None:
        money = self.remote.cost(usage)
        return None if money is None else money * (1 - self.remote.batch_discount)

    def _line(self, key: str) -> bytes:
        return request_line(key, self._body(self.pending[key]))

    def _body(self, ask: Ask) -> dict[str, Any]:
        return self.remote.body(ask.request, ask.limit, self.accepted)

    async def _start(self, job: Job, content: bytes) -> None:
        async def upload() -> str:
            named = (f"{job.tag}.jsonl", content)
            return str((await self.client.files.create(file=named, purpose="batch")).id)

        job.file = await self._retried(upload)
        job.batch = await self._retried(lambda: self._make(job))
        self.journal.save(job)
        logger.info(
            "batch %s of %d requests is under way; stopped and started again, we go on with it",
            job.batch,
            len(job.keys),
        )

    async def _make(self, job: Job) -> str:
        # An earlier try may have been heard although its answer was lost.
        found = await self._by_tag(job) if job.tried else None
        if found is not None:
            return found
        job.tried = True
        self.journal.save(job)
        batch = await self.client.batches.create(
            input_file_id=job.file,
            endpoint=ENDPOINT,
            completion_window="24h",
            metadata={TAG: job.tag},
        )
        return str(batch.id)

    # -- under way --------------------------------------------------------------------------

    async def _until_ended(self, jobs: Sequence[Job]) -> None:
        left = list(jobs)
        while left:
            for job in list(left):
                batch = await self._look(job)
                if batch is None or batch.status in ENDED:
                    left.remove(job)
                    await self._take(job, batch)
            if left:
                await asyncio.sleep(self.limits.poll)

    async def _look(self, job: Job) -> Any:
        """The batch as it stands, None when the server does not know it any more."""
        while True:
            try:
                batch = await self._retried(
                    lambda: self.client.batches.retrieve(job.batch), missing_ok=True
                )
                break
            except SourceError:
                if time.monotonic() - self.heard > PATIENCE:
                    raise
                logger.warning("%s cannot be reached; polling goes on", self.remote.name)
                await asyncio.sleep(self.limits.poll)
        self.heard = time.monotonic()
        counts = batch.request_counts if batch is not None else None
        if counts is not None:
            logger.info("%s: %s, %d of %d", job.batch, batch.status, counts.completed, counts.total)
        return batch

    # -- on the way back --------------------------------------------------------------------

    async def _take(self, job: Job, batch: Any) -> None:
        """Report what an ended batch says of what is pending, and take it out of there."""
        results = await self._results(batch)
        lost = Result("", reason=words(_unanswered(batch), self.remote.clean), transient=True)
        done = [
            key
            for key in job.keys
            if key in self.pending and self._settled(job, key, results.get(key, lost))
        ]
        self.journal.settle(job, done)

    async def _results(self, batch: Any) -> dict[str, Result]:
        found: dict[str, Result] = {}
        for file in (batch.output_file_id, batch.error_file_id) if batch is not None else ():
            if file is not None:
                content = await self._retried(partial(self._content, file), missing_ok=True)
                for result in read_results(content or b"", self.remote.clean):
                    found.setdefault(result.key, result)
        return found

    async def _content(self, file: str) -> bytes:
        content: bytes = (await self.client.files.content(file)).content
        return content

    def _settled(self, job: Job, key: str, result: Result) -> bool:
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
            completion = _cut(completion, ask.limit)
        for index in ask.indices:
            self.on_answer(index, completion)
        if ask.origin is not None:
            origin, first = ask.origin
            self.journal.settle(origin, [first])
        return True

    def _ask_longer(self, job: Job, key: str, ask: Ask) -> None:
        again = self._key(replace(ask.request, max_tokens=ask.limit))
        if again in self.pending:  # somebody asks with that much room anyway
            self.pending[again].indices.extend(ask.indices)
        else:
            self.pending[again] = replace(ask, origin=(job, key))

    def _completion(self, ask: Ask, result: Result) -> Completion:
        completion = self._read(ask, result)
        self.remote.limiter.spent += completion.usage.money or 0.0
        if ask.cut is None:
            return completion
        if completion.finish == "failed":
            reason = f"cut, and with {ask.limit} tokens: {completion.failure}"
            completion = replace(completion, failure=reason)
        return replace(completion, usage=_added(ask.cut.usage, completion.usage))

    def _read(self, ask: Ask, result: Result) -> Completion:
        from openai.types.chat import ChatCompletion

        free = Usage(money=self._price(Usage()))
        if result.body is None:
            return Completion("", "failed", result.reason, usage=free, transient=result.transient)
        enforced = "response_format" in self._body(ask)
        highest = self._highest_usage(ask)
        try:
            # construct: what a server leaves out or adds is no reason to lose a paid answer.
            answer = ChatCompletion.construct(**result.body)
            return self.reader.read(answer, ask.request, enforced=enforced, highest=highest)
        except TransientError as error:
            return Completion("", "failed", str(error), usage=free, transient=True)

    # -- the server's failures --------------------------------------------------------------

    async def _retried(self, call: Callable[[], Awaitable[T]], *, missing_ok: bool = False) -> Any:
        """``call()`` with the remote model's retries; None for a 404 where that is ``missing_ok``.

        Raises ConfigError where the server refuses, SourceError where it cannot be reached.
        """

        async def once() -> T:
            try:
                return await call()
            except Exception as error:
                raise self.remote.mapped(error) from None

        remote = self.remote
        try:
            return await with_retries(
                once, remote._gate, attempts=remote.attempts, longest_wait=remote.longest_wait
            )
        except PermanentError as error:
            if missing_ok and error.status == 404:
                return None
            if error.status != 404 and (stopped := remote.stop_error(error)) is not None:
                raise stopped from None
            raise ConfigError(
                f"{remote.name}: the server takes no batch: {error}",
                hint="without batch: true the same requests are asked one by one",
            ) from None
        except TransientError as error:
            raise SourceError(
                f"{remote.name}: {error}",
                hint="the same command goes on where this stopped; nothing is paid twice",
            ) from None


def _unanswered(batch: Any) -> str:
    """Why a request has no line in the files of ``batch``."""
    if batch is None:
        return "the server does not know the batch any more"
    errors = (batch.errors.data or []) if batch.errors is not None else []
    said = "; ".join(str(error.message or error.code) for error in errors)
    return f"{ENDED[batch.status]}{': ' if said else ''}{said}"
