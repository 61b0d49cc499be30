"""The papers' benchmark configs as they are typed, on small data in the form of each set."""

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from medal_judges.config import config_text, read_yaml
from medal_judges.eval.benchmark.published import PUBLISHED
from medal_judges.records.dimension import load_rubric
from medal_judges.storage.jsonl import write_records

from ..conftest import Running, medal

pytest.importorskip("openai", reason="the API's client is in the extra api")

# Sentences in the language of the prompt, and the rating alone for G-Eval; the number depends on
# the request.
ANSWERS = """
import hashlib, json

def answer(body):
    told = body["messages"][-1]["content"]
    seed = int(hashlib.sha256(told.encode()).hexdigest(), 16)
    if "What the ratings mean" in told:
        return str(1 + seed % 3)
    if "Puntuación:" in told:
        return f"Le daría un {seed % 101} de 100."
    if "评分：" in told:
        return f"我会给这个回应打{seed % 101}分（满分100分）。"
    if "3 is yes" in told:
        return f"I would give this a {1 + seed % 5 / 2:g} out of 3."
    return f"I would give this a {seed % 101} out of 100."
"""
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
ROOT = "DSTC_11_Track_4"
REPOSITORY = Path(__file__).parents[2]


def hub_set(folder: Path, see_ids: Iterable[str]) -> None:
    """DSTC11's data set as a download gives it: four dialogues of FED and six of Persona-SEE."""
    entries: dict[str, list[dict[str, Any]]] = {"fed-turn": [], "persona-see": []}
    for number in range(4):
        rated = [number % 3, (number + 1) % 3]
        entries["fed-turn"].append(
            {"response": f"System: Yes {number}", "annotations": {"Engaging": rated}}
        )
    for number, dialogue_id in enumerate(see_ids):
        turns = [{"speaker": "human", "text": f"Hi {number}"}]
        turns.append({"speaker": "model", "text": f"Yo {number}"})
        annotations = {"enjoy": [1 + number % 4]}
        entries["persona-see"].append(
            {"dialog": turns, "annotations": annotations, "dialogue_id": dialogue_id}
        )
    words = {"fed-turn": ("Hello", "Yes"), "persona-see": ("Hi", "Yo")}
    for name, listed in entries.items():
        path = folder / ROOT / f"metadata/dev/en/{name}/{name}_eval.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(listed))
        for lang in ("es", "zh"):
            lines = ["UID,SID,SEG,TRANSLATION"]
            for number in range(len(listed)):
                for turn, word in enumerate(words[name]):
                    uid = f"{name}-{number:04d}-{turn:04d}"
                    lines.append(f"{uid},s,{word} {number},{lang} {word} {number}")
            path = (
                folder / ROOT / f"task1/dev/en_{lang}/{name}_multilingual_en_{lang}.csv"
            )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("\n".join(lines))


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


@pytest.fixture
def meep_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """All sets of paper_meep; of Persona-SEE two dialogues that the paper did not draw."""
    config = read_yaml("benchmark/paper_meep")
    ids = [
        name.removeprefix("dstc11-")
        for entry in config["sets"]
        for name in entry.get("groups", ())
        if entry["name"] == "persona-see en"
    ]
    assert len(set(ids)) == len(ids) == 300
    hub_set(tmp_path / "hub", [*ids[:4], "persona-see_00000", "persona-see_00001"])
    folder = str(tmp_path / "hub")
    monkeypatch.setattr("huggingface_hub.snapshot_download", lambda *_, **__: folder)
    fed = [line(f"f{i}", "turn", "en", "engaging", i % 3) for i in range(4)]
    write_records(tmp_path / "fed_turn.jsonl.gz", fed)
    for name in ("kdconv", "lccc"):
        rows = []
        for lang in ("en", "zh"):
            for i in range(4):
                key = f"{name}-{lang}-{i}"
                rows.append(line(key, "dialogue", lang, "engagingness", i % 4))
        write_records(tmp_path / f"{name}_dialogue.jsonl.gz", rows)
    monkeypatch.setenv("MEDAL_JUDGES_DATA", str(tmp_path))
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    (tmp_path / "answers.py").write_text(ANSWERS)
    return tmp_path


@pytest.mark.slow
def test_paper_meep_as_it_is_typed(
    meep_data: Path, serve: Callable[..., Running], no_figure_files: None
) -> None:
    server = serve(script=str(meep_data / "answers.py"))
    llm = f"llm={{model: 'openai:gpt-3.5-turbo-0613', base_url: '{server.url}'}}"
    done = medal("benchmark", "--config", "paper_meep", llm, "--out", meep_data / "out")
    assert done.exit_code == 0, done.exception
    results = json.loads((meep_data / "out/results.json").read_text("utf-8"))
    config = read_yaml("benchmark/paper_meep")
    sets = dict.fromkeys(row["set_name"] for row in results["rows"])
    assert list(sets) == [entry["name"] for entry in config["sets"]]
    prompted = [entry["name"] for entry in config["judges"][:11]]
    assert prompted[-1] == "geval"
    assert list(dict.fromkeys(row["judge"] for row in results["rows"])) == prompted
    # Every sentence is read; two dialogues of Persona-SEE are not among those that MEEP drew.
    assert all(row["scored"] == row["n"] == 4 for row in results["rows"])
    # A judge that this model cannot be is left out with its reason, and the run goes on.
    notes = [value for label, value in results["facts"] if label == "Note"]
    assert any(note.startswith("judge gptscore left out") for note in notes)
    table = next(t for t in results["tables"] if t["title"] == PUBLISHED)
    measured = []
    for row in table["rows"]:
        cells = dict(zip(table["columns"], row, strict=True))
        if cells["Our ρ"] is not None:
            measured.append((cells["Set"], cells["Judge"]))
    # Tables 3, 4 and 5 have so many rows of ChatGPT-0613.
    assert len(set(measured)) == len(measured) == 21
    assert ("persona-see zh", "meep, meep+sa+r, translated prompt") in measured
    assert ("kdconv zh", "meep, meep+sa+r") in measured
    assert ("fed turns", "meep, hd") in measured
    # HD's ratings from 1 to 3 with half points become 0, 25, 50, 75 and 100.
    hd = (meep_data / "out/predictions/HD/fed turns.jsonl").read_text("utf-8")
    scores = [json.loads(row)["scores"]["engagingness"] for row in hd.splitlines()]
    assert set(scores) <= {0, 25, 50, 75, 100} and len(set(scores)) > 1
    check_requests([entry["body"] for entry in server.told("requests")])


def check_requests(bodies: list[dict[str, Any]]) -> None:
    """The prompts: a role as the system message, the last turn of Persona-SEE as the response, a
    translated prompt in its language alone, G-Eval's question before the conversation."""
    texts = [body["messages"][-1]["content"] for body in bodies]
    roles = {body["messages"][0]["role"] for body in bodies}
    assert roles == {"system", "user"}
    assert all(
        body["temperature"] == 0 for body in bodies if "top_logprobs" not in body
    )
    see = [text for text in texts if "zh Hi" in text]
    assert any("Response: zh Yo" in text and "Score:" in text for text in see)
    assert any("评分：" in text for text in see)
    assert not any("评分：" in text for text in texts if "es Hi" in text)
    assert any("Puntuación:" in text for text in texts if "es Hi" in text)
    geval = [text for text in texts if "What the ratings mean" in text]
    assert geval
    for text in geval:
        assert text.index("What the ratings mean") < text.index("conversation between")


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
    text = re.sub(r"(?<=llm: )[\w-]+/", "openai:", config_text(f"judges/{name}"))
    text = text.replace("examples: prompts/examples", "examples: track.jsonl")
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
    for dimension, member in printed["choices"].items():
        model = printed["members"][member]["options"]["llm"].rpartition("/")[2]
        label = {"nonrepetition": "non-repetition", "overall": "overall quality"}
        asked = [
            text for text in by_model[model] if label.get(dimension, dimension) in text
        ]
        assert asked, dimension
    everything = "\n".join(text for texts in by_model.values() for text in texts)
    assert "Hello track2" in everything and "A summary of track2." in everything
    assert "shortened" in everything
