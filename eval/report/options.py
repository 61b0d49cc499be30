"""Options of ``medal report``, and its gates."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, get_args

from pydantic import field_validator, model_validator

from medal_judges.config import Config, option
from medal_judges.errors import ConfigError
from medal_judges.eval.scores.bad import BAD, THRESHOLDS, parse_name_and_limit
from medal_judges.eval.scores.columns import Unit
from medal_judges.reading.dialogues import ReadOptions

Side = Literal["under", "over"]


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit on the mean (or share) of one dimension, for tests in CI.

    Attributes:
        side: ``under`` if values below ``limit`` fail, ``over`` if values above it fail.
        dimension: The name of the dimension, or ``bad`` for all shares of bad scores.
        limit: The limit, on the scale of the dimension, such as 3.5.
        label: The gate's name in reports. By default the command-line option, such as
            ``--fail-under overall=3.5``.
    """

    side: Side
    dimension: str
    limit: float
    label: str | None = None

    @property
    def name(self) -> str:
        return self.label or f"--fail-{self.side} {self.dimension}={self.limit:g}"

    @classmethod
    def parse(cls, side: Side, text: str) -> Gate:
        """Returns the gate (limit on a mean or share) that ``text`` describes.

        Args:
            side: ``under`` if values below the limit fail, ``over`` if values above it fail.
            text: A dimension and its limit, such as ``overall=3.5``.

        Raises:
            ConfigError: The text is not DIMENSION=NUMBER.
        """
        return cls(side, *parse_name_and_limit(text, f"--fail-{side}"))


class ReportOptions(Config):
    """Options of ``medal report``: the files to read, the groups to compare, the limits to check,
    and the files to write.

    Attributes:
        bad: Limits beyond which a score counts as bad. With ``overall=1.5``, the report also has
            the share of scores below 1.5.
        reading: How to read the chats and labels.
    """

    scores: tuple[str, ...] = option(
        metavar="SCORES...",
        argument=True,
        help="Files of scores that medal score wrote.",
    )
    chats: str | None = option(
        None,
        help="The chats that were scored, for their texts and columns.",
    )
    by: tuple[str, ...] = option(
        (),
        help="Column to compare by, such as version. May be repeated.",
    )
    over: str | None = option(
        None, metavar="COLUMN:UNIT", help="Column of times, and a unit: time:day."
    )
    cluster: str | None = option(
        None, help="Column whose rows vary together, such as user."
    )
    dimensions: tuple[str, ...] = option(
        (),
        flag="--dimension",
        help="Only this dimension. May be repeated.",
    )
    human: str | None = option(
        None, metavar="FILE", help="People's labels of a random sample of the chats."
    )
    bad: tuple[str, ...] = THRESHOLDS
    fail_under: tuple[str, ...] = option(
        (),
        metavar="DIM=X",
        help="Gate: fails below X, such as overall=3.5. May be repeated.",
    )
    fail_over: tuple[str, ...] = option(
        (),
        metavar="DIM=X",
        help="Gate: fails above X, such as unsafe=0.01, or bad=0.1 for the share of bad "
        "scores. May be repeated.",
    )
    min_coverage: float = option(
        0.98,
        ge=0,
        le=1,
        help="Share of chats that a gate needs scores of. Exit status 3 below it.",
    )
    junit: Path | None = option(
        None,
        help="File to write: the gates as JUnit XML, which CI shows.",
    )
    out: Path | None = option(
        None,
        help="Folder to write: page, tables (CSV), picture (PNG, PDF, SVG).",
    )
    reading: ReadOptions = ReadOptions()

    @field_validator("scores", mode="before")
    @classmethod
    def _as_tuple(cls, scores: object) -> object:
        if isinstance(scores, str | Path):
            return (str(scores),)
        return scores

    @model_validator(mode="after")
    def _check_options(self) -> ReportOptions:
        _ = self.period
        hint = "Type --fail-under overall=3.5, or --bad overall=1.5 --fail-over bad=0.1"
        if not self.gates and self.junit is not None:
            raise ConfigError("--junit needs a gate", hint=hint)
        for gate in self.gates:
            if gate.dimension == BAD and (gate.side == "under" or not self.bad):
                raise ConfigError(
                    f"{gate.name}: a gate on bad scores needs --bad and --fail-over",
                    hint=hint,
                )
        return self

    @cached_property
    def period(self) -> tuple[str, Unit] | None:
        """Returns the column of times and the length of a period, which ``over`` names: ``("time",
        "day")`` for ``time:day``. None if ``over`` is not set.

        Raises:
            ConfigError: ``over`` is not COLUMN:UNIT.
        """
        if self.over is None:
            return None
        column, _, text = self.over.rpartition(":")
        for unit in get_args(Unit):
            if column and text == unit:
                return column, unit
        raise ConfigError(
            f"--over {self.over}: expected COLUMN:UNIT",
            hint=f"Type a unit of {', '.join(get_args(Unit))}, for example: --over time:day",
        )

    @cached_property
    def gates(self) -> list[Gate]:
        """Returns the gates (limits on means or shares) that ``fail_under`` and
        ``fail_over`` describe."""
        under = [Gate.parse("under", text) for text in self.fail_under]
        return under + [Gate.parse("over", text) for text in self.fail_over]
