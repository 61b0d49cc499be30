"""What a chat template puts around a turn, for templates of several temperaments."""

from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.protocol import Continuation, Message

CHATML = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
STRICT = (  # as Gemma's: no system role, roles in turns, its own beginning token
    "{{ bos_token }}{% for m in messages %}"
    "{% if m.role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
    "{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}"
    "{{ raise_exception('Conversation roles must alternate') }}{% endif %}"
    "<|im_start|>{{ m.role }}\n{{ m.content | trim }}<|im_end|>\n{% endfor %}"
)
MUTE = "{% for m in messages %}{% if m.role != 'system' %}[{{ m.role }}]{{ m.content }}<|im_end|>{% endif %}{% endfor %}"  # noqa: E501
HI = (Message("user", "hi"), Message("assistant", "yo"))


def tokenizer(template: str | None, *, adds_bos: bool = False) -> Any:
    """Bytes as tokens, so that ids decode to exactly what was written."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {letter: i for i, letter in enumerate(letters)}
    backend = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = __import__("tokenizers").decoders.ByteLevel()
    found = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        bos_token="<s>",
        eos_token="<|im_end|>",
        additional_special_tokens=["<|im_start|>"],
    )
    if adds_bos:
        found.backend_tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A",
            special_tokens=[("<s>", found.convert_tokens_to_ids("<s>"))],
        )
    found.chat_template = template
    return found


def test_a_turn_is_parted_into_what_stands_before_it_itself_and_its_end() -> None:
    tok = tokenizer(CHATML)
    chat = ChatTemplate(tok)
    assert tok.decode(chat.prefix_ids(HI, "user")) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\nyo<|im_end|>\n<|im_start|>user\n"
    )
    open_end = chat.to_sequence(Continuation(HI, "no way", "user", score_eos=False))
    assert tok.decode(open_end.ids[open_end.start :]) == "no way"
    whole = chat.to_sequence(Continuation(HI, "no way", "user"))
    assert tok.decode(whole.ids[whole.start :]) == "no way<|im_end|>"
    assert list(whole.ids[: whole.start]) == chat.prefix_ids(HI, "user")


@pytest.mark.parametrize("template", [CHATML, STRICT, None])
@pytest.mark.parametrize("adds_bos", [True, False])
def test_one_beginning_token_never_two(template: str | None, adds_bos: bool) -> None:
    t = tokenizer(template, adds_bos=adds_bos)
    ids = ChatTemplate(t).prefix_ids(HI, "assistant" if template == CHATML else "user")
    wanted = adds_bos or template == STRICT
    assert ids.count(t.bos_token_id) == int(wanted)
    assert not wanted or ids[0] == t.bos_token_id


@pytest.mark.parametrize("template", [STRICT, MUTE])
def test_a_system_message_that_the_template_refuses_or_drops_is_folded(
    template: str,
) -> None:
    tok = tokenizer(template)
    chat = ChatTemplate(tok)
    text = tok.decode(chat.prefix_ids((Message("system", "Be kind."), *HI), "user"))
    assert "Be kind.\n\nhi" in text
    assert chat.identity()["system"] == "folded"


def word_start_tokenizer(template: str | None, *, scheme: str) -> Any:
    """As Llama 2's: a piece "▁" begins each word, and is put before a text. ``scheme``: by its
    normalizer, as published first, or by its pre-tokenizer, as since."""
    from tokenizers import decoders, normalizers

    letters = [chr(c) for c in range(32, 127) if chr(c) != " "] + ["▁", "好", "的"]
    words = ["▁Tha", "▁That", "▁Th", "▁T", "Th", "Tha", "That"]
    pieces = ["<unk>", "<s>", "</s>", "<0x0A>", *letters, *words]
    merges = [("▁", "T"), ("▁T", "h"), ("▁Th", "a"), ("▁Tha", "t")]
    merges += [("T", "h"), ("Th", "a"), ("Tha", "t")]
    inner = Tokenizer(
        models.BPE(
            {p: i for i, p in enumerate(pieces)},
            merges,
            unk_token="<unk>",
            byte_fallback=True,
        )
    )
    if scheme == "normalizer":
        inner.normalizer = normalizers.Sequence(
            [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
        )
    else:
        inner.pre_tokenizer = pre_tokenizers.Metaspace(
            prepend_scheme="first", split=False
        )
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    )
    found = PreTrainedTokenizerFast(
        tokenizer_object=inner, bos_token="<s>", eos_token="</s>"
    )
    found.chat_template = template
    return found


LLAMA2 = (
    "{% for m in messages %}{% if m.role == 'user' %}{{ bos_token + '[INST] ' + m.content + "
    "' [/INST]' }}{% else %}{{ ' ' + m.content + ' ' + eos_token }}{% endif %}{% endfor %}"
)


@pytest.mark.parametrize("scheme", ["normalizer", "pre-tokenizer"])
@pytest.mark.parametrize("text", ["That was it.", "x", "好的"])
def test_no_word_start_piece_is_left_alone_at_the_boundary(
    scheme: str, text: str
) -> None:
    tok = word_start_tokenizer(LLAMA2, scheme=scheme)
    chat = ChatTemplate(tok)
    turns = [{"role": "user", "content": "hi"}]
    asked = tok.apply_chat_template(
        turns, add_generation_prompt=True, return_dict=False
    )
    assert chat.prefix_ids(HI[:1], "assistant") == asked
    whole = chat.to_sequence(Continuation(HI[:1], text))
    said = [*turns, {"role": "assistant", "content": text}]
    assert list(whole.ids) == tok.apply_chat_template(said, return_dict=False)
    assert tok.decode(whole.ids[whole.start :]).strip() == f"{text} </s>"
    assert whole.start == len(asked)
