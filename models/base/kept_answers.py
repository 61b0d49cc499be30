"""How many of the answers that a judge was given were kept from before."""

from __future__ import annotations

from collections.abc import Iterable

from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.protocol import AnswerCounts


def answer_counts(judges: Iterable[Judge]) -> AnswerCounts:
    """The answers that the language models of ``judges`` gave until now, each model once."""
    models = {id(model): model for judge in judges for model in judge.language_models()}
    total = AnswerCounts()
    for model in models.values():
        counts = model.answer_counts()
        total.add(kept=counts.kept, asked=counts.asked)
    return total


def told(counts: AnswerCounts) -> str | None:
    """One line for a summary; None where no answer was kept from before."""
    if not counts.kept:
        return None
    total = counts.kept + counts.asked
    return (
        f"{counts.kept} of {total} answers were kept from before and not asked for; --no-cache "
        "asks for all of them"
    )
