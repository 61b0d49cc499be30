"""Golden scores: a judge that answers otherwise is found out, and so is one that is not whole."""

import json
from pathlib import Path

import pytest
from safetensors.torch import load_file, save_file

from medal_judges import Judge
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.golden import compare_with_golden, require_golden_scores


def saved(path: Path) -> Path:
    judge = Judge.from_pretrained("configs/judges/repetition.yaml")
    folder = judge.save_pretrained(path / "judge")
    return folder


def edited(folder: Path, **changes: object) -> None:
    path = folder / "golden.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_a_judge_that_was_saved_answers_the_same(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    found = compare_with_golden(folder)
    assert found.holds and found.deviation == 0 and found.where == ""
    require_golden_scores(folder)
    edited(folder, scores=[{"overall": None}] * len(found.golden["scores"]))
    with pytest.raises(JudgeLoadError):
        require_golden_scores(folder)


@pytest.mark.parametrize("value", [4.999, None])
def test_another_answer_is_found_and_placed(
    tmp_path: Path, value: float | None
) -> None:
    folder = saved(tmp_path)
    scores = json.loads((folder / "golden.json").read_text())["scores"]
    scores[2]["overall"] = value
    edited(folder, scores=scores)
    assert compare_with_golden(folder).where == "golden-03, overall"
    with pytest.raises(
        JudgeLoadError, match=r"scores differ by .* \(at golden-03, overall"
    ):
        require_golden_scores(folder)


def test_another_weight_is_found(tmp_path: Path) -> None:
    folder = saved(tmp_path)
    weights = load_file(folder / "model.safetensors")
    weights["heads.overall.0.bias"] += 0.01
    save_file(weights, folder / "model.safetensors")
    found = compare_with_golden(folder)
    assert not found.holds and 1e-5 < found.deviation < 0.01
