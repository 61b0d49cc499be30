"""One small saved judge of each family that is a folder, for all tests that damage such folders."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from medal_judges import Judge
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.hybrid.judge import (
    Formula,
    HybridJudge,
    MemberConfig,
    load_member,
)
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dimension import Dimension

from ..linear_judges import random_judge
from .every_command import Files

OVERALL = Dimension("overall", "ordinal", 1, 5)
FAMILIES = ("linear", "encoder", "lora", "generative", "hybrid")


def _hybrid(member: Path) -> Judge:
    one = load_member("one", MemberConfig(path=str(member)))
    return HybridJudge({"one": one}, {"overall": Formula(("one",), (1.0,))}, [OVERALL])


@pytest.fixture(scope="session")
def made_judges(
    tiny_bert: Path, tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Path]:
    """family -> folder of a judge of it; not to be changed."""
    torch.manual_seed(0)
    place = tmp_path_factory.mktemp("judges")
    base = str(tiny_llama)
    lora = LoraConfig(base=base, peft={"r": 4})
    writing = LoraConfig(base=base, peft={"r": 4}, head="generative")
    encoder = EncoderConfig(base=str(tiny_bert), max_tokens=64)
    judges: dict[str, Judge] = {
        "linear": random_judge(tiny_bert, [OVERALL], features=("log_words",)),
        "encoder": EncoderJudge.create(encoder, [OVERALL]),
        "lora": LoraJudge.create(lora, [OVERALL], name="lora"),
        "generative": GenerativeLoraJudge.create(
            writing, [OVERALL], name="w", rubric="medal"
        ),
    }
    folders = {
        name: judge.save_pretrained(place / name) for name, judge in judges.items()
    }
    folders["hybrid"] = _hybrid(folders["encoder"]).save_pretrained(place / "hybrid")
    return folders


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def judge_folder(made_judges: dict[str, Path], tmp_path: Path) -> Callable[[str], Path]:
    """A copy of a family's saved judge, to be damaged."""

    def copy(family: str) -> Path:
        return Path(shutil.copytree(made_judges[family], tmp_path / f"{family}-judge"))

    return copy
