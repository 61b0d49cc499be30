"""A turn of which a judge reads a part is counted, by every family that can cut one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from medal_judges import Dialogue, Judge
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.hybrid.judge import HybridJudge, Line, Member
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dimension import Dimension

from ..talks import talk

WINDOW = 90  # tokens, of all judges here
DIMENSIONS = (Dimension("overall", "ordinal", 1, 5),)
MANY_WORDS = "music film garden " * 60
SHORT_WORDS = "music film"


def lora(base: Path, bert: Path, max_tokens: int = WINDOW) -> LoraJudge:
    return LoraJudge.create(
        LoraConfig(base=str(base), peft={"r": 4}, max_tokens=max_tokens), DIMENSIONS
    )


def encoder(base: Path, bert: Path, max_tokens: int = WINDOW) -> EncoderJudge:
    return EncoderJudge.create(
        EncoderConfig(base=str(bert), max_tokens=max_tokens), DIMENSIONS
    )


def hybrid(base: Path, bert: Path) -> Judge:
    member = Member("adapted", lora(base, bert))
    lines = {"overall": Line(("adapted",), (1.0,))}
    return HybridJudge({"adapted": member}, lines, DIMENSIONS)


FAMILIES: tuple[Callable[[Path, Path], Judge], ...] = (lora, encoder, hybrid)


@pytest.fixture(scope="module", params=FAMILIES, ids=lambda family: family.__name__)
def judge(request: pytest.FixtureRequest, tiny_llama: Path, tiny_bert: Path) -> Judge:
    torch.manual_seed(0)
    built: Judge = request.param(tiny_llama, tiny_bert)
    return built


def counts(
    judge: Judge, dialogue: Dialogue, level: Any = "dialogue"
) -> list[tuple[int, int]]:
    judgements = judge.score([dialogue], level=level)
    return [(one.truncated_turns, one.cut_turns) for one in judgements if one.scored]


def test_a_last_turn_longer_than_the_window_is_counted(judge: Judge) -> None:
    assert counts(judge, talk(SHORT_WORDS, SHORT_WORDS)) == [(0, 0)]
    assert counts(judge, talk(SHORT_WORDS, MANY_WORDS)) == [(1, 1)]
    # Dropped as a whole, it is not also cut.
    assert counts(judge, talk(SHORT_WORDS, MANY_WORDS, SHORT_WORDS, SHORT_WORDS)) == [
        (2, 0)
    ]


def test_a_cut_turn_is_counted_at_the_levels_that_judge_it(judge: Judge) -> None:
    first_is_long = talk(MANY_WORDS, SHORT_WORDS, SHORT_WORDS, MANY_WORDS)
    assert counts(judge, first_is_long, "turn") == [(1, 0), (3, 1)]
    assert counts(judge, first_is_long, "last") == [(3, 1)]
