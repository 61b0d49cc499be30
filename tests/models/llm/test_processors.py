"""What shapes an answer token by token, against its definition: nucleus, penalty, grammar."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.generation import _keep_top_p
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import ChatRequest, Message

pytest.importorskip("llguidance")


def request(
    text: str = "Rate the bread.", tokens: int = 40, **settings: Any
) -> ChatRequest:
    return ChatRequest((Message("user", text),), tokens, **settings)


# -- the nucleus (Holtzman et al. 2020) ------------------------------------------------------------


@pytest.mark.parametrize(
    "spread", [0.0, 0.5, 2.0, 8.0], ids=["flat", "wide", "usual", "sharp"]
)
@pytest.mark.parametrize("size", [5, 5000])
def test_the_nucleus_is_the_definitions(spread: float, size: int) -> None:
    noise = torch.randn(size, generator=torch.Generator().manual_seed(0))
    for top_p in (0.1, 0.5, 0.9, 0.95):
        # Distinct values, so that the set is unique; a sum that meets top_p to the last digit of
        # float32 may go either way.
        logits = noise * spread + torch.arange(size) * 1e-4
        ordered, ids = logits.double().sort(descending=True)
        chances = ordered.softmax(dim=-1)
        expected = set(ids[chances.cumsum(-1) - chances < top_p].tolist())
        kept = torch.isfinite(_keep_top_p(logits, top_p)).nonzero().flatten()
        assert len(set(kept.tolist()) ^ expected) <= 1


# -- presence_penalty: logit - penalty * [in the answer already] (OpenAI's API reference) ----------


def test_penalised_answers_are_those_of_the_definition_in_any_batch(
    tiny_llama: Path,
) -> None:
    llm: Any = load_llm({"model": str(tiny_llama), "device": "cpu"})

    def by_definition(asked: ChatRequest) -> str:
        prompt, answer = (
            list(llm.template.prefix_ids(asked.messages, "assistant")),
            list[int](),
        )
        while len(answer) < asked.max_tokens:
            with torch.inference_mode():
                logits = (
                    llm.model(torch.tensor([prompt + answer])).logits[0, -1].tolist()
                )
            for token in set(answer):
                logits[token] -= asked.presence_penalty
                logits[token] -= asked.frequency_penalty * answer.count(token)
            answer.append(max(range(len(logits)), key=logits.__getitem__))
            if answer[-1] == llm.tokenizer.eos_token_id:
                answer.pop()
                break
        return str(llm.tokenizer.decode(answer, skip_special_tokens=True))

    asked = [request("Hi", 24, presence_penalty=p) for p in (0.0, 0.05, 2.0)]
    asked.append(
        request("A longer question than that, about tea?", 24, presence_penalty=0.6)
    )
    asked.append(request("Hi", 24, frequency_penalty=0.7))
    expected = [by_definition(each) for each in asked]
    assert len(set(expected)) > 1  # the penalty does change something here
    assert [c.text for c in llm.chat(asked)] == expected
    assert [llm.chat([each])[0].text for each in asked] == expected


# -- the grammar -----------------------------------------------------------------------------------


def closed(**fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


SCHEMA = closed(
    label={"type": "integer", "enum": [1, 2, 3]},
    comment={"type": "string", "maxLength": 6},
)
QUESTIONS = (
    "How good is bread?",
    "Say something long about the snow in the mountains.",
    "x",
)


def test_every_row_of_a_batch_follows_the_schema_and_ends(tiny_lm: LocalModel) -> None:
    requests = [request(q, schema=SCHEMA) for q in QUESTIONS]
    together = tiny_lm.chat(requests)
    for completion in together:
        answer = json.loads(completion.text)
        assert set(answer) == {"label", "comment"} and answer["label"] in (1, 2, 3)
        assert len(answer["comment"]) <= 6
        assert completion.enforced and completion.finish == "stop"
    assert tiny_lm.chat(requests[1:2])[0].text == together[1].text


def test_rows_may_have_schemas_and_limits_of_their_own(tiny_lm: LocalModel) -> None:
    other = closed(score={"type": "integer", "minimum": 0, "maximum": 100})
    requests = [request(tokens=30, schema=schema) for schema in (SCHEMA, other, None)]
    labelled, scored, free, cut = tiny_lm.chat(
        [*requests, request(tokens=4, schema=SCHEMA)]
    )
    assert set(json.loads(labelled.text)) == {"label", "comment"}
    assert 0 <= json.loads(scored.text)["score"] <= 100
    assert not free.enforced and not free.text.startswith("{")
    assert cut.finish == "length" and labelled.text.startswith(cut.text)
