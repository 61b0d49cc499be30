"""What is kept of earlier prompts: the same answers with it and without, fewer tokens read, and
never more memory than said."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from medal_judges.models.llm.local import paths as paths_module
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.local.prefix_store import (
    BLOCK,
    Chain,
    PrefixStore,
    StateBlock,
    cut,
    length_of,
)
from medal_judges.models.llm.protocol import ChatRequest, Completion, Continuation, Message

_SPEC = importlib.util.spec_from_file_location(
    "architectures", Path(__file__).with_name("architectures.py")
)
assert _SPEC is not None and _SPEC.loader is not None
architectures: Any = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(architectures)

KEPT = ("llama", "gpt2", "bloom", "deepseek-v3")
# Windows, recurrent layers, and positions that count padding: read from their beginning each time.
NOT_KEPT = ("mistral", "lfm2", "mpt")
SIZE = 2 * 2 * 2 * BLOCK * 8 * 4  # bytes of a block of the tiny llama: 2 layers and heads of 8


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path))
    monkeypatch.setattr(paths_module, "_KNOWN", {})


def tiny(name: str, kept: float = 1.0) -> LocalModel:
    model, tokenizer = architectures.tiny_model(name), architectures.tiny_tokenizer()
    return LocalModel(model, tokenizer, name=name, prefix_cache=kept)


class Forwarded:
    """Counts the positions that a model computes, padding among them."""

    def __init__(self, llm: LocalModel) -> None:
        llm.paths  # noqa: B018 - the probes are not counted
        self.tokens = 0
        llm.model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, _: object, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.tokens += kwargs["input_ids"].numel()

    def since(self) -> int:
        """Positions since the last call."""
        tokens, self.tokens = self.tokens, 0
        return tokens


def growing(turns: int) -> list[tuple[Message, ...]]:
    """A dialogue as it grows, a question of the user's at a time."""
    rng = random.Random(1)
    said: list[Message] = []
    for k in range(turns):
        said += [
            Message("assistant", "".join(rng.choices("abcdefgh ", k=30))),
            Message("user", f"{k} " + "".join(rng.choices("stuvwxyz ", k=rng.randint(3, 60)))),
        ]
    return [tuple(said[: 2 * k + 2]) for k in range(turns)]


def same(ours: Sequence[Completion], theirs: Sequence[Completion]) -> None:
    for own, other in zip(ours, theirs, strict=True):
        assert own.text == other.text
        np.testing.assert_allclose(
            [t.logprob for t in own.tokens], [t.logprob for t in other.tokens], atol=1e-4
        )


@pytest.mark.parametrize("name", [*KEPT, *NOT_KEPT])
def test_answers_and_likelihoods_are_the_same_with_and_without(name: str) -> None:
    ours, plain = tiny(name), tiny(name, kept=0)
    cached = 0
    for messages in growing(5):
        shorter = messages[-3:]  # beside it one that begins otherwise
        asked = [
            ChatRequest(each, 5 + k, top_logprobs=2, temperature=0.7 * k, seed=k)
            for k, each in enumerate((messages, shorter, messages))
        ]
        answers = ours.chat(asked)
        same(answers, plain.chat(asked))
        group = [Continuation(messages, text, role="assistant") for text in ("No.", "Nobody")]
        for own, other in zip(
            ours.loglikelihood([group])[0], plain.loglikelihood([group])[0], strict=True
        ):
            np.testing.assert_allclose(own.logprobs, other.logprobs, atol=1e-4)
        cached = answers[0].usage.cached
    assert (ours.prefixes.bytes > 0) == (name in KEPT)
    assert plain.prefixes.bytes == 0
    assert (cached > 150) == (name in KEPT)  # of the last turn's dialogue, but for its end


def test_a_store_too_small_for_one_dialogue_gives_the_same_answers() -> None:
    ours, plain = tiny("llama"), tiny("llama", kept=0)
    ours.prefixes.limit = 5 * SIZE
    for messages in growing(6):
        asked = [ChatRequest(messages[k:], 4, top_logprobs=1) for k in (0, 1)]
        same(ours.chat(asked), plain.chat(asked))
        assert ours.prefixes.bytes <= ours.prefixes.limit
    assert ours.prefixes.bytes == ours.prefixes.limit


def test_a_dialogue_that_grows_is_read_once() -> None:
    ours, plain = tiny("llama"), tiny("llama", kept=0)
    read, whole = Forwarded(ours), Forwarded(plain)
    dialogues = growing(6)
    for messages in dialogues:
        request = [ChatRequest(messages, 3)]
        same(ours.chat(request), plain.chat(request))
    prompt = ours.count_tokens(dialogues[-1])
    written = 3 * len(dialogues)
    # An answer of the model is not what the dialogue has there: at most a block is read again.
    assert read.since() <= prompt + written + BLOCK * len(dialogues)
    assert whole.since() > 3 * prompt


def test_questions_about_one_dialogue_read_it_once_across_calls() -> None:
    llm = tiny("llama")
    read = Forwarded(llm)
    (messages,) = growing(4)[-1:]
    asked = [ChatRequest((*messages, Message("user", f"{c} of it?")), 2) for c in "abcd"]
    llm.chat(asked[:1])
    first = read.since()
    llm.chat(asked[1:])  # the other questions of an ``each`` layout, asked later
    assert first > 200 and read.since() < 3 * (2 * BLOCK + 20)
    llm.chat([ChatRequest((*asked[0].messages, Message("user", "The number alone")), 2)])
    assert read.since() < 3 * BLOCK + 40  # asked again after an answer
    llm.loglikelihood([[Continuation(asked[1].messages, text) for text in ("1", "2")]])
    assert read.since() < 2 * BLOCK  # the answer weighed where it stands


def test_nested_beginnings_are_each_read_once() -> None:
    """Two dialogues after one instruction, three questions about each, in one call."""
    llm = tiny("llama", kept=0)
    read = Forwarded(llm)
    rule, one, two = "x" * 300, "y" * 200, "z" * 200
    asked = [
        ChatRequest((Message("user", f"{rule} {talk} {question}"),), 2)
        for talk in (one, two)
        for question in ("first", "second", "third one")
    ]
    llm.chat(asked)
    assert read.since() < 300 + 2 * 200 + len(asked) * 60


@pytest.mark.parametrize("seed", range(5))
def test_the_store_keeps_its_books(seed: int) -> None:
    rng = random.Random(seed)
    store = PrefixStore(40 * 32)
    for _ in range(300):
        ids = [rng.randint(0, 1) for _ in range(BLOCK * rng.randint(0, 6) + rng.randint(0, 15))]
        chain = store.longest(ids)
        assert length_of(chain) < max(1, len(ids))
        assert [t for block in chain for t in block.tokens] == ids[: length_of(chain)]
        store.keep(chain_of(ids))
        blocks = list(every(store._first.values()))
        assert store.bytes == sum(block.size for block in blocks) <= store.limit
        assert set(store._used) == {id(block) for block in blocks}
    store.clear()
    assert store.longest([0] * 40) == () and store.bytes == 0


def test_the_least_recently_used_go_first_and_from_their_ends() -> None:
    store = PrefixStore(10 * 2 * BLOCK * 4)  # ten blocks
    texts = [[k] * (4 * BLOCK + 1) for k in range(3)]
    for ids in texts[:2]:
        store.keep(chain_of(ids))
    assert length_of(store.longest(texts[0])) == 4 * BLOCK  # the first is used once more
    store.keep(chain_of(texts[2]))
    assert [length_of(store.longest(ids)) // BLOCK for ids in texts] == [4, 2, 4]


def test_a_chain_is_cut_at_any_token() -> None:
    chain = chain_of(list(range(40)))
    for end in (0, 5, 16, 20, 33, 100):
        part = cut(chain, end)
        assert length_of(part) == min(end, 40)
        assert [t for block in part for t in block.tokens] == list(range(min(end, 40)))
        assert all(block.keys.shape[2] == len(block.tokens) for block in part)


def test_when_memory_runs_out_what_is_kept_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = tiny("llama")
    (messages,) = growing(3)[-1:]
    asked = [ChatRequest((*messages, Message("user", c)), 3) for c in "ab"]
    before = llm.chat(asked)
    forward, rows = llm.model.forward, []

    def short(*args: Any, **kwargs: Any) -> Any:
        rows.append(len(kwargs["input_ids"]))
        if llm.prefixes.bytes or len(rows) < 3:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return forward(*args, **kwargs)

    monkeypatch.setattr(llm.model, "forward", short)
    assert [c.text for c in llm.chat(asked)] == [c.text for c in before]
    assert rows[0] == 2 and 1 in rows  # halved when that was not enough


def test_nothing_is_kept_unless_it_is_asked_for() -> None:
    """Whoever makes a LocalModel of a network may go on to train it."""
    llm = LocalModel(architectures.tiny_model("llama"), architectures.tiny_tokenizer(), name="t")
    llm.chat([ChatRequest(growing(2)[-1], 3)])
    assert llm.prefixes.bytes == 0


def chain_of(ids: Sequence[int]) -> Chain:
    """Blocks of ``ids`` whose states are the ids."""
    return tuple(
        StateBlock(
            tuple(ids[k : k + BLOCK]),
            *(torch.tensor(ids[k : k + BLOCK], dtype=torch.int32)[None, None, :, None],) * 2,
        )
        for k in range(0, len(ids), BLOCK)
    )


def every(blocks: Any) -> Any:
    for block in blocks:
        yield block
        yield from every(block.after.values())


@pytest.mark.parametrize("how", ["step", "replaced", "cast"])
def test_weights_that_change_let_go_of_what_is_kept(how: str) -> None:
    ours, plain = tiny("llama"), tiny("llama", kept=0)
    plain.model = ours.model
    asked = [ChatRequest(growing(3)[-1], 6, top_logprobs=1)]
    first = ours.chat(asked)
    ours.chat(asked)
    assert ours.prefixes.bytes > 0
    layer: Any = ours.model.model.layers[0].self_attn.k_proj.weight
    if how == "step":
        layer.grad = torch.ones_like(layer)
        torch.optim.SGD([layer], lr=1.0).step()
    elif how == "replaced":
        layer.data = layer.data + 1.0
    else:
        ours.model.to(torch.bfloat16)
    answers = ours.chat(asked)
    same(answers, plain.chat(asked))
    assert [t.logprob for t in answers[0].tokens] != [t.logprob for t in first[0].tokens]
