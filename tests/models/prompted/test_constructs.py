"""Our prompts ask for what the papers ask for: the same construct between the same anchors."""

from typing import Any

import pytest

from medal_judges.config import build_config, read_yaml
from medal_judges.models.prompted.builder import PromptBuilder, PromptView
from medal_judges.models.prompted.judge import PromptedConfig
from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.dialogue import Turn
from medal_judges.records.dimension import load_rubric

TURNS = (Turn("user", "Hi"), Turn("assistant", "Hello there, what do you read?"))


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
# section 4.5
REGRESSION = {"talent", "relevance", "nonrepetition", "proactivity", "curiosity"}


def settings(member: dict[str, Any]) -> PromptedConfig:
    base = read_yaml(member["path"].removeprefix("configs/").removesuffix(".yaml"))
    return build_config(PromptedConfig, {**base, **member["options"]}, where="member")


STARRED = {
    "capability": ("zero_shot", "summary_150", DS_QWEN),
    "relevance": ("few_shot", "first_20_last_20", QWEN),
    "nonrepetition": ("few_shot", "first_20_last_20", QWEN),
    "proactivity": ("zero_shot", "first_20_last_20", QWEN),
    "curiosity": ("zero_shot", "first_40", DS_LLAMA),
}


@pytest.mark.parametrize(
    "preset", ["oralis_table3", "oralis_hybrid", "oralis_table3_absolute"]
)
def test_each_dimension_is_asked_as_printed(preset: str) -> None:
    record = read_yaml(f"judges/{preset}")
    assert (
        set(record["dimensions"])
        == set(TABLE_3)
        == {d.name for d in load_rubric("dstc12")}
    )
    for dimension, name in record["dimensions"].items():
        if preset == "oralis_hybrid":
            assert (name == "regression") == (dimension in REGRESSION)
        if name == "regression":
            continue
        config = settings(record["members"][name])
        assert config.layout == "paper" and not config.fence
        printed = TABLE_3 | STARRED if preset == "oralis_table3_absolute" else TABLE_3
        variant, context, model = printed[dimension]
        assert (config.variant or "zero_shot") == variant and config.context == context
        assert model in config.llm.model
        # Appendix B: excerpts as examples of relevance, summaries of non-repetition. Section 4.2:
        # Llama shortens, whichever model judges.
        if variant == "few_shot":
            assert config.excerpt_turns == 6 * (dimension == "relevance")
        assert config.shortener is not None
        assert "Llama-3.1-8B-Instruct" in config.shortener.model


# Appendix B: the role of each prompt, and whether it says what the ends of the scale mean.
APPENDIX_B = {
    "relevance": ("expert", True),
    "proactivity": ("human_evaluator", True),
    "nonrepetition": ("human_evaluator", True),
    "trust": ("expert", False),
    "skill": ("human_evaluator", False),
    "capability": ("human_evaluator", False),
    "empathy": ("expert", False),
    "curiosity": ("expert", False),
    "talent": ("crowdworker", False),
    "overall": (None, True),
}


@pytest.mark.parametrize("language", ["en", "de", "es", "fr", "pt", "zh"])
def test_oralis_says_what_the_papers_prompts_say(language: str) -> None:
    prompt = load_prompt("oralis", language=language)
    builder = PromptBuilder(prompt, load_rubric("dstc12"), layout="paper")
    for question in builder.questions:
        name = question.dimensions[0].name
        role, has_ends = APPENDIX_B[name]
        aspect = prompt.aspects[name]
        assert aspect.role == role
        ends = {aspect.low_means, aspect.high_means}
        assert all(ends) == any(ends) == has_ends
        text = builder.messages(question, PromptView(list(TURNS)))[-1].content
        assert aspect.definition in text
        low, high = question.fields[0].scale
        assert f"{low:g}" in text and f"{high:g}" in text
        assert all(end in text for end in ends)
