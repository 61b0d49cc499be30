"""medal score by several processes: the bytes of one, whatever is killed, and one message."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from medal_judges import Judge, ScoreOptions, read_dialogues
from medal_judges.errors import ConfigError, DataError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.parallel.crew import JudgeCrew, WorkerLostError
from medal_judges.inference.parallel.opening import opened
from medal_judges.inference.parallel.places import visible_gpus, worker_environments
from medal_judges.inference.parallel.pool import JudgePool
from medal_judges.inference.progress import kept_answers
from medal_judges.inference.scoring import score_to_file
from medal_judges.models.llm.protocol import AnswerCounts

MEDAL = [sys.executable, "-m", "medal_judges", "score"]
ROWS = 700  # three windows, the last of them not full


def write(path: Path, count: int = ROWS, words: int = 3) -> Path:
    with path.open("w", encoding="utf-8") as stream:
        for n in range(count):
            said = " ".join(f"music {n % 7} train" for _ in range(words))
            turns = [
                {"role": "user" if k % 2 == 0 else "assistant", "content": f"{said} {k}"}
                for k in range(1 if n % 25 == 0 else 2 + n % 8)
            ]
            row = {"id": f"d{n}", "dialogue": turns, "meta": {"plan": f"p{n % 3}", "é": n}}
            stream.write(json.dumps(row) + "\n")
    return path


@pytest.fixture(scope="module")
def pool() -> Iterator[JudgePool]:
    crew = JudgeCrew(choose_judge("repetition"), worker_environments(2))
    with JudgePool(crew) as pool:
        yield pool


@pytest.fixture
def chats(tmp_path: Path) -> Path:
    return write(tmp_path / "chats.jsonl")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("s.jsonl", ScoreOptions(keep=("plan", "lang"))),
        ("s.jsonl.gz", ScoreOptions(level="last", dimensions=["repetitive"], token_budget=100)),
        pytest.param(
            "s.parquet", ScoreOptions(level="turn", keep=("plan", "lang")), marks=pytest.mark.slow
        ),
        pytest.param("s.csv", ScoreOptions(keep=("plan",)), marks=pytest.mark.slow),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_files_are_those_of_one_process(
    pool: JudgePool, chats: Path, name: str, options: ScoreOptions
) -> None:
    one, several = chats.with_name(f"one.{name}"), chats.with_name(name)
    report = score_to_file(read_dialogues(chats), Judge.from_pretrained("repetition"), one, options)
    told: list[int] = []
    found = score_to_file(read_dialogues(chats), pool, several, options, progress=told.append)
    read = gzip.decompress if name.endswith(".gz") else bytes
    assert read(several.read_bytes()) == read(one.read_bytes())
    assert sum(told) == ROWS
    assert (found.total, found.dialogues, found.sums) == (report.total, ROWS, report.sums)


def test_few_and_no_dialogues(pool: JudgePool, tmp_path: Path) -> None:
    for count in (0, 1, 257):
        dialogues = [*read_dialogues(write(tmp_path / "few.jsonl", count))]
        wanted = [*Judge.from_pretrained("repetition").score(dialogues)]
        assert [*pool.score(dialogues)] == wanted


def test_a_stream_that_is_given_up_does_not_disturb_the_next(pool: JudgePool, chats: Path) -> None:
    first = pool.score(read_dialogues(chats), level="last")
    next(first)
    first.close()
    wanted = [*Judge.from_pretrained("repetition").score(read_dialogues(chats))]
    assert [*pool.score(read_dialogues(chats))] == wanted


def test_a_bad_line_keeps_what_one_process_keeps(pool: JudgePool, chats: Path) -> None:
    lines = chats.read_text().splitlines()
    lines[600] = '{"id": "broken", "dialogue": [{"role": "bot", "content": "x"}]}'
    chats.write_text("\n".join(lines))
    out = chats.with_name("out.jsonl")
    with pytest.raises(DataError) as raised:
        score_to_file(read_dialogues(chats), pool, out)
    assert "chats.jsonl:601" in str(raised.value)
    assert "512 judgements made before it are kept" in str(raised.value)
    assert out.read_bytes().count(b"\n") == 512


def test_a_killed_process_is_told_and_its_window_handed_out_again(
    pool: JudgePool, chats: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wanted = [*Judge.from_pretrained("repetition").score(read_dialogues(chats))]
    judged = pool.score(read_dialogues(chats))
    member = pool.crew.members[0]
    assert member.process is not None
    os.kill(member.process.pid or 0, signal.SIGKILL)
    assert [*judged] == wanted
    assert len(pool.crew.members) == 1
    assert f"{member.name} was killed (SIGKILL" in caplog.text
    assert "want of memory" in caplog.text


@pytest.mark.slow
def test_where_none_is_left_another_is_started(chats: Path) -> None:
    wanted = [*Judge.from_pretrained("length").score(read_dialogues(chats))]
    with opened(choose_judge("length"), 2) as pool:
        assert isinstance(pool, JudgePool)
        judged = pool.score(read_dialogues(chats))
        for member in pool.crew.members:
            assert member.process is not None
            os.kill(member.process.pid or 0, signal.SIGKILL)
        assert [*judged] == wanted
        assert len(pool.crew.members) == 1


@pytest.mark.slow
def test_what_a_judge_advises_and_which_answers_were_kept_is_told_by_several(
    tiny_llama: Path, tmp_path: Path
) -> None:
    boxed = choose_judge("boxed", device="cpu", dtype="fp32")
    with opened(boxed, 2, "cpu") as pool:
        assert pool.advice() == boxed.load().advice()
        assert pool.answer_counts() == AnswerCounts()
    dialogues = [*read_dialogues(write(tmp_path / "chats.jsonl", 4, words=1))]
    asked = [f"llm.model={tiny_llama}", f"llm.cache={tmp_path / 'cache'}"]
    with opened(choose_judge("contrast", asked), 2, "cpu") as pool:
        first = [*pool.score(dialogues)]
        asked_for = pool.answer_counts().asked
        assert asked_for >= 3
        assert pool.answer_counts().kept == 0
        assert [each.scores for each in pool.score(dialogues)] == [each.scores for each in first]
        assert pool.answer_counts() == AnswerCounts(kept=asked_for, asked=asked_for)
        assert f"{asked_for} of {2 * asked_for} answers were kept" in (kept_answers([pool]) or "")


@pytest.mark.slow
def test_a_window_that_ends_two_processes_ends_the_run(tmp_path: Path) -> None:
    """The process that has the second window is killed, and the one that gets it after it."""
    chats = write(tmp_path / "chats.jsonl", words=60)
    with JudgePool(JudgeCrew(choose_judge("length"), worker_environments(2))) as pool:
        crew, replies = pool.crew, pool.crew.replies
        pids = set()

        def killing() -> Iterator[tuple]:
            for member in crew.members:
                process = member.process
                if process is not None and process.is_alive() and [*member.given][:1] == [1]:
                    pids.add(process.pid)
                    process.kill()
                    process.join()
            yield from replies()

        crew.replies = killing  # type: ignore[method-assign]
        out = tmp_path / "out.jsonl"
        with pytest.raises(WorkerLostError, match="second one over the same 256 dialogues") as told:
            score_to_file(read_dialogues(chats), pool, out)
    assert "d256" in str(told.value) and "same command resumes" in str(told.value)
    assert len(pids) == 2
    assert out.read_bytes().count(b"\n") == 256
    whole = tmp_path / "whole.jsonl"
    score_to_file(read_dialogues(chats), Judge.from_pretrained("length"), whole)
    score_to_file(read_dialogues(chats), Judge.from_pretrained("length"), out)
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.slow
def test_a_judge_that_does_not_load_is_one_message(chats: Path) -> None:
    folder = chats.with_name("judge")
    folder.mkdir()
    (folder / "config.json").write_text('{"family": "encoder"}')
    command = [*MEDAL, str(chats), "--judge", str(folder), "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("error:") == 1
    assert "Traceback" not in done.stderr


def test_a_judge_that_asks_a_server_is_refused(serve: Callable, tmp_path: Path) -> None:
    server = serve()
    asked = ["llm.model=openai:judge", f"llm.base_url={server.url}"]
    choice = choose_judge("medal", asked)
    with pytest.raises(ConfigError, match="asks a server") as told, opened(choice, 2):
        pass
    assert "llm.max_in_flight" in str(told.value)
    assert server.total("requests") == 0


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*MEDAL, *map(str, arguments)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def children(pid: int) -> list[int]:
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [int(each) for each in found]


def require_gone(pids: Sequence[int]) -> None:
    for _ in range(500):
        if not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids):
            return
        time.sleep(0.02)
    pytest.fail("a worker outlives the run")


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("kind", ["kill all", "kill reader", "interrupt"])
@pytest.mark.slow
def test_a_run_that_is_ended_is_resumed_by_any_number(kind: str, tmp_path: Path) -> None:
    chats, out = write(tmp_path / "chats.jsonl", 6000), tmp_path / "out.jsonl"
    options = [chats, "--judge", "length", "--min-coverage", 0, "--out"]
    run = start(*options, out, "--workers", 2)
    while run.poll() is None and not (out.exists() and out.read_bytes().count(b"\n") > 256):
        time.sleep(0.005)
    workers = children(run.pid)
    if kind == "kill reader":
        run.kill()
    else:
        os.killpg(run.pid, signal.SIGINT if kind == "interrupt" else signal.SIGKILL)
    said = run.communicate(timeout=60)[1]
    assert "Traceback" not in said
    if kind == "interrupt":
        assert run.returncode == 130
        assert said.count("run the same command again to resume") == 1
    require_gone(workers)
    assert 0 < out.read_bytes().count(b"\n") < 6000
    again = start(*options, out, "--workers", 2)
    said = again.communicate(timeout=120)[1]
    assert again.returncode == 0, said
    assert "(0 from before)" not in said
    score_to_file(read_dialogues(chats), Judge.from_pretrained("length"), tmp_path / "whole.jsonl")
    assert out.read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


@pytest.mark.slow
def test_standard_input_and_output(chats: Path) -> None:
    one, several = (
        subprocess.run(
            [*MEDAL, "-", "--judge", "repetition", "--min-coverage", "0", "--workers", number],
            stdin=chats.open("rb"),
            capture_output=True,
        ).stdout
        for number in ("1", "2")
    )
    assert one == several
    assert several.count(b"\n") == ROWS


@pytest.mark.slow
def test_a_network_scores_the_same_bits_also_when_resumed(tiny_bert: Path, tmp_path: Path) -> None:
    import torch

    from ..models.test_encoder import judge as encoder_judge

    torch.set_num_threads(1)
    made = encoder_judge(tiny_bert)
    made.save_pretrained(tmp_path / "judge")
    chats = write(tmp_path / "chats.jsonl", 600, words=1)
    whole, out = tmp_path / "whole.jsonl", tmp_path / "out.jsonl"
    score_to_file(read_dialogues(chats), Judge.from_pretrained(tmp_path / "judge"), whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    out.write_bytes(b"".join(lines[:301]) + lines[301][:40])  # a window, and a part of the next
    with opened(choose_judge(str(tmp_path / "judge")), 2, "cpu") as pool:
        report = score_to_file(read_dialogues(chats), pool, out)
        assert report.resumed == 256
        assert out.read_bytes() == whole.read_bytes()
        assert score_to_file(read_dialogues(chats), pool, out).resumed == 600
    assert out.read_bytes() == whole.read_bytes()


def test_cores_and_gpus_are_shared_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "4,GPU-7")
    assert visible_gpus() == ["4", "GPU-7"]
    found = worker_environments(3)
    assert [each["CUDA_VISIBLE_DEVICES"] for each in found] == ["4", "GPU-7", "4"]
    assert all("CUDA_VISIBLE_DEVICES" not in each for each in worker_environments(3, "cuda:1"))
    many = worker_environments(10_000)
    assert {each["OMP_NUM_THREADS"] for each in many} == {"1"}
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert worker_environments(1)[0]["OMP_NUM_THREADS"] == "1"


@pytest.mark.slow
def test_accelerate_launch_shares_the_work(chats: Path) -> None:
    out, whole = chats.with_name("out.jsonl"), chats.with_name("whole.jsonl")
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--cpu", "--num_processes", "2"]
    rest = ["-m", "medal_judges.inference", str(chats), "--judge", "repetition", "--out", str(out)]
    done = subprocess.run(
        [*launch, *rest, "--min-coverage", "0"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    score_to_file(read_dialogues(chats), Judge.from_pretrained("repetition"), whole)
    assert out.read_bytes() == whole.read_bytes()
    wrong = subprocess.run(
        [*launch, *rest, "--judge", "no such judge"], capture_output=True, text=True, timeout=300
    )
    assert wrong.returncode != 0
    assert wrong.stderr.count("error: ") == 1
