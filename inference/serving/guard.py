"""Checks who may use a server: a token if one is set; on loopback only names of this machine."""

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

OPEN = ("/health",)
SHORTEST = 16  # characters of a token


class Guard:
    """ASGI middleware that answers 401 without the ``token``. On loopback it answers 421 if the
    Host header has a foreign name: a web page sends one if its name was rebound to 127.0.0.1."""

    def __init__(self, app: ASGIApp, token: str | None, loopback: bool) -> None:
        self.app, self.loopback = app, loopback
        self.expected = None
        if token is not None:
            self.expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = self.app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if self.loopback and not names_loopback(headers.get("host", "")):
                error = {"error": "this server answers to localhost and 127.0.0.1 only"}
                answer = JSONResponse(error, 421)
            elif scope["path"] not in OPEN and not self.has_token(headers):
                error = {
                    "error": f"a token is needed: Authorization: Bearer ${TOKEN_VARIABLE}"
                }
                answer = JSONResponse(error, 401, {"WWW-Authenticate": "Bearer"})
        await answer(scope, receive, send)

    def has_token(self, headers: Headers) -> bool:
        """Returns whether a request has the token, compared in constant time."""
        if self.expected is None:
            return True
        sent = headers.get("authorization", "").encode("latin-1", "replace")
        return hmac.compare_digest(sent, self.expected)


def names_loopback(host: str) -> bool:
    """Returns whether a Host header names localhost or a loopback address, with any port."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def is_loopback(host: str) -> bool:
    """Returns whether all addresses of ``host`` are loopback addresses. Raises ConfigError for a
    name without an address."""
    try:
        addresses = getaddrinfo(host, None, type=SOCK_STREAM)
    except (gaierror, UnicodeError) as error:
        raise ConfigError(
            f"--host {host}: no such address", hint="127.0.0.1 or 0.0.0.0"
        ) from error
    for *_, socket_address in addresses:
        address = str(socket_address[0]).partition("%")[0]
        if not ip_address(address).is_loopback:
            return False
    return True


def token_for(host: str) -> str | None:
    """Returns the token of MEDAL_JUDGES_TOKEN, None if it is not set.

    Raises ConfigError if the token is too short or does not fit into a header (the message does not
    show it), and if it is not set although ``host`` is open to other machines.
    """
    token = os.environ.get(TOKEN_VARIABLE)
    hint = f"export {TOKEN_VARIABLE}=$(openssl rand -hex 32)"
    if token is None:
        if not is_loopback(host):
            raise ConfigError(
                f"--host {host} is open to other machines, but no token is set",
                hint=f"{hint}, or leave --host out",
            )
        return None
    if (
        len(token) < SHORTEST
        or not token.isascii()
        or not token.isprintable()
        or " " in token
    ):
        raise ConfigError(
            f"the token in {TOKEN_VARIABLE} must be {SHORTEST} or more printable ASCII characters "
            "without blanks",
            hint=hint,
        )
    return token
