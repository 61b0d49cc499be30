"""Recognises the form of a row by its fields, and converts the row to the fields of the line
format, with ``messages`` in place of ``dialogue`` unless it has turns already.

A ColumnMap maps fields to the columns of a user's file.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from medal_judges.config import parse_yaml
from medal_judges.errors import ConfigError, RecordError, did_you_mean
from medal_judges.reading.answers import continuation, pair_in, turns_in, without_pairs
from medal_judges.reading.instants import messages_in_order
from medal_judges.reading.names import (
    CHATBOTS,
    CONTENTS,
    CONVERSATIONS,
    HISTORIES,
    IDS,
    LANGUAGES,
    MESSAGES,
    PROMPTS,
    RESPONSES,
    ROLES,
    SYSTEMS,
    find_key,
    plain_names,
)
from medal_judges.reading.roles import ROLE_WORDS, role_of
from medal_judges.reading.talks import EMPTY, messages_within
from medal_judges.reading.thoughts import thoughts_on_one_line
from medal_judges.records.labelled import Scale
from medal_judges.records.validation import as_text, number, text
from medal_judges.storage.jsonl import load_json

Fields = dict[str, Any]  # of one row, values as in JSON
# Name in --format -> name in messages.
FORMS: Mapping[str, str] = {
    "line": "the line format",
    "medal": "MEDAL's released form",
    "messages": "messages",
    "prompts": "prompt and response",
    "transcript": "a transcript",
    "turns": "one turn a row",
    "otel": "OpenTelemetry spans",
    "langfuse": "Langfuse's traces or observations",
    "langsmith": "LangSmith's runs",
}
GROUPED = ("turns", "otel", "langfuse", "langsmith")  # several rows are one chat

_LANGFUSE = (
    {"session_id", "timestamp", "input", "output"},  # a trace
    {"trace_id", "parent_observation_id"},  # an observation
    *({"observations", "scores"}, {"observations", "trace"}),  # a downloaded trace
)
# How a message or a response of a server begins in a cell.
_RESPONSES = tuple(f'{{"{key}' for key in ('role"', 'choices"', 'candidates"', 'content": ['))
_JSON_FIELDS = ("dialogue", "turns", "models", "context", "meta", "labels", "scales")

_SPEAKERS = ("user", "assistant", "system", "tool")
# What a column map can map. ``chatbot`` and ``user`` are names of models; ``order`` and ``time``
# order the turns if a row is a turn; ``annotator`` is the person whose ratings the row has; the
# others are fields of the line format.
_FIELDS = (
    *("id", "messages", "role", "content", "time", "order", "prompt", "response", "system"),
    *("lang", "chatbot", "user", "source", "split", "group", "annotator"),
)
_ANNOTATORS = ("annotator", "annotator_id", "rater", "rater_id", "worker", "worker_id")
_LABEL = re.compile(r"([^:@]+?)(?::(-?\d+(?:\.\d+)?)\.\.(-?\d+(?:\.\d+)?))?(?:@(.+))?\Z")
# What spreadsheets, pandas, R and people write if there is no rating.
_NO_RATING = re.compile(r"#?n/?a|n\.a\.|<na>|nan|none|null|nil|missing|-{1,2}|[–—?]|\.{1,2}", re.I)
_FLAGS = {"true": 1.0, "false": 0.0}
_MISSING = object()

CONTEXT_NUMBER = re.compile(r"-(\d+)\s*\Z")  # at the end of a released row's ``source``
_MOST = 64_000_000  # characters of a transcript file, which is read whole
_DAY, _CLOCK = r"\d{4}-\d\d-\d\d", r"\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?"
# A line of a transcript: perhaps a time, a name of at most 40 characters and a colon, bold or not;
# the wide colon is Chinese and Japanese.
SPOKEN = re.compile(
    rf"\s*(?:[\[(]?(?P<time>{_DAY}[T ]{_CLOCK}Z?|{_CLOCK}(?:\s?[AaPp][Mm])?)[\])]?[\s,-]*)?"
    r"(?:\*\*)?(?P<name>[^\W\d_][\w .'()-]{0,39}?)(?:\*\*)?\s?(?::(?=\s|\*|$)|：)(?:\*\*)?\s*"
    r"(?P<text>.*)",
    re.DOTALL,
)
RULE = re.compile(r"\s*(?:([-=*_#~])\1{2,}|([-=])\2{2,}\s*(?P<heading>.*?[^\s=-])[\s=-]*)\s*")
_NAMED = re.compile(r"[\w.-]{1,40}")  # the name of a chatbot in a column ``system``


# -- columns ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Maps columns of a user's file to fields, roles and labels.

    ``fields``: one of _FIELDS -> column, or a dotted path to a nested value (``meta.user.id``).
    ``roles``: a speaker's name (``Kunde``) -> role. ``labels``: column of ratings -> (dimension,
    scale or None); several columns of one dimension are several annotators. ``raters``: column of
    ratings -> its annotator's name, for all columns or for none.
    """

    fields: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    labels: Mapping[str, tuple[str, Scale | None]] = field(default_factory=dict)
    raters: Mapping[str, str] = field(default_factory=dict)

    def get(self, record: Mapping[str, object], name: str) -> object:
        """Returns the value of the field ``name`` in ``record``; None if it is not mapped."""
        column = self.fields.get(name)
        return None if column is None else lookup(record, column)


def lookup(record: object, path: str, missing: Any = None) -> Any:
    """Returns the value at ``path``: a key (which may contain dots), else a dotted path of keys and
    list indices. Cells of JSON text along the path are parsed."""
    if isinstance(record, str) and record.lstrip()[:1] in ("{", "["):
        try:
            record = load_json(record)
        except (RecordError, RecursionError):
            return missing
    if isinstance(record, list):
        record = {str(index): value for index, value in enumerate(record)}
    if not isinstance(record, Mapping):
        return missing
    if path in record:
        return record[path]
    for end in (i for i, letter in enumerate(path) if letter == "."):
        if path[:end] in record:
            found = lookup(record[path[:end]], path[end + 1 :], _MISSING)
            if found is not _MISSING:
                return found
    return missing


def parsed_cell(value: Any, *begins: str) -> Any:
    """Returns the JSON value of a text that begins with one of ``begins``, and any other value
    unchanged. Raises RecordError."""
    if not isinstance(value, str) or not value.lstrip().startswith(begins):
        return value
    try:
        return load_json(value)
    except RecordError as error:
        raise RecordError("(cell)", error.expected, value) from error
    except RecursionError as error:
        raise RecordError("(cell)", "JSON that is not nested too deep", value) from error


def make_column_map(
    columns: Mapping[str, object] | str | Path,
    column: Iterable[str] = (),
    label: Iterable[str] = (),
    role: Iterable[str] = (),
) -> ColumnMap:
    """Returns the map of ``columns``, a mapping (or a YAML file of one) that can contain ``roles``
    and ``labels``. The texts replace single entries: columns such as ``id=conversation_id``, labels
    such as ``Qualität=overall:1..7``, roles such as ``Kunde=user``. Raises ConfigError."""
    if isinstance(columns, str | Path):
        try:
            stated = Path(columns).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"the column map {columns} cannot be read: {error}") from error
        columns = parse_yaml(stated, f"column map {columns}")
    if not isinstance(columns, Mapping):
        raise ConfigError(f"column map: expected a mapping such as id: ticket, not {columns!r}")
    fields: dict[str, Any] = dict(columns)
    roles, labels = fields.pop("roles", None) or {}, fields.pop("labels", None) or {}
    if not (isinstance(roles, dict) and isinstance(labels, dict)):
        raise ConfigError("column map: roles and labels are mappings such as Kunde: user")
    roles, labels = dict(roles), dict(labels)
    for given, option, target, example in (
        (column, "--column", fields, "id=conversation_id"),
        (role, "--role", roles, "Kunde=user"),
        (label, "--label", labels, "Quality=overall:1..5"),
    ):
        for pair in given:
            split = pair.partition if option == "--column" else pair.rpartition
            name, _, value = map(str.strip, split("="))
            if not (name and value):
                raise ConfigError(f"{option} {pair!r}: not of the form {example}")
            target[name] = value
    for name, value in fields.items():
        if name not in _FIELDS:
            hint = f"{did_you_mean(str(name), _FIELDS)}fields: {', '.join(_FIELDS)}"
            raise ConfigError(f"column map: no field {name!r}", hint=hint)
        if not isinstance(value, str) or not value:
            raise ConfigError(f"column map: {name!r} needs the name of a column, not {value!r}")
    for word, value in roles.items():
        if value not in _SPEAKERS:
            hint = f"--role {word}=user (in YAML: {word}: user)"
            problem = f"role {word!r}: {value!r} is none of {', '.join(_SPEAKERS)}"
            raise ConfigError(problem, hint=hint)
    rated: dict[str, tuple[str, Scale | None]] = {}
    raters: dict[str, str] = {}
    for name, value in labels.items():
        match = _LABEL.match(value.strip()) if isinstance(value, str) else None
        if match is None:
            problem = f"{value!r} is not of the form DIMENSION[:LOW..HIGH][@ANNOTATOR]"
            hint = f"--label {name}=overall:1..5 (in YAML: {name}: overall:1..5)"
            raise ConfigError(f"label {name!r}: {problem}", hint=hint)
        scale = None if match[2] is None else (float(match[2]), float(match[3]))
        if scale is not None and not scale[0] < scale[1]:
            raise ConfigError(f"label {name!r}: {scale[0]:g} is not below {scale[1]:g}")
        rated[str(name)] = (match[1].strip(), scale)
        raters |= {str(name): match[4].strip()} if match[4] else {}
    places = [(raters[name], rated[name][0]) for name in raters]
    if raters and (len(raters) < len(rated) or len({*places}) < len(places)):
        problem = "labels: @ANNOTATOR is on all columns or on none, once for each dimension"
        hint = "--label R1=overall:1..5@R1 --label R2=overall:1..5@R2 (in YAML: R1: overall...)"
        raise ConfigError(problem, hint=hint)
    return ColumnMap(fields, {str(word): value for word, value in roles.items()}, rated, raters)


def _rating(column: str, value: object, folded: Counter[str]) -> float | None:
    """Returns the number of a cell, None if nobody gave a rating; ``folded`` counts what stands for
    a missing one. Raises RecordError for anything else."""
    expected = "a number, or several with ; between"
    cell = as_text("" if value is None else value)
    word = text(column, cell, expected).strip()
    if not word:
        return None
    if _NO_RATING.fullmatch(word):
        folded[f"missing ratings ({word})"] += 1
        return None
    try:
        rating = float(_FLAGS.get(word.lower(), word.replace(",", ".")))
    except ValueError as error:
        raise RecordError(column, expected, word) from error
    return number(column, rating, expected)


def labels_of(record: Mapping[str, object], columns: ColumnMap, folded: Counter[str]) -> Fields:
    """Returns labels (dimension -> ratings), scales and annotators of the label columns, as in the
    line format. A cell holds a number, a list, or text with ; between numbers; an empty cell, or a
    word such as NA, is no rating. Raises RecordError, and ConfigError for a rating outside of the
    stated scale."""
    labels: dict[str, list[float | None]] = {}
    scales: dict[str, list[float] | None] = {}
    people = [*dict.fromkeys(columns.raters.values())]
    for column, (dimension, bounds) in columns.labels.items():
        cell = lookup(record, column, lookup(record, f"labels.{column}"))
        cells = cell.split(";") if isinstance(cell, str) else cell
        cells = cells if isinstance(cells, list) else [cell]
        ratings = [_rating(column, value, folded) for value in cells]
        for value in ratings:
            if value is None or bounds is None:
                continue
            low, high = bounds
            if not low <= value <= high:
                wide = f"{min(low, value):g}..{max(high, value):g}"
                raise ConfigError(
                    f"column {column!r}: {value:g} is outside of its scale, {low:g} to {high:g}",
                    hint=f"--label {column}={dimension}:{wide} if the scale is wrong (in YAML: "
                    f"{column}: {dimension}:{wide}); else correct the cell",
                )
        if column in columns.raters:
            if len(ratings) > 1:
                raise RecordError(column, "one rating: the column is of one annotator", cell)
            (rating,), ratings = ratings, labels.pop(dimension, [None] * len(people))
            ratings[people.index(columns.raters[column])] = rating
        labels.setdefault(dimension, []).extend(ratings)
        # A row in the line format states its scales.
        scale = list(bounds) if bounds else lookup(record, f"scales.{column}")
        other = scales.get(dimension)
        if other is not None and scale is not None and other != scale:
            raise RecordError(column, f"one scale of {dimension} ({other})", scale)
        scales[dimension] = scale or other
    # A missing rating keeps its place, which is that of its annotator in other rows.
    labels = {name: ratings for name, ratings in labels.items() if {*ratings} != {None}}
    scales = {name: scales[name] for name in labels}
    if not people and labels:
        column = columns.fields.get("annotator") or find_key(record, _ANNOTATORS) or ""
        cell = as_text(lookup(record, column))
        people = cell.split(";") if isinstance(cell, str) else cell or []
        count = max(map(len, labels.values()))
        if "annotator" in columns.fields and len(people) != count:
            raise RecordError(column, f"names of {count} annotators, with ; between", cell)
        people = people if len(people) == count else []
    named = {"annotators": [str(name).strip() for name in people]} if people and labels else {}
    return {"labels": labels, "scales": scales} | named


def checked_columns(
    columns: ColumnMap, path: str, rows: Iterator[tuple[int, object]], *, table: bool
) -> Iterator[tuple[int, object]]:
    """Yields ``rows``. Raises ConfigError if a column of the map is in no row: after the first row
    of a table, otherwise after many rows or at the end, because JSON leaves out empty fields."""
    unseen, there = {*columns.fields.values(), *columns.labels}, dict[str, None]()
    if "messages" in columns.fields or not {"role", "content"} <= columns.fields.keys():
        # A speaker and a text stand inside of the messages.
        unseen -= {columns.fields.get(name) for name in ("role", "content")}
    read = 0

    def require_none_unseen() -> None:
        for column in sorted(unseen):
            shown = ", ".join([*there][:40]) + (", ..." if len(there) > 40 else "")
            hint = f"{did_you_mean(column, there)}columns in the file: {shown or 'none'}"
            raise ConfigError(f"{path}: no column {column!r}", hint=hint)

    for read, (place, record) in enumerate(rows, 1):
        if unseen and isinstance(record, Mapping):
            there |= dict.fromkeys(map(str, record))
            unseen = {
                name
                for name in unseen
                if lookup(record, name, lookup(record, f"labels.{name}", _MISSING)) is _MISSING
            }
            if table or read >= 1000:
                require_none_unseen()
        yield place, record
    if read:
        require_none_unseen()


# -- forms -----------------------------------------------------------------------------------------


def form_of(record: object, columns: ColumnMap) -> str | None:
    """Returns the form of a row, a key of FORMS; None if no form fits."""
    if isinstance(record, list):
        are_messages = record and all(isinstance(item, Mapping) for item in record)
        return "messages" if are_messages else None
    if not isinstance(record, Mapping):
        return None
    mapped = columns.fields
    column, form = messages_column(record, columns)
    if "messages" in mapped:
        return form
    if "role" in mapped and "content" in mapped:
        return "turns"
    if "prompt" in mapped or "response" in mapped:
        return form if form and "prompt" not in mapped else "prompts"
    if trace_form := _trace_form(record):
        return trace_form
    if is_released(record):
        return "medal"
    if form is not None:
        return "line" if form == "messages" and column in ("dialogue", "turns") else form
    return _form_by_names(record, columns)


def messages_column(
    record: Mapping[str, object], columns: ColumnMap, names: Iterable[str] = MESSAGES
) -> tuple[str, str | None]:
    """Returns the column of a chat's messages and their form, ``messages`` or ``transcript``; the
    form is None if there are none."""
    column = columns.fields.get("messages")
    if column is not None:
        cell = lookup(record, column)
        is_transcript = isinstance(cell, str) and cell.lstrip()[:1] not in ("[", "{")
        return column, "transcript" if is_transcript else "messages"
    keys = plain_names(tuple(record))
    for key in (keys[name] for name in names if name in keys):
        form = _form_of_messages(record[key])
        if form is not None:
            return key, form
    return "", None


def _form_of_messages(value: object) -> str | None:
    if isinstance(value, str):
        first = SPOKEN.match(value.lstrip().partition("\n")[0])
        if first is not None and first["name"].strip().lower() in ROLE_WORDS:
            return "transcript"
        return "messages" if value.lstrip().startswith("[") and '"' in value else None
    items = value if isinstance(value, list) else []
    are_messages = items and all(isinstance(item, Mapping) or pair_in(item) for item in items)
    return "messages" if are_messages else None


def _trace_form(record: Mapping[str, object]) -> str | None:
    # A span of a GenAI call, or an export of spans in OTLP's JSON.
    names = record.get("attributes")
    if isinstance(names, list):
        names = [each.get("key") for each in names if isinstance(each, Mapping)]
    names = names if isinstance(names, list | Mapping) else record
    exported = isinstance(record.get("resourceSpans"), list)
    if exported or any(str(name).startswith("gen_ai.") for name in names):
        return "otel"
    keys = plain_names(tuple(record)).keys()
    if {"run_type", "inputs", "outputs"} <= keys:
        return "langsmith"
    return "langfuse" if any(known <= keys for known in _LANGFUSE) else None


def _form_by_names(record: Mapping[str, object], columns: ColumnMap) -> str | None:
    if any(isinstance(record.get(name), list) for name in ("input", "output")):
        return "prompts"
    if record.get("dialogue") is not None or isinstance(record.get("turns"), list):
        return "line"

    def has(field: str, names: tuple[str, ...]) -> bool:
        return field in columns.fields or find_key(record, names) is not None

    if has("role", ROLES) and has("content", CONTENTS) and has("id", CONVERSATIONS):
        return "turns"
    if has("prompt", PROMPTS) and has("response", RESPONSES):
        return "prompts"
    if "dialogue" in record:
        return "line"
    return "messages" if [] in (record.get(name) for name in MESSAGES) else None


def chats_within(record: object, columns: ColumnMap) -> list[Any] | None:
    """Returns the chats of a value that is a list of chats, or an object with just one list, of
    chats: ``{"data": [...]}``. None for any other value."""
    fields = record if isinstance(record, Mapping) else {"": record}
    lists = [(name, value) for name, value in fields.items() if isinstance(value, list)]
    if len(lists) != 1 or not lists[0][1]:
        return None
    ((name, items),) = lists
    chat = items[0]
    if isinstance(chat, Mapping) and find_key(chat, ROLES) is not None:
        return None  # a message
    if isinstance(record, Mapping):
        mapped = lookup(record, columns.fields.get("messages", ""), _MISSING)
        if mapped is not _MISSING or form_of(record, columns) not in (None, "messages"):
            return None
    is_history = name != "conversations" and name in MESSAGES and pair_in(chat)
    is_chat = isinstance(chat, list) or form_of(chat, columns) is not None
    return items if is_chat and not is_history else None


def is_released(record: Mapping[str, object]) -> bool:
    """Whether ``record`` is in MEDAL's released form: its ``models`` are a list, or it has no id
    but a scene and a source that ends in the number of a context."""
    if isinstance(record.get("models"), list):
        return True
    scene, source = record.get("scene"), record.get("source")
    is_row = record.get("id") is None and isinstance(scene, str) and isinstance(source, str)
    return is_row and CONTEXT_NUMBER.search(str(source)) is not None


def normal_row(record: object, form: str, columns: ColumnMap, folded: Counter[str]) -> Fields:
    """Returns ``record`` with the fields of the line format, and ``messages`` in place of
    ``dialogue`` unless it has turns already. Unknown fields become metadata (``meta``); ``folded``
    counts missing ratings. Raises RecordError."""
    if isinstance(record, list):
        record = {"messages": record}
    if not isinstance(record, Mapping):
        raise RecordError("(line)", "a JSON object", record)
    rated = labels_of(record, columns, folded) if columns.labels else {}
    row: Fields
    if form in ("line", "medal"):
        row = dict(record)
        for name in _JSON_FIELDS:
            if isinstance(row.get(name), str):
                row[name] = parsed_cell(row[name], "{", "[")
        for name in {"id", "lang", "source", "split", "group"} & columns.fields.keys():
            row[name] = as_text(columns.get(record, name))
        for name, own in rated.items() if rated.get("labels") else ():
            there = row.get(name)
            row[name] = {**there, **own} if isinstance(there, dict) else own
        return row
    used: set[str] = set(columns.labels)  # keys whose values are not metadata

    def take(field: str, names: tuple[str, ...] = ()) -> Any:
        value = _taken(record, columns, field, names, used)
        return value if field == "id" else as_text(value)  # a flag is no id

    def taken_object(name: str) -> Fields:
        value = parsed_cell(record.get(name), "{")
        if not isinstance(value, dict):
            return {}
        used.add(name)
        return value

    row = {
        "id": take("id", IDS),
        "lang": take("lang", LANGUAGES),
        "source": take("source", ("source",) * isinstance(as_text(record.get("source")), str)),
    }
    system: Any = parsed_cell(take("system", SYSTEMS), "[{")  # Anthropic's blocks, in a cell
    named = names_system(record, columns)
    row["messages"] = [{"role": "system", "content": system}] if system and not named else []
    row["messages"] += _talk(record, form, columns, used, folded)
    row["models"] = models = dict(taken_object("models"))
    chatbot = take("chatbot", CHATBOTS) or (system if named else None)
    user = take("user")
    for role, model in (("assistant", chatbot), ("user", user)):
        if isinstance(model, str) and model:
            models.setdefault(role, model)
    row["context"] = taken_object("context")
    for name in ("labels", "scales"):
        rated[name] = taken_object(name) | rated.get(name, {})
    row |= rated
    for name in ("split", "group"):  # of another kind, it is metadata of the user's own
        value = columns.get(record, name) if name in columns.fields else record.get(name)
        value = value if isinstance(value, bool) else as_text(value)
        if isinstance(value, str):
            row[name] = value
            used.add(columns.fields.get(name, name))
    meta = taken_object("meta")
    for message in row["messages"] if form == "transcript" else ():
        if time := message.pop("time", None):
            meta.setdefault("time", time)
    row["meta"] = meta = {k: v for k, v in record.items() if k not in used and v is not None} | meta
    if "time" in columns.fields:
        meta.pop(columns.fields["time"], None)
        if (time := columns.get(record, "time")) is not None:
            meta["time"] = time
    return {key: value for key, value in row.items() if value not in (None, {}, [])}


def names_system(record: Mapping[str, object], columns: ColumnMap) -> bool:
    """Whether the column ``system`` holds the name of a chatbot, one word, and not a prompt."""
    system = None if "system" in columns.fields else as_text(record.get("system"))
    return isinstance(system, str) and _NAMED.fullmatch(system.strip()) is not None


def _taken(
    record: Mapping[str, object],
    columns: ColumnMap,
    field: str,
    names: tuple[str, ...],
    used: set[str],
) -> Any:
    """Returns the value of ``field`` by the column map, else of the first of ``names`` that the
    record has, and adds the key to ``used``."""
    if field in columns.fields:
        used.add(columns.fields[field])
        return columns.get(record, field)
    key = find_key(record, names)
    if key is None:
        return None
    used.add(key)
    return record[key]


def _talk(
    record: Mapping[str, object],
    form: str,
    columns: ColumnMap,
    used: set[str],
    folded: Counter[str],
) -> list[Any]:
    """Returns the messages of a row, and those of a question and an answer in columns of their own
    that continue them. Adds the columns to ``used``."""
    names = HISTORIES if form == "prompts" else MESSAGES
    column, column_form = messages_column(record, columns, names)
    before: list[Any] = []
    if form != "prompts" or column_form:
        column = column or find_key(record, names) or ""
        used.add(column)
        messages = _messages(lookup(record, column), column_form or form, columns)
        before = messages_in_order(messages, folded)
    if form in GROUPED:
        return before
    return before + _last_exchange(record, columns, used, before)


def _last_exchange(
    record: Mapping[str, object],
    columns: ColumnMap,
    used: set[str],
    before: list[Any],
) -> list[Any]:
    """Returns the messages of a question and its answer, in columns of their own, that continue
    those ``before``. Adds the columns that are read to ``used``."""
    free = {key: value for key, value in record.items() if key not in used}
    # Beside messages the last names, ``user`` and ``assistant``, are ids.
    end = -1 if before else None
    question_column = columns.fields.get("prompt") or find_key(free, PROMPTS[:end]) or ""
    answer_column = columns.fields.get("response") or find_key(free, RESPONSES[:end]) or "choices"
    question = _question(record, question_column, used)
    answer = _answer(record, answer_column)
    if before and question is None and answer is None:
        return []
    turns = turns_in(before)
    if turns and question is None and turns[-1][0] == "assistant" and not isinstance(answer, str):
        return []  # such as the grades of the answer
    asked = _said(question_column, question, "user")
    answered = _said(answer_column, answer, "assistant")
    if not before:
        used |= {question_column, answer_column}
        return asked + answered
    messages = continuation(turns, asked, answered)
    turns += turns_in(messages)
    for column, exchange in ((question_column, asked), (answer_column, answered)):
        if set(turns_in(exchange)) <= set(turns):
            used.add(column)
    return messages


def _question(record: Mapping[str, object], column: str, used: set[str]) -> Any:
    """Returns the value of a question. An instruction and its input are one turn, as trainers on
    Alpaca's data read them."""
    value = lookup(record, column)
    further_column = find_key(record, ("input",)) or ""
    further = as_text(record.get(further_column))
    if column.lower() != "instruction" or not isinstance(value, str) or not further:
        return value
    used.add(further_column)
    return f"{value}\n{further}"


def _answer(record: Mapping[str, object], column: str) -> Any:
    """Returns the value of an answer; of the choices of a logged request, the first message."""
    value = lookup(record, column)
    if column != "choices":
        return value
    choices = parsed_cell(value, "[{")
    are_messages = isinstance(choices, list) and choices and isinstance(choices[0], Mapping)
    return choices[:1] if are_messages else None


def _said(column: str, value: object, role: str) -> list[Any]:
    """Returns the messages of a cell. JSON in a text can be the answer itself, if it is no message
    and no response of a server."""
    value = parsed_cell(value, "[{", *_RESPONSES)
    return [] if value in (None, [], {}) else messages_within(column, value, role)


def _messages(value: Any, form: str, columns: ColumnMap) -> list[Any]:
    """Returns messages with the fields ``role`` and ``content``, whatever the names in the row."""
    if isinstance(value, str) and form == "transcript":
        value = messages_of_transcript(value, columns.roles)
    value = parsed_cell(value, "")
    if isinstance(value, Mapping) and "messages" in value:
        value = value["messages"]
    if not isinstance(value, list) or not value:
        raise RecordError("messages", "a non-empty list of {role, content}", value)
    messages: list[Any] = []
    for index, message in enumerate(without_pairs(value)):
        if not isinstance(message, Mapping):
            messages.append(message)  # read_messages refuses it
            continue
        inner = message.get("data", message.get("kwargs"))  # LangChain's
        if "content" not in message and isinstance(inner, Mapping):
            message = {"type": message.get("type"), **inner}
        found = dict(message)
        role = _taken(message, columns, "role", ROLES, set())
        if role is not None:
            found["role"] = role_of(role, columns.roles, f"messages[{index}].role")
        has_content = message.get("content") not in EMPTY or "parts" in message
        if "content" in columns.fields or not (has_content or role is None):
            filled = {name: value for name, value in message.items() if value not in EMPTY}
            found["content"] = _taken(filled, columns, "content", CONTENTS, set())
        messages.append(found)
    return messages


# -- transcripts: lines such as ``User: Hi!`` ------------------------------------------------------


def transcript_rows(stream: IO[str], roles: Mapping[str, str] = {}) -> Iterator[tuple[int, object]]:
    """Yields each chat of a file as (number of its first line, ``{"transcript": text}``). A line
    such as ``---``, or ``=== Chat 2 ===`` (its ``heading``), separates two chats if the next line
    is that of a speaker in ``ROLE_WORDS`` or ``roles`` or of the first one in the file; a heading
    (``# Chat 2``) may be between. Else it is text of an answer."""
    text = stream.read(_MOST + 1)
    if len(text) > _MOST:
        raise ConfigError(f"a transcript of more than {_MOST:,} characters", hint="cut it in parts")
    first, part, lines = 0, "", text.splitlines()
    heading: dict[str, str] = {}
    names = [(found := SPOKEN.match(line)) and found["name"].strip().lower() for line in lines]
    known = {word.lower() for word in (*ROLE_WORDS, *roles)} | {*filter(None, names[:1])}
    near = [True, True]  # whether a speaker is next: at once, and after lines such as Date: ...
    parting = set[int]()
    for place, line in reversed([*enumerate(lines, 1)]):
        name = names[place - 1]
        if rule := RULE.fullmatch(line):
            parting |= {place} if near[rule["heading"] is not None] else set()
        elif name in known:
            near = [True, True]
        elif line.strip() and not line.startswith("#"):
            near = [False, near[1] and name is not None]
    for place, line in enumerate([*lines, ""], 1):
        if place in parting or place > len(lines):
            if part:
                yield first, {"transcript": part} | heading
            found = RULE.fullmatch(line)
            part, heading = "", {"heading": found["heading"]} if found and found["heading"] else {}
        elif part or line.strip():
            first = first if part else place
            part += f"{line}\n"


def messages_of_transcript(text: str, roles: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns messages with ``role`` (the speaker's name in the text) and ``content``.

    A line begins a turn if its first word is a known name of a speaker or is in ``roles``; other
    lines (``Note: ...`` in an answer) belong to the turn before. Raises RecordError if the user or
    the assistant is missing.
    """
    known: dict[str, str] = {word.lower(): role for word, role in {**ROLE_WORDS, **roles}.items()}
    names: dict[str, None] = {}
    messages: list[dict[str, str]] = []
    for line in thoughts_on_one_line(text).splitlines():
        found = SPOKEN.match(line)
        name = found["name"].strip() if found else ""
        if found:
            names[name] = None
        if found and name.lower() in known:
            time = {"time": found["time"]} if found["time"] else {}
            messages.append({"role": name, "content": found["text"]} | time)
        elif messages:
            messages[-1]["content"] += f"\n{line}"
    if not {"user", "assistant"} <= {known.get(name.lower()) for name in names}:
        pairs = zip((*names, "Anna", "Bot")[:2], ("user", "assistant"), strict=True)
        hint = " ".join(f'--role "{name}={role}"' for name, role in pairs)
        expected = f"at least one speaker known as a user and one as an assistant ({hint})"
        raise RecordError("speaker", expected, ", ".join([*names][:9]))
    return [message | {"content": message["content"].strip()} for message in messages]
