"""Follow-up judges: the formula, batches, levels, truncation."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import yaml

from medal_judges.errors import NotAvailableError
from medal_judges.models.base.judge import Judge
from medal_judges.models.followup.judge import FollowUpConfig, FollowUpJudge
from medal_judges.models.followup.pool import load_pool
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import (
    Continuation,
    Message,
)
from medal_judges.records.dialogue import Dialogue

from ...talks import talk

POOL = """
name: test
follow_ups:
  - {text: "That's wrong."}
  - {text: "I don't understand.", dimensions: [coherent, overall]}
  - {text: "Cool! Tell me more.", sign: positive, dimensions: [overall]}
"""


DIALOGUES = [
    talk(
        "Hi!",
        "Hello, how are you?",
        "Fine. What is your name?",
        "I like cheese.",
        id="a",
    ),
    talk("Tell me a joke.", "Why did the chicken cross the road?", "Why?", id="b"),
    talk(
        "What is two and two?",
        "Four.",
        "And three?",
        "Five.",
        "Thanks!",
        "Welcome!",
        id="c",
    ),
]


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("pool") / "pool.yaml"
    path.write_text(POOL, encoding="utf-8")
    return str(path)


def judge(tiny_lm: LocalModel, pool: str, **settings: Any) -> FollowUpJudge:
    return FollowUpJudge(
        FollowUpConfig(
            **{
                "name": "t",
                "llm": tiny_lm,
                "rubric": "fed",
                "dimensions": ("coherent", "overall"),
            }
            | {"followups": pool}
            | settings
        )
    )


def by_hand(llm: LocalModel, d: Dialogue, end: int, text: str) -> float:
    """Mean log-probability of a user's ``text`` after the first ``end`` turns, one plain pass."""
    plain = LocalModel(llm.model, llm.tokenizer, name="plain", shared=False)
    messages = tuple(Message(t.role, t.content) for t in d.turns[:end])
    continuation = Continuation(messages, text, "user", score_eos=False)
    return plain.loglikelihood([[continuation]])[0][0].mean


def test_the_score_is_the_contrast_of_mean_log_likelihoods(
    tiny_lm: LocalModel, pool: str
) -> None:
    found = list(judge(tiny_lm, pool).score(DIALOGUES))
    for d, judgement in zip(DIALOGUES, found, strict=True):
        end = len(d.turns)  # the second dialogue ends with the user
        wrong, lost, more = (
            by_hand(tiny_lm, d, end, text)
            for text in ("That's wrong.", "I don't understand.", "Cool! Tell me more.")
        )
        assert judgement.details["coherent"]["raw"] == pytest.approx(
            -(wrong + lost) / 2, abs=1e-4
        )
        raw = more - (wrong + lost) / 2
        assert judgement.details["overall"]["raw"] == pytest.approx(raw, abs=1e-4)
        assert judgement.scores["overall"] == pytest.approx(
            1 + 4 / (1 + np.exp(-raw)), abs=1e-3
        )
        told = judgement.contributions["overall"]
        assert (told.unit, told.baseline, told.value) == (
            "logit",
            0,
            pytest.approx(raw, abs=1e-4),
        )
        assert (
            judgement.explanation is not None
            and "likeliest follow-ups" in judgement.explanation
        )


def test_answers_further_back_weigh_less(tiny_lm: LocalModel, pool: str) -> None:
    found = next(
        iter(judge(tiny_lm, pool, answers=None, decay=0.5).score(DIALOGUES[2:]))
    )
    d = DIALOGUES[2]
    raws = []
    for turn in d.assistant_turns:
        wrong, lost, more = (
            by_hand(tiny_lm, d, turn + 1, text)
            for text in ("That's wrong.", "I don't understand.", "Cool! Tell me more.")
        )
        raws.append(more - (wrong + lost) / 2)
    weights = np.array([0.25, 0.5, 1]) / 1.75
    assert found.details["overall"]["raw"] == pytest.approx(
        float(weights @ raws), abs=1e-4
    )
    shares = [found.contributions["overall"].turns[t] for t in d.assistant_turns]
    np.testing.assert_allclose(shares, weights * raws, atol=1e-4)


def test_joint_likelihood_counts_the_dialogue_too(
    tiny_lm: LocalModel, pool: str
) -> None:
    d = DIALOGUES[0]
    settings = {"likelihood": "joint", "dimensions": ("coherent",)}
    found = next(iter(judge(tiny_lm, pool, **settings).score([d])))
    messages = tuple(Message(t.role, t.content) for t in d.turns)
    means = []
    for text in ("That's wrong.", "I don't understand."):
        ids = torch.tensor(
            [
                tiny_lm.template.to_sequence(
                    Continuation(messages, text, "user", score_eos=False)
                ).ids
            ]
        )
        # transformers' own mean loss over all tokens but the first
        with torch.inference_mode():
            means.append(-float(tiny_lm.model(ids, labels=ids).loss))
    assert found.details["coherent"]["raw"] == pytest.approx(
        -float(np.mean(means)), abs=1e-4
    )


def test_batch_order_and_level_do_not_change_a_score(
    tiny_lm: LocalModel, pool: str
) -> None:
    one = judge(tiny_lm, pool)
    together = {j.id: j.scores["overall"] for j in one.score(DIALOGUES)}
    one.token_budget = 1
    for d in reversed(DIALOGUES):
        alone = next(iter(one.score([d])))
        assert alone.scores["overall"] == pytest.approx(together[d.id], abs=1e-5)
    turns = [j for j in one.score(DIALOGUES, level="turn")]
    assert [(j.id, j.turn) for j in turns] == [
        (d.id, t) for d in DIALOGUES for t in d.assistant_turns
    ]
    for j in turns:
        whole = next(d for d in DIALOGUES if d.id == j.id)
        cut = next(iter(one.score([whole.upto(j.turn)])))
        assert j.scores["overall"] == pytest.approx(cut.scores["overall"], abs=1e-5)


@pytest.mark.parametrize("name", ["contrast", "diet", "fed", "full"])
def test_shipped_judges_score(tiny_lm: LocalModel, name: str) -> None:
    loaded = Judge.from_pretrained(f"configs/judges/{name}.yaml", llm=tiny_lm)
    found = list(loaded.score(DIALOGUES[:1]))
    # random tokens are no selection: no score, instead of that of all follow-ups
    if name == "diet":
        assert found[0].scores == {"overall": None}
        assert "selection 1 of 3 could not be read" in (found[0].failure or "")
    else:
        scores = [(d, found[0].scores[d.name]) for d in loaded.dimensions]
        assert all(s is not None and d.low <= s <= d.high for d, s in scores)
    assert found[0].judge.startswith(f"judge:{name}|")


def test_a_selfmap_pool_is_for_the_model_that_proposed_it(
    smollm2: LocalModel, tmp_path: Path
):
    def load(pool: str) -> Judge:
        return Judge.from_pretrained(
            "configs/judges/diet.yaml", llm=smollm2, followups=pool
        )

    load("followups/selfmap")
    record = load_pool("followups/selfmap").model_dump(mode="json")
    (tmp_path / "pool.yaml").write_text(
        yaml.safe_dump(record | {"generators": ["a/b"]})
    )
    with pytest.raises(NotAvailableError, match="proposed by a/b"):
        load(str(tmp_path / "pool.yaml"))
