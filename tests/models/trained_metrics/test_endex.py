"""EnDex: against a plain loop over transformers, and what stays the same."""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import load_judge

from ...talks import talk

SAID = [
    "hello",
    "I like music, do you?",
    "a film",
    "the river",
    "bread",
    "a train and bread",
]


def load(folder: Path, **options: Any) -> Judge:
    settings = {
        "model": str(folder),
        "tokenizer": str(folder),
        "device": "cpu",
    } | options
    return load_judge("configs/judges/endex.yaml", **settings)


def by_hand(folder: Path, text: str) -> float:
    from transformers import AutoTokenizer, RobertaForSequenceClassification

    model = RobertaForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    with torch.no_grad():
        logits = model(**tokenizer(text, return_tensors="pt")).logits
    return float(torch.softmax(logits, dim=-1)[0, 1])


def test_turns_equal_a_plain_loop_and_the_dialogue_their_mean(
    tiny_roberta: Path,
) -> None:
    judge = load(tiny_roberta)
    expected = [by_hand(tiny_roberta, text) for text in SAID[1::2]]
    turns = list(judge.score([talk(*SAID)], level="turn"))
    assert [t.scores["engagingness"] for t in turns] == pytest.approx(
        expected, abs=1e-5
    )
    chances = turns[0].distributions["engagingness"]
    assert chances == pytest.approx([1 - expected[0], expected[0]], abs=1e-5)
    (whole,) = judge.score([talk(*SAID)])
    assert whole.scores["engagingness"] == pytest.approx(sum(expected) / 3, abs=1e-5)
    assert max(expected) - min(expected) > 0.05  # the weights do tell them apart


def test_batch_and_order_do_not_matter(tiny_roberta: Path) -> None:
    judge = load(tiny_roberta)
    many = [talk("hello", " ".join(SAID[: n % 6 + 1]), id=str(n)) for n in range(12)]
    alone = {j.id: j.scores["engagingness"] for d in many for j in judge.score([d])}
    judge.token_budget = 40
    together = {j.id: j.scores["engagingness"] for j in judge.score(many[::-1])}
    assert together == pytest.approx(alone, abs=1e-5)


JUDGE = "configs/judges/unieval.yaml"


def test_a_pickle_is_refused(tiny_t5: Path, tmp_path: Path) -> None:
    folder = tmp_path / "published"
    shutil.copytree(tiny_t5, folder)
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    with pytest.raises(JudgeLoadError, match="safetensors"):
        load_judge(JUDGE, model=str(folder), device="cpu")


def test_missing_weights_are_not_drawn_at_random(tiny_t5: Path, tmp_path: Path) -> None:
    folder = tmp_path / "short"
    shutil.copytree(tiny_t5, folder)
    state = load_file(folder / "model.safetensors")
    del state["decoder.final_layer_norm.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(JudgeLoadError, match=r"decoder\.final_layer_norm\.weight"):
        load_judge(JUDGE, model=str(folder), device="cpu")
