"""The ids at the boundary between a prompt and what is said after it, as a template's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from medal_judges.models.llm.chat_template import ChatTemplate
from medal_judges.models.llm.protocol import Continuation, LanguageModel, Message

Verdict = Literal["pass", "warn", "fail", "skip"]


def boundary(
    llm: LanguageModel, talk: Sequence[Message], said: Sequence[str]
) -> tuple[Verdict, str, str]:
    """Ids of ``said`` by the assistant after the first turn of ``talk``, beside those that the
    tokenizer gives the whole text; how many beginning-of-sequence tokens stand in front; whether
    the prefix ends in a word-start piece of its own."""
    template: ChatTemplate | None = getattr(llm, "template", None)
    if template is None:
        return "skip", "–", "no prompt of ours (a server's: llm.tokenizer shows it)"
    faults, other = [], 0
    first = talk[0]
    for text in said:
        sequence = template.sequence(Continuation((first,), text))
        wanted = _wanted(template, first, text)
        other += sum(a != b for a, b in zip(sequence.ids, wanted, strict=False))
        bos = template.tokenizer.bos_token_id
        if bos is not None and list(sequence.ids[:2]) == [bos, bos]:
            faults.append("two beginning-of-sequence tokens")
        if sequence.start < len(sequence.ids) and _stray(template, sequence.ids, sequence.start):
            faults.append("a word-start piece alone at the end of the prefix")
    figure = f"{other} ids differ"
    if faults:
        return "fail", figure, "; ".join(dict.fromkeys(faults))
    if other:
        return "warn", figure, "the template gives the assistant's turn otherwise in a chat"
    return "pass", figure, ""


def _wanted(template: ChatTemplate, first: Message, text: str) -> list[int]:
    """What the tokenizer makes of the whole chat, as its own apply_chat_template does."""
    tokenizer: Any = template.tokenizer
    if template.source is None:
        name = {"user": "User", "assistant": "Assistant"}
        whole = f"{name[first.role]}: {first.content}\nAssistant: {text}\n"
        return template.encode(whole)
    chat = [
        {"role": first.role, "content": first.content},
        {"role": "assistant", "content": text},
    ]
    ids = list(tokenizer.apply_chat_template(chat, return_dict=False))
    bos = tokenizer.bos_token_id
    # A tokenizer that adds one to each text where the template has none is given one here too.
    known = template.encode("a")[:1] == [bos]
    return [bos, *ids] if bos is not None and known and ids[:1] != [bos] else ids


def _stray(template: ChatTemplate, ids: Sequence[int], start: int) -> bool:
    piece = template.tokenizer.convert_ids_to_tokens(ids[start - 1])
    return piece in ("▁", "Ġ")
