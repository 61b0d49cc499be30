"""The errors that a user sees, and safe printing of text from files and models.

The command prints ``str(error)`` without a traceback (``--debug`` shows it), so each message says
what is wrong, what was expected, and what to type next.
"""

from __future__ import annotations

import copyreg
import difflib
import re
import reprlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Line breaks and tabs stay; the rest of C0, DEL and C1 would control the terminal. XML forbids
# half a surrogate pair and the last two codes, and no encoding can write the first.
_UNSHOWN = (
    *range(9),
    *range(11, 32),
    *range(127, 160),
    *range(0xD800, 0xE000),
    0xFFFE,
    0xFFFF,
)
_CONTROLS = {code: f"\\u{code:04x}" for code in _UNSHOWN}  # JSON has these too
_NUMERAL = re.compile(r"[-+]?[0-9.]+(e[-+]?[0-9]+)?")
# It would end the row of a CSV file.
_BARE_RETURN = re.compile(r"\r(?!\n)")
# A spreadsheet runs text that begins so, also after a line break and in full width.
FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")


def printable(text: str) -> str:
    r"""Replaces control characters in ``text`` by their codes (``\u001b``), so that it is safe to
    print or to write as XML.

    Line breaks and tabs stay.
    """
    return text.translate(_CONTROLS)


def safe_cell(cell: object) -> object:
    """Escapes a text ``cell`` that a spreadsheet would run as a formula. Other values are returned
    unchanged.

    A text that begins like a formula gets an apostrophe before it. A carriage return without a line
    feed is escaped, because it would end the row.
    """
    if not isinstance(cell, str):
        return cell
    cell = _BARE_RETURN.sub(r"\\x0d", cell)
    if cell.startswith(FORMULA) and not _NUMERAL.fullmatch(cell):
        return f"'{cell}"
    return cell


class MedalError(Exception):
    """Base of all errors that the user can fix.

    Attributes:
        message: What is wrong.
        hint: What to do or to type, or None.

    >>> from medal_judges import MedalError, read_dialogues
    >>> try:
    ...     list(read_dialogues("nowhere.jsonl"))
    ... except MedalError as error:
    ...     print(error)
    nowhere.jsonl: no such file. Check the path
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message, self.hint = message, hint

    @property
    def one_line(self) -> str:
        """Returns the message and the hint on one line."""
        return printable(". ".join(filter(None, (self.message, self.hint))))

    def __str__(self) -> str:
        text = self.message
        if self.hint:
            text += f"\n  {self.hint}"
        return printable(text)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles without calling ``__init__``, whose arguments differ between subclasses."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class RecordError(MedalError):
    """A field of a record is malformed.

    Args:
        field: Path of the field, such as ``messages[0].role``.
        expected: What the field should be.
        got: The malformed value.
        row: Cells of the malformed table row. None if the record is not a table row.
    """

    def __init__(
        self, field: str, expected: str, got: object, row: object = None
    ) -> None:
        got_text = reprlib.repr(got)
        super().__init__(f"field {field!r}: got {got_text}, expected {expected}")
        self.field, self.expected, self.row = field, expected, row


class DataError(MedalError):
    """A file, or a chat in memory, is malformed.

    Args:
        path: Path of the file, or name of the chat, such as ``chats[3]``.
        line: Number of the malformed line, from 1. None for the whole file.
        problem: What is wrong.
        hint: What to do or to type, or None.
    """

    def __init__(
        self,
        path: str | Path,
        line: int | None,
        problem: str,
        *,
        hint: str | None = None,
    ):
        self.path, self.line, self.problem = str(path), line, problem
        at = self.path
        if line is not None:
            at += f":{line}"
        super().__init__(f"{at}: {problem}", hint=hint)


class ConfigError(MedalError):
    """A configuration is wrong: a key is unknown, a type is wrong, or two settings conflict."""


class NotAvailableError(ConfigError):
    """A model, its weights or an API key is not available on this machine."""


class LeakError(MedalError):
    """The training set shares dialogues with the validation or test set."""


class SourceError(MedalError):
    """A data source cannot be read: it is missing, offline, or not the expected file."""


class JudgeLoadError(MedalError):
    """A judge cannot be loaded from the given folder, file or hub id."""


class HubError(JudgeLoadError):
    """Downloading a judge from the Hub, or uploading one, failed."""


class CoverageError(MedalError):
    """Too few dialogues are scored for a meaningful result (exit status 3)."""

    exit_code = 3


def install_hint(extra: str) -> str:
    """Returns the sentence that says how to install the optional dependencies ``extra``, such as
    ``serve``."""
    return f"Type in a checkout of medal_judges: pip install '.[{extra}]'"


class MissingExtraError(MedalError):
    """An optional dependency is missing.

    Args:
        package: Name of the missing package.
        extra: Name of the optional dependencies to install, such as ``serve``.
        purpose: What needs the package.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed",
            hint=install_hint(extra),
        )


def did_you_mean(name: str, names: Iterable[str], limit: int = 1) -> str:
    """Returns a hint such as ``Did you mean 'turn'? ``. The hint is empty if no valid name is
    similar.

    Args:
        name: What the user typed.
        names: All valid names.
        limit: The most names to suggest.
    """
    # A swapped letter passes the cutoff (trun, turn: 0.75).
    matches = difflib.get_close_matches(name, list(names), n=limit, cutoff=0.7)
    if matches:
        return f"Did you mean {' or '.join(map(repr, matches))}? "
    return ""
