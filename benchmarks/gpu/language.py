"""A local language model of four billion weights: likelihoods of follow-ups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from medal_judges.models.followup.pool import load_pool
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import (
    Continuation,
    Likelihood,
    chat_messages,
)

from .measure import Agreement, Row, Setting, attempt, peak_gib, release, seconds_of
from .models import dialogues, model_folder

# Nats from one pass a follow-up, in fp32 and in 16 bits.
ALLOWED = 0.002
ALLOWED_HALF = 0.1
Groups = list[list[Continuation]]


def loaded(setting: Setting) -> LocalModel:
    """The 4B's shape through the settings of a judge: bf16 on a GPU, fp32 on a CPU."""
    folder = model_folder(
        "Qwen3-4B", setting.folder, small=setting.small, device=setting.device
    )
    llm = load_llm({"model": str(folder), "context": 4096})
    assert isinstance(llm, LocalModel)
    return llm


def follow_up_groups(setting: Setting) -> Groups:
    """The shipped follow-ups after each of a chat's last three answers, as the contrast judge puts
    them."""
    texts = [f.text for f in load_pool("followups/contrast").follow_ups][
        : setting.of(None, 3)
    ]
    groups = []
    for chat in dialogues(setting.of(6, 2), setting.of((200, 500), (20, 40))):
        messages = chat_messages(chat)
        ends = [turn + 1 for turn in chat.assistant_turns][-3:]
        groups.append(
            [Continuation(messages[:e], t, role="user") for e in ends for t in texts]
        )
    return groups


def token_counts(llm: LocalModel, groups: Groups) -> tuple[int, int]:
    """(tokens of all sequences, distinct ones: those that any method has to read)."""
    every = distinct = 0
    for group in groups:
        seen: dict[tuple[int, int], int] = {}
        for continuation in group:
            node, ids = 0, llm.template.to_sequence(continuation).ids
            for token in ids:
                node = seen.setdefault((node, token), len(seen) + 1)
            every += len(ids)
        distinct += len(seen)
    return every, distinct


def subtract_means(ours: Sequence[Sequence[Likelihood]], others: object) -> float:
    """Mean difference of a token's log-probability, in nats; fp32's is far below what is allowed,
    bf16 rounds each layer."""
    assert isinstance(others, list)
    pairs = [
        abs(x - y)
        for group, other in zip(ours, others, strict=True)
        for a, b in zip(group, other, strict=True)
        for x, y in zip(a.logprobs, b.logprobs, strict=True)
    ]
    return float(np.mean(pairs))


def prefixes(setting: Setting) -> Iterator[Row]:
    """Likelihoods read off a tree of shared prefixes, and with one pass a follow-up."""
    llm = loaded(setting)
    groups = follow_up_groups(setting)
    plain = LocalModel(
        llm.model,
        llm.tokenizer,
        name=llm.name,
        context=llm.context,
        shared=False,
        weights="-",
    )
    every, distinct = token_counts(llm, groups)
    kept: dict[str, list[list[Likelihood]]] = {}
    seconds: dict[str, float] = {}

    def measured(name: str, model: LocalModel) -> Row:
        release()
        model.loglikelihood(groups[:1])
        seconds[name] = seconds_of(
            lambda: kept.update({name: model.loglikelihood(groups)})
        )
        said = f"{len(groups) / seconds[name]:.2f} chats/s"
        speed = every / seconds[name]
        if name == "plain":
            return Row("", tokens_per_s=speed, memory_gib=peak_gib(), said=said)
        said = f"; {said}, {distinct / seconds[name]:.0f} distinct tokens/s"
        if "plain" in seconds:
            said += f", {seconds['plain'] / seconds[name]:.1f} times as fast"
        allowed = ALLOWED if setting.device.type == "cpu" else ALLOWED_HALF
        apart = subtract_means(kept[name], kept.get("plain", kept[name]))
        return Agreement("mean nats from one pass each", apart, allowed, said).row(
            tokens_per_s=speed, memory_gib=peak_gib()
        )

    yield attempt("one pass a follow-up", lambda: measured("plain", plain))
    yield attempt("prefix tree", lambda: measured("tree", llm))
