"""A local language model of four billion weights: likelihoods of follow-ups, and answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from medal_judges.models.followup.pool import load_pool
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Continuation,
    Likelihood,
    Message,
    chat_messages,
)

from .measure import Agreement, Row, Setting, attempt, peak_gib, release, seconds_of
from .models import dialogues, model_folder

# Nats from one pass a follow-up, in fp32 and in 16 bits.
ALLOWED = 0.002
ALLOWED_HALF = 0.1
Groups = list[list[Continuation]]
SCHEMA = {
    "type": "object",
    "properties": {"score": {"type": "integer", "minimum": 1, "maximum": 5}},
    "required": ["score"],
    "additionalProperties": False,
}


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
            node, ids = 0, llm.template.sequence(continuation).ids
            for token in ids:
                node = seen.setdefault((node, token), len(seen) + 1)
            every += len(ids)
        distinct += len(seen)
    return every, distinct


def mean_difference(ours: Sequence[Sequence[Likelihood]], others: object) -> float:
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
        apart = mean_difference(kept[name], kept.get("plain", kept[name]))
        return Agreement("mean nats from one pass each", apart, allowed, said).row(
            tokens_per_s=speed, memory_gib=peak_gib()
        )

    yield attempt("one pass a follow-up", lambda: measured("plain", plain))
    yield attempt("prefix tree", lambda: measured("tree", llm))


def requests(setting: Setting) -> list[ChatRequest]:
    """Questions about chats of several lengths."""
    made = []
    for chat in dialogues(setting.of(64, 3), setting.of((100, 400), (10, 20)), seed=3):
        told = "\n".join(f"{turn.role}: {turn.content}" for turn in chat.turns)
        made.append(
            ChatRequest(
                (Message("user", f"{told}\n\nHow good is the assistant?"),),
                max_tokens=setting.of(128, 8),
            )
        )
    return made


def generation(setting: Setting) -> Iterator[Row]:
    """Answers in batches: greedy, sampled with seeds, held to a schema, and one at a time."""
    llm = loaded(setting)
    asked = requests(setting)

    def run(some: Sequence[ChatRequest]) -> Row:
        release()
        llm.chat(some[:2])
        done = []
        spent = seconds_of(lambda: done.extend(llm.chat(some)))
        written = sum(answer.usage.output for answer in done)
        wrong = [a.failure for a in done if a.failure]
        told = f"{written} tokens written in {spent:.1f} s"
        state = "failed" if wrong else "done"
        said = f"{told}; {wrong[0]}" if wrong else told
        return Row(
            "", state, tokens_per_s=written / spent, memory_gib=peak_gib(), said=said
        )

    def schema() -> Row:
        held = [replace(request, schema=SCHEMA, max_tokens=32) for request in asked]
        row = run(held)
        texts = [answer.text for answer in llm.chat(held[:4])]
        fits = all(text in {f'{{"score": {n}}}' for n in range(1, 6)} for text in texts)
        return (
            row
            if fits
            else replace(row, state="failed", said=f"not of the schema: {texts}")
        )

    def alone() -> Row:
        row = run(asked[:1])
        few = asked[: setting.of(8, 3)]
        together, apart = llm.chat(few), [llm.chat([request])[0] for request in few]
        same = sum(a.text == b.text for a, b in zip(together, apart, strict=True))
        # Greedy answers of bf16 may part where two words are equally likely; fp32's may not.
        state = (
            "failed" if setting.device.type == "cpu" and same < len(few) else row.state
        )
        said = f"{row.said}; {same} of {len(few)} answers as in a batch"
        return replace(row, state=state, said=said)

    yield attempt(f"{len(asked)} greedy answers", lambda: run(asked))
    yield attempt(
        f"{len(asked)} sampled answers",
        lambda: run(
            [
                replace(r, temperature=0.8, top_p=0.9, seed=i)
                for i, r in enumerate(asked)
            ]
        ),
    )
    yield attempt(
        f"{len(asked)} greedy answers with alternatives",
        lambda: run([replace(r, top_logprobs=10) for r in asked]),
    )
    yield attempt(f"{len(asked)} answers of a schema", schema, ("llguidance",))
    yield attempt("one answer at a time", alone)
