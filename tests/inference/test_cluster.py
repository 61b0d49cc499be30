"""medal score --ray on a cluster of two nodes on loopback: what is killed loses and doubles
nothing. Run by ``make test-ray``; MEDAL_RAY_ROWS=100000 MEDAL_RAY_JUDGE=boxed makes it large."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from medal_judges import Judge, Judgement, read_dialogues, read_judgements
from medal_judges.reading.report import ReadingReport

ray = pytest.importorskip("ray", reason="needs ray (pip install 'medal-judges[ray]')")

pytestmark = pytest.mark.ray
ROWS = int(os.environ.get("MEDAL_RAY_ROWS", "6000"))
JUDGE = os.environ.get("MEDAL_RAY_JUDGE", "length")
MEDAL = [sys.executable, "-m", "medal_judges"]
_STORE = 200 << 20
_WORDS = "music train rain coffee why never really Berlin sorry maybe book sister late ok 猫 été"


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A cluster of two nodes."""
    from ray.cluster_utils import Cluster

    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "object_store_memory": _STORE}
    )
    made.add_node(num_cpus=2, object_store_memory=_STORE)
    made.wait_for_nodes()
    yield made
    made.shutdown()


def chats(count: int, first: int = 0) -> list[dict[str, Any]]:
    """Chats of two to four turns, no two of them alike."""
    draw, words = random.Random(first), _WORDS.split()
    return [
        {
            "id": f"d{n:07}",
            "dialogue": [
                {
                    "role": "user" if k % 2 == 0 else "assistant",
                    "content": f"{' '.join(draw.choices(words, k=draw.randint(2, 12)))} {n}",
                }
                for k in range(draw.randint(2, 4))
            ],
        }
        for n in range(first, first + count)
    ]


def write(path: Path, rows: Iterable[dict[str, Any] | str]) -> Path:
    lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_parquet(path: Path, rows: Sequence[dict[str, Any]]) -> Path:
    import pyarrow.parquet as pq
    from pyarrow import Table

    pq.write_table(Table.from_pylist(rows), path, row_group_size=1000)
    return path


def start(
    source: Path, out: Path, cluster: Any, *more: object, judge: str = JUDGE
) -> subprocess.Popen[str]:
    command = [*MEDAL, "score", source, "--judge", judge, "--ray", cluster.address, "--out", out]
    return subprocess.Popen(
        [*map(str, command), *map(str, more)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def done(run: subprocess.Popen[str], code: int = 0) -> str:
    said = run.communicate(timeout=5000)[1]
    assert run.returncode == code, said
    if code:  # Ray logs tracebacks of its own before our message
        said = said[said.rindex("error: ") :]
        assert "Traceback" not in said
    return said


def require_same(out: Path, dialogues: Iterable[Any], judge: str = JUDGE) -> None:
    """The judgements of ``out`` are those of one process after sorting by id: exactly, of a network
    up to 1e-5, as other chats stand in its batches."""
    wanted = sorted(Judge.from_pretrained(judge).score(dialogues), key=lambda each: each.id)
    found: list[Judgement] = sorted(read_judgements(out), key=lambda each: each.id)
    assert [each.id for each in found] == [each.id for each in wanted]
    if judge == "length":
        assert found == wanted
    largest = 0.0
    for mine, theirs in zip(found, wanted, strict=True):
        assert mine.judge == theirs.judge
        assert mine.scores.keys() == theirs.scores.keys()
        for name, value in theirs.scores.items():
            largest = max(largest, abs((mine.scores[name] or 0.0) - (value or 0.0)))
    print(f"{len(found)} judgements; largest difference {largest:.2e}")
    assert largest <= 1e-5


def judging(node: Any = None) -> list[int]:
    """Processes that judge a batch at this moment, on ``node`` where one is given."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                title = (entry / "cmdline").read_bytes()
                parent = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (OSError, IndexError):
                continue
            busy = title.startswith(b"ray::MapWorker(MapBatches(ClusterJudge)).")
            if busy and b"__init__" not in title and node in (None, parent):
                found.append(int(entry.name))
    return found


def raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def wait_for(
    condition: Callable[[], Any], run: subprocess.Popen[str], seconds: float = 1500
) -> Any:
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.01)
    return found


def test_a_killed_process_and_a_killed_node_lose_and_double_nothing(
    cluster: Any, tmp_path: Path
) -> None:
    """JSON lines and parquet in one folder; a bad line, ids that stand twice in a file, and in two
    files."""
    folder, out = tmp_path / "chats", tmp_path / "scores"
    folder.mkdir()
    half = ROWS // 2
    rows = chats(half)
    lines = write(folder / "a.jsonl", [*rows[:50], "no json", *rows[50:], rows[7]])
    tables = [
        write_parquet(folder / "b.parquet", [rows[3], *chats(half // 2, half)]),
        write_parquet(folder / "c.parquet", chats(ROWS - half - half // 2, half + half // 2)),
    ]
    run = start(folder, out, cluster)
    victim = wait_for(judging, run)[0]
    os.kill(victim, signal.SIGKILL)
    (node,) = cluster.worker_nodes
    wait_for(lambda: judging(raylet(node)), run)
    cluster.remove_node(node, allow_graceful=False)
    said = done(run)
    assert "1 bad rows left out" in said
    listed = ReadingReport(tmp_path / "wanted.jsonl")
    first = [*read_dialogues(lines, reading=listed)]
    assert out.with_name("scores.skipped.jsonl").read_bytes() == listed.listed.read_bytes()  # type: ignore[union-attr]
    again = read_dialogues([rows[3] | {"id": f"{rows[3]['id']}#2"}])
    rest = chain.from_iterable(read_dialogues(table) for table in tables)
    next(rest)
    require_same(out, chain(first, again, rest))
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["rows"] == ROWS + 3 == sum(part["rows"] for part in manifest["parts"])


def test_a_run_that_was_killed_judges_only_the_rest(cluster: Any, tmp_path: Path) -> None:
    source = write(tmp_path / "chats.jsonl", chats(40_000))
    out = tmp_path / "out"
    run = start(source, out, cluster, judge="length")
    wait_for(lambda: any((out / ".checkpoint").glob("*[!g].parquet")), run)
    run.kill()
    run.wait()
    with pytest.raises(Exception, match="holds only a part of its judgements"):
        next(read_judgements(out))
    before = {part.name for part in (out / "parts").glob("*.parquet")}
    done(start(source, out, cluster, judge="length"))
    assert before & {part.name for part in (out / "parts").glob("*.parquet")}
    require_same(out, read_dialogues(source), "length")
    said = done(start(source, out, cluster, "--level", "last", judge="length"), 2)
    assert "was written with another asked" in said
    assert "40000 from before" in done(start(source, out, cluster, judge="length"))


def test_what_medal_score_wrote_is_read_by_report_and_compare(cluster: Any, tmp_path: Path) -> None:
    source = write(tmp_path / "chats.jsonl", chats(300))
    out = tmp_path / "out"
    done(start(source, out, cluster, "--level", "turn", judge="length"))
    whole = tmp_path / "whole.jsonl"
    command = ["score", source, "--judge", "length", "--level", "turn", "--out", whole]
    for arguments in (command, ["report", whole], ["report", out], ["compare", out, whole]):
        ran = subprocess.run([*MEDAL, *map(str, arguments)], capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        print(ran.stdout)
    found = {(each.id, each.turn): each for each in read_judgements(out)}
    assert found == {(each.id, each.turn): each for each in read_judgements(whole)}


def test_what_cannot_be_judged_is_one_message(cluster: Any, tmp_path: Path) -> None:
    """Each ends with what is wrong and what to do; nothing hangs, nothing stays."""
    source = write(tmp_path / "chats.jsonl", [*chats(5), "no json"])
    folder = tmp_path / "judge"
    folder.mkdir()
    (folder / "config.json").write_text('{"family": "encoder"}')
    for judge, more, problem in (
        (str(folder), (), "in config.json"),
        ("length", ("--strict",), "chats.jsonl:6"),
        ("length", ("--retry-failed",), "is of one process"),
        ("length", ("--dimension", "charm"), "no dimension 'charm'"),
    ):
        said = done(start(source, tmp_path / f"out{problem}", cluster, *more, judge=judge), 2)
        assert problem in said
    inside = tmp_path / "inside"
    inside.mkdir()
    write(inside / "a.jsonl", chats(5))
    assert "lies in the folder" in done(start(inside, inside / "out", cluster), 2)
    write(inside / "b.txt", ["what is this?"])
    assert "b.txt" in done(start(inside, tmp_path / "out2", cluster), 2)
    assert "no such file" in done(start(tmp_path / "no.jsonl", tmp_path / "out3", cluster), 2)
    empty = write(tmp_path / "empty.jsonl", [])
    assert "0 judgements" in done(start(empty, tmp_path / "out4", cluster, judge="length"))
