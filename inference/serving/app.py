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
    BYTES_PER_TOKEN,
    STOPPED,
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
LARGE = 1 << 18  # bytes
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServeMetrics:
    """The metrics of a server. They contain neither texts nor ids of dialogues."""

    def __init__(self, waiting: Callable[[], float], spent: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        own: dict[str, Any] = {"namespace": "medal", "registry": self.registry}
        text = "Requests to /score by HTTP status (499: the client left)."
        self.requests = Counter("requests", text, ["status"], **own)
        text = "Seconds from request to answer."
        self.seconds = Histogram("request_seconds", text, buckets=_SECONDS, **own)
        text = "Requests that wait for an answer."
        self.under_way = Gauge("requests_under_way", text, **own)
        queue = Gauge("queue_dialogues", "Dialogues that wait to be scored.", **own)
        queue.set_function(waiting)
        text = "Dialogues that were scored together."
        self.windows = Histogram("window_dialogues", text, buckets=_ROWS, **own)
        text = "Judgements, with a score or not."
        self.judgements = Counter("judgements", text, ["scored"], **own)
        self.tokens = Counter("tokens", "Tokens that the judge read and wrote.", **own)
        money = Gauge("dollars_spent", "US dollars paid for answers of models.", **own)
        money.set_function(spent)

    def window(self, rows: int, judgements: Sequence[Judgement]) -> None:
        self.windows.observe(rows)
        for judgement in judgements:
            self.judgements.labels("yes" if judgement.scored else "no").inc()
            self.tokens.inc(judgement.usage.get("tokens", 0.0))


class ScoreService:
    """Connects HTTP requests with the queue and the judge of a server, and counts them."""

    def __init__(self, judge: Judge, options: ScoreOptions, limits: ServeLimits) -> None:
        self.judge, self.options, self.limits = judge, options, limits
        budget = options.token_budget or judge.token_budget
        self.queue = FairQueue(judge.window, budget)
        self.metrics = ServeMetrics(lambda: float(self.queue.load()[0]), self._spent)
        self.worker = JudgeWorker(judge, self.queue, limits.batch_wait, self.metrics.window)
        self.stopping = False
        self.arriving = 0  # bytes of bodies that are being read
        self.jobs: set[ScoreJob] = set()  # that somebody waits for

    def _spent(self) -> float:
        limiters = {id(m.limiter): m.limiter for m in self.judge.language_models()}
        return sum(each.spent for each in limiters.values() if each is not None)

    def give_up(self) -> None:
        """Answers all waiting requests with an error."""
        self.queue.close()
        for job in list(self.jobs):
            job.finished(STOPPED)

    async def _body(self, request: Request) -> bytes:
        """Returns the body. Raises RefusedError, also if its type is not JSON: web pages of other
        sites can send other types without asking the server first."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or "content-encoding" in request.headers:
            raise RefusedError(415, "expected Content-Type: application/json, not compressed")
        body, limits = bytearray(), self.limits
        large = RefusedError(413, f"the body is larger than {limits.body_bytes:,} bytes")
        length = request.headers.get("content-length", "")
        if length.isdecimal() and int(length[:20]) > limits.body_bytes:
            raise large

        async def read() -> None:
            async for chunk in request.stream():
                body.extend(chunk)
                self.arriving += len(chunk)
                if len(body) > limits.body_bytes:
                    raise large
                if self.arriving > limits.waiting_bytes:
                    raise RefusedError(429, "too many requests at once", retry_after=SOON)

        try:
            await asyncio.wait_for(read(), limits.body_seconds)
        except asyncio.TimeoutError:
            raise RefusedError(
                408, f"the body was not complete within {limits.body_seconds:g} s"
            ) from None
        finally:
            self.arriving -= len(body)
        return bytes(body)

    async def score(self, request: Request) -> Response:
        """Answers a request; drops its dialogues if the client disconnects. Raises RefusedError
        (503 or 429) if the queue is closed or full."""
        body = await self._body(request)
        folded: collections.Counter[str] = collections.Counter()
        given = (body, self.judge.dimensions, self.options, self.limits, folded)
        # A large body is parsed beside the loop, which answers others meanwhile.
        beside = len(body) > LARGE
        dialogues, options = (
            await asyncio.to_thread(parse_body, *given) if beside else parse_body(*given)
        )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str | None] = loop.create_future()

        def settle(reason: str | None) -> None:
            if not done.done():
                done.set_result(reason)

        def finished(reason: str | None) -> None:
            loop.call_soon_threadsafe(settle, reason)

        job = ScoreJob(dialogues, options, finished)
        rows, tokens = self.queue.load()
        full = rows + len(dialogues) > self.limits.max_waiting
        large = (tokens + sum(job.sizes)) * BYTES_PER_TOKEN > self.limits.waiting_bytes
        if rows and (full or large):
            wait = min(LONGEST_WAIT, max(1, math.ceil(rows * self.worker.pace)))
            raise RefusedError(429, f"{rows} dialogues are waiting already", retry_after=wait)
        if self.stopping or not self.worker.alive or not self.queue.put(job):
            raise RefusedError(503, "the server is stopping", retry_after=SOON)

        async def client_leaves() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        left: asyncio.Future[None] = asyncio.ensure_future(client_leaves())
        self.jobs.add(job)
        try:
            await asyncio.wait(
                (done, left), timeout=self.limits.timeout, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            left.cancel()
            self.jobs.discard(job)
            if not done.done():
                self.queue.cancel(job)
        if not done.done():
            if left.done() and not left.cancelled():
                raise ClientDisconnect
            message = f"no answer within {self.limits.timeout:g} s"
            raise RefusedError(503, message, retry_after=LONGEST_WAIT)
        if (reason := done.result()) is not None:
            raise RefusedError(503, reason, retry_after=SOON)
        judgements = list(to_records(chain.from_iterable(job.judgements)))
        answer = {"judge": self.worker.signature, "judgements": judgements}
        return JSONResponse(answer | ({"folded": folded} if folded else {}))


def make_app(service: ScoreService, token: str | None, loopback: bool) -> FastAPI:
    """Returns the application. It starts and stops the thread that runs the judge."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.worker.thread.start()
        yield

    app = FastAPI(
        title="medal_judges", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.add_middleware(Guard, token=token, loopback=loopback)

    async def score(request: Request) -> Response:
        start = time.perf_counter()
        with service.metrics.under_way.track_inprogress():
            try:
                response = await service.score(request)
            except RefusedError as error:
                wait = error.retry_after
                headers = {} if wait is None else {"Retry-After": str(wait)}
                response = JSONResponse(error.to_record(), error.status, headers)
            except ClientDisconnect:
                response = Response(status_code=GONE)
            except Exception as error:  # its words may contain those of a dialogue: not in the log
                logger.error("a request failed: %s", type(error).__name__)
                logger.debug("while answering", exc_info=error)
                response = JSONResponse({"error": "the server failed on this request"}, 500)
        service.metrics.seconds.observe(time.perf_counter() - start)
        service.metrics.requests.labels(str(response.status_code)).inc()
        return response

    # A plain route: FastAPI's own would look for parameters and dependencies each time.
    app.router.add_route("/score", score, methods=["POST"])

    @app.get("/health")
    async def health() -> Response:
        up = service.worker.alive and not service.stopping
        return JSONResponse({"status": "ok" if up else "stopping"}, 200 if up else 503)

    @app.get("/judge")
    async def judge() -> Response:
        languages = service.judge.languages  # null: any, or not known
        record = {
            "signature": service.worker.signature,
            "family": service.judge.family,
            "dimensions": [dimension.to_record() for dimension in service.judge.dimensions],
            "languages": None if languages is None else list(languages),
        }
        return JSONResponse(record)

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(generate_latest(service.metrics.registry), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    return app
