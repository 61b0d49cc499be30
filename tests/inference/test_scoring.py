"""medal score as a user runs it: real files, processes of its own, killed and resumed."""

import codecs
import gzip
import json
import time
from pathlib import Path

import pytest

from medal_judges import MedalError, ScoreOptions, read_judgements, score_file

from ..forked import medal, score_slowly, start
from ..talks import said

JUDGE = "configs/judges/repetition.yaml"


def write(path: Path, count: int, bad: int | None = None, ending: str = "\n") -> Path:
    """Dialogues of 1 to 9 turns; every 25th has no assistant; line ``bad`` is broken."""
    lines = []
    for number in range(count):
        turns = range(1 if number % 25 == 0 else 2 + number % 8)
        dialogue = said(*(f"so {k} and {number % 7}" for k in turns))
        lines.append(json.dumps({"id": f"d{number}", "dialogue": dialogue}))
    if bad is not None:
        lines[bad - 1] = (
            '{"id": "broken", "dialogue": [{"role": "bot", "content": "x"}]}'
        )
    text = ending.join(lines) + ending
    if path.suffix == ".gz":
        with gzip.open(path, "wt", encoding="utf-8") as stream:
            stream.write(text)
    else:
        path.write_bytes(text.encode())
    return path


@pytest.mark.parametrize("name", ["in.jsonl.gz", "crlf.jsonl", "bom.jsonl", "-"])
def test_gzip_crlf_byte_order_mark_and_standard_input(
    tmp_path: Path, name: str
) -> None:
    plain = write(tmp_path / "plain.jsonl", 30)
    wanted = medal("score", plain, "--judge", JUDGE, "--min-coverage", 0).stdout
    if name == "-":
        found = medal(
            "score",
            "-",
            "--judge",
            JUDGE,
            "--min-coverage",
            0,
            stdin=plain.read_bytes(),
        )
    else:
        source = write(tmp_path / name, 30, ending="\r\n" if "crlf" in name else "\n")
        if "bom" in name:
            source.write_bytes(codecs.BOM_UTF8 + source.read_bytes())
        found = medal("score", source, "--judge", JUDGE, "--min-coverage", 0)
    assert found.stdout == wanted
    assert len(wanted.splitlines()) == 30


def test_a_bad_line_is_named_and_loses_nothing(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", 3000, bad=2500), tmp_path / "out.jsonl"
    done = medal("score", source, "--judge", JUDGE, "--out", out, "--strict")
    assert done.returncode == 2
    assert f"{source}:2500" in done.stderr and "dialogue[0].role" in done.stderr
    assert "Traceback" not in done.stderr
    kept = [j.id for j in read_judgements(out)]
    assert kept == [f"d{n}" for n in range(len(kept))] and len(kept) >= 2304
    done = medal("score", source, "--judge", JUDGE, "--out", out, "--min-coverage", 0)
    assert done.returncode == 0
    assert "1 bad rows left out" in done.stderr
    assert f"{len(kept)} from an earlier run" in done.stderr
    assert len(list(read_judgements(out))) == 2999


def test_too_little_coverage_is_exit_code_3_without_a_headline(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", 50), tmp_path / "out.jsonl"
    done = medal("score", source, "--judge", JUDGE, "--out", out)
    assert done.returncode == 3
    assert "2 x no assistant turn to judge" in done.stderr
    assert "dimension" not in done.stderr  # the table of means
    assert [j.failure for j in read_judgements(out)].count(
        "no assistant turn to judge"
    ) == 2


def kill_half_way(command: list[object], out: Path) -> None:
    """Start ``command`` and SIGKILL it once some judgements are on disk."""
    run = start(*command, first=score_slowly)
    deadline = time.monotonic() + 60
    while not (out.exists() and out.stat().st_size > 20_000):
        assert run.poll() is None, "it ended before it could be killed"
        assert time.monotonic() < deadline
        time.sleep(0.005)
    run.kill()
    run.wait()


@pytest.mark.parametrize(
    ("name", "level"),
    [
        ("out.jsonl", "turn"),
        pytest.param("out.jsonl", "dialogue", marks=pytest.mark.slow),
    ],
)
def test_killed_and_gone_on_with_equals_unbroken(
    tmp_path: Path, name: str, level: str
) -> None:
    source = write(tmp_path / "in.jsonl", 600 if level == "turn" else 2_000)
    whole, out = tmp_path / "whole.jsonl", tmp_path / name
    options = ["--judge", JUDGE, "--level", level, "--min-coverage", "0"]
    assert medal("score", source, *options, "--out", whole).returncode == 0
    kill_half_way(["score", source, *options, "--out", out], out)
    done = medal("score", source, *options, "--out", out)
    assert done.returncode == 0, done.stderr
    assert " from an earlier run" in done.stderr
    assert out.read_bytes() == whole.read_bytes()


def test_another_run_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", 40), tmp_path / "out.jsonl"
    score_file(source, JUDGE, out)
    # Even a half-written last line stays: nothing is cut before all of it is known to fit.
    out.write_bytes(out.read_bytes()[:-9])
    before = out.read_bytes()
    others: list[tuple[str, ScoreOptions]] = [
        ("length", ScoreOptions()),
        (JUDGE, ScoreOptions(level="turn")),
        (JUDGE, ScoreOptions(level="last")),
        (JUDGE, ScoreOptions(dimensions=["repetitive"])),
        (JUDGE, ScoreOptions(keep=["lang"])),
        (JUDGE, ScoreOptions(overwrite=True, dimensions=["fun"])),
    ]
    for judge, options in others:
        with pytest.raises(MedalError):
            score_file(source, judge, out, options)
        assert out.read_bytes() == before and len(list(tmp_path.iterdir())) == 2


def test_scores_of_dialogues_that_an_input_lacks_are_not_lost(tmp_path: Path) -> None:
    source, out = write(tmp_path / "in.jsonl", 40), tmp_path / "out.jsonl"
    shorter = write(tmp_path / "short.jsonl", 10)
    score_file(source, JUDGE, out)
    before = list(read_judgements(out))
    assert score_file(shorter, JUDGE, out).resumed == 10
    assert list(read_judgements(out)) == before[:10]
    assert score_file(source, JUDGE, out).resumed == 40
    assert list(read_judgements(out)) == before
    assert len(list(tmp_path.iterdir())) == 3
    assert score_file(shorter, JUDGE, out, ScoreOptions(overwrite=True)).resumed == 0


@pytest.mark.slow
def test_peak_memory_does_not_grow_with_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    from memory import peak_mb, write_dialogues

    peaks = []
    for count in (1_000, 100_000):
        source = tmp_path / f"{count}.jsonl"
        write_dialogues(source, count)
        peak, _ = peak_mb(
            source, "configs/judges/length.yaml", tmp_path / f"{count}.out.jsonl"
        )
        peaks.append(peak)
        assert sum(1 for _ in (tmp_path / f"{count}.out.jsonl").open()) == count
    assert peaks[0] > 20  # of the interpreter alone: something was measured
    # The bar is 300 MB; holding every dialogue would cost some 90, so it is set lower here.
    assert peaks[1] - peaks[0] < 60
