"""The transformers backend: batches, seeds, limits, likelihoods."""

from dataclasses import replace
from pathlib import Path

import pytest

from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.models.llm.local.model import LocalModel, load_local
from medal_judges.models.llm.protocol import ChatRequest, Continuation, Message
from medal_judges.models.llm.settings import TransformersLLM

TALK = (
    Message(
        "user",
        "Hi! Did you have a nice weekend? I went to the lake with my two sisters.",
    ),
    Message(
        "assistant",
        "That sounds lovely. I read a book about trains, it was rather long.",
    ),
    Message(
        "user",
        "Trains? I take the train to work each day, it is always late in the winter.",
    ),
    Message("assistant", "Mine too! Last week I waited for an hour in the snow."),
)


def asked(text: str, **settings: int | float) -> ChatRequest:
    return ChatRequest((*TALK, Message("user", text)), max_tokens=12, **settings)  # type: ignore[arg-type]


QUESTIONS = (
    "What is your name?",
    "How far is the lake?",
    "Say one word about snow, please.",
)


def test_an_answer_does_not_depend_on_its_batch(tiny_lm: LocalModel) -> None:
    requests = [asked(q) for q in QUESTIONS] + [
        ChatRequest((Message("user", "Hello"),), 5)
    ]
    together = tiny_lm.chat(requests)
    alone = [tiny_lm.chat([request])[0] for request in requests]
    assert [c.text for c in together] == [c.text for c in alone]
    assert max(c.usage.cached for c in together) > 90  # the dialogue was read once
    assert together[3].finish == "length" and together[3].usage.output == 5


def test_samples_depend_on_the_seed_and_on_nothing_else(tiny_lm: LocalModel) -> None:
    base = asked(QUESTIONS[0], temperature=1.0, top_p=0.9)
    requests = [replace(base, seed=seed) for seed in (0, 1, 2, 0)]
    together = [c.text for c in tiny_lm.chat(requests)]
    assert together[0] == together[3] and len(set(together)) >= 2
    assert together[1] == tiny_lm.chat([requests[1]])[0].text


def test_what_does_not_fit_is_told(tiny_lm: LocalModel) -> None:
    long = (Message("user", "word " * 9000),)
    answer = tiny_lm.chat([ChatRequest(long, 5)])[0]
    assert answer.finish == "failed" and "do not fit the 8192 tokens" in str(
        answer.failure
    )
    with pytest.raises(ConfigError, match="do not fit the 8192 tokens"):
        tiny_lm.loglikelihood([[Continuation(long, "Hm.")]])


def test_an_encoder_is_no_language_model(tiny_bert: Path) -> None:
    """transformers would draw the weights of its head at random."""
    with pytest.raises(
        NotAvailableError, match=r"not a language model: .* missing: cls\.predictions"
    ):
        load_local(TransformersLLM(model=str(tiny_bert)))
