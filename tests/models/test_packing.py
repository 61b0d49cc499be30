"""Texts packed in one row have the vectors that they have alone, and a judge's scores stay."""

from pathlib import Path
from typing import Any

import pytest
import torch

from medal_judges import Dialogue, Judge
from medal_judges.models.base.golden import golden_dialogues
from medal_judges.models.linear.packing import can_pack, packed_sums
from medal_judges.records.dimension import load_rubric

from ..conftest import SIZE
from ..linear_judges import random_judge
from ..talks import talk

TEXTS = [[2, *[8, 12, 15] * 10, 3], [2, 4, 5, 3], [2, 10, 11, 3], [2, 9, 3]]


def body_of(kind: str) -> Any:
    from transformers import (
        BertConfig,
        BertModel,
        RobertaConfig,
        RobertaModel,
        XLMRobertaConfig,
    )
    from transformers import XLMRobertaModel as XLMRoberta

    torch.manual_seed(0)
    places = {"pad_token_id": 1, "max_position_embeddings": 40}
    made = {
        "bert": lambda: BertModel(BertConfig(**SIZE)),
        "roberta": lambda: RobertaModel(RobertaConfig(**SIZE, **places)),
        "xlm-roberta": lambda: XLMRoberta(XLMRobertaConfig(**SIZE, **places)),
    }[kind]()
    for name, parameter in made.named_parameters():  # fresh ones are zeros and ones
        if "bias" in name or "LayerNorm" in name:
            torch.nn.init.normal_(parameter, 1.0 if "weight" in name else 0.0, 0.2)
    return made.eval()


@pytest.mark.parametrize("kind", ["bert", "roberta", "xlm-roberta"])
@torch.inference_mode()
def test_each_text_has_the_vectors_that_it_has_alone(kind: str) -> None:
    body = body_of(kind)
    alone = [
        body(input_ids=torch.tensor([text])).last_hidden_state.sum(1)[0]
        for text in TEXTS
    ]
    attention = body.config._attn_implementation
    assert can_pack(body)
    assert packed_sums(body, TEXTS) == pytest.approx(torch.stack(alone), abs=1e-4)
    assert packed_sums(body, TEXTS[1:2]) == pytest.approx(
        torch.stack(alone[1:2]), abs=1e-4
    )
    assert body.config._attn_implementation == attention  # saved with the judge


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


def test_packed_and_padded_batches_give_the_same_scores(
    tiny_bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = random_judge(tiny_bert, load_rubric("overall"), max_tokens=32)
    packed = [j.scores["overall"] for j in judge.score(talks(12))]
    monkeypatch.setattr(
        "medal_judges.models.linear.encoder.can_pack", lambda body: False
    )
    padded = [j.scores["overall"] for j in judge.score(talks(12))]
    assert len(set(packed)) > 5 and padded == pytest.approx(packed, abs=4e-5)
