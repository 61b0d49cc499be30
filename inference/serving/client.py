"""A client of ``medal serve``: dialogues in, judgements out."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from medal_judges.errors import ConfigError, MedalError, MissingExtraError
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement, judgement_parser
from medal_judges.storage.jsonl import to_line

if TYPE_CHECKING:
    import httpx

TOKEN_VARIABLE = "MEDAL_JUDGES_TOKEN"
ADDRESS = "http://127.0.0.1:8000"
# A dialogue, a line of this toolkit, or {"messages": [...]}.
Row = Dialogue | Mapping[str, Any]
Level = Literal["dialogue", "turn", "last"]
Policy = Literal["warn", "refuse", "allow"]
_AGAIN = (408, 429, 502, 503, 504)
_ROWS, _BYTES = 64, 2 << 20  # of one request: well within the server's limits


class ServiceError(MedalError):
    """The server refused a request, or did not answer in time. ``status`` is the HTTP status, None
    without an answer; ``field`` and ``rows`` name the malformed parts."""

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


class Client:
    """A connection to ``medal serve``, thread-safe. ``token``: by default $MEDAL_JUDGES_TOKEN.
    ``timeout``: seconds for one answer. ``patience``: seconds for which a request is sent again
    while the server is full, down or restarting.

        with Client("http://127.0.0.1:8000") as client:
            for judgement in client.score(dialogues):
                print(judgement.id, judgement.scores)
    """

    def __init__(
        self,
        address: str = ADDRESS,
        *,
        token: str | None = None,
        timeout: float = 330.0,
        patience: float = 120.0,
    ) -> None:
        try:
            import httpx
        except ImportError as error:
            raise MissingExtraError(
                "httpx", "serve", "the client of medal serve"
            ) from error
        parts = urlsplit(address)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f"{address!r} is not the address of a server",
                hint=f"give the whole address, like {ADDRESS}",
            )
        self.address, self.patience = address.rstrip("/"), patience
        if token is None:
            token = os.environ.get(TOKEN_VARIABLE)
        headers = {"Content-Type": "application/json"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        self._transport_error: type[Exception] = httpx.TransportError
        self._http = httpx.Client(
            base_url=self.address,
            headers=headers,
            timeout=httpx.Timeout(timeout, connect=10.0),
            follow_redirects=False,  # the token is for this address alone
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def score(
        self,
        dialogues: Iterable[Row],
        *,
        level: Level = "dialogue",
        dimensions: Sequence[str] | None = None,
        unknown_language: Policy | None = None,
    ) -> Iterator[Judgement]:
        """Yields judgements in input order, as ``Judge.score`` does. A row is a Dialogue, a line of
        this toolkit or {"messages": [...]}; a request has at most 64 rows.

        Raises ServiceError for what the server refuses, or if it cannot be reached.
        """
        for body in _bodies(dialogues, level, dimensions, unknown_language):
            yield from map(
                judgement_parser(), self._ask("POST", "/score", body)["judgements"]
            )

    def judge(self) -> dict[str, Any]:
        """Returns signature, family, dimensions and languages of the server's judge."""
        record: dict[str, Any] = self._ask("GET", "/judge")
        return record

    def _ask(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Sends a request and returns the answer.

        Scoring changes nothing on the server, so a failed request is sent again: after a random,
        growing pause (full jitter) of at least Retry-After.
        """
        start, tries = time.monotonic(), 0
        while True:
            delay = random.uniform(0.0, min(10.0, 0.1 * 2.0 ** min(tries, 10)))
            tries += 1
            try:
                answer = self._http.request(method, path, content=body)
                if answer.is_success:
                    return answer.json()
                with suppress(ValueError):  # ignores a date as Retry-After
                    delay += min(
                        300.0, max(0.0, float(answer.headers.get("retry-after", 0)))
                    )
                is_late = time.monotonic() + delay >= start + self.patience
                if is_late or answer.status_code not in _AGAIN:
                    raise _refused(answer)
            except self._transport_error as error:
                if time.monotonic() + delay >= start + self.patience:
                    raise ServiceError(
                        f"{self.address} cannot be reached: {type(error).__name__} {error}",
                        hint="medal serve JUDGE starts a server; patience=SECONDS waits longer",
                    ) from error
            time.sleep(delay)


def _bodies(
    dialogues: Iterable[Row],
    level: str,
    dimensions: Sequence[str] | None,
    policy: str | None,
) -> Iterator[bytes]:
    """Yields requests. Raises RecordError for text that is no valid Unicode."""
    asked: dict[str, Any] = {"level": level}
    if dimensions is not None:
        asked["dimensions"] = list(dimensions)
    if policy is not None:
        asked["unknown_language"] = policy
    rows: list[dict[str, Any]] = []
    size = 0
    for dialogue in dialogues:
        row = dict(dialogue) if isinstance(dialogue, Mapping) else dialogue.to_record()
        row_size = len(to_line(row).encode())
        if rows and (len(rows) == _ROWS or size + row_size > _BYTES):
            yield to_line({**asked, "dialogues": rows}).encode()
            rows, size = [], 0
        rows.append(row)
        size += row_size
    if rows:
        yield to_line({**asked, "dialogues": rows}).encode()


def _refused(answer: httpx.Response) -> ServiceError:
    record: dict[str, Any] = {}
    with suppress(ValueError):
        record = answer.json()
    if not isinstance(record, dict):
        record = {}
    message = str(record.get("error") or answer.text[:300] or answer.reason_phrase)
    field = record.get("field")
    if field:
        message = f"{field}: {message}"
    return ServiceError(
        f"HTTP {answer.status_code}: {message}",
        status=answer.status_code,
        field=field,
        rows=record.get("rows", ()),
        hint=record.get("hint"),
    )
