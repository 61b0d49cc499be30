"""Options that say which scores are read, and by which columns their rows are grouped."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import get_args

from pydantic import field_validator, model_validator

from medal_judges.config import Config, option
from medal_judges.errors import ConfigError
from medal_judges.eval.scores.times import Unit


class ScoreSelection(Config):
    """What ``load_scores`` reads: files of judgements, and the columns that group their rows."""

    scores: tuple[str, ...] = option(
        metavar="SCORES...",
        argument=True,
        help="Judgements, as medal score writes them: files, or folders of them.",
    )
    by: tuple[str, ...] = option((), help="Column to compare by; may be repeated.")
    over: str | None = option(None, help="COLUMN:UNIT of time, for example time:day.")
    cluster: str | None = option(
        None, help="Column whose rows belong together, such as user."
    )
    dimensions: tuple[str, ...] = option(
        (), flag="--dimension", help="Only this dimension; may be repeated."
    )
    rubric: str | None = option(
        None, help="Shipped name or YAML file: scales of scores without any."
    )

    @field_validator("scores", mode="before")
    @classmethod
    def _one_or_more(cls, scores: object) -> object:
        if isinstance(scores, str | Path):
            return (str(scores),)
        return scores

    @model_validator(mode="after")
    def _check_period(self) -> ScoreSelection:
        _ = self.period
        return self

    @cached_property
    def period(self) -> tuple[str, Unit] | None:
        """The time column and the unit of ``over``. Raises ConfigError for another form."""
        if self.over is None:
            return None
        column, _, text = self.over.rpartition(":")
        for unit in get_args(Unit):
            if column and text == unit:
                return column, unit
        raise ConfigError(
            f"--over {self.over}: expected COLUMN:UNIT",
            hint=f"the unit is {', '.join(get_args(Unit))}, for example: --over time:day",
        )

    @property
    def group_columns(self) -> list[str]:
        """The columns of ``by`` and ``cluster``, which must have a value in some row."""
        if self.cluster is None:
            return list(self.by)
        return [*self.by, self.cluster]
