"""One limit of cost over several paid models."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from medal_judges.errors import ConfigError
from medal_judges.models.llm.cost import CostLimiter, CostLimitError, Usage
from medal_judges.models.llm.protocol import LanguageModel


@dataclass(slots=True)
class Budget:
    """``limit`` US dollars of this run; None for no limit.

    Each model keeps to a limiter of its own (CostLimiter). Before each round what is left is shared
    out evenly among the models that are asked in it, so that all together never pass the limit. A
    limit in a model's own settings (``llm.max_cost``) holds beside it.
    """

    limit: float | None = None
    _limiters: dict[int, CostLimiter] = field(default_factory=dict)
    _before: dict[int, float] = field(default_factory=dict)  # spent by earlier runs of this process

    def share(self, models: Iterable[LanguageModel]) -> None:
        """Give each paid model of the coming round its share of what is left.

        Raises ConfigError for a server elsewhere whose prices are not known: its cost could not be
        bounded.
        """
        asked = [(m, limiter) for m in models if (limiter := m.limiter) is not None]
        if self.limit is None:
            for _, limiter in asked:  # an earlier run of this process may have given it a share
                limiter.limit = limiter.own
            return
        paid = []
        for model, limiter in asked:
            if model.cost(Usage()) is not None:
                paid.append(limiter)
            elif not model.capabilities.private:
                raise ConfigError(
                    f"no price of {model.name} is known, so --max-cost could not be kept",
                    hint="give its llm a file of prices (prices: PATH; configs/prices.yaml is the "
                    "form, 0 for a server that costs nothing)",
                )
            self._limiters[id(limiter)] = limiter
            self._before.setdefault(id(limiter), limiter.spent)
        left = self.limit - self.spent
        for limiter in paid:
            share = limiter.spent + max(0.0, left) / len(paid)
            limiter.limit = share if limiter.own is None else min(share, limiter.own)

    @property
    def spent(self) -> float:
        """US dollars so far."""
        return sum(limiter.spent - self._before[key] for key, limiter in self._limiters.items())

    def error(self, limit: CostLimitError) -> CostLimitError:
        """What to tell of the ``limit`` that one model met: its own, or the one of the run."""
        limiters = self._limiters.values()
        if self.limit is None or any(p.own is not None and p.limit == p.own for p in limiters):
            return limit
        return CostLimitError(
            f"stopped before the limit of ${self.limit:.2f}: all models together spent "
            f"${self.spent:.4f}, and the next answer could pass it; every answer is kept",
            hint="run the same command again with a higher --max-cost: it goes on from here",
        )
