"""``medal align``: labels in, a judge that agrees better out, or the message that it does not."""

import csv
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from medal_judges import Judge, align
from medal_judges.cli import app
from medal_judges.errors import ConfigError
from medal_judges.eval.align.proof import Fit, FitData, fit_and_cross_validate
from medal_judges.reading.dialogues import read_labelled

# (number of the chat, words of its answer) -> cell
Labels = Callable[[int, int], object]
NOISE = np.random.default_rng(5).integers(1, 6, 200)


def write(path: Path, count: int = 40, **columns: Labels) -> Path:
    """A table of chats whose answers have 1 to 20 words, and columns of labels."""
    words = np.random.default_rng(0).integers(1, 21, count)
    with path.open("w", newline="", encoding="utf-8") as stream:
        table = csv.writer(stream)
        table.writerow(["id", "question", "answer", *columns])
        for i, n in enumerate(words.tolist()):
            answer = " ".join(
                f"{'abcdefgh'[k % 8]}{(i * 7 + k) % 90}" for k in range(n)
            )
            labels = [label(i, n) for label in columns.values()]
            table.writerow([f"c{i}", f"Where is order {i}?", answer, *labels])
    return path


def steps(i: int, n: int) -> int:
    """Longer is better, but people use the lower half of a scale from 1 to 7, and err by 1."""
    return int(1 + n // 6 + NOISE[i] % 2)


def medal(*words: object) -> Result:
    return CliRunner().invoke(app, ["align", *map(str, words)])


def refused(*words: object) -> str:
    done = medal(*words)
    assert isinstance(done.exception, ConfigError), done.output
    return str(done.exception)


@pytest.fixture(scope="module")
def aligned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Result]:
    folder = tmp_path_factory.mktemp("align")
    data, out = folder / "mine.csv", folder / "aligned"

    def by_two(i: int, n: int) -> str:
        return ";".join([str(steps(i, n))] * (2 - i % 2))

    write(data, helpful=by_two, who=lambda i, n: "ann" if i % 2 else "ann;bob")
    words = ("--column", "annotator=who", "--label", "helpful=overall:1..7")
    done = medal("repetition", "--labels", data, "--out", out, *words)
    assert done.exception is None, done.output
    return data, out, done


def test_labels_that_a_judge_can_learn_give_a_judge_with_its_proof(
    aligned: tuple[Path, Path, Result],
) -> None:
    data, out, done = aligned
    assert "overall: the labels improve this judge (gain" in done.output
    record = json.loads((out / "align.json").read_text())["dimensions"]["overall"]
    lines = {line["name"]: line for line in record["lines"]}
    assert record["kept"] and record["gain"]["low"] > 0
    assert record["base"] in ("judge corrected by a line", "mean rating")
    gain = lines[record["base"]]["error"] - lines["aligned judge"]["error"]
    assert record["gain"]["value"] == pytest.approx(gain)
    # Nested: better than the mean by what length says, and no better than people's own noise.
    assert 0.3 < lines["aligned judge"]["error"] < lines["mean rating"]["error"]
    judge = Judge.from_pretrained(out)
    (dimension,) = judge.dimensions
    assert (dimension.name, dimension.kind) == ("overall", "ordinal")
    assert (dimension.low, dimension.high) == pytest.approx((1, 7))
    columns = {"labels": {"helpful": "overall:1..7"}, "annotator": "who"}
    rows = list(read_labelled(data, columns=columns))
    assert len(rows) == 40 and rows[0].extra["annotators"] == ["ann", "bob"]
    mean = np.array([row.labels["overall"][0] for row in rows], float)
    judgements = judge.score([row.dialogue for row in rows])
    scores = np.array([j.scores["overall"] for j in judgements], float)
    fitted = float(np.sqrt(np.mean((scores - mean) ** 2)))
    # on rows that it was fitted on
    assert fitted <= lines["aligned judge"]["error"] * 1.05
    card = (out / "README.md").read_text()
    assert f"{record['gain']['value']:.2f} [{record['gain']['low']:.2f}" in card
    assert "Where is order" not in card + (out / "align.json").read_text()


def test_a_second_run_reads_the_judgements(aligned: tuple[Path, Path, Result]) -> None:
    data, out, _ = aligned
    file = out / "judgements.jsonl"
    before = file.stat().st_mtime_ns
    (out / "judge.json").unlink()
    words = ("--column", "annotator=who", "--label", "helpful=overall:1..7")
    done = medal("repetition", "--labels", data, "--out", out, *words)
    assert done.exception is None and file.stat().st_mtime_ns == before
    # Another text under the same id is asked again.
    other = data.with_name("other.csv")
    other.write_text(data.read_text().replace("Where is order 0?", "And now?"))
    (out / "judge.json").unlink()
    done = medal("repetition", "--labels", other, "--out", out, *words)
    assert done.exception is None and file.stat().st_mtime_ns != before


def test_a_saved_judge_scores_as_the_fit_says(tmp_path: Path) -> None:
    """Also for a dimension that the judge does not have, of several annotators, and binary."""
    data = write(
        tmp_path / "mine.csv",
        kind=lambda i, n: f"{int(n > 10)};{int(n > 8 + NOISE[i])}",
    )
    rows = list(read_labelled(data, columns={"labels": {"kind": "kind:0..1"}}))
    result = align("repetition", rows, tmp_path / "out")
    found = result.proofs["kind"]
    assert found.improves and result.dimensions["kind"].kind == "binary"
    assert found.lines[-1].name == "one person, the others"
    assert result.judge is not None
    loaded = Judge.from_pretrained(tmp_path / "out")
    scores = [
        [j.scores["kind"] for j in judge.score([row.dialogue for row in rows])]
        for judge in (result.judge, loaded)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_labels_that_are_chance_write_no_judge_and_exit_with_6(tmp_path: Path) -> None:
    data = write(tmp_path / "mine.csv", 24, overall=lambda i, n: NOISE[i])
    out = tmp_path / "out"
    words = ["length", "--labels", data, "--label", "overall=novel:1..5", "--out", out]
    done = medal(*words)
    assert done.exit_code == 6 and not (out / "judge.json").exists()
    record = json.loads((out / "align.json").read_text())
    assert not record["judge_written"] and not record["dimensions"]["novel"]["kept"]
    rows = list(read_labelled(data, columns={"labels": {"overall": "novel:1..5"}}))
    assert align("length", rows, keep_anyway=True).judge is not None
    (out / "judge.json").touch()
    assert "already holds a judge" in refused(*words)


def fit_data(judge: np.ndarray, y: np.ndarray) -> FitData:
    """A judge's scores beside lengths that say nothing."""
    scores = np.column_stack([judge, np.random.default_rng(9).random(len(y))])
    contexts = np.arange(len(y)).astype(str)
    names = ("judge:overall", "length:overall")
    return FitData(names, scores, y[:, None], contexts, 0, 4.0)


@pytest.mark.parametrize(
    ("sign", "noise", "is_reversed"),
    [(-1, 0.2, True), (1, 0.2, False), (-1, 9.0, False)],
)
def test_only_a_fall_beyond_chance_is_one(
    sign: int, noise: float, is_reversed: bool
) -> None:
    rng = np.random.default_rng(3)
    y, errors = rng.random((2, 40))
    judge = 0.5 + 0.5 * (sign * (y - 0.5) + noise * (errors - 0.5)) / (1 + noise)
    assert fit_and_cross_validate(fit_data(judge, y)).is_reversed == is_reversed


def test_shuffled_labels_do_not_improve_a_judge_whose_level_is_wrong() -> None:
    """Any constant is nearer than the judge, which says 1 of all."""
    rng = np.random.default_rng(1)
    y = rng.choice([0.0, 0.25], 60)
    result = fit_and_cross_validate(fit_data(0.95 + 0.05 * rng.random(60), y))
    level = result.agreement_of("judge as it is").gain
    assert not result.improves and level is not None and (level.low or 0) > 0
    assert "a line or a constant corrects it" in " ".join(result.note_sentences())


def test_a_ridge_of_no_penalty_is_least_squares() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((60, 3))
    y = 0.2 + x @ np.array([0.3, 0.2, 0.1])
    fit = Fit((0, 1, 2), alpha=1e-9).fit(x, y)
    assert fit.line.weights == pytest.approx((0.3, 0.2, 0.1), abs=1e-6)
    assert fit.predict(x) == pytest.approx(y, abs=1e-6)
