"""What hostile or vanishing files do to several processes: what they do to one, with no hang."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from medal_judges import Judge, read_dialogues
from medal_judges.errors import MedalError
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.parallel.crew import JudgeCrew
from medal_judges.inference.parallel.places import worker_environments
from medal_judges.inference.parallel.pool import JudgePool
from medal_judges.storage.jsonl import LONGEST_LINE

from ..inference.test_workers import children, require_gone, start, write

pytestmark = pytest.mark.slow
MEDAL = [sys.executable, "-m", "medal_judges", "score"]
SAID = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]


def hostile() -> list[str]:
    ids = ["\x1b[2J", "../../x", "a\nb", "d1", "d1", "d1#2", "\u202e", "é" * 5000, "=1+1", 7, -0.0]
    rows = [json.dumps({"id": id, "dialogue": SAID}) for id in ids]
    surrogate = '{"id": "s\\ud800", "dialogue": [{"role": "user", "content": "x"}]}'
    text = '{"id": "t", "dialogue": [{"role": "assistant", "content": "\\udc00"}]}'
    deep = '{"id": "deep", "meta": ' + "[" * 5000 + "]" * 5000 + "}"
    long = json.dumps({"id": "long", "dialogue": [{"role": "user", "content": "x" * LONGEST_LINE}]})
    whole = json.dumps({"id": "w", "dialogue": [*SAID, {"role": "user", "content": "y" * 10**6}]})
    inf = '{"id": "inf", "dialogue": ' + json.dumps(SAID) + ', "meta": {"x": 1e999}}'
    return [*rows, surrogate, text, deep, long, whole, inf, "", "null", "[]", '{"id": 1']


def test_hostile_rows_are_those_of_one_process(tmp_path: Path) -> None:
    chats = tmp_path / "chats.jsonl"
    chats.write_bytes("\n".join(hostile()).encode() + b'\n{"id": "\xff\xfe"}\n')
    found = []
    for workers in ("1", "2"):
        out = tmp_path / f"{workers}.jsonl"
        command = [*MEDAL, chats, "--judge", "length", "--min-coverage", "0", "--workers", workers]
        done = subprocess.run(
            [*map(str, command), "--out", str(out)], capture_output=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
        assert b"Traceback" not in done.stderr
        found.append((out.read_bytes(), out.with_name(f"{workers}.skipped.jsonl").read_bytes()))
    assert found[0] == found[1]
    assert found[0][0].count(b"\n") >= 10


def test_a_file_that_grows_or_shrinks_while_it_is_read_ends_the_run(tmp_path: Path) -> None:
    for change in ("grows", "shrinks", "goes"):
        chats, out = write(tmp_path / f"{change}.jsonl", 4000), tmp_path / f"{change}.out.jsonl"
        run = start(chats, "--judge", "length", "--min-coverage", 0, "--workers", 2, "--out", out)
        while run.poll() is None and not (out.exists() and out.stat().st_size):
            time.sleep(0.01)
        workers = children(run.pid)
        if change == "goes":
            chats.unlink()
        else:
            with chats.open("r+") as stream:
                if change == "grows":
                    stream.seek(0, 2)
                    stream.write(json.dumps({"id": "late", "dialogue": SAID}))
                else:
                    stream.truncate(1000)
        said = run.communicate(timeout=300)[1]
        assert run.returncode in (0, 2), said
        assert "Traceback" not in said
        require_gone(workers)


@pytest.mark.parametrize("change", ["goes", "is another"])
def test_a_judge_whose_folder_goes_or_is_another_does_not_score_on(
    change: str, tmp_path: Path
) -> None:
    """Processes that have the judge need the folder no more; one that takes their place does."""
    folder = Judge.from_pretrained("length").save_pretrained(tmp_path / "judge")
    dialogues = [*read_dialogues(write(tmp_path / "chats.jsonl", 600))]
    wanted = [*Judge.from_pretrained(folder).score(dialogues)]
    crew = JudgeCrew(choose_judge(str(folder)), worker_environments(1))
    with JudgePool(crew) as pool:
        shutil.rmtree(folder)
        assert [*pool.score(dialogues)] == wanted
        if change == "is another":
            Judge.from_pretrained("repetition").save_pretrained(folder)
        judged = pool.score(dialogues)
        process = crew.members[0].process
        assert process is not None
        process.kill()
        with pytest.raises(MedalError, match="other settings" if folder.exists() else "judge"):
            list(judged)
