"""Sentences: what ends one, in scripts with and without spaces."""

import pytest

from medal_judges.models.trained_metrics.turn_metric import sentences


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("I like it. Do you?", ["I like it.", "Do you?"]),
        ("It costs 3.50 dollars", ["It costs 3.50 dollars"]),
        ("J. Smith came. Well...", ["J. Smith came.", "Well..."]),
        ('He said "no." Then he left!', ['He said "no."', "Then he left!"]),
        ("我喜欢。你呢？", ["我喜欢。", "你呢？"]),
        ("one line\ntwo lines", ["one line", "two lines"]),
        ("ok", ["ok"]),
        ("  ", [""]),
        ("", [""]),
        ("what?! yes", ["what?!", "yes"]),
    ],
)
def test_sentences(text: str, parts: list[str]) -> None:
    assert sentences(text) == parts
