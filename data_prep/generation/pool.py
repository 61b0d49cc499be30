"""Pool: the units under way. At most ``at_once`` dialogues' texts are held in memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from medal_judges.data_prep.generation.journal import Event
from medal_judges.data_prep.generation.plan import Plan
from medal_judges.data_prep.generation.unit import Rejection, Rules, Unit, dialogue_id
from medal_judges.errors import MedalError


@dataclass(frozen=True, slots=True)
class Step:
    """What one event led to: the unit it belongs to as it is now, and the rejection, if any."""

    unit: Unit
    rejection: Rejection | None


@dataclass(slots=True)
class Pool:
    """``active``: units that wait for an answer. ``openers``: accepted first messages by name;
    ``failed``: those that no try of was accepted. ``done``: names of finished dialogues."""

    plan: Plan
    rules: Rules
    at_once: int
    active: dict[str, Unit] = field(default_factory=dict)
    openers: dict[str, Unit] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    _next: Iterator[str] | None = None

    def unit(self, event: Event) -> Unit:
        """The unit that ``event``, live or out of the journal, is the next answer of.

        Raises MedalError for an event that does not fit what came before.
        """
        unit = self.active.get(event.id) or self._known(event.id)
        if unit is None or unit.stage != event.stage:
            expected = "another unit" if unit is None else f"stage {unit.stage!r}"
            raise MedalError(
                f"the journal does not fit this run: {event.id} at stage {event.stage!r}, where "
                f"{expected} was expected",
                hint="give another out, or begin anew with --overwrite",
            )
        return unit

    def take(self, unit: Unit, event: Event) -> Step:
        """Let ``unit`` go on by its next answer."""
        self.active[unit.id] = unit
        rejection = unit.take(event.answer, event.cut, self.rules)
        if unit.over:
            self._finish(unit)
        return Step(unit, rejection)

    def _known(self, id: str) -> Unit | None:
        """The unit of an event out of the journal, whose first event this is."""
        if id in self.done or id in self.openers or id in self.failed:
            return None
        parts = self.plan.parts(id)
        if parts is None:
            return self.plan.opener(id)
        opener = self.openers.get(parts[0])
        return None if opener is None else opener.with_chatbot(parts[1])

    def _finish(self, unit: Unit) -> None:
        del self.active[unit.id]
        if unit.chatbot is not None:
            self.done.add(unit.id)
        elif unit.opened:
            self.openers[unit.id] = unit
        else:
            self.failed.add(unit.id)

    def begin(self) -> None:
        """Go through the plan from its start; to be called once the journal is read."""
        self._next = iter(self.plan.openers)
        chosen = set(self.plan.chosen)
        # Dialogues of chatbots that do not speak in this run stay where the journal left them.
        self.active = {k: u for k, u in self.active.items() if u.chatbot in chosen | {None}}

    def fill(self) -> None:
        """Let further units in while there is room. A first message counts as the dialogues it will
        become, so that these find room when it is accepted."""
        assert self._next is not None, "begin() first"
        share = len(self.plan.chosen)
        load = sum(share if unit.chatbot is None else 1 for unit in self.active.values())
        while load < self.at_once:
            id = next(self._next, None)
            if id is None:
                return
            load += self._admit(id, share)

    def _admit(self, id: str, share: int) -> int:
        """Let in the first message ``id``, or what is left of its dialogues; how many came in."""
        if id in self.openers:
            return self.spread(self.openers[id])
        if id in self.failed or id in self.active:
            return 0
        unit = self.plan.opener(id)
        assert unit is not None
        self.active[id] = unit
        return share

    def spread(self, opener: Unit) -> int:
        """Let in the dialogues of an accepted first message that are not there yet."""
        count = 0
        for chatbot in self.plan.chosen:
            id = dialogue_id(opener.id, chatbot)
            if id not in self.done and id not in self.active:
                self.active[id] = opener.with_chatbot(chatbot)
                count += 1
        return count
