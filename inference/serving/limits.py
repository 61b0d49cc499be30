"""What a server takes on, and how long anything may last."""

from __future__ import annotations

from dataclasses import dataclass

from medal_judges.errors import MedalError


@dataclass(frozen=True, slots=True)
class ServeLimits:
    """Beyond ``body_bytes`` or ``dialogues`` of a request, or ``turns`` of a dialogue: 413. Beyond
    ``waiting`` dialogues in the queue, or ``waiting_bytes`` of their text: 429. A request that has
    no answer after ``seconds`` gets 503, one whose body takes longer than ``body_seconds`` 408.
    After SIGTERM what was accepted has ``drain_seconds`` to be finished. ``batch_wait`` is how long
    (seconds) an idle judge waits for further requests to join the first. Beyond ``connections`` at
    once: 503.
    """

    body_bytes: int = 8 << 20
    dialogues: int = 256
    turns: int = 2000  # a chat of dstc9 has 630
    waiting: int = 2048
    seconds: float = 300.0
    body_seconds: float = 30.0
    drain_seconds: float = 30.0
    batch_wait: float = 0.005
    connections: int = 512

    @property
    def waiting_bytes(self) -> int:
        """Text in the queue; one request of the full size always fits an empty queue."""
        return 16 * self.body_bytes


class RefusedError(MedalError):
    """A request is not taken on: HTTP ``status``, the ``field`` at fault where there is one, and
    after how many seconds (``retry_after``) it may be sent again."""

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
        """The body of the answer."""
        record: dict[str, object] = {"error": self.message}
        optional = {"hint": self.hint, "field": self.field, "rows": self.rows}
        return record | {key: value for key, value in optional.items() if value}
