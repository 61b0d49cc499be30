"""evaluate.load of the module, from its folder, with the real library."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges import Judge
from medal_judges.integrations.hf_evaluate import metric_path

pytestmark = pytest.mark.integrations("evaluate")
UNSCORED = [{"role": "user", "content": "Anyone there?"}]


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    import evaluate

    before = set(os.listdir(tmp_path))
    yield lambda name, *config: evaluate.load(
        metric_path(name), *config, cache_dir=str(tmp_path / "cache")
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
