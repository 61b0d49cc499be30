"""The audit that finds the turns that MEDAL's published code clipped."""

import os
from collections.abc import Iterator

import pytest

from medal_judges.data_prep.sources.audit import audit
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue

from ..talks import talk

needs_data = pytest.mark.skipif(
    "MEDAL_JUDGES_DATA" not in os.environ,
    reason="MEDAL_JUDGES_DATA (human ratings) is not set",
)

TALK = {
    "de": (
        "Erzähl mir von deiner letzten Reise",
        "Wir waren im Winter auf der Insel Rügen",
    ),
    "en": (
        "Tell me about the best meal ever",
        "We had fresh noodles at the corner house",
    ),
    "es": (
        "Cuéntame algo sobre tus amigos mejores",
        "Vivimos cerca de los valles verdes",
    ),
    "fr": (
        "Parle de tes voyages avec tes amis",
        "Nous avons vu les montagnes bleues hier",
    ),
    "pt": (
        "Conta algo sobre os teus amores",
        "Fomos ver as ilhas dos nossos avós ontem a correr",
    ),
    "zh": ("请告诉我你最喜欢的旅行。", "我们去年冬天去了海边，很开心。"),
}


def rows_in(lang: str, count: int, clip: bool) -> Iterator[LabelledDialogue]:
    """Rows of TALK as MEDAL's published code clips them, or whole."""
    for number in range(count):
        contents = [text.strip("user: ") if clip else text for text in TALK[lang]]
        yield LabelledDialogue(
            talk(*contents, id=f"{lang}-{number}", lang=lang), {}, {}
        )


def test_audit_finds_clipped_turns_by_language() -> None:
    clipped, whole = ("de", "fr", "pt"), ("en", "es")
    rows = [row for lang in clipped for row in rows_in(lang, 40, clip=True)]
    rows += [row for lang in whole for row in rows_in(lang, 40, clip=False)]
    rows += rows_in("zh", 40, clip=True)
    found = {lang: one.clipped for lang, one in audit(rows)[0].items()}
    assert found == {
        "de": True,
        "fr": True,
        "pt": True,
        "en": False,
        "es": False,
        "zh": None,
    }


def test_audit_does_not_accuse_punctuated_text() -> None:
    turns = tuple(Turn("user", f"{text}.") for text in TALK["en"])
    rows = [LabelledDialogue(Dialogue(str(n), turns, "en"), {}, {}) for n in range(100)]
    assert audit(rows)[0]["en"].clipped is None


@needs_data
def test_audit_of_real_text_as_it_is_and_clipped() -> None:
    rows = load_spec("xdial:fed")
    as_is = {lang: one.clipped for lang, one in audit(rows)[0].items()}
    tell = {"en", "de", "fr", "es"}
    assert as_is == {lang: False if lang in tell else None for lang in as_is}
    cut = [
        LabelledDialogue(
            Dialogue(
                row.id,
                tuple(
                    Turn(t.role, t.content.strip("user: ")) for t in row.dialogue.turns
                ),
                row.dialogue.lang,
            ),
            {},
            {},
        )
        for row in rows
    ]
    found = {lang: one.clipped for lang, one in audit(cut)[0].items()}
    assert found == {lang: True if lang in tell else None for lang in found}
