"""The commands around follow-up judges."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import load_config
from medal_judges.data_prep.followups import PoolGeneration
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.base.judge import Judge
from medal_judges.models.followup.pool import load_pool
from medal_judges.models.llm.local.model import LocalModel

RUNNER = CliRunner()


def write_rated(path: Path) -> Path:
    """24 short dialogues, good and bad, rated by two people on a scale from 0 to 4."""
    good = ["Hi! I have a new puppy.", "How lovely! What is its name? I love dogs too."]
    bad = ["Hi! I have a new puppy.", "No. Seven seven seven table."]
    with path.open("w", encoding="utf-8") as stream:
        for i in range(24):
            texts = [f"{i}. {t}" for t in (good if i % 2 else bad)]
            turns = [
                {"role": role, "content": text}
                for role, text in zip(("user", "assistant"), texts, strict=True)
            ]
            labels = {"overall": [3, 4] if i % 2 else [0, 1]}
            row = {"id": str(i), "dialogue": turns, "labels": labels, "scales": {"overall": [0, 4]}}
            stream.write(json.dumps(row) + "\n")
    return path


@pytest.mark.slow
def test_calibrate_puts_scores_on_the_human_scale_and_keeps_ranks(
    smollm2: LocalModel, tmp_path: Path
) -> None:
    data, out = write_rated(tmp_path / "rated.jsonl"), tmp_path / "mine.yaml"
    command = ["calibrate", "configs/judges/contrast.yaml", "--data", str(data), "--out", str(out)]
    result = RUNNER.invoke(app, command, catch_exceptions=False)
    assert result.exit_code == 0 and "overall: mean absolute error" in result.output
    scale = yaml.safe_load(out.read_text(encoding="utf-8"))["scale"]["overall"]
    assert scale["fitted_on"] == f"{data.name} overall, 24 rows"
    from medal_judges.data_prep.sources.registry import load_spec

    dialogues = [row.dialogue for row in load_spec(str(data))]
    before = [
        float(j.scores["overall"] or 0)
        for j in Judge.from_pretrained("configs/judges/contrast.yaml", llm=smollm2).score(dialogues)
    ]
    after = [
        float(j.scores["overall"] or 0)
        for j in Judge.from_pretrained(str(out), llm=smollm2).score(dialogues)
    ]
    assert sorted(range(24), key=before.__getitem__) == sorted(range(24), key=after.__getitem__)
    human = [4.5 if i % 2 else 1.5 for i in range(24)]  # their mean on the judge's scale, 1 to 5
    assert abs(sum(after) / 24 - 3) < 0.2
    assert sum(abs(a - h) for a, h in zip(after, human, strict=True)) < sum(
        abs(b - h) for b, h in zip(before, human, strict=True)
    )


def test_calibrate_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    data = write_rated(tmp_path / "rated.jsonl")
    rest = ["--data", str(data), "--out", str(tmp_path / "out.yaml")]
    with pytest.raises(ConfigError, match="is not a follow-up judge"):
        RUNNER.invoke(
            app, ["calibrate", "configs/judges/length.yaml", *rest], catch_exceptions=False
        )


def test_proposed_follow_ups_are_a_file_that_loads(
    serve: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("openai", reason="needs the extra: pip install 'medal-judges[api]'")
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    listed = serve(change={"choices.0.message.content": "Here:\n1. What?\n2. I see."})
    out = tmp_path / "pool.yaml"
    command = ["data", "followups", "--out", str(out), "signs=[negative,positive]"]
    llm = {"model": "openai:tester", "base_url": listed.url, "cache": False}
    settings = ["samples=1", f"llms={json.dumps([llm])}"]
    result = RUNNER.invoke(app, [*command, *settings], catch_exceptions=False)
    assert result.exit_code == 0 and "review it" in result.output
    pool = load_pool(str(out))
    assert pool.reviewed is None and pool.generators == ("openai/tester",)
    assert [(f.text, f.sign) for f in pool.follow_ups] == [
        *(("What?", "negative"), ("I see.", "negative")),
        *(("What?", "positive"), ("I see.", "positive")),
    ]
    assert pool.strategy == "selfmap"
    with pytest.raises(MedalError, match="exists already"):
        RUNNER.invoke(app, [*command, *settings], catch_exceptions=False)


DIETS_MODELS = {"chatglm3", "llama2", "qwen", "vicuna", "baichuan2"}


@pytest.mark.parametrize("judge", sorted(DIETS_MODELS))
def test_crafts_pairings_have_four_proposers_and_a_fifth_that_judges(judge: str) -> None:
    config = load_config(PoolGeneration, f"craft_{judge}", folder="followup_generation")
    assert config.strategy == "craft" and len(set(config.llms)) == 4
    assert config.judge is not None and config.judge not in config.llms
    short = {
        str(name).split("/")[1].lower().replace("-", "") for name in (*config.llms, config.judge)
    }
    assert all(any(model in name for name in short) for model in DIETS_MODELS)


def test_a_judge_may_not_propose_its_own_pool_in_craft(tmp_path: Path) -> None:
    more = ["--config", "craft_vicuna", "judge=Qwen/Qwen-14B-Chat"]
    command = ["data", "followups", "--out", str(tmp_path / "pool.yaml"), *more]
    with pytest.raises(ConfigError, match="must not be in llms"):
        RUNNER.invoke(app, command, catch_exceptions=False)
    with pytest.raises(ConfigError, match="did you mean 'samples'"):
        RUNNER.invoke(
            app,
            ["data", "followups", "--out", str(tmp_path / "p.yaml"), "sample=2"],
            catch_exceptions=False,
        )
