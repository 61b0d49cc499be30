"""What agents say, read: hostile answers too."""

import pytest

from medal_judges.data_prep.generation.protocol import (
    read_utterance,
    read_verdict,
    without_thinking,
)


@pytest.mark.parametrize(
    ("answer", "text", "ends"),
    [
        ("Hi there!", "Hi there!", False),
        # Letters of the message never go: the trap of strip("user: ").
        ("user: Sure, see you there", "Sure, see you there", False),
        ("User: users: these are ours", "users: these are ours", False),
        ("**User:** yes, sure", "yes, sure", False),
        ("user:好的", "好的", False),
        ("User\uff1a好的", "好的", False),  # the colon of Chinese text
        ("users are rude: see?", "users are rude: see?", False),
        ('"It is late."', "It is late.", False),
        ("« Oui, bien sûr »", "Oui, bien sûr", False),
        ('"Late", he said, "again"', '"Late", he said, "again"', False),
        ("Thanks, bye! END_OF_DIALOGUE", "Thanks, bye!", True),
        ("END_OF_DIALOGUE", "", True),
        ("'END_OF_DIALOGUE'", "", True),
        ("Bye! END\\_OF\\_DIALOGUE", "Bye!", True),
        ("Bye! end_of_dialogue", "Bye!", True),
        ("Bye! [END OF DIALOGUE]", "Bye!", True),
        ('"Thanks, bye! END_OF_DIALOGUE"', "Thanks, bye!", True),
        ('"Thanks, bye!" END_OF_DIALOGUE', "Thanks, bye!", True),
        # What only looks like the mark, and what stands beside it, stays.
        (
            "I hate the end of dialogue in that film",
            "I hate the end of dialogue in that film",
            False,
        ),
        ("A weekend of dialogue", "A weekend of dialogue", False),
        ("WEEKEND OF DIALOGUES", "WEEKEND OF DIALOGUES", False),
        ('I like "Friends" END_OF_DIALOGUE', 'I like "Friends"', True),
        ("Bye *hugs* END_OF_DIALOGUE", "Bye *hugs*", True),
        ("再见END_OF_DIALOGUE", "再见", True),
        ("**END_OF_DIALOGUE**.", "", True),
        ("end of dialogue", "", True),
        ("<think>They want tea.</think>\n\nTea, please.", "Tea, please.", False),
        ("<think>They want", "", False),
        ("  \n ", "", False),
        ('"', '"', False),
    ],
)
def test_an_utterance_is_the_message_alone(answer: str, text: str, ends: bool) -> None:
    assert read_utterance(answer) == (text, ends)


@pytest.mark.parametrize(
    ("answer", "accepted", "reason", "readable"),
    [
        ("Yes.", True, "", True),
        ("yes", True, "", True),
        ("**Yes.** It fits well.", True, "", True),
        ("No. It repeats what was said.", False, "It repeats what was said.", True),
        (
            "No, it speaks like\nan assistant",
            False,
            "it speaks like an assistant",
            True,
        ),
        ("No", False, "", True),
        ("No\u3002太长", False, "太长", True),
        ("<think>No?</think>Yes.", True, "", True),
        # Neither is a yes: nobody said that the message is fit.
        ("Yesterday was better.", False, "Yesterday was better.", False),
        ("Not natural.", False, "Not natural.", False),
        ("Answer: Yes or No?", False, "Answer: Yes or No?", False),
        ("", False, "", False),
        ('{"verdict": "Yes", "reason": "fine"}', True, "", True),
        ('{"verdict": "No", "reason": "too long"}', False, "too long", True),
        ('{"verdict": "No", "reason": "it was cut her', False, "it was cut her", True),
        ('{"verdict":"Yes"', True, "", True),
        ('{"verdict": "Maybe"}', False, '{"verdict": "Maybe"}', False),
    ],
)
def test_a_verdict_is_yes_or_no(
    answer: str, accepted: bool, reason: str, readable: bool
) -> None:
    assert read_verdict(answer) == (accepted if readable else None, reason)


def test_a_chatbots_answer_loses_its_reasoning_and_nothing_else() -> None:
    assert without_thinking('<think>hm</think> assistant: "Yes" ') == 'assistant: "Yes"'
