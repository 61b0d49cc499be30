"""Texts packed in one row have the vectors that they have alone, and a judge's scores stay."""

from typing import Any

import pytest
import torch

from medal_judges import Dialogue, Judge
from medal_judges.models.base.golden import golden_dialogues
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.models.linear.packing import PackedBert

from ..conftest import SIZE
from ..talks import talk

TEXTS = [[2, *[8, 12, 15] * 10, 3], [2, 4, 5, 3], [2, 10, 11, 3], [2, 9, 3]]


@torch.inference_mode()
def test_each_text_has_the_vectors_that_transformers_gives_it_alone() -> None:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    body = BertModel(BertConfig(**SIZE)).eval()
    for name, parameter in body.named_parameters():  # fresh ones are zeros and ones
        if "bias" in name or "LayerNorm" in name:
            torch.nn.init.normal_(parameter, 1.0 if "weight" in name else 0.0, 0.2)
    alone = [
        body(input_ids=torch.tensor([text])).last_hidden_state.sum(1)[0]
        for text in TEXTS
    ]
    packed = PackedBert(body.state_dict(), body.config, torch.float32)
    assert packed.token_sums(TEXTS) == pytest.approx(torch.stack(alone), abs=1e-4)
    assert packed.token_sums(TEXTS[1:2]) == pytest.approx(alone[1][None], abs=1e-4)


def talks(count: int) -> list[Dialogue]:
    texts = [
        "Hello!",
        "I like trains and bread.",
        "What a long winter. " * 12,
        "",
        "Why?",
    ]
    return [
        talk(
            *(texts[(n + k) % 5] + " again" * (k % 4) for k in range(2 + n % 7)),
            id=str(n),
        )
        for n in range(count)
    ]


@pytest.mark.parametrize(
    ("dtype", "allowed"),
    [("fp32", 1e-5), pytest.param("bf16", 0.01, marks=pytest.mark.slow)],
)
def test_scores_do_not_change_with_batch_order_window_or_threads(
    dtype: str, allowed: float
):
    judge = Judge.from_pretrained("boxed", device="cpu", dtype=dtype)
    given = [*golden_dialogues(), *talks(24)]

    def units(**options: Any) -> list[float]:
        order = -1 if options.pop("turned", False) else 1
        found = [j.scores["overall"] for j in judge.score(given[::order], **options)]
        return [(s - 1) / 4 for s in found[::order] if s is not None]

    one, threads = units(), torch.get_num_threads()
    try:
        torch.set_num_threads(3 - min(threads, 2))
        assert units() == pytest.approx(one, abs=allowed)
    finally:
        torch.set_num_threads(threads)
    judge.window, judge.token_budget = 7, 60
    assert units(turned=True) == pytest.approx(one, abs=allowed)


def test_packed_and_padded_batches_give_the_same_scores() -> None:
    judge = Judge.from_pretrained("boxed", device="cpu")
    assert isinstance(judge, LinearJudge) and judge.reader.encoder is not None
    packed = [j.scores["overall"] for j in judge.score(talks(12))]
    judge.reader.encoder.packed = None
    padded = [j.scores["overall"] for j in judge.score(talks(12))]
    assert len(set(packed)) > 5 and padded == pytest.approx(packed, abs=4e-5)
