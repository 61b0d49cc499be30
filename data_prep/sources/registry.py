"""All sources by name, and ``load_spec``: the rows of a spec such as ``dstc9:train``.

Facts on the sources (terms, addresses, checksums) are in configs/sources.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from medal_judges.config import read_yaml
from medal_judges.data_prep.sources import dstc12, hub_sets, public
from medal_judges.data_prep.sources.dstc11 import read_dstc11
from medal_judges.data_prep.sources.source import Source, SourceFile, fetch
from medal_judges.errors import SourceError, did_you_mean
from medal_judges.reading.containers import ENDINGS, HUB
from medal_judges.reading.dialogues import (
    DEFAULT_READING,
    ReadingReport,
    ReadOptions,
    labelled_of,
    read_labelled,
)
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.files import DATA_VARIABLE, cache_folder, data_folder
from medal_judges.storage.jsonl import STDIN

# Functions that configs/sources.yaml names, and the readers of packages.
_FUNCTIONS: Mapping[str, Callable[..., Iterator[LabelledDialogue]]] = {
    "fed_dialogues": partial(public.read_fed, level="dialogue"),
    "fed_turns": partial(public.read_fed, level="turn"),
    "conture_dialogues": partial(public.read_conture, level="dialogue"),
    "conture_turns": partial(public.read_conture, level="turn"),
    "dialogue_eval": public.read_dialogue_eval,
    "topical_chat": public.read_topical_chat,
    "xdial_fed": public.read_xdial_fed,
    "halve": dstc12.halve,
    "map_rows": lambda rows: map(dstc12.to_dstc12, rows),
    "map_and_halve": lambda rows: dstc12.halve(map(dstc12.to_dstc12, rows)),
    "chitchat": lambda offline, reading: public.read_chitchat(),
    "medal": hub_sets.read_medal,
    "soda_eval": hub_sets.read_soda_eval,
    "dstc11": read_dstc11,
}


def _source(name: str, facts: dict[str, Any]) -> Source:
    """The source of an entry of configs/sources.yaml, with the functions that it names."""
    parts = []
    for part in facts.pop("parts", ()):
        functions = {key: _FUNCTIONS.get(part.get(key)) for key in ("read", "view")}
        parts.append(SourceFile(**part | functions))
    package = _FUNCTIONS[name] if facts.get("package") else None
    return Source(
        name=name,
        parts=parts,
        package_read=package,
        **facts,
    )


SOURCES = {name: _source(name, facts) for name, facts in read_yaml("sources").items()}
SPLITS = ("train", "validation", "test")
LEVELS = ("dialogue", "turn")
_ENDINGS = "|".join(map(re.escape, ENDINGS))
_FILE_SPEC = re.compile(
    rf"(?P<file>.+?(?:{_ENDINGS})(?:\.gz|\.zst)?)(?::(?P<words>.*))?",
    re.DOTALL | re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class DataSpec:
    """``name[:part][:level][:split]``, a file with an optional ``:split``, ``-``, or
    ``hf:ID[:config]:split``."""

    name: str
    part: str | None = None
    level: str | None = None
    split: str | None = None

    @property
    def is_file(self) -> bool:
        return self.name not in SOURCES


def parse_spec(text: str) -> DataSpec:
    """DataSpec of ``text``. Raises SourceError for an unknown source or word."""
    is_source = text.partition(":")[0] in SOURCES
    if (
        text == STDIN
        or text.startswith(HUB)
        or (not is_source and Path(text).is_file())
    ):
        return DataSpec(text)
    kinds: dict[str, str] = {}
    file = _FILE_SPEC.fullmatch(text)  # a path may contain colons
    if file:
        name = file["file"]
        words = file["words"].split(":") if file["words"] else []
    else:
        name, *words = text.split(":")
        kinds = {part.name: "part" for part in get_source(name).parts}
    kinds |= dict.fromkeys(LEVELS, "level") | dict.fromkeys(SPLITS, "split")
    fields = {}
    for word in words:
        if word not in kinds:
            guess = did_you_mean(word, list(kinds))
            raise SourceError(
                f"{text!r}: {word!r} is no part, level or split",
                hint=f"{guess}known: {', '.join(kinds)}",
            )
        fields[kinds[word]] = word
    return DataSpec(name, **fields)


def source_of(text: str) -> str:
    """The source or the file of a spec, without part, level and split."""
    if text.startswith(HUB):
        if text.count(":") > 1:
            return text.rpartition(":")[0]
        return text
    name = text.partition(":")[0]
    file = _FILE_SPEC.fullmatch(text)
    if name in SOURCES:
        return name
    if file:
        return file["file"]
    return text


def get_source(name: str) -> Source:
    """The source called ``name``. Raises SourceError with the nearest names."""
    if name not in SOURCES:
        guess = did_you_mean(name, SOURCES, 2)
        raise SourceError(
            f"no source {name!r}",
            hint=f"{guess}known: {', '.join(SOURCES)}; or the path of a file: {', '.join(ENDINGS)}",
        )
    return SOURCES[name]


def load_spec(text: str, **how: Any) -> list[LabelledDialogue]:
    """The rows of a spec, in file order. Arguments and errors are those of ``stream_spec``."""
    return list(stream_spec(text, **how))


def stream_spec(
    text: str,
    *,
    offline: bool | None = None,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
) -> Iterator[LabelledDialogue]:
    """Yields the rows of a spec; ``options`` apply to files.

    Raises SourceError that says where to put a missing file, and if no row has the requested split
    or level.
    """

    spec = parse_spec(text)
    splits: set[str] = set()
    is_empty = True
    for row in _all_rows(spec, offline, reading, options):
        splits.add(str(row.split))
        if spec.split in (None, row.split) and spec.level in (None, row.level):
            is_empty = False
            yield row
    if splits and is_empty:
        missing = " and ".join(filter(None, (spec.level, spec.split)))
        raise SourceError(
            f"{text!r}: no row is {missing}; its splits: {', '.join(sorted(splits))}"
        )


def _all_rows(
    spec: DataSpec,
    offline: bool | None,
    reading: ReadingReport | None,
    options: ReadOptions,
) -> Iterator[LabelledDialogue]:
    """Yields the rows of a spec in all splits."""
    if spec.is_file:
        yield from labelled_of(spec.name, options, reading)
        return
    source = get_source(spec.name)
    if source.package_read is not None:
        hint = f"give a file in the line format instead of {source.name}"
        yield from _in_form(
            source.package_read(offline, reading), source.package, source, hint
        )
    for part in _parts(source, spec):
        yield from read_part(source, part, offline=offline, reading=reading)


def _parts(source: Source, spec: DataSpec) -> list[SourceFile]:
    """The parts of a source that a spec asks for."""
    parts = []
    for part in source.parts:
        is_chosen = part.name == spec.part or (
            spec.part is None and not part.named_only
        )
        has_split = not part.splits or spec.split is None or spec.split in part.splits
        if is_chosen and has_split and spec.level in (None, part.level):
            parts.append(part)
    if (
        spec.part is None
        and spec.level is None
        and len({part.level for part in parts}) > 1
    ):
        # a set of dialogues by default, not of dialogues and turns
        parts = [part for part in parts if part.level == "dialogue"]
    return parts


def read_part(
    source: Source,
    part: SourceFile,
    *,
    offline: bool | None = None,
    reading: ReadingReport | None = None,
) -> Iterator[LabelledDialogue]:
    """Yields the rows of one part, from the line format in $MEDAL_JUDGES_DATA or the public file.

    Raises SourceError if neither is here, or the public file is not the expected one.
    """
    rows = _part_rows(source, part, offline, reading)
    yield from rows if part.view is None else part.view(rows)


def _part_rows(
    source: Source,
    part: SourceFile,
    offline: bool | None,
    reading: ReadingReport | None,
) -> Iterator[LabelledDialogue]:
    """Yields the rows of a part before its view. The line format comes before the public file."""
    hint = (
        f"put {part.line_file} (line format) in the folder that ${DATA_VARIABLE} names"
    )
    local = find_local(part)
    if local is not None and local.name == part.line_file:
        yield from read_labelled(local, reading=reading)
        return
    if part.read is None:
        problem = f"{source.name}: {part.line_file} is not here ({part.why})"
        raise SourceError(problem, hint=hint)
    try:
        path = fetch(part, offline=offline)
    except SourceError as error:
        raise SourceError(
            f"{source.name}: {error.message}", hint=f"{error.hint}; or {hint}"
        ) from error
    yield from _in_form(part.read(path), path, source, hint)


def _in_form(
    rows: Iterator[LabelledDialogue],
    origin: object,
    source: Source,
    hint: str,
) -> Iterator[LabelledDialogue]:
    """Yields ``rows``. Raises SourceError if what their reader expects is not there."""
    try:
        yield from rows
    except (
        LookupError,
        TypeError,
        ValueError,
        AttributeError,
        RecursionError,
    ) as error:
        problem = f"({type(error).__name__}: {error})"
        raise SourceError(
            f"{origin}: not in the public form of {source.name} {problem}", hint=hint
        ) from error


def files_of(text: str) -> list[Path]:
    """The local files of a spec; none for a package or a hub set."""
    spec = parse_spec(text)
    if spec.is_file:
        if spec.name == STDIN or spec.name.startswith(HUB):
            return []
        return [Path(spec.name)]
    parts = _parts(get_source(spec.name), spec)
    return [path for part in parts if (path := find_local(part)) is not None]


def find_local(part: SourceFile) -> Path | None:
    """The part's local file, line format first; None if there is none."""
    folder = data_folder()
    candidates = [folder / part.line_file] if folder else []
    if part.public_file:
        candidates.append(cache_folder() / part.public_file)
    return next((path for path in candidates if path.is_file()), None)


def sources_here() -> dict[str, bool]:
    """Whether a local file exists, for each source that has files."""
    is_here = {}
    for name, source in SOURCES.items():
        if source.parts:
            is_here[name] = any(map(find_local, source.parts))
    return is_here
