"""Our prompts ask for what the papers ask for: the same construct between the same anchors."""

from typing import Any

import pytest

from medal_judges.config import build_config, read_yaml
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.prompted.builder import PromptBuilder, PromptView
from medal_judges.models.prompted.geval import GEvalJudge, GPTScoreJudge
from medal_judges.models.prompted.judge import BasePromptedJudge, PromptedConfig
from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import load_rubric

TURNS = (Turn("user", "Hi"), Turn("assistant", "Hello there, what do you read?"))
# MEEP, Tables 7 to 10: the word for engaging, and what stands at both ends of 0 to 100.
ENGAGING = {"en": "engag", "es": "interesante", "zh": "吸引"}
ENDS = {
    "en": ("'disengaging'", "'very engaging'"),
    "es": ('"desinteresante"', '"muy interesante"'),
    "zh": ("“不吸引人”", "“非常吸引人”"),
}
PARTS = {  # of engagingness, MEEP and MEEP+SA
    "en": ("context", "answer", "good one", "interesting", "specific", "included"),
    "es": ("contexto", "conteste", "buena", "interés", "concreta", "incluida"),
    "zh": ("上下文", "接话", "质量", "有意思", "具体", "接纳"),
}


def meep(variant: str, language: str, response: Turn | None) -> str:
    prompt = load_prompt("meep", language=language)
    rubric = load_rubric("engagingness")
    builder = PromptBuilder(prompt, rubric, variant=variant, role="expert")
    view = PromptView(list(TURNS if response is None else TURNS[:1]), response)
    return "\n".join(m.content for m in builder.messages(builder.questions[0], view))


@pytest.mark.parametrize("response", [None, TURNS[1]])
@pytest.mark.parametrize("language", ENGAGING)
@pytest.mark.parametrize("variant", ["naive", "hd", "meep", "meep_sa"])
def test_meep_asks_for_engagingness(
    variant: str, language: str, response: Turn | None
) -> None:
    text = meep(variant, language, response)
    assert ENGAGING[language] in text
    if variant != "hd":
        assert "100" in text
        assert all(end in text for end in ENDS[language])
    if variant.startswith("meep") and response is not None:
        assert all(part in text for part in PARTS[language]), text


def told_of(judge: BasePromptedJudge) -> dict[str, str]:
    """Dimension -> what is said about the last answer of TURNS."""
    request = ScoreRequest(Dialogue("d", TURNS), 1)
    judge._prepare([request])
    questions = judge.questions(request, [d.name for d in judge.dimensions])
    return {
        q.dimensions[0].name: judge.messages(request, q)[-1].content for q in questions
    }


def test_gptscore_asks_whether_it_is_engaging(tiny_lm: LocalModel) -> None:
    text = told_of(GPTScoreJudge.from_settings({"llm": tiny_lm, "rubric": "usr"}))[
        "engagingness"
    ]
    assert "engaging" in text and "interesting" not in text


def test_geval_shows_what_ratings_mean_where_there_are_as_many(
    tiny_lm: LocalModel,
) -> None:
    told = told_of(GEvalJudge.from_settings({"llm": tiny_lm, "rubric": "usr"}))
    for name, words in {
        "engagingness": ("- 1: dull", "- 2: somewhat interesting", "- 3: interesting"),
        "coherence": ("- 1: no", "- 2: somewhat", "- 3: yes"),
        "naturalness": ("- 1: bad", "- 2: passable", "- 3: good"),
    }.items():
        assert all(word in told[name] for word in words), told[name]
    assert "What the ratings mean" not in told["overall"]
    wide = told_of(GEvalJudge.from_settings({"llm": tiny_lm, "rubric": "engagingness"}))
    assert "What the ratings mean" not in next(iter(wide.values()))


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
        assert config.shorten.llm is not None
        assert "Llama-3.1-8B-Instruct" in config.shorten.llm.model


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


def test_bands_cover_the_scale_as_printed() -> None:
    builder = PromptBuilder(
        load_prompt("oralis"), load_rubric("dstc12"), variant="self_consistency"
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
