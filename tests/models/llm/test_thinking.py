"""Models that think first: the block, its budget, the grammar behind it, the tokens apart."""

import json
from typing import Any

import pytest
import torch

from medal_judges.errors import ConfigError
from medal_judges.models.llm.chat_template import BUDGET
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import ChatRequest, Message

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
    read = [answer for answer in answers if answer.text]
    assert read  # one of them ends its thinking within its budget
    for answer in read:
        assert json.loads(answer.text)["score"] in (1, 2, 3)
        assert answer.finish == "stop" and answer.enforced
    for answer, seed in zip(answers, range(6), strict=True):
        assert llm.chat([asked(seed, schema=SCHEMA)])[0].text == answer.text


def test_a_model_thinks_unasked_only_where_its_template_begins_so() -> None:
    always = thinker(ALWAYS)
    assert always.thinking == BUDGET and always.context == always.window // 2
    optional = thinker(OPTIONAL)
    assert optional.thinking == 0 and optional.context == optional.window
    said = optional.tokenizer.decode(optional.template.prefix_ids(ASK, "assistant"))
    assert said.endswith("<think>\n\n</think>\n\n")
    willing = thinker(OPTIONAL, 40)
    prompt = willing.tokenizer.decode(willing._prompt_ids(ASK))
    assert prompt.endswith("assistant\n<think>\n")
    with pytest.raises(ConfigError, match="no block to think in"):
        thinker(architectures.TEMPLATE, 40)
