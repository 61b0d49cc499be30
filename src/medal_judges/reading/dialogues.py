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
    printable,
)
from medal_judges.reading.columns import (
    ColumnMap,
    has_prose,
    lookup,
    make_column_map,
    parse_if_json,
)
from medal_judges.reading.containers import CONTAINERS, TABLES, NumberedRow, open_rows
from medal_judges.reading.forms import READERS, Row, detect_form
from medal_judges.reading.messages import read_messages
from medal_judges.reading.names import Counts, Fields, Names, Record
from medal_judges.reading.thoughts import THOUGHTS, remove_thoughts
from medal_judges.reading.transcripts import split_into_chats
from medal_judges.reading.turns import (
    NumberedRecord,
    conversation_column,
    merge_turns,
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
    parse_labelled,
)
from medal_judges.records.validation import number_as_text, require_valid_text
from medal_judges.storage.files import require_safe_out
from medal_judges.storage.jsonl import json_line, open_text

Source = str | Path | Iterable[object]
NumberedChat = tuple[int, Record, str]  # (number of its first row, record, form)
_LABEL_FIELDS = ("labels", "scales", "split", "group", "annotators")
_SHOWN = 20
_MADE = "ids made from the content, because the rows have none"
_NUMBERED = "ids numbered (ID#2), because an earlier row has them"
_READ_IN_TURNS = ("id", "role", "content", "messages", "order")
_option = partial(option, panel="Reading")


# -- options ---------------------------------------------------------------------------------------


class ReadOptions(Config):
    """Options for reading a file of chats. The kind of file, the columns and the roles are detected
    if they are not set.

    Attributes:
        format: Kind of file, such as ``csv``.
        column: Columns of fields, as strings such as ``id=ticket``. They override ``columns``.
        columns: Field -> column: ``{"id": "ticket"}``. May also hold ``roles`` and ``labels``:
            ``{"roles": {"Kunde": "user"}, "labels": {"Quality": "overall:1..5"}}``.
        label: Columns of human ratings with dimension and scale: ``Quality=overall:1..5``.
        role: Roles of unusual speaker names: ``Kunde=user``.
        strict: Whether the first bad row is an error. Otherwise bad rows are counted and skipped.

    Raises:
        ConfigError: The format is unknown, or a column, label or role is malformed.
    """

    format: str | None = _option(
        None,
        metavar="NAME",
        help="Kind of file, if it is not recognised: csv, jsonl, text, ...",
    )
    column: Names = _option(
        (),
        metavar="FIELD=COLUMN",
        help="Column of a field: id=ticket, role=speaker. May be repeated.",
    )
    columns: dict[str, Any] = Field(default_factory=dict)  # set in Python and YAML
    label: Names = _option(
        (),
        metavar="COLUMN=DIMENSION[:LOW..HIGH]",
        help="Column of people's ratings, with its scale. May be repeated.",
    )
    role: Names = _option(
        (),
        metavar="WORD=ROLE",
        help="Role of a speaker's name: Kunde=user. May be repeated.",
    )
    strict: bool = _option(
        False,
        help="Stop at the first bad row. Without it, bad rows are counted and left out.",
    )

    @model_validator(mode="after")
    def _check(self) -> ReadOptions:
        # Pydantic calls this again for every config that contains these options.
        if self.format not in (None, *CONTAINERS):
            guess = did_you_mean(str(self.format), CONTAINERS)
            hint = f"{guess}Use one of: {', '.join(CONTAINERS)}"
            raise ConfigError(f"no format {self.format!r}", hint=hint)
        _ = self.column_map
        return self

    @cached_property
    def column_map(self) -> ColumnMap:
        """The columns, roles and labels that ``columns``, ``column``, ``label`` and ``role``
        state together."""
        return make_column_map(self.columns, self.column, self.label, self.role)

    def format_and_columns(self) -> Fields:
        """Returns the format, columns and roles as a JSON object, such as ``{"format": "csv",
        "columns": {"id": "ticket"}}``. It is saved with the scores."""
        columns: Fields = dict(self.column_map.fields)
        if self.column_map.roles:
            columns["roles"] = dict(self.column_map.roles)
        record = {"format": self.format, "columns": columns}
        return {name: value for name, value in record.items() if value}


class ReadOptionsWithoutLabels(ReadOptions):
    """Options for reading a file of chats, for commands that read no human ratings.

    Attributes:
        label: Always empty.
    """

    label: Names = ()


DEFAULT_READING = ReadOptions()


class ChatFileConfig(Config):
    """A file of chats and how to read it, as an entry of a YAML config.

    Attributes:
        source: A file, or a data set with its split, such as ``dstc9:train``.
        format: Kind of file, such as ``csv``. By default it is detected.
        columns: Field -> column: ``{id: ticket}``.
        langs: Languages of the rows to keep: ``[en, zh]``. ``zh`` includes ``zh-Hant``. Empty: all.
    """

    source: str
    format: str | None = None
    columns: dict[str, Any] = Field(default_factory=dict)
    langs: Names = ()

    @cached_property
    def read_options(self) -> ReadOptions:
        """The options with which the file is read."""
        return ReadOptions(format=self.format, columns=self.columns)

    @model_validator(mode="after")
    def _check(self) -> ChatFileConfig:
        _ = self.read_options
        return self

    def select_langs(self, rows: Sequence[LabelledDialogue]) -> list[LabelledDialogue]:
        """Returns the ``rows`` whose language is in ``langs``, where ``zh`` includes ``zh-Hant``.
        If ``langs`` is empty, returns all ``rows``.

        Raises:
            ConfigError: A language in ``langs`` has no row.
        """
        if not self.langs:
            return list(rows)
        chosen: list[LabelledDialogue] = []
        languages: set[str] = set()
        for row in rows:
            codes = {row.dialogue.lang, base_language(row.dialogue.lang)}
            languages |= codes
            if codes.intersection(self.langs):
                chosen.append(row)
        missing = ", ".join(sorted({*self.langs} - languages))
        if missing:
            hint = f"Use one of: {', '.join(sorted(languages))}"
            raise ConfigError(f"{self.source}: no row is in {missing}", hint=hint)
        return chosen


# -- report ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadingReport:
    """Counts of the dialogues and bad rows in a file of chats, and of what was changed in them.

    The first three attributes are given by the caller. Reading fills the others.

    Attributes:
        problem_file: JSONL file to which each bad row is appended, None to write none.
        strict: Whether the first bad row is an error. Otherwise bad rows are counted and skipped.
        copied: Columns that the caller copies to its output, such as ``["comment"]``. ``notes``
            does not list them as unread.
        read: Number of dialogues that were read.
        count: Number of bad rows that were skipped.
        changes: What was left out or changed -> how often: ``{"thoughts left out": 3}``.
        messages: Error messages of the first bad rows, at most 20.
        notes: Remarks on the whole file, as the keys of a dict:
            ``{"not read: comment in chats.csv": None}``.
    """

    problem_file: Path | None = None
    strict: bool = False
    copied: Sequence[str] = ()
    read: int = 0
    count: int = 0
    changes: Counts = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)  # what a user should check

    def add_bad_row(self, error: DataError) -> None:
        """Counts a bad row, and keeps the message of its ``error``. If ``problem_file`` is set,
        appends file, line and problem to it."""
        self.count += 1
        if len(self.messages) < _SHOWN:
            self.messages.append(error.message)
        if self.problem_file is not None:
            entry = {"file": error.path, "line": error.line, "problem": error.problem}
            self.problem_file.parent.mkdir(parents=True, exist_ok=True)
            with open_text(self.problem_file, "a") as stream:
                stream.write(json_line(entry))

    def show(self, *, always: bool = False) -> None:
        """Prints the counts and notes to standard error. Without a ``problem_file``, also prints
        the first error messages.

        Args:
            always: Whether to print the number of dialogues even if nothing was changed or skipped.
        """
        lines = [f"{self.read:,} dialogues read"]
        if self.count:
            lines[0] += f", {self.count:,} bad rows left out"
        for name, count in self.changes.most_common():
            lines.append(f"{count:,} {name}")
        lines += self.notes
        if self.problem_file is None:
            lines += self.messages
        elif self.count:
            lines.append(f"bad rows are listed in {self.problem_file}")
        if always or len(lines) > 1:
            print(printable("\n  ".join(lines)), file=sys.stderr)

    def require_dialogues(self) -> None:
        """Raises CoverageError (exit status 3) if no dialogue was read."""
        if self.read:
            return
        if self.count:
            problem = f"all {self.count} rows are bad and were left out"
            raise CoverageError(
                problem, hint=f"Correct the rows. The first: {self.messages[0]}"
            )
        hint = "Check that the file has chats and, if you typed it, --format (in YAML: format)"
        raise CoverageError("no dialogue was read", hint=hint)


def start_report(
    options: ReadOptions,
    folder: Path | None = None,
    *,
    beside: str | Path | None = None,
) -> ReadingReport:
    """Returns an empty ReadingReport whose bad rows go to a file such as skipped.jsonl.

    An earlier file of that name is deleted. No file is written if ``options.strict`` is True, or if
    both ``folder`` and ``beside`` are None.

    Args:
        options: How the command reads its file.
        folder: Folder in which bad rows go to skipped.jsonl.
        beside: Output file of the command. For scored.jsonl.gz, bad rows go to scored.skipped.jsonl
            in the same folder.

    Raises:
        ConfigError: The file of bad rows would replace a file that the command reads.
    """
    problem_file = None
    if folder is not None:
        problem_file = folder / "skipped.jsonl"
    if beside is not None:
        stem = re.sub(r"(\.jsonl|\.parquet|\.csv)?(\.gz)?\Z", "", Path(beside).name)
        problem_file = Path(beside).parent / f"{stem}.skipped.jsonl"
    if problem_file is None or options.strict:
        return ReadingReport(strict=options.strict)
    require_safe_out(problem_file)
    problem_file.unlink(missing_ok=True)
    return ReadingReport(problem_file)


# -- reading ---------------------------------------------------------------------------------------


def read_dialogues(
    source: Source,
    *,
    format: str | None = None,
    columns: dict[str, Any] | None = None,
    reading: ReadingReport | None = None,
) -> Iterator[Dialogue]:
    """Streams the dialogues of a file: JSON lines, JSON, CSV, Parquet, XLSX or plain text.

    Labels are ignored. A missing id becomes a hash of the content, and a repeated id gets a number
    (``id#2``).

    Args:
        source: A file, ``-`` (standard input), ``hf:ID[:config]:split`` (on the Hub), or an
            iterable of records.
        format: Kind of file, such as ``csv``. By default it is detected from the content.
        columns: Field -> column, for names that are not recognised: ``{"id": "Fall"}``.
        reading: A report that counts bad rows, which are then skipped. None: they raise errors.

    Raises:
        DataError: The file is missing, damaged or of an unknown kind. Without ``reading``, also if
            a row is bad. The error then names the line.
        RecordError: A record of a list is bad, and there is no ``reading``.
        ConfigError: The file lacks a column that ``columns`` names, or ``format`` is unknown.

    >>> from medal_judges import read_dialogues
    >>> [dialogue.id for dialogue in read_dialogues("dialogues.jsonl")]
    ['d0', 'd1', 'd2']
    >>> chat = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
    >>> next(read_dialogues([{"id": "d3", "messages": chat}])).turns[1].content
    'Hello!'
    """
    return stream_dialogues(
        source, ReadOptions(format=format, columns=columns or {}), reading
    )


def parse_dialogue(record: object, *, changes: Counts | None = None) -> Dialogue:
    """Returns the dialogue in ``record``. A missing id becomes a hash of the content.

    Args:
        record: A list of messages, or a dict such as ``{"messages": [...]}`` or
            ``{"prompt": "Hi!", "response": "Hello!"}``.
        changes: Counter of what was left out, such as ``{"tool calls": 2}``. It is increased.

    Raises:
        RecordError: The record cannot be read. The error names the field.

    >>> from medal_judges import parse_dialogue
    >>> parse_dialogue({"id": "a", "prompt": "Hi!", "response": "Hello!"}).turns[1].content
    'Hello!'
    """
    report = ReadingReport(strict=True)
    (dialogue,) = stream_dialogues([record], reading=report)
    if changes is not None:
        changes.update(report.changes)
    return dialogue


def read_labelled(
    source: Source, *, reading: ReadingReport | None = None, **options: Any
) -> Iterator[LabelledDialogue]:
    """Streams the dialogues of ``source``, each with its human labels if it has any.

    Args:
        source: A file, ``-`` (standard input), ``hf:ID[:config]:split`` (on the Hub), or an
            iterable of records.
        reading: A report that counts bad rows, which are then skipped. None: they raise errors.
        options: Fields of ReadOptions, such as ``columns={"labels": {"Note": "overall:1..5"}}``.

    Raises:
        DataError: The file is missing, damaged or of an unknown kind, or a row is bad and there is
            no ``reading``.
        RecordError: A record of a list is bad, and there is no ``reading``.
        ConfigError: An option is malformed, or names a column that the file lacks.
    """
    return stream_labelled(source, ReadOptions(**options), reading)


def stream_dialogues(
    source: Source,
    options: ReadOptions = DEFAULT_READING,
    reading: ReadingReport | None = None,
) -> Iterator[Dialogue]:
    """Streams the dialogues of ``source``, without labels.

    Args:
        source: A file, ``-`` (standard input), ``hf:ID[:config]:split`` (on the Hub), or an
            iterable of records.
        options: How to read the file. Its label columns are ignored.
        reading: A report that counts bad rows, which are then skipped. None: they raise errors.

    Raises:
        DataError: The file is missing, damaged or of an unknown kind, or a row is bad and there is
            no ``reading``.
        RecordError: A record of a list is bad, and there is no ``reading``.
        ConfigError: The file lacks a column that ``options`` names.
    """
    columns = replace(options.column_map, labels={})
    report = reading or ReadingReport(strict=True)
    return _Reader(source, options, columns, report, labelled=False).read()


def stream_labelled(
    source: Source,
    options: ReadOptions = DEFAULT_READING,
    reading: ReadingReport | None = None,
) -> Iterator[LabelledDialogue]:
    """Streams the dialogues of ``source``, each with its human labels if it has any.

    Args:
        source: A file, ``-`` (standard input), ``hf:ID[:config]:split`` (on the Hub), or an
            iterable of records.
        options: How to read the file.
        reading: A report that counts bad rows, which are then skipped. None: they raise errors.

    Raises:
        DataError: The file is missing, damaged or of an unknown kind, or a row is bad and there is
            no ``reading``.
        RecordError: A record of a list is bad, and there is no ``reading``.
        ConfigError: The file lacks a column that ``options`` names.
    """
    report = reading or ReadingReport(strict=True)
    return _Reader(source, options, options.column_map, report, labelled=True).read()


@dataclass
class _Reader:
    """Reads the dialogues of one file or list of records. Each instance reads once.

    The first five attributes are given by the caller. Reading fills the others.

    Attributes:
        source: A file, or records.
        options: How to read the source.
        columns: The user's names of fields, speakers and columns of ratings.
        report: Counts what is read, changed and skipped.
        labelled: Whether to read labels.
        container: Kind of file, a key of CONTAINERS such as ``csv``.
        form: Form of the latest row, a key of READERS such as ``messages``.
        names: Columns that occur in the file, as the keys of a dict.
        unread: Fields with text that were not read, as the keys of a dict.
        ids: Hashes of the ids so far.
        repeats: Id -> number of later rows that have it too.
        turns: Id of a chat -> its rows (row number, record), if each row is one message.
        torn: Ids of chats of which a row is bad.
    """

    source: Source
    options: ReadOptions
    columns: ColumnMap
    report: ReadingReport
    labelled: bool
    container: str = "jsonl"
    form: str | None = None  # of the latest row
    names: dict[str, None] = field(default_factory=dict)  # columns of the file
    unread: dict[str, None] = field(default_factory=dict)  # fields with text
    # Hashes of ids, 16 bytes a row: a million ids are much text.
    ids: set[int] = field(default_factory=set)
    # id -> how often a later row has it
    repeats: Counts = field(default_factory=Counter)
    # Rows that are turns wait until the end: id of the chat -> its rows.
    turns: dict[str, list[NumberedRecord]] = field(default_factory=dict)
    torn: set[str] = field(default_factory=set)  # ids of chats with a bad row

    def __post_init__(self) -> None:
        self.is_file = isinstance(self.source, str | Path)
        self.path = str(self.source) if self.is_file else "(list)"

    def read(self) -> Iterator[Any]:
        """Yields a LabelledDialogue for each chat if ``labelled``, otherwise a Dialogue."""
        for number, record, form in chain(self._chat_rows(), self._merge_kept_turns()):
            try:
                row = self._read_chat(record, form)
            except RecordError as error:
                self._skip_or_raise(number, error)
            except RecursionError:
                self._skip_or_raise(
                    number, RecordError("(row)", "less deep nesting", "...")
                )
            else:
                yield row if self.labelled else row.dialogue
        unread = ", ".join(
            name for name in self.unread if name not in self.report.copied
        )
        if unread:
            self.report.notes[f"not read: {unread} in {self.path}"] = None

    def _chat_rows(self) -> Iterator[NumberedChat]:
        """Yields (row number, record, form) for each row that is a whole chat. The form is a key of
        READERS, such as ``messages``.

        A row that is a single message of a chat is kept in ``turns`` instead.
        """
        for number, record in self._open_source():
            if isinstance(record, list):
                record = {"messages": record}
            if not isinstance(record, Mapping):
                self._skip_or_raise_non_object(number, record)
                continue
            self._collect_and_check_columns(record)
            self.form = detect_form(record, self.columns) or self.form
            if self.form is None:
                self._skip_or_raise(number, _unknown_form_error(record))
            elif self.form == "turns":
                self._keep_turn(number, record)
            else:
                yield number, record, self.form
        if self.names:
            self.columns.require_columns(self.names, self.path)

    def _open_source(self) -> Iterable[NumberedRow]:
        """Returns (row number, value) for each row of the source. In a transcript, each chat is
        a row."""
        if not isinstance(self.source, str | Path):
            return enumerate(self.source, 1)
        self.container, rows = open_rows(self.path, self.options.format)
        if self.container != "text":
            return rows
        self.form = "messages"
        text = "".join(str(content) for _, content in rows)
        return split_into_chats(text, self.columns.roles)

    def _skip_or_raise_non_object(self, number: int, record: object) -> None:
        """Skips a row that is not a JSON object, or raises an error if reading is strict.

        If the row is a damaged message of a chat, the whole chat is skipped later.

        Args:
            number: Number of the row.
            record: Value of the row, or the RecordError that was found in it.
        """
        if not isinstance(record, RecordError):
            record = RecordError("(line)", "a JSON object", record)
        if isinstance(record.row, Mapping):
            self.torn.add(self._conversation_id(record.row))
        self._skip_or_raise(number, record)

    def _collect_and_check_columns(self, record: Record) -> None:
        """Adds the columns of ``record`` to ``names``. Raises ConfigError if a table lacks a column
        that the user named."""
        if not (self.columns.fields or self.columns.labels):
            return
        self.names |= dict.fromkeys(record)
        # A speaker and a text can stand inside of messages, which are empty in some rows.
        messages = parse_if_json(self.columns.value(record, "messages"))
        inside = messages if isinstance(messages, list) else []
        for inner in (record.get("labels"), *inside):
            if isinstance(inner, Mapping):
                self.names |= dict.fromkeys(inner)
        # JSON leaves out empty fields, so its columns are checked after the last row.
        if self.container in TABLES and (inside or messages is None):
            self.columns.require_columns(self.names, self.path)

    def _keep_turn(self, number: int, record: Record) -> None:
        """Adds ``record``, a row with one message, to ``turns``. A row without the id of its chat
        is skipped, or raises an error if reading is strict."""
        chat_id = self._conversation_id(record)
        if chat_id.strip():
            self.turns.setdefault(chat_id, []).append((number, record))
        else:
            expected = "the id of the turn's conversation"
            self._skip_or_raise(number, RecordError("id", expected, dict(record)))

    def _conversation_id(self, record: Record) -> str:
        """Returns the id of the conversation to which ``record``, a row with one message, belongs.
        Returns an empty string if there is none."""
        column = conversation_column(record, self.columns)
        return str(number_as_text(lookup(record, column, "")) or "")

    def _merge_kept_turns(self) -> Iterator[NumberedChat]:
        """Yields (row number, record, form) for each chat that has one row for each of its
        messages. The number is the first row's."""
        for chat_id, rows in self.turns.items():
            number = rows[0][0]
            try:
                if chat_id in self.torn:
                    raise RecordError("(rows)", "a chat without a bad row", chat_id)
                chat, different = merge_turns(
                    chat_id, rows, self.columns, self.report.changes
                )
            except RecordError as error:
                self._skip_or_raise(number, error)
                continue
            self._note_unread_prose(different)
            yield number, chat, "turns"

    def _skip_or_raise(self, number: int, error: RecordError) -> None:
        """Counts the bad row ``number`` in the report, or raises an error if reading is strict.

        Raises:
            DataError: Reading is strict, and the source is a file.
            RecordError: ``error`` itself, if reading is strict and the source is a list of records.
        """
        if self.report.strict and not self.is_file:
            raise error
        hint = f"Read as {CONTAINERS[self.container]}"
        if self.form:
            hint += f", {READERS[self.form].title}"
        hint += ". If it is not, type --format, --column or --role (in YAML: format, columns)"
        problem = DataError(self.path, number, error.message, hint=hint)
        if self.report.strict or self.options.strict:
            raise problem from error
        self.report.add_bad_row(problem)

    def _read_chat(self, record: Record, form: str) -> LabelledDialogue:
        """Returns the labelled dialogue in ``record``. An id that an earlier chat has gets a
        number: ``d1#2``.

        Args:
            form: Form of the record, a key of READERS such as ``messages``.

        Raises:
            RecordError: The record cannot be read, or its id is repeated in a file with label
                columns.
        """
        columns = self.columns
        if form == "turns" and columns.fields:  # the chat has our own names already
            fields = {
                k: v for k, v in columns.fields.items() if k not in _READ_IN_TURNS
            }
            columns = replace(columns, fields=fields)
        row = Row(record, columns)
        labelled = self._to_labelled_dialogue(READERS[form].read(row))
        unread = record.keys() - row.used - KNOWN_FIELDS - self.unread.keys()
        if unread:
            unread -= {path.partition(".")[0] for path in row.used}
            self._note_unread_prose({name: record[name] for name in unread})
        if hash(labelled.id) in self.ids:
            if columns.labels:
                expected = "one row for each chat, with a column for each annotator"
                raise RecordError("id", expected, labelled.id)
            labelled = self._number_repeated_id(labelled)
        self.ids.add(hash(labelled.id))
        self.report.read += 1
        return labelled

    def _note_unread_prose(self, values: Record) -> None:
        """Adds to ``unread`` the names of fields that hold prose, because they may be part of
        a chat.

        Args:
            values: Name of a field that was not read -> its value.
        """
        for name, value in values.items():
            if len(self.unread) < _SHOWN and has_prose(value):
                self.unread[name] = None

    def _number_repeated_id(self, row: LabelledDialogue) -> LabelledDialogue:
        """Returns ``row`` with a number after its id (``a#2``), because an earlier chat has the
        same id."""
        id = row.id
        while hash(id) in self.ids:
            self.repeats[row.id] += 1
            id = f"{row.id}#{self.repeats[row.id] + 1}"
        self.report.changes[_NUMBERED] += 1
        return replace(row, dialogue=replace(row.dialogue, id=id))

    def _to_labelled_dialogue(self, line: Fields) -> LabelledDialogue:
        """Returns the labelled dialogue in ``line``, a JSON object in our JSONL format.

        A missing id becomes a hash of the content. Thoughts (text between think tags) are left out.
        Both are counted in the report.
        """
        id = line.get("id")
        if not str(id or "").strip():
            self.report.changes[_MADE] += 1
            line["id"] = id = None
        if "messages" in line and "dialogue" not in line:
            dialogue = self._dialogue_of_messages(line)
            line = {name: line[name] for name in _LABEL_FIELDS if name in line}
            line |= dialogue.to_record() if self.labelled else {}
        else:
            self._drop_thoughts(line)
            if id is None:
                line["id"] = parse_dialogue_line(line | {"id": "none"}).text_hash
            dialogue = parse_dialogue_line(line)
        if self.labelled:
            return parse_labelled(line)
        meta = dict(dialogue.meta)
        for name in line.keys() - KNOWN_FIELDS:
            if line[name] is not None:
                meta.setdefault(name, line[name])
        return LabelledDialogue(replace(dialogue, meta=meta))

    def _drop_thoughts(self, line: Fields) -> None:
        """Removes thoughts (text between think tags) from the assistant turns of ``line``, and
        counts them in the report."""
        name = "dialogue" if "dialogue" in line else "turns"
        if not isinstance(line.get(name), list):
            return
        line[name] = turns = list(line[name])
        for number, turn in enumerate(turns):
            if not isinstance(turn, Mapping) or turn.get("role") != "assistant":
                continue
            answer, count = turn.get("content"), 0
            if isinstance(answer, str):
                answer, count = remove_thoughts(answer)
            if count:
                turns[number] = {**turn, "content": answer}
                self.report.changes[THOUGHTS] += count

    def _dialogue_of_messages(self, line: Fields) -> Dialogue:
        require_valid_text(line.get("meta"), "meta")
        names = ("id", "source", "models", "context", "meta")
        return read_messages(
            line["messages"],
            lang=self._language_code_or_unknown(line.get("lang")),
            changes=self.report.changes,
            **{name: line.get(name) for name in names},
        )

    def _language_code_or_unknown(self, word: str | None) -> str:
        """Returns the code of a language, given its name or code ``word``. An unknown language
        gives ``und`` and is counted in the report."""
        try:
            return language_code(word)
        except RecordError:
            self.report.changes[f"unknown languages ({str(word).strip()[:30]})"] += 1
            return UNKNOWN_LANGUAGE


def _unknown_form_error(record: Record) -> RecordError:
    """Returns the error for ``record``, a row in no known form."""
    names = ", ".join(map(str, list(record)[:20]))
    expected = (
        "a chat in a known form, such as a list of {role, content} under messages. Name its "
        f"columns with --column ({names}): --column id=NAME --column role=NAME --column "
        "content=NAME for one turn a row (in YAML: columns: {id: NAME, ...})"
    )
    return RecordError("(row)", expected, dict(record))
