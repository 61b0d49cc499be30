"""medal score --ray on a cluster of two nodes on loopback: what is killed loses and doubles
nothing. Run by ``make test-ray``."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from medal_judges import Judge, Judgement, read_dialogues

ray = pytest.importorskip("ray", reason="needs ray (pip install 'medal-judges[ray]')")

from medal_judges.inference.cluster.run import read_parts  # noqa: E402

pytestmark = pytest.mark.ray
ROWS = int(os.environ.get("MEDAL_RAY_ROWS", "4000"))
JUDGE = os.environ.get("MEDAL_RAY_JUDGE", "length")
MEDAL = [sys.executable, "-m", "medal_judges", "score"]


@pytest.fixture
def cluster() -> Iterator[object]:
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 3})
    made.add_node(num_cpus=2)
    made.wait_for_nodes()
    yield made
    made.shutdown()


def write(path: Path, count: int) -> Path:
    with path.open("w", encoding="utf-8") as stream:
        for n in range(count):
            turns = [
                {"role": "user" if k % 2 == 0 else "assistant", "content": f"music {n % 97} {k}"}
                for k in range(2 + n % 8)
            ]
            stream.write(json.dumps({"id": f"d{n:07}", "dialogue": turns}) + "\n")
    return path


def start(chats: Path, out: Path, cluster: object, *more: str) -> subprocess.Popen[str]:
    address = cluster.address  # type: ignore[attr-defined]
    command = [*MEDAL, str(chats), "--judge", JUDGE, "--ray", address, "--out", str(out), *more]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def by_id(judgements: Iterator[Judgement]) -> list[Judgement]:
    return sorted(judgements, key=lambda each: (each.id, each.turn or 0))


def judging() -> list[int]:
    """Processes of Ray that judge."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                said = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"MapWorker(MapBatches(ClusterJudge))" in said:
                found.append(int(entry.name))
    return found


def wait_for(condition: object, run: subprocess.Popen[str], seconds: float = 300) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert run.poll() is None, run.communicate()[1]
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_killed_process_and_a_killed_node_lose_and_double_nothing(
    cluster: object, tmp_path: Path
) -> None:
    chats, out = write(tmp_path / "chats.jsonl", ROWS), tmp_path / "out"
    node = cluster.add_node(num_cpus=2)  # type: ignore[attr-defined]
    run = start(chats, out, cluster)
    wait_for(judging, run)
    os.kill(judging()[0], signal.SIGKILL)
    time.sleep(3)
    cluster.remove_node(node, allow_graceful=False)  # type: ignore[attr-defined]
    said = run.communicate(timeout=1500)[1]
    assert run.returncode == 0, said
    wanted = by_id(Judge.from_pretrained(JUDGE).score(read_dialogues(chats)))
    assert by_id(read_parts(out)) == wanted
    manifest = json.loads((out / "manifest.json").read_text())
    assert manifest["rows"] == ROWS == sum(part["rows"] for part in manifest["parts"])


def test_a_run_that_was_killed_judges_only_the_rest(cluster: object, tmp_path: Path) -> None:
    chats, out = write(tmp_path / "chats.jsonl", 60_000), tmp_path / "out"
    run = start(chats, out, cluster)
    wait_for(lambda: any((out / ".checkpoint").glob("*[!g].parquet")), run)
    run.kill()
    run.wait()
    before = {part.name for part in (out / "parts").glob("*.parquet")}
    again = start(chats, out, cluster)
    said = again.communicate(timeout=1500)[1]
    assert again.returncode == 0, said
    assert before & {part.name for part in (out / "parts").glob("*.parquet")}
    wanted = by_id(Judge.from_pretrained(JUDGE).score(read_dialogues(chats)))
    assert by_id(read_parts(out)) == wanted
    other = start(chats, out, cluster, "--level", "last")
    assert "was written with another asked" in other.communicate(timeout=300)[1]


def test_bad_rows_are_counted_and_a_bad_judge_is_one_message(
    cluster: object, tmp_path: Path
) -> None:
    chats, out = write(tmp_path / "chats.jsonl", 5), tmp_path / "out"
    with chats.open("a") as stream:
        stream.write("no json\n\n" + '{"id": "x", "dialogue": [{"role": "bot"}]}\n')
    run = start(chats, out, cluster, "--min-coverage", "0.5")
    said = run.communicate(timeout=600)[1]
    assert run.returncode == 0, said
    found = [*read_parts(out)]
    assert len(found) == 7
    assert sum((each.failure or "").startswith("no chat: ") for each in found) == 2
    folder = tmp_path / "judge"
    folder.mkdir()
    (folder / "config.json").write_text('{"family": "encoder"}')
    wrong = start(chats, tmp_path / "other", cluster, "--judge", str(folder))
    said = wrong.communicate(timeout=600)[1]
    assert wrong.returncode == 2
    assert said.count("error: ") == 1
    assert "Traceback" not in said


def test_parquet_in_a_folder_and_what_is_no_chats(cluster: object, tmp_path: Path) -> None:
    import pyarrow.parquet

    chats = write(tmp_path / "chats.jsonl", 40)
    rows = [json.loads(line) for line in chats.open(encoding="utf-8")]
    folder = tmp_path / "columns"
    folder.mkdir()
    for part in range(2):
        table = pyarrow.Table.from_pylist(rows[part::2])
        pyarrow.parquet.write_table(table, folder / f"{part}.parquet")
    done = start(folder, tmp_path / "out", cluster)
    assert done.wait() == 0, done.stderr and done.stderr.read()
    judged = by_id(read_parts(tmp_path / "out"))
    expected = by_id(Judge.from_pretrained(JUDGE).score(read_dialogues(chats)))
    assert [(j.id, j.scores) for j in judged] == [(j.id, j.scores) for j in expected]
    (folder / "more.jsonl").write_text("{}")
    for wrong, reason in ((folder, "both kinds"), (tmp_path / "nowhere.txt", "neither")):
        refused = start(wrong, tmp_path / f"out-{reason[:4]}", cluster)
        told = refused.communicate()[1]
        assert refused.returncode == 2 and reason in told and "Traceback" not in told
