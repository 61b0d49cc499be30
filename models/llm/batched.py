"""Whether a language model is asked through a batch API, which takes hours and costs less."""

from __future__ import annotations

from medal_judges.models.llm.protocol import LanguageModel


def asks_in_batches(llm: LanguageModel) -> bool:
    """Whether each call of ``llm`` waits for a provider's batch API, so that one large call is
    worth more than many small ones."""
    found: LanguageModel | None = llm
    while found is not None and not getattr(found, "in_batches", False):
        found = getattr(found, "inner", None)  # a cache stands before it, or what counts
    return found is not None
