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
from medal_judges.reading.columns import ColumnMap, Fields, checked_columns
from medal_judges.reading.containers import CONTAINERS, TABLES, NumberedRow, open_rows
from medal_judges.reading.forms import FORMS, GROUPED, form_of, normal_row, unknown_form
from medal_judges.reading.grouped import (
    Group,
    chat_of_spans,
    chat_of_turns,
    conversation_of_span,
    conversation_of_turn,
    gathered,
    spans_of,
)
from medal_judges.reading.messages import read_messages
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.released import is_released, line_of_released
from medal_judges.reading.report import ReadingReport
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

    The form is recognised by the content; ``format`` overrides it (``csv``, ``messages``,
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
    columns = replace(options.column_map, labels={})
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
        self.kind, self.form = "jsonl", options.kinds[1]

    def read(self, parse: Callable[[Fields, ReadOptions, ReadingReport], T]) -> Iterator[T]:
        """Yields ``parse`` of each chat, with an id of its own."""
        rows: Iterator[NumberedRow]
        if isinstance(self.source, str | Path):
            self.kind, rows = open_rows(self.path, self.options.kinds[0])
        else:
            rows = enumerate(self.source, 1)
        # Hashes: 8 bytes a row; a million ids are much text.
        ids: set[int] = set()
        repeated: dict[str, int] = {}  # id -> its next number
        for number, make in self._chats(rows):
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
                if isinstance(parsed, LabelledDialogue):
                    parsed = replace(parsed, dialogue=replace(parsed.dialogue, id=id))
                else:
                    parsed = replace(parsed, id=id)
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
        table, stated = self.kind in TABLES, self.options.kinds[1]
        checked = checked_columns(self.columns, self.path, rows, table=table)
        for number, record in checked:
            if isinstance(record, RecordError):
                self._bad(number, record)
                continue
            form = stated or ("transcript" if self.kind == "text" else None)
            form = form or form_of(record, self.columns)
            if form is None and isinstance(record, Mapping):
                form = self.form
            if form is None:
                self._bad(number, unknown_form(record))
                continue
            self.form = form
            if form in GROUPED:
                yield from self._grouped(chain([(number, record)], checked))
                return
            yield number, partial(normal_row, record, form, self.columns)

    def _grouped(self, rows: Iterator[NumberedRow]) -> Iterator[tuple[int, Callable[[], Fields]]]:
        """Yields the chats of rows that belong together. Rows that are bad by themselves are
        counted before the first chat."""

        def keyed() -> Iterator[tuple[str, int, object]]:
            for number, row in rows:
                try:
                    if isinstance(row, RecordError):
                        raise row
                    if not isinstance(row, Mapping):
                        raise RecordError("(line)", "a JSON object", row)
                    if self.form == "turns":
                        yield conversation_of_turn(row, self.columns), number, row
                        continue
                    for place, span in enumerate(spans_of(row)):
                        yield conversation_of_span(span) or f"{number}.{place}", number, span
                except RecordError as error:
                    self._bad(number, error)

        for key, group in gathered(keyed()):
            yield group[0][0], partial(self._chat, key, group)

    def _chat(self, key: str, group: Group) -> Fields:
        if self.form == "otel":
            return chat_of_spans([span for _, span in group])
        chat = chat_of_turns(key, group, self.columns)
        done = ("id", "role", "content", "messages", "order")
        fields = {name: c for name, c in self.columns.fields.items() if name not in done}
        fields |= {"time": "time"} if "time" in fields else {}
        return normal_row(chat, "messages", replace(self.columns, fields=fields))


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
        report.folded[f"unknown languages ({lang.strip()[:30]})"] += 1
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
