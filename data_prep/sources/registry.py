"""All data sets by name, and ``load_rows``: the rows of a text such as ``dstc9:train``.

configs/sources.yaml states the facts of each set, and names the reader of each public file."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from medal_judges.config import read_yaml
from medal_judges.data_prep.sources import dstc12, hub_sets, public
from medal_judges.data_prep.sources.source import (
    READERS,
    Rows,
    Source,
    SourceFile,
    fetch_file,
)
from medal_judges.errors import RecordError, SourceError, did_you_mean
from medal_judges.reading.containers import ENDINGS, HUB
from medal_judges.reading.dialogues import (
    DEFAULT_READING,
    ReadingReport,
    ReadOptions,
    read_labelled,
    stream_labelled,
)
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.files import DATA_VARIABLE, cache_folder, data_folder
from medal_judges.storage.jsonl import STDIN

_MODULES = (dstc12, hub_sets, public)  # they register their readers
SPLITS = ("train", "validation", "test")
LEVELS = ("dialogue", "turn")
_ENDINGS = "|".join(map(re.escape, ENDINGS))
_FILE_SPEC = re.compile(
    rf"(?P<file>.+?(?:{_ENDINGS})(?:\.gz)?)(?::(?P<words>.*))?",
    re.DOTALL | re.IGNORECASE,
)
SOURCES = {
    name: Source(name=name, **facts) for name, facts in read_yaml("sources").items()
}


class DataSpec(BaseModel):
    """The parts of a text that names data, such as ``fed:turn:test``.

    The text is ``SET[:part][:level][:split]`` for a known data set, ``PATH[:split]`` for a file,
    ``-`` for standard input, or ``hf:ID[:config]:split`` for the Hugging Face Hub.

    Attributes:
        name: The name of the data set, or the path of a file. For the Hub, the whole text.
        part: The part of the data set, such as ``topical`` of ``usr``. None if not named.
        level: ``dialogue`` for labels on whole dialogues, ``turn`` for labels on single replies.
            None if not named.
        split: ``train``, ``validation`` or ``test``. None for all splits.
    """

    name: str
    part: str | None = None
    level: str | None = None
    split: str | None = None

    @property
    def names_file(self) -> bool:
        return self.name not in SOURCES


def parse_spec(text: str) -> DataSpec:
    """Returns the parts of ``text``, which names data, such as ``fed:turn:test``. Raises
    SourceError if the data set, or a word after a colon, is unknown.
    """
    name, *words = text.split(":")
    is_whole = text == STDIN or text.startswith(HUB)
    if is_whole or (name not in SOURCES and Path(text).is_file()):
        return DataSpec(name=text)
    kinds: dict[str, str] = {}
    file = _FILE_SPEC.fullmatch(text)  # a path may contain colons
    if file:
        name = file["file"]
        words = file["words"].split(":") if file["words"] else []
    else:
        kinds = {part.name: "part" for part in get_source(name).parts}
    kinds |= dict.fromkeys(LEVELS, "level") | dict.fromkeys(SPLITS, "split")
    fields = {}
    for word in words:
        if word not in kinds:
            problem = f"{text!r}: {word!r} is not a part, level or split"
            hint = f"{did_you_mean(word, list(kinds))}Use one of: {', '.join(kinds)}"
            raise SourceError(problem, hint=hint)
        fields[kinds[word]] = word
    return DataSpec(name=name, **fields)


def source_name(text: str) -> str:
    """Returns the name of the data set, or the path of the file, in a text that names data.

    It is ``fed`` for ``fed:turn:test``. For the Hugging Face Hub, it is ``text`` without the split.

    Args:
        text: The data set or file, with or without a part, level and split.

    Raises:
        SourceError: The data set, or a word after a colon, is unknown.
    """
    if text.startswith(HUB) and text.count(":") > 1:
        return text.rpartition(":")[0]
    return parse_spec(text).name


def get_source(name: str) -> Source:
    """Returns the known data set called ``name``, such as ``fed``. Raises SourceError if there
    is none.
    """
    if name not in SOURCES:
        guess = did_you_mean(name, SOURCES, 2)
        hint = (
            f"{guess}Use one of: {', '.join(SOURCES)}, or a file ({', '.join(ENDINGS)})"
        )
        raise SourceError(f"no source {name!r}", hint=hint)
    return SOURCES[name]


def load_rows(text: str, **how: Any) -> list[LabelledDialogue]:
    """Returns the rows that ``text`` names, such as ``dstc9:train``, as a list.

    Args:
        text: A data set or a file, with or without a split.
        how: ``reading`` (a report that counts bad rows, which are then skipped) or ``options`` (how
            to read a file).

    Raises:
        SourceError: The data set is unknown or not available, or no row has the split or the level
            in ``text``.
        DataError: A file is missing or damaged, or a row is bad and no report counts it.
    """
    return list(stream_rows(text, **how))


def stream_rows(
    text: str,
    *,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
) -> Rows:
    """Yields the rows that ``text`` names, such as ``dstc9:train`` or ``my.jsonl``.

    Args:
        reading: A report that counts bad rows, which are then skipped. None: they raise errors.
        options: How to read a file. Not used for a known data set.

    Raises:
        SourceError: The data set is unknown or not available, or no row has the split or the level
            (``turn`` or ``dialogue``) in ``text``.
        DataError: A file is missing or damaged, or a row is bad and there is no ``reading``.
    """
    spec = parse_spec(text)
    splits: set[str] = set()
    is_empty = True
    for row in _rows_in_all_splits(spec, reading, options):
        splits.add(str(row.split))
        if spec.split in (None, row.split) and spec.level in (None, row.level):
            is_empty = False
            yield row
    if splits and is_empty:
        missing = " and ".join(filter(None, (spec.level, spec.split)))
        known = ", ".join(sorted(splits))
        raise SourceError(
            f"{text!r}: no row is {missing}. Use one of its splits: {known}"
        )


def _rows_in_all_splits(
    spec: DataSpec, reading: ReadingReport | None, options: ReadOptions
) -> Rows:
    """Yields the rows of the data that ``spec`` names, whatever their split. From a file, rows of
    both levels (``turn`` and ``dialogue``) are yielded.

    Args:
        reading: A report, in which bad rows are counted.
        options: How to read a file. Not used for a known data set.
    """
    if spec.names_file:
        yield from stream_labelled(spec.name, options, reading)
        return
    source = get_source(spec.name)
    if source.package is not None:
        hint = f"Give a file in the line format in place of {source.name}"
        yield from _rows_or_source_error(
            READERS[source.name](), source.package, source, hint
        )
    for part in _select_parts(source, spec):
        yield from _read_part(source, part, reading)


def _select_parts(source: Source, spec: DataSpec) -> list[SourceFile]:
    """Returns the files of ``source`` to read for ``spec``. Files without the split in ``spec`` are
    left out.

    If ``spec`` names neither a part nor a level, files with labels on turns are left out if there
    are files with labels on whole dialogues.
    """
    parts = []
    for part in source.parts:
        is_chosen = spec.part == part.name or not (spec.part or part.named_only)
        has_split = not (part.splits and spec.split) or spec.split in part.splits
        if is_chosen and has_split and spec.level in (None, part.level):
            parts.append(part)
    dialogues = [part for part in parts if part.level == "dialogue"]
    if spec.part is None and spec.level is None and dialogues:
        return dialogues
    return parts


def _read_part(source: Source, part: SourceFile, reading: ReadingReport | None) -> Rows:
    """Returns the rows of the file ``part`` of ``source``.

    A copy converted to this project's JSONL, in $MEDAL_JUDGES_DATA, is preferred to the file as
    published.

    Args:
        reading: A report, in which bad rows are counted.

    Raises:
        SourceError: Neither file is available, or the published file has an unexpected format.
    """
    hint = f"Put {part.line_file} (line format) into the folder that ${DATA_VARIABLE} names"
    local = find_local_file(part)
    if local is not None and local.name == part.line_file:
        rows: Rows = read_labelled(local, reading=reading)
    elif part.read is None:
        problem = f"{source.name}: {part.line_file} is not here ({part.why})"
        raise SourceError(problem, hint=hint)
    else:
        path = fetch_file(part)
        rows = _rows_or_source_error(READERS[part.read](path), path, source, hint)
    if part.view is None:
        return rows
    return READERS[part.view](rows)


def _rows_or_source_error(
    rows: Iterable[LabelledDialogue], origin: object, source: Source, hint: str
) -> Rows:
    """Yields ``rows``. If their reader fails, raises SourceError, because the data has another form
    than expected.

    Args:
        origin: The file or package, for the message.
        source: The data set, for the message.
        hint: What the user can do instead, for the message.
    """
    try:
        yield from rows
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecordError,
    ) as error:
        problem = f"not in the public form of {source.name} ({error!r})"
        raise SourceError(f"{origin}: {problem}", hint=hint) from error


# -- files -----------------------------------------------------------------------------------------


def find_local_file(part: SourceFile) -> Path | None:
    """Returns the local path of ``part``: the copy converted to JSONL in $MEDAL_JUDGES_DATA,
    otherwise the published file in the cache, otherwise None."""
    folder = data_folder()
    candidates = []
    if folder:
        candidates.append(folder / part.line_file)
    if part.public_file:
        candidates.append(cache_folder() / part.public_file)
    return next((path for path in candidates if path.is_file()), None)
