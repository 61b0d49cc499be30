"""Surface measures by hand, and what they may not look at."""

import math
import unicodedata

import numpy as np
import pytest
import torch

from medal_judges.models.base.turn_features import (
    FEATURE_NAMES,
    SIMILARITY_NAMES,
    turn_features,
    turn_similarities,
    words,
)

from ..talks import talk


def column(name: str, *contents: str) -> list[float]:
    return turn_features(talk(*contents))[:, FEATURE_NAMES.index(name)].tolist()


def test_repetition_counts_the_speakers_own_words_only() -> None:
    said = ("a b c d", "x y", "z", "x y", "q", "x w")
    assert column("said_recently_1", *said) == [0, 0, 0, 1, 0, 0.5]
    assert column("copy", *said) == [0, 0, 0, 1, 0, 0]


def test_the_window_forgets_and_the_whole_does_not() -> None:
    said = [
        t
        for i in range(6)
        for t in (f"u{i}", "same old story" if i in (0, 5) else f"new{i}")
    ]
    assert column("said_before_3", *said)[-1] == 1.0
    # five answers back: out of the window
    assert column("said_recently_1", *said)[-1] == 0.0


def test_echo_is_of_the_partners_last_turn() -> None:
    assert column("echo_1", "red car", "a red car", "blue", "red")[1:] == [
        pytest.approx(2 / 3),
        0,
        0,
    ]


def test_form() -> None:
    assert column("question", "why?", "no", "为什么？") == [1, 0, 1]
    assert column("empty", "", "hm")[0] == 1
    assert column("log_words", "one two three", "")[0] == pytest.approx(math.log(4))


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


def test_taking_up_the_users_word_is_no_echo_in_japanese() -> None:
    assert column("echo_3", "コーヒーを飲みます", "コーヒーはいいですね")[1] == 0
    assert column("echo_3", "コーヒーを飲みます", "コーヒーを飲みますか")[1] > 0


def test_a_turn_reads_no_later_turn() -> None:
    whole = talk("hi there", "hello you", "what is new", "hello you again", "bye")
    full = turn_features(whole)
    for last in range(5):
        assert np.array_equal(turn_features(whole.upto(last)), full[: last + 1])


def test_similarities_against_plain_loops() -> None:
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(2, 9, 4, generator=generator)
    roles = torch.randint(0, 2, (2, 9), generator=generator)
    mask = torch.ones(2, 9, dtype=torch.bool)
    mask[1, 6:] = False
    found = turn_similarities(vectors, roles, mask)
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    for b in range(2):
        centred = unit[b] - unit[b][mask[b]].mean(0)
        for t in range(9):
            cos = {
                s: torch.cosine_similarity(vectors[b, t], vectors[b, s], dim=0).item()
                for s in range(t)
                if mask[b, s]
            }
            own = [cos[s] for s in cos if roles[b, s] == roles[b, t]]
            partner = [cos[s] for s in cos if roles[b, s] != roles[b, t]]
            around = {
                s: torch.cosine_similarity(centred[t], centred[s], dim=0).item()
                for s in cos
            }
            near_own = [around[s] for s in cos if roles[b, s] == roles[b, t]]
            near_partner = [around[s] for s in cos if roles[b, s] != roles[b, t]]
            wanted = {
                "nearest_own": max(own, default=0.0),
                "nearest_recent_own": max(own[-4:], default=0.0),
                "last_own": own[-1] if own else 0.0,
                "last_partner": partner[-1] if partner else 0.0,
                "last_but_one_partner": partner[-2] if len(partner) > 1 else 0.0,
                "centred_nearest_own": max(near_own, default=0.0),
                "centred_mean_partner": sum(near_partner) / max(1, len(near_partner)),
            }
            for place, name in enumerate(SIMILARITY_NAMES):
                assert found[b, t, place].item() == pytest.approx(
                    wanted[name], abs=1e-5
                ), name


def test_centred_similarities_of_turns_that_are_all_alike_are_no_noise() -> None:
    vector = torch.randn(1, 1, 384, generator=torch.Generator().manual_seed(1))
    alike = vector.expand(1, 4, 384) * torch.tensor([1.0, 3.0, 0.1, 7.0])[None, :, None]
    roles = torch.tensor([[0, 1, 0, 1]])
    found = turn_similarities(alike, roles, torch.ones_like(roles).bool())
    assert found[..., -2:].abs().max().item() < 1e-3


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
