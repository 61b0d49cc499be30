"""Runs that are killed, go on, grow, or meet a folder that is not theirs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from medal_judges.config import load_config
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun
from medal_judges.errors import ConfigError, DataError, MedalError
from medal_judges.models.llm.cost import CostLimitError

pytest.importorskip("openai", reason="needs the extra: pip install 'medal-judges[api]'")
SCRIPT = Path(__file__).with_name("agents_script.py")
Serve = Callable[..., Any]


def write_config(path: Path, url: str, out: Path, *, bots: int = 2, **more: Any) -> Path:
    """A config file of 16 dialogues for each two chatbots."""

    def agent(name: str) -> dict[str, Any]:
        llm = {"backend": "openai", "model": name, "base_url": url, "cache": False}
        return {"name": name, "llm": {**llm, "longest_wait": 0.2}}

    settings = {
        "name": "test",
        "out": str(out),
        "languages": ["en", "pt"],
        "contexts": {"n": 4},
        "users": [agent("user-1")],
        "user_judge": agent("judge"),
        "chatbots": [agent(f"bot-{k}") for k in range(bots)],
        **more,
    }
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    return path


def run(path: Path, **options: Any) -> Any:
    started = GenerationRun(load_config(GenerateConfig, path), **options)
    started.run()
    return started


def start(path: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "medal_judges", "generate", "--config", str(path)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def answers(journal: Path) -> list[str]:
    """The journal's whole lines."""
    text = journal.read_text(encoding="utf-8") if journal.exists() else ""
    return [line for line in text.splitlines(keepends=True) if line.endswith("\n")]


def test_killed_three_times_no_turn_is_lost_and_none_made_twice(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve(script=str(SCRIPT), delay=0.02)
    whole = run(write_config(tmp_path / "a.yaml", server.url, tmp_path / "whole"))
    once = {r["key"] for r in server.told("requests")}
    cut = write_config(tmp_path / "b.yaml", server.url, tmp_path / "cut")
    second = serve(script=str(SCRIPT), delay=0.02)
    cut.write_text(cut.read_text().replace(server.url, second.url), encoding="utf-8")
    journal, total, kept = (
        tmp_path / "cut" / "journal.jsonl",
        sum(u["requests"] for u in whole.counts.usage.values()),
        0,
    )
    shares = sorted(np.random.default_rng(int(time.time())).uniform(0.05, 0.95, 3))
    print(f"killed at {shares} of the answers")  # other moments every time; shown on failure
    for share in shares:
        process = start(cut)
        while process.poll() is None and len(answers(journal)) < share * total:
            time.sleep(0.002)
        assert process.poll() is None, "it ended before it could be killed"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        found = answers(journal)
        assert len(found) >= max(kept, share * total)
        kept = len(found)
    assert start(cut).wait() == 0
    finished = [(tmp_path / d / "dialogues.jsonl").read_bytes() for d in ("cut", "whole")]
    assert finished[0] == finished[1]  # in the plan's order: the same bytes
    rejected = [sorted(answers(tmp_path / d / "rejected.jsonl")) for d in ("cut", "whole")]
    assert rejected[0] == rejected[1]
    events = Counter((e["id"], e["stage"], e["answer"]) for e in map(json.loads, answers(journal)))
    assert sum(events.values()) == total
    # The server was asked the same questions as in one go, and computed each answer once: what was
    # under way at a kill was asked again under its own key and came from the server's store.
    assert {r["key"] for r in second.told("requests")} == once
    assert all(row["answered"] == 1 for row in second.told("counts").values())


def test_a_journal_cut_anywhere_is_resumed(serve: Serve, tmp_path: Path) -> None:
    """Every fourth line's end and middle, with the files in the states that a kill leaves."""
    server = serve(script=str(SCRIPT))
    small = {"contexts": {"n": 1}, "languages": ["en"], "max_turns": 5}
    run(write_config(tmp_path / "a.yaml", server.url, tmp_path / "whole", **small))
    whole = tmp_path / "whole"
    journal, dialogues = ((whole / n).read_bytes() for n in ("journal.jsonl", "dialogues.jsonl"))
    lines = journal.splitlines(keepends=True)
    once = {r["key"] for r in server.told("requests")}
    assert dialogues and len(lines) > 12
    for number in range(0, len(lines), 4):
        before = b"".join(lines[:number])
        for half in (b"", lines[number][: 2 + 7 * number % 40]):
            out = tmp_path / f"{number}-{len(half)}"
            out.mkdir()
            (out / "run.json").write_bytes((whole / "run.json").read_bytes())
            (out / "journal.jsonl").write_bytes(before + half)
            # Killed while the files are made anew, arranged, or written to.
            (out / "dialogues.jsonl").write_bytes(dialogues[: 11 * number])
            for name in ("run.json", "dialogues.jsonl", "rejected.jsonl", "summary.json"):
                (out / f".partial-1-{name}").write_bytes(b'{"half')
            run(write_config(tmp_path / "b.yaml", server.url, out, **small))
            assert (out / "dialogues.jsonl").read_bytes() == dialogues
            assert len(answers(out / "journal.jsonl")) == len(lines)
    assert {r["key"] for r in server.told("requests")} == once


def test_how_many_are_under_way_changes_no_dialogue(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=str(SCRIPT))
    texts = []
    for at_once in (1, 3, 512):
        out = tmp_path / str(at_once)
        small = {"contexts": {"n": 1}, "at_once": at_once}
        run(write_config(tmp_path / f"{at_once}.yaml", server.url, out, **small))
        texts.append((out / "dialogues.jsonl").read_bytes())
    assert texts[0] == texts[1] == texts[2] and texts[0]


def test_a_finished_run_asks_nothing_and_a_chatbot_may_join(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=str(SCRIPT))
    out = tmp_path / "out"
    path = write_config(tmp_path / "a.yaml", server.url, out)
    first = run(path)
    before, asked = (out / "dialogues.jsonl").read_text(encoding="utf-8"), server.total("seen")
    run(path)
    assert server.total("seen") == asked
    joined = run(write_config(tmp_path / "a.yaml", server.url, out, bots=3), chatbots=["bot-2"])
    new = [r["body"]["model"] for r in server.told("requests")][asked:]
    assert "bot-2" in new and not {"bot-0", "bot-1"} & set(new)
    rows = [json.loads(line) for line in (out / "dialogues.jsonl").read_text().splitlines()]
    assert len(rows) == joined.counts.finished == first.counts.finished * 3 // 2
    assert set(before.splitlines()) <= {json.dumps(r, ensure_ascii=False) for r in rows}
    by_opener: dict[str, set[str]] = {}
    for row in rows:
        opener = row["id"].rpartition("--")[0]
        by_opener.setdefault(opener, set()).add(row["dialogue"][0]["content"])
    assert all(len(first_turns) == 1 for first_turns in by_opener.values())


def test_another_runs_folder_is_refused_and_left_alone(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=str(SCRIPT))
    path = write_config(tmp_path / "a.yaml", server.url, tmp_path / "out")
    run(path)
    before = {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()}
    with pytest.raises(MedalError, match="seed: 0 there, 1 now"):
        run(write_config(tmp_path / "b.yaml", server.url, tmp_path / "out", seed=1))
    with pytest.raises(MedalError, match="chatbot:bot-1 is not in the config any more"):
        run(write_config(tmp_path / "b.yaml", server.url, tmp_path / "out", bots=1))
    with pytest.raises(MedalError, match=r"contexts: .* not in this run any more"):
        run(write_config(tmp_path / "b.yaml", server.url, tmp_path / "out", contexts={"n": 2}))
    moved = {"contexts": {"n": 4, "countries": {"pt": ["Angola"]}}}
    with pytest.raises(MedalError, match=r"contexts: 4 have another country now: .*'Angola' now"):
        run(write_config(tmp_path / "b.yaml", server.url, tmp_path / "out", **moved))
    with pytest.raises(ConfigError, match="no chatbot 'bot-9'"):
        run(path, chatbots=["bot-9"])
    assert {p.name: p.read_bytes() for p in (tmp_path / "out").iterdir()} == before


def test_a_damaged_journal_is_named_with_its_line(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=str(SCRIPT))
    path = write_config(tmp_path / "a.yaml", server.url, tmp_path / "out")
    run(path)
    journal = tmp_path / "out" / "journal.jsonl"
    lines = answers(journal)
    journal.write_text("".join([*lines[:4], '{"id": 3}\n', *lines[4:]]), encoding="utf-8")
    with pytest.raises(DataError, match=r"journal.jsonl:5: .*a line of a journal of answers"):
        run(path)
    journal.write_text("".join([*lines[:4], *lines[5:]]), encoding="utf-8")
    with pytest.raises(MedalError, match=r"journal\.jsonl does not fit this run"):
        run(path)


def test_a_server_that_is_down_ends_the_run_and_loses_nothing(serve: Serve, tmp_path: Path) -> None:
    good, bad = serve(script=str(SCRIPT)), serve(fault="400", times=-1)
    out = tmp_path / "out"
    path = write_config(tmp_path / "a.yaml", good.url, out, contexts={"n": 9})
    settings = yaml.safe_load(path.read_text())
    settings["chatbots"][1]["llm"]["base_url"] = bad.url
    broken = tmp_path / "b.yaml"
    broken.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(MedalError, match=r"chatbot:bot-1 failed .* times in a row: .*rules of the"):
        run(broken)
    assert answers(out / "journal.jsonl")
    finished = run(path)
    assert finished.counts.finished == 36 - 2 * finished.counts.failed_openers
    assert not finished.waiting


def test_the_limit_of_cost_is_one_for_all_models(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=str(SCRIPT))
    prices = tmp_path / "prices.yaml"
    names = ["user-1", "judge", "bot-0", "bot-1"]
    prices.write_text(
        yaml.safe_dump(
            {
                "date": "2026-01-01",
                "source": "test",
                "models": {name: {"input": 100, "output": 100} for name in names},
            }
        )
    )
    path = write_config(tmp_path / "a.yaml", server.url, tmp_path / "out")
    settings = yaml.safe_load(path.read_text())
    for agent in [*settings["users"], settings["user_judge"], *settings["chatbots"]]:
        agent["llm"]["prices"] = str(prices)
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(CostLimitError, match=r"stopped before the limit of \$1\.50"):
        run(path, max_cost=1.5)
    journal = [json.loads(line) for line in answers(tmp_path / "out" / "journal.jsonl")]
    spent = sum(e["usage"]["money"] for e in journal)
    assert 0.5 < spent <= 1.5
    assert run(path, max_cost=1000).counts.finished == 16


def test_a_limit_of_cost_that_cannot_be_kept_is_told_before_anything_is_paid(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve(script=str(SCRIPT))
    path = write_config(tmp_path / "a.yaml", server.url, tmp_path / "out")
    settings = yaml.safe_load(path.read_text())
    settings["chatbots"][1]["llm"]["base_url"] = "https://models.example/v1"
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(
        ConfigError, match=r"the price of openai/bot-1 is unknown(.|\n)*prices: PATH"
    ):
        run(path, max_cost=5)
    assert server.total("seen") == 0
    assert run(path, max_cost=5, chatbots=["bot-0"]).counts.finished > 0


def test_a_models_own_limit_of_cost_holds_beside_the_runs(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=str(SCRIPT))
    prices = tmp_path / "prices.yaml"
    models = {name: {"input": 100, "output": 100} for name in ("user-1", "judge", "bot-0", "bot-1")}
    prices.write_text(yaml.safe_dump({"date": "2026-01-01", "source": "test", "models": models}))
    path = write_config(tmp_path / "a.yaml", server.url, tmp_path / "out")
    settings = yaml.safe_load(path.read_text())
    for agent in [*settings["users"], settings["user_judge"], *settings["chatbots"]]:
        agent["llm"]["prices"] = str(prices)
    settings["user_judge"]["llm"]["max_cost"] = 0.3
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"cannot be combined with llm.max_cost of openai/judge"):
        run(path, max_cost=1000)
    with pytest.raises(CostLimitError, match=r"stopped before the limit of \$0\.30"):
        run(path)
    journal = [json.loads(line) for line in answers(tmp_path / "out" / "journal.jsonl")]
    assert 0.1 < sum(e["usage"]["money"] for e in journal if e["stage"] == "check") <= 0.3


def interruptible(path: Path) -> subprocess.Popen[str]:
    """A shell in the background has its children ignore Ctrl-C's signal; a terminal does not."""
    wake = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    command = [sys.executable, "-m", "medal_judges", "generate", "--config", str(path)]
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=wake)


def test_ctrl_c_does_not_wait_for_a_silent_server(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=str(SCRIPT), delay=25)
    process = interruptible(write_config(tmp_path / "a.yaml", server.url, tmp_path / "out"))
    while not server.total("seen"):
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=10)
    assert process.returncode == 130 and "Traceback" not in said
    assert "stopped; run the same command again to resume" in said


def test_ctrl_c_asks_nothing_more_and_keeps_what_was_answered(serve: Serve, tmp_path: Path) -> None:
    server = serve(script=str(SCRIPT), delay=0.2)
    out = tmp_path / "out"
    path = write_config(tmp_path / "a.yaml", server.url, out, contexts={"n": 40})
    settings = yaml.safe_load(path.read_text())
    settings["users"][0]["llm"]["max_in_flight"] = 2  # the first round alone takes 8 seconds
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    process = interruptible(path)
    while len(answers(out / "journal.jsonl")) < 4:
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=5)
    seen = server.total("seen")
    assert process.returncode == 130 and "Traceback" not in said
    assert "stopped; run the same command again to resume" in said
    assert seen < 12 and seen - len(answers(out / "journal.jsonl")) <= 2
    summary = json.loads((out / "summary.json").read_text())
    assert summary["usage"]["user:user-1"]["requests"] == len(answers(out / "journal.jsonl"))


def test_a_model_that_fails_on_and_on_is_not_asked_all_that_waits(
    serve: Serve, tmp_path: Path
) -> None:
    server = serve(fault="400", times=-1)
    path = write_config(tmp_path / "a.yaml", server.url, tmp_path / "out", contexts={"n": 60})
    with pytest.raises(MedalError, match="user:user-1 failed 25 times in a row"):
        run(path)  # 120 first messages wait
    assert server.total("seen") <= 25 + 8


def test_dialogues_that_a_filter_refuses_wait_and_the_others_end(
    serve: Serve, tmp_path: Path
) -> None:
    good, strict = serve(script=str(SCRIPT)), serve(script=str(SCRIPT), fault="filter", times=-1)
    path = write_config(tmp_path / "a.yaml", good.url, tmp_path / "out", contexts={"n": 6})
    settings = yaml.safe_load(path.read_text())
    settings["chatbots"][1]["llm"]["base_url"] = strict.url
    path.write_text(yaml.safe_dump(settings), encoding="utf-8")
    found = run(path)  # more refusals in a row than a server that is down is given
    dialogues = 12 - found.counts.failed_openers
    assert len(found.waiting) == dialogues > 25 / 3
    assert all("content filter" in reason for reason in found.waiting.values())
    rows = [json.loads(line) for line in answers(tmp_path / "out" / "dialogues.jsonl")]
    assert len(rows) == dialogues and all(row["id"].endswith("--bot-0") for row in rows)
    assert [row["id"] for row in rows] == [i for i in found.order() if i in found.done]
