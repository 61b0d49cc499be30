"""``medal score --dry-run``: estimates requests, tokens and cost without sending anything.

The judge runs on a language model that counts instead of answering. If a judge's next request
depends on an answer (selected follow-ups, summaries), only its first round is counted.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from medal_judges.errors import ConfigError
from medal_judges.inference.scoring import DEFAULT_OPTIONS, ScoreOptions
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.cache import CountingModel
from medal_judges.models.llm.cost import CostEstimate
from medal_judges.records.dialogue import Dialogue


@dataclass(frozen=True, slots=True)
class DryRun:
    """``dialogues`` and the most that scoring them takes."""

    dialogues: int
    estimate: CostEstimate

    def text(self) -> str:
        """Returns the estimate in words."""
        e = self.estimate
        lines = [
            f"{self.dialogues} dialogues: {e.requests} requests ({e.kept} more are in the cache)",
            f"at most {e.input} tokens in and {e.output} out; nothing was sent",
        ]
        if e.money is None:
            lines.append("the price of this model is not known (llm.prices=FILE sets one)")
        else:
            lines.append(f"at most ${e.money:.4f}")
        return "\n".join(lines)


def counting_model(judge: Judge) -> CountingModel | None:
    """Returns the judge's model that counts instead of answering, if it has one."""
    models = (model for model in judge.language_models() if isinstance(model, CountingModel))
    return next(models, None)


def dry_run(
    dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions = DEFAULT_OPTIONS
) -> DryRun:
    """Counts what ``judge``, whose ``llm`` is a CountingModel, asks about ``dialogues``."""
    llm = counting_model(judge)
    if llm is None:
        raise ConfigError(
            "this judge uses no language model: there is nothing to estimate",
            hint="leave out --dry-run",
        )
    llm.continuations = llm.continuation_tokens = 0  # a judge tries its model when it is made
    ids = {judgement.id for judgement in options.score(judge, dialogues)}
    return DryRun(len(ids), llm.counted())
