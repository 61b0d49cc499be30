"""Options of ``medal report``, and its gates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal

from pydantic import model_validator

from medal_judges.config import option
from medal_judges.errors import ConfigError
from medal_judges.eval.scores.bad import BAD, THRESHOLDS, limit_of
from medal_judges.eval.scores.options import ScoreSelection
from medal_judges.reading.dialogues import ReadOptions

Side = Literal["under", "over"]


@dataclass(frozen=True, slots=True)
class Gate:
    """Fails if the mean (or share) of ``dimension`` is ``under`` (or ``over``) its ``limit``.
    ``label``: the gate's name if it is not a command-line option."""

    side: Side
    dimension: str
    limit: float
    label: str | None = None

    @property
    def name(self) -> str:
        return self.label or f"--fail-{self.side} {self.dimension}={self.limit:g}"

    @classmethod
    def parse(cls, side: Side, text: str) -> Gate:
        """The gate of a text such as ``overall=3.5``. Raises ConfigError."""
        return cls(side, *limit_of(text, f"--fail-{side}"))


class ReportOptions(ScoreSelection):
    """What ``medal report`` reads, compares, checks and writes."""

    chats: str | None = option(
        None, help="The chats that were scored: texts and columns."
    )
    human: str | None = option(
        None, help="Human labels of a random sample of the chats."
    )
    fail_under: tuple[str, ...] = option(
        (), metavar="DIM=X", help="Gate: at least X; overall=3.5. May be repeated."
    )
    fail_over: tuple[str, ...] = option(
        (),
        metavar="DIM=X",
        help="Gate: at most X; unsafe=0.01, or bad=0.1 for the share beyond --bad. May be "
        "repeated.",
    )
    bad: tuple[str, ...] = THRESHOLDS
    min_coverage: float = option(
        0.98,
        ge=0,
        le=1,
        help="Minimum coverage of a gate; exits with status 3 below it.",
    )
    conversations: int = option(
        10_000, ge=1, help="Maximum number of conversations on the page."
    )
    worst: int = option(
        20, ge=0, help="Number of the worst conversations in a table, with reasons."
    )
    relative_to: str | None = option(
        None,
        help="Scores of other chats by the same judge: shows percentiles of these.",
    )
    junit: Path | None = option(
        None, help="File to write: the gates as JUnit XML, for CI."
    )
    title: str | None = option(None, help="Heading of the page.")
    out: Path | None = option(
        None,
        help="Folder to write: the page, tables as CSV, figures as PNG, PDF and SVG.",
    )
    reading: ReadOptions = ReadOptions()

    @model_validator(mode="after")
    def _check_gates(self) -> ReportOptions:
        hint = "--fail-under overall=3.5, or --bad overall=1.5 --fail-over bad=0.1"
        if not self.gates and self.junit is not None:
            raise ConfigError("--junit needs a gate", hint=hint)
        for gate in self.gates:
            if gate.dimension == BAD and (gate.side == "under" or not self.bad):
                raise ConfigError(
                    f"{gate.name}: bad is a share, with a threshold and a highest limit",
                    hint=hint,
                )
        return self

    @cached_property
    def gates(self) -> list[Gate]:
        """The gates of ``fail_under`` and ``fail_over``."""
        under = [Gate.parse("under", text) for text in self.fail_under]
        return under + [Gate.parse("over", text) for text in self.fail_over]
