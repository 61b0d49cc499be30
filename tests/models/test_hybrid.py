"""The hybrid judge: its members' numbers, its own scale, no member asked for naught."""

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.golden import golden_dialogues
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.hybrid.judge import (
    Blend,
    Combination,
    HybridJudge,
    MemberSelection,
    Stack,
    level_chances,
    rescaled,
    rescaled_details,
)
from medal_judges.models.hybrid.members import (
    HybridConfig,
    Member,
    MemberConfig,
    open_member,
)
from medal_judges.models.linear.encoder import Pieces, TextEncoder
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import (
    Contributions,
    Judgement,
    known_details,
    parse_judgement,
)
from medal_judges.records.signature import Signature

from ..conftest import WORDS
from ..linear_judges import random_judge
from ..talks import alike

OVERALL = Dimension("overall", "ordinal", 1, 5)
LENGTH, REPETITION = "configs/judges/length.yaml", "configs/judges/repetition.yaml"


def chats(count: int = 20) -> list[Dialogue]:
    """Dialogues of 2 to 9 turns; number 3 has no assistant."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        roles = (
            ["user"] if number == 3 else ["user", "assistant"] * int(rng.integers(1, 5))
        )
        turns = [
            Turn(role, " ".join(rng.choice(WORDS, int(rng.integers(1, 9)))))
            for role in roles
        ]
        found.append(Dialogue(str(number), tuple(turns)))
    return found


class Counting(Judge):
    """Scores a dialogue by its number, with a distribution, and keeps what it was asked."""

    family = "counting"

    def __init__(self, *, chances: bool = True, missing: Sequence[str] = ()) -> None:
        self.dimensions = (OVERALL,)
        self.chances, self.missing, self.asked = chances, set(missing), list[str]()

    def signature(self) -> Signature:
        return Signature("counting")

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        for item in items:
            item.tokens = 7

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        return [self._one(item) for item in items]

    def _one(self, item: ScoreRequest) -> Judgement:
        self.asked.append(item.dialogue.id)
        if item.dialogue.id in self.missing:
            return Judgement(scores={"overall": None}, failure="would not say")
        number = int(item.dialogue.id) % 5
        doubt = (int(item.dialogue.id) % 7) / 14
        chances = {"overall": [1 - doubt, 0, 0, 0, doubt]} if self.chances else {}
        return Judgement(
            scores={"overall": 1.0 + number},
            distributions=chances,
            usage={"money": 0.5},
        )


def hybrid(combination: Combination, **members: Judge) -> HybridJudge:
    return HybridJudge(
        {n: Member(n, j, {}) for n, j in members.items()}, combination, [OVERALL]
    )


def opened(combination: Combination, **paths: str) -> HybridJudge:
    members = {n: open_member(n, MemberConfig(path=path)) for n, path in paths.items()}
    return HybridJudge(members, combination, [OVERALL], name="both")


def blend(first: float, second: float) -> Blend:
    return Blend(
        ("length", "repetition"),
        np.array([0.4, 0.5]),
        np.array([0.2, 0.1]),
        np.array([first, second]),
        0.5,
        residual=0.15,
    )


def overall(judgements: Sequence[Judgement]) -> list[float | None]:
    return [j.scores["overall"] for j in judgements]


def on_a_base(base: Path, folder: Path, reading: str, max_tokens: int = 64) -> str:
    """Saves a linear judge without its base, and returns its folder."""
    made = random_judge(
        base,
        [OVERALL],
        name=reading,
        save_base=False,
        max_tokens=max_tokens,
        reading=reading,
    )
    return str(made.save_pretrained(folder / f"{reading}-{max_tokens}"))


def test_members_on_one_base_read_each_text_once(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {"length": on_a_base(tiny_bert, tmp_path, "turns")}
    paths["repetition"] = on_a_base(tiny_bert, tmp_path, "answers")
    judge = opened(Stack({"overall": blend(0.1, 0.2)}), **paths)
    read: list[str] = []
    embed = TextEncoder.embed

    def counted(encoder: TextEncoder, texts: Sequence[Pieces], budget: int) -> object:
        read.extend(map(str, texts))
        return embed(encoder, texts, budget)

    monkeypatch.setattr(TextEncoder, "embed", counted)
    judgements = list(judge.score(chats(), level="turn"))
    answered = [dialogue for dialogue in chats() if dialogue.assistant_turns]
    texts = {turn.content for dialogue in answered for turn in dialogue.turns}
    assert len(read) == len(set(read)) == len(texts)
    # The vectors are not kept after a batch.
    assert [vectors for _, vectors in judge.bases.values()] == [{}]
    monkeypatch.undo()
    for name, path in paths.items():
        alone = Judge.from_pretrained(path).score(chats(), level="turn")
        for judgement, single in zip(judgements, alone, strict=True):
            shown = judgement.details.get("overall", {}).get("members", {}).get(name)
            assert shown == pytest.approx(single.scores["overall"], abs=4e-5)


def test_members_that_read_a_base_differently_do_not_share_it(
    tiny_bert: Path, tmp_path: Path
) -> None:
    """With another ``max_tokens`` a long text has another vector."""
    paths = {"length": on_a_base(tiny_bert, tmp_path, "turns")}
    paths["repetition"] = on_a_base(tiny_bert, tmp_path, "turns", max_tokens=32)
    judge = opened(MemberSelection({"overall": "length"}), **paths)
    assert len(judge.bases) == 2


def test_a_selection_says_what_its_member_says() -> None:
    judge = opened(
        MemberSelection({"overall": "repetition"}), length=LENGTH, repetition=REPETITION
    )
    alone = list(
        Judge.from_pretrained(REPETITION).score(chats(), dimensions=["overall"])
    )
    found = list(judge.score(chats()))
    assert overall(found) == pytest.approx(overall(alone), abs=1e-9)
    for one, other in zip(found, alone, strict=True):
        assert one.contributions.keys() == other.contributions.keys()
        for name, account in one.contributions.items():
            assert account.turns == pytest.approx(
                other.contributions[name].turns, abs=1e-9
            )


def test_a_stack_is_the_line_through_its_members() -> None:
    judge = opened(
        Stack({"overall": blend(0.1, 0.05)}), length=LENGTH, repetition=REPETITION
    )
    found = list(judge.score(chats()))
    a, b = (
        overall(list(Judge.from_pretrained(p).score(chats())))
        for p in (LENGTH, REPETITION)
    )
    for one, first, second in zip(found, a, b, strict=True):
        if first is None or second is None:
            assert one.scores["overall"] is None
            assert one.failure == "no assistant turn to judge"
            continue
        z = 0.1 * ((first - 1) / 4 - 0.4) / 0.2 + 0.05 * ((second - 1) / 4 - 0.5) / 0.1
        unit = min(1.0, max(0.0, 0.5 + z))
        assert one.scores["overall"] == pytest.approx(1 + 4 * unit, abs=1e-9)
        assert sum(one.distributions["overall"]) == pytest.approx(1, abs=1e-9)


def test_scores_do_not_depend_on_batch_order_or_window() -> None:
    judge = opened(
        Stack({"overall": blend(0.1, 0.05)}), length=LENGTH, repetition=REPETITION
    )
    whole = overall(list(judge.score(chats())))
    judge.window = 1
    assert overall(list(judge.score(chats()))) == pytest.approx(whole, abs=1e-9)
    turned = list(judge.score(chats()[::-1], token_budget=1))
    assert overall(turned)[::-1] == pytest.approx(whole, abs=1e-9)


def test_levels_are_the_members_levels() -> None:
    judge = opened(MemberSelection({"overall": "length"}), length=LENGTH)
    alone = Judge.from_pretrained(LENGTH)
    for level in ("turn", "last"):
        ours = list(judge.score(chats(), level=level))
        theirs = list(alone.score(chats(), level=level, dimensions=["overall"]))
        assert [(j.id, j.turn) for j in ours] == [(j.id, j.turn) for j in theirs]
        assert overall(ours) == pytest.approx(overall(theirs), abs=4e-5)


def test_usage_adds_up_and_nobody_is_asked_for_a_weight_of_zero() -> None:
    first, second = Counting(), Counting()
    both = Blend(("a", "b"), *(np.zeros(2), np.ones(2), np.array([1.0, 1.0])), 0.0)
    (found,) = hybrid(Stack({"overall": both}), a=first, b=second).score([chats()[1]])
    assert found.usage == {"tokens": 14, "money": 1.0}
    alone = Blend(("a", "b"), *(np.zeros(2), np.ones(2), np.array([1.0, 0.0])), 0.0)
    second.asked.clear()
    (found,) = hybrid(Stack({"overall": alone}), a=first, b=second).score([chats()[1]])
    assert found.usage == {"tokens": 7, "money": 0.5}
    assert second.asked == []
    assert found.scores["overall"] == pytest.approx(2.0, abs=1e-9)


class Rating(Counting):
    """Its answers have details, and contributions, on a scale from 0 to 100."""

    def __init__(self) -> None:
        super().__init__()
        self.dimensions = (Dimension("overall", "continuous", 0, 100),)

    def _one(self, item: ScoreRequest) -> Judgement:
        details = dict(
            value=75.0, expected=70.0, spread=10.0, repeats=[75.0, None], mass=0.9
        )
        details["raw"] = 70.0
        return Judgement(
            scores={"overall": 70.0},
            usage={"tokens": 20, "output_tokens": 5, "seconds": 0.5, "money": 0.25},
            contributions={"overall": Contributions((-5.0,), 75.0)},
            details={"overall": details},
        )


def test_answers_are_no_amounts_and_stay_with_their_dimension() -> None:
    both = Blend(("a", "b"), *(np.zeros(2), np.ones(2), np.array([0.5, 0.5])), 0.0)
    (stacked,) = hybrid(Stack({"overall": both}), a=Rating(), b=Rating()).score(
        [chats()[1]]
    )
    assert stacked.usage == {
        "tokens": 40,
        "output_tokens": 10,
        "seconds": 1.0,
        "money": 0.5,
    }
    assert stacked.details["overall"]["members"] == pytest.approx({"a": 3.8, "b": 3.8})
    record = stacked.to_record()
    assert alike(parse_judgement(json.loads(json.dumps(record))).to_record(), record)
    (selected,) = hybrid(MemberSelection({"overall": "a"}), a=Rating()).score(
        [chats()[1]]
    )
    told = selected.details["overall"]
    numbers = [told[name] for name in ("value", "expected", "spread", "mass")]
    assert numbers == pytest.approx([4.0, 3.8, 0.4, 0.9], abs=1e-9)
    assert told["repeats"] == [4.0, None]  # on the hybrid's own scale
    account = selected.contributions["overall"]
    assert told["raw"] == pytest.approx(selected.scores["overall"], abs=1e-9)
    assert account.value == pytest.approx(told["raw"], abs=1e-9)
    assert account.baseline == pytest.approx(4.0, abs=1e-9) and account.unit == "score"


def test_a_members_failure_is_the_stacks_with_its_reason() -> None:
    both = Blend(("a", "b"), *(np.zeros(2), np.ones(2), np.array([0.5, 0.5])), 0.0)
    judge = hybrid(Stack({"overall": both}), a=Counting(), b=Counting(missing=["2"]))
    found = {j.id: j for j in judge.score(chats(4))}
    assert found["2"].scores["overall"] is None
    assert found["2"].failure == "b: would not say"
    assert found["1"].scored


def test_uncertainty_is_the_deviation_as_a_share_of_the_scale() -> None:
    def of(*chances: float) -> float | None:
        return Judgement(
            "1", "", {"overall": 3.0}, distributions={"overall": chances}
        ).uncertainty("overall")

    assert of(0, 1, 0) == 0
    assert of(0.5, 0, 0, 0, 0.5) == pytest.approx(0.5)
    levels, chances = np.arange(5), np.array([0.1, 0.2, 0.4, 0.2, 0.1])
    deviation = np.sqrt(np.cov(levels, aweights=chances, ddof=0))
    assert of(*chances) == pytest.approx(deviation / 4)
    assert of() is None


def test_the_stacks_distribution_is_a_normal_in_bins() -> None:
    from scipy.stats import norm

    found = level_chances(OVERALL, 0.6, 0.2)
    cuts = norm(0.6, 0.2).cdf([0.125, 0.375, 0.625, 0.875])
    assert found == pytest.approx(np.diff([0, *cuts, 1]))
    assert level_chances(Dimension("x", "binary", 0, 1), 0.3, 0.1) == pytest.approx(
        [0.7, 0.3]
    )
    assert level_chances(Dimension("x", "continuous", 0, 1), 0.3, 0.1) == []


def test_saved_with_its_members_and_the_same_when_loaded(
    tiny_bert: Path, tmp_path: Path
) -> None:
    folder = random_judge(tiny_bert, [OVERALL]).save_pretrained(tmp_path / "member")
    line = Blend(
        ("deep", "plain"), *np.full((2, 2), 0.5), np.array([0.3, 0.2]), 0.4, 0.1
    )
    judge = opened(Stack({"overall": line}), deep=str(folder), plain=LENGTH)
    saved = judge.save_pretrained(tmp_path / "hybrid")
    (folder / "judge.json").unlink()  # nothing outside the folder is needed
    config = json.loads((saved / "judge.json").read_text(encoding="utf-8"))
    assert config["members"]["plain"]["settings"]["family"] == "linear"
    assert (saved / "members" / "deep" / "model.safetensors").is_file()
    assert str(tmp_path) not in (saved / "judge.json").read_text(encoding="utf-8")
    fresh = Judge.from_pretrained(saved)
    signature, scores = (
        str(fresh.signature()),
        [j.scores for j in fresh.score(golden_dialogues())],
    )
    assert signature == str(judge.signature())
    for there, here in zip(scores, judge.score(golden_dialogues()), strict=True):
        assert there == pytest.approx(dict(here.scores), abs=1e-5)


def test_a_selection_comes_back_too(tmp_path: Path) -> None:
    judge = opened(
        MemberSelection({"overall": "length"}), length=LENGTH, repetition=REPETITION
    )
    loaded = Judge.from_pretrained(judge.save_pretrained(tmp_path / "h"))
    assert isinstance(loaded, HybridJudge)
    assert loaded.combination == judge.combination
    assert str(loaded.signature()) == str(judge.signature())


def test_a_hybrid_can_be_a_member(tmp_path: Path) -> None:
    inner = opened(
        Stack({"overall": blend(0.1, 0.05)}), length=LENGTH, repetition=REPETITION
    )
    inner.save_pretrained(tmp_path / "inner")
    outer = opened(MemberSelection({"overall": "inner"}), inner=str(tmp_path / "inner"))
    loaded = Judge.from_pretrained(outer.save_pretrained(tmp_path / "outer"))
    assert overall(list(loaded.score(chats()))) == pytest.approx(
        overall(list(inner.score(chats()))), abs=4e-5
    )


def test_the_signature_holds_the_members_and_the_numbers() -> None:
    made = [
        opened(
            Stack({"overall": line}), length=LENGTH, repetition=REPETITION
        ).signature()
        for line in (blend(0.1, 0.05), blend(0.1, 0.06))
    ]
    revision = Judge.from_pretrained(LENGTH).signature().revision
    assert f"length=length@{revision}" in (made[0].base or "")
    assert made[0].revision != made[1].revision
    assert Signature.parse(str(made[0])) == made[0]


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    judge = opened(
        Stack({"overall": blend(0.1, 0.05)}), length=LENGTH, repetition=REPETITION
    )
    folder = judge.save_pretrained(tmp_path / "h")
    from safetensors.numpy import load_file, save_file

    tensors = load_file(folder / "model.safetensors")
    save_file(tensors | {"mood.weights": np.ones(2)}, folder / "model.safetensors")
    with pytest.raises(JudgeLoadError, match="unexpected weights 'mood"):
        Judge.from_pretrained(folder)
    del tensors["overall.center"]
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(JudgeLoadError, match=r"no weights overall\.center"):
        Judge.from_pretrained(folder)
    with pytest.raises(JudgeLoadError, match="no option colour"):
        Judge.from_pretrained(folder, colour="red")


def test_dimensions_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(ConfigError, match="has no dimension 'warmth'"):
        HybridJudge(
            {"length": open_member("length", MemberConfig(path=LENGTH))},
            MemberSelection({"warmth": "length"}),
            [Dimension("warmth", "continuous", 0, 1)],
        )
    with pytest.raises(ConfigError, match="good end of 'repetitive'"):
        HybridJudge(
            {
                "a": open_member(
                    "a", MemberConfig(path=LENGTH, dimensions={"fresh": "repetitive"})
                )
            },
            MemberSelection({"fresh": "a"}),
            [Dimension("fresh", "continuous", 0, 1)],
        )


def test_a_config_says_what_does_not_fit() -> None:
    two = {"a": {"path": LENGTH}, "b": {"path": REPETITION}}
    with pytest.raises(ValueError, match="letters, digits"):
        HybridConfig(members={"a/b": two["a"]})  # type: ignore[dict-item]


def test_the_example_of_a_yaml_hybrid_scores() -> None:
    judge = Judge.from_pretrained("configs/judges/hybrid_example.yaml")
    found = overall(list(judge.score(chats())))
    a, b = (
        overall(list(Judge.from_pretrained(p).score(chats())))
        for p in (LENGTH, REPETITION)
    )
    for one, first, second in zip(found, a, b, strict=True):
        if first is not None and second is not None:
            assert one == pytest.approx(0.25 * first + 0.75 * second, abs=1e-9)


def test_details_and_contributions_follow_a_change_of_scale() -> None:
    five, hundred = (
        Dimension("a", "ordinal", 1, 5),
        Dimension("b", "continuous", 0, 100),
    )
    told = known_details(
        value=3, expected=2, spread=0.5, repeats=(1, None, 5), mass=0.9
    )
    assert rescaled_details(told, five, hundred) == known_details(
        value=50, expected=25, spread=12.5, repeats=(0, None, 100), mass=0.9
    )
    moved = rescaled(Contributions((0.5, -1.0), 3.0), five, hundred)
    assert moved == Contributions((12.5, -25.0), 50.0)
    logits = Contributions((0.5,), 0.0, "logit")
    assert rescaled(logits, five, hundred) == logits
