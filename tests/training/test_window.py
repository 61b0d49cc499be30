"""What a judge does not read of its training rows is counted, as in scoring."""

from pathlib import Path

import pytest

from medal_judges.models.base.judge import Judge
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dimension import load_rubric
from medal_judges.training.families.lora import answer_dataset
from medal_judges.training.rows import TrainingExample
from medal_judges.training.trainer import count_truncated, tokenized_dataset

from ..talks import talk

DIMENSIONS = [d for d in load_rubric("medal") if d.name in ("overall", "repetitive")]
SHORT, LONG = "music film", "music film garden " * 60
DIALOGUES = [
    talk(SHORT, SHORT, id="fits"),
    talk(LONG, SHORT, SHORT, SHORT, id="the oldest turn is left out"),
    talk(SHORT, LONG, id="the last turn is too long"),
]
EXAMPLES = [
    TrainingExample(d, "a", {"overall": 0.5, "repetitive": 1.0}) for d in DIALOGUES
]


def counts_of_scoring(judge: Judge) -> dict[str, int]:
    judgements = [j for j in judge.score(DIALOGUES) if j.scored]
    return {
        "rows": sum(j.truncated_turns + j.cut_turns > 0 for j in judgements),
        "truncated_turns": sum(j.truncated_turns for j in judgements),
        "cut_turns": sum(j.cut_turns for j in judgements),
    }


@pytest.mark.parametrize("family", ["encoder", "lora"])
def test_rows_beyond_the_window_are_counted_as_in_scoring(
    family: str, tiny_bert: Path, tiny_llama: Path
) -> None:
    judge: EncoderJudge | LoraJudge
    if family == "encoder":
        config = EncoderConfig(base=str(tiny_bert), max_tokens=90)
        judge = EncoderJudge.create(config, DIMENSIONS)
    else:
        lora = LoraConfig(base=str(tiny_llama), peft={"r": 4}, max_tokens=90)
        judge = LoraJudge.create(lora, DIMENSIONS)
    lost = count_truncated(tokenized_dataset(judge, EXAMPLES))
    assert lost == {"rows": 2, "truncated_turns": 2, "cut_turns": 1}
    assert lost == counts_of_scoring(judge)


def test_a_judge_that_writes_does_not_learn_from_rows_that_it_could_not_score(
    tiny_llama: Path,
) -> None:
    settings = {
        "base": str(tiny_llama),
        "peft": {"r": 4},
        "head": "generative",
        "layout": "each",
    }
    settings |= {"max_tokens": 900, "answer_tokens": 40, "comment_chars": 1}
    config = LoraConfig(**settings)  # type: ignore[arg-type]
    judge = GenerativeLoraJudge.create(config, DIMENSIONS, name="w", rubric="medal")
    data = answer_dataset(judge, EXAMPLES)
    lost = count_truncated(data)
    assert lost == counts_of_scoring(judge)
    assert lost["rows"] == 1
    assert max(data["length"]) <= 900 + 40 and data["number"] == [0, 0, 1, 1]
