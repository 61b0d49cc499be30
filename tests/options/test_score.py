"""The options of ``medal score``."""

from __future__ import annotations

import json
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from medal_judges.models.base import judge as judges

from ..talks import alike
from .files import COUNT, RECORDS, Files, read, write
from .table import Done, medal, row, works

Serve = Callable[..., Any]


def scored(out: Path) -> dict[str, Any]:
    """The scores of a file, by id."""
    return {record["id"]: record["scores"] for record in read(out)}


def score(files: Files, out: Path, *options: object) -> list[dict[str, Any]]:
    """Scores by the length of answers, as records."""
    works("score", files.chats, "--judge", "length", "--out", out, *options)
    return read(out)


@row("score", "--judge", "--out")
def test_judge_and_out(files: Files, tmp_path: Path) -> None:
    for name in ("length", "repetition"):
        works(
            "score", files.chats, "--judge", name, "--out", tmp_path / f"{name}.jsonl"
        )
    by_length, by_repetition = (
        read(tmp_path / f"{n}.jsonl") for n in ("length", "repetition")
    )
    assert by_length[0]["judge"].startswith("judge:length|")
    assert by_repetition[0]["judge"].startswith("judge:repetition|")
    assert by_length[0]["scores"] != pytest.approx(by_repetition[0]["scores"], abs=1e-3)


@row("score", "--device", "--dtype")
def test_device_and_dtype(files: Files, tmp_path: Path) -> None:
    chats = write(tmp_path / "chats.jsonl", RECORDS[:3])
    works("score", chats, "--device", "cpu", "--out", tmp_path / "fp32.jsonl")
    works(
        "score",
        chats,
        "--device=cpu",
        "--dtype",
        "bf16",
        "--out",
        tmp_path / "bf16.jsonl",
    )
    exact, rounded = scored(tmp_path / "fp32.jsonl"), scored(tmp_path / "bf16.jsonl")
    differences = [abs(exact[id]["overall"] - rounded[id]["overall"]) for id in exact]
    assert 1e-5 < max(differences) < 0.3
    for device in ("cuda:99", "toaster"):
        done = medal("score", files.chats, "--device", device)
        assert done.code == 2 and f"no device '{device}' here" in done.err
        assert "here: cpu" in done.err


@row("score", "--revision")
def test_revision(files: Files) -> None:
    done = medal("score", files.chats, "--judge", "boxed", "--revision", "v9")
    assert done.code == 2
    assert (
        "boxed is on this machine; revision 'v9' is of a judge on the Hub" in done.err
    )


@row("score", "--no-cache", "--repeats")
def test_no_cache_and_repeats(serve: Serve, files: Files, tmp_path: Path) -> None:
    server = serve()
    chats = write(tmp_path / "chats.jsonl", RECORDS[:2])
    words = ["score", chats, "--judge", "dstc12_baseline", "llm=openai:tester"]
    words += [f"llm.base_url={server.url}", "--min-coverage", 0, "--out"]

    def requests(out: str, *options: object) -> int:
        before = len(server.told("requests"))
        works(*words, tmp_path / out, *options)
        return len(server.told("requests")) - before

    assert requests("first.jsonl") == 2
    assert requests("cached.jsonl") == 0
    assert requests("asked.jsonl", "--no-cache") == 2
    # the first answers are cached
    assert requests("three.jsonl", "--repeats", 3) == 2 * 2
    assert (
        read(tmp_path / "three.jsonl")[0]["judge"]
        != read(tmp_path / "first.jsonl")[0]["judge"]
    )


@row("score", "--max-cost", "--dry-run")
def test_max_cost_and_dry_run(serve: Serve, files: Files, tmp_path: Path) -> None:
    server = serve()
    words = ["score", files.chats, "--judge", "dstc12_baseline", "llm=openai:tester"]
    words += [f"llm.base_url={server.url}", f"llm.prices={files.prices}"]
    done = works(*words, "--dry-run")
    assert (
        f"{COUNT} dialogues: {COUNT} requests" in done.out and "at most $" in done.out
    )
    done = medal(*words, "--max-cost", "0.000001", "--out", tmp_path / "s.jsonl")
    assert done.code == 4 and "before the limit of $1e-06: $0.0000 spent" in done.err
    assert not [
        r for r in server.told("requests") if r["path"].endswith("/completions")
    ]
    done = medal("score", files.chats, "--judge", "length", "--max-cost", "1")
    assert done.code == 2 and "uses no language model" in done.err


@row("score", "--dimension", "--level", "--keep")
def test_dimension_level_and_keep(files: Files, tmp_path: Path) -> None:
    longer = [{**RECORDS[0], "dialogue": RECORDS[0]["dialogue"] * 2}]
    chats = write(tmp_path / "chats.jsonl", longer)
    out = tmp_path / "s.jsonl"
    words = ["score", chats, "--judge", "length", "--out", out, "--level", "turn"]
    works(*words, "--dimension", "overall", "--keep", "user", "--keep", "day")
    first, second = read(out)
    assert (first["turn"], second["turn"]) == (1, 3)
    assert list(first["scores"]) == ["overall"]
    assert first["meta"] == {"user": "u0", "day": "2026-11-01"}


@row("score", "--token-budget")
def test_token_budget(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    batches = judges.budget_batches

    def counted(*arguments: Any, **named: Any) -> Any:
        for batch in batches(*arguments, **named):
            sizes.append(len(batch))
            yield batch

    monkeypatch.setattr(judges, "budget_batches", counted)
    score(files, tmp_path / "one.jsonl")
    assert sizes == [COUNT]
    sizes.clear()
    score(files, tmp_path / "many.jsonl", "--token-budget", 1)
    assert sizes == [1] * COUNT
    assert alike(
        scored(tmp_path / "one.jsonl"), scored(tmp_path / "many.jsonl"), tolerance=4e-5
    )


@row("score", "--overwrite")
def test_overwrite(files: Files, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    score(files, out)
    words = ["score", files.chats, "--judge", "repetition", "--out", out]
    done = medal(*words)
    assert done.code == 2 and "or --overwrite" in done.err
    assert read(out)[0]["judge"].startswith("judge:length|")
    works(*words, "--overwrite")
    assert read(out)[0]["judge"].startswith("judge:repetition|")


@row("score", "--retry-failed", "--min-coverage")
def test_retry_failed_and_min_coverage(files: Files, tmp_path: Path) -> None:
    out = tmp_path / "s.jsonl"
    first, *others = score(files, out)
    scores = first["scores"]
    write(
        out,
        [{**first, "scores": dict.fromkeys(scores), "failure": "no answer"}, *others],
    )
    words = ["score", files.chats, "--judge", "length", "--out", out]
    assert medal(*words, "--min-coverage", 1).code == 3
    assert works(*words, "--min-coverage", 0.9).code == 0
    assert set(scored(out)["d0"].values()) == {None}
    works(*words, "--min-coverage", 1, "--retry-failed")
    assert scored(out)["d0"] == pytest.approx(scores, abs=4e-5)


@row("score", "--unknown-language")
@pytest.mark.parametrize(
    ("policy", "is_scored", "is_said"),
    [("warn", True, True), ("refuse", False, False), ("allow", True, False)],
)
def test_unknown_language(
    policy: str,
    is_scored: bool,
    is_said: bool,
    tmp_path: Path,
    english_judge: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    chats = write(tmp_path / "chats.jsonl", [{**RECORDS[0], "lang": "zh"}])
    out = tmp_path / "s.jsonl"
    words = ["score", chats, "--judge", english_judge, "--out", out]
    done = medal(*words, "--unknown-language", policy, "--no-detect-language")
    assert done.code == (0 if is_scored else 3)
    (record,) = read(out)
    assert (record["scores"]["overall"] is not None) == is_scored
    assert ("zh (1)" in caplog.text) == is_said


@row("score", "--detect-language", "--no-detect-language")
def test_detect_language(files: Files, tmp_path: Path) -> None:
    pytest.importorskip("lingua")
    spoken = {
        "id": "a",
        "dialogue": [
            {
                "role": "user",
                "content": "Hola, ¿me puedes ayudar con mi pedido, por favor?",
            },
            {
                "role": "assistant",
                "content": "Claro que sí, dime el número de tu pedido.",
            },
        ],
    }
    chats = write(tmp_path / "chats.jsonl", [spoken])
    words = ["score", chats, "--judge", "length", "--keep", "lang", "--out"]
    works(*words, tmp_path / "yes.jsonl", "--detect-language")
    works(*words, tmp_path / "no.jsonl", "--no-detect-language")
    (detected,), (not_detected,) = (
        read(tmp_path / "yes.jsonl"),
        read(tmp_path / "no.jsonl"),
    )
    assert detected["detected_language"] == "es"
    assert "detected_language" not in not_detected


@row("score", "--workers", "--ray")
def test_workers_and_ray(files: Files, tmp_path: Path) -> None:
    words = ["score", files.chats, "--judge", "length", "--out", tmp_path / "s.jsonl"]
    paid = ["score", files.chats, "--judge", "geval", "llm=openai:tester"]
    done = medal(*paid, "--ray", "auto")
    assert done.code == 2 and "is not scored on a cluster" in done.err
    done = medal(*paid, "--workers", 2, "--out", tmp_path / "s.jsonl")
    assert done.code == 2 and "server" in done.err
    shared = ["llm=vllm:ORG/NAME", "llm.tensor_parallel_size=2", "--workers", 2]
    done = medal("score", files.chats, "--judge", "geval", *shared)
    assert done.code == 2 and "shares a model over 2" in done.err
    if find_spec("ray") is None:
        for option, value in (("--workers", 2), ("--ray", "auto")):
            done = medal(*words, option, value)
            assert (
                done.code == 2
                and f"medal score {option} needs the package 'ray'" in done.err
            )


@row("score", "--quiet")
def test_quiet(files: Files) -> None:
    def said(*options: str) -> Done:
        return works("score", files.chats, "--judge", "length", *options)

    aloud, quiet = said(), said("--quiet")
    assert "coverage" in aloud.err and not quiet.err
    assert json.loads(quiet.out.splitlines()[0])["id"] == "d0"
