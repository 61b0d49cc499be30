"""The llm setting: a wrong key is said, with the nearest one of its backend or the backend that
has it."""

from typing import Any

import pytest

from medal_judges.errors import ConfigError
from medal_judges.models.llm.settings import (
    BACKENDS,
    OpenAILLM,
    TransformersLLM,
    llm_config,
)


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        (
            {"model": "embedded:smollm2", "base_url": "http://x/v1"},
            "unknown key 'base_url'",
        ),
        ({"model": "embedded:smollm2", "dtpye": "bf16"}, "Did you mean 'dtype'"),
        ({"backend": "opnai", "model": "gpt-4.1"}, "unknown backend 'opnai'"),
        ({"base_url": "http://x/v1"}, "no model is given"),
    ],
)
def test_a_wrong_key_is_a_clear_error(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        llm_config(setting)
    assert words in str(caught.value)


def test_the_backend_decides_which_settings_there_are() -> None:
    assert isinstance(llm_config("embedded:smollm2"), TransformersLLM)
    assert llm_config("openai:gpt-4.1") == llm_config(
        {"backend": "openai", "model": "gpt-4.1"}
    )
    ours = llm_config(
        {"model": "openai:o3", "reasoning_effort": "high", "cache": False}
    )
    assert isinstance(ours, OpenAILLM) and (ours.model, ours.cache) == ("o3", False)
    assert {kind.model_fields["backend"].default for kind in BACKENDS.values()} == set(
        BACKENDS
    )
