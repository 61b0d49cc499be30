"""`make train-demo`: what its script types, and the table it makes."""

import pytest
import train_demo

from medal_judges.config import load_config
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import TrainConfig


def settings(command: list[str]) -> TrainConfig:
    """What ``training/train.py`` reads of a command line of the script."""
    name, *overrides = command[command.index("--config") + 1 :]
    return load_config(TrainConfig, name, overrides, folder="train")


@pytest.mark.parametrize("data", ["/data", ""])
def test_both_encoders_learn_whole_from_the_same_ratings(
    data: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_DATA", data)
    number, environment = train_demo.launch(train_demo.DDP, train_demo.REGRESSION)
    classes, _ = train_demo.launch(train_demo.ZERO_2, train_demo.CLASSES)
    assert environment["ACCELERATE_USE_CPU"] == "true"
    one, other = settings(number), settings(classes)
    assert (one.model.base, one.test) == ("embedded:e5", ())
    assert one.model.heads["overall"].kind == "regression"
    assert other.model.heads["overall"].kind == "classification"
    (dimension,) = [d for d in load_rubric(other.rubric) if d.name == "overall"]
    assert len(dimension.levels) > 2 and other.only == ("overall",)
    assert (one.train, one.validation) == (other.train, other.validation)
    sources = {"dialogue_eval:train", "dstc9:train"} if data else {"chitchat:train"}
    assert {entry.source for entry in one.train} == sources
