"""What tokens cost: a dated file of list prices, never numbers in code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.models.llm.cost import Usage

PER = 1_000_000  # prices are per million tokens


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


@dataclass(frozen=True, slots=True)
class Estimate:
    """What requests can take at most: ``input`` and ``output`` tokens, and US dollars (None where
    no price is known). ``kept`` requests are answered already and cost nothing; they are not
    counted in the rest. ``longer``: dollars if every answer were cut and asked for once more with
    twice the room."""

    requests: int = 0
    kept: int = 0
    input: int = 0
    output: int = 0
    money: float | None = None
    longer: float | None = None


def load_prices(path: str = "prices") -> PriceFile:
    """The shipped file, or the user's own of the same form. Raises ConfigError."""
    return build_config(PriceFile, read_yaml(path), where=path)


def _is_version(model: str, name: str) -> bool:
    # "gpt-4.1-mini" is no version of "gpt-4.1": what follows has to be a date.
    return model.startswith(f"{name}-") and model[len(name) + 1 :][:2] == "20"
