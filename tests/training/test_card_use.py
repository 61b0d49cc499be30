"""The lines of a card that load a judge without medal_judges: they run as they stand."""

import json
import re
from pathlib import Path

import pytest
from huggingface_hub import ModelCard
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import build_config
from medal_judges.models.base.heads import HeadConfig
from medal_judges.models.base.judge import Judge
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.lora.generative import GenerativeLoraJudge
from medal_judges.models.lora.judge import LoraJudge
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import load_rubric
from medal_judges.training.card.card import write_card
from medal_judges.training.config import TrainConfig
from medal_judges.training.rows import load_rows
from medal_judges.training.run import train_judge

from ..fresh import run_fresh
from ..talks import write_rated

DIMENSIONS = [d for d in load_rubric("medal") if d.name in ("overall", "unsafe")]
TURNS = (
    Turn("user", "Hi, how was your day?"),
    Turn("assistant", "Good, thanks! Yours?"),
)
CHAT = Dialogue("1", TURNS)


def made(kind: str, bert: Path, llama: Path) -> Judge:
    heads = {"overall": HeadConfig(kind="ordinal")}
    if kind == "encoder":
        config = EncoderConfig(base=str(bert), max_tokens=64, heads=heads)
        return EncoderJudge.create(config, DIMENSIONS)
    settings = {"base": str(llama), "rank": 4, "head": kind}
    if kind == "scoring":
        return LoraJudge.create(LoraConfig(**settings), DIMENSIONS)  # type: ignore[arg-type]
    lora = LoraConfig(**settings, layout="each", answer_tokens=40)  # type: ignore[arg-type]
    return GenerativeLoraJudge.create(lora, DIMENSIONS, name="w", rubric="medal")


@pytest.mark.parametrize(
    ("kind", "library", "task"),
    [
        ("encoder", "transformers", "text-classification"),
        ("scoring", "peft", "text-classification"),
        ("generative", "peft", "text-generation"),
    ],
)
def test_the_card_s_lines_load_the_judge(
    kind: str,
    library: str,
    task: str,
    tiny_bert: Path,
    tiny_llama: Path,
    tmp_path: Path,
) -> None:
    judge = made(kind, tiny_bert, tiny_llama)
    folder = judge.save_pretrained(tmp_path / "mine")
    write_card(folder, repo_id="org/mine")
    text = (folder / "README.md").read_text(encoding="utf-8")
    assert "https://huggingface.co/org/mine" in text and "pip install" in text
    card = ModelCard.load(folder / "README.md").data
    assert (card.library_name, card.pipeline_tag) == (library, task)
    after = text.partition("### Without medal_judges")[2]
    (code,) = re.findall(
        r"```python\n(.*?)```", after.partition("## Data")[0], flags=re.DOTALL
    )
    code = code.replace("org/mine", str(folder))
    if kind != "generative":
        code += "\nprint(text.encode().hex())\n"
    done = run_fresh(code, folder=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    if kind != "generative":
        written = bytes.fromhex(done.stdout.splitlines()[-1]).decode()
        assert written == judge.render([CHAT])[0].text  # type: ignore[attr-defined]
        assert "unsafe: the sigmoid of the logit" in after
        assert ("(CORN)" in after) == (kind == "encoder")


def test_several_annotators_are_people(tmp_path: Path, tiny_bert: Path) -> None:
    rows = [(("a", "b"), {"overall": (1, 2, 3)}), (("c", "d"), {"overall": (2, 2, 5)})]
    path = write_rated(tmp_path / "rows.jsonl", rows)  # type: ignore[arg-type]
    settings = {
        "name": "x",
        "output_dir": "x",
        "rubric": "overall",
        "train": [{"source": path}],
    }
    model = {"family": "linear", "vectors": False, "features": ["assistant.log_words"]}
    config = build_config(TrainConfig, settings | {"model": model}, where="x")
    rows_of_run = load_rows(config, load_rubric("overall"))
    (facts,) = rows_of_run.facts
    assert facts["annotators"] == 3
    folder = made("encoder", tiny_bert, tiny_bert).save_pretrained(tmp_path / "judge")
    (folder / "data.json").write_text(
        json.dumps([facts | {"labels_by": []}]), encoding="utf-8"
    )
    write_card(folder)
    data = (
        (folder / "README.md")
        .read_text()
        .partition("## Data")[2]
        .partition("## Training")[0]
    )
    assert "| up to 3 people |" in data and "not stated" not in data


def test_a_set_s_name_for_a_dimension_is_not_the_judge_s(tmp_path: Path) -> None:
    """FED calls it overall, the judge helpful: a card that says overall is of another judge."""
    rubric = tmp_path / "helpful.yaml"
    rubric.write_text("dimensions: [{name: helpful, kind: ordinal, low: 1, high: 5}]\n")
    texts = [("hi", "one " * n) for n in range(1, 9)]
    rows = [(text, {"overall": float(1 + n % 5)}) for n, text in enumerate(texts)]
    settings = {
        "name": "mine",
        "output_dir": str(tmp_path / "mine"),
        "rubric": str(rubric),
        "model": {"family": "linear", "vectors": False, "features": ["log_words"]},
        "train": [
            {
                "source": write_rated(tmp_path / "train.jsonl", rows),
                "dimensions": {"overall": "helpful"},
            }
        ],
    }
    folder = train_judge(build_config(TrainConfig, settings, where="x"))
    (tmp_path / "bench.yaml").write_text(
        f"judges: [{{name: mine, path: {folder}, dimensions: {{overall: helpful}}}}]\n"
        f"sets: [{{name: other, source: {tmp_path / 'other.jsonl'}, dimensions: [overall]}}]\n"
    )
    write_rated(tmp_path / "other.jsonl", rows)
    words = [
        "benchmark",
        "--config",
        str(tmp_path / "bench.yaml"),
        "--out",
        str(tmp_path / "out"),
    ]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    write_card(folder, results=tmp_path / "out" / "results.json")
    card = ModelCard.load(folder / "README.md")
    assert "| other (dialogue) | helpful (its labels: overall) | 8 |" in card.content
    names = {result.metric_name for result in card.data.eval_results or []}
    assert names == {"spearman, helpful (dialogue)"}
