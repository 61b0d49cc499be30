"""The limits of a server, and the error for a request beyond them."""

from __future__ import annotations

from medal_judges.config import Config, option
from medal_judges.errors import MedalError


class ServeLimits(Config):
    """What a server accepts, and how long anything may last. ``batch_wait``: seconds in which an
    idle judge waits for more requests after the first."""

    max_body: int = option(8, ge=1, help="MB of a request; a larger one gets 413.")
    max_dialogues: int = option(256, ge=1, help="Dialogues of a request; more get 413.")
    max_turns: int = option(2000, ge=1, help="Turns of a dialogue; more get 413.")
    max_waiting: int = option(
        2048, ge=1, help="Dialogues that wait; a request beyond that gets 429."
    )
    timeout: float = option(300.0, ge=0.1, help="Seconds for a request; a longer one gets 503.")
    drain: float = option(30.0, ge=0, help="Seconds to finish requests after SIGTERM.")
    body_seconds: float = 30.0
    batch_wait: float = 0.005
    connections: int = 512

    @property
    def body_bytes(self) -> int:
        return self.max_body << 20

    @property
    def waiting_bytes(self) -> int:
        """Text in the queue; one request of the largest size always fits an empty queue."""
        return 16 * self.body_bytes


class RefusedError(MedalError):
    """A request is refused with HTTP ``status``; ``field`` is at fault, and after ``retry_after``
    seconds it may be sent again."""

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
        """Returns the body of the answer."""
        optional = {"hint": self.hint, "field": self.field, "rows": self.rows}
        return {"error": self.message} | {key: value for key, value in optional.items() if value}
