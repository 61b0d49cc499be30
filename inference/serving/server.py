"""Runs a judge as a server: access, socket, uvicorn, and a clean stop."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from ipaddress import ip_address

import uvicorn

from medal_judges.errors import ConfigError, MedalError
from medal_judges.inference.serving.app import ScoreService, ServeLimits, start_app
from medal_judges.models.base.judge import Judge
from medal_judges.secrets import register_secret

TOKEN_VARIABLE = "MEDAL_JUDGES_TOKEN"
_SHORTEST = 16  # characters of a token
_CONNECTIONS = 128  # each may hold a body
_DRAIN = 30  # seconds to finish requests after SIGTERM


def token_from_environment(host: str) -> str | None:
    """Returns the bearer token that clients must send, from $MEDAL_JUDGES_TOKEN. None if it is not
    set.

    Args:
        host: The address at which the server listens, such as ``127.0.0.1``.

    Raises:
        ConfigError: The token has fewer than 16 characters or is not ASCII, or no token is set and
            ``host`` is open to other machines.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    hint = f"Type: export {TOKEN_VARIABLE}=$(openssl rand -hex 32)"
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"--host {host} is open to other machines, but no token is set",
            hint=f"{hint}, or leave --host out",
        )
    if token is not None:
        register_secret(token)
        if len(token) < _SHORTEST or not token.isascii():
            raise ConfigError(
                f"{TOKEN_VARIABLE} needs {_SHORTEST} or more ASCII characters",
                hint=hint,
            )
    return token


def is_loopback(host: str) -> bool:
    """Returns whether ``host`` is localhost or a loopback address."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"


def serve(
    judge: Judge,
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    limits: ServeLimits | None = None,
    ready: Callable[[str], None] = lambda address: None,
) -> None:
    """Serves ``judge`` over HTTP until SIGTERM or SIGINT. Accepted requests then have 30 seconds to
    finish.

    Args:
        host: The address at which to listen.
        port: The port. 0 means any free port.
        token: The bearer token that clients must send. None accepts all clients.
        limits: The limits of requests and of the queue. None means the defaults of ``ServeLimits``.
        ready: Called with the server's URL once it accepts connections.

    Raises:
        MedalError: The server cannot listen there, for example because the port is in use.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise MedalError(
            f"cannot listen on {host}:{port}: {error.strerror}",
            hint="Type --port 0, which takes a free port",
        ) from error
    own_host = None
    if is_loopback(host):
        own_host = host
    config = uvicorn.Config(
        start_app(ScoreService(judge, limits or ServeLimits()), token, own_host),
        http="h11",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=_DRAIN,
    )
    with listener:
        ready(f"http://{host}:{listener.getsockname()[1]}")
        # uvicorn raises a signal that stopped it again, at its end: the exit status is 0. So it is
        # for a signal that comes before uvicorn handles it.
        for kind in (signal.SIGINT, signal.SIGTERM):
            signal.signal(kind, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run([listener])
