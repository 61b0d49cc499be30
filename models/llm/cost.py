"""Tokens and money: the usage of a request, its price, and the limit of cost of a run.

Prices come from a dated file of list prices, never from numbers in code.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError, MedalError

PROVIDER = "https://api.openai.com/v1"  # the client's own default
WAIT = 0.01  # seconds between two looks at a limit of cost that is used up for now

# of tokens; more is no count
Count = Annotated[int, Field(strict=True, ge=0, le=10**12)]
Amount = Annotated[float, Field(ge=0, allow_inf_nan=False)]


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens, time and money of a request. ``input`` includes the ``cached`` tokens, which did
    not have to be computed again. ``output`` includes the ``reasoning`` tokens.

    ``money``: US dollars, or None if the price is unknown. ``from_cache``: whether the answer came
    from the cache of answers on this machine, and so cost nothing this time.
    """

    input: Count = 0
    cached: Count = 0
    output: Count = 0
    reasoning: Count = 0
    seconds: Amount = 0.0
    money: Amount | None = None
    from_cache: bool = False

    def __add__(self, usage: Usage) -> Usage:
        money = None
        if self.money is not None and usage.money is not None:
            money = self.money + usage.money
        return Usage(
            self.input + usage.input,
            self.cached + usage.cached,
            self.output + usage.output,
            self.reasoning + usage.reasoning,
            self.seconds + usage.seconds,
            money,
        )

    def to_record(self) -> dict[str, float]:
        """Returns the usage in the form of ``Judgement.usage``. Has no key ``money`` if the price
        is unknown."""
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


def total_usage(records: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Returns the sum over ``records`` for each key. A record is a mapping like
    ``Judgement.usage``."""
    total: dict[str, float] = {}
    for record in records:
        for key, amount in record.items():
            total[key] = total.get(key, 0.0) + amount
    return total


def sum_usages(usages: Iterable[Usage]) -> dict[str, float]:
    """Returns the sum of ``usages`` as a mapping like ``Judgement.usage``."""
    records = []
    for usage in usages:
        records.append(
            {"tokens": float(usage.input + usage.output)} | usage.to_record()
        )
    return total_usage(records)


def usage_text(usage: Mapping[str, float]) -> str:
    """Returns ``usage`` in words, such as "1,200 tokens in and 80 out, $0.0012". Returns an empty
    text if no language model was asked."""
    if not usage.get("input_tokens"):
        return ""
    read, written = usage["input_tokens"], usage["output_tokens"]
    text = f"{read:,.0f} tokens in and {written:,.0f} out"
    if "money" in usage:
        text += f", ${usage['money']:.4f}"
    return text


class Price(Config):
    """The price of a model in US dollars per million tokens. ``input``: for tokens of the prompt.
    ``output``: for tokens of the answer, also for reasoning. ``cached``: for tokens of the prompt
    that the provider reads from its cache. None is the price of ``input``."""

    input: float = Field(ge=0)
    output: float = Field(ge=0)
    cached: float | None = Field(default=None, ge=0)

    def cost_of(self, usage: Usage) -> float:
        """Returns the price of ``usage`` in US dollars."""
        cached = self.input if self.cached is None else self.cached
        fresh = usage.input - usage.cached
        return (
            fresh * self.input + usage.cached * cached + usage.output * self.output
        ) / 1e6


class PriceFile(Config):
    """A file of list prices. ``servers``: the prices of models on one server, by host name.
    ``models``: the prices of models on any server."""

    models: Mapping[str, Price] = {}
    servers: Mapping[str, Mapping[str, Price]] = {}

    def find_price(self, model: str, base_url: str | None = None) -> Price | None:
        """Returns the price of ``model`` on the server at ``base_url``, or None if the file has no
        price. None as ``base_url`` is OpenAI's server. A dated version (``gpt-4.1-2025-04-14``) has
        the price of the model without a date."""
        host = urlsplit(base_url or PROVIDER).hostname or ""
        prices = {**self.servers.get(host, {}), **self.models}
        # "gpt-4.1-mini" is not a version of "gpt-4.1": a date has to follow.
        names = [n for n in prices if model == n or model.startswith(f"{n}-20")]
        return prices[max(names, key=len)] if names else None


def load_prices(path: str = "prices") -> PriceFile:
    """Returns the prices in ``path``, a shipped name or the user's own file. Raises ConfigError if
    the file cannot be read or a field is wrong."""
    return build_config(PriceFile, read_yaml(path), where=path)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """An upper bound on what ``requests`` cost. ``input`` and ``output``: tokens. ``money``: US
    dollars, or None if the price is unknown. ``kept``: how many more answers are in the cache and
    cost nothing. ``api``: whether the requests go to a server."""

    requests: int = 0
    kept: int = 0
    input: int = 0
    output: int = 0
    money: float | None = None
    api: bool = False


class CostLimitError(MedalError):
    """The next request could exceed the cost limit. The answers so far are in the cache."""

    exit_code = 4


class BudgetExceeded(Exception):
    """The highest possible price of a request exceeds what is left of the cost limit. No request is
    running that could still turn out cheaper."""


class CostLimiter:
    """A limit on the cost of requests. ``limit``: US dollars, or None for no limit. Several models
    may share a limiter. It works only in the process that made it.

    A request is sent only if its highest possible price fits under the limit. This price is
    reserved until the real one is known. A request that does not fit waits until running requests
    end.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.spent = self.at_stake = 0.0
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"at_stake": 0.0}

    async def reserve(self, highest: float) -> None:
        """Reserves ``highest`` US dollars until ``settle`` is called. Waits if they do not fit
        under the limit. Raises BudgetExceeded if they do not fit and no request is running. Raises
        ConfigError in any process but the one that made the limiter."""
        if self.limit is not None and os.getpid() != self._process:
            raise ConfigError(
                "a limit of cost works in one process only",
                hint="Load the judge in each process, with its share of the limit as llm.max_cost",
            )
        while (
            self.limit is not None and self.spent + self.at_stake + highest > self.limit
        ):
            if self.at_stake <= 1e-9:
                raise BudgetExceeded
            await asyncio.sleep(WAIT)
        self.at_stake += highest

    def settle(self, highest: float, price: float | None) -> None:
        """Releases the reserved ``highest`` US dollars, and adds the real ``price`` to the money
        spent."""
        self.at_stake -= highest
        self.spent += price or 0.0

    def limit_error(self) -> CostLimitError:
        """Returns the error for a reached limit. It tells the user how to continue with a higher
        one."""
        return CostLimitError(
            f"stopped before the limit of ${self.limit or 0.0:g}: ${self.spent:.4f} spent",
            hint="Type the same command with a higher --max-cost (in YAML: llm.max_cost). "
            "Saved answers cost nothing",
        )
