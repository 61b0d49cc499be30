"""medal score --workers: the file of one process, also after a process is killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from medal_judges import Dialogue, Judge, ScoreOptions, read_dialogues
from medal_judges.errors import ConfigError, DataError, MedalError, RecordError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.ray_judge import RayJudge
from medal_judges.inference.scoring import open_judge, score_to_file

from ..talks import said

pytestmark = pytest.mark.ray

ROWS = int(os.environ.get("RAY_ROWS", "2000"))


@pytest.fixture(scope="module")
def chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chats") / "in.jsonl"
    with path.open("w") as stream:
        for n in range(ROWS):
            turns = said(*(f"so {k} and {n % 7} " * 9 for k in range(2 + n % 8)))
            line = {
                "id": f"d{n}",
                "lang": "en",
                "dialogue": turns,
                "meta": {"plan": n % 3},
            }
            stream.write(json.dumps(line) + "\n")
    return path


@pytest.fixture(scope="module")
def judge() -> Iterator[RayJudge]:
    with open_judge(choose_judge("repetition"), workers=2) as loaded:
        assert isinstance(loaded, RayJudge)
        loaded.window = 64
        yield loaded


def one_process(chats: Path, out: Path, options: ScoreOptions) -> bytes:
    score_to_file(
        read_dialogues(chats), Judge.from_pretrained("repetition"), out, options
    )
    return out.read_bytes()


def test_what_cannot_run_in_several_processes_says_why() -> None:
    llm = 'llm={model: "openai:gpt-x", base_url: "http://127.0.0.1:9/v1"}'
    choice = choose_judge("judges/dstc12_baseline.yaml", [llm])
    with pytest.raises(ConfigError), open_judge(choice, workers=2):
        pass
    with (
        pytest.raises(MedalError),
        open_judge(choose_judge("nowhere/judge"), workers=2),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("s.jsonl", ScoreOptions(keep=["plan", "lang"])),
        (
            "s.last.jsonl",
            ScoreOptions(level="last", dimensions=["repetitive"]),
        ),
        ("s.parquet", ScoreOptions(level="turn")),
    ],
)
def test_the_file_is_that_of_one_process(
    judge: RayJudge, chats: Path, tmp_path: Path, name: str, options: ScoreOptions
) -> None:
    done: list[int] = []
    out = tmp_path / name
    report = score_to_file(
        read_dialogues(chats), judge, out, options, progress=done.append
    )
    assert report.dialogues == sum(done) == ROWS
    expected = one_process(chats, tmp_path / f"one-{name}", options)
    if name.endswith(".gz"):
        import gzip

        assert gzip.decompress(out.read_bytes()) == gzip.decompress(expected)
    else:
        assert out.read_bytes() == expected
    assert (
        score_to_file(read_dialogues(chats), judge, out, options).resumed
        == report.total
    )


def test_a_killed_process_loses_no_row(
    judge: RayJudge, chats: Path, tmp_path: Path
) -> None:
    import ray

    pids: set[int] = set()

    def dialogues() -> Iterator[Dialogue]:
        for number, dialogue in enumerate(read_dialogues(chats)):
            if number in (300, 900):
                killed = judge._actors[number // 900]
                pids.add(id(killed))
                ray.kill(killed, no_restart=False)
            yield dialogue

    out = tmp_path / "s.jsonl"
    score_to_file(dialogues(), judge, out)
    assert len(pids) == 2
    assert out.read_bytes() == one_process(
        chats, tmp_path / "one.jsonl", ScoreOptions()
    )


def test_errors_come_after_what_is_before_them(
    judge: RayJudge, chats: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.jsonl"
    lines = chats.read_text().splitlines()
    bad.write_text("\n".join([*lines[:500], "{broken", *lines[500:]]) + "\n")
    out = tmp_path / "s.jsonl"
    with pytest.raises(DataError, match=r"bad\.jsonl:501"):
        score_to_file(read_dialogues(bad), judge, out)
    assert len(out.read_bytes().splitlines()) >= 448
    report = score_to_file(read_dialogues(chats), judge, out)
    assert report.resumed and report.total == ROWS
    assert out.read_bytes() == one_process(
        chats, tmp_path / "one.jsonl", ScoreOptions()
    )
    with pytest.raises((ConfigError, RecordError)):
        list(judge.score(["no dialogue"]))  # type: ignore[list-item]
