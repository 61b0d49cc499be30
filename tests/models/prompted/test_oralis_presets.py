"""ORALIS's Table 3 and hybrid as shipped files, against the table as printed."""

from typing import Any

import pytest

from medal_judges.config import build_config, read_yaml
from medal_judges.models.prompted.builder import PromptBuilder, PromptView
from medal_judges.models.prompted.judge import PromptedConfig
from medal_judges.models.prompted.prompt import load_prompt, resolve
from medal_judges.records.dimension import load_rubric

# Table 3, the rows without a star (highest positive correlation).
QWEN, DS_LLAMA, DS_QWEN = "Qwen2.5-7B", "R1-Distill-Llama-8B", "R1-Distill-Qwen-7B"
TABLE_3 = {
    "empathy": ("zero_shot", "last_40", QWEN),
    "trust": ("zero_shot", "full", QWEN),
    "skill": ("zero_shot", "first_20_last_20", QWEN),
    "talent": ("zero_shot", "summary_50", QWEN),
    "capability": ("zero_shot", "summary_50", QWEN),
    "relevance": ("few_shot", "summary_50", DS_LLAMA),
    "nonrepetition": ("few_shot", "first_40", DS_QWEN),
    "proactivity": ("zero_shot", "first_40", DS_LLAMA),
    "curiosity": ("zero_shot", "summary_150", DS_QWEN),
    "overall": ("zero_shot", "full", QWEN),
}
REGRESSION = {"talent", "relevance", "nonrepetition", "proactivity", "curiosity"}  # section 4.5


def settings(member: dict[str, Any]) -> PromptedConfig:
    base = read_yaml(member["path"].removeprefix("configs/").removesuffix(".yaml"))
    return build_config(PromptedConfig, {**base, **member["options"]}, where="member")


@pytest.mark.parametrize("preset", ["oralis_table3", "oralis_hybrid"])
def test_each_dimension_is_asked_as_printed(preset: str) -> None:
    record = read_yaml(f"judges/{preset}")
    assert set(record["choices"]) == set(TABLE_3) == {d.name for d in load_rubric("dstc12")}
    for dimension, name in record["choices"].items():
        if preset == "oralis_hybrid":
            assert (name == "regression") == (dimension in REGRESSION)
        if name == "regression":
            continue
        config = settings(record["members"][name])
        variant, context, model = TABLE_3[dimension]
        assert (config.variant or "zero_shot") == variant and config.context == context
        assert model in config.llm.model


def test_bands_cover_the_scale_as_printed() -> None:
    builder = PromptBuilder(
        resolve(load_prompt("oralis"), variant="self_consistency"), load_rubric("dstc12"), None
    )
    told = {
        q.dimensions[0].name: builder.messages(q, PromptView([]))[-1].content
        for q in builder.questions
    }
    for span in ("0-20", "21-40", "41-60", "61-80", "81-100"):  # appendix C.5
        assert f"- {span}: " in told["relevance"]
    for span in ("1-3", "4-5", "6-7", "8-9", "10-12"):
        assert f"- {span}: " in told["empathy"]
    assert "- 0-1: " in told["skill"] and "- 5: " in told["skill"]
