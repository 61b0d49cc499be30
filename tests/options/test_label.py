"""The options of ``medal label``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medal_judges.config import config_text

from .files import RECORDS, Files, read, write
from .table import Done, medal, row, works

SERVER = Path(__file__).parents[1] / "inference" / "label_server.py"


def spoken(id: str, said: str) -> dict[str, Any]:
    """A dialogue without labels; the server reads its answers in ``said``."""
    plain = {key: RECORDS[0][key] for key in ("lang", "models")}
    answer = {"role": "assistant", "content": f"I like film <<{said}>>"}
    return {**plain, "id": id, "dialogue": [RECORDS[0]["dialogue"][0], answer]}


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    rows = [spoken("a", "unsafe=1 overall=2,4"), spoken("b", "role_confusion=1")]
    return write(tmp_path / "chats.jsonl", rows)


class Labels:
    """``medal label`` of files by a judge behind a server, which counts its requests."""

    def __init__(self, server: Any, folder: Path, prices: Path) -> None:
        self.server, self.out = server, folder / "out"
        self.llm = [
            f"llm.base_url={server.url}",
            f"llm.prices={prices}",
            "llm.model=tester",
        ]

    def run(self, file: Path, *options: object, out: Path | None = None) -> Done:
        return medal("label", file, *self.llm, "--out", out or self.out, *options)

    def requests(self, file: Path, *options: object, out: Path | None = None) -> int:
        """How many requests a run that works sends."""
        before = len(self.server.told("requests"))
        done = self.run(file, *options, out=out)
        assert done.code == 0, done
        return len(self.server.told("requests")) - before

    def ids(self, name: str = "labelled") -> list[str]:
        return [record["id"] for record in read(self.out / f"{name}.jsonl")]


@pytest.fixture
def labels(serve: Callable[..., Any], tmp_path: Path, files: Files) -> Labels:
    pytest.importorskip("openai")
    return Labels(serve(SERVER), tmp_path, files.prices)


@row("label", "--out", "--user-check", "--no-user-check", "--users-only")
def test_users_are_checked_or_not(labels: Labels, chats: Path) -> None:
    assert labels.requests(chats, "--user-check") == 3  # two users, one dialogue
    assert (labels.ids(), labels.ids("malformed")) == (["a"], ["b"])
    labels.out = labels.out.with_name("users")
    rated = [{**record, "labels": {"overall": [4]}} for record in read(chats)]
    labelled = write(chats.with_name("rated.jsonl"), rated)
    assert labels.requests(labelled, "--users-only", "--no-cache") == 2
    assert read(labels.out / "labelled.jsonl")[0]["labels"] == {"overall": [4]}
    labels.out = labels.out.with_name("all")
    assert labels.requests(chats, "--no-user-check", "--no-cache") == 2
    assert labels.ids() == ["a", "b"]


@row("label", "--judge", "--user-judge", "--replace-labels")
def test_the_judges(files: Files, chats: Path, labels: Labels, tmp_path: Path) -> None:
    words = [
        "label",
        files.chats,
        "--judge",
        "length",
        "--no-user-check",
        "--out",
        labels.out,
    ]
    done = medal(*words)
    assert done.code == 2 and "--replace-labels" in done.err
    works(*words, "--replace-labels")
    assert read(labels.out / "labelled.jsonl")[0]["labels_by"].startswith(
        "judge:length|"
    )
    users = tmp_path / "users.yaml"
    users.write_text(
        config_text("judges/malformed").replace("name: malformed", "name: my_check")
    )
    labels.out = tmp_path / "mine"
    llm_of_users = [f"user.{word}" for word in labels.llm]
    labels.requests(chats, "--user-judge", users, *llm_of_users)
    assert read(labels.out / "user_judgements.jsonl")[0]["judge"].startswith(
        "judge:my_check|"
    )


@row("label", "--repeats", "--overwrite", "--no-cache")
def test_repeats_overwrite_and_no_cache(labels: Labels, chats: Path) -> None:
    labels.requests(chats)
    assert read(labels.out / "labelled.jsonl")[0]["labels"]["overall"] == [2.0]
    done = labels.run(chats, "--repeats", 2)
    assert done.code == 2 and "--overwrite" in done.err
    labels.requests(chats, "--repeats", 2, "--overwrite")
    assert read(labels.out / "labelled.jsonl")[0]["labels"]["overall"] == [2.0, 4.0]
    again = labels.out.with_name("again")
    assert labels.requests(chats, out=again) == 0  # cached
    assert labels.requests(chats, "--no-cache", out=again.with_name("anew")) == 3


@row("label", "--min-coverage", "--retry-failed")
def test_min_coverage_and_retry_failed(labels: Labels, tmp_path: Path) -> None:
    rows = [spoken("a", "overall=x"), spoken("b", "overall=3")]
    chats = write(tmp_path / "chats.jsonl", rows)
    assert labels.run(chats).code == 3
    # resumed, and nothing asked again
    assert labels.requests(chats, "--min-coverage", 0) == 0
    judgements = labels.out / "judgements.jsonl"
    failed = read(judgements)
    assert failed[0]["scores"]["overall"] is None
    assert (
        labels.requests(chats, "--min-coverage", 0, "--retry-failed", "--no-cache") > 0
    )


@row("label", "--dry-run", "--max-cost")
def test_dry_run_and_max_cost(labels: Labels, chats: Path) -> None:
    assert labels.requests(chats, "--dry-run") == 0
    assert "labels: 2 dialogues: 2 requests" in labels.run(chats, "--dry-run").out
    assert not labels.out.exists()
    done = labels.run(chats, "--max-cost", "0.000001")
    assert done.code == 4 and "before the limit of $1e-06" in done.err


@row("label", "--device")
def test_device(files: Files, tmp_path: Path) -> None:
    words = [
        "label",
        files.chats,
        "--replace-labels",
        "--no-user-check",
        "--out",
        tmp_path / "o",
    ]
    done = medal(*words, "--judge", "boxed", "--device", "cuda:99")
    assert done.code == 2 and "no device 'cuda:99' here" in done.err
    done = medal(*words, "--judge", "length", "--device", "cpu")
    assert done.code == 2 and "no weights, so --device changes nothing" in done.err
