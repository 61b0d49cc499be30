"""Plan: which first messages and which dialogues a run makes, in which order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medal_judges.data_prep.generation.unit import Unit, dialogue_id, opener_id
from medal_judges.data_prep.seeds.context import SeedContext


class Plan:
    """Contexts in order, in each the users, in each the chatbots.

    ``chosen`` are the chatbots that this run lets speak; the others' dialogues keep their places.
    """

    def __init__(
        self,
        contexts: Sequence[SeedContext],
        users: Sequence[str],
        chatbots: Sequence[str],
        chosen: Sequence[str] | None = None,
    ) -> None:
        self.users, self.chatbots = tuple(users), tuple(chatbots)
        self.chosen = self.chatbots if chosen is None else tuple(chosen)
        self.openers = {opener_id(c, user): (c, user) for c in contexts for user in users}

    @property
    def dialogues(self) -> int:
        """How many dialogues this run is to make."""
        return len(self.openers) * len(self.chosen)

    def opener(self, id: str) -> Unit | None:
        """A first message not yet made; None for a name that the plan does not have."""
        found = self.openers.get(id)
        return None if found is None else Unit(id, *found)

    def parts(self, id: str) -> tuple[str, str] | None:
        """(first message, chatbot) of a dialogue's name; None where the plan does not have it."""
        opener, _, chatbot = id.rpartition("--")
        return (opener, chatbot) if opener in self.openers and chatbot in self.chatbots else None

    def speaks(self, id: str) -> bool:
        """Whether the dialogue of that name is one that this run is to make."""
        parts = self.parts(id)
        return parts is not None and parts[1] in self.chosen

    def order(self) -> Iterator[str]:
        """Names of all dialogues, those of other runs' chatbots too."""
        for opener in self.openers:
            for chatbot in self.chatbots:
                yield dialogue_id(opener, chatbot)
