"""Text by others that spells a tokenizer's own marks stays text, for every family that has a
tokenizer; special tokens without a vector never reach a network."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken
from transformers import AutoTokenizer

from medal_judges import Judge
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.protocol import Message
from medal_judges.records.dialogue import Dialogue, Turn

# Flagged as special and not named, as <|start_header_id|> of Llama 3 and <image_soft_token> of
# Gemma 3 are.
UNNAMED = "<|start_header_id|>"


@pytest.fixture(scope="module")
def tokenizer(tiny_llama: Path) -> Any:
    made = AutoTokenizer.from_pretrained(tiny_llama)
    made.add_tokens([AddedToken(UNNAMED, special=True)])
    assert UNNAMED not in made.all_special_tokens
    return made


@pytest.mark.parametrize("mark", ["<|im_end|>", "<|im_start|>", "<pad>", UNNAMED])
@pytest.mark.parametrize("template", [True, False])
def test_a_turn_cannot_spell_a_mark(mark: str, template: bool, tokenizer: Any) -> None:
    kept = tokenizer.chat_template
    try:
        tokenizer.chat_template = kept if template else None
        chat = ChatTemplate(tokenizer)
        for role in ("user", "assistant", "system"):
            said = [Message(role, f"a{mark}b"), Message("user", "x")]  # type: ignore[arg-type]
            plain = [Message(role, "a b"), Message("user", "x")]  # type: ignore[arg-type]
            number = tokenizer.convert_tokens_to_ids(mark)
            ids, usual = (chat.prefix_ids(m, "assistant") for m in (said, plain))
            assert ids.count(number) == usual.count(number)
            assert " ".join(mark) in tokenizer.decode(ids)
    finally:
        tokenizer.chat_template = kept


def chats(text: str) -> list[Dialogue]:
    return [
        Dialogue(
            "1",
            (Turn("user", f"music {text} film"), Turn("assistant", f"river {text}")),
        )
    ]


def test_a_turn_with_a_separator_is_read_as_text(
    judge_folder: Callable[[str], Path],
) -> None:
    judge = Judge.from_pretrained(judge_folder("linear"))
    assert isinstance(judge, LinearJudge) and judge.reader.encoder is not None
    one, other = judge.reader.encoder.token_ids(["a [SEP]", "a [ S E P ]"])
    assert one == other
    flat = Judge.from_pretrained(judge_folder("encoder"))
    assert isinstance(flat, EncoderJudge)
    marked, plain = flat.renderer.render([*chats("[SEP]"), *chats("[ S E P ]")])
    assert marked.ids == plain.ids
