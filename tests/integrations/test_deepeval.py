"""The metric in DeepEval's own runner: telemetry off, and every address is an error."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integrations("deepeval")

RUN = """
import json, socket, sys

asked = []
def refuse(self, address):
    asked.append(str(address))
    raise OSError("no network in this test")
socket.socket.connect = refuse
lookup = socket.getaddrinfo
def look(host, *rest, **more):
    asked.append(str(host))
    raise OSError("no network in this test")
socket.getaddrinfo = look

from deepeval import assert_test, evaluate
from deepeval.evaluate import AsyncConfig, CacheConfig, DisplayConfig, ErrorConfig
from deepeval.test_case import ConversationalTestCase, Turn
from medal_judges.integrations.deepeval import JudgeMetric

def case(words, **more):
    turns = [Turn(role="user", content="こんにちは")]
    turns.append(Turn(role="assistant", content="word " * words))
    return ConversationalTestCase(turns=turns, **more)

silent = ConversationalTestCase(turns=[Turn(role="user", content="Anyone there?")])
metric = JudgeMetric("length", threshold=3.5)
quiet = DisplayConfig(show_indicator=False, print_results=False)
told = {}
for name, run_async in (("sync", False), ("async", True)):
    got = evaluate([case(40, metadata={"lang": "ja"}), case(2), silent], metrics=[metric],
        async_config=AsyncConfig(run_async=run_async), display_config=quiet,
        error_config=ErrorConfig(ignore_errors=True), cache_config=CacheConfig(write_cache=False))
    told[name] = [(m.score, m.success, m.error, m.reason)
                  for r in got.test_results for m in r.metrics_data or []]
skipped = evaluate([case(40), silent], metrics=[metric], display_config=quiet,
    async_config=AsyncConfig(run_async=False), cache_config=CacheConfig(write_cache=False),
    error_config=ErrorConfig(skip_on_missing_params=True))
told["skipped"] = [len(r.metrics_data or []) for r in skipped.test_results]
try:
    assert_test(case(2), [metric], run_async=False)
except AssertionError as error:
    told["assert"] = str(error)
issue = JudgeMetric("length", dimension="unsafe", threshold=0.3)
told["issue"] = [issue.measure(case(n)) for n in (2, 40)] + [issue.success]
told["asked"] = asked
json.dump(told, open(sys.argv[1], "w"))
"""


def test_metric_in_deepevals_runner(tmp_path: Path) -> None:
    out = tmp_path / "told.json"
    env = os.environ | {"DEEPEVAL_TELEMETRY_OPT_OUT": "1", "ERROR_REPORTING": "0"}
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(out)],
        cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    told = json.loads(out.read_text())
    assert told["asked"] == []
    for rows in (told["sync"], told["async"]):
        (silent,) = [row for row in rows if row[2]]
        assert silent[1] is False and "no assistant turn to judge" in silent[2]
        bad, good = sorted(row for row in rows if not row[2])
        assert good[1] is True and bad[1] is False and 1 <= bad[0] < 3.5 < good[0] <= 5
        assert "(wanted at least 3.5)" in bad[3]
    assert "medal_judges overall" in told["assert"]
    assert sorted(told["skipped"]) == [0, 1]
    short, long, success = told["issue"]
    assert long < 0.3 < short and success is True
