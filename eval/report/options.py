"""ReportOptions: the options of ``medal report``, and its gates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from medal_judges.config import Config, option
from medal_judges.errors import ConfigError
from medal_judges.eval.report.times import UNITS, Unit
from medal_judges.reading.options import ReadOptions

Side = Literal["under", "over"]


@dataclass(frozen=True, slots=True)
class Gate:
    """Fails if the mean (or share) of ``dimension`` is ``under`` (or ``over``) its ``limit``.
    ``asked``: the gate's name if it is not a command-line option."""

    side: Side
    dimension: str
    limit: float
    asked: str | None = None

    @property
    def name(self) -> str:
        return self.asked or f"--fail-{self.side} {self.dimension}={self.limit:g}"

    @classmethod
    def parse(cls, side: Side, text: str) -> Gate:
        """The gate of ``overall=3.5``. Raises ConfigError."""
        name, _, number = text.rpartition("=")
        try:
            limit = float(number)
        except ValueError:
            limit = float("nan")
        if not name or limit != limit:
            example = "overall=3.5" if side == "under" else "unsafe=0.01"
            raise ConfigError(
                f"--fail-{side} {text}: expected DIMENSION=NUMBER",
                hint=f"for example: --fail-{side} {example}",
            )
        return cls(side, name, limit)


class ReportOptions(Config):
    """What ``medal report`` reads, compares, checks and writes."""

    scores: str = option(
        metavar="SCORES", argument=True, help="Judgements, as medal score writes them."
    )
    chats: str | None = option(None, help="The chats that were scored: texts and columns.")
    by: tuple[str, ...] = option((), help="Column to compare by; may be repeated.")
    over: str | None = option(None, help="COLUMN:UNIT of time, for example time:day.")
    cluster: str | None = option(None, help="Column whose rows belong together, such as user.")
    human: str | None = option(None, help="Human labels of a random sample of the chats.")
    dimensions: tuple[str, ...] = option(
        (), flag="--dimension", help="Only this dimension; may be repeated."
    )
    rubric: str | None = option(None, help="Shipped name or YAML file: scales of the scores.")
    fail_under: tuple[str, ...] = option(
        (), metavar="DIM=X", help="Gate: at least X; overall=3.5. May be repeated."
    )
    fail_over: tuple[str, ...] = option(
        (), metavar="DIM=X", help="Gate: at most X; unsafe=0.01. May be repeated."
    )
    fail_undecided: bool = option(False, help="Fail a gate if its limit is inside the interval.")
    min_coverage: float = option(
        0.98, ge=0, le=1, help="Minimum coverage of a gate; exits with status 3 below it."
    )
    conversations: int = option(10_000, ge=1, help="Maximum number of conversations on the page.")
    title: str | None = option(None, help="Heading of the page.")
    out: Path | None = option(
        None, help="Folder to write: the page, tables as CSV, figures as PNG, PDF and SVG."
    )
    reading: ReadOptions = ReadOptions()

    @model_validator(mode="after")
    def _check(self) -> ReportOptions:
        _ = self.gates, self.period
        return self

    @cached_property
    def gates(self) -> list[Gate]:
        """The gates of ``fail_under`` and ``fail_over``."""
        under = [Gate.parse("under", text) for text in self.fail_under]
        return under + [Gate.parse("over", text) for text in self.fail_over]

    @cached_property
    def period(self) -> tuple[str, Unit] | None:
        """The time column and the unit of ``over``."""
        if self.over is None:
            return None
        column, _, text = self.over.rpartition(":")
        for unit in UNITS:
            if column and text == unit:
                return column, unit
        raise ConfigError(
            f"--over {self.over}: expected COLUMN:UNIT",
            hint=f"the unit is {', '.join(UNITS)}, for example: --over time:day",
        )
