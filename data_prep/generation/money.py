"""One limit of cost over several paid models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from medal_judges.errors import ConfigError
from medal_judges.models.llm.counting import remote_of
from medal_judges.models.llm.openai_compatible import RemoteModel
from medal_judges.models.llm.protocol import LanguageModel


@dataclass(slots=True)
class Budget:
    """``limit`` US dollars of this run; None for no limit.

    Each model keeps to a purse of its own (spending.py). Before each round what is left is shared
    out evenly among the models that are asked in it, so that all together never pass the limit.
    """

    limit: float | None = None
    _remotes: dict[int, RemoteModel] = field(default_factory=dict)

    def share(self, models: Iterable[LanguageModel]) -> None:
        """Give each paid model of the coming round its share of what is left.

        Raises ConfigError for a server elsewhere whose prices are not known: its cost could not be
        bounded.
        """
        if self.limit is None:
            return
        asked = [remote for model in models if (remote := remote_of(model)) is not None]
        for remote in asked:
            if remote.price is None and not is_own(remote.base_url):
                raise ConfigError(
                    f"no price of {remote.model} is known, so --max-cost could not be kept",
                    hint="give its llm a file of prices (prices: PATH; configs/prices.yaml is the "
                    "form, 0 for a server that costs nothing)",
                )
            self._remotes[id(remote)] = remote
        paid = [remote for remote in asked if remote.price is not None]
        left = self.limit - self.spent
        for remote in paid:
            remote.purse.limit = remote.purse.spent + max(0.0, left) / len(paid)

    @property
    def spent(self) -> float:
        """US dollars so far."""
        return sum(remote.purse.spent for remote in self._remotes.values())


def is_own(base_url: str | None) -> bool:
    """Whether a server stands on this machine or in its private network: nobody sends a bill."""
    host = urlsplit(base_url or "").hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost"
