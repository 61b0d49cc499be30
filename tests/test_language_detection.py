"""Languages of chats that state none: right or unknown, not wrong; codes in all their spellings."""

import os
from collections import Counter
from pathlib import Path

import pytest

from medal_judges import read_dialogues
from medal_judges.reading.language_detection import detect_language
from medal_judges.records.dialogue import language_code

from .talks import talk

pytest.importorskip("lingua", reason="lingua is in the extra lang")

SPANISH = (
    "¿Dónde está mi pedido? Lo compré hace dos semanas.",
    "Su pedido llega mañana por la tarde.",
)
ENGLISH = (
    "Where is my order? I bought it two weeks ago.",
    "Your order arrives tomorrow afternoon.",
)


@pytest.mark.parametrize(
    "turns, language",
    [
        (SPANISH, "es"),
        (("请问我的订单在哪里？", "您的订单明天到。"), "zh"),
        (("Ok", "Ok"), None),
        (
            (
                "12345 67890",
                "https://example.org/a/very/long/address/without/any/words",
            ),
            None,
        ),
        ((SPANISH[0], ENGLISH[1]), None),
        (('<div class="message" style="color: red">请问我的订单在哪里？</div>',), "zh"),
    ],
)
def test_a_chat_is_in_a_language_or_it_cannot_be_told(
    turns: tuple[str, ...], language: str | None
):
    assert detect_language(talk(*turns)) == language


@pytest.mark.parametrize(
    "name", ["xdial_conture_dialogue.jsonl.gz", "xdial_fed_dialogue.jsonl.gz"]
)
def test_human_chats_in_ten_languages(name: str) -> None:
    data = os.environ.get("MEDAL_JUDGES_DATA")
    if not data:
        pytest.skip("MEDAL_JUDGES_DATA is not set")
    found: dict[str, Counter[str]] = {}
    for number, dialogue in enumerate(read_dialogues(Path(data) / name)):
        if number % 5 == 0:
            answer = detect_language(dialogue)
            verdict = {None: "unknown", dialogue.lang: "right"}.get(answer, "wrong")
            found.setdefault(dialogue.lang, Counter())[verdict] += 1
    assert len(found) == 10
    for counts in found.values():
        assert not counts["wrong"] and counts["right"] > 0.85 * counts.total()


@pytest.mark.parametrize(
    "value, code",
    [
        *[
            ("zh-CN", "zh"),
            ("ja_JP", "ja"),
            ("EN-us", "en"),
            ("es-419", "es"),
            ("English", "en"),
        ],
        *[("zh-Hant", "zh-hant"), ("zh_Hant_TW", "zh-hant"), ("sr-Latn-RS", "sr-latn")],
        *[
            ("yue", "yue"),
            (" German ", "de"),
            (None, "und"),
            ("", "und"),
            ("unknown", "und"),
        ],
        *[("Scots Gaelic", "gd"), ("Bokmal", "nb"), ("Twi", "twi")],
    ],
)
def test_codes_in_all_their_spellings(value: object, code: str) -> None:
    assert language_code(value) == code
