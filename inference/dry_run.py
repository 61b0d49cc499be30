"""``medal score --dry-run``: estimates requests, tokens and cost without sending anything. The
judge's language model is replaced by one that counts requests. If a judge's next request depends on
an answer (selected follow-ups, summaries), only the first request is counted."""

from __future__ import annotations

from collections.abc import Iterable

from medal_judges.errors import ConfigError
from medal_judges.inference.scoring import DEFAULT_OPTIONS, ScoreOptions
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.cost import CostEstimate
from medal_judges.models.llm.server import RemoteModel
from medal_judges.records.dialogue import Dialogue


def estimate_cost_as_text(
    dialogues: Iterable[Dialogue], judge: Judge, options: ScoreOptions = DEFAULT_OPTIONS
) -> str:
    """Estimates the highest cost of scoring ``dialogues``, as a message for the user. Sends no
    request.

    The message states the number of requests, tokens and US dollars, for each language model of the
    judge.

    Args:
        judge: A judge that was loaded with ``dry_run=True``. Its language models count requests and
            send none.
        options: How the dialogues would be scored.

    Raises:
        ConfigError: The judge uses no language model.
    """
    models = []
    for model in dict.fromkeys(judge.language_models()):
        if isinstance(model, RemoteModel) and model.dry_run:
            models.append(model)
    if not models:
        raise ConfigError(
            "this judge uses no language model: there is nothing to estimate",
            hint="Leave --dry-run out",
        )
    count = len({judgement.id for judgement in options.score(judge, dialogues)})
    texts = []
    for model in models:
        text = describe_estimate(count, model.cost_estimate())
        if len(models) > 1:
            text = f"{model.name}: {text}"
        texts.append(text)
    return "\n".join(texts)


def describe_estimate(dialogues: int, e: CostEstimate) -> str:
    """Returns a cost estimate as a message of three lines: requests, tokens, and price in US
    dollars.

    Args:
        dialogues: The number of dialogues.
        e: The highest number of requests, tokens and dollars that one language model needs for
            them.
    """
    price = "the model runs on this machine: it has no price"
    if e.api:
        price = "the price of this model is not known (llm.prices=FILE sets one)"
    if e.money is not None:
        price = f"at most ${e.money:.4f}"
    return (
        f"dialogues: {dialogues}, requests: {e.requests}, answers in the cache: {e.kept}\n"
        f"tokens at most: {e.input} in prompts, {e.output} in answers (nothing was sent)\n{price}"
    )
