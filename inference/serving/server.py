"""Runs a judge as a server: a socket, uvicorn, and a clean stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn

from medal_judges.errors import MedalError
from medal_judges.inference.scoring import DEFAULT_OPTIONS, ScoreOptions
from medal_judges.inference.serving.app import ScoreService, make_app
from medal_judges.inference.serving.guard import is_loopback
from medal_judges.inference.serving.limits import ServeLimits
from medal_judges.models.base.judge import Judge

logger = logging.getLogger(__name__)


class _Server(uvicorn.Server):
    """uvicorn's server, changed to exit with status 0 after SIGTERM or SIGINT. Accepted requests
    have ``drain`` seconds to finish, then they get 503. A second signal stops the server at once.
    """

    def __init__(self, config: uvicorn.Config, service: ScoreService) -> None:
        super().__init__(config)
        self.service = service

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own raises the signal again at the end, which makes the exit status -15.
        kinds = (signal.SIGINT, signal.SIGTERM)
        before = {kind: signal.signal(kind, self.handle_exit) for kind in kinds}
        try:
            yield
        finally:
            for kind, handler in before.items():
                signal.signal(kind, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self.should_exit:
            self.force_exit = True
        self.should_exit = self.service.stopping = True
        with contextlib.suppress(RuntimeError):  # nothing to drain before the loop runs
            loop = asyncio.get_running_loop()
            loop.call_soon_threadsafe(
                loop.call_later, self.service.limits.drain, self.service.give_up
            )


def serve(
    judge: Judge,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    options: ScoreOptions = DEFAULT_OPTIONS,
    limits: ServeLimits | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Answers requests until SIGTERM or SIGINT, and calls ``ready`` with the address when it
    accepts connections. Port 0 means any free port. Raises MedalError if the port is in use."""
    limits = limits or ServeLimits()
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise MedalError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="--port 0 takes a free port",
        ) from error
    service = ScoreService(judge, options, limits)
    config = uvicorn.Config(
        make_app(service, token, is_loopback(host)),
        loop="asyncio",
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=int(limits.drain) + 5,
    )
    with listener:
        bound = listener.getsockname()
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        ready(f"http://{name}:{bound[1]}")
        _Server(config, service).run([listener])
    if not service.worker.stop(limits.drain):
        logger.warning("the judge was still scoring dialogues of abandoned requests")
