"""What Prometheus is told of a server: requests, queue, windows, judgements, tokens and money."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)

from medal_judges.records.judgement import Judgement

NAMESPACE = "medal"
_SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_ROWS = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class ServeMetrics:
    """Figures of one server, in a registry of its own. Nothing of a dialogue's text or id is in
    them; labels are statuses and dimensions, so their number is bounded."""

    def __init__(self, waiting: Callable[[], float], spent: Callable[[], float]) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        told = "Requests to /score by HTTP status (499: the client left)."
        self.requests = self._counter("requests", told, "status")
        self.seconds = self._histogram("request_seconds", "From request to answer.", _SECONDS)
        self.under_way = self._gauge("requests_under_way", "Requests that wait for an answer.")
        queue = self._gauge("queue_dialogues", "Dialogues that no window has taken yet.")
        queue.set_function(waiting)
        told = "Dialogues that were scored together."
        self.windows = self._histogram("window_dialogues", told, _ROWS)
        told = "What the judge took for a window."
        self.window_seconds = self._histogram("window_seconds", told, _SECONDS)
        self.judgements = self._counter("judgements", "Judgements, with a score or not.", "scored")
        self.truncated = self._counter("truncated_judgements", "Judgements that lost turns.")
        told = "Judgements in languages that the judge was not made for."
        self.outside = self._counter("unknown_language_judgements", told)
        self.tokens = self._counter("tokens", "Tokens that the judge read and wrote.")
        money = self._gauge("dollars_spent", "US dollars that asking models has cost.")
        money.set_function(spent)

    def _counter(self, name: str, told: str, *labels: str) -> Counter:
        return Counter(name, told, labels, namespace=NAMESPACE, registry=self.registry)

    def _gauge(self, name: str, told: str) -> Gauge:
        return Gauge(name, told, namespace=NAMESPACE, registry=self.registry)

    def _histogram(self, name: str, told: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(name, told, namespace=NAMESPACE, registry=self.registry, buckets=buckets)

    def request(self, status: int, seconds: float) -> None:
        """Count one request and what it took."""
        self.seconds.observe(seconds)
        self.requests.labels(str(status)).inc()

    def window(self, rows: int, seconds: float, judgements: Sequence[Judgement]) -> None:
        """Count what one window took and gave."""
        self.windows.observe(rows)
        self.window_seconds.observe(seconds)
        for judgement in judgements:
            self.judgements.labels("yes" if judgement.scored else "no").inc()
            self.truncated.inc(judgement.truncated_turns > 0)
            self.outside.inc(judgement.unknown_language is not None)
            self.tokens.inc(judgement.usage.get("tokens", 0.0))

    def text(self) -> bytes:
        """The page that Prometheus reads."""
        return generate_latest(self.registry)
