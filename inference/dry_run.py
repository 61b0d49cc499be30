"""``medal score --dry-run``: what a judge would ask, in requests, tokens and dollars; nothing sent.

The judge runs for real on a language model that counts instead of answering, so what is counted is
what would be asked. Where a judge asks on because of an answer (selected follow-ups, summaries) the
count is that of its first round.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from medal_judges.errors import ConfigError
from medal_judges.inference.scoring import DEFAULT_OPTIONS, ScoreOptions
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.cost import CostEstimate
from medal_judges.models.llm.counting import CountingModel
from medal_judges.records.dialogue import Dialogue


@dataclass(frozen=True, slots=True)
class DryRun:
    """``dialogues`` and what judging them takes at most."""

    dialogues: int
    estimate: CostEstimate

    def text(self) -> str:
        """The estimate in words, for the terminal."""
        e = self.estimate
        lines = [
            f"{self.dialogues} dialogues: {e.requests} requests "
            f"({e.kept} more are answered already)",
            f"at most {e.input} tokens in and {e.output} out; nothing was sent",
        ]
        if e.money is None:
            lines.append("no price of this model is known (llm.prices=FILE gives one)")
        else:
            lines.append(
                f"at most ${e.money:.4f}; ${e.longer:.4f} if each were cut and asked again"
            )
        return "\n".join(lines)


def counting_model(judge: Judge) -> CountingModel | None:
    """The model that counts instead of answering, where ``judge`` asks one."""
    models = (model for model in judge.language_models() if isinstance(model, CountingModel))
    return next(models, None)


def dry_run(
    dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions = DEFAULT_OPTIONS
) -> DryRun:
    """Count what ``judge``, whose ``llm`` is a CountingModel, asks about ``dialogues``."""
    llm = counting_model(judge)
    if llm is None:
        raise ConfigError(
            "this judge asks no language model: there is nothing to estimate",
            hint="leave out --dry-run",
        )
    llm.continuations = llm.continuation_tokens = 0  # a judge tries it out when it is made
    ids = {judgement.id for judgement in options.score(judge, dialogues)}
    return DryRun(len(ids), llm.counted())
