"""How a server is reached: its address, and what must not be shown of it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.llm.server.wire import RequestError
from medal_judges.secrets import hide

if TYPE_CHECKING:
    from openai import AsyncOpenAI

PROVIDER = "https://api.openai.com/v1"  # the client's own default
MAX_BODY = 64 * 2**20  # bytes


@dataclass(frozen=True, slots=True)
class ServerAccess:
    """A server's address without user, password and query, and these apart."""

    address: str
    login: tuple[str, str] | None = field(default=None, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    key: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, base_url: str | None, key_variable: str) -> ServerAccess:
        """Returns the access to ``base_url`` (None: the provider) with the key in the environment
        variable ``key_variable``, without white space around it. All secrets are hidden.

        Raises ConfigError for a text that is no address, and for a key that no HTTP header can
        carry.
        """
        parts = _parts(base_url or PROVIDER)
        login = None
        if parts.username is not None:
            login = unquote(parts.username), unquote(parts.password or "")
            hide(parts.password or "")
            hide(login[1])
        query = dict(parse_qsl(parts.query, keep_blank_values=True))
        for value in query.values():
            hide(value)
        for quoted in parts.query.split("&"):
            hide(quoted.partition("=")[2])
        host = parts.netloc.rpartition("@")[2]
        address = f"{parts.scheme}://{host}{parts.path}".rstrip("/")
        return cls(address, login, query, _key(key_variable))

    def open(self, key_variable: str, timeout: float) -> AsyncOpenAI:
        """Returns a client, for the caller to close. Raises NotAvailableError if the provider is
        asked without a key, and ConfigError, which does not quote its password, for an address of a
        proxy that cannot be used."""
        from openai import AsyncOpenAI, DefaultAsyncHttpxClient

        if self.key is None and self.address == PROVIDER:
            raise NotAvailableError(
                f"no key in {key_variable}", hint=f"export {key_variable}=..."
            )
        try:
            http_client = DefaultAsyncHttpxClient(
                # Dialogues and key go only to the address that the user gave.
                follow_redirects=False,
                auth=self.login,
                event_hooks={"response": [_read_bounded]},
            )
        except Exception as error:
            raise ConfigError(
                f"a proxy of the environment cannot be used ({type(error).__name__})",
                hint="HTTP_PROXY, HTTPS_PROXY and ALL_PROXY are of the form http://HOST:PORT; "
                "socks5:// needs the package socksio",
            ) from None
        return AsyncOpenAI(
            api_key=self.key or "none",  # own servers need no key, the client does
            base_url=self.address,
            default_query=dict(self.query),
            default_headers={"Accept-Encoding": "identity"},
            timeout=timeout,
            max_retries=0,  # RemoteModel retries: it knows the limit of cost
            http_client=http_client,
        )


def _parts(url: str) -> SplitResult:
    """Returns the parts of a server's address. Raises ConfigError, which shows nothing of it, if it
    is none."""
    try:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_address &= parts.port != 0
    except ValueError:  # a port that is no number
        is_address = False
    if not is_address:
        raise ConfigError(
            "llm.base_url is no address of a server",
            hint="llm.base_url=http://HOST:PORT/v1",
        )
    return parts


def _key(variable: str) -> str | None:
    """Returns the key in an environment variable, None if it holds none. Raises ConfigError for
    characters that a header cannot carry."""
    key = os.environ.get(variable, "").strip()
    hide(key)
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the key in {variable} has a control character or one outside ASCII",
            hint=f"copy the key again, as one line: export {variable}=...",
        )
    return key or None


async def _read_bounded(response: Any) -> None:
    """Reads a response's body (of httpx, or of httpx2 with newer clients) up to MAX_BODY bytes.
    Raises RequestError for a larger one, and for a compressed one, of which a few bytes may become
    many: none was asked for."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding not in ("", "identity"):
        raise RequestError(
            f"the server compresses its answers ({encoding[:20]}), unasked"
        )
    body = bytearray()
    async for chunk in response.aiter_raw():
        body += chunk
        if len(body) > MAX_BODY:
            raise RequestError(
                f"the answer is larger than {MAX_BODY >> 20} MiB", billed=True
            )
    response._content = bytes(body)  # as its own aread() does
