"""Runs that are killed, resume, grow, or meet a folder that is not theirs."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from medal_judges.errors import DataError, MedalError

from ...forked import start
from ..fake import Refused
from .runs import AGENTS, SCRIPT, generate, lines, settings

Serve = Callable[..., Any]


def write_config(path: Path, **given: Any) -> Path:
    path.write_text(yaml.safe_dump(settings(**given)), encoding="utf-8")
    return path


def answers(journal: Path) -> list[str]:
    """The journal's whole lines."""
    text = journal.read_text(encoding="utf-8") if journal.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def test_killed_at_random_moments_no_turn_is_lost_and_none_made_twice(
    serve: Serve, tmp_path: Path
):
    """MEDAL_KILLS moments (3 unless set), over a real server: the files of an unbroken run."""
    pytest.importorskip("openai", reason="needs the extra: pip install '.[api]'")
    whole, _ = generate(tmp_path / "whole")
    total = whole.requests
    server = serve(script=str(SCRIPT), delay=0.02)
    path = write_config(tmp_path / "b.yaml", out=tmp_path / "cut", url=server.url)
    journal, kept = tmp_path / "cut" / "journal.jsonl", 0
    seed = int(time.time())
    print(f"seed {seed}")  # other moments every time; shown on failure
    kills = int(os.environ.get("MEDAL_KILLS", "3"))
    for share in sorted(np.random.default_rng(seed).uniform(0.05, 0.95, kills)):
        process = start("generate", "--config", path)
        while process.poll() is None and len(answers(journal)) < share * total:
            time.sleep(0.002)
        assert process.poll() is None, "it ended before it could be killed"
        process.kill()
        process.wait()
        found = answers(journal)
        assert len(found) >= max(kept, share * total)
        kept = len(found)
    assert start("generate", "--config", path).wait() == 0
    files = [(tmp_path / d / "dialogues.jsonl").read_bytes() for d in ("cut", "whole")]
    assert files[0] == files[1]  # in the plan's order: the same bytes
    rejected = [
        sorted(answers(tmp_path / d / "rejected.jsonl")) for d in ("cut", "whole")
    ]
    assert rejected[0] == rejected[1]
    texts = [
        sorted(
            (e["id"], e["stage"], e["answer"])
            for e in lines(tmp_path / d / "journal.jsonl")
        )
        for d in ("cut", "whole")
    ]
    assert texts[0] == texts[1]
    # Each answer was computed once: what a kill interrupted was requested again under its own key
    # and came from the server's store.
    assert all(row["answered"] == 1 for row in server.told("counts").values())


def test_a_journal_cut_anywhere_is_resumed(tmp_path: Path) -> None:
    """Every fourth line's end and middle, with the files in the states that a kill leaves."""
    small = {"contexts": {"n": 1}, "languages": ["en"], "max_turns": 5}
    whole, out = tmp_path / "whole", tmp_path / "cut"
    asked = generate(whole, **small)[1].bodies
    journal, dialogues = (
        (whole / n).read_bytes() for n in ("journal.jsonl", "dialogues.jsonl")
    )
    parts = journal.splitlines(keepends=True)
    assert dialogues and len(parts) > 12
    for number in range(0, len(parts), 4):
        for half in (b"", parts[number][: 2 + 7 * number % 40]):
            (out := tmp_path / f"{number}-{len(half)}").mkdir()
            (out / "run.json").write_bytes((whole / "run.json").read_bytes())
            (out / "journal.jsonl").write_bytes(b"".join(parts[:number]) + half)
            # Killed while the files are made anew, arranged, or written to.
            (out / "dialogues.jsonl").write_bytes(dialogues[: 11 * number])
            for name in (
                "run.json",
                "dialogues.jsonl",
                "rejected.jsonl",
                "summary.json",
            ):
                (out / f".partial-1-{name}").write_bytes(b'{"half')
            again = generate(out, **small)[1].bodies
            assert again == asked[number:]
            for name in ("journal.jsonl", "dialogues.jsonl", "rejected.jsonl"):
                assert (out / name).read_bytes() == (whole / name).read_bytes()


def test_how_many_are_active_changes_no_dialogue(tmp_path: Path) -> None:
    texts = []
    for at_once in (1, 3, 512):
        generate(out := tmp_path / str(at_once), contexts={"n": 1}, at_once=at_once)
        texts.append((out / "dialogues.jsonl").read_bytes())
    assert texts[0] == texts[1] == texts[2] and texts[0]


def test_a_damaged_journal_is_named_with_its_line(tmp_path: Path) -> None:
    generate(tmp_path)
    journal = tmp_path / "journal.jsonl"
    whole = answers(journal)
    for bad in (
        '{"id": 3}',
        '{"id": "a", "stage": "say", "answer": "x", "usage": [1]}',
    ):
        journal.write_text(
            "".join([*whole[:4], bad, "\n", *whole[4:]]), encoding="utf-8"
        )
        with pytest.raises(DataError, match=r"journal.jsonl:5: "):
            generate(tmp_path)
    journal.write_text("".join([*whole[:4], *whole[5:]]), encoding="utf-8")
    with pytest.raises(MedalError, match=r"journal\.jsonl does not fit this run"):
        generate(tmp_path)


@pytest.mark.parametrize("api", [False, True])
def test_a_model_that_is_down_ends_the_run_and_loses_nothing(
    tmp_path: Path, api: bool
) -> None:
    def down(body: dict[str, Any]) -> str:
        if body["model"] == "bot-1":
            raise Refused("no connection")
        return str(AGENTS["answer"](body))

    with pytest.raises(
        MedalError, match="chatbot:bot-1 failed 25 times in a row: no connection"
    ):
        generate(tmp_path, down, contexts={"n": 9}, api=api)
    assert answers(tmp_path / "journal.jsonl")
    found, _ = generate(tmp_path, contexts={"n": 9}, api=api)
    assert (
        found.counts.finished_count == 36 - 2 * found.counts.failed_opener_count
        and not found.waiting
    )


def test_ctrl_c_asks_nothing_more_and_keeps_what_was_answered(
    serve: Serve, tmp_path: Path
) -> None:
    pytest.importorskip("openai", reason="needs the extra: pip install '.[api]'")
    server = serve(script=str(SCRIPT), delay=0.2)
    out = tmp_path / "out"
    given = settings(out, url=server.url, contexts={"n": 40})
    given["users"]["user-1"]["max_in_flight"] = (
        2  # the first round alone takes 8 seconds
    )
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump(given), encoding="utf-8")
    process = start("generate", "--config", path)
    while len(answers(out / "journal.jsonl")) < 4:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    seen = server.total("seen")
    assert process.returncode == 130 and "Traceback" not in said
    assert "stopped. Type the same command again to resume" in said
    assert seen < 12 and seen - len(answers(out / "journal.jsonl")) <= 2
    summary = json.loads((out / "summary.json").read_text())
    assert summary["usage"]["user:user-1"]["requests"] == len(
        answers(out / "journal.jsonl")
    )
