"""A real `inspect eval` with Inspect's own mock model, and `inspect score` by the entry point."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.integrations("inspect_ai")

TASK = """
from inspect_ai import Task, task
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant, ChatMessageTool, ChatMessageUser, ContentReasoning, ContentText,
    ModelOutput, ModelUsage, get_model)
from inspect_ai.solver import generate
from inspect_ai.tool import ToolCall
from medal_judges.integrations.inspect import medal_judge

def answers():  # with their usage, as the mock model would fetch a tokenizer to count it
    while True:
        output = ModelOutput.from_content("mockllm/model", "At nine, I think.")
        output.usage = ModelUsage(input_tokens=1, output_tokens=5, total_tokens=6)
        yield output

ASKED = ChatMessageUser(content="When does the bus leave?")
CALL = ToolCall(id="1", function="search", arguments={"q": "bus"}, type="function")
SEARCHED = [
    ChatMessageAssistant(
        content=[ContentReasoning(reasoning="word " * 500), ContentText(text="")],
        tool_calls=[CALL]),
    ChatMessageTool(content="9:00", tool_call_id="1", function="search"),
]

@task
def chats(level):
    samples = [
        Sample(input="Hi!"),
        Sample(input=[ChatMessageUser(content="こんにちは")], metadata={"lang": "ja"}),
        Sample(input=[ASKED, *SEARCHED]),
    ]
    model = get_model("mockllm/model", custom_outputs=answers())
    scorer = medal_judge("length", level=level)
    return Task(dataset=samples, solver=generate(), model=model, scorer=scorer)

@task
def silent():
    return Task(dataset=[Sample(input="Anyone there?"), Sample(input="Hi!")], solver=[])
"""


def ran(folder: Path, *words: str) -> str:
    here = Path(sys.executable).parent / "inspect"
    env = os.environ | {"INSPECT_DISPLAY": "plain", "NO_COLOR": "1"}
    done = subprocess.run(
        [str(here), *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def only_log(folder: Path) -> Any:
    (path,) = folder.glob("*.json")
    return path, json.loads(path.read_text())


@pytest.mark.parametrize("level", ["dialogue", "turn"])
def test_a_conversation_is_scored(tmp_path: Path, level: str) -> None:
    (tmp_path / "chats.py").write_text(TASK)
    logs = ("--log-format", "json", "--log-dir", "logs")
    ran(tmp_path, "eval", "chats.py@chats", "-T", f"level={level}", *logs)
    _, log = only_log(tmp_path / "logs")
    samples = [sample["scores"]["medal_judge"] for sample in log["samples"]]
    overall = [each["value"]["overall"] for each in samples]
    # The model says the same thing each time; thoughts and tools are no part of it.
    assert max(overall) - min(overall) < 4e-5 and 1 <= overall[0] <= 5
    assert all(
        each["metadata"]["signature"].startswith("judge:length") for each in samples
    )
    turns = [[j["turn"] for j in each["metadata"]["judgements"]] for each in samples]
    assert turns == [[1 if level == "turn" else None]] * 3
    (found,) = [each for each in log["results"]["scores"] if each["name"] == "overall"]
    assert found["metrics"]["mean"]["value"] == pytest.approx(overall[0], abs=4e-5)
