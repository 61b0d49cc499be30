"""ReadOptions: how to read a file of chats if its content does not say."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from pydantic import model_validator

from medal_judges.config import Config, option
from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.reading.columns import ColumnMap, make_column_map
from medal_judges.reading.containers import CONTAINERS
from medal_judges.reading.forms import FORMS

_option = partial(option, panel="Reading (docs/howto/formats.md)")


class ReadOptions(Config):
    """``columns`` is a mapping, or a YAML file of one; ``column``, ``label`` and ``role`` add to
    it. ``strict``: the first bad row is an error, even if a ReadingReport could count it.

    Raises ConfigError for an unknown format and for a wrong column map.
    """

    format: str | None = _option(
        None, help="What the file is if its content does not say: csv, messages, csv+turns."
    )
    column: tuple[str, ...] = _option(
        (),
        metavar="FIELD=COLUMN",
        help="Column that holds a field: id=ticket, role=speaker, ...; may be repeated.",
    )
    columns: Path | str | dict[str, Any] | None = _option(
        None, help="YAML of columns, roles and labels."
    )
    label: tuple[str, ...] = _option(
        (),
        metavar="COLUMN=DIMENSION[:LOW..HIGH]",
        help="Column of human ratings, with its scale; may be repeated.",
    )
    role: tuple[str, ...] = _option(
        (),
        metavar="WORD=ROLE",
        help="Role that a speaker's name means: Kunde=user; may be repeated.",
    )
    strict: bool = _option(
        False, help="Stop at the first bad row instead of skipping, counting and listing it."
    )

    @model_validator(mode="after")
    def _check(self) -> ReadOptions:
        _ = self.kinds, self.column_map
        return self

    @cached_property
    def column_map(self) -> ColumnMap:
        """All of ``columns``, ``column``, ``label`` and ``role``."""
        return make_column_map(self.columns or {}, self.column, self.label, self.role)

    @cached_property
    def kinds(self) -> tuple[str | None, str | None]:
        """The container and the form of rows that ``format`` names; None for each that it does not
        name."""
        words = self.format.lower().split("+") if self.format else []
        known = [*CONTAINERS, *FORMS]
        for word in words:
            if word not in known:
                hint = f"{did_you_mean(word, known)}files: {', '.join(CONTAINERS)}; rows: "
                hint += f"{', '.join(FORMS)}; or both: csv+turns"
                raise ConfigError(f"no format {word!r}", hint=hint)
        files, forms = ([w for w in words if w in names] for names in (CONTAINERS, FORMS))
        if max(len(files), len(forms)) > 1:
            raise ConfigError(f"format {self.format!r}: at most one kind of file and one of rows")
        return next(iter(files), None), next(iter(forms), None)


class ReadOptionsWithoutLabels(ReadOptions):
    """ReadOptions of a command that reads no ratings: no --label on the command line."""

    label: tuple[str, ...] = ()


DEFAULT_READING = ReadOptions()


class ChatFileConfig(Config):
    """A file of chats in a YAML file. ``source`` is a spec such as ``dstc9:train`` or a file;
    ``format`` and ``columns`` are as in ReadOptions."""

    source: str
    format: str | None = None
    columns: Mapping[str, Any] = {}

    @property
    def read_options(self) -> ReadOptions:
        """How to read the file. A bad row is an error: nobody should learn from half a file."""
        return ReadOptions(format=self.format, columns=dict(self.columns))

    @model_validator(mode="after")
    def _can_be_read(self) -> ChatFileConfig:
        _ = self.read_options
        return self
