"""evaluate.load of both modules, from their folders, with the real library."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges import Judge
from medal_judges.integrations.hf_evaluate import metric
from medal_judges.integrations.metaeval import agreement

pytestmark = pytest.mark.integrations("evaluate")
UNSCORED = [{"role": "user", "content": "Anyone there?"}]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    import evaluate

    before = set(os.listdir(tmp_path))
    yield lambda name, *config: evaluate.load(
        metric(name), *config, cache_dir=str(tmp_path / "cache")
    )
    assert set(os.listdir(tmp_path)) - before <= {"cache", "judge"}


def test_means_scores_coverage_and_signature(
    load: Callable[..., Any], chat: Callable[..., Any]
) -> None:
    found = load("medal_judge", "length")
    blocks = [{"role": "user", "content": [{"type": "text", "text": "こんにちは"}]}]
    blocks.append({"role": "assistant", "content": "こんにちは、元気ですか。"})  # type: ignore[dict-item]
    chats = [chat(n) for n in range(1, 9)] + [blocks, UNSCORED]
    got = found.compute(predictions=chats)
    judge = Judge.from_pretrained("length")
    assert got["signature"] == str(judge.signature())
    overall = got["scores"]["overall"]
    assert overall[9] is None and got["failures"][9] == "no assistant turn to judge"
    assert got["coverage"] == pytest.approx(0.9) and got["failures"][:9] == [None] * 9
    assert got["mean"]["overall"] == pytest.approx(np.mean(overall[:9]))
    low, high = got["interval"]["overall"]
    assert low < got["mean"]["overall"] < high
    share = np.mean([v >= 0.5 for v in got["scores"]["unsafe"][:9]])
    assert got["mean"]["unsafe"] == pytest.approx(share)
    found.add_batch(predictions=chats[:3])
    found.add(prediction=chats[3])
    assert found.compute()["scores"]["overall"] == pytest.approx(overall[:4], abs=4e-5)


def test_correlations_with_intervals(load: Callable[..., Any]) -> None:
    draw = np.random.default_rng(0)
    people = draw.normal(size=(120, 2)) + draw.normal(size=(120, 1))
    scores = people.mean(axis=1) + draw.normal(size=120)
    systems = [f"bot{n % 8}" for n in range(120)]
    found = load("medal_metaeval")
    given = [None, *scores[1:]]
    got = found.compute(predictions=given, references=people.tolist(), systems=systems)
    figure = got["spearman"]
    from scipy.stats import spearmanr

    expected = spearmanr(scores[1:], people[1:].mean(axis=1)).statistic
    assert figure["value"] == pytest.approx(expected)
    assert figure["low"] < expected < figure["high"] and figure["p_value"] < 0.05
    assert got["coverage"] == pytest.approx(119 / 120) and got["clusters"] == "chatbot"
    assert got["within_system"]["value"] is not None and got["ceiling"]["spearman"]["value"] > 0
    few = found.compute(predictions=[1, 2], references=[1, 2], systems=[None, None])
    assert few["spearman"]["value"] is None and "fewer than 3" in few["spearman"]["reason"]
    binary = agreement([0.9, 0.2] * 20, [1, 0, 1, 1] * 10, scale=(0, 1))
    assert binary["precision"]["value"] == 1 and binary["recall"]["value"] == pytest.approx(2 / 3)
