"""A client of ``medal serve``: dialogues in, judgements out, over HTTP; sync and async."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from medal_judges.errors import ConfigError, MedalError, MissingExtraError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, parse_judgement
from medal_judges.storage.jsonl import to_line

if TYPE_CHECKING:
    import httpx

TOKEN_VARIABLE = "MEDAL_JUDGES_TOKEN"
ADDRESS = "http://127.0.0.1:8000"
# A dialogue, a line of this toolkit, or {"messages": [...]}.
Row = Dialogue | Mapping[str, Any]
Level = Literal["dialogue", "turn", "last"]
_AGAIN = (408, 429, 502, 503, 504)
_ROWS, _BYTES = 64, 2 << 20  # of one request: well within the server's limits


class ServiceError(MedalError):
    """The server refused a request, or could not be reached for as long as was waited.

    ``status``: HTTP's, None without an answer. ``field`` and ``rows``: what was malformed (422).
    """

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        field: str | None = None,
        rows: Sequence[Mapping[str, Any]] = (),
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.field, self.rows = status, field, tuple(rows)


@dataclass(slots=True)
class _Patience:
    """When one request is sent again: full-jitter back-off, never sooner than the server asks for,
    until ``seconds`` are over."""

    seconds: float
    start: float
    tries: int = 0

    def wait(self, after: float | None) -> float | None:
        """Seconds until the next try; None where it would be too late."""
        self.tries += 1
        own = random.uniform(0.0, min(10.0, 0.1 * 2.0 ** min(self.tries, 10)))
        delay = own if after is None else after + own
        return delay if time.monotonic() + delay < self.start + self.seconds else None


class _ClientSettings:
    """What both clients share: address, token, limits, and how answers are read."""

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        token: str | None = None,
        timeout: float = 330.0,
        patience: float = 120.0,
    ) -> None:
        self.address, self.patience = _checked(address), patience
        given = os.environ.get(TOKEN_VARIABLE) if token is None else token
        headers = {"Content-Type": "application/json"}
        if given:
            headers["Authorization"] = f"Bearer {given}"
        self._options: dict[str, Any] = {
            "base_url": self.address,
            "headers": headers,
            "timeout": _httpx().Timeout(timeout, connect=10.0),
            "follow_redirects": False,  # the token is for this address alone
        }

    def _begin(self) -> _Patience:
        return _Patience(self.patience, time.monotonic())

    def _next_try(self, patience: _Patience, answer: httpx.Response | Exception) -> float:
        """Seconds until the next try. Raises ServiceError where there is none."""
        if isinstance(answer, Exception):  # sent again too: scoring changes nothing on the server
            delay = patience.wait(None)
            if delay is None:
                raise ServiceError(
                    f"{self.address} cannot be reached: {type(answer).__name__} {answer}".rstrip(),
                    hint="medal serve JUDGE starts a server; patience=SECONDS waits longer for one",
                ) from answer
            return delay
        delay = None
        if answer.status_code in _AGAIN:
            delay = patience.wait(_seconds(answer.headers.get("retry-after")))
        if delay is None:
            raise _refused(answer)
        return delay


class Client(_ClientSettings):
    """A connection to ``medal serve``, safe to use from several threads.

    ``token``: by default that of $MEDAL_JUDGES_TOKEN. ``timeout``: seconds for one answer.
    ``patience``: how long (seconds) one request is sent again while the server is full, stopped
    or being started again; waits as its Retry-After says.

        with Client("http://127.0.0.1:8000") as client:
            for judgement in client.score(dialogues):
                print(judgement.id, judgement.scores)
    """

    def __init__(self, address: str = ADDRESS, **settings: Any) -> None:
        super().__init__(address, **settings)
        self._http: httpx.Client = _httpx().Client(**self._options)

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def score(
        self,
        dialogues: Iterable[Row],
        *,
        level: Level = "dialogue",
        dimensions: Sequence[str] | None = None,
        unknown_language: Literal["warn", "refuse", "allow"] | None = None,
    ) -> Iterator[Judgement]:
        """Judgements in input order, as ``Judge.score`` gives them; a row is a Dialogue, a line of
        this toolkit or {"messages": [...]}. Sent in requests of at most 64 rows.

        Raises ServiceError: what the server refuses, and where it cannot be reached.
        """
        for body, rows in _bodies(dialogues, level, dimensions, unknown_language):
            yield from _judgements(self._ask("POST", "/score", body), rows)

    def judge(self) -> dict[str, Any]:
        """Signature, family, dimensions with their scales, and languages of the server's judge."""
        record: dict[str, Any] = self._ask("GET", "/judge")
        return record

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        patience = self._begin()
        while True:
            try:
                answer = self._http.request(method, path, content=body)
                if answer.is_success:
                    return answer.json()
                delay = self._next_try(patience, answer)
            except _httpx().TransportError as error:
                delay = self._next_try(patience, error)
            time.sleep(delay)


class AsyncClient(_ClientSettings):
    """``Client`` for asyncio: ``async with AsyncClient() as client: await client.score([...])``."""

    def __init__(self, address: str = ADDRESS, **settings: Any) -> None:
        super().__init__(address, **settings)
        self._http: httpx.AsyncClient = _httpx().AsyncClient(**self._options)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def score(
        self,
        dialogues: Iterable[Row],
        *,
        level: Level = "dialogue",
        dimensions: Sequence[str] | None = None,
        unknown_language: Literal["warn", "refuse", "allow"] | None = None,
    ) -> list[Judgement]:
        """All judgements, in input order; see ``Client.score``."""
        judged: list[Judgement] = []
        for body, rows in _bodies(dialogues, level, dimensions, unknown_language):
            judged += _judgements(await self._ask("POST", "/score", body), rows)
        return judged

    async def judge(self) -> dict[str, Any]:
        """See ``Client.judge``."""
        record: dict[str, Any] = await self._ask("GET", "/judge")
        return record

    async def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        patience = self._begin()
        while True:
            try:
                answer = await self._http.request(method, path, content=body)
                if answer.is_success:
                    return answer.json()
                delay = self._next_try(patience, answer)
            except _httpx().TransportError as error:
                delay = self._next_try(patience, error)
            await asyncio.sleep(delay)


def _checked(address: str) -> str:
    """The address without a slash at its end. Raises ConfigError for one that no request can reach,
    which would else be tried until the patience is over."""
    parts = urlsplit(address)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigError(
            f"{address!r} is no address of a server", hint=f"give it whole, like {ADDRESS}"
        )
    return address.rstrip("/")


def _httpx() -> ModuleType:
    try:
        import httpx
    except ImportError as error:
        raise MissingExtraError("httpx", "serve", "the client of medal serve") from error
    return httpx


def _bodies(
    dialogues: Iterable[Row], level: str, dimensions: Sequence[str] | None, policy: str | None
) -> Iterator[tuple[bytes, list[dict[str, Any]]]]:
    """Requests, each with its rows. Raises RecordError for text that is not valid Unicode."""
    asked: dict[str, Any] = {"level": level}
    if dimensions is not None:
        asked["dimensions"] = list(dimensions)
    if policy is not None:
        asked["unknown_language"] = policy
    rows: list[dict[str, Any]] = []
    size = 0
    for dialogue in dialogues:
        row = dialogue.to_record() if isinstance(dialogue, Dialogue) else dict(dialogue)
        own = len(to_line(row).encode())
        if rows and (len(rows) == _ROWS or size + own > _BYTES):
            yield to_line({**asked, "dialogues": rows}).encode(), rows
            rows, size = [], 0
        rows.append(row)
        size += own
    if rows:
        yield to_line({**asked, "dialogues": rows}).encode(), rows


def _judgements(answer: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> list[Judgement]:
    """The judgements of an answer. Raises ServiceError where they are not those of ``rows``."""
    judged = [parse_judgement(record) for record in answer["judgements"]]
    given = list(dict.fromkeys(judgement.id for judgement in judged))
    asked = list(dict.fromkeys(str(row["id"]) for row in rows if row.get("id") is not None))
    if len(asked) == len(rows) and given != asked:
        raise ServiceError("the server's answer belongs to other dialogues")
    return judged


def _refused(answer: httpx.Response) -> ServiceError:
    try:
        record = answer.json()
    except ValueError:
        record = {}
    if not isinstance(record, dict):
        record = {}
    said = str(record.get("error") or answer.text[:300] or answer.reason_phrase)
    where = record.get("field")
    return ServiceError(
        f"HTTP {answer.status_code}: {f'{where}: ' if where else ''}{said}",
        status=answer.status_code,
        field=where,
        rows=record.get("rows", ()),
        hint=record.get("hint"),
    )


def _seconds(text: str | None) -> float | None:
    """Retry-After in seconds; its form with a date is left to the client's own back-off."""
    try:
        return None if text is None else min(300.0, max(0.0, float(text)))
    except ValueError:
        return None
