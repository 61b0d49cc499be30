"""``read_dialogues`` and ``read_labelled``: chats of any known form, as a stream.

The way of a chat: container -> rows -> form -> messages -> Dialogue.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from medal_judges.errors import DataError, RecordError
from medal_judges.reading.columns import ColumnMap, checked_columns
from medal_judges.reading.containers import CONTAINERS, TABLES, Container, open_container
from medal_judges.reading.forms import (
    ALIKE,
    FORMS,
    GROUPED,
    form_of,
    normal_row,
    unknown_form,
)
from medal_judges.reading.messages import read_messages
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.released import is_released, line_of_released
from medal_judges.reading.report import ReadingReport
from medal_judges.reading.spans import chat_of_spans, conversation_of, spans_of
from medal_judges.reading.text_rows import Fields, NumberedRow
from medal_judges.reading.turns import ConversationIds, Group, chat_of_turns, gathered
from medal_judges.records.dialogue import Dialogue, parse_dialogue
from medal_judges.records.labelled import KNOWN_FIELDS, LabelledDialogue, parse_labelled
from medal_judges.records.languages import UNKNOWN_LANGUAGE, language_code
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import require_valid_text

T = TypeVar("T", Dialogue, LabelledDialogue)
Source = str | Path | Iterable[object]
_LIST = "(list)"
_LABEL_FIELDS = ("labels", "scales", "split", "group", "level", "aggregated")


def read_dialogues(
    source: Source,
    *,
    format: str | None = None,
    columns: dict[str, Any] | str | Path | None = None,
    assistant: str | None = None,
    reading: ReadingReport | None = None,
) -> Iterator[Dialogue]:
    """Streams the dialogues of a file, of standard input (``-``), of a data set on the Hub
    (``hf:ID[:config]:split``) or of a list of records; docs/howto/formats.md lists the forms.

    The form is recognised by the content; ``format`` overrides it (``csv``, ``openai``,
    ``csv+turns``). ``columns`` maps fields to columns with unusual names: a mapping
    (``{"id": "ticket", "role": "who"}``) or a YAML file of one. ``assistant`` names the one to
    score if several answer. Missing ids are made from the content, repeated ids are numbered
    (``id#2``). Labels are ignored.

    A bad row raises DataError with file, line and field; with ``reading`` it is counted there and
    skipped. Raises ConfigError for a missing column.

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
    source: Source, *, reading: ReadingReport | None = None, **options: Any
) -> Iterator[LabelledDialogue]:
    """Streams labelled dialogues; ``options`` are those of ``read_dialogues``. Labels are those of
    the row's ``labels`` and of the label columns of the column map; a row can have none."""
    return labelled_of(source, ReadOptions(**options), reading)


def dialogues_of(
    source: Source, options: ReadOptions = DEFAULT_READING, reading: ReadingReport | None = None
) -> Iterator[Dialogue]:
    """``read_dialogues`` with its options as one object; label columns may be missing."""
    columns = replace(options.column_map, labels=())
    return _ChatReader(source, options, columns, reading).read(_dialogue)


def labelled_of(
    source: Source, options: ReadOptions = DEFAULT_READING, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """``read_labelled`` with its options as one object."""
    return _ChatReader(source, options, options.column_map, reading).read(_labelled)


class _ChatReader:
    """Reads one source. ``form`` is the form of the row before; a row whose own fields do not say
    its form gets it."""

    def __init__(
        self,
        source: Source,
        options: ReadOptions,
        columns: ColumnMap,
        reading: ReadingReport | None,
    ) -> None:
        self.source, self.options, self.columns = source, options, columns
        self.counted = reading is not None and not (reading.strict or options.strict)
        self.report = reading or ReadingReport()
        self.path = str(source) if isinstance(source, str | Path) else _LIST
        self.raises_record_errors = reading is None and self.path == _LIST  # there is no line
        self.kind = ""
        self.form: str | None = None

    def read(self, parse: Callable[[Fields, ReadOptions, ReadingReport], T]) -> Iterator[T]:
        """Yields ``parse`` of each chat, with an id of its own."""
        if isinstance(self.source, str | Path):
            container = open_container(self.path, self.options.container)
        else:
            container = Container("jsonl", enumerate(self.source, 1))
        self.kind = container.kind
        # Hashes: 8 bytes a row; a million ids are much text.
        ids: set[int] = set()
        repeated: dict[str, int] = {}  # id -> its next number
        for number, make in self._chats(container.rows):
            try:
                parsed = parse(make(), self.options, self.report)
            except (RecordError, RecursionError) as error:
                if isinstance(error, RecursionError):
                    error = RecordError("(row)", "fields that are not nested so deep", "...")
                self._bad(number, error)
                continue
            id = parsed.id
            while hash(id) in ids:
                repeated[parsed.id] = repeated.get(parsed.id, 1) + 1
                id = f"{parsed.id}#{repeated[parsed.id]}"
            ids.add(hash(id))
            if id != parsed.id:
                self.report.numbered += 1
                parsed = _renamed(parsed, id)
            self.report.read += 1
            self.report.forms[FORMS[self.form or "line"]] += 1
            yield parsed

    def _bad(self, number: int, error: RecordError) -> None:
        if self.raises_record_errors:
            raise error
        form = f", {FORMS[self.form]}" if self.form else ""
        hint = (
            f"read as {CONTAINERS[self.kind]}{form}: --format and --column say otherwise; bad rows "
            "are left out and listed without --strict (in Python: reading=ReadingReport())"
        )
        problem = DataError(self.path, number, error.message, hint=hint)
        if not self.counted:
            raise problem from error
        self.report.add(problem)

    def _chats(self, rows: Iterator[NumberedRow]) -> Iterator[tuple[int, Callable[[], Fields]]]:
        """Yields (number, what makes the row in one form or raises RecordError) of each chat."""
        table = self.kind in TABLES
        checked = checked_columns(self.columns, self.path, rows, table=table)
        for number, record in checked:
            form = None if isinstance(record, RecordError) else self._form(record)
            if form in GROUPED:
                self.form = form
                yield from self._grouped(chain([(number, record)], checked))
                return
            if form is None:
                bad = record if isinstance(record, RecordError) else unknown_form(record)
                self._bad(number, bad)
                continue
            self.form = form
            yield number, partial(normal_row, record, form, self.columns)

    def _form(self, record: object) -> str | None:
        if self.options.form is not None:
            return self.options.form
        if self.kind == "text":
            return "transcript"
        found = form_of(record, self.columns)
        if found is None and isinstance(record, Mapping) and self.form not in GROUPED:
            return self.form
        return self.form if any({found, self.form} <= each for each in ALIKE) else found

    def _grouped(self, rows: Iterator[NumberedRow]) -> Iterator[tuple[int, Callable[[], Fields]]]:
        """Yields the chats of rows that belong together. Rows that are bad by themselves are
        counted before the first chat."""
        ids = ConversationIds(self.columns)

        def keyed() -> Iterator[tuple[str, int, object]]:
            for number, row in rows:
                try:
                    if isinstance(row, RecordError):
                        raise row
                    if not isinstance(row, Mapping):
                        raise RecordError("(line)", "a JSON object", row)
                    if self.form == "turns":
                        yield ids.key(row), number, row
                        continue
                    for place, span in enumerate(spans_of(row)):
                        yield conversation_of(span) or f"{number}.{place}", number, span
                except RecordError as error:
                    self._bad(number, error)
            if ids.alone:
                problem = "each row has an id of its own: no two are turns of one conversation"
                hint = "--column id=NAME says which column names the conversation"
                raise DataError(self.path, None, problem, hint=hint)

        for key, group in gathered(keyed()):
            yield group[0][0], partial(self._chat, key, group)

    def _chat(self, key: str, group: Group) -> Fields:
        if self.form == "otel":
            return chat_of_spans([span for _, span in group])
        chat = chat_of_turns(key, group, self.columns)
        columns = self.columns.without("id", "role", "content", "messages", "order")
        if "time" in columns.fields:
            columns = replace(columns, fields={**columns.fields, "time": "time"})
        return normal_row(chat, "openai", columns)


def _renamed(row: T, id: str) -> T:
    if isinstance(row, LabelledDialogue):
        return replace(row, dialogue=replace(row.dialogue, id=id))
    return replace(row, id=id)


# -- a row in one form to records ------------------------------------------------------------------


def _dialogue(row: Fields, options: ReadOptions, report: ReadingReport) -> Dialogue:
    if "messages" in row and "dialogue" not in row:
        return _from_messages(row, options, report)
    line = _line(row, report)
    dialogue = parse_dialogue(line)
    extra = {k: v for k, v in line.items() if k not in KNOWN_FIELDS and v is not None}
    return replace(dialogue, meta={**extra, **dialogue.meta}) if extra else dialogue


def _labelled(row: Fields, options: ReadOptions, report: ReadingReport) -> LabelledDialogue:
    if "messages" in row and "dialogue" not in row:
        record = _from_messages(row, options, report).to_record()
        return parse_labelled(record | {name: row[name] for name in _LABEL_FIELDS if name in row})
    return parse_labelled(_line(row, report))


def _line(row: Fields, report: ReadingReport) -> Fields:
    """A row in the line format with an id, made from its content if there is none."""
    line = line_of_released(row) if is_released(row) else row
    id = line.get("id")
    if id is not None and not (isinstance(id, str) and not id.strip()):
        return line
    turns = parse_dialogue(line | {"id": "none"}).turns
    report.made += 1
    return line | {"id": content_hash([[turn.role, turn.content] for turn in turns])}


def _from_messages(row: Fields, options: ReadOptions, report: ReadingReport) -> Dialogue:
    require_valid_text(row.get("meta"), "meta")
    id: Any = row.get("id")
    lang, source = row.get("lang"), row.get("source")
    if isinstance(id, float) and id.is_integer():  # whole numbers of a table
        id = int(id)
    if isinstance(id, dict | list):  # MongoDB's {"$oid": ...}
        id = json.dumps(id, sort_keys=True, ensure_ascii=False)
    elif isinstance(id, int | float) and not isinstance(id, bool):
        id = str(id)
    elif isinstance(id, str) and not id.strip():
        id = None
    try:
        lang = language_code(lang)
    except RecordError:
        if not isinstance(lang, str):
            raise
        report.folded[f"languages not known ({lang.strip()[:30]})"] += 1
        lang = UNKNOWN_LANGUAGE
    dialogue = read_messages(
        row.get("messages", []),
        id=id,
        lang=lang,
        source=source if isinstance(source, str) else None,
        models=row.get("models"),
        context=row.get("context"),
        meta=row.get("meta"),
        assistant=options.assistant,
        folded=report.folded,
    )
    report.made += id is None
    return dialogue
