"""The options of reading, of each command that has them: with the option a file in another form
gives what the plain file gives, without it something else or an error."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest

from .files import RECORDS, Files, read, write
from .table import Done, medal, options_of_the_application, row

# of a command: its exit code, and what it read, or its error
Found = tuple[int, object]


# -- what a command reads --------------------------------------------------------------------------


def printed(done: Done, out: Path) -> object:
    """What is printed, apart from paths and from the name of the form."""
    return re.sub(r"\S*/\S+|form of the rows: .*", "", done.out)


def fields_in(name: str, *fields: str) -> Callable[[Done, Path], object]:
    """Returns a function for the ``fields`` of the records in OUT/NAME."""

    def fields_of_records(done: Done, out: Path) -> object:
        return [[record.get(field) for field in fields] for record in read(out / name)]

    return fields_of_records


def questions(done: Done, out: Path) -> object:
    """The user's questions on the page of a report."""
    return sorted(
        set(re.findall(r"What about \w+ \d+", (out / "report.html").read_text()))
    )


def judged_texts(done: Done, out: Path) -> object:
    """The scores of a trial, which depend on the texts."""
    judgements = [
        record for path in out.glob("judgements/**/*.jsonl") for record in read(path)
    ]
    assert judgements
    return sorted(str(record["scores"]) for record in judgements)


@dataclass(frozen=True)
class Reader:
    """A command that reads FILE. What ``found`` returns depends on the dialogues in it.

    ``words`` is the command line: OTHERS is another file in the form of FILE, SCORES and SCORES2
    are scores. ``words_of_labels``: for ``--label``, if they are others; what
    ``labels_found`` returns depends on the ratings. A command that needs more than ``count``
    dialogues says how many it has read.
    """

    words: str
    found: Callable[[Done, Path], object] = printed
    words_of_labels: str | None = None
    labels_found: Callable[[Done, Path], object] | None = None
    count: int = 24


READERS = {
    "score": Reader(
        "score FILE --judge length --min-coverage 0 --out OUT/s.jsonl",
        fields_in("s.jsonl", "id", "scores"),
    ),
    "report": Reader(
        "report SCORES --chats FILE --out OUT",
        questions,
        "report SCORES --human FILE",
        printed,
    ),
    "compare": Reader(
        "compare a=FILE b=OTHERS --judge length",
        words_of_labels="compare a=SCORES b=SCORES2 --human a=FILE",
    ),
    "align": Reader("align length --labels FILE --out OUT", count=10),
    "trial": Reader(
        "trial length --data FILE --out OUT dialogues=2 own=0 languages=[en] checks=[same] "
        "per_check=1 min_turns=2",
        judged_texts,
    ),
    "agreement": Reader("agreement FILE"),
    "data translate": Reader("data translate FILE --to de --dry-run"),
    "data show": Reader("data show FILE"),
    "data audit": Reader("data audit FILE"),
    "data plant": Reader(
        "data plant FILE --out OUT/p.jsonl --per-issue 1 --issues repetitive",
        fields_in("p.jsonl", "id", "dialogue"),
    ),
    "data stats": Reader("data stats FILE --no-lemmas --out OUT"),
    "label": Reader(
        "label FILE --judge length --no-user-check --replace-labels --out OUT",
        fields_in("labelled.jsonl", "id", "labels"),
    ),
    "curate": Reader("curate FILE --n 3 --out OUT", fields_in("selection.jsonl", "id")),
    "annotate export": Reader(
        "annotate export FILE --form xlsx --out OUT",
        fields_in("rows.jsonl", "id", "dialogue"),
        labels_found=fields_in("rows.jsonl", "labels"),
    ),
}


# -- files that need an option ---------------------------------------------------------------------


def _texts(record: Mapping[str, Any]) -> tuple[str, str]:
    question, answer = (turn["content"] for turn in record["dialogue"])
    return question, answer


def _rest(record: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if key != "dialogue"}


def with_misleading_messages(record: Mapping[str, Any]) -> dict[str, Any]:
    prompt, response = _texts(record)
    misleading = [{"role": "note", "content": "see below"}]
    return {
        **_rest(record),
        "messages": misleading,
        "prompt": prompt,
        "response": response,
    }


def with_german_columns(record: Mapping[str, Any]) -> dict[str, Any]:
    question, answer = _texts(record)
    return {**_rest(record), "frage": question, "antwort": answer}


def with_german_roles(record: Mapping[str, Any]) -> dict[str, Any]:
    question, answer = _texts(record)
    messages = [
        {"role": "Kunde", "content": question},
        {"role": "Bot", "content": answer},
    ]
    return {**_rest(record), "messages": messages}


def with_a_column_of_ratings(record: Mapping[str, Any]) -> dict[str, Any]:
    fields = {
        key: value for key, value in record.items() if key not in ("labels", "scales")
    }
    messages = fields.pop("dialogue")
    return {**fields, "messages": messages, "stars": record["labels"]["overall"][0]}


def with_one_rating(record: Mapping[str, Any]) -> dict[str, Any]:
    (rating, _) = record["labels"]["overall"]
    return {**record, "labels": {"overall": [rating]}, "scales": {"overall": [1, 5]}}


FORMS: dict[str, tuple[Callable[[Mapping[str, Any]], dict[str, Any]], list[str]]] = {
    "--format": (with_misleading_messages, ["--format", "prompts"]),
    "--column": (
        with_german_columns,
        ["--column", "prompt=frage", "--column", "response=antwort"],
    ),
    "--columns": (with_german_columns, ["--columns", "COLUMNS"]),
    "--role": (with_german_roles, ["--role", "Kunde=user", "--role", "Bot=assistant"]),
}
COLUMNS = "prompt: frage\nresponse: antwort\n"
AS_LABELS = ("--label", "stars=overall:1..5")


# -- running them ----------------------------------------------------------------------------------


class Runs:
    """Runs commands on records; each run has a folder for its files."""

    _plain: ClassVar[dict[tuple[str, object], Found]] = {}  # of all tests

    def __init__(self, files: Files, folder: Path) -> None:
        self.files, self.folder, self.count = files, folder, 0

    def plain(
        self, words: str, found: Callable[[Done, Path], object], lines: list[Any]
    ) -> Found:
        """``run`` of sound records in the line format, once for all tests."""
        key = words, found
        if key not in self._plain:
            self._plain[key] = self.run(words, found, lines)
        return self._plain[key]

    def run(
        self,
        words: str,
        found: Callable[[Done, Path], object],
        lines: Iterable[Any],
        options: Iterable[str] = (),
    ) -> Found:
        """Returns what ``found`` returns of a run that works, else its error."""
        self.count += 1
        out = self.folder / f"run{self.count}"
        out.mkdir()
        lines = list(lines)
        # The same names in each run: some commands print them.
        places = {"OUT": out, "FILE": write(self.folder / "chats.jsonl", lines)}
        places["COLUMNS"] = self.folder / "columns.yaml"
        places["COLUMNS"].write_text(COLUMNS)
        places["OTHERS"] = write(
            self.folder / "others.jsonl", lines[::-1][: len(lines) // 2]
        )
        places |= {"SCORES": self.files.scores, "SCORES2": self.files.scores2}
        typed = [_placed(word, places) for word in (*words.split(), *options)]
        done = medal(*typed)
        return done.code, found(done, out) if done.code == 0 else done.err


def _placed(word: str, places: Mapping[str, Path]) -> str:
    name, sign, value = word.rpartition("=")
    first, slash, rest = value.partition("/")
    return f"{name}{sign}{places.get(first, first)}{slash}{rest}"


@pytest.fixture
def runs(files: Files, tmp_path: Path) -> Runs:
    return Runs(files, tmp_path)


def cases(*options: str) -> list[Any]:
    pairs = [(command, option) for command in READERS for option in options]
    application = options_of_the_application()
    return [
        pytest.param(*pair, marks=row(*pair)) for pair in pairs if pair in application
    ]


@pytest.mark.parametrize(("command", "option"), cases(*FORMS))
def test_an_option_reads_a_file_in_another_form(
    command: str, option: str, runs: Runs
) -> None:
    reader = READERS[command]
    form, options = FORMS[option]
    records = [{**record, "group": record["id"]} for record in RECORDS[: reader.count]]
    plain = runs.plain(reader.words, reader.found, records)
    lines = [form(record) for record in records]
    assert runs.run(reader.words, reader.found, lines, options) == plain
    assert runs.run(reader.words, reader.found, lines) != plain


@pytest.mark.parametrize(("command", "option"), cases("--label"))
def test_a_column_holds_ratings(command: str, option: str, runs: Runs) -> None:
    reader = READERS[command]
    words = reader.words_of_labels or reader.words
    found = reader.labels_found or reader.found
    records = RECORDS[: reader.count]
    plain = runs.run(words, found, map(with_one_rating, records))
    lines = [with_a_column_of_ratings(record) for record in records]
    assert runs.run(words, found, lines, AS_LABELS) == plain
    assert runs.run(words, found, lines) != plain


@pytest.mark.parametrize(("command", "option"), cases("--strict"))
def test_strict_stops_at_the_first_bad_row(
    command: str, option: str, runs: Runs
) -> None:
    reader = READERS[command]
    records = [{**record, "group": record["id"]} for record in RECORDS[: reader.count]]
    plain = runs.plain(reader.words, reader.found, records)
    lines = [*records[:2], {"id": "bad", "dialogue": 7}, *records[2:]]
    code, skipped = runs.run(reader.words, reader.found, lines)
    if command == "align":  # needs sound rows in any case
        assert (code, "1 rows are no labelled chats" in str(skipped)) == (2, True)
    else:
        assert (code, skipped) == plain
    code, error = runs.run(reader.words, reader.found, lines, ["--strict"])
    assert code == 2
    assert f"{runs.folder}/chats.jsonl:3: field 'dialogue'" in str(error)
