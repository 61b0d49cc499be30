"""The limits of a server, and the error for a request beyond them."""

from __future__ import annotations

from medal_judges.config import Config, option
from medal_judges.errors import MedalError


class ServeLimits(Config):
    """Limits on sizes and times of requests. ``batch_wait``: seconds that an idle judge waits for
    more requests after the first."""

    max_body: int = option(
        8, ge=1, help="Maximum MB of a request; larger ones get 413."
    )
    max_dialogues: int = option(
        256, ge=1, help="Maximum dialogues of a request; more get 413."
    )
    max_turns: int = option(
        2000, ge=1, help="Maximum turns of a dialogue; more get 413."
    )
    max_waiting: int = option(
        2048, ge=1, help="Maximum waiting dialogues; requests beyond that get 429."
    )
    timeout: float = option(
        300.0, ge=0.1, help="Seconds for a request; longer ones get 503."
    )
    drain: float = option(
        30.0, ge=0, le=3600, help="Seconds to finish requests after SIGTERM."
    )
    body_seconds: float = 30.0
    batch_wait: float = 0.005
    connections: int = 512

    @property
    def body_bytes(self) -> int:
        return self.max_body << 20

    @property
    def held_bytes(self) -> int:
        """Maximum bytes of all bodies that arrive or wait for an answer."""
        return 16 * self.body_bytes


class RefusedError(MedalError):
    """A request is refused with the HTTP status ``status``. ``field`` is malformed; after
    ``retry_after`` seconds the client may try again."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        field: str | None = None,
        retry_after: int | None = None,
        rows: list[dict[str, object]] | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status, self.field, self.retry_after = status, field, retry_after
        self.rows = rows or []

    def to_record(self) -> dict[str, object]:
        """Returns the JSON body of the error."""
        optional = {"hint": self.hint, "field": self.field, "rows": self.rows}
        return {"error": self.message} | {
            key: value for key, value in optional.items() if value
        }
