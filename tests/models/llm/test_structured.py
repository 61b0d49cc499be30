"""Grammar masks on the embedded model: valid JSON, each row by itself, an end after the object."""

from __future__ import annotations

import json
from typing import Any

import pytest

from medal_judges.errors import ConfigError
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.local.processors import grammar_processor
from medal_judges.models.llm.protocol import ChatRequest, Message

pytest.importorskip("llguidance")


def closed(**fields: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


SCHEMA = closed(
    label={"type": "integer", "enum": [1, 2, 3]}, comment={"type": "string", "maxLength": 6}
)
QUESTIONS = ("How good is bread?", "Say something long about the snow in the mountains.", "x")


def test_every_row_of_a_batch_follows_the_schema_and_ends(smollm2: LocalModel) -> None:
    requests = [ChatRequest((Message("user", q),), 40, schema=SCHEMA) for q in QUESTIONS]
    together = smollm2.chat(requests)
    for completion in together:
        answer = json.loads(completion.text)
        assert set(answer) == {"label", "comment"} and answer["label"] in (1, 2, 3)
        assert len(answer["comment"]) <= 6
        assert completion.enforced and completion.finish == "stop"
    assert smollm2.chat(requests[1:2])[0].text == together[1].text


def test_rows_may_have_schemas_and_limits_of_their_own(smollm2: LocalModel) -> None:
    ask = (Message("user", "Rate the bread."),)
    other = closed(score={"type": "integer", "minimum": 0, "maximum": 100})
    schemas = (SCHEMA, other, None)
    requests = [ChatRequest(ask, 30, schema=schema) for schema in schemas]
    requests.append(ChatRequest(ask, 4, schema=SCHEMA))
    labelled, scored, free, cut = smollm2.chat(requests)
    assert set(json.loads(labelled.text)) == {"label", "comment"}
    assert 0 <= json.loads(scored.text)["score"] <= 100
    assert not free.enforced and not free.text.startswith("{")
    assert cut.finish == "length" and labelled.text.startswith(cut.text)


def test_samples_stay_inside_the_grammar(smollm2: LocalModel) -> None:
    ask = (Message("user", "Rate the bread."),)
    requests = [ChatRequest(ask, 40, temperature=2.0, seed=s, schema=SCHEMA) for s in range(4)]
    texts = [c.text for c in smollm2.chat(requests)]
    assert all(json.loads(text)["label"] in (1, 2, 3) for text in texts)
    assert len(set(texts)) > 1


def test_a_schema_that_no_grammar_can_hold_is_refused(smollm2: LocalModel) -> None:
    with pytest.raises(ConfigError, match="no grammar can be made"):
        grammar_processor(smollm2.tokenizer, {"type": "no such type"})
