"""A judge labels chats, and another judge learns from the labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from medal_judges import Judge, read_dialogues
from medal_judges.config import build_config
from medal_judges.data_prep.labelling import label_file
from medal_judges.training.config import TrainConfig
from medal_judges.training.run import train_judge

from ..conftest import WORDS


def chats(path: Path, count: int, seed: int = 0, first: int = 0) -> Path:
    """Chats without labels in OpenAI's form, whose assistant repeats itself more or less."""
    rng, lines = np.random.default_rng(seed), []
    for number in range(first, first + count):
        few = rng.choice(WORDS, size=1 + number % 12, replace=False)
        said = [
            " ".join(rng.choice(words, size=8))
            for words in (WORDS, few)
            for _ in range(2)
        ]
        roles = ("user", "assistant") * 2
        order = (said[0], said[2], said[1], said[3])
        messages = [
            {"role": r, "content": c} for r, c in zip(roles, order, strict=True)
        ]
        lines.append(json.dumps({"id": f"c{number}", "messages": messages}))
    path.write_text("\n".join(lines))
    return path


def settings(folder: Path, **more: Any) -> TrainConfig:
    given: dict[str, Any] = {
        "name": "student",
        "output_dir": str(folder / "student"),
        "rubric": "overall",
    }
    given |= {
        "model": {
            "family": "linear",
            "vectors": False,
            "features": ["assistant.log_words"],
        }
    }
    return build_config(TrainConfig, given | more, where="test")


def test_a_student_agrees_with_its_teacher_on_other_chats(
    tmp_path: Path, tiny_bert: Path
) -> None:
    source, labels = chats(tmp_path / "chats.jsonl", 90), tmp_path / "labels"
    label_file(source, labels, Judge.from_pretrained("repetition"))
    model = {"family": "linear", "base": str(tiny_bert), "features": ["said_before_3"]}
    train = [{"source": str(labels / "labelled.jsonl")}]
    config = settings(tmp_path, model=model, train=train, split={"test": 0.3})
    folder = train_judge(config)
    facts = json.loads((folder / "data.json").read_text())
    assert sum(fact["rows"] for fact in facts) == 90
    teacher, student = (Judge.from_pretrained(name) for name in ("repetition", folder))
    by = f"judge repetition at revision {teacher.signature().revision}, said_before_3"
    assert {labeller for fact in facts for labeller in fact["labels_by"]} == {by}
    new = [*read_dialogues(chats(tmp_path / "new.jsonl", 60, seed=1, first=500))]
    pairs = [
        [j.scores["overall"] for j in judge.score(new)] for judge in (teacher, student)
    ]
    assert spearmanr(*pairs).statistic > 0.9
    assert np.abs(np.subtract(*pairs)).mean() < 0.3  # on the teacher's scale
    card = (folder / "README.md").read_text()
    assert (
        f"| {by} |" in card and f"Labels made by {by}: the judge predicts what" in card
    )
