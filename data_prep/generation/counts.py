"""What a run has done, counted from its answers; for the progress bar, the terminal and
summary.json."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

from medal_judges.data_prep.generation.dialogue_state import DialogueState, Rejection
from medal_judges.data_prep.jobs import Answer


class GenerationCounts:
    """Answers of this run and of earlier ones in the same folder.

    ``ended``: finished dialogues by the way they ended. ``first`` and ``later``: at which try (from
    1) a user's turn was accepted, 0 if none was. ``unreadable``: verdicts that were neither yes nor
    no. ``by_rule``: rejections without a judge. ``turns`` and ``dialogues``: finished ones by
    language. ``usage``: by agent.
    """

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.first: Counter[int] = Counter()
        self.later: Counter[int] = Counter()
        self.accepted = self.rejected = self.unreadable = self.by_rule = self.replies = 0
        self.turns: Counter[str] = Counter()
        self.dialogues: Counter[str] = Counter()
        self.usage: dict[str, Counter[str]] = defaultdict(Counter)

    @property
    def finished(self) -> int:
        """The number of finished dialogues."""
        return sum(self.ended.values())

    @property
    def failed_openers(self) -> int:
        """The number of first messages without an accepted try: their dialogues do not exist."""
        return self.first[0]

    def add(
        self, agent: str, answer: Answer, state: DialogueState, rejection: Rejection | None
    ) -> None:
        """Count an answer of ``agent`` and what it led to."""
        usage = self.usage[agent]
        usage["requests"] += 1
        usage.update(answer.usage)
        self.replies += answer.stage == "reply"
        tries = self.first if state.chatbot is None else self.later
        if rejection is not None:
            self.rejected += 1
            self.by_rule += rejection.by == "rule"
            self.unreadable += not rejection.readable
            tries[0] += state.ended == "rejected"
        elif answer.stage == "check":
            self.accepted += 1
            tries[state.tries[-1]] += 1
        if state.ended is not None and state.chatbot is not None:
            self.ended[state.ended] += 1
            self.turns[state.context.lang] += len(state.turns)
            self.dialogues[state.context.lang] += 1

    def to_record(self) -> dict[str, Any]:
        """The counts as JSON; money only if a price is known."""

        def tries(counts: Counter[int]) -> dict[str, int]:
            accepted = {str(number): counts[number] for number in sorted(counts) if number}
            return accepted | {"never": counts[0]}

        return {
            "finished": self.finished,
            "ended": dict(self.ended),
            "first_messages_without_accepted_try": self.failed_openers,
            "user_turns": {
                "accepted": self.accepted,
                "rejected": self.rejected,
                "rejected_by_rule": self.by_rule,
                "unreadable_verdicts": self.unreadable,
                "accepted_at_try_first_turn": tries(self.first),
                "accepted_at_try_later_turns": tries(self.later),
            },
            "chatbot_turns": self.replies,
            "mean_turns": {
                lang: round(self.turns[lang] / count, 3)
                for lang, count in sorted(self.dialogues.items())
            },
            "usage": {agent: dict(usage) for agent, usage in sorted(self.usage.items())},
        }
