"""The pages of a server: POST /score, and /health, /judge, /metrics."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from medal_judges.inference.scoring import ScoreOptions
from medal_judges.inference.serving.body import parse_body
from medal_judges.inference.serving.guard import Guard
from medal_judges.inference.serving.limits import RefusedError, ServeLimits
from medal_judges.inference.serving.metrics import ServeMetrics
from medal_judges.inference.serving.queue import BYTES_PER_TOKEN, FairQueue, ScoreJob
from medal_judges.inference.serving.worker import STOPPED, JudgeWorker
from medal_judges.models.base.judge import Judge

logger = logging.getLogger(__name__)

GONE = 499  # of the metrics alone: the client left, and nobody reads the answer
SOON = 1  # seconds until a restarted server may answer
LONGEST_WAIT = 60
LARGE = 1 << 18  # bytes


class ScoreService:
    """The judge, its queue and its figures: what the pages stand on."""

    def __init__(self, judge: Judge, options: ScoreOptions, limits: ServeLimits) -> None:
        self.judge, self.options, self.limits = judge, options, limits
        budget = options.token_budget or judge.token_budget
        self.queue = FairQueue(judge.window, budget)
        self.metrics = ServeMetrics(lambda: float(self.queue.load()[0]), self.spent)
        self.worker = JudgeWorker(judge, self.queue, limits.batch_wait, self.metrics.window)
        self.stopping = False
        self.arriving = 0  # bytes of bodies that are being read
        self.jobs: set[ScoreJob] = set()  # that somebody waits for

    def require_room(self, job: ScoreJob) -> None:
        """Raise RefusedError (503, 429) where ``job`` is not taken on now."""
        if self.stopping or not self.worker.alive:
            raise RefusedError(503, "the server is stopping", retry_after=SOON)
        rows, tokens = self.queue.load()
        full = rows + len(job.dialogues) > self.limits.waiting
        large = (tokens + sum(job.sizes)) * BYTES_PER_TOKEN > self.limits.waiting_bytes
        if rows and (full or large):
            wait = min(LONGEST_WAIT, max(1, math.ceil(rows * self.worker.pace)))
            said = f"{rows} dialogues are waiting already"
            raise RefusedError(429, said, retry_after=wait)

    def spent(self) -> float:
        """US dollars until now, also for answers whose window was broken off afterwards."""
        limiters = {id(m.limiter): m.limiter for m in self.judge.language_models()}
        return sum(each.spent for each in limiters.values() if each is not None)

    def give_up(self) -> None:
        """Tell every request that still waits that there will be no answer."""
        self.queue.close()
        for job in list(self.jobs):
            job.finished(STOPPED)

    async def body(self, request: Request) -> bytes:
        """The body, read as it comes. Raises RefusedError: 413 as soon as it is too large, whether
        its length was told or not; 408 where it takes too long; 429 while too much is being read;
        415 for another type than JSON, which also keeps the pages of other sites out: a browser
        asks before it sends that."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "application/json" or "content-encoding" in request.headers:
            raise RefusedError(415, "expected Content-Type: application/json, not compressed")
        body, limits = bytearray(), self.limits
        large = RefusedError(413, f"the body is larger than {limits.body_bytes:,} bytes")
        told = request.headers.get("content-length", "")
        if told.isdecimal() and int(told[:20]) > limits.body_bytes:
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
            raise RefusedError(408, f"no whole body within {limits.body_seconds:g} s") from None
        finally:
            self.arriving -= len(body)
        return bytes(body)

    async def score(self, request: Request) -> Response:
        """The judgements of one request; drops it when its client leaves."""
        body = await self.body(request)
        ask = (body, self.judge.dimensions, self.options, self.limits)
        # What takes long to parse does so beside the loop, which answers others meanwhile.
        large = len(body) > LARGE
        dialogues, options = (
            await asyncio.to_thread(parse_body, *ask) if large else parse_body(*ask)
        )
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str | None] = loop.create_future()

        def settle(reason: str | None) -> None:
            if not done.done():
                done.set_result(reason)

        def finished(reason: str | None) -> None:
            loop.call_soon_threadsafe(settle, reason)

        job = ScoreJob(dialogues, options, finished)
        self.require_room(job)
        if not self.queue.put(job):
            raise RefusedError(503, "the server is stopping", retry_after=SOON)
        left: asyncio.Future[None] = asyncio.ensure_future(client_left(request))
        self.jobs.add(job)
        try:
            await asyncio.wait(
                (done, left), timeout=self.limits.seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            left.cancel()
            self.jobs.discard(job)
            if not done.done():
                self.queue.cancel(job)
        if not done.done():
            if left.done() and not left.cancelled():
                raise ClientDisconnect
            said = f"no answer within {self.limits.seconds:g} s"
            raise RefusedError(503, said, retry_after=LONGEST_WAIT)
        if (reason := done.result()) is not None:
            raise RefusedError(503, reason, retry_after=SOON)
        judgements = [one.to_record() for group in job.judgements for one in group]
        return JSONResponse({"judge": self.worker.signature, "judgements": judgements})


async def client_left(request: Request) -> None:
    """Return when the client has closed its connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def make_app(service: ScoreService, token: str | None, loopback: bool) -> FastAPI:
    """The application; its worker runs from start to stop."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service.worker.start()
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
                response = refusal(error)
            except ClientDisconnect:
                response = Response(status_code=GONE)
            except Exception as error:  # its words may hold those of a dialogue: not in the log
                logger.error("a request failed: %s", type(error).__name__)
                logger.debug("while answering", exc_info=error)
                response = JSONResponse({"error": "the server failed on this request"}, 500)
        service.metrics.request(response.status_code, time.perf_counter() - start)
        return response

    # A plain route: FastAPI's own would look for parameters and dependencies each time.
    app.router.add_route("/score", score, methods=["POST"])

    @app.get("/health")
    async def health() -> Response:
        up = service.worker.alive and not service.stopping
        return JSONResponse({"status": "ok" if up else "stopping"}, 200 if up else 503)

    @app.get("/judge")
    async def judge() -> Response:
        return JSONResponse(judge_record(service.judge, service.worker.signature))

    @app.get("/metrics")
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type=CONTENT_TYPE_LATEST)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> Response:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    return app


def refusal(error: RefusedError) -> Response:
    """The answer to a request that is not taken on."""
    headers = {} if error.retry_after is None else {"Retry-After": str(error.retry_after)}
    return JSONResponse(error.to_record(), error.status, headers)


def judge_record(judge: Judge, signature: str) -> dict[str, object]:
    """What /judge says: signature, family, dimensions with their scales, languages (null: any, or
    not known)."""
    return {
        "signature": signature,
        "family": judge.family,
        "dimensions": [dimension.to_record() for dimension in judge.dimensions],
        "languages": None if judge.languages is None else list(judge.languages),
    }
