"""One limit of cost over several paid models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

from medal_judges.errors import ConfigError
from medal_judges.models.llm.counting import remote_of
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.models.llm.server.model import RemoteModel
from medal_judges.models.llm.server.spending import CostLimitError


@dataclass(slots=True)
class Budget:
    """``limit`` US dollars of this run; None for no limit.

    Each model keeps to a limiter of its own (spending.py). Before each round what is left is shared
    out evenly among the models that are asked in it, so that all together never pass the limit. A
    limit in a model's own settings (``llm.max_cost``) holds beside it.
    """

    limit: float | None = None
    _remotes: dict[int, RemoteModel] = field(default_factory=dict)
    _before: dict[int, float] = field(default_factory=dict)  # spent by earlier runs of this process

    def share(self, models: Iterable[LanguageModel]) -> None:
        """Give each paid model of the coming round its share of what is left.

        Raises ConfigError for a server elsewhere whose prices are not known: its cost could not be
        bounded.
        """
        asked = [remote for model in models if (remote := remote_of(model)) is not None]
        if self.limit is None:
            for remote in asked:  # an earlier run of this process may have given it a share
                remote.limiter.limit = remote.limiter.own
            return
        for remote in asked:
            if remote.price is None and not is_own(remote.base_url):
                raise ConfigError(
                    f"no price of {remote.model} is known, so --max-cost could not be kept",
                    hint="give its llm a file of prices (prices: PATH; configs/prices.yaml is the "
                    "form, 0 for a server that costs nothing)",
                )
            self._remotes[id(remote)] = remote
            self._before.setdefault(id(remote), remote.limiter.spent)
        paid = [remote for remote in asked if remote.price is not None]
        left = self.limit - self.spent
        for remote in paid:
            share = remote.limiter.spent + max(0.0, left) / len(paid)
            own = remote.limiter.own
            remote.limiter.limit = share if own is None else min(share, own)

    @property
    def spent(self) -> float:
        """US dollars so far."""
        found = self._remotes.items()
        return sum(remote.limiter.spent - self._before[key] for key, remote in found)

    def error(self, limit: CostLimitError) -> CostLimitError:
        """What to tell of the ``limit`` that one model met: its own, or the one of the run."""
        limiters = [remote.limiter for remote in self._remotes.values()]
        if self.limit is None or any(p.own is not None and p.limit == p.own for p in limiters):
            return limit
        return CostLimitError(
            f"stopped before the limit of ${self.limit:.2f}: all models together spent "
            f"${self.spent:.4f}, and the next answer could pass it; every answer is kept",
            hint="run the same command again with a higher --max-cost: it goes on from here",
        )


def is_own(base_url: str | None) -> bool:
    """Whether a server stands on this machine or in its private network: nobody sends a bill."""
    host = urlsplit(base_url or "").hostname or ""
    try:
        return ip_address(host).is_private
    except ValueError:
        return host == "localhost"
