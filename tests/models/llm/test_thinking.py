"""Models that think first: the block, its budget, the grammar behind it, the tokens apart."""

import json
from typing import Any

import pytest
import torch

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.llm.chat_template import BUDGET
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.prompted.judge import PromptedJudge
from medal_judges.records.dialogue import Dialogue, Turn

from . import architectures

pytest.importorskip("llguidance")

_TURNS = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
# As DeepSeek-R1's: the template begins the thinking.
ALWAYS = _TURNS + (
    "{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n{% endif %}{# </think> #}"
)
# As Qwen3's: it thinks unless it is told not to, and an empty block stands before a turn that is.
OPTIONAL = (
    "{% for m in messages %}<|im_start|>{{ m.role }}\n"
    "{% if m.role == 'assistant' and loop.last %}<think>\n\n</think>\n\n{% endif %}"
    "{{ m.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}"
    "{% endif %}"
)
ASK = (Message("user", "Rate the bread."),)
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "enum": [1, 2, 3]}},
    "required": ["score"],
    "additionalProperties": False,
}


def thinker(template: str, thinking: int | None = None) -> LocalModel:
    """A tiny Llama for which the end of the block is one token, and a likely one."""
    tokenizer = architectures.tiny_tokenizer(template)
    tokenizer.add_tokens(["</think>"])
    model = architectures.tiny_model("llama")
    model.resize_token_embeddings(len(tokenizer))
    with torch.no_grad():
        model.lm_head.weight[-1] = 2 * model.lm_head.weight[100]
    return LocalModel(model, tokenizer, name="thinker", thinking=thinking)


def asked(seed: int, **settings: Any) -> ChatRequest:
    return ChatRequest(ASK, 30, temperature=1.0, seed=seed, **settings)


def test_a_schema_holds_the_answer_and_not_the_thinking() -> None:
    llm = thinker(ALWAYS, 60)
    answers = llm.chat([asked(seed, schema=SCHEMA) for seed in range(6)])
    prompt = len(llm.thinking.prompt(ASK))
    for answer in answers:
        assert json.loads(answer.text)["score"] in (1, 2, 3)
        assert answer.finish == "stop" and answer.enforced
        assert 0 < answer.usage.reasoning <= 60 < 60 + answer.usage.output
        assert answer.usage.output > answer.usage.reasoning
        # the prompt and the five ids that close the block at most
        assert prompt <= answer.usage.input <= prompt + 3
    lengths = {answer.usage.reasoning for answer in answers}
    assert min(lengths) < 60, "one of them ends its thinking by itself"
    alone = llm.chat([asked(3, schema=SCHEMA)])[0]
    assert (alone.text, alone.usage.reasoning) == (
        answers[3].text,
        answers[3].usage.reasoning,
    )


def test_a_model_thinks_unasked_only_where_its_template_begins_so() -> None:
    always = thinker(ALWAYS)
    assert always.thinking.budget == BUDGET and always.context == always.window // 2
    assert thinker(ALWAYS, 0).chat([asked(0)])[0].usage.reasoning == 0
    optional = thinker(OPTIONAL)
    assert optional.thinking.budget == 0 and optional.context == optional.window
    said = optional.tokenizer.decode(optional.template.prefix(ASK, "assistant"))
    assert said.endswith("<think>\n\n</think>\n\n")
    willing = thinker(OPTIONAL, 40)
    assert willing.tokenizer.decode(willing.thinking.prompt(ASK)).endswith(
        "assistant\n<think>\n"
    )
    assert 0 < willing.chat([asked(0)])[0].usage.reasoning <= 40
    with pytest.raises(ConfigError, match="no block to think in"):
        thinker(architectures.TEMPLATE, 40)


def test_oralis_judges_with_a_model_that_thinks() -> None:
    """As with its DeepSeek-R1 models: thinking first, then an answer that the schema holds."""
    settings = {**read_yaml("configs/judges/oralis.yaml"), "llm": thinker(ALWAYS, 50)}
    judge = PromptedJudge.from_settings(settings | {"comment_chars": 20})
    judge.llm.window = judge.llm.context = 8000  # type: ignore[attr-defined]
    dialogue = Dialogue("1", (Turn("user", "hi"), Turn("assistant", "yo")))
    (judgement,) = judge.score([dialogue])
    assert judgement.failure is None and None not in judgement.scores.values()
    thought = judgement.usage["reasoning_tokens"]
    assert 0 < thought <= 50 * len(judgement.scores)
    assert judgement.usage["output_tokens"] > thought
