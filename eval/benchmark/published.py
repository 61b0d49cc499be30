"""Published figures beside ours: the papers' numbers, each with the paper's own model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from pydantic import model_validator

from medal_judges.config import Config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import BenchmarkConfig, SetConfig
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.records.signature import Signature
from medal_judges.report.table import Cell, Table

OURS = "Our ρ"  # empty in rows that this run did not measure
TITLE = "Beside the published figures"
_COLUMNS = ("Set", "Dimension", "Judge", "Their model", "Their ρ", "Their r", "Our model", OURS,
            "Our r", "n", "Source")  # fmt: skip
_NOTE = (
    "The paper's figures, with its own model and its version of the data, beside the figures of "
    "this run. Figures of different models are no targets, and ours are a reproduction only if the "
    "two models are the same. ρ is Spearman's, r Pearson's; ns marks figures that the paper calls "
    "not significant (p > 0.05)."
)


class PublishedFigure(Config):
    """One row of configs/published.yaml: correlations of ``judge`` (in one ``variant``) on
    ``model`` with people, from the table ``source``."""

    judge: str
    variant: str | None = None
    model: str
    set: str
    level: str
    dimension: str
    spearman: float | None
    pearson: float | None
    not_significant: tuple[str, ...] = ()
    source: str
    note: str | None = None

    @property
    def key(self) -> str:
        """The name for ``published_as`` of a judge: ``diet/craft-cll``, or ``fed``."""
        return self.judge if self.variant is None else f"{self.judge}/{self.variant}"

    @property
    def paper(self) -> str:
        return self.source.split(",")[0]


class Published(Config):
    """configs/published.yaml: full names of the papers, and their figures."""

    papers: Mapping[str, str]
    figures: tuple[PublishedFigure, ...]

    @model_validator(mode="after")
    def _papers_are_named(self) -> Published:
        for figure in self.figures:
            if figure.paper not in self.papers:
                raise ValueError(f"source {figure.source!r}: no such paper")
        return self


def read_published() -> Published:
    """Reads the shipped figures."""
    return Published.model_validate(read_yaml("published"))


def check_published(config: BenchmarkConfig) -> None:
    """Raises ConfigError for a paper, judge or set that the published figures do not have."""
    known = read_published()
    for what, named, there in (
        ("published", config.published, known.papers),
        (
            "published_as of a judge",
            [j.published_as for j in config.judges],
            [figure.key for figure in known.figures],
        ),
        (
            "published_as of a set",
            [s.published_as for s in config.sets],
            [figure.set for figure in known.figures],
        ),
    ):
        for name in named:
            if name is not None and name not in there:
                raise ConfigError(
                    f"{what}: {name!r} is not in configs/published.yaml",
                    hint=f"there: {', '.join(dict.fromkeys(there))}",
                )


def published_table(
    config: BenchmarkConfig, rows: Sequence[ResultRow], left_out: Mapping[str, str]
) -> Table:
    """Returns each figure of ``config.published`` on a set of this benchmark, with ours if the
    judge was run. ``left_out``: missing judges and sets. The note counts figures on other sets."""
    cells: list[tuple[Cell, ...]] = []
    elsewhere = Counter[str]()
    for figure in read_published().figures:
        if figure.paper not in config.published:
            continue
        sets = [
            one
            for one in config.sets
            if (one.published_as, one.level) == (figure.set, figure.level)
        ]
        shown = [line for one in sets for line in _lines(figure, one, config, rows, left_out)]
        cells += shown
        if not shown:
            elsewhere[f"{figure.set} ({figure.level}, {figure.dimension})"] += 1
    counted = "; ".join(f"{where}: {count}" for where, count in elsewhere.items())
    note = f"{_NOTE} Figures on other sets: {counted}." if counted else _NOTE
    return Table(TITLE, _COLUMNS, cells, note)


def _lines(
    figure: PublishedFigure,
    one: SetConfig,
    config: BenchmarkConfig,
    rows: Sequence[ResultRow],
    left_out: Mapping[str, str],
) -> list[tuple[Cell, ...]]:
    """Returns a line for each of our judges with this figure, or one with the reason for none."""
    ours = [judge.name for judge in config.judges if judge.published_as == figure.key]
    named = figure.judge if figure.variant is None else f"{figure.judge}, {figure.variant}"
    printed: list[str | None] = []
    for metric, value in (("spearman", figure.spearman), ("pearson", figure.pearson)):
        mark = " ns" if metric in figure.not_significant else ""
        printed.append(None if value is None else f"{value:.2f}{mark}")
    if one.name in left_out:
        why = "set not available"
    elif not ours:
        why = "not among our judges"
    else:
        why = "judge not available" if any(name in left_out for name in ours) else "no figure"
    lines: list[tuple[Cell, ...]] = []
    for dimension, judged in one.dimensions.items():
        if figure.dimension not in (dimension, judged):
            continue
        measured: list[tuple[Cell, ...]] = []
        for name in ours:
            for row in rows:
                if (row.judge, row.set_name, row.dimension) == (name, one.name, dimension):
                    signature = Signature.parse(row.signature)
                    figures = row.metrics.get("spearman"), row.metrics.get("pearson")
                    measured.append((signature.base or signature.judge, *figures, row.scored))
        for mine in measured or [(why, None, None, None)]:
            theirs = (one.name, dimension, named, figure.model, *printed)
            lines.append((*theirs, *mine, figure.source))
    return lines
