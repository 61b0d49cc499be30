"""What is kept of each written token: the model's own numbers, and no logits of earlier steps."""

from __future__ import annotations

import gc
import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch

from medal_judges.models.llm.local.generation import write
from medal_judges.models.llm.protocol import ChatRequest, Message

_SPEC = importlib.util.spec_from_file_location(
    "architectures", Path(__file__).with_name("architectures.py")
)
assert _SPEC is not None and _SPEC.loader is not None
architectures: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(architectures)

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ASK = (Message("user", "?"),)


def test_the_numbers_are_those_of_one_pass_before_grammar_and_temperature() -> None:
    model, tokenizer = architectures.tiny_model("llama"), architectures.tiny_tokenizer()
    prompts = [tokenizer(text).input_ids for text in ("abc " * 9, "what now", "x")]
    requests = [
        ChatRequest(ASK, 12, top_logprobs=3, schema=SCHEMA),
        ChatRequest(ASK, 9, top_logprobs=3, temperature=2.0, seed=1),
        ChatRequest(ASK, 15, top_logprobs=3, presence_penalty=2.0),
    ]
    for prompt, row in zip(prompts, write(model, tokenizer, prompts, requests), strict=True):
        assert len(row.ids) == len(row.logprobs) > 4
        with torch.no_grad():
            logits = model(torch.tensor([prompt + row.ids])).logits[0].float()
        wanted = torch.log_softmax(logits, -1)[len(prompt) - 1 : -1]
        for token, said, own in zip(row.ids, row.logprobs, wanted, strict=True):
            assert said.own == pytest.approx(float(own[token]), abs=1e-4)
            best = own.topk(3)
            assert said.logprobs == pytest.approx(best.values.tolist(), abs=1e-4)
            assert said.ids == best.indices.tolist()


def test_the_logits_of_one_step_are_held_at_a_time() -> None:
    model, tokenizer = architectures.tiny_model("llama"), architectures.tiny_tokenizer()
    shape, alive = (3, model.config.vocab_size), []

    def count(*_: object) -> None:
        tensors = [o for o in gc.get_objects() if type(o) is torch.Tensor]
        alive.append(sum(t.shape[0::2] == shape or t.shape == shape for t in tensors))

    hook = model.register_forward_pre_hook(count)
    requests = [ChatRequest(ASK, 30, top_logprobs=3, temperature=1.0, seed=k) for k in range(3)]
    write(model, tokenizer, [[50, 60, 70]] * 3, requests)
    hook.remove()
    assert len(alive) >= 25 and max(alive[5:]) <= 3
    assert not model._forward_hooks  # nothing is left to read a later pass
