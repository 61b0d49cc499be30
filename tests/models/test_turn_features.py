"""Surface measures by hand, and what they may not look at."""

import unicodedata

import numpy as np
import pytest

from medal_judges.models.base.turn_features import (
    FEATURE_NAMES,
    SIMILARITY_NAMES,
    surface_features,
    turn_similarities,
    words,
)

from ..talks import talk


def column(name: str, *contents: str) -> list[float]:
    return surface_features(talk(*contents))[:, FEATURE_NAMES.index(name)].tolist()


def test_words_where_words_are_not_spaced() -> None:
    assert words("我喜欢猫") == ["我喜", "欢猫"]
    assert words("Hello, WORLD") == ["hello", "world"]
    assert words("我有iPhone手机") == ["我有", "iphone", "手机"]
    assert words("コーヒーが好きです。") == ["コーヒー", "が", "好", "きです"]
    assert words("ฉันชอบ") == ["ฉัน", "ชอบ"]


def test_a_vowel_sign_ends_no_word() -> None:
    assert words("मैं कॉफी पीता हूँ।") == ["मैं", "कॉफी", "पीता", "हूँ"]
    assert words("السَّلَامُ عليكم") == ["السَّلَامُ", "عليكم"]
    assert words(unicodedata.normalize("NFD", "Été à Genève")) == [
        unicodedata.normalize("NFD", word) for word in ("été", "à", "genève")
    ]
    # One letter more, as Hindi writes it, makes another word and no near copy.
    assert (
        column("near_copy", "हाँ", "मैं कॉफी पीता हूँ", "हाँ", "मेरा कुत्ता पानी में है")[-1] == 0
    )


def test_a_turn_reads_no_later_turn() -> None:
    whole = talk("hi there", "hello you", "what is new", "hello you again", "bye")
    full = surface_features(whole)
    for last in range(5):
        assert np.array_equal(surface_features(whole.upto(last)), full[: last + 1])


def test_similarities_against_plain_loops() -> None:
    rng = np.random.default_rng(0)
    for turns in (2, 9, 14):
        vectors, roles = rng.normal(size=(turns, 4)), rng.integers(0, 2, turns)
        unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        found = turn_similarities(unit @ unit.T, roles)
        centred = unit - unit.mean(axis=0)
        centred /= np.linalg.norm(centred, axis=1, keepdims=True)
        for t in range(turns):
            same = [s for s in range(t) if roles[s] == roles[t]]
            other = [s for s in range(t) if roles[s] != roles[t]]
            own = [float(unit[t] @ unit[s]) for s in same]
            partner = [float(unit[t] @ unit[s]) for s in other]
            near_own = [float(centred[t] @ centred[s]) for s in same]
            near_partner = [float(centred[t] @ centred[s]) for s in other]
            expected = {
                "nearest_own": max(own, default=0.0),
                "nearest_recent_own": max(own[-4:], default=0.0),
                "last_own": own[-1] if own else 0.0,
                "last_partner": partner[-1] if partner else 0.0,
                "last_but_one_partner": partner[-2] if len(partner) > 1 else 0.0,
                "centred_nearest_own": max(near_own, default=0.0),
                "centred_mean_partner": sum(near_partner) / max(1, len(near_partner)),
            }
            assert found[t] == pytest.approx(list(expected.values()), abs=1e-9)
            assert tuple(expected) == SIMILARITY_NAMES


@pytest.mark.parametrize(
    ("first", "again", "near"),
    [
        ("What do you like to eat?", "what do you like to eat", 1.0),
        ("What do you like to eat?", "And what do you like to eat?", 1.0),
        ("What do you like to eat?", "Where did you go on holiday?", 0.0),
        ("好きな食べ物は何ですか？", "好きな食べ物は何ですか", 1.0),
        ("好きな食べ物は何ですか？", "休みはどこへ行きましたか？", 0.0),
        ("ok", "ok", 1.0),
        ("", "", 0.0),
    ],
)
def test_near_copy_in_any_script(first: str, again: str, near: float) -> None:
    assert column("near_copy", first, "x", again)[2] == near
