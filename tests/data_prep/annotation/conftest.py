"""Dialogues of our own, and what Label Studio made of them."""

from pathlib import Path

import pytest

from medal_judges.data_prep.annotation.project import Project, new_project
from medal_judges.data_prep.annotation.questions import dimensions_to_ask
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.labelled import LabelledDialogue


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
    return new_project(rows, dimensions_to_ask(human_likeness=True), ["ana", "ben"])
