"""FIELD=VALUE settings of judges in YAML."""

from __future__ import annotations

from pathlib import Path

import pytest

from medal_judges import Judge
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.inference.judge_options import judge_options

CONTRAST = "configs/judges/contrast.yaml"


def test_one_field_of_a_group_leaves_the_others() -> None:
    found = judge_options(CONTRAST, None, None, ["llm.dtype=bf16", "scale.overall.center=1.5"])
    assert found["llm"] == {"model": "embedded:smollm2", "dtype": "bf16"}
    assert found["scale"]["overall"]["center"] == 1.5
    assert found["scale"]["overall"]["spread"] == 6.36
    assert found["scale"]["engaging"]["center"] == -2.58


def test_a_whole_model_is_a_text() -> None:
    assert judge_options(CONTRAST, None, None, ["llm=openai:gpt-4.1-mini"]) == {
        "llm": "openai:gpt-4.1-mini"
    }


def test_what_is_no_setting_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not of the form"):
        judge_options(CONTRAST, None, None, ["llm"])
    folder = Judge.from_pretrained("configs/judges/length.yaml").save_pretrained(tmp_path / "j")
    options = judge_options(str(folder), None, None, ["llm=x"])
    with pytest.raises(
        JudgeLoadError, match="saved judge of family 'feature' has no setting 'llm'"
    ):
        Judge.from_pretrained(folder, **options)
