"""What a run has done, counted from its events; for the progress bar, the terminal and
summary.json."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from medal_judges.data_prep.generation.dialogue_state import DialogueState, Event, Rejection
from medal_judges.report.progress import EVERY, ProgressBar


@dataclass(slots=True)
class GenerationCounts:
    """Events of this run and of earlier ones in the same folder.

    ``ended``: finished dialogues by the way they ended. ``first`` and ``later``: at which try
    (from 1) a user's turn was accepted, 0 for those that were not. ``unreadable``: verdicts that
    were neither yes nor no. ``by_rule``: rejections that needed no judge. ``turns`` and
    ``dialogues``: of finished dialogues, by language. ``usage``: what each agent's answers took.
    """

    ended: Counter[str] = field(default_factory=Counter)
    first: Counter[int] = field(default_factory=Counter)
    later: Counter[int] = field(default_factory=Counter)
    accepted: int = 0
    rejected: int = 0
    unreadable: int = 0
    by_rule: int = 0
    replies: int = 0
    turns: Counter[str] = field(default_factory=Counter)
    dialogues: Counter[str] = field(default_factory=Counter)
    usage: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))

    @property
    def finished(self) -> int:
        """How many dialogues are finished."""
        return sum(self.ended.values())

    @property
    def answers(self) -> int:
        """How many answers there were, of all agents."""
        return sum(usage["requests"] for usage in self.usage.values())

    @property
    def failed_openers(self) -> int:
        """How many first messages no try of was accepted: their dialogues do not exist."""
        return self.first[0]

    def add(
        self, agent: str, event: Event, state: DialogueState, rejection: Rejection | None
    ) -> None:
        """Count an event of ``agent`` and what it led to."""
        usage = self.usage[agent]
        usage["requests"] += 1
        usage.update(event.usage)
        self.replies += event.stage == "reply"
        tries = self.first if state.chatbot is None else self.later
        if rejection is not None:
            self.rejected += 1
            self.by_rule += rejection.by == "rule"
            self.unreadable += not rejection.readable
            tries[0] += state.ended == "rejected"
        elif event.stage == "check":
            self.accepted += 1
            tries[state.tries[-1]] += 1
        if state.ended is not None and state.chatbot is not None:
            self.ended[state.ended] += 1
            self.turns[state.context.lang] += len(state.turns)
            self.dialogues[state.context.lang] += 1

    def to_record(self) -> dict[str, Any]:
        """The counts as JSON; money only where a price is known."""
        return {
            "finished": self.finished,
            "ended": dict(self.ended),
            "first_messages_without_accepted_try": self.failed_openers,
            "user_turns": {
                "accepted": self.accepted,
                "rejected": self.rejected,
                "rejected_by_rule": self.by_rule,
                "unreadable_verdicts": self.unreadable,
                "accepted_at_try_first_turn": _tries(self.first),
                "accepted_at_try_later_turns": _tries(self.later),
            },
            "chatbot_turns": self.replies,
            "mean_turns": {
                lang: round(self.turns[lang] / count, 3)
                for lang, count in sorted(self.dialogues.items())
            },
            "usage": {agent: dict(usage) for agent, usage in sorted(self.usage.items())},
        }


def _tries(counts: Counter[int]) -> dict[str, int]:
    """Try -> how many user turns were accepted at it; ``never`` for those that were not."""
    return {str(number): counts[number] for number in sorted(counts) if number} | {
        "never": counts[0]
    }


Progress = Callable[[GenerationCounts, int], None]


@contextmanager
def generation_bar(
    dialogues: int, chatbots: int = 1, *, every: float = EVERY
) -> Iterator[Progress]:
    """Finished dialogues of ``dialogues`` on standard error, with the counts of user turns; yields
    the function that moves the bar. A first message without an accepted attempt takes its
    ``chatbots`` dialogues off the total."""
    with ProgressBar("generating", dialogues, every=every) as bar:

        def advance(counts: GenerationCounts, under_way: int) -> None:
            note = (
                f"accepted {counts.accepted}, rejected {counts.rejected}, "
                f"ended {counts.ended['user']}, under way {under_way}"
            )
            total = dialogues - counts.failed_openers * chatbots
            bar.update(counts.finished, total=total, note=note)

        yield advance
