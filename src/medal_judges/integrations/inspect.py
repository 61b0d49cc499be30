"""Inspect: a scorer of the task's conversation. Inspect finds this file by the package's entry
point."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any

from inspect_ai.model import ChatMessage
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from medal_judges.config import BOXED
from medal_judges.integrations.chats import (
    JudgeSource,
    ScoredChats,
    load_judge,
    score_chats,
)
from medal_judges.models.base.judge import NO_ASSISTANT_TURN, ScoreLevel


@scorer(metrics={"*": [mean(), stderr()]})
def medal_judge(
    judge: JudgeSource = BOXED,
    dimensions: Sequence[str] | None = None,
    level: ScoreLevel = "dialogue",
    max_cost: float | None = None,
) -> Scorer:
    """Returns a scorer of Inspect that scores the conversation of a sample with a judge.

    The value of a sample's score is dimension -> mean score. Its ``metadata`` has the judge's
    ``signature`` (a string that identifies it) and its ``judgements``. If the judge gives no score,
    the sample is unscored.

    Args:
        judge: Shipped name, folder, YAML file, Hub id or loaded judge. The default is ``boxed``.
        dimensions: Names of the dimensions to score. None means all.
        level: ``dialogue``, ``last`` (the last assistant turn), or ``turn`` for the mean over the
            assistant turns.
        max_cost: The most US dollars that a judge behind an API may spend. None sets no limit.

    Raises:
        JudgeLoadError: The judge cannot be loaded.
        ConfigError: ``max_cost`` is given for a judge that is loaded already or costs nothing.
    """
    loaded = load_judge(judge, max_cost=max_cost)

    async def score(state: TaskState, target: Target) -> Score:
        chat: dict[str, Any] = {
            "messages": list(map(_to_openai_message, state.messages))
        }
        lang = (state.metadata or {}).get("lang")
        if isinstance(lang, str):
            chat["lang"] = lang
        # In a thread, so that Inspect's other samples continue.
        scored = await asyncio.to_thread(
            score_chats,
            [chat],
            loaded,
            level=level,
            dimensions=dimensions,
            name="samples",
        )
        return _to_inspect_score(scored)

    return score


def _to_inspect_score(scored: ScoredChats) -> Score:
    """Returns the mean of ``scored`` in each dimension as a Score of Inspect."""
    judgements = []
    failures = {}
    explanations = []
    for judgement in scored.judgements:
        record = judgement.to_record()
        judgements.append(
            {name: record[name] for name in ("turn", "scores", "failure")}
        )
        if judgement.failure:
            failures[judgement.failure] = True
        if judgement.explanation:
            explanations.append(judgement.explanation)
    metadata = {"signature": scored.judge_signature, "judgements": judgements}
    names = [dimension.name for dimension in scored.dimensions]
    means = {name: scored.mean(name) for name in names}
    reasons = "; ".join(failures) or None
    if all(map(math.isnan, means.values())):
        reason = "scoring_failed"
        if reasons == NO_ASSISTANT_TURN:
            reason = "no_response"
        return Score.unscored(
            reason=reason,
            explanation=reasons,
            metadata=metadata,
        )
    return Score(
        value=means,
        explanation="\n".join(explanations) or reasons,
        metadata=metadata,
    )


def _to_openai_message(message: ChatMessage) -> dict[str, Any]:
    """Returns ``message`` in OpenAI's chat format, such as ``{"role": "user", "content": "Hi"}``.
    Content parts stay unchanged."""
    content = message.content
    if not isinstance(content, str):
        content = [part.model_dump(exclude_none=True) for part in content]
    record: dict[str, Any] = {"role": message.role, "content": content}
    if message.role == "assistant" and message.tool_calls:
        calls = []
        for call in message.tool_calls:
            function = {"name": call.function, "arguments": call.arguments}
            calls.append({"id": call.id, "function": function})
        record["tool_calls"] = calls
    if message.role == "tool":
        record |= {"tool_call_id": message.tool_call_id, "name": message.function}
    return record
