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
    """The tokens, time and money that a request took.

    Attributes:
        input: The number of tokens of the prompt, including cached ones.
        cached: The number of tokens of the prompt that were taken from a prefix cache.
        output: The number of tokens of the answer, including reasoning.
        reasoning: The number of tokens of reasoning before the answer.
        seconds: The time of the request in seconds.
        money: The price in US dollars, or None if it is unknown.
        from_cache: Whether the answer came from this machine's cache and cost nothing this time.
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
        """Returns the usage as a mapping, such as ``{"input_tokens": 12, "cached_tokens": 0,
        "output_tokens": 3, "reasoning_tokens": 0, "seconds": 0.5, "money": 0.001}``.

        ``money`` is in US dollars, and 0 for an answer from the cache. The key is missing if the
        price is unknown.
        """
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


def sum_usage_records(records: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Adds up usages that are stored as mappings, such as ``{"input_tokens": 12, "seconds": 0.5}``.

    Args:
        records: The mappings. A key that a mapping lacks counts as 0.

    Returns:
        Key -> the sum of its values. Empty if there are no mappings.
    """
    total: dict[str, float] = {}
    for record in records:
        for key, amount in record.items():
            total[key] = total.get(key, 0.0) + amount
    return total


def sum_to_record(usages: Iterable[Usage]) -> dict[str, float]:
    """Returns the sum of ``usages`` as a mapping, such as ``{"tokens": 15.0, "input_tokens": 12,
    "output_tokens": 3, "seconds": 0.5}``. ``tokens`` is input and output together."""
    records = []
    for usage in usages:
        records.append(
            {"tokens": float(usage.input + usage.output)} | usage.to_record()
        )
    return sum_usage_records(records)


def usage_text(usage: Mapping[str, float]) -> str:
    """Returns ``usage`` in words, such as "1,200 tokens in and 80 out, $0.0012".

    Args:
        usage: A usage as a mapping, such as ``{"input_tokens": 1200, "output_tokens": 80, "money":
            0.0012}``. If it has no input tokens, the returned text is empty.
    """
    if not usage.get("input_tokens"):
        return ""
    read, written = usage["input_tokens"], usage["output_tokens"]
    text = f"{read:,.0f} tokens in and {written:,.0f} out"
    if "money" in usage:
        text += f", ${usage['money']:.4f}"
    return text


class Price(Config):
    """The price of a model in US dollars per million tokens.

    Attributes:
        input: The price of tokens of the prompt.
        output: The price of tokens of the answer, including those of reasoning.
        cached: The price of prompt tokens that the provider has in its cache. None is the price of
            ``input``.
    """

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
    """A file of list prices.

    Attributes:
        models: Model name -> its price on any server. If a model is here and in ``servers``, this
            price counts.
        servers: Host name, such as ``api.openai.com`` -> model name -> its price on this server
            only.
    """

    models: Mapping[str, Price] = {}
    servers: Mapping[str, Mapping[str, Price]] = {}

    def find_price(self, model: str, base_url: str | None = None) -> Price | None:
        """Returns the price of ``model`` on a server, or None if the file has no price.

        A dated version of a model (``gpt-4.1-2025-04-14``) has the price of the undated name
        (``gpt-4.1``).

        Args:
            base_url: The address of the server. None is OpenAI's.
        """
        host = urlsplit(base_url or PROVIDER).hostname or ""
        prices = {**self.servers.get(host, {}), **self.models}
        # "gpt-4.1-mini" is not a version of "gpt-4.1": a date has to follow.
        names = [n for n in prices if model == n or model.startswith(f"{n}-20")]
        return prices[max(names, key=len)] if names else None


def load_prices(path: str = "prices") -> PriceFile:
    """Returns the list prices in the YAML file ``path``. It may be the name of a shipped file, such
    as ``prices``.

    Raises:
        ConfigError: The file cannot be read, or a field is wrong.
    """
    return build_config(PriceFile, read_yaml(path), where=path)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """An upper bound on the cost of requests that are not sent yet.

    Attributes:
        requests: The number of requests to send.
        kept: The number of further requests that are not sent, because their answers are in the
            cache. They cost nothing.
        input: The number of tokens of the prompts of all requests to send.
        output: The maximum number of tokens of their answers.
        money: The price of ``input`` and ``output`` in US dollars, or None if it is unknown.
        api: Whether the requests go to a server.
    """

    requests: int = 0
    kept: int = 0
    input: int = 0
    output: int = 0
    money: float | None = None
    api: bool = False


class CostLimitError(MedalError):
    """A run ends because its next request could exceed the cost limit. The answers so far are saved
    in the cache."""

    exit_code = 4


class BudgetExceeded(Exception):
    """The rest of the cost limit is too small for a request, and no running request can give back a
    part of what it reserved. The run then ends with a CostLimitError."""


class CostLimiter:
    """A limit on the cost of requests. Several models in one process may share it.

    Call ``reserve`` with the highest possible price before each request, and ``settle`` with the
    real price afterwards.

    Args:
        limit: The limit in US dollars, or None for no limit.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = limit
        self.spent = self.at_stake = 0.0
        self._process = os.getpid()

    def __getstate__(self) -> dict[str, object]:
        return vars(self) | {"at_stake": 0.0}

    async def reserve(self, highest: float) -> None:
        """Reserves ``highest`` US dollars for a request until ``settle`` is called. If too little
        of the limit is left, first waits for running requests to end.

        Raises:
            BudgetExceeded: Too little of the limit is left, and no request is running.
            ConfigError: There is a limit, and this limiter was created in another process.
        """
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
        spent. An unknown price (None) adds nothing."""
        self.at_stake -= highest
        self.spent += price or 0.0

    def limit_error(self) -> CostLimitError:
        """Returns the error to raise when the limit is reached, with a hint how to resume."""
        return CostLimitError(
            f"stopped before the limit of ${self.limit or 0.0:g}: ${self.spent:.4f} spent",
            hint="Type the same command with a higher --max-cost (in YAML: llm.max_cost). "
            "Saved answers cost nothing",
        )
