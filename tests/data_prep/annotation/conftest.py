"""Dialogues of our own, and what Label Studio made of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from medal_judges.data_prep.annotation.assignment import PerDialogue, assign, parse_annotators
from medal_judges.data_prep.annotation.project import Project, keyed
from medal_judges.data_prep.annotation.questions import dimensions_to_ask
from medal_judges.jsonl import read_labelled
from medal_judges.labelled import LabelledDialogue


@pytest.fixture
def label_studio() -> Path:
    """Folder of files that passed through a real Label Studio, see README.md."""
    return Path(__file__).parent / "label_studio"


@pytest.fixture
def rows(label_studio: Path) -> list[LabelledDialogue]:
    return list(read_labelled(label_studio / "rows.jsonl"))


@pytest.fixture
def project(rows: list[LabelledDialogue]) -> Project:
    """As ``medal annotate export --annotator ana --annotator ben --human-likeness`` makes it."""
    by_key = keyed(rows)
    langs = {key: row.dialogue.lang for key, row in by_key.items()}
    assignments = assign(langs, parse_annotators(["ana", "ben"]), PerDialogue(2), seed=0)
    return Project(by_key, dimensions_to_ask(human_likeness=True), assignments)
