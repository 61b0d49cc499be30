"""One judge a dimension: each is the one trained alone, and the whole is one saved judge."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medal_judges.config import build_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records
from medal_judges.training import rows as rows_module
from medal_judges.training import run
from medal_judges.training.config import TrainConfig
from medal_judges.training.rows import RunRows, TrainingExample
from medal_judges.training.run import (
    facts_of_start,
    learnable,
    require_run_folder,
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


def test_only_takes_known_dimensions() -> None:
    rows = RunRows(
        [TrainingExample(Dialogue("1", ()), "a", {"overall": 0.5, "unsafe": 1.0})],
        [],
        [],
    )
    rubric = load_rubric("medal")
    assert [d.name for d in learnable(rubric, rows, ("overall",))] == ["overall"]
    assert {d.name for d in learnable(rubric, rows)} == {"overall", "unsafe"}
    with pytest.raises(ConfigError, match="no dimension fun"):
        learnable(rubric, rows, ("overall", "fun"))
    with pytest.raises(ConfigError, match="no training row has a label of other"):
        learnable(rubric, rows, ("other",))  # before minutes of reading the chats


def test_families_that_fit_each_dimension_refuse_it(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="leave it out"):
        settings(tmp_path, tmp_path, per_dimension=True, model={"family": "linear"})


def test_a_metric_that_a_dimension_cannot_have_is_refused_before_the_first_step(
    tiny_bert: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for split in ("train", "validation"):
        rows = (labelled(i, split).to_record() for i in range(20))
        write_records(tmp_path / f"{split}.jsonl", rows)
    monkeypatch.setattr(JudgeTrainer, "train", None)  # calling it would fail otherwise
    args = {"metric_for_best_model": "spearman"}
    with pytest.raises(ConfigError, match="'spearman' is not a figure") as caught:
        train_judge(settings(tiny_bert, tmp_path, per_dimension=True, args=args))
    assert "auc/repetitive" in str(caught.value)
    # A binary dimension that is learned by regression has that figure.
    model = {"family": "encoder", "base": str(tiny_bert), "max_tokens": 64}
    model["heads"] = {"repetitive": {"kind": "regression"}}
    # the call of train: nothing refused it
    with pytest.raises(TypeError, match="not callable"):
        train_judge(
            settings(tiny_bert, tmp_path, per_dimension=True, args=args, model=model)
        )


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


def test_a_run_that_stopped_before_it_joined_its_parts_may_go_on(
    tmp_path: Path,
) -> None:
    (tmp_path / "members" / "overall" / "checkpoints").mkdir(parents=True)
    require_run_folder(tmp_path)
    (tmp_path / "hybrid" / "judgements").mkdir(parents=True)
    require_run_folder(tmp_path / "hybrid")
    other = tmp_path / "other"
    (other / "members" / "overall").mkdir(parents=True)
    with pytest.raises(ConfigError, match="files that are of no training: members"):
        require_run_folder(other)


def test_a_judge_names_what_every_start_before_it_learnt_from(tmp_path: Path) -> None:
    entries = [{"part": part, "source": part} for part in ("train", "start", "test")]
    (tmp_path / "data.json").write_text(json.dumps(entries))
    sources = [entry["source"] for entry in facts_of_start(tmp_path)]
    assert sources == ["train", "start"]


def test_a_source_that_is_rescaled_in_two_ways_is_refused(
    tiny_bert: Path, tmp_path: Path
) -> None:
    rows = (labelled(i, "train").to_record() for i in range(4))
    write_records(tmp_path / "train.jsonl", rows)
    entry = {"source": str(tmp_path / "train.jsonl"), "dimensions": ["overall"]}
    train = [entry | {"rescale": "standardise"}, entry | {"rescale": [1, 5]}]
    config = settings(tiny_bert, tmp_path, train=train, validation=[])
    with pytest.raises(ConfigError, match="rescale of 'overall' is not that of the"):
        rows_module.load_rows(config, load_rubric("medal"))
    config = settings(tiny_bert, tmp_path, train=[train[0], entry], validation=[])
    assert len(rows_module.load_rows(config, load_rubric("medal")).train) == 8
