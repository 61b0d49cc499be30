"""The pages of a server: POST /score, and /health, /judge, and /metrics for Prometheus."""

from __future__ import annotations

import asyncio
import collections
import logging
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import chain
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from medal_judges.inference.scoring import ScoreOptions
from medal_judges.inference.serving.body import parse_body
from medal_judges.inference.serving.guard import Guard
from medal_judges.inference.serving.limits import RefusedError, ServeLimits
from medal_judges.inference.serving.worker import (
    FairQueue,
    JudgeWorker,
    ScoreJob,
)
from medal_judges.models.base.judge import Judge
from medal_judges.records.judgement import Judgement, to_records

logger = logging.getLogger(__name__)

GONE = 499  # in the metrics only: the client left, and nobody reads the answer
SOON = 1  # seconds until a restarted server may answer
LONGEST_WAIT = 60
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServeMetrics:
    """The metrics of a server. They contain neither texts nor ids of dialogues."""

    def __init__(
        self, waiting: Callable[[], float], spent: Callable[[], float]
    ) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        shared: dict[str, Any] = {"namespace": "medal", "registry": self.registry}
        text = "Requests to /score by HTTP status (499: the client left)."
        self.requests = Counter("requests", text, ["status"], **shared)
        text = "Seconds from request to answer."
        self.seconds = Histogram("request_seconds", text, buckets=_SECONDS, **shared)
        text = "Requests that wait for an answer."
        self.under_way = Gauge("requests_under_way", text, **shared)
        queue = Gauge("queue_dialogues", "Dialogues that wait to be scored.", **shared)
        queue.set_function(waiting)
        text = "Dialogues that were scored together."
        self.windows = Histogram("window_dialogues", text, buckets=_ROWS, **shared)
        text = "Judgements, with a score or not."
        self.judgements = Counter("judgements", text, ["scored"], **shared)
        self.tokens = Counter(
            "tokens", "Tokens that the judge read and wrote.", **shared
        )
        money = Gauge(
            "dollars_spent", "US dollars paid for answers of models.", **shared
        )
        money.set_function(spent)

    def window(self, rows: int, judgements: Sequence[Judgement]) -> None:
        """Counts a scored window."""
        self.windows.observe(rows)
        for judgement in judgements:
            self.judgements.labels("yes" if judgement.scored else "no").inc()
            self.tokens.inc(judgement.usage.get("tokens", 0.0))


class ScoreService:
    """Connects HTTP requests with the queue and the judge of a server, and counts them."""

    def __init__(
        self, judge: Judge, options: ScoreOptions, limits: ServeLimits
    ) -> None:
        self.judge, self.options, self.limits = judge, options, limits
        budget = options.token_budget or judge.token_budget
        self.queue = FairQueue(judge.window, budget)
        self.metrics = ServeMetrics(
            lambda: float(self.queue.waiting()), self.dollars_spent
        )
        self.worker = JudgeWorker(
            judge, self.queue, limits.batch_wait, self.metrics.window
        )
        self.held_bytes = 0  # of bodies that arrive or wait for an answer

    def dollars_spent(self) -> float:
        """Returns the US dollars paid for answers, over all models of the judge."""
        limiters = {
            id(model.limiter): model.limiter for model in self.judge.language_models()
        }
        return sum(
            limiter.spent for limiter in limiters.values() if limiter is not None
        )

    async def score(self, request: Request) -> Response:
        """Answers a request; drops its dialogues if the client disconnects. Raises RefusedError."""
        body = bytearray()
        try:
            await self._read(request, body)
            return await self._answer(request, bytes(body))
        finally:
            self.held_bytes -= len(body)

    async def _answer(self, request: Request, body: bytes) -> Response:
        folded: collections.Counter[str] = collections.Counter()
        # Beside the loop, which answers others while a large body is parsed.
        dialogues, options = await asyncio.to_thread(
            parse_body, body, self.judge.dimensions, self.options, self.limits, folded
        )
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[str | None] = loop.create_future()

        def settle(reason: str | None) -> None:
            if not outcome.done():
                outcome.set_result(reason)

        def finished(reason: str | None) -> None:
            loop.call_soon_threadsafe(settle, reason)

        job = ScoreJob(dialogues, options, finished)
        self._enqueue(job)
        try:
            await self._wait(request, outcome)
        finally:
            if not outcome.done():
                self.queue.cancel(job)
        reason = outcome.result()
        if reason is not None:
            raise RefusedError(503, reason, retry_after=SOON)
        judgements = list(to_records(chain.from_iterable(job.judgements)))
        answer: dict[str, Any] = {
            "judge": self.worker.signature,
            "judgements": judgements,
        }
        if folded:
            answer["folded"] = folded
        return JSONResponse(answer)

    async def _read(self, request: Request, body: bytearray) -> None:
        """Reads ``body`` and counts its bytes as held. Raises RefusedError, also if its type is not
        JSON: web pages of other sites can send other types without asking the server first."""
        limits = self.limits
        media_type = (
            request.headers.get("content-type", "").partition(";")[0].strip().lower()
        )
        if media_type != "application/json" or "content-encoding" in request.headers:
            raise RefusedError(
                415, "expected Content-Type: application/json, not compressed"
            )
        too_large = RefusedError(
            413, f"the body is larger than {limits.body_bytes:,} bytes"
        )
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > limits.body_bytes:
            raise too_large

        async def read() -> None:
            async for chunk in request.stream():
                body.extend(chunk)
                self.held_bytes += len(chunk)
                if len(body) > limits.body_bytes:
                    raise too_large
                if self.held_bytes > limits.held_bytes:
                    # Makes room at once: a chunk of another body may come before this error ends.
                    self.held_bytes -= len(body)
                    body.clear()
                    raise RefusedError(
                        429, "too many requests at once", retry_after=SOON
                    )

        try:
            await asyncio.wait_for(read(), limits.body_seconds)
        except asyncio.TimeoutError:
            message = f"the body was not complete within {limits.body_seconds:g} s"
            raise RefusedError(408, message) from None

    def _enqueue(self, job: ScoreJob) -> None:
        """Raises RefusedError (503 or 429) if the queue is closed or full. An empty queue has room
        for any request."""
        waiting = self.queue.waiting()
        if waiting and waiting + len(job.dialogues) > self.limits.max_waiting:
            seconds = math.ceil(waiting * self.worker.pace)
            seconds = min(LONGEST_WAIT, max(1, seconds))
            raise RefusedError(
                429, f"{waiting} dialogues are waiting already", retry_after=seconds
            )
        if not self.worker.alive or not self.queue.put(job):
            raise RefusedError(503, "the server is stopping", retry_after=SOON)

    async def _wait(
        self, request: Request, outcome: asyncio.Future[str | None]
    ) -> None:
        """Waits for the outcome. Raises ClientDisconnect if the client leaves, and RefusedError
        (503) if there is no outcome in time."""

        async def client_leaves() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        departure = asyncio.ensure_future(client_leaves())
        await asyncio.wait(
            (outcome, departure),
            timeout=self.limits.timeout,
            return_when=asyncio.FIRST_COMPLETED,
        )
        has_left = departure.done()
        departure.cancel()
        if outcome.done():
            return
        if has_left:
            raise ClientDisconnect
        message = f"no answer within {self.limits.timeout:g} s"
        raise RefusedError(503, message, retry_after=LONGEST_WAIT)


def make_app(service: ScoreService, token: str | None, loopback: bool) -> FastAPI:
    """Returns the application. It starts and stops the thread that runs the judge."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.worker.thread.start()
        yield

    app = FastAPI(
        title="medal_judges",
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
    )
    app.add_middleware(Guard, token=token, loopback=loopback)

    async def score(request: Request) -> Response:
        start = time.perf_counter()
        with service.metrics.under_way.track_inprogress():
            try:
                response = await service.score(request)
            except RefusedError as error:
                headers = {}
                if error.retry_after is not None:
                    headers["Retry-After"] = str(error.retry_after)
                response = JSONResponse(error.to_record(), error.status, headers)
            except ClientDisconnect:
                response = Response(status_code=GONE)
            except Exception as error:
                # its words may contain those of a dialogue: not in the log
                logger.error("a request failed: %s", type(error).__name__)
                logger.debug("while answering", exc_info=error)
                response = JSONResponse(
                    {"error": "the server failed on this request"}, 500
                )
        service.metrics.seconds.observe(time.perf_counter() - start)
        service.metrics.requests.labels(str(response.status_code)).inc()
        return response

    # A plain route: FastAPI's own would look for parameters and dependencies each time.
    app.router.add_route("/score", score, methods=["POST"])

    @app.get("/health")
    async def health() -> Response:
        if not service.worker.alive:
            return JSONResponse({"status": "stopping"}, 503)
        return JSONResponse({"status": "ok"})

    @app.get("/judge")
    async def judge() -> Response:
        record = {
            "signature": service.worker.signature,
            "family": service.judge.family,
            "dimensions": [
                dimension.to_record() for dimension in service.judge.dimensions
            ],
            "languages": service.judge.languages,  # null: any, or not known
        }
        return JSONResponse(record)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(
            generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST
        )

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    return app
