"""How many of the answers that a judge was given were kept from before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from medal_judges.models.judge import Judge
from medal_judges.models.llm.cache import AnswerCounts, CachedModel


def answer_counts(judges: Iterable[Judge]) -> AnswerCounts:
    """The answers that the language models of ``judges`` gave until now, each model once."""
    models = {id(model): model for judge in judges for model in _models(judge)}
    total = AnswerCounts()
    for model in models.values():
        total.add(kept=model.counts.kept, asked=model.counts.asked)
    return total


def _models(judge: Judge) -> list[CachedModel]:
    llm = getattr(judge, "llm", None)
    own = [llm] if isinstance(llm, CachedModel) else []
    members: Mapping[str, Any] = getattr(judge, "members", {})
    return own + [model for member in members.values() for model in _models(member.judge)]


def told(counts: AnswerCounts) -> str | None:
    """One line for a summary; None where no answer was kept from before."""
    if not counts.kept:
        return None
    total = counts.kept + counts.asked
    return (
        f"{counts.kept} of {total} answers were kept from before and not asked for; --no-cache "
        "asks for all of them"
    )
