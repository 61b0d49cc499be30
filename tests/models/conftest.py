"""A language model as an API gives it, made of one of this machine."""

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
