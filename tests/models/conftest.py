"""A language model as an API gives it, made of one of this machine."""

import copy
from typing import Any

import pytest

from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import (
    Message,
)
from medal_judges.models.prompted.geval import GEvalJudge, GPTScoreJudge


def told(
    judge: GEvalJudge | GPTScoreJudge, request: ScoreRequest, name: str
) -> list[Message]:
    """What the judge says about one dimension."""
    judge._prepare([request])
    (question,) = judge.questions(request, [name])
    return list(judge.messages(request, question))


def token_logs(model: LocalModel, prompt: str, start: str, answer: str) -> list[float]:
    """Log-probability of each of the answer's tokens after the prompt and ``start``."""
    import torch

    chat = [{"role": "user", "content": prompt}]
    asked = model.tokenizer.apply_chat_template(
        chat, tokenize=False, add_generation_prompt=True
    )
    head = model.tokenizer(asked + start, add_special_tokens=False).input_ids
    tail = model.tokenizer(" " + answer, add_special_tokens=False).input_ids
    with torch.no_grad():
        logits = model.model(torch.tensor([head + tail])).logits[0].float()
    steps = torch.log_softmax(logits, dim=-1)[len(head) - 1 : -1]
    return [float(steps[i, token]) for i, token in enumerate(tail)]


@pytest.fixture(scope="session")
def digits_lm(tiny_lm: Any) -> Any:
    """``tiny_lm``, but nearly all it says is digits, some likelier than others."""
    import torch

    from medal_judges.models.llm.local.model import LocalModel

    model = copy.deepcopy(tiny_lm.model)
    with torch.no_grad():
        numbers = tiny_lm.tokenizer.convert_tokens_to_ids(list("0123456789"))
        model.lm_head.weight[numbers, 0] += 60
    return LocalModel(model, tiny_lm.tokenizer, name="embedded/digits")
