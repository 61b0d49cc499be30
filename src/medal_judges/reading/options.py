"""ReadOptions: how a file of chats is to be read, where its content does not say."""

from __future__ import annotations

from dataclasses import dataclass

from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.reading.columns import NO_COLUMNS, ColumnMap
from medal_judges.reading.containers import CONTAINERS
from medal_judges.reading.forms import FORMS


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """``format``: a container (``csv``), a form of rows (``openai``), or both (``csv+turns``); None
    where the content says it. ``assistant``: who is judged where several answer in one chat.
    ``strict``: a bad row is an error, unless a ReadingReport counts it; else it is left out.

    Raises ConfigError for a format that is not known.
    """

    format: str | None = None
    columns: ColumnMap = NO_COLUMNS
    assistant: str | None = None
    strict: bool = True

    def __post_init__(self) -> None:
        self._words()

    @property
    def container(self) -> str | None:
        """The container of ``format``; None where it names none."""
        return next((word for word in self._words() if word in CONTAINERS), None)

    @property
    def form(self) -> str | None:
        """The form of rows of ``format``; None where it names none."""
        return next((word for word in self._words() if word in FORMS), None)

    def _words(self) -> list[str]:
        words = self.format.lower().split("+") if self.format else []
        known = [*CONTAINERS, *FORMS]
        for word in words:
            if word not in known:
                hint = f"{did_you_mean(word, known)}files: {', '.join(CONTAINERS)}; rows: "
                hint += f"{', '.join(FORMS)}; or both: csv+turns"
                raise ConfigError(f"no format {word!r}", hint=hint)
        if sum(word in CONTAINERS for word in words) > 1 or sum(w in FORMS for w in words) > 1:
            raise ConfigError(f"format {self.format!r}: at most one kind of file and one of rows")
        return words


DEFAULT_READING = ReadOptions()
