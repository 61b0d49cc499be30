"""The papers' benchmark configs as they are typed, on small data in the form of each set."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medal_judges.config import config_text, read_yaml
from medal_judges.records.dimension import load_rubric
from medal_judges.storage.jsonl import write_records

from ..conftest import Running, medal

pytest.importorskip("openai", reason="the API's client is in the extra api")

# An object of the schema; its numbers depend on the model and the request.
BY_MODEL = """
import hashlib, json
from server_answers import filled

def answer(body):
    told = json.dumps([body["model"], body["messages"]])
    seed = int(hashlib.sha256(told.encode()).hexdigest(), 16)
    return json.dumps(filled(body["response_format"]["json_schema"]["schema"], seed))
"""
SHORTENED = """
numbers = answer

def answer(body):
    return numbers(body) if "response_format" in body else "shortened"
"""


def line(name: str, level: str, lang: str, label: str, value: float) -> dict[str, Any]:
    turns = [{"role": "user", "content": f"Hi {name}"}]
    turns.append({"role": "assistant", "content": f"Hello {name}"})
    return {
        "id": name,
        "lang": lang,
        "level": level,
        "dialogue": turns,
        "labels": {label: [value]},
        "scales": {label: [0, 4]},
    }


@pytest.mark.parametrize("name", ["oralis_table3", "oralis_table3_absolute"])
def test_table_3_as_it_is_typed(
    name: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    serve: Callable[..., Running],
) -> None:
    (tmp_path / "answers.py").write_text(BY_MODEL + SHORTENED)
    server = serve(script=str(tmp_path / "answers.py"))
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    # The models of the Hub by their names on a server, and the track's dialogues as examples.
    text = config_text(f"judges/{name}")
    text = re.sub(r"(llm|shortener): [\w-]+/", r"\1: openai:", text)
    text = text.replace("examples: prompts/examples.json", "examples: track.jsonl")
    (tmp_path / "mine.yaml").write_text(text)
    track = []
    for i in range(3):
        row = line(f"track{i}", "dialogue", "en", "relevance", 2 * i)
        dimensions = [dimension.name for dimension in load_rubric("dstc12")]
        row["labels"] = {key: [2 * i] for key in dimensions}
        row["scales"] = {key: [0, 4] for key in dimensions}
        track.append(row | {"summary": f"A summary of track{i}."})
    write_records(tmp_path / "track.jsonl", track)
    long = line("long", "dialogue", "en", "trust", 1)
    for place, turn in enumerate(long["dialogue"] * 5):
        words = f"word{place} " * (400 if turn["role"] == "assistant" else 300)
        long["dialogue"].append({"role": turn["role"], "content": words})
    write_records(tmp_path / "long.jsonl", [long])
    monkeypatch.chdir(tmp_path)
    done = medal("score", "long.jsonl", "--judge", "mine.yaml", "--out", "scores.jsonl")
    assert done.exit_code == 0, done.exception
    (scores,) = (json.loads(row) for row in (tmp_path / "scores.jsonl").open())
    assert scores["scores"].keys() == {d.name for d in load_rubric("dstc12")}
    assert None not in scores["scores"].values(), scores
    by_model: dict[str, list[str]] = {}
    for entry in server.told("requests"):
        body = entry["body"]
        by_model.setdefault(body["model"], []).append(body["messages"][-1]["content"])
    shortening = by_model.pop("Llama-3.1-8B-Instruct")
    assert all("at most 50 words" in text or "150 words" in text for text in shortening)
    assert sum(map(len, by_model.values())) == 10
    printed = read_yaml(f"judges/{name}")
    for dimension, member in printed["dimensions"].items():
        model = printed["members"][member]["options"]["llm"].rpartition("/")[2]
        label = {"nonrepetition": "non-repetition", "overall": "overall quality"}
        asked = [
            text for text in by_model[model] if label.get(dimension, dimension) in text
        ]
        assert asked, dimension
    everything = "\n".join(text for texts in by_model.values() for text in texts)
    assert "Hello track2" in everything and "A summary of track2." in everything
    assert "shortened" in everything
