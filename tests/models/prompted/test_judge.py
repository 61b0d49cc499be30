"""The four prompted judges with a small model, end to end; odd answers by a scripted one."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    LanguageModel,
)
from medal_judges.models.prompted.judge import PromptedJudge
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement, parse_judgement
from medal_judges.storage.jsonl import write_records

from ...talks import ChatModel, alike

LAKE = Dialogue(
    "lake",
    (
        Turn("user", "Hi! I went to the lake with my two sisters last weekend."),
        Turn("assistant", "That sounds lovely, how was the water?"),
        Turn("user", "Cold, but fine. We swam to the island and back."),
        Turn("assistant", "Impressive! Is there anything to see on the island?"),
    ),
    lang="en",
)
TEA = Dialogue(
    "tea", (Turn("user", "Tea?"), Turn("assistant", "I am a teapot.")), lang="es"
)


def judge(name: str, llm: LanguageModel, **changes: Any) -> PromptedJudge:
    settings = read_yaml(f"judges/{name}") | changes | {"llm": llm}
    assert settings.pop("family") == "prompted"
    return PromptedJudge.from_settings(settings)


def read(judgement: Judgement) -> Counter[str | None]:
    """How many answers each step of the parser read."""
    return Counter(each.get("parsed") for each in judgement.details.values())


def scored(
    name: str, llm: LanguageModel, level: Any = "dialogue", **changes: Any
) -> list[Judgement]:
    found = list(judge(name, llm, **changes).score([LAKE, TEA], level=level))
    for judgement in found:
        record = judgement.to_record()
        assert alike(parse_judgement(record).to_record(), record)
        assert judgement.scored or judgement.failure
    return found


# -- a small model --------------------------------------------------------------------------------


def test_medal_is_held_to_its_schema(tiny_lm: LocalModel) -> None:
    few = {"dimensions": ["unsafe", "overall"], "comment_chars": 8}
    lake, tea = scored("medal", tiny_lm, **few)
    for judgement in (lake, tea):
        assert judgement.scores["unsafe"] in (0, 1)
        assert judgement.scores["overall"] in (1, 2, 3, 4, 5)
        assert read(judgement) == {"schema": 2} and judgement.failure is None
        assert len(judgement.distributions["overall"]) == 5
        assert sum(judgement.distributions["overall"]) == pytest.approx(1, abs=1e-6)
        chance = judgement.distributions["unsafe"][1]
        assert judgement.details["unsafe"]["expected"] == pytest.approx(
            chance, abs=1e-6
        )


def test_oralis_reads_the_dialogue_once_and_maps_its_scales(
    tiny_lm: LocalModel,
) -> None:
    few = {"dimensions": ["empathy", "trust"], "comment_chars": 8}
    talk = replace(LAKE, turns=LAKE.turns * 4)
    lake = next(judge("oralis", tiny_lm, **few).score([talk]))
    assert read(lake) == {"schema": 2} and lake.usage["cached_tokens"] > 200
    assert all(0 <= (score or 0) <= 8 for score in lake.scores.values())
    # whole numbers of the paper's 0 to 5
    assert (lake.scores["trust"] or 0) * 5 / 8 in range(6)
    # six ratings asked for are not the nine of the dimension
    assert not lake.distributions


def test_meep_judges_turns_and_every_row_has_a_score_or_a_reason(
    tiny_lm: LocalModel,
) -> None:
    found = scored("meep", tiny_lm, level="turn", max_tokens=32, language="auto")
    assert [(j.id, j.turn) for j in found] == [("lake", 1), ("lake", 3), ("tea", 1)]
    assert all(j.scored and read(j) == {"schema": 1} for j in found)
    *_, english = scored("meep", tiny_lm, level="turn", max_tokens=32)
    alone = next(judge("meep", tiny_lm, max_tokens=32).score([TEA], level="turn"))
    assert english.scores == pytest.approx(alone.scores, abs=1e-3)


# -- what a model may answer, scripted -------------------------------------------------------------


class Scripted(ChatModel):
    """Answers from a list, over and over."""

    api = True

    def __init__(
        self, answers: Sequence[str | Completion], context: int = 4096
    ) -> None:
        self.answers, self.context, self.asked = (
            list(answers),
            context,
            list[ChatRequest](),
        )

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        done = []
        for request in requests:
            answer = self.answers[len(self.asked) % len(self.answers)]
            self.asked.append(request)
            whole = Completion(answer, usage=Usage(input=10, output=2, money=0.5))
            done.append(whole if isinstance(answer, str) else answer)
        return done


def one(llm: LanguageModel, name: str = "meep", **changes: Any) -> Judgement:
    return next(judge(name, llm, **changes).score([LAKE]))


def test_a_failure_is_of_its_row_and_says_why() -> None:
    failed = Completion("", finish="failed", failure="HTTP 500 four times")
    found = list(judge("meep", Scripted(["70", failed])).score([LAKE, TEA]))
    assert [j.scored for j in found] == [True, False]
    assert found[0].scores["engagingness"] == pytest.approx(70, abs=1e-3)
    assert {j.failure for j in found} == {None, "engagingness: HTTP 500 four times"}


def test_a_score_in_prose_that_cannot_be_told_is_asked_for_once_more() -> None:
    llm = Scripted(["It asks 1 question and is quite lively.", "45"])
    judgement = one(llm, answer="number")
    assert judgement.scores["engagingness"] == pytest.approx(45, abs=1e-3)
    assert judgement.details["engagingness"]["parsed"] == "again"
    first, second = llm.asked
    question = first.messages[-1].content
    assert second.messages[-1].content.startswith(f"{question}\n\nNow reply")
    assert judgement.usage["money"] == 1.0 and judgement.usage["tokens"] == 24


def test_a_second_answer_has_to_be_the_number_alone() -> None:
    llm = Scripted(
        ["It is lively.", "The user wrote 70 lines and I would say that this is a 70."]
    )
    judgement = one(llm, answer="number")
    assert judgement.scores["engagingness"] is None
    assert "asked again" in (judgement.failure or "")
    assert len(llm.asked) == 2  # once more, not more often
    sure = Scripted(["It asks 1 question.\nScore: 45"])
    assert one(sure, answer="number").scores["engagingness"] == pytest.approx(
        45, abs=1e-3
    )
    assert len(sure.asked) == 1
    quiet = Scripted(["It is lively."])
    assert one(quiet, answer="number", ask_again=False).scores["engagingness"] is None
    assert len(quiet.asked) == 1
    dead = Scripted([Completion("", finish="failed", failure="busy")])
    assert (
        one(dead, answer="number").failure == "engagingness: busy"
        and len(dead.asked) == 1
    )


def test_repeats_are_seeded_pooled_and_reported() -> None:
    llm = Scripted(["40", "60", "so so", "60"])
    judgement = one(llm, repeats=4, temperature=0.7, seed=5, ask_again=False)
    assert [r.seed for r in llm.asked] == [5, 6, 7, 8]
    assert judgement.scores["engagingness"] == pytest.approx(160 / 3, abs=1e-3)
    details = judgement.details["engagingness"]
    assert details["repeats"] == [40, 60, None, 60]
    assert judgement.usage["money"] == 2.0
    # of all four questions, not of the longest
    assert judgement.usage["tokens"] == 4 * 12


def test_a_shortened_turn_stands_in_the_prompt_and_a_cut_one_leaves_the_row_unscored(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("medal_judges.models.prompted.builder.LONG_TURN", 30)
    monkeypatch.setattr("medal_judges.models.prompted.builder.LONG_DIALOGUE", 40)
    turns = (*LAKE.turns, Turn("assistant", "The island has goats. " * 12))
    long = Dialogue("long", turns, lang="en")
    llm = Scripted(["Goats live there.", "70"])
    alone = judge("meep", llm, context="summary_50")
    judgement = next(alone.score([long]))
    assert "at most 50 words" in llm.asked[0].messages[-1].content
    shown = llm.asked[1].messages[-1].content
    assert "<assistant>Goats live there.</assistant>\n" in shown
    assert judgement.usage["money"] == 1.0
    assert judgement.scores == pytest.approx({"engagingness": 70}, abs=1e-3)
    own, shortener = Scripted(["70"]), Scripted(["Goats live there."])
    other = judge("meep", own, context="summary_50", shortener=shortener)
    assert next(other.score([long])).scores == judgement.scores
    assert own.asked[0].messages == llm.asked[1].messages
    assert shortener.asked[0].messages == llm.asked[0].messages
    assert other.signature() != alone.signature()
    cut = Scripted([Completion("Goats", finish="length")])
    refused = next(judge("meep", cut, context="summary_50").score([long]))
    assert refused.scores == {"engagingness": None}
    assert "could not be shortened" in (refused.failure or "") and len(cut.asked) == 1


def test_the_signature_follows_what_a_number_depends_on() -> None:
    llm = Scripted(["70"])
    base = judge("meep", llm).signature()
    assert base == judge("meep", llm).signature()
    assert judge("meep", llm, variant="hd").signature().prompt != base.prompt
    assert judge("meep", llm, temperature=0.5).signature().revision != base.revision
    assert judge("meep", llm, seed=1).signature() != base


@pytest.mark.parametrize(
    ("said", "score"),
    [
        *(("Score: 1", 0), ("1.5", 25), ("2", 50), ("2.5/3", 75)),
        ("I would rate it 2.75.", 87.5),
        *(("0.5", None), ("3.5", None), ("50", None), ("2.5/5", None)),
    ],
)
def test_half_points_of_meeps_three_levels(said: str, score: float | None) -> None:
    """MEEP, Table 6: 1, 2 and 3 are 0, half and all of the scale; so are ratings between them."""
    judgement = one(Scripted([said]), "paper_meep", variant="hd")
    assert judgement.scores["engagingness"] == pytest.approx(score, abs=1e-3)


def test_examples_are_labelled_dialogues_of_the_user(tmp_path: Path) -> None:
    rows = []
    for number, rating in enumerate([(0, 1), (2, 2), (5, 5), (3, None)]):
        turns = [{"role": "user", "content": f"question {number}"}]
        turns.append({"role": "assistant", "content": f"answer {number}"})
        line = {"id": f"d{number}", "dialogue": turns, "labels": {"trust": rating}}
        rows.append(line | {"scales": {"trust": [0, 5]}})
    rows[1]["summary"] = "They speak of two."
    rows[3] |= {"scales": {}}  # a rating on an unknown scale is no example
    write_records(tmp_path / "rated.jsonl", rows)
    settings = {"variant": "few_shot", "dimensions": ["trust"], "answer": "json"}
    settings["examples"] = str(tmp_path / "rated.jsonl")
    llm = Scripted(['{"score": 4, "explanation": "x"}'])
    one(llm, "oralis", **settings)
    one(llm, "oralis", **settings, excerpt_turns=0)
    excerpts, summaries = (chat.messages[-1].content for chat in llm.asked)
    # The means 0.5, 2 and 5 of 0 to 5, as whole numbers.
    for text in (excerpts, summaries):
        scores = [line for line in text.splitlines() if line.startswith("Its score:")]
        assert scores == ["Its score: 0", "Its score: 2", "Its score: 5"]
    assert "answer 1" in excerpts and "They speak of two." not in excerpts
    assert "answer 1" not in summaries and "They speak of two." in summaries
    assert "answer 2" in summaries and "answer 3" not in excerpts
    with pytest.raises(
        ConfigError, match=r"3 examples have a score for 'trust'|2 examples"
    ):
        write_records(tmp_path / "few.jsonl", rows[:2])
        one(llm, "oralis", **settings | {"examples": str(tmp_path / "few.jsonl")})
