"""Metrics of a server for Prometheus: requests, queue, windows, judgements, tokens and cost."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from medal_judges.records.judgement import Judgement

_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServeMetrics:
    """The metrics of one server. They contain no text and no id of a dialogue; labels are statuses,
    so their number is bounded."""

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
        queue = Gauge("queue_dialogues", "Dialogues that no window has yet.", **own)
        queue.set_function(waiting)
        text = "Dialogues that were scored together."
        self.windows = Histogram("window_dialogues", text, buckets=_ROWS, **own)
        text = "Seconds that the judge took for a window."
        self.window_seconds = Histogram("window_seconds", text, buckets=_SECONDS, **own)
        text = "Judgements, with a score or not."
        self.judgements = Counter("judgements", text, ["scored"], **own)
        self.truncated = Counter("truncated_judgements", "Judgements that lost turns.", **own)
        text = "Judgements in languages that the judge does not support."
        self.outside = Counter("unknown_language_judgements", text, **own)
        self.tokens = Counter("tokens", "Tokens that the judge read and wrote.", **own)
        money = Gauge("dollars_spent", "US dollars paid for answers of models.", **own)
        money.set_function(spent)

    def request(self, status: int, seconds: float) -> None:
        """Counts one request."""
        self.seconds.observe(seconds)
        self.requests.labels(str(status)).inc()

    def window(self, rows: int, seconds: float, judgements: Sequence[Judgement]) -> None:
        """Counts one window."""
        self.windows.observe(rows)
        self.window_seconds.observe(seconds)
        for judgement in judgements:
            self.judgements.labels("yes" if judgement.scored else "no").inc()
            self.truncated.inc(judgement.truncated_turns > 0)
            self.outside.inc(judgement.unknown_language is not None)
            self.tokens.inc(judgement.usage.get("tokens", 0.0))

    def text(self) -> bytes:
        """Returns the page that Prometheus reads."""
        return generate_latest(self.registry)
