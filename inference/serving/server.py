"""Runs a judge as a server: a socket, uvicorn, and a clean stop."""

from __future__ import annotations

import logging
import signal
import socket
from collections.abc import Callable
from contextlib import suppress

import uvicorn

from medal_judges.errors import MedalError
from medal_judges.inference.scoring import DEFAULT_OPTIONS, ScoreOptions
from medal_judges.inference.serving.app import ScoreService, make_app
from medal_judges.inference.serving.guard import is_loopback
from medal_judges.inference.serving.limits import ServeLimits
from medal_judges.models.base.judge import Judge

logger = logging.getLogger(__name__)


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
    accepts connections. Port 0 means any free port. Accepted requests have ``limits.drain`` seconds
    to finish, then their connections are closed; a second SIGINT stops at once. Raises MedalError
    if the port is in use.
    """
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
        timeout_graceful_shutdown=int(limits.drain),
    )
    with listener:
        bound = listener.getsockname()
        name = f"[{bound[0]}]" if ":" in bound[0] else bound[0]
        ready(f"http://{name}:{bound[1]}")
        # uvicorn raises a signal that stopped it again, at its end: the exit status is 0. So it is
        # for a signal that comes before uvicorn handles it.
        for kind in (signal.SIGINT, signal.SIGTERM):
            signal.signal(kind, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run([listener])
    if not service.worker.stop(limits.drain):
        logger.warning("the judge was still scoring dialogues of abandoned requests")
