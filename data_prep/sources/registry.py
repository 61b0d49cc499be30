"""All sources by name, and ``load_spec``: the rows behind a text such as ``dstc9:train``."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from medal_judges.data_prep.sources.abceval import ABCEVAL
from medal_judges.data_prep.sources.cache import DATA_VARIABLE, cache_folder, data_folder, fetch
from medal_judges.data_prep.sources.chitchat import CHITCHAT
from medal_judges.data_prep.sources.conture import CONTURE
from medal_judges.data_prep.sources.dialogue_eval import DIALOGUE_EVAL
from medal_judges.data_prep.sources.dstc9 import DSTC9
from medal_judges.data_prep.sources.fed import FED
from medal_judges.data_prep.sources.medal import MEDAL
from medal_judges.data_prep.sources.source import Part, Source
from medal_judges.data_prep.sources.usr import USR
from medal_judges.data_prep.sources.xdial import XDIAL
from medal_judges.errors import SourceError
from medal_judges.jsonl import Skipped, read_labelled
from medal_judges.labelled import LabelledDialogue

SOURCES = {
    source.name: source
    for source in (CHITCHAT, MEDAL, FED, CONTURE, DSTC9, DIALOGUE_EVAL, USR, XDIAL, ABCEVAL)
}
SPLITS = ("train", "validation", "test")
LEVELS = ("dialogue", "turn")


@dataclass(frozen=True, slots=True)
class DataSpec:
    """``name[:part][:level][:split]``, or the path of a JSONL file with an optional ``:split``."""

    name: str
    part: str | None = None
    level: str | None = None
    split: str | None = None

    @property
    def is_file(self) -> bool:
        return self.name.endswith((".jsonl", ".jsonl.gz"))


def parse_spec(text: str) -> DataSpec:
    """DataSpec of ``text``. Raises SourceError for an unknown source or word."""
    name, *words = text.split(":")
    spec = DataSpec(name)
    if not spec.is_file:
        source = get_source(name)
    found: dict[str, str] = {}
    for word in words:
        if word in SPLITS:
            found["split"] = word
        elif word in LEVELS:
            found["level"] = word
        elif not spec.is_file and word in [p.name for p in source.parts]:
            found["part"] = word
        else:
            raise SourceError(
                f"{text!r}: {word!r} is neither a split ({', '.join(SPLITS)}), a level "
                f"({', '.join(LEVELS)}) nor a part of {name}"
            )
    return DataSpec(name, **found)


def get_source(name: str) -> Source:
    """The source called ``name``. Raises SourceError with the nearest names."""
    if name not in SOURCES:
        near = difflib.get_close_matches(name, SOURCES, n=2, cutoff=0.4)
        guess = f"did you mean {' or '.join(near)}? " if near else ""
        raise SourceError(
            f"no source {name!r}",
            hint=f"{guess}known: {', '.join(SOURCES)}; or the path of a .jsonl file",
        )
    return SOURCES[name]


def load_spec(
    text: str, *, offline: bool | None = None, skipped: Skipped | None = None
) -> list[LabelledDialogue]:
    """The rows of a spec, in file order. Raises SourceError that says which file goes where."""
    spec = parse_spec(text)
    rows = _rows(spec, offline, skipped)
    return [
        row for row in rows if spec.split in (None, row.split) and spec.level in (None, row.level)
    ]


def _rows(
    spec: DataSpec, offline: bool | None, skipped: Skipped | None
) -> Iterator[LabelledDialogue]:
    if spec.is_file:
        yield from read_labelled(spec.name, skipped=skipped)
        return
    source = get_source(spec.name)
    if source.package_read is not None:
        yield from source.package_read()
    for part in _parts(source, spec):
        yield from read_part(source, part, offline=offline)


def _parts(source: Source, spec: DataSpec) -> list[Part]:
    wanted = [
        part
        for part in source.parts
        if spec.part in (None, part.name) and spec.level in (None, part.level)
    ]
    if spec.part is None and spec.level is None and len({p.level for p in wanted}) > 1:
        # dialogues and turns are different questions: without a word, the dialogues
        wanted = [part for part in wanted if part.level == "dialogue"]
    return wanted


def read_part(
    source: Source, part: Part, *, offline: bool | None = None
) -> Iterator[LabelledDialogue]:
    """Rows of one file: the line format in $MEDAL_JUDGES_DATA, else the public file."""
    local = find_local(part)
    if local is not None and local.name == part.line_file:
        yield from read_labelled(local)
        return
    if part.read is None or (part.url is None and local is None):
        raise SourceError(
            f"{source.name}: {part.line_file} is not here ({part.why or 'no public reader'})",
            hint=_where(part),
        )
    try:
        path = local or fetch(part, offline=offline)
    except SourceError as error:
        raise SourceError(
            f"{source.name}: {error.message}", hint=f"{error.hint}; {_where(part)}"
        ) from error
    yield from part.read(path)


def find_local(part: Part) -> Path | None:
    """The part's file on this machine, line format first; None where there is none."""
    folder = data_folder()
    candidates = [folder / part.line_file] if folder else []
    if part.public_file:
        candidates.append(cache_folder() / part.public_file)
    return next((path for path in candidates if path.is_file()), None)


def _where(part: Part) -> str:
    lines = f"put {part.line_file} (line format) in the folder that ${DATA_VARIABLE} names"
    if part.public_file:
        lines += f", or {part.public_file} (public form) in {cache_folder()}"
    return lines
