"""All sources by name, and ``load_spec``: the rows of a spec such as ``dstc9:train``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medal_judges.data_prep.sources.abceval import ABCEVAL
from medal_judges.data_prep.sources.cache import fetch
from medal_judges.data_prep.sources.chitchat import CHITCHAT
from medal_judges.data_prep.sources.conture import CONTURE
from medal_judges.data_prep.sources.dialogue_eval import DIALOGUE_EVAL
from medal_judges.data_prep.sources.dstc9 import DSTC9
from medal_judges.data_prep.sources.dstc12 import DSTC12
from medal_judges.data_prep.sources.fed import FED
from medal_judges.data_prep.sources.medal import MEDAL
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.data_prep.sources.usr import USR
from medal_judges.data_prep.sources.xdial import XDIAL
from medal_judges.errors import SourceError, did_you_mean
from medal_judges.reading.containers import ENDINGS, HUB
from medal_judges.reading.dialogues import labelled_of, read_labelled
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.files import DATA_VARIABLE, cache_folder, data_folder
from medal_judges.storage.jsonl import STDIN

SOURCES = {
    source.name: source
    for source in (CHITCHAT, MEDAL, FED, CONTURE, DSTC9, DSTC12, DIALOGUE_EVAL, USR, XDIAL, ABCEVAL)
}
SPLITS = ("train", "validation", "test")
LEVELS = ("dialogue", "turn")
_ENDINGS = "|".join(map(re.escape, ENDINGS))
_FILE_SPEC = re.compile(
    rf"(?P<file>.+?(?:{_ENDINGS})(?:\.gz|\.zst)?)(?::(?P<words>.*))?", re.DOTALL | re.IGNORECASE
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
    known = text.partition(":")[0] in SOURCES
    if text == STDIN or text.startswith(HUB) or (not known and Path(text).is_file()):
        return DataSpec(text)
    file = _FILE_SPEC.fullmatch(text)  # a path may contain colons
    if file:
        name, parts = file["file"], []
        words = file["words"].split(":") if file["words"] else []
    else:
        name, *words = text.split(":")
        parts = [part.name for part in get_source(name).parts]
    kinds = dict.fromkeys(parts, "part") | dict.fromkeys(LEVELS, "level")
    kinds |= dict.fromkeys(SPLITS, "split")
    if "" in words or (unknown := next((w for w in words if w not in kinds), None)) is not None:
        raise _unknown_word(text, "" if "" in words else str(unknown), list(kinds))
    return DataSpec(name, **{kinds[word]: word for word in words})


def source_of(text: str) -> str:
    """The source or the file of a spec, without part, level and split."""
    if text.startswith(HUB):
        return text.rpartition(":")[0] if text.count(":") > 1 else text
    name, file = text.partition(":")[0], _FILE_SPEC.fullmatch(text)
    if name in SOURCES:
        return name
    return file["file"] if file else text


def _unknown_word(text: str, word: str, known: list[str]) -> SourceError:
    guess = did_you_mean(word, known)
    return SourceError(
        f"{text!r}: {word!r} is no part, level or split",
        hint=f"{guess}known: {', '.join(known)}",
    )


def get_source(name: str) -> Source:
    """The source called ``name``. Raises SourceError with the nearest names."""
    if name not in SOURCES:
        guess = did_you_mean(name, SOURCES, 2)
        raise SourceError(
            f"no source {name!r}",
            hint=f"{guess}known: {', '.join(SOURCES)}; or the path of a file: {', '.join(ENDINGS)}",
        )
    return SOURCES[name]


def load_spec(
    text: str,
    *,
    offline: bool | None = None,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
) -> list[LabelledDialogue]:
    """The rows of a spec, in file order. Raises as ``stream_spec``."""
    return list(stream_spec(text, offline=offline, reading=reading, options=options))


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
    found = False
    for row in _rows(spec, offline, reading, options):
        splits.add(str(row.split))
        if spec.split in (None, row.split) and spec.level in (None, row.level):
            found = True
            yield row
    if splits and not found:
        wanted = " and ".join(w for w in (spec.level, spec.split) if w)
        raise SourceError(f"{text!r}: no row is {wanted}; its splits: {', '.join(sorted(splits))}")


def _rows(
    spec: DataSpec, offline: bool | None, reading: ReadingReport | None, options: ReadOptions
) -> Iterator[LabelledDialogue]:
    if spec.is_file:
        yield from labelled_of(spec.name, options, reading)
        return
    source = get_source(spec.name)
    if source.package_read is not None:
        yield from source.package_read(offline, reading)
    for part in _parts(source, spec):
        yield from read_part(source, part, offline=offline, reading=reading)


def _parts(source: Source, spec: DataSpec) -> list[SourceFile]:
    wanted = [
        part
        for part in source.parts
        if (part.name == spec.part or (spec.part is None and not part.named_only))
        and spec.level in (None, part.level)
        and (not part.splits or spec.split is None or spec.split in part.splits)
    ]
    if spec.part is None and spec.level is None and len({p.level for p in wanted}) > 1:
        # a set of dialogues by default, not of dialogues and turns
        wanted = [part for part in wanted if part.level == "dialogue"]
    return wanted


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
    rows = _file_rows(source, part, offline, reading)
    yield from rows if part.view is None else part.view(rows)


def _file_rows(
    source: Source, part: SourceFile, offline: bool | None, reading: ReadingReport | None
) -> Iterator[LabelledDialogue]:
    local = find_local(part)
    if local is not None and local.name == part.line_file:
        yield from read_labelled(local, reading=reading)
        return
    if part.read is None or (part.url is None and local is None):
        raise SourceError(
            f"{source.name}: {part.line_file} is not here ({part.why or 'no public reader'})",
            hint=_where(part),
        )
    try:
        path = fetch(part, offline=offline)
    except SourceError as error:
        raise SourceError(
            f"{source.name}: {error.message}", hint=f"{error.hint}; or {_line_place(part)}"
        ) from error
    try:
        yield from part.read(path)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise SourceError(
            f"{path}: not in the public form of {source.name} ({type(error).__name__}: {error})",
            hint=_where(part),
        ) from error


def files_of(text: str) -> list[Path]:
    """The local files of a spec; none for a package or a hub set."""
    spec = parse_spec(text)
    if spec.is_file:
        return [] if spec.name == STDIN or spec.name.startswith(HUB) else [Path(spec.name)]
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
    return {
        name: any(find_local(part) for part in source.parts)
        for name, source in SOURCES.items()
        if source.parts
    }


def _line_place(part: SourceFile) -> str:
    return f"put {part.line_file} (line format) in the folder that ${DATA_VARIABLE} names"


def _where(part: SourceFile) -> str:
    public = f", or {part.public_file} (public form) in {cache_folder()}"
    return _line_place(part) + (public if part.public_file else "")
