"""``device`` and ``dtype`` of judges in YAML: obeyed, or refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from medal_judges import Judge
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.base.saving import placed

CONTRAST, LENGTH = "configs/judges/contrast.yaml", "configs/judges/length.yaml"


def test_a_judge_with_a_model_of_its_own_obeys() -> None:
    assert choose_judge(CONTRAST, ["answers=2"], device="cuda:1", dtype="bf16").options == {
        "answers": 2,
        "llm": {"model": "embedded:smollm2", "device": "cuda:1", "dtype": "bf16"},
    }
    given = ["llm.model=org/name", "llm.dtype=fp16"]
    assert choose_judge(CONTRAST, given, device="cpu").options["llm"] == {
        "model": "org/name",
        "dtype": "fp16",
        "device": "cpu",
    }
    assert choose_judge(CONTRAST).options == {}
    own = "configs/judges/unieval.yaml"
    assert choose_judge(own, device="cpu", dtype="bf16").options == {
        "device": "cpu",
        "dtype": "bf16",
    }


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"llm": "openai:gpt-4.1-mini", "device": "cuda"}, "gpt-4.1-mini cannot use --device"),
        ({"llm": "openai:gpt-4.1-mini", "dtype": "bf16"}, "it runs on a server"),
        ({"llm": "vllm:org/name", "device": "cuda"}, "vLLM chooses it"),
    ],
)
def test_a_model_elsewhere_refuses(options: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        placed({"family": "prompted"}, options, "judge.yaml")
    with pytest.raises(JudgeLoadError, match=told):
        Judge.from_pretrained(CONTRAST, **options)


def test_vllm_takes_a_precision() -> None:
    told = placed({"family": "geval", "llm": "vllm:org/name"}, {"dtype": "bf16"}, "j")
    assert told == {"llm": {"model": "vllm:org/name", "dtype": "bf16"}}


def test_a_judge_without_weights_refuses() -> None:
    with pytest.raises(ConfigError, match="has no weights, so --device"):
        choose_judge(LENGTH, device="cuda")
    with pytest.raises(JudgeLoadError, match="has no weights, so --dtype"):
        Judge.from_pretrained(LENGTH, dtype="bf16")


def test_a_model_comes_up_in_the_precision_asked_for() -> None:
    judge = Judge.from_pretrained(CONTRAST, dtype="bf16", device="cpu")
    assert judge.signature().dtype == "bfloat16"


def test_members_of_a_hybrid_obey_where_they_have_a_model(tmp_path: Path) -> None:
    path = tmp_path / "both.yaml"
    members = {"a": {"path": CONTRAST}, "b": {"path": LENGTH}}
    settings = {"family": "hybrid", "name": "both", "rubric": "overall", "kind": "stack"}
    path.write_text(json.dumps(settings | {"members": members, "weights": {"a": 1, "b": 1}}))
    options = choose_judge(str(path), dtype="bf16").options
    assert options["members"]["a"]["options"]["llm"]["dtype"] == "bf16"
    assert options["members"]["b"]["options"] == {}
    judge = Judge.from_pretrained(path.as_posix(), dtype="bf16")
    assert judge.signature().dtype == "bfloat16"
    saved = judge.save_pretrained(tmp_path / "saved")
    assert not (saved / "golden.json").exists()  # its members' answers could cost money
    assert Judge.from_pretrained(saved, dtype="fp32", device="cpu").signature().dtype == "float32"


def test_settings_of_a_saved_judge_are_its_members(tmp_path: Path) -> None:
    assert choose_judge(str(tmp_path), ["strong.llm.base_url=http://here/v1"]).options == {
        "strong": {"llm": {"base_url": "http://here/v1"}}
    }
    folder = Judge.from_pretrained(LENGTH).save_pretrained(tmp_path / "length")
    with pytest.raises(JudgeLoadError, match="has no setting 'features'"):
        Judge.from_pretrained(folder, features=["x"])
