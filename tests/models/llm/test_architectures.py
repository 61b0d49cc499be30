"""Quick ways of computing on random tiny models: those of the tested architectures are right."""

import numpy as np
import pytest

from medal_judges.models.llm.local.likelihood import TESTED, is_tested, score_one_by_one
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import ChatRequest, Continuation, Message

from . import architectures

TALK = (
    Message("user", "Hi! Did you have a nice weekend?"),
    Message("assistant", "I read a book about trains."),
)


def tiny(name: str) -> LocalModel:
    model, tokenizer = architectures.tiny_model(name), architectures.tiny_tokenizer()
    return LocalModel(model, tokenizer, name=name)


@pytest.mark.parametrize("name", architectures.ARCHITECTURES)
def test_likelihoods_and_answers_are_those_of_the_models_own_forward_pass(
    name: str,
) -> None:
    llm = tiny(name)
    texts = ("That's wrong.", "That's so nice!", "No.")
    group = [
        Continuation(TALK[:k], text, role="user") for k in (1, 2) for text in texts
    ]
    given = llm.loglikelihood([group], joint=True)[0]
    sequences = [llm.template.to_sequence(c) for c in group]
    plain, before = score_one_by_one(llm.model, sequences, joint=True)
    for ours, theirs, prefix in zip(given, plain, before, strict=True):
        np.testing.assert_allclose(ours.logprobs, theirs, atol=1e-4)
        assert ours.prefix_logprob == pytest.approx(prefix, abs=1e-2)
    asked = []
    for text in ("x" * 3, "x" * 9, "x" * 40, "y" * 9):
        messages = (*TALK, Message("user", text))
        asked.append(ChatRequest(messages, 5))
    for request, together in zip(asked, llm.chat(asked), strict=True):
        assert together.text == llm.chat([request])[0].text


def test_every_listed_architecture_is_tested_here() -> None:
    kinds = {kind for kind, _ in architectures.ARCHITECTURES.values()}
    assert TESTED - {"gemma3"} <= kinds  # gemma3 has a gemma3_text inside
    assert not is_tested(tiny("mamba").model.config)
