"""vLLM's real engine against transformers: the same judge, the same dialogues, both in fp32.

`make test-vllm` makes the environment and runs these: the engine pins its own torch and
transformers.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Continuation,
    LanguageModel,
    Message,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement

pytestmark = [
    pytest.mark.vllm,
    pytest.mark.skipif(
        not os.environ.get("MEDAL_JUDGES_DATA"),
        reason="MEDAL_JUDGES_DATA names no folder of sets",
    ),
]

MODEL = "embedded:smollm2"
ENGINE = {
    "model": f"vllm:{MODEL}",
    "dtype": "fp32",
    "context": 4096,
    "engine": {"enforce_eager": True},
}
NATS = 1e-3  # a token, between the two backends in fp32
SAME_ANSWERS = 0.95
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "score": {"enum": [1, 2, 3]},
    },
    "required": ["name", "score"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def dialogues() -> list[Dialogue]:
    """The 20 shortest dialogues of FED."""
    from medal_judges.data_prep.sources.registry import stream_rows

    rows = [row.dialogue for row in stream_rows("fed:dialogue")]
    rows.sort(key=lambda dialogue: sum(len(turn.content) for turn in dialogue.turns))
    return rows[:20]


@pytest.fixture(scope="module")
def local() -> LanguageModel:
    return load_llm({"model": MODEL, "dtype": "fp32", "context": 4095})


@pytest.fixture(scope="module")
def engine() -> Iterator[LanguageModel]:
    os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "2")
    model = load_llm(ENGINE)
    yield model
    model.close()


def follow_ups(dialogue: Dialogue) -> list[Continuation]:
    messages = tuple(Message(turn.role, turn.content) for turn in dialogue.turns)
    texts = ("That is great!", "You are not making sense.", "Stop repeating yourself.")
    return [Continuation(messages, text, role="user") for text in texts]


def flat(likelihoods: Sequence[Sequence[Any]]) -> np.ndarray:
    return np.concatenate([item.logprobs for group in likelihoods for item in group])


@pytest.mark.parametrize("joint", [False, True])
def test_likelihoods_are_those_of_transformers(
    local: LanguageModel, engine: LanguageModel, dialogues: list[Dialogue], joint: bool
) -> None:
    groups = [follow_ups(dialogue) for dialogue in dialogues[:8]]
    expected = local.loglikelihood(groups, joint=joint)
    scored = engine.loglikelihood(groups, joint=joint)
    assert np.abs(flat(scored) - flat(expected)).max() < NATS
    # The same again: now all of their tokens are in the engine's cache.
    again = engine.loglikelihood(groups, joint=joint)
    assert np.abs(flat(again) - flat(expected)).max() < NATS
    if joint:
        for group, expected_group in zip(scored, expected, strict=True):
            for likelihood, other in zip(group, expected_group, strict=True):
                assert likelihood.prefix_tokens == other.prefix_tokens
                difference = abs(likelihood.prefix_logprob - other.prefix_logprob)
                assert difference < NATS * likelihood.prefix_tokens


@pytest.mark.parametrize("schema", [SCHEMA, None])
def test_answers_hold_a_schema_and_are_those_of_transformers(
    local: LanguageModel,
    engine: LanguageModel,
    dialogues: list[Dialogue],
    schema: dict[str, Any] | None,
) -> None:
    requests = []
    for dialogue in dialogues:
        question = f"Name the topic and give a score: {dialogue.turns[0].content}"
        requests.append(
            ChatRequest(
                (Message("user", question),),
                max_tokens=48,
                schema=schema,
                top_logprobs=5,
            )
        )
    answers, expected = engine.chat(requests), local.chat(requests)
    if schema is not None:
        for answer in answers:
            assert json.loads(answer.text)["score"] in (1, 2, 3) and answer.enforced
    same = [a.text == b.text for a, b in zip(answers, expected, strict=True)]
    assert np.mean(same) >= SAME_ANSWERS
    for answer, other in zip(answers, expected, strict=True):
        if answer.text == other.text:
            own = [token.logprob for token in answer.tokens]
            assert own == pytest.approx(
                [token.logprob for token in other.tokens], abs=NATS
            )


def scores(
    judge: str, llm: LanguageModel, dialogues: list[Dialogue], **options: Any
) -> Any:
    loaded = Judge.from_pretrained(judge, llm=llm, **options)
    judgements: list[Judgement] = list(loaded.score(dialogues))
    return judgements


@pytest.mark.parametrize(
    ("judge", "options"),
    [
        # With 200 tokens two of 16 answers are cut, by transformers too.
        ("medal", {"max_tokens": 400}),
        ("geval", {"dimensions": ["overall"]}),
        ("contrast", {"answers": 1}),
        # SmolLM2's choice of follow-ups cannot be read.
        ("diet", {"select": None}),
    ],
)
def test_a_judge_gives_the_scores_of_transformers(
    judge: str,
    options: dict[str, Any],
    local: LanguageModel,
    engine: LanguageModel,
    dialogues: list[Dialogue],
) -> None:
    by_engine = scores(judge, engine, dialogues, **options)
    expected = scores(judge, local, dialogues, **options)
    same, total = 0, 0
    for judgement, other in zip(by_engine, expected, strict=True):
        assert judgement.scores.keys() == other.scores.keys()
        for name, score in judgement.scores.items():
            total += 1
            same += score == pytest.approx(other.scores[name], abs=0.01)
    assert total and same / total >= SAME_ANSWERS
    scored = [j for j in by_engine if j.scored]
    assert len(scored) >= len(dialogues) * SAME_ANSWERS
