"""``read_dialogues`` and ``read_labelled`` stream chats of any known form, with their options
(ReadOptions) and a count of what was read and skipped (ReadingReport).

A chat goes from container to record, form and Dialogue.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from medal_judges.config import Config, option
from medal_judges.errors import (
    ConfigError,
    CoverageError,
    DataError,
    RecordError,
    did_you_mean,
    visible,
)
from medal_judges.reading.columns import (
    ColumnCheck,
    ColumnMap,
    has_prose,
    lookup,
    make_column_map,
)
from medal_judges.reading.containers import CONTAINERS, TABLES, NumberedRow, open_rows
from medal_judges.reading.forms import (
    READERS,
    Row,
    chats_within,
    form_of,
)
from medal_judges.reading.messages import read_messages
from medal_judges.reading.names import Counts, Fields, Names, Record
from medal_judges.reading.thoughts import MAY_THINK, THOUGHTS, without_thoughts
from medal_judges.reading.turns import (
    NumberedRecord,
    chat_of_turns,
    conversation_column,
)
from medal_judges.records.dialogue import (
    UNKNOWN_LANGUAGE,
    Dialogue,
    base_language,
    language_code,
    parse_dialogue_line,
)
from medal_judges.records.labelled import (
    KNOWN_FIELDS,
    LabelledDialogue,
    hash_split,
    parse_labelled,
)
from medal_judges.records.validation import as_text, require_valid_text
from medal_judges.storage.files import require_other_file
from medal_judges.storage.jsonl import open_text, to_line

Source = str | Path | Iterable[object]
# (number of its first row, record, form, columns)
NumberedChat = tuple[int, Record, str, ColumnMap]
_LABEL_FIELDS = ("labels", "scales", "split", "group", "annotators")
_SHOWN = 20
_MADE = "ids made from the content: there were none"
_NUMBERED = "ids numbered (ID#2): an earlier row had them"
_LISTS = ("line", "medal")  # forms whose ratings are lists of all annotators
_READ_IN_TURNS = ("id", "role", "content", "messages", "order", "time")
_PROBLEM = b'{"file": '  # a list of bad rows begins so
_SKIPPING = {  # how bad rows are skipped, by whether --strict was typed
    True: "without --strict bad rows are skipped and listed",
    False: "in Python, reading=ReadingReport() skips and lists bad rows",
}
_option = partial(option, panel="Reading")


# -- options ---------------------------------------------------------------------------------------


class ReadOptions(Config):
    """Options for reading a file of chats. The content of the file decides about options that are
    not set.

    ``columns`` is a mapping; ``column``, ``label`` and ``role`` add to it.
    With ``strict`` the first bad row is an error, even if a ReadingReport could count it. Raises
    ConfigError for an unknown format and for a wrong column map.
    """

    format: str | None = _option(
        None, help="File format, if it cannot be detected: csv, messages, csv+turns."
    )
    column: Names = _option(
        (),
        metavar="FIELD=COLUMN",
        help="Column that holds a field: id=ticket, role=speaker, ...; may be repeated.",
    )
    columns: dict[str, Any] = Field(default_factory=dict)  # set in Python and YAML
    label: Names = _option(
        (),
        metavar="COLUMN=DIMENSION[:LOW..HIGH][@ANNOTATOR]",
        help="Column of human ratings, with its scale and its annotator; may be repeated.",
    )
    role: Names = _option(
        (),
        metavar="WORD=ROLE",
        help="Role of a speaker's name: Kunde=user; may be repeated.",
    )
    strict: bool = _option(
        False,
        help="Stop at the first bad row instead of skipping, counting and listing it.",
    )

    @model_validator(mode="after")
    def _check(self) -> ReadOptions:
        # Pydantic calls this again for every config that contains these options.
        _ = self.container_and_form, self.column_map
        return self

    @cached_property
    def container_and_form(self) -> tuple[str | None, str | None]:
        """Returns the container and the form of rows that ``format`` names, None for the one that
        the content decides.
        """
        words: list[str] = []
        if self.format:
            words = self.format.lower().split("+")
        containers = [word for word in words if word in CONTAINERS]
        forms = [word for word in words if word in READERS]
        for word in words:
            if word not in (*containers, *forms):
                guess = did_you_mean(word, [*CONTAINERS, *READERS])
                hint = f"{guess}files: {', '.join(CONTAINERS)}; rows: {', '.join(READERS)}; or "
                hint += "both: csv+turns"
                raise ConfigError(f"no format {word!r}", hint=hint)
        if max(len(containers), len(forms)) > 1:
            problem = f"{self.format!r}: at most one kind of file and one of rows"
            raise ConfigError(f"format {problem}")
        return next(iter(containers), None), next(iter(forms), None)

    @cached_property
    def column_map(self) -> ColumnMap:
        """The columns, roles and labels that the options name."""
        return make_column_map(self.columns, self.column, self.label, self.role)

    def to_record(self) -> Fields:
        """The options that a file of scores states, so that its chats are read alike again."""
        columns: Fields = dict(self.column_map.fields)
        if self.column_map.roles:
            columns["roles"] = dict(self.column_map.roles)
        record = {"format": self.format, "columns": columns}
        return {name: value for name, value in record.items() if value}


class ReadOptionsWithoutLabels(ReadOptions):
    """ReadOptions without --label, for commands that read no ratings."""

    label: Names = ()


DEFAULT_READING = ReadOptions()


class ChatFileConfig(Config):
    """A file of chats, as a YAML config states it.

    ``source`` is a spec such as ``dstc9:train``, or a file. ``format`` and ``columns`` are as in
    ReadOptions. ``langs`` reads only rows in these languages
    (``zh`` includes ``zh-Hant``).
    """

    source: str
    format: str | None = None
    columns: dict[str, Any] = Field(default_factory=dict)
    langs: Names = ()

    @cached_property
    def read_options(self) -> ReadOptions:
        """How to read the file. Any bad row is an error."""
        return ReadOptions(format=self.format, columns=self.columns)

    @model_validator(mode="after")
    def _check(self) -> ChatFileConfig:
        _ = self.read_options
        return self

    def in_langs(self, rows: Sequence[LabelledDialogue]) -> list[LabelledDialogue]:
        """The rows in ``langs``, if given. Raises ConfigError for a language that no row has."""
        languages: set[str] = set()
        chosen: list[LabelledDialogue] = []
        for row in rows:
            codes = {row.dialogue.lang, base_language(row.dialogue.lang)}
            languages |= codes
            if not self.langs or codes.intersection(self.langs):
                chosen.append(row)
        missing = ", ".join(sorted({*self.langs} - languages))
        if missing:
            hint = f"its languages: {', '.join(sorted(languages)) or 'none'}"
            raise ConfigError(f"{self.source}: no row is in {missing}", hint=hint)
        return chosen


# -- report ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadingReport:
    """Counts what is read.

    ``read`` is the number of dialogues, ``forms`` that of each form, ``count`` that of bad rows.
    ``folded`` counts parts of messages that are not text of the user or the assistant. ``ids``
    counts those that are made from the content or numbered.

    ``messages`` holds the first problems. ``problem_file`` gets all of them as JSON lines with
    file, line (of a table: the row) and problem. With ``strict`` the first bad row is an error. The
    columns ``copied`` go to the scores, so that they count as read.
    """

    problem_file: Path | None = None
    strict: bool = False
    copied: Sequence[str] = ()
    read: int = 0
    count: int = 0
    forms: Counts = field(default_factory=Counter)
    folded: Counts = field(default_factory=Counter)
    ids: Counts = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)  # what a user should check

    def add(self, error: DataError) -> None:
        """Counts and lists a skipped row."""
        self.count += 1
        if len(self.messages) < _SHOWN:
            self.messages.append(error.message)
        if self.problem_file is not None:
            entry = {"file": error.path, "line": error.line, "problem": error.problem}
            self.problem_file.parent.mkdir(parents=True, exist_ok=True)
            with open_text(self.problem_file, "a") as stream:
                stream.write(to_line(entry))

    def show(self, *, always: bool = False) -> None:
        """Prints the counts on standard error. Without ``always``, only if a row was changed or
        skipped."""
        lines = [f"{self.read:,} dialogues read ({_listing(self.forms)})"]
        if self.count:
            lines[0] += f"; {self.count:,} bad rows left out"
        if self.folded:
            lines.append(f"folded: {_listing(self.folded)}")
        if self.ids:
            lines.append(_listing(self.ids))
        lines += self.notes
        if self.problem_file is None:
            lines += self.messages
        elif self.count:
            lines.append(f"they are listed in {self.problem_file}")
        if always or len(lines) > 1:
            print(visible("\n  ".join(lines)), file=sys.stderr)

    def require_rest(self) -> None:
        """Raises CoverageError (exit status 3) if no dialogue was read."""
        if self.read:
            return
        if self.count:
            problem = f"all {self.count} rows are bad and were left out"
            raise CoverageError(problem, hint=f"the first: {self.messages[0]}")
        hint = "check the file, and --format (in YAML: format) if it is given"
        raise CoverageError("no dialogue was read", hint=hint)


def _listing(counts: Counts) -> str:
    return ", ".join(f"{count:,} {name}" for name, count in counts.most_common())


def reading_report(
    options: ReadOptions,
    folder: Path | None = None,
    *,
    beside: str | Path | None = None,
) -> ReadingReport:
    """Returns the report of a command, which lists bad rows in ``folder``/skipped.jsonl or beside
    an output file (``scored.skipped.jsonl`` for ``scored.jsonl.gz``), else on standard error.

    The list of an earlier run is removed. Raises ConfigError for another file of that name.
    """
    problem_file = None
    if folder is not None:
        problem_file = folder / "skipped.jsonl"
    if beside is not None:
        stem = re.sub(r"(\.jsonl|\.parquet|\.csv)?(\.gz)?\Z", "", Path(beside).name)
        problem_file = Path(beside).parent / f"{stem}.skipped.jsonl"
    if problem_file is None or options.strict:
        return ReadingReport(strict=options.strict)
    require_other_file(problem_file, option="the list of bad rows")
    if problem_file.exists():
        with problem_file.open("rb") as stream:
            begin = stream.read(len(_PROBLEM))
        if not _PROBLEM.startswith(begin):
            raise ConfigError(
                f"{problem_file} is no list of bad rows, whose name it has",
                hint="move it, or write to another folder",
            )
        problem_file.unlink()
    return ReadingReport(problem_file)


# -- reading ---------------------------------------------------------------------------------------


def read_dialogues(
    source: Source,
    *,
    format: str | None = None,
    columns: dict[str, Any] | None = None,
    reading: ReadingReport | None = None,
) -> Iterator[Dialogue]:
    """Streams the dialogues of a file, of standard input (``-``), of a data set on the Hub
    (``hf:ID[:config]:split``) or of a list of records; docs/howto/formats.md lists the forms.

    The form is recognised by the content; ``format`` (``csv``, ``messages``, ``csv+turns``)
    overrides it. ``columns`` maps fields to columns with unusual names, such as ``{"id": "ticket",
    "role": "who"}``. Missing ids are made from the content, repeated ids are numbered (``id#2``).
    Labels are ignored.

    A bad row raises DataError with file, line and field; with ``reading`` it is counted there and
    skipped. Raises ConfigError for a missing column.

    >>> from medal_judges import read_dialogues
    >>> [dialogue.id for dialogue in read_dialogues("dialogues.jsonl")]
    ['d0', 'd1', 'd2']
    >>> chat = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
    >>> next(read_dialogues([{"id": "d3", "messages": chat}])).turns[1].content
    'Hello!'
    """
    return dialogues_of(
        source, ReadOptions(format=format, columns=columns or {}), reading
    )


def parse_dialogue(record: object, *, folded: Counts | None = None) -> Dialogue:
    """Returns the dialogue of one record, in any form that a row of a file may have: ``messages``
    as in OpenAI's or Anthropic's API, a list of such messages, the line format, a prompt with its
    response, ...

    The id is made from the content if there is none. ``folded`` counts the parts that are not text
    of the user or the assistant, such as thoughts. Raises RecordError that names the field, also
    for an unknown language and for a record of several dialogues.

    >>> from medal_judges import parse_dialogue
    >>> parse_dialogue({"id": "a", "prompt": "Hi!", "response": "Hello!"}).turns[1].content
    'Hello!'
    """
    if isinstance(record, Mapping):
        if "messages" in record and "dialogue" in record:
            raise RecordError(
                "dialogue", "messages or dialogue, not both", record["dialogue"]
            )
        language_code(record.get("lang"))
    report = ReadingReport(strict=True)
    try:
        dialogues = list(dialogues_of([record], reading=report))
    except RecordError as error:
        if error.field != "(row)" or not isinstance(record, Mapping):
            raise
        # The error is for a file, whose columns an option can name.
        name = "messages"
        if "dialogue" in record:
            name = "dialogue"
        expected = "a list of {role, content}, under messages or dialogue"
        raise RecordError(name, expected, record.get(name)) from error
    if len(dialogues) != 1:
        raise RecordError("(record)", "one dialogue", f"{len(dialogues)} dialogues")
    if folded is not None:
        folded.update(report.folded)
    return dialogues[0]


def read_labelled(
    source: Source, *, reading: ReadingReport | None = None, **options: Any
) -> Iterator[LabelledDialogue]:
    """Streams labelled dialogues; ``options`` are those of ``read_dialogues``. Labels are those of
    the row's ``labels`` and of the label columns of the column map; a row can have none."""
    return labelled_of(source, ReadOptions(**options), reading)


def dialogues_of(
    source: Source,
    options: ReadOptions = DEFAULT_READING,
    reading: ReadingReport | None = None,
) -> Iterator[Dialogue]:
    """Like ``read_dialogues``, with the options as one object. Label columns may be missing."""
    columns = replace(options.column_map, labels={})
    report = reading or ReadingReport(strict=True)
    return _Reader(source, options, columns, report, labelled=False).read()


def labelled_of(
    source: Source,
    options: ReadOptions = DEFAULT_READING,
    reading: ReadingReport | None = None,
) -> Iterator[LabelledDialogue]:
    """Like ``read_labelled``, with the options as one object."""
    report = reading or ReadingReport(strict=True)
    return _Reader(source, options, options.column_map, report, labelled=True).read()


@dataclass
class _Reader:
    """Reads one source, once. A row goes through these steps: container, form, fields of the line
    format, dialogue."""

    source: Source
    options: ReadOptions
    columns: ColumnMap
    report: ReadingReport
    labelled: bool
    container: str = "jsonl"
    form: str | None = None  # of the latest row
    unread: dict[str, None] = field(default_factory=dict)  # fields with text
    # Hashes of ids, 16 bytes a row: a million ids are much text.
    ids: set[int] = field(default_factory=set)
    # id -> how often a later row has it
    repeats: Counts = field(default_factory=Counter)
    # Rows with labels wait until the end: later rows can have labels of other annotators.
    waiting: dict[tuple[object, ...], LabelledDialogue] = field(default_factory=dict)
    # Rows that are turns wait too: (id of the chat, annotator) -> its rows.
    turns: dict[tuple[str, str], list[NumberedRecord]] = field(default_factory=dict)
    torn: set[str] = field(default_factory=set)  # ids of chats with a bad row
    check: ColumnCheck | None = None

    @property
    def path(self) -> str:
        if isinstance(self.source, str | Path):
            return str(self.source)
        return "(list)"

    def read(self) -> Iterator[Any]:
        """Yields the dialogues, or labelled dialogues, of the source."""
        for number, record, form, columns in chain(self._chats(), self._turns()):
            try:
                row = self._labelled_row(record, form, columns)
            except RecordError as error:
                self._skip(number, error)
            except RecursionError:
                self._skip(number, RecordError("(row)", "less deep nesting", "..."))
            else:
                if row is not None:
                    yield row if self.labelled else row.dialogue
        yield from self.waiting.values()
        unread = [name for name in self.unread if name not in self.report.copied]
        if unread:
            if len(unread) > _SHOWN:
                unread[_SHOWN:] = ["..."]
            names = ", ".join(unread)
            self.report.notes[f"not read: {names} in {self.path}"] = None

    def _chats(self) -> Iterator[NumberedChat]:
        """Yields each row that is a chat. Rows that are turns wait."""
        rows: Iterator[NumberedRow]
        container, stated_form = self.options.container_and_form
        if isinstance(self.source, str | Path):
            self.container, rows = open_rows(self.path, container, self.columns.roles)
        else:
            rows = enumerate(self.source, 1)
        if self.columns.fields or self.columns.labels:
            is_table = self.container in TABLES
            self.check = ColumnCheck(self.columns, self.path, is_table)
        if self.container == "text":
            stated_form = stated_form or "transcript"
        for number, value in rows:
            record = _as_record(value)
            form = stated_form
            if form is None and isinstance(record, Mapping):
                form = form_of(record, self.columns)
            chats = None
            if form is None:
                chats = chats_within(value, self.columns)
            if chats is None:
                yield from self._chat(number, record, form)
                continue
            for index, chat in enumerate(chats, 1):
                record = _as_record(chat)
                # The elements of a JSON file are counted.
                row_number = index if number == 1 else number
                if isinstance(record, Mapping):
                    form = form_of(record, self.columns)
                yield from self._chat(row_number, record, form)
        if self.check is not None:
            self.check.finish()

    def _chat(
        self, number: int, record: object, form: str | None
    ) -> Iterator[NumberedChat]:
        """Yields the chat of a record. Skips a bad row, and keeps a turn until the end."""
        if isinstance(record, RecordError):
            if isinstance(record.row, Mapping):
                self.torn.add(self._conversation(record.row))
            self._skip(number, record)
            return
        if not isinstance(record, Mapping):
            self._skip(number, RecordError("(line)", "a JSON object", record))
            return
        if self.check is not None:
            self.check.add(record)
        form = form or self.form  # of the row before
        if form is None:
            self._skip(number, _unknown_form(record))
            return
        self.form = form
        if form != "turns":
            yield number, record, form, self.columns
            return
        chat_id = self._conversation(record)
        if not chat_id.strip():
            expected = "the id of the turn's conversation"
            self._skip(number, RecordError("id", expected, dict(record)))
            return
        annotator = ""
        if "annotator" in self.columns.fields:
            annotator = str(self.columns.value(record, "annotator"))
        self.turns.setdefault((chat_id, annotator), []).append((number, record))

    def _conversation(self, record: Record) -> str:
        column = conversation_column(record, self.columns)
        value = as_text(lookup(record, column))
        if isinstance(value, str):
            return value
        return ""

    def _turns(self) -> Iterator[NumberedChat]:
        """Yields the chats whose rows are turns."""
        fields = dict(self.columns.fields)
        for name in _READ_IN_TURNS:
            fields.pop(name, None)
        for (chat_id, _), rows in self.turns.items():
            number = rows[0][0]
            try:
                if chat_id in self.torn:
                    raise RecordError("(rows)", "a chat without a bad row", chat_id)
                chat, different = chat_of_turns(
                    chat_id, rows, self.columns, self.report.folded
                )
            except RecordError as error:
                self._skip(number, error)
                continue
            self._note_unread(different)
            yield number, chat, "turns", replace(self.columns, fields=fields)

    def _skip(self, number: int, error: RecordError) -> None:
        """Counts a bad row in the report, or raises its error."""
        if self.report.strict and not isinstance(self.source, str | Path):
            raise error
        form = ""
        if self.form:
            form = f", {READERS[self.form].title}"
        hint = (
            f"read as {CONTAINERS[self.container]}{form}; change that with --format, --column and "
            f"--role (in YAML: format, columns, columns.roles); {_SKIPPING[self.options.strict]}"
        )
        problem = DataError(self.path, number, error.message, hint=hint)
        if self.report.strict or self.options.strict:
            raise problem from error
        self.report.add(problem)

    def _labelled_row(
        self, record: Record, form: str, columns: ColumnMap
    ) -> LabelledDialogue | None:
        """Returns the dialogue of a chat; None for a row that waits, or whose labels are added to
        one that waits."""
        row = Row(record, columns, self.report.folded)
        line = READERS[form].read(row)
        if "messages" in line and "dialogue" not in line:
            labelled = self._row_of_messages(line)
        else:
            labelled = self._row_of_line(line, form)
        key: tuple[object, ...] = ()
        if columns.labels or (labelled.labels and form not in _LISTS):
            key = labelled.id, labelled.level, hash(labelled.dialogue.turns)
        if key in self.waiting:
            self.waiting[key] = _with_annotator(self.waiting[key], labelled)
            return None
        unread = record.keys() - row.used - KNOWN_FIELDS - self.unread.keys()
        if unread:
            unread -= {path.partition(".")[0] for path in row.used}
            self._note_unread({name: [record[name]] for name in unread})
        self.report.read += 1
        self.report.forms[READERS[form].title] += 1
        if hash(labelled.id) in self.ids:
            labelled = self._numbered(labelled)
        self.ids.add(hash(labelled.id))
        if not key:
            return labelled
        self.waiting[key] = labelled
        return None

    def _note_unread(self, values_of: Mapping[str, Sequence[object]]) -> None:
        """Notes the fields that hold text and that no reader used."""
        for name, values in values_of.items():
            if len(self.unread) <= _SHOWN and any(has_prose(name, v) for v in values):
                self.unread[name] = None

    def _numbered(self, row: LabelledDialogue) -> LabelledDialogue:
        """Returns the row with a number after its id, which an earlier row has: ``a#2``."""
        id = row.id
        while hash(id) in self.ids:
            self.repeats[row.id] += 1
            id = f"{row.id}#{self.repeats[row.id] + 1}"
        self.report.ids[_NUMBERED] += 1
        return replace(row, dialogue=replace(row.dialogue, id=id))

    # From the fields of the line format to a dialogue. An id that is missing is made from the
    # content.

    def _row_of_line(self, line: Fields, form: str) -> LabelledDialogue:
        name = "dialogue" if "dialogue" in line else "turns"
        if isinstance(line.get(name), list):
            turns = []
            for turn in line[name]:
                if isinstance(turn, Mapping) and turn.get("role") == "assistant":
                    turn = self._spoken(turn)
                turns.append(turn)
            line[name] = turns
        has_id = line.get("id") is not None and str(line["id"]).strip()
        if not has_id:
            self.report.ids[_MADE] += 1
            line["id"] = parse_dialogue_line(line | {"id": "none"}).text_hash
        if self.labelled:
            labelled = parse_labelled(line)
            if labelled.split or (has_id and form != "medal"):
                return labelled
            # As in medal:SPLIT.
            return replace(labelled, split=hash_split(labelled.group, seed=0))
        dialogue = parse_dialogue_line(line)
        meta = {}
        for name in line.keys() - KNOWN_FIELDS:
            if line[name] is not None:
                meta[name] = line[name]
        if meta:
            dialogue = replace(dialogue, meta={**meta, **dialogue.meta})
        return LabelledDialogue(dialogue, {}, {})

    def _spoken(self, turn: Record) -> Record:
        """Returns a turn of the assistant without its thoughts."""
        content = turn.get("content")
        if not isinstance(content, str) or not MAY_THINK.search(content):
            return turn
        answer, count = without_thoughts(content)
        if count:
            self.report.folded[THOUGHTS] += count
        return {**turn, "content": answer}

    def _row_of_messages(self, line: Fields) -> LabelledDialogue:
        require_valid_text(line.get("meta"), "meta")
        names = ("source", "models", "context", "meta")
        id = line.get("id")
        if not str(id or "").strip():
            id = None
            self.report.ids[_MADE] += 1
        dialogue = read_messages(
            line["messages"],
            id=id,
            lang=self._language(line.get("lang")),
            folded=self.report.folded,
            **{name: line.get(name) for name in names},
        )
        if not self.labelled:
            return LabelledDialogue(dialogue, {}, {})
        labels = {name: line[name] for name in _LABEL_FIELDS if name in line}
        return parse_labelled(dialogue.to_record() | labels)

    def _language(self, word: str | None) -> str:
        """Returns the code of a language, or ``und`` if the word names no language."""
        try:
            return language_code(word)
        except RecordError:
            self.report.folded[f"unknown languages ({str(word).strip()[:30]})"] += 1
            return UNKNOWN_LANGUAGE


def _as_record(value: object) -> object:
    """Returns a record of a list of messages, and any other value unchanged."""
    if isinstance(value, list) and isinstance(next(iter(value), None), Mapping):
        return {"messages": value}
    return value


def _unknown_form(record: object) -> RecordError:
    if not isinstance(record, Mapping):
        return RecordError("(line)", "a JSON object", record)
    names = ", ".join(map(str, list(record)[:20]))
    hint = (
        f"--column assigns its fields ({names}): --column id=NAME --column role=NAME --column "
        "content=NAME for one turn a row (in YAML: columns: {id: NAME, ...})"
    )
    return RecordError("(row)", f"a chat in a known form; {hint}", dict(record))


def _with_annotator(
    row: LabelledDialogue, further: LabelledDialogue
) -> LabelledDialogue:
    """Returns ``row`` with the labels of ``further`` added, as labels of other annotators of the
    same dialogue.

    If one of the rows lacks a dimension, its annotators have null there.
    """
    count = _annotator_count(row)
    further_count = _annotator_count(further)
    labels: dict[str, tuple[float | None, ...]] = {}
    scales = {**row.scales, **further.scales}
    for name in {**row.labels, **further.labels}:
        scale = row.scales.get(name, scales[name])
        if scale != scales[name]:
            raise RecordError(name, f"one scale of {name} ({scale})", scales[name])
        labels[name] = _padded(row, name, count) + _padded(further, name, further_count)
    extra = {**row.extra}
    annotators = [*row.extra.get("annotators", ())]
    further_annotators = [*further.extra.get("annotators", ())]
    extra.pop("annotators", None)
    has_names = (len(annotators), len(further_annotators)) == (count, further_count)
    if has_names and (annotators or further_annotators):
        extra["annotators"] = annotators + further_annotators
    return replace(row, labels=labels, scales=scales, extra=extra)


def _annotator_count(row: LabelledDialogue) -> int:
    return max(map(len, row.labels.values()), default=0)


def _padded(
    row: LabelledDialogue, dimension: str, count: int
) -> tuple[float | None, ...]:
    """Returns ``count`` labels of the dimension: null for each annotator without one."""
    labels = row.labels.get(dimension, ())
    return labels + (None,) * (count - len(labels))
