"""``read_dialogues`` and ``read_labelled``: chats of any known form, as a stream.

The way of a chat: container -> rows -> form -> messages -> Dialogue.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from medal_judges.errors import DataError, RecordError
from medal_judges.reading.columns import ColumnMap, Fields, checked_columns
from medal_judges.reading.containers import CONTAINERS, TABLES, NumberedRow, open_rows
from medal_judges.reading.forms import FORMS, GROUPED, form_of, normal_row, unknown_form
from medal_judges.reading.grouped import grouped_chats
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
_LABEL_FIELDS = ("labels", "scales", "split", "group")


def read_dialogues(
    source: Source,
    *,
    format: str | None = None,
    columns: dict[str, Any] | str | Path | None = None,
    reading: ReadingReport | None = None,
) -> Iterator[Dialogue]:
    """Streams the dialogues of a file, of standard input (``-``), of a data set on the Hub
    (``hf:ID[:config]:split``) or of a list of records; docs/howto/formats.md lists the forms.

    The form is recognised by the content; ``format`` overrides it (``csv``, ``messages``,
    ``csv+turns``). ``columns`` maps fields to columns with unusual names: a mapping
    (``{"id": "ticket", "role": "who"}``) or a YAML file of one. Missing ids are made from the
    content, repeated ids are numbered (``id#2``). Labels are ignored.

    A bad row raises DataError with file, line and field; with ``reading`` it is counted there and
    skipped. Raises ConfigError for a missing column.

    >>> from medal_judges import read_dialogues
    >>> [dialogue.id for dialogue in read_dialogues("dialogues.jsonl")]
    ['d0', 'd1', 'd2']
    >>> said = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
    >>> next(read_dialogues([{"id": "d3", "messages": said}])).turns[1].content
    'Hello!'
    """
    options = ReadOptions(format=format, columns=columns)
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
    return _read(source, options, columns, reading, _dialogue)


def labelled_of(
    source: Source, options: ReadOptions = DEFAULT_READING, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """``read_labelled`` with its options as one object."""
    return _read(source, options, options.column_map, reading, _labelled)


def _read(
    source: Source,
    options: ReadOptions,
    columns: ColumnMap,
    reading: ReadingReport | None,
    parse: Callable[[Fields, ReadingReport], T],
) -> Iterator[T]:
    """Yields ``parse`` of each chat, with an id of its own."""
    report, is_file = reading or ReadingReport(), isinstance(source, str | Path)
    path = str(source) if is_file else "(list)"
    kind, form = "jsonl", options.kinds[1]  # ``form``: of the row before

    def bad(number: int, error: RecordError) -> None:
        if reading is None and not is_file:
            raise error
        problem = DataError(
            path,
            number,
            error.message,
            hint=f"read as {CONTAINERS[kind]}{f', {FORMS[form]}' if form else ''}: --format and "
            "--column say otherwise; bad rows are left out and listed without --strict (in Python: "
            "reading=ReadingReport())",
        )
        if reading is None or reading.strict or options.strict:
            raise problem from error
        report.add(problem)

    def chats(rows: Iterator[NumberedRow]) -> Iterator[tuple[int, object, ColumnMap]]:
        """Yields (number, the row or what makes it, its columns) of each chat."""
        nonlocal form
        for number, record in rows:
            if isinstance(record, RecordError):
                bad(number, record)
                continue
            found = options.kinds[1] or ("transcript" if kind == "text" else None)
            found = found or form_of(record, columns)
            if found is None and isinstance(record, Mapping):
                found = form
            if found is None:
                bad(number, unknown_form(record))
                continue
            form = found
            if form in GROUPED:
                done = ("id", "role", "content", "messages", "order")
                fields = {n: c for n, c in columns.fields.items() if n not in done}
                fields |= {"time": "time"} if "time" in fields else {}
                own = replace(columns, fields=fields) if form == "turns" else ColumnMap()
                rest = chain([(number, record)], rows)
                for number, make in grouped_chats(rest, form, columns, bad):
                    yield number, make, own
                return
            yield number, record, columns

    listed: Iterator[NumberedRow]
    if isinstance(source, str | Path):
        kind, listed = open_rows(path, options.kinds[0])
    else:
        listed = enumerate(source, 1)
    ids: set[int] = set()  # hashes: 8 bytes a row; a million ids are much text
    repeated: dict[str, int] = {}  # id -> its next number
    checked = checked_columns(columns, path, listed, table=kind in TABLES)
    for number, record, own in chats(checked):
        try:
            chat = record() if callable(record) else record
            row = normal_row(chat, "messages" if form in GROUPED else form or "line", own)
            parsed = parse(row, report)
        except RecordError as error:
            bad(number, error)
            continue
        except RecursionError:
            bad(number, RecordError("(row)", "fields that are not nested so deep", "..."))
            continue
        id = parsed.id
        while hash(id) in ids:
            repeated[parsed.id] = repeated.get(parsed.id, 1) + 1
            id = f"{parsed.id}#{repeated[parsed.id]}"
        ids.add(hash(id))
        if id != parsed.id:
            report.numbered += 1
            if isinstance(parsed, LabelledDialogue):
                parsed = replace(parsed, dialogue=replace(parsed.dialogue, id=id))
            else:
                parsed = replace(parsed, id=id)
        report.read += 1
        report.forms[FORMS[form or "line"]] += 1
        yield parsed


def _dialogue(row: Fields, report: ReadingReport) -> Dialogue:
    if "messages" in row and "dialogue" not in row:
        return _from_messages(row, report)
    line = _line(row, report)
    dialogue = parse_dialogue(line)
    extra = {k: v for k, v in line.items() if k not in KNOWN_FIELDS and v is not None}
    return replace(dialogue, meta={**extra, **dialogue.meta}) if extra else dialogue


def _labelled(row: Fields, report: ReadingReport) -> LabelledDialogue:
    if "messages" in row and "dialogue" not in row:
        record = _from_messages(row, report).to_record()
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


def _from_messages(row: Fields, report: ReadingReport) -> Dialogue:
    require_valid_text(row.get("meta"), "meta")
    id: Any = row.get("id")
    lang, source = row.get("lang"), row.get("source")
    if isinstance(id, float) and id.is_integer():  # whole numbers of a table
        id = int(id)
    if isinstance(id, int | float) and not isinstance(id, bool):
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
        folded=report.folded,
    )
    report.made += id is None
    return dialogue
