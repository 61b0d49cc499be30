"""``read_dialogues`` and ``read_labelled``: chats of any form that is known, as a stream."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

from medal_judges.errors import DataError, RecordError
from medal_judges.reading.columns import (
    ColumnMap,
    SeenColumns,
)
from medal_judges.reading.containers import CONTAINERS, TABLES, Container, open_container
from medal_judges.reading.forms import (
    ALIKE,
    FORMS,
    GROUPED,
    form_of,
    normal_row,
    unknown_form,
)
from medal_judges.reading.grouping import Group, gathered
from medal_judges.reading.json_rows import Fields, NumberedRow
from medal_judges.reading.messages import read_messages
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.released import is_released, line_of_released
from medal_judges.reading.report import ReadingReport
from medal_judges.reading.spans import chat_of_spans, conversation_of, spans_of
from medal_judges.reading.turns import ConversationIds, chat_of_turns
from medal_judges.records.dialogue import Dialogue, parse_dialogue
from medal_judges.records.labelled import KNOWN_FIELDS, LabelledDialogue, parse_labelled
from medal_judges.records.languages import UNKNOWN_LANGUAGE, language_code
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import require_valid_text

T = TypeVar("T", Dialogue, LabelledDialogue)
P = ParamSpec("P")
Source = str | Path | Iterable[object]
_LIST = "(list)"


def read_dialogues(
    source: Source,
    *,
    format: str | None = None,
    columns: dict[str, Any] | str | Path | None = None,
    assistant: str | None = None,
    reading: ReadingReport | None = None,
) -> Iterator[Dialogue]:
    """Stream the dialogues of a file, of standard input (``-``), of a data set on the Hub
    (``hf:ID[:config]:split``) or of a list of records; docs/howto/formats.md lists what is read.

    What it is is seen by its content; ``format`` overrides that (``csv``, ``openai``,
    ``csv+turns``). ``columns`` says which column is what, where names are others than usual: a
    mapping (``{"id": "ticket", "role": "who"}``) or a YAML file of one.
    ``assistant`` names who is judged where several answer. Missing ids are made of the content,
    ids that an earlier row has are numbered (``id#2``). Labels are passed over.

    A bad row raises DataError with file, line and field; with ``reading`` it is counted there, and
    left out. Raises ConfigError for a column that is not there.

    >>> from medal_judges import read_dialogues
    >>> [dialogue.id for dialogue in read_dialogues("dialogues.jsonl")]
    ['d0', 'd1', 'd2']
    >>> said = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
    >>> next(read_dialogues([{"id": "d3", "messages": said}])).turns[1].content
    'Hello!'
    """
    options = ReadOptions(format=format, columns=columns, assistant=assistant)
    return dialogues_of(source, options, reading)


def read_labelled(
    source: Source,
    *,
    format: str | None = None,
    columns: dict[str, Any] | str | Path | None = None,
    assistant: str | None = None,
    reading: ReadingReport | None = None,
) -> Iterator[LabelledDialogue]:
    """Stream labelled dialogues, as ``read_dialogues`` does dialogues. Labels are those of the
    row's ``labels`` and of the columns that the column map names as labels; none is no error."""
    options = ReadOptions(format=format, columns=columns, assistant=assistant)
    return labelled_of(source, options, reading)


def dialogues_of(
    source: Source, options: ReadOptions = DEFAULT_READING, reading: ReadingReport | None = None
) -> Iterator[Dialogue]:
    """``read_dialogues`` with its options as one object; columns of labels need not be there."""
    columns = replace(options.column_map, labels=())
    return _ChatReader(source, options, columns, reading).each(_dialogue)


def labelled_of(
    source: Source, options: ReadOptions = DEFAULT_READING, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """``read_labelled`` with its options as one object."""
    return _ChatReader(source, options, options.column_map, reading).each(_labelled)


@dataclass(slots=True)
class _ChatReader:
    """One reading of one source. ``form`` is that of the rows before, which a row is taken for
    where its own fields do not say."""

    source: Source
    options: ReadOptions
    columns: ColumnMap
    reading: ReadingReport | None
    report: ReadingReport = field(init=False)  # what is counted where nobody asks for it
    path: str = field(init=False)
    kind: str = field(init=False, default="")
    form: str | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self.report = self.reading or ReadingReport()
        self.path = str(self.source) if isinstance(self.source, str | Path) else _LIST

    def each(self, parse: Callable[[Fields, ReadOptions, ReadingReport], T]) -> Iterator[T]:
        """``parse`` of each chat, ids made where there are none and numbered where they are taken.

        Of a list of records a bad one raises RecordError, as it has no line to name.
        """
        container = self._container()
        self.kind = container.kind
        names = _Names()
        for number, row in self._chats(container.rows):
            try:
                if isinstance(row, RecordError):
                    raise row
                found = names.own(parse(row, self.options, self.report), self.report)
            except RecordError as error:
                self._bad(number, error)
                continue
            except RecursionError:
                self._bad(number, RecordError("(row)", "fields that are not nested so deep", "..."))
                continue
            self.report.read += 1
            self.report.forms[FORMS[self.form or "line"]] += 1
            yield found

    def _container(self) -> Container:
        if isinstance(self.source, str | Path):
            return open_container(self.path, self.options.container)
        return Container("jsonl", enumerate(self.source, 1))

    def _bad(self, number: int, error: RecordError) -> None:
        if self.reading is None and self.path == _LIST:
            raise error
        problem = DataError(self.path, number, error.message, hint=self._hint())
        if self.reading is None or self.reading.strict or self.options.strict:
            raise problem from error
        self.reading.add(problem)

    def _hint(self) -> str:
        form = f", {FORMS[self.form]}" if self.form else ""
        return (
            f"read as {CONTAINERS[self.kind]}{form}: --format and --column say otherwise; bad rows "
            "are left out and listed without --strict (in Python: reading=ReadingReport())"
        )

    # -- rows to chats -----------------------------------------------------------------------------

    def _chats(self, rows: Iterator[NumberedRow]) -> Iterator[tuple[int, Any]]:
        """(Number, row in one form or what is wrong with it) of each chat."""
        checked = SeenColumns(self.columns, self.path, self.kind in TABLES).checked(rows)
        for number, record in checked:
            if isinstance(record, RecordError):
                yield number, record
                continue
            form = self._form(record)
            if form is None:
                yield number, unknown_form(record)
                continue
            self.form = form
            if form in GROUPED:
                yield from self._grouped(form, number, record, checked)
                return
            yield number, _tried(normal_row, record, form, self.columns)

    def _form(self, record: object) -> str | None:
        if self.options.form is not None:
            return self.options.form
        if self.kind == "text":
            return "transcript"
        found = form_of(record, self.columns)
        if found is None and isinstance(record, Mapping) and self.form not in GROUPED:
            return self.form
        return self.form if any({found, self.form} <= each for each in ALIKE) else found

    def _grouped(
        self, form: str, number: int, record: object, rest: Iterator[NumberedRow]
    ) -> Iterator[tuple[int, Any]]:
        """The chats of rows that belong together, from ``record`` on. Rows that are bad by
        themselves are counted when they are read, before the first chat."""
        columns = self.columns
        ids = ConversationIds(columns) if form == "turns" else None

        def keyed() -> Iterator[tuple[str, int, object]]:
            for place, row in _with_first(number, record, rest):
                try:
                    yield from _keyed(form, place, row, ids)
                except RecordError as error:
                    self._bad(place, error)
            if ids is not None and ids.alone:
                problem = "each row has an id of its own: no two are turns of one conversation"
                hint = "--column id=NAME says which column names the conversation"
                raise DataError(self.path, None, problem, hint=hint)

        for key, group in gathered(keyed()):
            if isinstance(group, RecordError):
                yield 1, group
            else:
                yield group[0][0], _tried(_chat, form, key, group, columns)


def _with_first(number: int, record: object, rest: Iterator[NumberedRow]) -> Iterator[NumberedRow]:
    yield number, record
    yield from rest


def _keyed(
    form: str, number: int, row: object, ids: ConversationIds | None
) -> Iterator[tuple[str, int, object]]:
    if isinstance(row, RecordError):
        raise row
    if not isinstance(row, Mapping):
        raise RecordError("(line)", "a JSON object", row)
    if ids is not None:
        yield ids.key(row), number, row
        return
    for place, span in enumerate(spans_of(row)):
        yield conversation_of(span) or f"{number}.{place}", number, span


def _chat(form: str, key: str, group: Group, columns: ColumnMap) -> Fields:
    if form == "otel":
        return chat_of_spans([span for _, span in group])
    chat = chat_of_turns(key, group, columns)
    # role, content and time of the turns are read; what is left are fields of the chat
    read = ("id", "role", "content", "messages", "order")
    kept = {name: column for name, column in columns.fields.items() if name not in read}
    if "time" in kept:
        kept["time"] = "time"
    return normal_row(chat, "openai", replace(columns, fields=kept))


def _tried(make: Callable[P, Fields], *args: P.args, **named: P.kwargs) -> Fields | RecordError:
    try:
        return make(*args, **named)
    except RecordError as error:
        return error


# -- a row in one form to records ------------------------------------------------------------------


def _dialogue(row: Fields, options: ReadOptions, report: ReadingReport) -> Dialogue:
    if "messages" not in row or "dialogue" in row:
        line = _identified(_line(row), report)
        dialogue = parse_dialogue(line)
        meta = _extra_meta(line)
        return replace(dialogue, meta=meta) if meta != dialogue.meta else dialogue
    return _from_messages(row, options, report)


def _extra_meta(row: Fields) -> Fields:
    """The ``meta`` of a line of ours for scoring: its own, and the fields that the format does not
    know (``version``)."""
    own = row.get("meta")
    extra = {k: v for k, v in row.items() if k not in KNOWN_FIELDS and v is not None}
    return extra | own if isinstance(own, dict) else extra


def _labelled(row: Fields, options: ReadOptions, report: ReadingReport) -> LabelledDialogue:
    if "messages" not in row or "dialogue" in row:
        return parse_labelled(_identified(_line(row), report))
    record = _from_messages(row, options, report).to_record()
    names = ("labels", "scales", "split", "group", "level", "aggregated")
    return parse_labelled(record | {name: row[name] for name in names if name in row})


def _from_messages(row: Fields, options: ReadOptions, report: ReadingReport) -> Dialogue:
    require_valid_text(row.get("meta"), "meta")
    source = row.get("source")
    dialogue = read_messages(
        row.get("messages", []),
        id=_id(row.get("id")),
        lang=_language(row.get("lang"), report),
        source=source if isinstance(source, str) else None,
        models=row.get("models"),
        context=row.get("context"),
        meta=row.get("meta"),
        assistant=options.assistant,
        folded=report.folded,
    )
    report.made += _id(row.get("id")) is None
    return dialogue


def _line(row: Fields) -> Fields:
    return line_of_released(row) if is_released(row) else row


def _identified(line: Fields, report: ReadingReport) -> Fields:
    """``line`` with an id; one of its content where there is none."""
    said = line.get("id")
    if said is not None and not (isinstance(said, str) and not said.strip()):
        return line
    turns = parse_dialogue(line | {"id": "none"}).turns
    report.made += 1
    return line | {"id": content_hash([[turn.role, turn.content] for turn in turns])}


def _id(value: object) -> Any:
    """An id as text; None where there is none. A whole number that a table holds as a float is
    written without its point."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, dict | list):  # MongoDB's {"$oid": ...}
        return json.dumps(value, sort_keys=True, ensure_ascii=False)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    return None if value is None or (isinstance(value, str) and not value.strip()) else value


def _language(value: object, report: ReadingReport) -> str:
    """The code of a language; one whose name is not known is undetermined, and counted."""
    try:
        return language_code(value)
    except RecordError:
        if not isinstance(value, str):
            raise
        report.folded[f"languages not known ({value.strip()[:30]})"] += 1
        return UNKNOWN_LANGUAGE


class _Names:
    """Ids that are taken, by their hash: 8 bytes a row, since a million ids are no small text."""

    def __init__(self) -> None:
        self._taken: set[int] = set()
        self._next: dict[str, int] = {}

    def own(self, row: T, report: ReadingReport) -> T:
        """``row`` as it is, or numbered where an earlier one has its id."""
        name = row.id
        if hash(name) in self._taken:
            number = self._next.get(name, 2)
            while hash(f"{row.id}#{number}") in self._taken:
                number += 1
            self._next[row.id] = number + 1
            name = f"{row.id}#{number}"
            report.numbered += 1
        self._taken.add(hash(name))
        return row if name == row.id else _renamed(row, name)


def _renamed(row: T, name: str) -> T:
    if isinstance(row, LabelledDialogue):
        return replace(row, dialogue=replace(row.dialogue, id=name))
    return replace(row, id=name)
