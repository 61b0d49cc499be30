"""The plugin in real runs of pytest: what passes, what fails, and what the failure says."""

import pytest

from medal_judges.integrations.chats import score_chats
from medal_judges.integrations.quality import QualityUndecidedWarning, assert_quality

pytest_plugins = ["pytester"]

# The judge `length` reads the number of words alone, and more of them are better.
CHATS = """
def chat(words, said="よい一日を"):
    answer = " ".join(["word"] * words) + " " + said
    return [{"role": "user", "content": f"Hi {words}"}, {"role": "assistant", "content": answer}]

LONG = [chat(words) for words in range(50, 70)]
SHORT = [chat(words) for words in range(1, 21)]
"""


def chat(words: int) -> list[dict[str, str]]:
    answer = " ".join(["word"] * words)
    return [
        {"role": "user", "content": f"Hi {words}"},
        {"role": "assistant", "content": answer},
    ]


def test_a_run_passes_and_fails_by_the_interval(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    pytester.makeini("[pytest]\naddopts = --medal-judge length\n")
    pytester.makepyfile(
        CHATS
        + """
def test_judge(judge):
    assert judge.signature().judge == "length"

def test_long_enough(assert_quality):
    scored = assert_quality(LONG, overall=1.5)
    assert scored.coverage == 1

def test_too_short(assert_quality):
    assert_quality(SHORT, overall=4.5)

def test_undecided(assert_quality):
    mean = assert_quality(SHORT, overall=1).figures()["overall"].value
    assert_quality(SHORT, overall=mean)

def test_undecided_fails_where_it_is_asked_to(assert_quality):
    mean = assert_quality(SHORT, overall=1).figures()["overall"].value
    assert_quality(SHORT, overall=mean, fail_undecided=True)

def test_three_chats_show_nothing(assert_quality):
    assert_quality(SHORT[:3], overall=1.5)

def test_half_of_them_unscored(assert_quality):
    assert_quality(LONG + [[{"role": "user", "content": f"Hi {n}"}] for n in range(20)], overall=1)

def test_no_chats(assert_quality):
    assert_quality([], overall=3.5)
"""
    )
    done = pytester.runpytest_subprocess(
        "-p", "medal_judges.integrations.pytest_plugin", "-rA"
    )
    done.assert_outcomes(passed=3, failed=5, warnings=1)
    lines = done.stdout
    lines.fnmatch_lines(
        [
            "*AssertionError: overall * [[]*, *[]]: failed; the whole interval is under 4.50; "
            "it would notice a change of 0.* in overall (80% power)",
            "*20 judgements, coverage 100.0%: judge:length*",
            "*look first at these, the worst by overall:",
            "*chats[[]0[]] (id *): overall 2.09",
            "*user: Hi 1",
            "*assistant: word よい一日を",
        ]
    )
    lines.fnmatch_lines_random(
        [
            "*is inside the interval, so more chats are needed; it would notice *",
            "*assert_quality(overall=1.5) cannot be decided: no interval: 3 rows, fewer than 5",
            "*coverage 50.0% is below the minimum of 98%*: 20 x no assistant turn to judge",
            "*there are no chats to score",
            "*QualityUndecidedWarning: overall *",
        ]
    )
    lines.no_fnmatch_line("*quality.py:*: AssertionError*")


def test_a_turn_is_named_and_an_issue_has_a_most() -> None:
    chats = [chat(n) + chat(n + 3) for n in range(1, 21)]
    with pytest.raises(AssertionError, match=r"chats\[0\] \(id \w+, turn 1\): overall"):
        assert_quality(chats, judge="length", level="turn", overall=4.9)
    said = {"role": "assistant", "content": "I like trains."}
    again = [
        [{"role": "user", "content": f"Hi {n}"}, *([said, chat(n)[0]] * 4), said]
        for n in range(12)
    ]
    with pytest.raises(
        AssertionError, match=r"repetitive .*the whole interval is over 10.00%"
    ):
        assert_quality(again, judge="repetition", repetitive=0.1)
    mean = score_chats(chats, "length", level="turn").figures()["overall"].value
    assert mean is not None
    with pytest.warns(QualityUndecidedWarning, match="more chats are needed"):
        assert_quality(chats, judge="length", level="turn", overall=mean)
