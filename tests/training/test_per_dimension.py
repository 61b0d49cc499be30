"""One judge a dimension: each is the one trained alone, and the whole is one saved judge."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges.config import build_config
from medal_judges.models.base.judge import Judge
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records
from medal_judges.training import rows as rows_module
from medal_judges.training import run
from medal_judges.training.config import TrainConfig
from medal_judges.training.run import (
    train_judge,
)
from medal_judges.training.steps import dimension_config
from medal_judges.training.trainer import JudgeTrainer

from ..conftest import WORDS
from ..talks import talk

DIMENSIONS = ("overall", "repetitive")


def settings(base: Path, folder: Path, **more: Any) -> TrainConfig:
    model = {"family": "encoder", "base": str(base), "max_tokens": 32}
    return build_config(
        TrainConfig,
        {
            "name": "apart",
            "output_dir": str(folder / "judge"),
            "rubric": "medal",
            "model": model,
            "args": {"num_train_epochs": 1, "learning_rate": 0.01},
            "train": [{"source": str(folder / "train.jsonl")}],
            "validation": [{"source": str(folder / "validation.jsonl")}],
        }
        | more,
        where="test",
    )


def test_a_part_is_the_same_run_of_one_dimension(tmp_path: Path) -> None:
    whole = settings(tmp_path, tmp_path, per_dimension=True)
    part = dimension_config(whole, "overall")
    assert part.only == ("overall",) and not part.per_dimension
    assert part.output_dir == str(tmp_path / "judge" / "members" / "overall")
    assert part.train == whole.train and part.args == whole.args


def labelled(number: int, split: str) -> LabelledDialogue:
    rng = np.random.default_rng([number, len(split)])
    dialogue = talk(
        *(" ".join(rng.choice(WORDS, 6)) for _ in range(4)), id=f"{split}-{number}"
    )
    labels = {"overall": (float(1 + number % 5),), "repetitive": (float(number % 2),)}
    scales = {"overall": (1.0, 5.0), "repetitive": (0.0, 1.0)}
    return LabelledDialogue(dialogue, labels, scales, split=split)


@pytest.mark.slow  # four judges, each checked in a process of its own
def test_the_joined_judge_is_its_parts(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("train", "validation"):
        rows = (labelled(i, split).to_record() for i in range(20))
        write_records(tmp_path / f"{split}.jsonl", rows)
    calls: Counter[str] = Counter()

    for module, name in (
        (run, "load_rows"),
        (rows_module, "check_leaks"),
        (JudgeTrainer, "evaluate"),
    ):
        whole = getattr(module, name)

        def counted(
            *args: Any, whole: Any = whole, name: str = name, **more: Any
        ) -> Any:
            calls[name] += 1
            return whole(*args, **more)

        monkeypatch.setattr(module, name, counted)
    folder = train_judge(settings(tiny_bert, tmp_path, per_dimension=True))
    # One reading of the rows for both dimensions; each is evaluated at the end of its epoch.
    assert calls == {"load_rows": 1, "check_leaks": 1, "evaluate": 2}
    monkeypatch.undo()
    judge = Judge.from_pretrained(folder)
    assert judge.family == "hybrid" and {d.name for d in judge.dimensions} == set(
        DIMENSIONS
    )
    alone = train_judge(
        settings(
            tiny_bert, tmp_path, only=["overall"], output_dir=str(tmp_path / "alone")
        )
    )
    dialogues = [labelled(i, "test").dialogue for i in range(5)]
    wanted = [
        j.scores["overall"] for j in Judge.from_pretrained(alone).score(dialogues)
    ]
    found = [j.scores["overall"] for j in judge.score(dialogues)]
    assert found == pytest.approx(wanted, abs=1e-5)
    figures = json.loads((folder / "validation.json").read_text())
    assert {"spearman/overall", "auc/repetitive", "spearman", "auc"} <= figures.keys()
    assert (folder / "golden.json").is_file() and (folder / "README.md").is_file()


@pytest.mark.slow  # three judges, each checked in a process of its own
def test_a_run_stopped_at_its_second_judge_keeps_the_first(
    tiny_modernbert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("train", "validation"):
        rows = (labelled(i, split).to_record() for i in range(20))
        write_records(tmp_path / f"{split}.jsonl", rows)
    config = settings(tiny_modernbert, tmp_path, per_dimension=True)
    train, steps = JudgeTrainer.train, list[int]()

    def counted(self: JudgeTrainer, **more: Any) -> Any:
        if steps == [3]:
            steps.append(0)
            raise KeyboardInterrupt
        result = train(self, **more)
        resumed = more["resume_from_checkpoint"]
        steps.append(self.state.global_step - 3 * (resumed is not None))
        return result

    monkeypatch.setattr(JudgeTrainer, "train", counted)
    with pytest.raises(KeyboardInterrupt):
        train_judge(config)
    folder = train_judge(config)
    # The first judge takes no step again, the second all of its three.
    assert steps == [3, 0, 0, 3]
    monkeypatch.undo()
    whole = settings(
        tiny_modernbert,
        tmp_path,
        per_dimension=True,
        output_dir=str(tmp_path / "whole"),
    )
    dialogues = [labelled(i, "test").dialogue for i in range(5)]
    resumed_scores = [j.scores for j in Judge.from_pretrained(folder).score(dialogues)]
    judge = Judge.from_pretrained(train_judge(whole))
    for scores, judgement in zip(resumed_scores, judge.score(dialogues), strict=True):
        assert scores == pytest.approx(judgement.scores, abs=1e-5)
