"""The options of ``medal data``, ``medal curate`` and ``medal configs``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from .files import COUNT, RECORDS, Files, read, write
from .table import Done, medal, row, works

Serve = Callable[..., Any]
NATIVE = Path(__file__).parents[1] / "data_prep" / "translation_script.py"


@pytest.fixture(scope="module")
def long_chats(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Dialogues of 2, 4 and 6 turns."""
    rows = []
    for number, record in enumerate(RECORDS):
        rows.append({**record, "dialogue": record["dialogue"] * (1 + number % 3)})
    return write(tmp_path_factory.mktemp("long") / "long.jsonl", rows)


def turns(path: Path) -> set[int]:
    return {len(record["dialogue"]) for record in read(path)}


@row("data show", "--n")
def test_show(files: Files) -> None:
    for count in (0, 3):
        assert (
            works("data", "show", files.chats, "--n", count).out.count("What about")
            == count
        )


@row("data write", "--out", "--n", "--min-turns", "--max-turns")
def test_write(long_chats: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    works("data", "write", long_chats, "--out", out)
    assert len(read(out)) == COUNT and turns(out) == {2, 4, 6}
    works("data", "write", long_chats, "--out", out, "--n", 5)
    assert len(read(out)) == 5
    works("data", "write", long_chats, "--out", out, "--min-turns", 4, "--max-turns", 5)
    assert turns(out) == {4}


@row(
    "data plant",
    "--out",
    "--issues",
    "--strength",
    "--per-issue",
    "--min-turns",
    "--max-turns",
)
def test_plant(long_chats: Path, tmp_path: Path) -> None:
    out = tmp_path / "planted.jsonl"

    def planted(*options: object) -> list[str]:
        works("data", "plant", long_chats, "--out", out, *options)
        return [record["id"].partition("+")[2] for record in read(out)]

    words = ["--issues", "unsafe", "--issues", "nonfactual", "--per-issue", 2]
    kinds = Counter(id.split(".")[0] for id in planted(*words))
    assert kinds["unsafe"] == kinds["nonfactual"] == 2 * 2  # with a control for each
    assert set(kinds) == {"unsafe", "nonfactual", "clean"}
    gross = planted(*words, "--strength", 3)
    assert {id.split(".")[1] for id in gross if id != "clean"} == {"3"}
    planted(*words, "--min-turns", 4, "--max-turns", 4)
    assert {len(r["dialogue"]) for r in read(out) if r["id"].endswith("clean")} <= {4}


@row("data plant", "--split", "--seed")
def test_plant_other_sentences(long_chats: Path, tmp_path: Path) -> None:
    texts = []
    for name, options in (
        ("a", []),
        ("b", ["--split", "test"]),
        ("c", ["--seed", 7]),
        ("d", []),
    ):
        out = tmp_path / f"{name}.jsonl"
        works("data", "plant", long_chats, "--out", out, "--issues", "unsafe", *options)
        texts.append(out.read_text())
    plain, other_split, other_seed, again = texts
    assert plain == again
    assert plain != other_split and plain != other_seed


@row("data stats", "--out", "--no-lemmas")
def test_stats(files: Files, tmp_path: Path) -> None:
    done = works(
        "data", "stats", files.chats, "--no-lemmas", "--out", tmp_path / "words"
    )
    page = (tmp_path / "words" / "stats.html").read_text()
    assert "words" in page and "MTLD" in done.out
    works("data", "stats", files.chats, "--out", tmp_path / "lemmas")
    assert (tmp_path / "lemmas" / "stats.html").read_text() != page


@row("data seeds", "--out", "--lang", "--n", "--seed", "--scenes", "--personas")
def test_seeds(tmp_path: Path) -> None:
    out = tmp_path / "seeds.jsonl"

    def seeds(*options: object) -> list[dict[str, Any]]:
        works("data", "seeds", "--out", out, "--n", 4, *options)
        return read(out)

    plain = seeds("--lang", "en", "--lang", "de")
    assert [record["lang"] for record in plain].count("de") == 4 and len(plain) == 8
    assert seeds("--lang", "en", "--lang", "de") == plain
    assert seeds("--lang", "en", "--lang", "de", "--seed", 1) != plain
    personas = write(
        tmp_path / "p.jsonl", [{"persona": f"A baker of town {n}"} for n in range(9)]
    )
    found = seeds("--lang", "en", "--personas", personas)
    assert all("baker" in str(record) for record in found)
    heads = [
        {
            "head": f"PersonX visits town {n}",
            "relation": "xWant",
            "tail": "to rest",
            "rec_0.5": n % 2 == 0,
            "mine": True,
        }
        for n in range(40)
    ]
    scenes = write(tmp_path / "atomic.jsonl", heads)
    some = {
        str(record["scene"]) for record in seeds("--lang", "en", "--scenes", scenes)
    }
    assert all("town" in scene for scene in some)
    rejected = [head for head in heads if not head["rec_0.5"]]
    write(scenes, rejected)
    done = medal("data", "seeds", "--out", out, "--scenes", scenes, "--n", 4)
    assert done.code == 2 and "0 gender-neutral scenes" in done.err


@row("data followups", "--out", "--config")
def test_followups(serve: Serve, tmp_path: Path) -> None:
    server = serve(change={"choices.0.message.content": "1. What?\n2. I see."})
    settings = {
        "strategy": "selfmap",
        "llms": [{"model": "openai:tester", "base_url": server.url}],
        "samples": 1,
        "signs": ["positive"],
    }
    config, out = tmp_path / "pool.yaml", tmp_path / "followups.yaml"
    config.write_text(yaml.safe_dump(settings))
    works("data", "followups", "--config", config, "--out", out)
    pool = yaml.safe_load(out.read_text())
    assert [(f["text"], f["sign"]) for f in pool["follow_ups"]] == [
        ("What?", "positive"),
        ("I see.", "positive"),
    ]


class Native:
    """``medal data translate`` by a model behind a server."""

    def __init__(self, server: Any, prices: Path) -> None:
        self.server = server
        settings = f"model: openai:tester, base_url: {server.url}, prices: {prices}, cache: false"
        self.llm = [f"llm={{{settings}}}"]

    def run(self, *words: object) -> Done:
        return medal("data", *words, *self.llm)

    def requests(self, *words: object) -> int:
        before = len(self.server.told("requests"))
        done = self.run(*words)
        assert done.code == 0, done
        return len(self.server.told("requests")) - before


@pytest.fixture
def native(serve: Serve, files: Files) -> Native:
    return Native(serve(script=str(NATIVE)), files.prices)


@row(
    "data translate",
    "--to",
    "--out",
    "--overwrite",
    "--dry-run",
    "--max-cost",
    "--config",
)
def test_translate(native: Native, tmp_path: Path) -> None:
    chats, out = (
        write(tmp_path / "chats.jsonl", RECORDS[:2]),
        tmp_path / "translated.jsonl",
    )
    words = ["translate", chats, "--to", "de", "--to", "zh", "--out", out]
    unchecked = "check_language=false"
    assert native.requests(*words, unchecked, "--dry-run") == 0 and not out.exists()
    done = native.run(*words, unchecked, "--max-cost", "0.000001")
    assert done.code == 4, done
    out.unlink(missing_ok=True)
    assert native.requests(*words, unchecked) == 4
    assert Counter(record["lang"] for record in read(out)) == {"de": 2, "zh": 2}
    assert native.requests(*words, unchecked) == 0  # resumed
    config = tmp_path / "translate.yaml"
    config.write_text(
        yaml.safe_dump({**shipped("native/translate"), "check_language": False})
    )
    assert native.requests(*words, "--config", config, "--overwrite") == 4


def shipped(name: str) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load(works("configs", "show", name).out)
    return loaded


@row("curate", "--out", "--n", "--overwrite", "--seed", "--lang")
def test_curate(files: Files, tmp_path: Path) -> None:
    out = tmp_path / "out"

    def selected(*options: object) -> list[str]:
        works("curate", files.chats, "--out", out, *options, "--overwrite")
        return [record["id"] for record in read(out / "selection.jsonl")]

    plain = selected("--n", 3)
    assert len(plain) == 3
    assert medal("curate", files.chats, "--out", out, "--n", 3).code == 2  # exists
    assert selected("--n", 3) == plain
    assert selected("--n", 3, "--seed", 5) != plain
    done = medal("curate", files.chats, "--out", out, "--lang", "de", "--overwrite")
    assert done.code != 0 and "de" in done.err


@row("curate", "--keywords", "--keep-foreign", "--rubric")
def test_curate_filters(files: Files, tmp_path: Path) -> None:
    keywords = tmp_path / "keywords.yaml"
    keywords.write_text(works("configs", "show", "curate/foreign_language").out)
    comments = {"uninterpretable": "Half of it is gibberish from Qo'noS."}
    rows = [{**r, "comments": comments if r["id"] == "d1" else {}} for r in RECORDS]
    chats = write(tmp_path / "chats.jsonl", rows)
    out = tmp_path / "out"

    def selected(*options: object) -> set[str]:
        works("curate", chats, "--out", out, "--n", COUNT, "--overwrite", *options)
        return {record["id"] for record in read(out / "selection.jsonl")}

    everything = selected()
    settings = yaml.safe_load(keywords.read_text())
    settings["phrases"].append("qo'nos")
    keywords.write_text(yaml.safe_dump(settings))
    assert everything - selected("--keywords", keywords) == {"d1"}
    assert selected("--keywords", keywords, "--keep-foreign") == everything
    rubric = tmp_path / "rubric.yaml"
    rubric.write_text(
        "dimensions:\n"
        "  - {name: unsafe, kind: binary, low: 0, high: 1, good: low}\n"
        "  - {name: overall, kind: ordinal, low: 1, high: 5}\n"
    )
    plain = (out / "curation.json").read_text()
    selected("--rubric", rubric)
    assert (
        "repetitive" in plain
        and "repetitive" not in (out / "curation.json").read_text()
    )


@row("configs copy", "--out")
def test_configs_copy(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    works("configs", "copy", "train/quickstart", "--out", out)
    assert out.read_text() == works("configs", "show", "train/quickstart").out


@row("", "--version", "--debug")
def test_options_before_the_command(tmp_path: Path) -> None:
    assert works("--version").out.startswith("medal-judges ")
    wrong = ["score", tmp_path / "nowhere.jsonl", "--judge", "length"]
    assert "no such file" in medal(*wrong).err
    # a traceback, for main's caller
    with pytest.raises(Exception, match="no such file"):
        medal("--debug", *wrong)
