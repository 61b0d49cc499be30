"""``read_dialogues`` and ``read_labelled`` stream chats of any known form, with their options
(ReadOptions) and a count of what was read and skipped (ReadingReport).

A chat goes from container to row, form, messages and Dialogue.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, deque
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
from medal_judges.reading.branches import one_branch, without_siblings
from medal_judges.reading.containers import CONTAINERS, TABLES, NumberedRow, open_rows
from medal_judges.reading.forms import (
    FORMS,
    GROUPED,
    ColumnMap,
    Fields,
    chats_within,
    checked_columns,
    form_of,
    is_released,
    make_column_map,
    names_system,
    normal_row,
)
from medal_judges.reading.grouped import grouped_chats
from medal_judges.reading.instants import messages_in_order
from medal_judges.reading.messages import read_messages
from medal_judges.reading.released import line_of_released
from medal_judges.reading.thoughts import spoken_turns
from medal_judges.reading.unread import count_unread, unread_note
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
from medal_judges.records.validation import require_valid_text
from medal_judges.storage.files import require_other_file
from medal_judges.storage.jsonl import open_text, to_line

Source = str | Path | Iterable[object]
_LABEL_FIELDS = ("labels", "scales", "split", "group", "annotators")
# The parts of a problem that differ from row to row: an index, a place in the text.
_PLACE = re.compile(r"\[\d+\]|\b(column|character|line|row|lines|rows) [\d,]+")
_SHOWN = 5
_LONG = 100  # turns
_LISTS = ("line", "medal")  # forms whose ratings are lists of all annotators
_SKIPPING = {  # how bad rows are skipped, by whether --strict was typed
    True: "without --strict bad rows are skipped and listed",
    False: "in Python, reading=ReadingReport() skips and lists bad rows",
}
_option = partial(option, panel="Reading")


# -- options ---------------------------------------------------------------------------------------


class ReadOptions(Config):
    """Options for reading a file of chats. The content of the file decides what they leave open.

    ``columns`` is a mapping, or a YAML file of one; ``column``, ``label`` and ``role`` add to it.
    With ``strict`` the first bad row is an error, even if a ReadingReport could count it. Raises
    ConfigError for an unknown format and for a wrong column map.
    """

    format: str | None = _option(
        None, help="File format, if it cannot be detected: csv, messages, csv+turns."
    )
    column: tuple[str, ...] = _option(
        (),
        metavar="FIELD=COLUMN",
        help="Column that holds a field: id=ticket, role=speaker, ...; may be repeated.",
    )
    columns: Path | str | dict[str, Any] | None = _option(
        None, help="YAML file that maps columns, roles and labels."
    )
    label: tuple[str, ...] = _option(
        (),
        metavar="COLUMN=DIMENSION[:LOW..HIGH][@ANNOTATOR]",
        help="Column of human ratings, with its scale and its annotator; may be repeated.",
    )
    role: tuple[str, ...] = _option(
        (),
        metavar="WORD=ROLE",
        help="Role of a speaker's name: Kunde=user; may be repeated.",
    )
    strict: bool = _option(
        False, help="Stop at the first bad row instead of skipping, counting and listing it."
    )

    @model_validator(mode="after")
    def _check(self) -> ReadOptions:
        # Pydantic calls this again for every config that contains these options.
        _ = self.container_and_form, self.column_map
        return self

    @cached_property
    def container_and_form(self) -> tuple[str | None, str | None]:
        """The container and the form of the rows that ``format`` names; None for the one that the
        content decides."""
        container: str | None = None
        form: str | None = None
        words = self.format.lower().split("+") if self.format else []
        for word in words:
            if word in CONTAINERS and container is None:
                container = word
            elif word in FORMS and form is None:
                form = word
            elif word in CONTAINERS or word in FORMS:
                problem = f"format {self.format!r}: at most one kind of file and one of rows"
                raise ConfigError(problem)
            else:
                hint = f"{did_you_mean(word, [*CONTAINERS, *FORMS])}files: {', '.join(CONTAINERS)};"
                hint += f" rows: {', '.join(FORMS)}; or both: csv+turns"
                raise ConfigError(f"no format {word!r}", hint=hint)
        return container, form

    @cached_property
    def column_map(self) -> ColumnMap:
        """The columns, roles and labels that the options name. A file of them is read once, because
        it may be a pipe."""
        return make_column_map(self.columns or {}, self.column, self.label, self.role)


class ReadOptionsWithoutLabels(ReadOptions):
    """ReadOptions without --label, for commands that read no ratings."""

    label: tuple[str, ...] = ()


DEFAULT_READING = ReadOptions()


class ChatFileConfig(Config):
    """A file of chats in a YAML file. ``source`` is a spec such as ``dstc9:train`` or a file;
    ``format`` and ``columns`` (a mapping, or a YAML file of one) are as in ReadOptions. ``langs``:
    only rows in these languages (``zh`` includes ``zh-Hant``)."""

    source: str
    format: str | None = None
    columns: dict[str, Any] | str = Field(default_factory=dict)
    langs: tuple[str, ...] = ()

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
        has = [{row.dialogue.lang, base_language(row.dialogue.lang)} for row in rows]
        if missing := set(self.langs).difference(*has):
            problem = f"{self.source}: no row is in {', '.join(sorted(missing))}"
            known = ", ".join(sorted(set().union(*has))) or "none"
            raise ConfigError(problem, hint=f"its languages: {known}")
        wanted = set(self.langs)
        return [row for row, own in zip(rows, has, strict=True) if not wanted or own & wanted]


# -- report ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class ReadingReport:
    """Counts what is read.

    ``read`` dialogues, in all and by ``forms``; rows ``left_out``, by reason; ids ``made`` from the
    content, or ``numbered`` because an earlier row has them; and ``folded`` parts of messages,
    which are not text of the user or the assistant. ``messages`` holds the first ``keep`` problems
    (None: all). The file ``listed`` gets all of them, as JSON lines of file, line (a table's row)
    and problem. With ``strict`` a bad row is an error. ``copied``: columns that the scores get.
    """

    listed: Path | None = None
    keep: int | None = 20
    strict: bool = False
    copied: Sequence[str] = ()
    read: int = 0
    made: int = 0
    numbered: int = 0
    forms: Counter[str] = field(default_factory=Counter)
    folded: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    messages: list[str] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)  # what a user should check

    @property
    def count(self) -> int:
        """Number of skipped rows."""
        return self.left_out.total()

    def add(self, error: DataError) -> None:
        """Counts and lists a skipped row."""
        reason = _PLACE.sub(r"\1 N", error.problem.split(", got ")[0])[:200]
        if reason not in self.left_out and len(self.left_out) >= 1000:  # hostile keys
            reason = "other problems"
        self.left_out[reason] += 1
        if self.keep is None or len(self.messages) < self.keep:
            self.messages.append(error.message)
        if self.listed is not None:
            entry = {"file": error.path, "line": error.line, "problem": error.problem}
            self.listed.parent.mkdir(parents=True, exist_ok=True)
            with open_text(self.listed, "a") as stream:
                stream.write(to_line(entry))

    def show(self, *, always: bool = False) -> None:
        """Prints the counts on standard error. Without ``always``, only if a row was changed or
        skipped."""
        if not (always or self.count or self.folded or self.made or self.numbered or self.notes):
            return
        forms = ", ".join(
            name if len(self.forms) == 1 else f"{count:,} {name}"
            for name, count in self.forms.most_common()
        )
        lines = [f"{self.read:,} dialogues read" + (f" ({forms})" if forms else "")]
        lines[0] += f"; {self.count:,} bad rows left out" if self.count else ""
        if self.folded:
            lines.append("folded: " + ", ".join(f"{n:,} {w}" for w, n in self.folded.most_common()))
        if self.made:
            lines.append(f"{self.made:,} ids made from the content: there were none")
        if self.numbered:
            lines.append(f"{self.numbered:,} ids numbered (ID#2): an earlier row had them")
        lines += self.notes
        lines += [f"{n:,} x {why}" for why, n in self.left_out.most_common(_SHOWN)]
        if (more := len(self.left_out) - _SHOWN) > 0:
            lines.append(f"and {more} other reasons")
        if self.listed is not None and self.count:
            lines.append(f"all of them are listed in {self.listed}")
        elif self.listed is None:
            lines += self.messages
            if (more := self.count - len(self.messages)) > 0:
                lines.append(f"and {more:,} more")
        print(visible("\n  ".join(lines)), file=sys.stderr)

    def require_rest(self) -> None:
        """Raises CoverageError (exit status 3) if no dialogue was read."""
        if self.read:
            return
        hint = f"the first: {self.messages[0]}" if self.messages else None
        if self.count:
            raise CoverageError(f"all {self.count} rows are bad and were left out", hint=hint)
        hint = "check the file, and --format (in YAML: format) if it is given"
        raise CoverageError("no dialogue was read", hint=hint)


def reading_report(
    options: ReadOptions,
    listed: Path | None = None,
    inputs: Iterable[str | Path] = (),
    *,
    beside: str | Path | None = None,
) -> ReadingReport:
    """Returns the report of a command, which lists bad rows in the file ``listed`` or beside an
    output file (``scored.skipped.jsonl`` for ``scored.jsonl.gz``), else on standard error.

    The list of an earlier run is removed. Raises ConfigError if it is one of ``inputs``.
    """
    if beside is not None:
        stem = re.sub(r"(\.jsonl|\.parquet|\.csv)?(\.gz)?\Z", "", Path(beside).name)
        listed = Path(beside).with_name(f"{stem}.skipped.jsonl")
    if listed is None or options.strict:
        return ReadingReport(keep=None, strict=options.strict)
    require_other_file(listed, inputs, option="the list of bad rows")
    listed.unlink(missing_ok=True)
    return ReadingReport(listed)


# -- reading ---------------------------------------------------------------------------------------


def read_dialogues(
    source: Source,
    *,
    format: str | None = None,
    columns: dict[str, Any] | str | Path | None = None,
    reading: ReadingReport | None = None,
) -> Iterator[Dialogue]:
    """Streams the dialogues of a file, of standard input (``-``), of a data set on the Hub
    (``hf:ID[:config]:split``) or of a list of records; docs/howto/formats.md lists the forms.

    The form is recognised by the content; ``format`` (``csv``, ``messages``, ``csv+turns``)
    overrides it. ``columns`` maps fields to columns with unusual names: a mapping
    (``{"id": "ticket", "role": "who"}``) or a YAML file of one. Missing ids are made from the
    content, repeated ids are numbered (``id#2``). Labels are ignored.

    A bad row raises DataError with file, line and field; with ``reading`` it is counted there and
    skipped. Raises ConfigError for a missing column.

    >>> from medal_judges import read_dialogues
    >>> [dialogue.id for dialogue in read_dialogues("dialogues.jsonl")]
    ['d0', 'd1', 'd2']
    >>> chat = [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello!"}]
    >>> next(read_dialogues([{"id": "d3", "messages": chat}])).turns[1].content
    'Hello!'
    """
    return dialogues_of(source, ReadOptions(format=format, columns=columns), reading)


def parse_dialogue(record: object, *, folded: Counter[str] | None = None) -> Dialogue:
    """Returns the dialogue of one record, in any form that a row of a file may have: ``messages``
    as in OpenAI's or Anthropic's API, a list of such messages, the line format, a prompt with its
    response, a trace, ...

    The id is made from the content if there is none. ``folded`` counts the parts that are not text
    of the user or the assistant, such as thoughts. Raises RecordError that names the field, also
    for an unknown language and for a record of several dialogues.

    >>> from medal_judges import parse_dialogue
    >>> parse_dialogue({"id": "a", "prompt": "Hi!", "response": "Hello!"}).turns[1].content
    'Hello!'
    """
    if isinstance(record, Mapping):
        if "messages" in record and "dialogue" in record:
            raise RecordError("dialogue", "messages or dialogue, not both", record["dialogue"])
        language_code(record.get("lang"))
    report = ReadingReport(strict=True)
    try:
        dialogues = list(dialogues_of([record], reading=report))
    except RecordError as error:
        if error.field not in ("(row)", "(line)") or not isinstance(record, Mapping):
            raise
        # The error is for a file, whose columns an option can name.
        name = "dialogue" if "dialogue" in record else "messages"
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
    source: Source, options: ReadOptions = DEFAULT_READING, reading: ReadingReport | None = None
) -> Iterator[Dialogue]:
    """Like ``read_dialogues``, with the options as one object. Label columns may be missing."""
    return _read(source, options, replace(options.column_map, labels={}), reading, labelled=False)


def labelled_of(
    source: Source, options: ReadOptions = DEFAULT_READING, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """Like ``read_labelled``, with the options as one object."""
    return _read(source, options, options.column_map, reading, labelled=True)


def _read(
    source: Source,
    options: ReadOptions,
    columns: ColumnMap,
    reading: ReadingReport | None,
    *,
    labelled: bool,
) -> Iterator[Any]:
    report, is_file = reading or ReadingReport(), isinstance(source, str | Path)
    path = str(source) if is_file else "(list)"
    container, stated_form = options.container_and_form
    kind, form = "jsonl", stated_form  # ``form``: of the row before
    unread: Counter[str] = Counter()  # fields with text -> rows

    def bad(number: int, error: RecordError) -> None:
        if not is_file and (reading is None or reading.strict):
            raise error
        problem = DataError(
            path,
            number,
            error.message,
            hint=f"read as {CONTAINERS[kind]}{f', {FORMS[form]}' if form else ''}; change that "
            "with --format, --column and --role (in YAML: format, columns, columns.roles); "
            f"{_SKIPPING[options.strict]}",
        )
        if reading is None or reading.strict or options.strict:
            raise problem from error
        report.add(problem)

    def chats(rows: Iterator[NumberedRow]) -> Iterator[tuple[int, object, ColumnMap]]:
        """Yields (number, row, columns) of each chat. If several rows make a chat, the row is a
        function that returns it."""
        nonlocal form
        before = deque[object](maxlen=1000)
        for number, item in rows:
            record = one_branch(item, report.folded)
            if isinstance(record, RecordError):
                bad(number, record)
                before.append(record.row)
                continue
            found = stated_form or ("transcript" if kind == "text" else None)
            found = found or form_of(record, columns)
            if isinstance(record, Mapping):
                found = found or form
            if found is None:
                bad(number, _unknown_form(record))
                continue
            form = found
            if form in GROUPED:
                done = ("id", "role", "content", "messages", "order")
                fields = {n: c for n, c in columns.fields.items() if n not in done}
                fields |= {"time": "time"} if "time" in fields else {}
                own = replace(columns, fields=fields) if form == "turns" else ColumnMap()
                rest = chain([(number, record)], rows)
                stated = stated_form is not None
                for number, make in grouped_chats(
                    rest, form, columns, bad, report.folded, unread, before, stated
                ):
                    yield number, make, own
                return
            yield number, record, columns

    listed: Iterator[NumberedRow]
    if isinstance(source, str | Path):
        kind, listed = open_rows(path, container, columns.roles)
    else:
        listed = enumerate(source, 1)
    if kind not in TABLES:
        listed = (
            (place if number == 1 else number, each)
            for number, value in listed
            for place, each in enumerate(chats_within(value, columns) or [value], 1)
        )
    if columns.fields or columns.labels:
        listed = checked_columns(columns, path, listed, table=kind in TABLES)
    ids: dict[int, int] = {}  # hashes of id -> turns: 16 bytes a row; a million ids are much text
    repeated: dict[str, int] = {}  # id -> its next number
    # Other rows may have other annotators' labels of it: every reader of ratings holds all of them.
    held: dict[tuple[object, ...], LabelledDialogue] = {}
    turns = 0
    for number, record, own in chats(listed):
        try:
            chat = record() if callable(record) else record
            row = normal_row(chat, form or "line", own, report.folded)
            parsed = _record(row, report, labelled)
            if isinstance(chat, Mapping) and form != "line" and names_system(chat, own):
                note = "the column system names the chatbot; --column system=system (in YAML: "
                note += "columns: {system: system}) reads it as the system prompt"
                report.notes[note] = None
            key: tuple[object, ...] = ()
            if isinstance(parsed, LabelledDialogue) and (
                own.labels or (form not in _LISTS and parsed.labels)
            ):
                key = (parsed.id, parsed.level, hash(parsed.dialogue.turns))
                if key in held:
                    held[key] = _with_annotator(held[key], parsed)
                    continue
        except RecordError as error:
            bad(number, error)
            continue
        except ConfigError as error:  # a rating outside of the scale that the user stated
            raise DataError(path, number, error.message, hint=error.hint) from error
        except RecursionError:
            bad(number, RecordError("(row)", "fields that are nested less deep", "..."))
            continue
        id = parsed.id
        while hash(id) in ids:
            repeated[parsed.id] = repeated.get(parsed.id, 1) + 1
            id = f"{parsed.id}#{repeated[parsed.id]}"
        found = parsed.dialogue if isinstance(parsed, LabelledDialogue) else parsed
        metadata = {**found.meta, **getattr(parsed, "extra", {})}
        count_unread(unread, chat, metadata, own)
        ids[hash(id)], turns = hash(found.turns), len(found.turns)
        if id != parsed.id:
            report.numbered += 1
            if isinstance(parsed, LabelledDialogue):
                parsed = replace(parsed, dialogue=replace(parsed.dialogue, id=id))
            else:
                parsed = replace(parsed, id=id)
        report.read += 1
        report.forms[FORMS[form or "line"]] += 1
        if key and isinstance(parsed, LabelledDialogue):
            held[key] = parsed
        else:
            yield parsed
    yield from held.values()
    if lost := unread_note(unread, path, report.copied):
        report.notes[lost] = None
    if form == "transcript" and report.read == 1 and turns > _LONG:
        report.notes[
            f"one chat of {turns} turns: a line of --- or a heading (=== Chat 2) separates chats"
        ] = None


def _unknown_form(record: object) -> RecordError:
    if not isinstance(record, Mapping):
        return RecordError("(line)", "a JSON object", record)
    names = ", ".join(map(str, list(record)[:20]))
    hint = (
        f"--column assigns its fields ({names}): --column id=NAME --column role=NAME --column "
        "content=NAME for one turn a row (in YAML: columns: {id: NAME, ...})"
    )
    return RecordError("(row)", f"a chat in a known form; {hint}", dict(record))


def _with_annotator(one: LabelledDialogue, other: LabelledDialogue) -> LabelledDialogue:
    """``one`` with the labels of ``other``, the same dialogue, as those of further annotators."""
    labels, scales = {}, {**one.scales, **other.scales}
    sizes = [max(map(len, row.labels.values()), default=0) for row in (one, other)]
    for name in {**one.labels, **other.labels}:
        if one.scales.get(name, scales[name]) != scales[name]:
            raise RecordError(name, f"one scale of {name} ({one.scales[name]})", scales[name])
        parts = (row.labels.get(name, ()) for row in (one, other))
        labels[name] = tuple(
            v for part, n in zip(parts, sizes, strict=True) for v in (*part, *[None] * n)[:n]
        )
    extra = {**one.extra}
    known = [row.extra.get("annotators", ()) for row in (one, other)]
    if any(known) and [*map(len, known)] == sizes:
        extra["annotators"] = [*known[0], *known[1]]
    else:
        extra.pop("annotators", None)
    return replace(one, labels=labels, scales=scales, extra=extra)


def _record(row: Fields, report: ReadingReport, labelled: bool) -> Dialogue | LabelledDialogue:
    """Returns the dialogue of a row. If the id is missing, it is made from the content."""
    id: Any
    if "messages" not in row or "dialogue" in row:
        line = line_of_released(row) if is_released(row) else row
        name = "dialogue" if "dialogue" in line else "turns"
        if isinstance(turns := line.get(name), list):
            turns = messages_in_order(turns, report.folded)
            line[name] = spoken_turns(turns, report.folded)
        if (id := line.get("id")) is None or not str(id).strip():
            report.made += 1
            line = line | {"id": parse_dialogue_line(line | {"id": "none"}).text_hash}
        if labelled:
            found = parse_labelled(line)
            if line is row or found.split:
                return found
            return replace(found, split=hash_split(found.group, seed=0))  # as medal:SPLIT has it
        dialogue = parse_dialogue_line(line)
        extra = {k: v for k, v in line.items() if k not in KNOWN_FIELDS and v is not None}
        return replace(dialogue, meta={**extra, **dialogue.meta}) if extra else dialogue
    require_valid_text(row.get("meta"), "meta")
    id, lang, source = row.get("id"), row.get("lang"), row.get("source")
    if isinstance(id, str) and not id.strip():
        id = None
    try:
        lang = language_code(lang)
    except RecordError:
        if not isinstance(lang, str):
            raise
        report.folded[f"unknown languages ({lang.strip()[:30]})"] += 1
        lang = UNKNOWN_LANGUAGE
    dialogue = read_messages(
        without_siblings(row.get("messages", []), report.folded),
        id=id,
        lang=lang,
        source=source if isinstance(source, str) else None,
        models=row.get("models"),
        context=row.get("context"),
        meta=row.get("meta"),
        folded=report.folded,
    )
    report.made += id is None
    if not labelled:
        return dialogue
    labels = {name: row[name] for name in _LABEL_FIELDS if name in row}
    return parse_labelled(dialogue.to_record() | labels)
