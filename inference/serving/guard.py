"""Who may ask: a token wherever it is set, and names of this machine only on loopback."""

from __future__ import annotations

import hmac
import os
from ipaddress import ip_address
from socket import SOCK_STREAM, gaierror, getaddrinfo
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from medal_judges.errors import ConfigError
from medal_judges.inference.serving.client import TOKEN_VARIABLE

OPEN = ("/health",)  # says only whether the server is up
SHORTEST = 16  # characters of a token


class Guard:
    """ASGI middleware: 401 without the ``token`` (where there is one), 421 for a Host header of
    another name than this machine's on loopback, which a page of a browser whose name was rebound
    to 127.0.0.1 would send."""

    def __init__(self, app: ASGIApp, token: str | None, loopback: bool) -> None:
        self.app, self.loopback = app, loopback
        self.expected = None if token is None else f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        if self.loopback and not names_loopback(headers.get("host", "")):
            said = {"error": "this server answers to localhost and 127.0.0.1 only"}
            await JSONResponse(said, 421)(scope, receive, send)
            return
        if self.expected is not None and scope["path"] not in OPEN:
            given = headers.get("authorization", "").encode("latin-1", "replace")
            if not hmac.compare_digest(given, self.expected):
                said = {"error": f"a token is needed: Authorization: Bearer ${TOKEN_VARIABLE}"}
                refusal = JSONResponse(said, 401, {"WWW-Authenticate": "Bearer"})
                await refusal(scope, receive, send)
                return
        await self.app(scope, receive, send)


def names_loopback(host: str) -> bool:
    """Whether a Host header names this machine: localhost or a loopback address, any port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Whether every address of ``host`` is this machine's own. Raises ConfigError for a name that
    has none."""
    try:
        found = getaddrinfo(host, None, type=SOCK_STREAM)
    except (gaierror, UnicodeError) as error:
        raise ConfigError(f"--host {host}: no such address", hint="127.0.0.1 or 0.0.0.0") from error
    return all(ip_address(str(each[4][0]).partition("%")[0]).is_loopback for each in found)


def token_of_environment() -> str | None:
    """The token of MEDAL_JUDGES_TOKEN; None where it is not set. Raises ConfigError, which does not
    show it, for one that is too short or cannot stand in a header."""
    token = os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return None
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(
            f"the token in {TOKEN_VARIABLE} must be {SHORTEST} or more printable ASCII characters "
            "without blanks",
            hint=f"export {TOKEN_VARIABLE}=$(openssl rand -hex 32)",
        )
    return token


def require_token(host: str, token: str | None) -> None:
    """Raise ConfigError where a server without a token would be reached from other machines."""
    if token is None and not is_loopback(host):
        raise ConfigError(
            f"--host {host} is open to other machines, and no token is set",
            hint=f"export {TOKEN_VARIABLE}=$(openssl rand -hex 32), or leave --host out",
        )
