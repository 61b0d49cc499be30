"""MEDAL's form, read from a fixture of it, and the audit that finds its clipped turns."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import pytest

from medal_judges.data_prep.sources.audit import audit
from medal_judges.data_prep.sources.medal import medal_rows
from medal_judges.data_prep.sources.registry import get_source, load_spec
from medal_judges.errors import DataError, RecordError
from medal_judges.reading.released import label_fields
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue, parse_labelled

needs_data = pytest.mark.skipif(
    "MEDAL_JUDGES_DATA" not in os.environ, reason="MEDAL_JUDGES_DATA (human ratings) is not set"
)

TALK = {
    "de": ("Erzähl mir von deiner letzten Reise", "Wir waren im Winter auf der Insel Rügen"),
    "en": ("Tell me about the best meal ever", "We had fresh noodles at the corner house"),
    "es": ("Cuéntame algo sobre tus amigos mejores", "Vivimos cerca de los valles verdes"),
    "fr": ("Parle de tes voyages avec tes amis", "Nous avons vu les montagnes bleues hier"),
    "pt": ("Conta algo sobre os teus amores", "Fomos ver as ilhas dos nossos avós ontem a correr"),
    "zh": ("请告诉我你最喜欢的旅行。", "我们去年冬天去了海边，很开心。"),
}
LABELS = {
    "unsafe": {"label": 0, "comment": ""},
    "repetitive": {"label": 1, "comment": "says it twice"},
    "overall_quality_rating": {"label": 4, "comment": "fine"},
}


def medal_record(lang: str, number: int = 0, clip: bool = False, **fields: Any) -> dict[str, Any]:
    contents = [text.strip("user: ") if clip else text for text in TALK[lang]]
    turns = [
        {"role": role, "content": content}
        for role, content in zip(("user", "assistant"), contents, strict=True)
    ]
    return {
        "source": "fixture",
        "scene": f"A scene, number {number}, of some length.",
        "lang": lang,
        "dialogue": turns,
        "models": {"user": "model-u", "assistant": "model-a"},
        "ended": True,
        "labels": LABELS,
    } | fields


def test_medal_form_in_six_languages() -> None:
    rows = list(medal_rows(medal_record(lang) for lang in TALK))
    assert [row.dialogue.lang for row in rows] == list(TALK) == list(get_source("medal").languages)
    assert len({row.id for row in rows}) == 6
    assert len({row.group for row in rows}) == len({row.split for row in rows}) == 1  # one scene
    row = rows[0]
    assert row.labels == {"unsafe": (0.0,), "repetitive": (1.0,), "overall": (4.0,)}
    assert row.scales["overall"] == (1.0, 5.0) and row.rating("incoherent") is None
    assert row.extra["comments"] == {"repetitive": "says it twice", "overall": "fine"}
    assert row.extra["ended"] is True and row.dialogue.chatbot == "model-a"
    assert parse_labelled(row.to_record()) == row


def test_medal_labels_as_text_bare_or_beside_the_dialogue() -> None:
    wanted = {"unsafe": (0.0,), "repetitive": (1.0,), "overall": (4.0,)}
    bare = {"unsafe": 0, "repetitive": "1", "overall_quality_rating": 4, "incoherent": None}
    beside = {k: v for k, v in medal_record("en").items() if k != "labels"} | LABELS
    for record in (
        medal_record("en", labels=json.dumps(LABELS)),
        medal_record("en", labels=bare),
        beside,
    ):
        (row,) = medal_rows([record])
        assert row.labels == wanted
    assert label_fields({}) == {}  # no labels, not eight zeros


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        ('{"unsafe": ', "a JSON object"),
        ([1], "an object of dimension"),
        ({"unsafe": 2}, "a number from 0 to 1"),
        ({"unsafe": "maybe"}, "a number from 0 to 1"),
        ({"unsafe": True}, "a number from 0 to 1"),
        ({"overall_quality_rating": float("nan")}, "a number from 1 to 5"),
    ],
)
def test_medal_labels_that_are_none(labels: object, problem: str) -> None:
    with pytest.raises(RecordError, match=problem):
        label_fields({"labels": labels})
    with pytest.raises(DataError, match=rf"Johndfm/medal:2: field .*{problem}"):
        list(medal_rows([medal_record("en"), medal_record("en", labels=labels)]))


def rows_in(lang: str, count: int, clip: bool) -> Iterator[LabelledDialogue]:
    return medal_rows(medal_record(lang, n, clip, id=f"{lang}-{n}") for n in range(count))


def test_audit_finds_clipped_turns_by_language() -> None:
    clipped, whole = ("de", "fr", "pt"), ("en", "es")
    rows = [row for lang in clipped for row in rows_in(lang, 40, clip=True)]
    rows += [row for lang in whole for row in rows_in(lang, 40, clip=False)]
    rows += rows_in("zh", 40, clip=True)
    found = {lang: one.clipped for lang, one in audit(rows).languages.items()}
    assert found == {"de": True, "fr": True, "pt": True, "en": False, "es": False, "zh": None}


def test_audit_does_not_accuse_punctuated_text() -> None:
    record = medal_record("en")
    for turn in record["dialogue"]:
        turn["content"] += "."
    rows = list(medal_rows(record | {"id": str(n)} for n in range(100)))
    assert audit(rows).languages["en"].clipped is None


@needs_data
def test_audit_of_real_text_as_it_is_and_clipped() -> None:
    rows = load_spec("xdial:fed")
    as_is = {lang: one.clipped for lang, one in audit(rows).languages.items()}
    tell = {"en", "de", "fr", "es"}
    assert as_is == {lang: False if lang in tell else None for lang in as_is}
    cut = [
        LabelledDialogue(
            Dialogue(
                row.id,
                tuple(Turn(t.role, t.content.strip("user: ")) for t in row.dialogue.turns),
                row.dialogue.lang,
            ),
            {},
            {},
        )
        for row in rows
    ]
    found = {lang: one.clipped for lang, one in audit(cut).languages.items()}
    assert found == {lang: True if lang in tell else None for lang in found}
