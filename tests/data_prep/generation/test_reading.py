"""What agents say, read: hostile answers too."""

import pytest

from medal_judges.data_prep.generation.protocol import (
    parse_utterance,
    parse_verdict,
)


@pytest.mark.parametrize(
    ("answer", "text", "ends"),
    [
        ("Hi there!", "Hi there!", False),
        ("User: users: these are ours", "users: these are ours", False),
        ('"It is late."', "It is late.", False),
        ("Bye! END\\_OF\\_DIALOGUE", "Bye!", True),
        ('I like "Friends" END_OF_DIALOGUE', 'I like "Friends"', True),
    ],
)
def test_an_utterance_is_the_message_alone(answer: str, text: str, ends: bool) -> None:
    assert parse_utterance(answer) == (text, ends)


@pytest.mark.parametrize(
    ("answer", "accepted", "reason", "readable"),
    [
        ("Yes.", True, "", True),
        ("No. It repeats what was said.", False, "It repeats what was said.", True),
        ("Yesterday was better.", False, "Yesterday was better.", False),
        ('{"verdict": "No", "reason": "too long"}', False, "too long", True),
        ('{"verdict": "Maybe"}', False, '{"verdict": "Maybe"}', False),
    ],
)
def test_a_verdict_is_yes_or_no(
    answer: str, accepted: bool, reason: str, readable: bool
) -> None:
    assert parse_verdict(answer) == (accepted if readable else None, reason)
