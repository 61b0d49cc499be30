"""Pools as files, and what is read from a proposing model's answer."""

from pathlib import Path

import pytest

from medal_judges.data_prep.followups import parse_list
from medal_judges.errors import ConfigError
from medal_judges.models.followup.pool import FollowUp, FollowUpPool, load_pool

SHIPPED = ("contrast", "craft", "fed", "full", "selfmap")


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_pools_are_reviewed_and_say_how_they_were_made(name: str) -> None:
    pool = load_pool(f"followups/{name}")
    assert pool.name == name and pool.reviewed and len(pool.method) > 40


def test_hash_covers_what_scores_depend_on_and_nothing_else() -> None:
    pool = FollowUpPool(
        name="a", method="m", follow_ups=(FollowUp(text="No."), FollowUp(text="Hm."))
    )
    renamed = pool.model_copy(update={"name": "b", "reviewed": "me"})
    assert renamed.hash == pool.hash
    other = FollowUpPool(
        name="a", method="m", follow_ups=(FollowUp(text="No."), FollowUp(text="Hm!"))
    )
    turned = FollowUpPool(
        name="a",
        method="m",
        follow_ups=(FollowUp(text="No.", sign="positive"), FollowUp(text="Hm.")),
    )
    assert len({pool.hash, other.hash, turned.hash}) == 3


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("follow_ups: []", "needs a follow-up"),
        ("follow_ups: [{text: a}, {text: a}]", "'a' is there twice"),
        ("follow_ups: [{text: '  '}]", "text"),
        ("follow_ups: [{text: a, sgn: negative}]", "did you mean 'sign'"),
        ("follow_ups: [{text: a, sign: bad}]", "sign"),
    ],
)
def test_a_malformed_pool_names_the_fault(tmp_path: Path, body: str, told: str) -> None:
    path = tmp_path / "pool.yaml"
    path.write_text(f"name: x\nmethod: by hand\n{body}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=told):
        load_pool(str(path))


def test_a_list_is_read_and_talk_around_it_is_not() -> None:
    answer = """Sure! Here are some reactions:
1. "That's wrong."
2) What?
- **I am confused.**
• 不对吧。
4. This line goes on and on and explains at length why a user might be unhappy with what was said there.
5. ...
I hope this helps!"""  # noqa: E501
    assert parse_list(answer) == ["That's wrong.", "What?", "I am confused.", "不对吧。"]


def test_a_sample_has_as_many_of_each_generator() -> None:
    texts = {name: [f"{name} says {i}" for i in range(3)] for name in "abcd"}
    every = tuple(FollowUp(text=t, by=name) for name, own in texts.items() for t in own)
    pool = FollowUpPool(name="p", method="m", follow_ups=every)
    for count in (3, 2, 1):  # DIET, section 6.2: 12, 8 and 4 follow-ups
        sampled = pool.sampled(count, seed=0)
        assert [f.by for f in sampled.follow_ups] == sorted("abcd" * count)
    assert pool.sampled(1, seed=0) == pool.sampled(1, seed=0)
    assert len({pool.sampled(1, seed=s).hash for s in range(5)}) > 1
    with pytest.raises(ConfigError, match="more than the 3 follow-ups of a"):
        pool.sampled(4, seed=0)


def test_what_a_model_thinks_is_no_follow_up() -> None:
    assert parse_list("<think>\n1. Maybe this?\n</think>\n1. What do you mean?") == [
        "What do you mean?"
    ]
    assert parse_list("<think>\n1. Maybe this?") == []
