"""One cleaner for everything that a server sends back: the key never comes out of it."""

from __future__ import annotations

from collections.abc import Callable

NO_KEY = "none"  # what the client is given for servers that ask for none
SHOWN = 300  # characters of a server's own words in a failure
HIDDEN = "***"

Clean = Callable[[str], str]


def cleaner(secret: str | None) -> Clean:
    """A function that takes ``secret`` out of a text; one that changes nothing without a key."""
    if not secret or secret == NO_KEY:
        return lambda text: text
    return lambda text: text.replace(secret, HIDDEN)


def words(text: object, clean: Clean) -> str:
    """What a server said, as one line of at most SHOWN characters and without the key."""
    # Cleaned first: a cut through the middle of the key would leave half of it.
    return " ".join(clean(str(text)).split())[:SHOWN]
