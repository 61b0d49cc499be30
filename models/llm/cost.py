"""Tokens and money: what a request took, what it costs, and where a run has to stop.

Prices come from a dated file of list prices, never from numbers in code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError, MedalError
from medal_judges.storage.process_lock import ProcessLock

PER = 1_000_000  # prices are per million tokens


# What a kept answer is held to when it is read back.
Count = Annotated[int, Field(ge=0)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a request took. ``cached`` tokens are part of ``input``, ``reasoning`` of ``output``.

    ``money`` is in US dollars, None where no price is known. ``from_cache``: the answer came from
    the cache of answers, and nothing was spent this time.
    """

    input: Count = 0
    cached: Count = 0
    output: Count = 0
    reasoning: Count = 0
    seconds: Amount = 0.0
    money: Amount | None = None
    from_cache: bool = False

    def __add__(self, other: Usage) -> Usage:
        money = None if self.money is None or other.money is None else self.money + other.money
        return Usage(
            self.input + other.input,
            self.cached + other.cached,
            self.output + other.output,
            self.reasoning + other.reasoning,
            self.seconds + other.seconds,
            money,
        )

    def to_record(self) -> dict[str, float]:
        """Numbers for ``Judgement.usage``; money only where it is known."""
        record: dict[str, float] = {
            "input_tokens": self.input,
            "cached_tokens": self.cached,
            "output_tokens": self.output,
            "reasoning_tokens": self.reasoning,
            "seconds": round(self.seconds, 4),
        }
        if self.money is not None:
            record["money"] = 0.0 if self.from_cache else self.money
        return record


def add_usage(amounts: dict[str, float], usage: Usage) -> None:
    """Add ``usage`` to ``amounts``, named as in ``Judgement.usage``."""
    record = {"tokens": float(usage.input + usage.output)} | usage.to_record()
    for key, value in record.items():
        amounts[key] = amounts.get(key, 0.0) + value


def spent(usages: Iterable[Usage]) -> dict[str, float]:
    """What the requests took together, as ``Judgement.usage`` has it."""
    total: dict[str, float] = {}
    for usage in usages:
        add_usage(total, usage)
    return total


class Price(Config):
    """US dollars per million tokens. ``cached`` is the price of input tokens read from the
    provider's own prefix cache (the input price where none is stated); reasoning tokens are output
    tokens."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)

    def of(self, usage: Usage) -> float:
        """US dollars for ``usage``."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input - usage.cached
        return (fresh * self.input + usage.cached * cached + usage.output * self.output) / PER


class PriceFile(Config):
    """List prices as they stood on ``date``, in ``currency``. ``host``: the server whose prices
    they are (any, where none is named); ``batch_discount`` is the share that a batch saves."""

    date: str
    source: str
    currency: str = "USD"
    host: str | None = None
    batch_discount: float = 0.0
    models: Mapping[str, Price]

    def find(self, model: str, base_url: str | None = None) -> Price | None:
        """The price of ``model`` or of the longest name that it is a dated version of
        (``gpt-4.1-2025-04-14``); None where there is none, and at another server than ``host``."""
        if base_url is not None and self.host not in (None, urlsplit(base_url).hostname):
            return None
        names = [n for n in self.models if model == n or _is_version(model, n)]
        return self.models[max(names, key=len)] if names else None


def load_prices(path: str = "prices") -> PriceFile:
    """The shipped file, or the user's own of the same form. Raises ConfigError."""
    return build_config(PriceFile, read_yaml(path), where=path)


def _is_version(model: str, name: str) -> bool:
    # "gpt-4.1-mini" is no version of "gpt-4.1": what follows has to be a date.
    return model.startswith(f"{name}-") and model[len(name) + 1 :][:2] == "20"


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """What requests can take at most: ``input`` and ``output`` tokens, and US dollars (None where
    no price is known). ``kept`` requests are answered already and cost nothing; they are not
    counted in the rest. ``longer``: dollars if every answer were cut and asked for once more with
    twice the tokens."""

    requests: int = 0
    kept: int = 0
    input: int = 0
    output: int = 0
    money: float | None = None
    longer: float | None = None


class CostLimitError(MedalError):
    """The next request could pass the limit of cost; what was answered is kept (exit code 4)."""

    exit_code = 4


class BudgetExceeded(Exception):
    """A request does not fit under the limit of cost any more."""


class CostLimiter:
    """Lets a request go out only if its highest price still fits under ``limit`` (US dollars).

    Requests under way count at their highest price until theirs is known, so the limit is never
    passed; a request that does not fit waits for those, and is refused when there are none.
    ``limit`` may be moved between runs; ``own`` stays the one that it began with. Threads and event
    loops of one process may share it. Copies in other processes could not know of each other, so a
    limiter with a limit is of the process that made it.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = self.own = limit
        self.spent = self.at_stake = 0.0
        self.under_way = 0
        self._lock = ProcessLock()
        self._waiting: list[asyncio.Future[None]] = []
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        """What another process gets: what is under way here is not under way there."""
        return vars(self) | {"at_stake": 0.0, "under_way": 0, "_waiting": []}

    async def take(self, highest: float) -> None:
        """Reserve ``highest``, until ``pay``. Raises BudgetExceeded where it does not fit any more,
        and ConfigError in another process than the one that made the limiter."""
        while (changed := self._reserve(highest)) is not None:
            await changed

    def _reserve(self, highest: float) -> asyncio.Future[None] | None:
        """None where ``highest`` is reserved, else what is done when it may fit."""
        with self._lock:
            if self.limit is None or self.spent + self.at_stake + highest <= self.limit:
                self._require_own_process()
                self.at_stake += highest
                self.under_way += 1
                return None
            if not self.under_way:
                raise BudgetExceeded
            changed = asyncio.get_running_loop().create_future()
            self._waiting.append(changed)
            return changed

    def pay(self, highest: float, price: float | None) -> None:
        """A request is done: its own price takes the place of its highest."""
        with self._lock:
            self.at_stake -= highest
            self.under_way -= 1
            self.spent += price or 0.0
            waiting, self._waiting = self._waiting, []
        for each in waiting:
            with suppress(RuntimeError):  # its loop is closed, and nobody waits there any more
                each.get_loop().call_soon_threadsafe(_done, each)

    def _require_own_process(self) -> None:
        if self.limit is not None and os.getpid() != self._process:
            raise ConfigError(
                "a limit of cost holds in one process, and this one was started by another",
                hint="make the judge in each process, with its share of the limit as llm.max_cost",
            )

    def error(self, answered: int, asked: int) -> CostLimitError:
        """What to tell the user."""
        return CostLimitError(
            f"stopped before the limit of ${self.limit:.2f}: ${self.spent:.4f} spent, "
            f"{answered} of {asked} requests answered and kept",
            hint="run the same command again with a higher --max-cost: kept answers cost nothing",
        )


def _done(waiting: asyncio.Future[None]) -> None:
    if not waiting.done():  # who waited may have been cancelled
        waiting.set_result(None)
