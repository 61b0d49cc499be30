"""The records: what a labelled line, a judgement and a rating hold, and what they refuse."""

import json
from typing import Any

import pytest

from medal_judges.errors import ConfigError, MedalError, RecordError
from medal_judges.records.dimension import Dimension, parse_dimensions
from medal_judges.records.judgement import (
    Contributions,
    Judgement,
    make_details,
    parse_judgement,
)
from medal_judges.records.labelled import Rating, mean, parse_labelled
from medal_judges.records.signature import Signature, content_hash

TURNS = [{"role": "user", "content": "Hello"}, {"role": "assistant", "content": "Hi"}]


def labelled(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "dialogue": TURNS, "labels": {"overall": [3, None]}} | fields


def judged(**fields: Any) -> dict[str, Any]:
    return {"id": "a", "judge": "j", "scores": {"overall": 3}} | fields


# what is wrong -> (field named, word of what was expected)
BAD_LABELLED: dict[str, tuple[dict[str, Any], str, str]] = {
    "level": ({"level": "word"}, "level", "'dialogue' or 'turn'"),
    "label text": (
        {"labels": {"overall": ["3"]}},
        "labels.overall",
        "one per annotator",
    ),
    "off the scale": ({"scales": {"overall": [0, 2]}}, "labels.overall", "from 0 to 2"),
    "scale upside down": (
        {"scales": {"overall": [5, 1]}},
        "scales.overall",
        "lowest, highest",
    ),
}


@pytest.mark.parametrize("name", BAD_LABELLED)
def test_a_bad_labelled_line_names_its_field(name: str) -> None:
    fields, field, _ = BAD_LABELLED[name]
    with pytest.raises(RecordError) as caught:
        parse_labelled(labelled(**fields))
    assert caught.value.field.startswith(field)


BAD_JUDGEMENT: dict[str, tuple[Any, str, str]] = {
    "no object": ([], "(line)", "a JSON object"),
    "score NaN": (
        judged(scores={"overall": float("nan")}),
        "scores.overall",
        "a finite number",
    ),
    "explanation broken": (judged(explanation="\ud800"), "explanation", "surrogate"),
    "contributions": (judged(contributions=[1]), "contributions", "an object"),
    "details interval": (
        judged(details={"overall": {"interval": [3]}}),
        "details",
        "two numbers",
    ),
}


@pytest.mark.parametrize("name", BAD_JUDGEMENT)
def test_a_bad_judgement_line_names_its_field(name: str) -> None:
    record, field, _ = BAD_JUDGEMENT[name]
    with pytest.raises(RecordError) as caught:
        parse_judgement(record)
    assert caught.value.field == field


def test_a_judgement_comes_back_from_its_line() -> None:
    whole = Judgement(
        id="a",
        judge="judge:x|seed:0",
        scores={"overall": 3.5, "unsafe": None},
        turn=0,
        distributions={"overall": (0.1, 0.2, 0.3, 0.2, 0.2)},
        explanation="because",
        failure="unsafe: no answer",
        truncated_turns=2,
        usage={"tokens": 12.0},
        contributions={"overall": Contributions((0.0, 0.25), 3.25)},
        details={
            "overall": make_details(
                value=4.0,
                expected=3.5,
                samples=20,
                comment="dull",
                parsed=("json", None),
                repeats=(4.0, None),
                members={"a": 3.0, "b": None},
            )
        },
        left_out_turns=3,
        shortened_turns=1,
    )
    assert parse_judgement(json.loads(json.dumps(whole.to_record()))) == whole
    assert not whole.scored
    assert whole.contributions["overall"].value == pytest.approx(3.5, abs=1e-9)


def test_a_labelled_dialogue_comes_back_from_its_line() -> None:
    record = labelled(
        lang="de",
        level="turn",
        labels={"overall": [3, None], "z": [-0.25]},
        scales={"overall": [1, 5], "z": None},
        split="test",
        group="g",
        aggregated=True,
        defects=["empty_turn"],
        models={"assistant": "bot"},
    )
    row = parse_labelled(record)
    assert row.labels == {"overall": (3.0, None), "z": (-0.25,)}
    assert row.scales == {"overall": (1.0, 5.0), "z": None}
    assert (row.turn, row.split, row.group, row.aggregated) == (1, "test", "g", True)
    assert row.extra == {"defects": ["empty_turn"]}
    assert row.dialogue.chatbot == "bot"
    assert parse_labelled(json.loads(json.dumps(row.to_record()))) == row


@pytest.mark.parametrize(
    ("values", "average"),
    [
        *(((1.0, 1.0, 4.0), 2.0), ((1.0, 2.0), 1.5), ((None, None), None), ((), None)),
        *(((None, 3.0), 3.0), ((0.0, 0.0, 1.0, 1.0, 2.0), 0.8)),
    ],
)
def test_aggregation_is_undefined_rather_than_guessed(
    values: tuple[float | None, ...], average: float | None
) -> None:
    rating = Rating("a", None, "overall", values, (0, 5))
    assert mean(rating) == average


def test_dimensions_check_their_scale() -> None:
    with pytest.raises(RecordError, match=r"kind.*'binary', 'ordinal' or"):
        parse_dimensions([{"name": "x", "kind": "stars", "low": 0, "high": 1}])
    with pytest.raises(ConfigError, match="not below"):
        Dimension("x", "continuous", 1, 1)
    with pytest.raises(ConfigError, match="from 0 to 1"):
        Dimension("x", "binary", 0, 2)
    with pytest.raises(ConfigError, match="whole-number"):
        Dimension("x", "ordinal", 0.5, 2)
    overall = Dimension("overall", "ordinal", 1, 5)
    assert overall.levels == (1, 2, 3, 4, 5)
    assert overall.from_unit(overall.to_unit(2.5)) == 2.5


FULL = Signature(
    judge="embedded:minilm",
    revision="0123abcd",
    base="sentence-transformers/all-MiniLM-L6-v2",
    prompt="ab12",
    rubric="cd34",
    dtype="float32",
    truncation="turns:oldest",
    data="fed@4f27",
    dimension="overall",
    seed=0,
    version="0.1.0",
)


@pytest.mark.parametrize(
    "signature", [FULL, Signature("x"), Signature("x", seed=0, data="")]
)
def test_a_signature_comes_back_from_its_text(signature: Signature) -> None:
    assert Signature.parse(str(signature)) == signature


@pytest.mark.parametrize("name", ["a|seed:5", "a\nb"])
def test_a_value_that_would_forge_a_pair_is_refused(name: str) -> None:
    with pytest.raises(MedalError, match="judge"):
        Signature(name)


def test_the_hash_goes_by_content_alone() -> None:
    assert content_hash({"a": 1, "b": "é"}) == content_hash({"b": "é", "a": 1})
    assert content_hash({"a": 1}) != content_hash({"a": 2})
    # sha256 of the three letters, from FIPS 180-4's example
    assert content_hash(b"abc") == "ba7816bf8f01"
