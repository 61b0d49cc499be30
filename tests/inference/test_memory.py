"""Memory of ``medal score`` is flat in the number of dialogues: real processes, peak measured."""

from pathlib import Path

import pytest


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
        peak, _ = peak_mb(source, "configs/judges/length.yaml", tmp_path / f"{count}.out.jsonl")
        peaks.append(peak)
        assert sum(1 for _ in (tmp_path / f"{count}.out.jsonl").open()) == count
    assert peaks[0] > 20  # of the interpreter alone: something was measured
    # The bar is 300 MB; holding every dialogue would cost some 90, so it is set lower here.
    assert peaks[1] - peaks[0] < 60
