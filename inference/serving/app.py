"""The application of a server: POST /score, and the pages /health, /judge and, for Prometheus,
/metrics."""

from __future__ import annotations

import asyncio
import hmac
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from typing import Any

from fastapi import Depends, FastAPI, HTTPException, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from fastapi.security import HTTPBearer
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from prometheus_client import Counter as CounterMetric
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from starlette.middleware.trustedhost import TrustedHostMiddleware

from medal_judges.config import Config, option
from medal_judges.errors import ConfigError, RecordError
from medal_judges.inference.serving.worker import JudgeWorker, QueuedDialogue
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.reading.dialogues import parse_dialogue
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, to_records

_BODY_SECONDS = 30
_LISTED = 20  # malformed rows in an answer


class ServeLimits(Config):
    """Limits of a server.

    Attributes:
        max_body: The maximum size of a request, in MB (1,048,576 bytes).
        max_turns: The maximum number of turns in a request.
        max_waiting: The maximum number of dialogues in the queue.
        timeout: The maximum time from request to answer, in seconds.
    """

    max_body: int = option(4, ge=1, help="Most MB of a request. Larger ones get 413.")
    max_turns: int = option(2000, ge=1, help="Most turns of a request. More get 413.")
    max_waiting: int = option(
        2048, ge=1, help="Most waiting dialogues. Requests beyond that get 429."
    )
    timeout: float = option(
        300.0, ge=0.1, help="Most seconds for a request. Longer ones get 503."
    )


class RequestOptions(BaseModel):
    """How the dialogues of a request are scored.

    Attributes:
        level: What gets a score: ``dialogue``, ``turn`` (each assistant turn) or ``last`` (the last
            assistant turn).
        dimensions: The names of the dimensions to score. None means all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)
    level: ScoreLevel = "dialogue"
    dimensions: tuple[str, ...] | None = Field(None, min_length=1)


class ScoreBody(RequestOptions):
    """The JSON object of a request.

    Attributes:
        dialogues: The dialogues to score, as JSON objects. None if the request has the fields of a
            single dialogue instead.
    """

    model_config = ConfigDict(extra="allow")
    dialogues: list[dict[str, Any]] | None = Field(None, min_length=1)

    def rows(self) -> list[dict[str, Any]]:
        """Returns the dialogues of the request as JSON objects. Raises HTTPException (422) if the
        request has both ``dialogues`` and the fields of a dialogue."""
        row: dict[str, Any] = self.model_extra or {}
        if self.dialogues is None:
            return [row]
        if row:
            raise _malformed_error(
                {min(row): "expected dialogues or one row, not both"}
            )
        return self.dialogues


def _malformed_error(problems: Mapping[str, str]) -> HTTPException:
    """Returns an error with status 422, which lists the first 20 problems.

    Args:
        problems: Field -> what is wrong with it.
    """
    details = [{"loc": [field], "msg": text} for field, text in problems.items()]
    return HTTPException(422, details[:_LISTED])


async def read_body(request: Request, limit: int) -> bytes:
    """Returns the body of ``request``, which must be JSON.

    Args:
        limit: The maximum size in bytes.

    Raises:
        HTTPException: The content type is not JSON (415), the body is larger than ``limit`` (413),
            or it is not complete within 30 seconds (408).
    """
    media_type = request.headers.get("content-type", "").partition(";")[0].strip()
    # A browser lets a page of another site send other types without asking this server.
    if media_type.lower() != "application/json":
        raise HTTPException(415, "expected Content-Type: application/json")
    body = bytearray()

    async def read() -> None:
        async for chunk in request.stream():
            body.extend(chunk)
            if len(body) > limit:
                raise HTTPException(413, f"the body is larger than {limit:,} bytes")

    try:
        await asyncio.wait_for(read(), _BODY_SECONDS)
    except asyncio.TimeoutError:
        message = f"the body was not complete within {_BODY_SECONDS} s"
        raise HTTPException(408, message) from None
    return bytes(body)


def parse_rows(
    rows: list[dict[str, Any]], limit: int, changes: Counter[str]
) -> list[Dialogue]:
    """Returns the dialogues in the JSON objects of a request.

    Args:
        rows: The JSON objects, each with the fields of one dialogue.
        limit: The maximum number of turns of all dialogues together.
        changes: A counter of the content that was left out because judges read only text, such as
            ``{"tool calls": 2}``. The function adds to it.

    Raises:
        HTTPException: There are too many turns (413), or an object is not a valid dialogue (422).
    """
    _require_few_turns(chain.from_iterable(row.values() for row in rows), limit)
    dialogues = []
    problems = {}
    for number, row in enumerate(rows):
        try:
            dialogues.append(parse_dialogue(row, changes=changes))
        except RecordError as error:
            problems[f"dialogues[{number}].{error.field}"] = error.message
    if problems:
        raise _malformed_error(problems)
    # Messages may come as JSON in a string.
    _require_few_turns((dialogue.turns for dialogue in dialogues), limit)
    return dialogues


def _require_few_turns(values: Iterable[object], limit: int) -> None:
    """Raises HTTPException with status 413 if the lists and tuples in ``values`` have more than
    ``limit`` entries in total."""
    turns = sum(len(value) for value in values if isinstance(value, list | tuple))
    if turns > limit:
        raise HTTPException(413, f"{turns} turns in one request. Send at most {limit}")


class ServeMetrics:
    """The Prometheus metrics of a server. They hold no text and no id of a dialogue.

    Args:
        worker: The thread that scores. Its queue and spending are metrics too.

    Attributes:
        registry: All metrics of the server.
        requests: Counter of requests for each HTTP status.
        seconds: Histogram of the seconds from request to answer.
    """

    def __init__(self, worker: JudgeWorker) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        shared: dict[str, Any] = {"namespace": "medal", "registry": self.registry}
        text = "Requests by HTTP status."
        self.requests = CounterMetric("requests", text, ["status"], **shared)
        text = "Seconds from request to answer."
        self.seconds = Histogram("request_seconds", text, **shared)
        gauges: dict[str, tuple[str, Callable[[], float]]] = {
            "queue_dialogues": (
                "Dialogues that wait to be scored.",
                worker.queue.qsize,
            ),
            "dialogues_scored": ("Dialogues that were judged.", lambda: worker.judged),
            "dollars_spent": ("US dollars paid for answers.", worker.dollars_spent),
        }
        for name, (text, value) in gauges.items():
            Gauge(name, text, **shared).set_function(value)


class ScoreService:
    """The service that answers requests to /score.

    Args:
        judge: The judge that scores.
        limits: The limits of a request and of the queue.

    Attributes:
        worker: The queue of dialogues, and the thread that scores them.
    """

    def __init__(self, judge: Judge, limits: ServeLimits) -> None:
        self.judge, self.limits = judge, limits
        self.worker = JudgeWorker(judge)

    async def score(self, request: Request) -> dict[str, Any]:
        """Returns the answer to ``request`` as a JSON object.

        Its keys are ``judge`` (a string that identifies the judge), ``judgements`` (one JSON object
        each) and ``changes`` (what the judge could not read -> how often, such as ``{"tool calls":
        2}``).

        If the client disconnects or time is up, its dialogues in the queue are not scored.

        Raises:
            HTTPException: The content type is not JSON (415), the body is too large (413) or not
                complete within 30 seconds (408), a dimension is unknown or a dialogue is not valid
                (422), too many dialogues are waiting (429), or there is no answer in time (503).
            RequestValidationError: The body is not valid JSON, or ``level``, ``dimensions`` or
                ``dialogues`` has a wrong type.
        """
        content = await read_body(request, self.limits.max_body << 20)

        async def wait_for_departure() -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass

        answer = asyncio.ensure_future(self._answer(content))
        departure = asyncio.ensure_future(wait_for_departure())
        await asyncio.wait(
            (answer, departure),
            timeout=self.limits.timeout,
            return_when=asyncio.FIRST_COMPLETED,
        )
        departure.cancel()
        if not answer.done():
            answer.cancel()
            message = f"no answer within {self.limits.timeout:g} s"
            raise HTTPException(503, message, {"Retry-After": "60"})
        return answer.result()

    async def _answer(self, content: bytes) -> dict[str, Any]:
        """Returns the answer to a request with the body ``content``. Raises HTTPException for a
        refused request."""
        try:
            body = ScoreBody.model_validate_json(content)
        except ValidationError as error:
            problems = error.errors(include_url=False, include_input=False)
            raise RequestValidationError(problems) from None
        try:
            self.judge._checked_names(body.dimensions)
        except ConfigError as error:
            raise _malformed_error({"dimensions": error.one_line}) from None
        settings = body.model_dump(include=set(RequestOptions.model_fields))
        changes: Counter[str] = Counter()
        # Beside the loop, which answers others while a large body is parsed.
        dialogues = await asyncio.to_thread(
            parse_rows, body.rows(), self.limits.max_turns, changes
        )
        answers = await self._queue_and_wait(dialogues, RequestOptions(**settings))
        return {
            "judge": self.worker.signature,
            "judgements": list(to_records(answers)),
            "changes": changes,
        }

    async def _queue_and_wait(
        self, dialogues: Sequence[Dialogue], options: RequestOptions
    ) -> list[Judgement]:
        """Puts ``dialogues`` into the queue and returns their judgements, computed with
        ``options``.

        Raises:
            HTTPException: The queue is full (429).
        """
        waiting = self.worker.queue.qsize()
        if waiting and waiting + len(dialogues) > self.limits.max_waiting:
            seconds = str(min(60, math.ceil(waiting * self.worker.pace) + 1))
            message = f"{waiting} dialogues are waiting already"
            raise HTTPException(429, message, {"Retry-After": seconds})
        futures = []
        for dialogue in dialogues:
            row = QueuedDialogue(
                dialogue, options, asyncio.get_running_loop().create_future()
            )
            self.worker.queue.put(row)
            futures.append(row.answer)
        answers = await asyncio.gather(*futures)
        return list(chain.from_iterable(answers))


def start_app(service: ScoreService, token: str | None, host: str | None) -> FastAPI:
    """Returns the web application of ``service``, and starts the thread of its judge.

    Args:
        token: The bearer token that clients must send. None accepts all clients.
        host: A host name that requests may state besides ``localhost`` and ``127.0.0.1``. Others
            are refused. None allows any.
    """
    judge, worker = service.judge, service.worker
    worker.thread.start()
    metrics = ServeMetrics(worker)
    app = FastAPI(title="medal_judges", docs_url=None, redoc_url=None, openapi_url=None)
    if host is not None:  # or a page whose domain points at 127.0.0.1 could ask
        hosts = ["localhost", "127.0.0.1", host]
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=hosts)

    def require_token(sent: Any = Depends(HTTPBearer(auto_error=False))) -> None:  # noqa: B008
        given = getattr(sent, "credentials", "")
        if token and not hmac.compare_digest(given.encode(), token.encode()):
            raise HTTPException(401, "a token is needed: Authorization: Bearer TOKEN")

    needs_token = [Depends(require_token)]

    @app.middleware("http")
    async def count(request: Request, call_next: Any) -> Any:
        with metrics.seconds.time():
            response = await call_next(request)
        metrics.requests.labels(str(response.status_code)).inc()
        return response

    @app.post("/score", dependencies=needs_token)
    async def score(request: Request) -> dict[str, Any]:
        return await service.score(request)

    @app.get("/health")
    async def health() -> dict[str, str]:
        if not worker.thread.is_alive():
            raise HTTPException(503, "the judge has stopped")
        return {"status": "ok"}

    @app.get("/judge", dependencies=needs_token)
    async def about() -> dict[str, Any]:
        return {
            "signature": worker.signature,
            "family": judge.family,
            "dimensions": list(map(asdict, judge.dimensions)),
            "languages": judge.languages,  # null: any, or not known
        }

    @app.get("/metrics", dependencies=needs_token)
    async def shown_metrics() -> Response:
        return Response(
            generate_latest(metrics.registry), media_type=CONTENT_TYPE_LATEST
        )

    return app
