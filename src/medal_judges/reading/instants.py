"""Times of turns, compared as instants, and the order that they give."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timezone
from decimal import Decimal
from enum import Enum
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from medal_judges.reading.names import TIMES, Counts, find_key
from medal_judges.reading.roles import stated_role

Item = TypeVar("Item")
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ]+(\d{1,2}:\d\d)(:\d\d)?(?:[.,](\d+))?)?"
    r"\s*(?:(Z|UTC|GMT)|([+-]\d\d):?(\d\d)?)?",
    re.IGNORECASE,
)
_SECOND = 10**9  # nanoseconds
# Least number -> nanoseconds of its unit: nano-, micro- and milliseconds since 1970.
_UNITS = ((10**17, 1), (10**14, 10**3), (10**11, 10**6))
# Seconds since 1970, in 1973; a smaller number counts from elsewhere.
_FIRST_DATE = 10**8
_MOST = 10**20


class Clock(Enum):
    """What a time counts from. Times of two clocks cannot be compared."""

    ZONED = "with a time zone"
    LOCAL = "without a time zone"
    COUNT = "a number that is no date"


class Instant(NamedTuple):
    """``nanoseconds`` since 1970, or since the zero of a ``COUNT``."""

    clock: Clock
    nanoseconds: int


def position(value: object) -> Instant | None:
    """Returns the place of a turn by its number, or by its time."""
    number = _number(value)
    if number is None:
        return instant(value)
    return Instant(Clock.COUNT, int(number * _SECOND))


def instant(value: object) -> Instant | None:
    """Returns the instant of an ISO time or of a number, None for any other value.

    The size of a number decides whether it is seconds, milliseconds, microseconds or nanoseconds
    since 1970. A small number counts seconds from an unknown start.
    """
    number = _number(value)
    if number is None:
        return _iso_instant(str(value).strip())
    size = abs(number)
    unit = next((unit for minimum, unit in _UNITS if size >= minimum), _SECOND)
    clock = Clock.ZONED if size >= _FIRST_DATE else Clock.COUNT
    return Instant(clock, int(number * unit))


def _number(value: object) -> Decimal | None:
    with suppress(ArithmeticError):  # no number, or not a number (NaN)
        number = Decimal(str(value).strip())
        if abs(number) < _MOST:
            return number
    return None


def _iso_instant(value: str) -> Instant | None:
    match = _ISO.fullmatch(value)
    if match is None:
        return None
    date, clock, second, fraction, utc, hours, minutes = match.groups(default="")
    zone = "+00:00"
    if hours:
        zone = f"{hours}:{minutes or '00'}"
    try:
        moment = datetime.fromisoformat(
            f"{date}T{clock or '0:00':0>5}{second or ':00'}{zone}"
        )
    except ValueError:
        return None
    nanoseconds = int(moment.timestamp()) * _SECOND + int(f"{fraction:0<9}"[:9])
    if utc or hours:
        return Instant(Clock.ZONED, nanoseconds)
    return Instant(Clock.LOCAL, nanoseconds)


def nanoseconds(value: object) -> int:
    """Returns the nanoseconds of a time, or 0 if the value is not a time."""
    moment = instant(value)
    if moment is None:
        return 0
    return moment.nanoseconds


def iso_time(value: Any) -> Any:
    """Returns a number since 1970 as an ISO time, and any other value unchanged."""
    moment = instant(value)
    if moment is None or moment.clock is not Clock.ZONED or _number(value) is None:
        return value
    return datetime.fromtimestamp(
        moment.nanoseconds / _SECOND, timezone.utc
    ).isoformat()


def oldest_first(
    items: Sequence[Item], instants: Sequence[Instant], roles: Sequence[object]
) -> list[Item]:
    """Returns ``items`` in the order of their ``instants``.

    Items of one instant keep their order, with one exception: if the list is newest first and an
    answer stands before its question, they are reversed.
    """
    times = [instant.nanoseconds for instant in instants]
    newest_first = is_newest_first(instants)
    indices = sorted(range(len(items)), key=times.__getitem__)
    oldest_items: list[Item] = []
    for _, group in groupby(indices, key=times.__getitem__):
        simultaneous = list(group)
        if newest_first and roles[simultaneous[0]] != "user":
            simultaneous.reverse()
        oldest_items += [items[index] for index in simultaneous]
    return oldest_items


def is_newest_first(instants: Sequence[Instant]) -> bool:
    times = [instant.nanoseconds for instant in instants]
    return times == sorted(times, reverse=True) and times[0] > times[-1]


def messages_in_order(messages: list[Any], counts: Counts) -> list[Any]:
    """Returns the messages of a chat, oldest first.

    Messages are reordered only if the list is newest first and each of them but the system prompts
    has a time. ``counts`` counts such a chat. It also counts a chat whose times are in no order,
    which stays unchanged.
    """
    if not all(isinstance(message, Mapping) for message in messages):
        return messages
    if not any(find_key(message, TIMES) for message in messages[:2]):  # of most chats
        return messages
    prompts = [message for message in messages if stated_role(message) == "system"]
    spoken = [message for message in messages if stated_role(message) != "system"]
    instants = _dates(spoken)
    clocks = {time.clock for time in instants}
    if len(clocks) == 1 and is_newest_first(instants):
        counts["newest-first chats sorted by time"] += 1
        roles = [stated_role(message) for message in spoken]
        return prompts + oldest_first(spoken, instants, roles)
    if len(clocks) > 1 or instants != sorted(instants):
        counts[
            "chats whose times are not in the order of their messages (not sorted)"
        ] += 1
    return messages


def _dates(messages: list[Any]) -> list[Instant]:
    """Returns the times of messages, or nothing if a message has none.

    A number that is no date does not count as a time: it can be the seconds that an answer took.
    """
    instants: list[Instant] = []
    for message in messages:
        time = instant(message.get(find_key(message, TIMES) or ""))
        if time is None or time.clock is Clock.COUNT:
            return []
        instants.append(time)
    return instants
