"""Money: what was spent, what is at stake in requests under way, and where it has to stop."""

from __future__ import annotations

import asyncio

from medal_judges.errors import MedalError


class CostLimitError(MedalError):
    """The next request could pass the limit of cost; what was answered is kept (exit code 4)."""

    exit_code = 4


class BudgetExceeded(Exception):
    """A request does not fit under the limit of cost any more."""


class CostLimiter:
    """Lets a request go out only if its highest price still fits under ``limit`` (US dollars).

    Requests under way count at their highest price until theirs is known, so the limit is never
    passed; a request that does not fit waits for those, and is refused when there are none.
    ``limit`` may be moved between runs; ``own`` stays the one that it began with.
    """

    def __init__(self, limit: float | None) -> None:
        self.limit = self.own = limit
        self.spent = self.at_stake = 0.0
        self.under_way = 0
        self._changed: asyncio.Condition | None = None

    async def take(self, highest: float) -> None:
        """Reserve ``highest``. Raises BudgetExceeded where it does not fit any more."""
        if self._changed is None:
            self._changed = asyncio.Condition()
        async with self._changed:
            while self.limit is not None and self._total(highest) > self.limit:
                if not self.under_way:
                    raise BudgetExceeded
                await self._changed.wait()
            self.at_stake += highest
            self.under_way += 1

    async def pay(self, highest: float, price: float | None) -> None:
        """A request is done: its own price takes the place of its highest."""
        assert self._changed is not None
        async with self._changed:
            self.at_stake -= highest
            self.under_way -= 1
            self.spent += price or 0.0
            self._changed.notify_all()

    def _total(self, highest: float) -> float:
        return self.spent + self.at_stake + highest

    def fresh_loop(self) -> None:
        """A condition belongs to one event loop; called before each run."""
        self._changed = None

    def error(self, answered: int, asked: int) -> CostLimitError:
        """What to tell the user."""
        return CostLimitError(
            f"stopped before the limit of ${self.limit:.2f}: ${self.spent:.4f} spent, "
            f"{answered} of {asked} requests answered and kept",
            hint="run the same command again with a higher --max-cost: kept answers cost nothing",
        )
