"""presence_penalty in the local backend, against its definition: logit - penalty * [said already].

OpenAI's API reference, "Frequency and presence penalties": the prompt does not count, and how often
a token was said does not matter.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.local.processors import PresencePenalty
from medal_judges.models.llm.protocol import ChatRequest, Message


def request(text: str = "Hi", **settings: float) -> ChatRequest:
    return ChatRequest((Message("user", text),), **{"max_tokens": 24, **settings})  # type: ignore[arg-type]


def test_logits_worked_out_by_hand() -> None:
    rows = [request(presence_penalty=0.5), request(), request(presence_penalty=-2.0)]
    # Two tokens of prompt, then what was said: 3 twice and 1; 0 and 4; nothing but 2.
    ids = torch.tensor([[0, 2, 3, 1, 3], [4, 4, 0, 4, 4], [0, 1, 2, 2, 2]])
    scores = torch.tensor([[1.0, 2.0, 3.0, 4.0, float("-inf")]] * 3)
    lowered = PresencePenalty(rows, prompt=2)(ids, scores)
    infinite = float("-inf")
    assert lowered.tolist() == [
        [1.0, 1.5, 3.0, 3.5, infinite],
        [1.0, 2.0, 3.0, 4.0, infinite],
        [1.0, 2.0, 5.0, 4.0, infinite],
    ]
    assert scores[0].tolist() == [1.0, 2.0, 3.0, 4.0, infinite]  # the model's own stay


def test_the_first_token_of_an_answer_is_not_lowered() -> None:
    ids, scores = torch.tensor([[3, 3, 3]]), torch.zeros(1, 5)
    assert PresencePenalty([request(presence_penalty=2.0)], 3)(ids, scores).tolist() == [[0.0] * 5]


@pytest.fixture(scope="module")
def llm(tiny_llama: Path) -> LocalModel:
    model = load_llm({"model": str(tiny_llama), "device": "cpu"})
    assert isinstance(model, LocalModel)
    return model


def by_definition(llm: LocalModel, asked: ChatRequest) -> list[int]:
    """Greedy tokens of an answer, one forward pass over the whole text each."""
    prompt = list(llm.template.prefix(asked.messages, "assistant"))
    said: list[int] = []
    while len(said) < asked.max_tokens:
        with torch.inference_mode():
            logits = llm.model(torch.tensor([prompt + said])).logits[0, -1].tolist()
        for token in set(said):
            logits[token] -= asked.presence_penalty
        said.append(max(range(len(logits)), key=logits.__getitem__))
        if said[-1] == llm.tokenizer.eos_token_id:
            return said[:-1]
    return said


def test_answers_are_those_of_the_definition_whatever_the_batch(llm: LocalModel) -> None:
    asked = [request("Hi", presence_penalty=p) for p in (0.0, 0.05, 2.0)]
    asked.append(request("A longer question than that, about tea?", presence_penalty=0.6))
    expected = [
        llm.tokenizer.decode(by_definition(llm, each), skip_special_tokens=True) for each in asked
    ]
    assert len(set(expected)) > 1  # the penalty does change something here
    assert [c.text for c in llm.chat(asked)] == expected
    assert [llm.chat([each])[0].text for each in asked] == expected
