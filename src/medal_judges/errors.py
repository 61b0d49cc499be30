"""The errors a user sees. The command prints ``str(error)`` without a traceback (``--debug`` shows
it), so each message says what is wrong, what was expected, and what to type next."""

from __future__ import annotations

import copyreg
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

# Line breaks and tabs stay; the rest of C0, DEL and C1 would control the terminal.
_CONTROLS = {
    code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160)) if code not in (9, 10)
}


def visible(text: str) -> str:
    """Returns ``text`` with control characters spelled out; a terminal obeys escape sequences."""
    return text.translate(_CONTROLS)


class MedalError(Exception):
    """Base of all errors that the user can fix; ``hint`` says what to do or type.

    >>> from medal_judges import MedalError, read_dialogues
    >>> try:
    ...     list(read_dialogues("nowhere.jsonl"))
    ... except MedalError as error:
    ...     print(error)
    nowhere.jsonl: no such file
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return visible(f"{self.message}\n  {self.hint}" if self.hint else self.message)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles without calling ``__init__``, whose arguments differ between subclasses."""
        return copyreg.__newobj__, (type(self), *self.args), vars(self)  # type: ignore[attr-defined]


class RecordError(MedalError):
    """A record is malformed: ``field`` is not what was ``expected``."""

    def __init__(self, field: str, expected: str, got: object) -> None:
        super().__init__(f"field {field!r}: expected {expected}, got {_shown(got)}")
        self.field = field
        self.expected = expected


def _shown(value: object) -> str:
    try:
        shown = repr(value)
    except (RecursionError, ValueError):  # nested too deep, or an integer of too many digits
        shown = f"a {type(value).__name__}"
    return shown if len(shown) <= 80 else shown[:77] + "..."


class DataError(MedalError):
    """A line of a file is malformed; names file and line (from 1)."""

    def __init__(
        self, path: str | Path, line: int | None, problem: str, *, hint: str | None = None
    ):
        at = f"{path}:{line}" if line is not None else str(path)
        super().__init__(f"{at}: {problem}", hint=hint)
        self.path = str(path)
        self.line = line
        self.problem = problem


class ConfigError(MedalError):
    """A configuration is wrong: an unknown key, a wrong type, or two settings that conflict."""


class NotAvailableError(ConfigError):
    """A model, its weights or a key are not available on this machine."""


class LeakError(MedalError):
    """The training set shares dialogues with the test set."""


class SourceError(MedalError):
    """A data source cannot be read: missing, offline, or another file than expected."""


class JudgeLoadError(MedalError):
    """A judge cannot be loaded from the folder or hub id given."""


class HubError(JudgeLoadError):
    """Downloading a judge from the Hub, or uploading one, failed."""


class NoSuchJudgeError(HubError):
    """No shipped judge, folder, file or hub id has that name."""


class CoverageError(MedalError):
    """Too many dialogues are unscored for a headline number (exit status 3)."""

    exit_code = 3


class MissingExtraError(MedalError):
    """An optional dependency is missing; ``hint`` names the extra to install."""

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        super().__init__(
            f"{purpose} needs the package {package!r}, which is not installed",
            hint=f"pip install 'medal-judges[{extra}]'",
        )


def nearest(name: str, known: Iterable[str], most: int = 1) -> list[str]:
    """Returns up to ``most`` of ``known`` that ``name`` may be a typo of, the nearest first."""
    # A swapped letter passes the cutoff (trun, turn: 0.75).
    return difflib.get_close_matches(name, list(known), n=most, cutoff=0.7)


def did_you_mean(name: str, known: Iterable[str], most: int = 1) -> str:
    """Returns ``did you mean 'turn'? `` with a blank at its end, or nothing."""
    names = nearest(name, known, most)
    return f"did you mean {' or '.join(map(repr, names))}? " if names else ""
