"""Which first messages and dialogues a run makes, in which order, and which are under way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from medal_judges.data_prep.generation.dialogue_state import (
    DialogueState,
    Event,
    ProtocolLimits,
    Rejection,
    dialogue_id,
)
from medal_judges.data_prep.seeds.context import SeedContext
from medal_judges.errors import MedalError


class GenerationPlan:
    """Contexts in order, in each the users, in each the chatbots.

    ``speaking`` are the chatbots that take part in this run (default: all); the others' dialogues
    keep their places.
    """

    def __init__(
        self,
        contexts: Sequence[SeedContext],
        users: Sequence[str],
        chatbots: Sequence[str],
        speaking: Sequence[str] | None = None,
    ) -> None:
        self.chatbots = tuple(chatbots)
        self.speaking = self.chatbots if speaking is None else tuple(speaking)
        self.openers = {f"{c.id}--{user}": (c, user) for c in contexts for user in users}

    @property
    def dialogues(self) -> int:
        """How many dialogues this run is to make."""
        return len(self.openers) * len(self.speaking)

    def parts(self, id: str) -> tuple[str, str] | None:
        """(first message, chatbot) of a dialogue's name; None where the plan does not have it."""
        opener, _, chatbot = id.rpartition("--")
        return (opener, chatbot) if opener in self.openers and chatbot in self.chatbots else None

    def speaks(self, id: str) -> bool:
        """Whether the dialogue of that name is one that this run is to make."""
        parts = self.parts(id)
        return parts is not None and parts[1] in self.speaking

    def order(self) -> Iterator[str]:
        """Names of all dialogues, those of other runs' chatbots too."""
        for opener in self.openers:
            for chatbot in self.chatbots:
                yield dialogue_id(opener, chatbot)


@dataclass(slots=True)
class ActiveDialogues:
    """At most ``at_once`` dialogues' texts are held in memory.

    ``active``: states that wait for an answer. ``openers``: accepted first messages by name;
    ``failed``: first messages without an accepted attempt. ``done``: names of finished dialogues.
    """

    plan: GenerationPlan
    limits: ProtocolLimits
    at_once: int
    active: dict[str, DialogueState] = field(default_factory=dict)
    openers: dict[str, DialogueState] = field(default_factory=dict)
    failed: set[str] = field(default_factory=set)
    done: set[str] = field(default_factory=set)
    _next: Iterator[str] | None = None

    def take(self, event: Event) -> tuple[DialogueState, Rejection | None]:
        """Apply ``event``, live or read from the journal: the state it belongs to as it is now, and
        the rejection it led to.

        Raises MedalError for an event that does not fit what came before.
        """
        state = self.active.get(event.id) or self._begun_by(event.id)
        if state is None or state.stage != event.stage:
            expected = "another dialogue" if state is None else f"stage {state.stage!r}"
            raise MedalError(
                f"the journal does not fit this run: {event.id} at stage {event.stage!r}, where "
                f"{expected} was expected",
                hint="give another --out, or start again from the beginning with --overwrite",
            )
        self.active[state.id] = state
        rejection = state.take(event.answer, event.cut)
        if state.over:
            self._finish(state)
        return state, rejection

    def _begun_by(self, id: str) -> DialogueState | None:
        """A new state for the first event that the journal has of ``id``."""
        if id in self.done or id in self.openers or id in self.failed:
            return None
        parts = self.plan.parts(id)
        if parts is None:
            return self._new_opener(id)
        opener = self.openers.get(parts[0])
        return None if opener is None else opener.with_chatbot(parts[1])

    def _new_opener(self, id: str) -> DialogueState | None:
        seed = self.plan.openers.get(id)
        return None if seed is None else DialogueState(id, *seed, self.limits)

    def _finish(self, state: DialogueState) -> None:
        del self.active[state.id]
        if state.chatbot is not None:
            self.done.add(state.id)
        elif state.opened:
            self.openers[state.id] = state
        else:
            self.failed.add(state.id)

    def begin(self) -> None:
        """Go through the plan from its start; to be called once the journal is read."""
        self._next = iter(self.plan.openers)
        speaking = {*self.plan.speaking, None}
        # Dialogues of chatbots that do not speak in this run stay where the journal left them.
        self.active = {k: s for k, s in self.active.items() if s.chatbot in speaking}

    def fill(self) -> None:
        """Admit further dialogues while there is room. A first message counts as the dialogues it
        will become, so that these find room when it is accepted."""
        assert self._next is not None, "begin() first"
        share = len(self.plan.speaking)
        load = sum(share if state.chatbot is None else 1 for state in self.active.values())
        while load < self.at_once and (id := next(self._next, None)) is not None:
            load += self._admit(id, share)

    def _admit(self, id: str, share: int) -> int:
        """Admit the first message ``id``, or what is left of its dialogues; how many came in."""
        if id in self.openers:
            return self.spread(self.openers[id])
        if id in self.failed or id in self.active:
            return 0
        opener = self._new_opener(id)
        assert opener is not None
        self.active[id] = opener
        return share

    def spread(self, opener: DialogueState) -> int:
        """Admit the dialogues of an accepted first message that are not there yet."""
        count = 0
        for chatbot in self.plan.speaking:
            id = dialogue_id(opener.id, chatbot)
            if id not in self.done and id not in self.active:
                self.active[id] = opener.with_chatbot(chatbot)
                count += 1
        return count
