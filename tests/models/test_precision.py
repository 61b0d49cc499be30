"""dtype auto: tried once, kept, refused with a reason; bf16 stays near fp32."""

import json
import math
from pathlib import Path

import pytest
import torch
from scipy.stats import spearmanr

from medal_judges import Judge
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.encoder import precision
from medal_judges.models.encoder.judge import EncoderJudge

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "precision"


def boxed(dtype: str) -> EncoderJudge:
    judge = Judge.from_pretrained("boxed", device="cpu", dtype=dtype)
    assert isinstance(judge, EncoderJudge)
    return judge


def test_bf16_stays_near_fp32() -> None:
    rows = (row.dialogue for row in load_spec("chitchat"))
    given = [d for d, _ in zip((d for d in rows if len(d.turns) < 12), range(60), strict=False)]
    exact, half = (
        [float(j.scores["overall"] or 0) for j in boxed(dtype).score(given)]
        for dtype in ("fp32", "bf16")
    )
    assert max(abs(a - b) / 4 for a, b in zip(exact, half, strict=True)) < 0.01
    assert exact != half
    assert spearmanr(exact, half).statistic >= 0.999


def test_a_trial_is_made_once_and_its_answer_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "reports_bf16", lambda device: True)
    monkeypatch.setattr(precision, "_STEADY", math.inf)  # whatever else the machine does
    boxed("auto")
    (file,) = cache.iterdir()
    found = json.loads(file.read_text())
    assert found["speedup"] > 0
    assert 0 < found["deviation"] < precision.MOVED
    assert precision.ORDER <= found["spearman"] <= 1
    made: list[object] = []
    monkeypatch.setattr(precision, "tried", made.append)
    # Tried on this machine or on one without AMX: what was found is what is done.
    for told, dtype in (
        ({}, "dtype:bf16|"),
        ({"spearman": None}, "dtype:bf16|"),  # every score the same: there is no order
        ({"speedup": 1.0}, "dtype:fp32 (auto: bf16 is no faster here)|"),
        ({"deviation": 0.3}, "dtype:fp32 (auto: bf16 moves its scores by more"),
        ({"deviation": float("nan")}, "dtype:fp32 (auto: bf16 moves its scores"),
        ({"spearman": 0.998}, "dtype:fp32 (auto: bf16 changes the order of its scores"),
    ):
        fine = {"speedup": 3.0, "deviation": 0.001, "spearman": 0.9999}
        file.write_text(json.dumps(fine | told))
        assert dtype in str(boxed("auto").signature())
    assert not made


def test_times_of_a_busy_machine_are_taken_again_and_not_kept(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "reports_bf16", lambda device: True)
    assert precision._steady({"fp32": [4.0, 9.0, 4.1], "bf16": [2.0, 1.9, 7.0]})
    assert not precision._steady({"fp32": [4.0, 9.0, 4.1], "bf16": [1.0, 1.9, 7.0]})
    asked: list[dict[str, list[float]]] = []
    monkeypatch.setattr(precision, "_steady", lambda seconds: bool(asked.append(seconds)))
    assert not precision.tried(boxed("fp32")).steady
    assert {len(each) for each in asked[-1].values()} == {precision._MOST}
    unsteady = precision.PrecisionTrial(1.0, 0.001, 1.0, steady=False)
    monkeypatch.setattr(precision, "tried", lambda judge: unsteady)
    assert boxed("auto").dtype == "fp32"
    assert not cache.exists()


@pytest.mark.parametrize("damage", ["", "{", "[1]", '{"speedup": 3.0}'])
def test_a_damaged_answer_is_tried_again(
    cache: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "reports_bf16", lambda device: True)
    found = precision.PrecisionTrial(2.0, 0.001, 1.0)
    monkeypatch.setattr(precision, "tried", lambda judge: found)
    boxed("auto")
    (file,) = cache.iterdir()
    file.write_text(damage)
    assert boxed("auto").dtype == "bf16"
    assert json.loads(file.read_text())["speedup"] == 2.0


def test_a_cpu_without_bf16_scores_in_fp32_and_says_why(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "reports_bf16", lambda device: False)
    judge = boxed("auto")
    assert "|dtype:fp32 (auto: this cpu does not multiply bf16)|" in str(judge.signature())
    assert not cache.exists()
    assert judge.net.body.dtype == torch.float32
    assert judge.advice() is None


def test_advice_is_for_who_scores_in_fp32_on_such_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(precision, "reports_bf16", lambda device: True)
    assert "--dtype auto" in (boxed("fp32").advice() or "")
    assert boxed("bf16").advice() is None


def test_judges_that_cannot_choose_say_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--dtype auto goes with encoder judges"):
        choose_judge("contrast", dtype="auto")
    with pytest.raises(ConfigError, match="has no weights"):
        choose_judge("length", dtype="auto")
    folder = tmp_path / "judge"
    folder.mkdir()
    (folder / "config.json").write_text('{"family": "embedding", "format": 1}')
    with pytest.raises(JudgeLoadError, match="auto goes with encoder judges, and this is one of"):
        Judge.from_pretrained(folder, dtype="auto")
