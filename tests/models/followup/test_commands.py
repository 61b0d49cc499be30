"""The commands around follow-up judges."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.followup.pool import FollowUp, FollowUpPool, load_pool

RUNNER = CliRunner()


def test_proposed_follow_ups_are_a_file_that_loads(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("openai", reason="needs the extra: pip install '.[api]'")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    listed = serve(change={"choices.0.message.content": "Here:\n1. What?\n2. I see."})
    out = tmp_path / "pool.yaml"
    command = ["data", "followups", "--out", str(out), "signs=[negative,positive]"]
    llm = {"model": "openai:tester", "base_url": listed.url, "cache": False}
    settings = ["samples=1", f"llms={json.dumps([llm])}"]
    result = RUNNER.invoke(app, [*command, *settings], catch_exceptions=False)
    assert result.exit_code == 0 and "correct them" in result.output
    pool = load_pool(str(out))
    assert pool.generators == ("openai/tester",)
    assert [(f.text, f.sign) for f in pool.follow_ups] == [
        *(("What?", "negative"), ("I see.", "negative")),
        *(("What?", "positive"), ("I see.", "positive")),
    ]
    assert pool.strategy == "selfmap"
    with pytest.raises(MedalError, match="already exists"):
        RUNNER.invoke(app, [*command, *settings], catch_exceptions=False)


DIETS_MODELS = {"chatglm3", "llama2", "qwen", "vicuna", "baichuan2"}


def test_a_sample_has_as_many_of_each_generator() -> None:
    texts = {name: [f"{name} says {i}" for i in range(3)] for name in "abcd"}
    every = tuple(FollowUp(text=t, by=name) for name, own in texts.items() for t in own)
    pool = FollowUpPool(name="p", follow_ups=every)
    for count in (12, 8, 4):  # DIET, section 6.2
        drawn = pool.draw_evenly(count, seed=0)
        assert [f.by for f in drawn.follow_ups] == sorted("abcd" * (count // 4))
    assert pool.draw_evenly(4, seed=0) == pool.draw_evenly(4, seed=0)
    assert len({pool.draw_evenly(4, seed=s).hash for s in range(5)}) > 1
    for count in (16, 6):  # more than there are; not as many of each
        reason = f"draw {count}: .* p has 12 follow-ups of 4"
        with pytest.raises(ConfigError, match=reason):
            pool.draw_evenly(count, seed=0)
    others = tuple(FollowUp(text=f"{number}") for number in range(3))
    pool = FollowUpPool(name="p", follow_ups=others)
    assert len(pool.draw_evenly(2, 0).follow_ups) == 2
