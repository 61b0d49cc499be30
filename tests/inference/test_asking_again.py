"""An outage does not become permanent: what failed for the time being is asked again."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("openai", reason="the API's client is in the extra api")

from medal_judges.inference.scoring import (
    ScoreOptions,
    ScoreReport,
    score_to_file,
)
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.storage.jsonl import write_records
from medal_judges.storage.judgements import read_judgements

from ..forked import medal, start
from ..talks import talk

Serve = Callable[..., Any]


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def write(path: Path, count: int, turns: int = 2) -> Path:
    said = [[f"Line {k} of talk {i}." for k in range(turns)] for i in range(count)]
    write_records(
        path, (talk(*texts, id=f"d{i}", lang="en") for i, texts in enumerate(said))
    )
    return path


def judge_at(server: Any, *, judge: str = "dstc12_baseline", **llm: Any) -> Judge:
    """A judge whose signature does not depend on the server's address."""
    own = {"model": "openai:tester", "base_url": f"{server.root}/v1", "attempts": 1}
    return Judge.from_pretrained(f"judges/{judge}.yaml", llm={**own, **llm})


def score(file: Path, out: Path, judge: Judge, **how: Any) -> ScoreReport:
    return score_to_file(read_dialogues(file), judge, out, ScoreOptions(**how))


@pytest.mark.parametrize("level", ["dialogue", "turn"])
def test_rows_that_failed_in_an_outage_are_scored_again_and_nothing_else(
    serve: Serve, tmp_path: Path, level: str
) -> None:
    file, out = write(tmp_path / "in.jsonl", 12, turns=4), tmp_path / "out.jsonl"
    down = serve(fault="500", times=-1, every=3)
    first = score(file, out, judge_at(down), level=level)
    failed = {j.id for j in read_judgements(out) if j.transient}
    assert 0 < len(failed) < 12 and first.transient == sum(first.failures.values())
    up = serve()
    second = score(file, out, judge_at(up), level=level)
    whole = tmp_path / "whole.jsonl"
    score(file, whole, judge_at(up), level=level)
    for answer, wanted in zip(
        read_judgements(out), read_judgements(whole), strict=True
    ):
        names = (answer.id, answer.turn, answer.failure)
        assert names == (wanted.id, wanted.turn, wanted.failure)
        assert answer.scores == pytest.approx(wanted.scores, abs=1e-9)
    turns = 2 if level == "turn" else 1
    assert second.dialogues == len(failed)
    assert (second.total, second.transient) == (12 * turns, 0)
    assert up.total("seen") < 2 * 12 * turns * 4 and list(tmp_path.glob(".*")) == []
    third = score(file, out, judge_at(serve(fault="500", times=-1)), level=level)
    assert (third.resumed, third.dialogues) == (12 * turns, 0)


def test_killed_while_asking_again_nothing_is_lost(
    serve: Serve, tmp_path: Path
) -> None:
    file, out = write(tmp_path / "in.jsonl", 60), tmp_path / "out.jsonl"
    score(file, out, judge_at(serve(fault="500", times=-1, every=2)))
    slow = serve(delay=0.05)
    llm = {"model": "openai:tester", "base_url": f"{slow.root}/v1", "max_in_flight": 2}
    words = ["score", str(file), f"llm={json.dumps(llm)}", "--out", str(out)]
    words += ["--judge", "judges/dstc12_baseline.yaml"]
    process = start(*words)
    while (
        not (beside := out.with_name(".earlier-out.jsonl")).exists()
        or not out.exists()
        or not out.stat().st_size
    ):
        assert process.poll() is None, process.communicate()[1]
        time.sleep(0.01)
    process.kill()
    process.wait()
    done = medal(*words)
    assert done.returncode == 0, done.stderr
    assert [j.id for j in read_judgements(out)] == [f"d{i}" for i in range(60)]
    assert all(j.scored for j in read_judgements(out)) and not beside.exists()


def test_retry_failed_asks_again_in_place_of_an_unreadable_answer(
    serve: Serve, tmp_path: Path
) -> None:
    said = tmp_path / "said.txt"
    script = tmp_path / "script.py"
    script.write_text(
        f"from pathlib import Path\ndef answer(body): return Path({str(said)!r}).read_text()"
    )
    server = serve(script=str(script), idempotent=False)
    file, out = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    chats = [talk("Hi.", f"I am {name}.", id=name, lang="en") for name in ("a", "b")]
    write_records(file, [*chats, talk("Is anybody there?", id="alone", lang="en")])

    def run(**how: Any) -> tuple[ScoreReport, int]:
        before = server.total("seen")
        report = score(file, out, judge_at(server, cache=True), **how)
        return report, server.total("seen") - before

    said.write_text("I cannot say.")
    first, asked = run()
    assert (first.scored, first.lasting, asked) == (0, 2, 2)
    assert first.retry_hint == "Type --retry-failed to score 2 of them again"
    assert run()[1] == 0
    assert run(retry_failed=True)[1] == 2
    numbers = [f'"{each.name}": 4' for each in judge_at(server).dimensions]
    said.write_text("{" + ", ".join(numbers) + "}")
    second, asked = run(retry_failed=True)
    assert (second.scored, second.dialogues, asked) == (2, 2, 2)
    # Nothing can score a chat without an answer, so nobody is told to try.
    assert (second.lasting, second.retry_hint) == (0, "")
    assert run(retry_failed=True)[1] == 0
