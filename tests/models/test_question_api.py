"""G-Eval through the API backend, against a real server with the embedded model."""

import json
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from medal_judges.models.base.saving import load_judge
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.records.dialogue import Dialogue, Turn

pytest.importorskip("openai", reason="needs the extra: pip install 'medal-judges[api]'")
SERVER = Path(__file__).parent / "llm" / "server.py"
# After this one the small model does reply with a number.
TALK = Dialogue("d", (Turn("user", "Rate this film from 1 to 3."), Turn("assistant", "3")))


@contextmanager
def served(**settings: Any) -> Iterator[dict[str, Any]]:
    """The ``llm`` setting of a judge, for a server that runs meanwhile."""
    command = [sys.executable, str(SERVER), json.dumps({"mode": "embedded"} | settings)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            port = int(process.stdout.readline())
            url = f"http://127.0.0.1:{port}/v1"
            yield {"backend": "openai", "model": "smollm2", "base_url": url, "cache": False}
        finally:
            process.terminate()


@pytest.mark.slow
def test_the_same_numbers_as_without_a_server(smollm2: LocalModel) -> None:
    with served() as llm:
        asked = {"dimensions": ["engagingness"], "llm": llm}
        judge = load_judge("configs/judges/geval.yaml", **asked)
        assert judge.method == "top_logprobs"
        (remote,) = judge.score([TALK])
        local = load_judge(
            "configs/judges/geval.yaml", **asked | {"llm": smollm2, "method": "top_logprobs"}
        )
        (here,) = local.score([TALK])
        assert remote.scored
        assert remote.scores == pytest.approx(here.scores, abs=1e-3)
        assert remote.distributions["engagingness"] == pytest.approx(
            here.distributions["engagingness"], abs=1e-3
        )


WITHOUT = [
    {"refuse": ["logprobs", "top_logprobs"]},
    {"refuse": ["top_logprobs"]},  # one field goes: the other alone would look certain
    {"alternatives": [1, "top_logprobs must be at most {most}"]},
    {"alone": True},
]


@pytest.mark.parametrize("settings", WITHOUT)
def test_a_server_that_refuses_alternatives_is_sampled(settings: dict[str, Any]) -> None:
    with served(mode="scripted", **settings) as llm:
        judge = load_judge("configs/judges/geval.yaml", dimensions=["overall"], llm=llm, samples=4)
        (judged,) = judge.score([TALK])
        with urllib.request.urlopen(llm["base_url"].removesuffix("/v1") + "/requests") as reply:
            sent = [request["body"] for request in json.load(reply)]
    drawn = [request for request in sent if request.get("temperature") == 1.0]
    assert len({request["seed"] for request in drawn}) == len(drawn) == 4
    assert judged.details["overall"]["samples"] == 4
    # This server says the same number to the same question, whatever the seed.
    assert judged.details["overall"]["spread"] == 0
    assert judged.distributions["overall"][int(judged.scores["overall"] or 0) - 1] == 1
