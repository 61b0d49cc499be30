"""Inspect: a scorer of the task's conversation. Inspect imports this file by its entry point."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from inspect_ai.model import ChatMessage
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from medal_judges.config import BOXED
from medal_judges.integrations.chats import JudgeSource, ScoredChats, load_judge, score_chats
from medal_judges.models.base.judge import NO_ASSISTANT_TURN, ScoreLevel


@scorer(metrics={"*": [mean(), stderr()]})
def medal_judge(
    judge: JudgeSource = BOXED,
    dimensions: Sequence[str] | None = None,
    level: ScoreLevel = "dialogue",
    max_cost: float | None = None,
) -> Scorer:
    """Scores the conversation in each dimension, on the dimension's own scale.

    At level turn the score is the mean over the assistant's turns, and ``metadata`` has the score
    of each turn; it always has the judge's signature. A conversation without a score is unscored in
    Inspect, with its reason, and left out of means.
    """
    loaded = load_judge(judge, max_cost=max_cost)

    async def score(state: TaskState, target: Target) -> Score:
        chat = {"messages": [_message(each) for each in state.messages]}
        lang = (state.metadata or {}).get("lang")
        if isinstance(lang, str):
            chat["lang"] = lang  # type: ignore[assignment]
        # In a thread, so that Inspect's other samples continue.
        scored = await asyncio.to_thread(
            score_chats, [chat], loaded, level=level, dimensions=dimensions, place="samples"
        )
        return _score(scored)

    return score


def _score(scored: ScoredChats) -> Score:
    records: list[dict[str, Any]] = [j.to_record() for j in scored.judgements]
    shown = [{name: r[name] for name in ("turn", "scores", "failure")} for r in records]
    metadata = {"signature": scored.signature, "judgements": shown}
    means = {}
    for dimension in scored.dimensions:
        known = [v for j in scored.judgements if (v := j.scores[dimension.name]) is not None]
        means[dimension.name] = sum(known) / len(known) if known else float("nan")
    failures = dict.fromkeys(j.failure for j in scored.judgements if j.failure)
    reasons = "; ".join(failures) or None
    if all(value != value for value in means.values()):
        silent = reasons == NO_ASSISTANT_TURN
        reason = "no_response" if silent else "scoring_failed"
        return Score.unscored(reason=reason, explanation=reasons, metadata=metadata)
    explanations = [j.explanation for j in scored.judgements if j.explanation]
    return Score(value=means, explanation="\n".join(explanations) or reasons, metadata=metadata)


def _message(message: ChatMessage) -> dict[str, Any]:
    """Returns the message in OpenAI's form, with its parts unchanged."""
    content = message.content
    if not isinstance(content, str):
        content = [part.model_dump(exclude_none=True) for part in content]
    made: dict[str, Any] = {"role": message.role, "content": content}
    if message.role == "assistant" and message.tool_calls:
        made["tool_calls"] = [
            {"id": call.id, "function": {"name": call.function, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.role == "tool":
        made |= {"tool_call_id": message.tool_call_id, "name": message.function}
    return made
