"""Published figures beside ours: what the papers print, each with the paper's own model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pydantic import model_validator

from medal_judges.config import Config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import JudgeConfig, SetConfig
from medal_judges.eval.metaeval.results import ResultRow
from medal_judges.records.signature import Signature
from medal_judges.report.table import Cell, Table

OURS = "Our ρ"  # the column that is empty where nothing was measured
TITLE = "Beside the published figures"
_COLUMNS = ("Set", "Dimension", "Judge", "Their model", "Their ρ", "Their r", "Our model", OURS,
            "Our r", "n", "Source")  # fmt: skip
_NOTE = (
    "What the paper prints, with the paper's own model and its version of the data, beside what "
    "this run measured: another model's figure is no target of ours, and none of ours is a "
    "reproduction unless the two models are the same. ρ is Spearman's, r Pearson's; ns marks what "
    "the paper calls not significant (p > 0.05)."
)


class PublishedFigure(Config):
    """One row of configs/published.yaml: correlations with people of ``judge`` (in one ``variant``)
    speaking through ``model``, from the table that ``source`` names."""

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
        """What a judge of a benchmark names itself after: ``diet/craft-cll``, or ``fed``."""
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
    """The figures that ship with the package."""
    return Published.model_validate(read_yaml("published"))


def check_published(
    papers: Sequence[str], judges: Iterable[JudgeConfig], sets: Iterable[SetConfig]
) -> None:
    """Raises ConfigError for a paper, judge or set whose name the published figures do not have."""
    known = read_published()
    _known("published", papers, known.papers)
    keys = [figure.key for figure in known.figures]
    _known("published_as of a judge", [j.published_as for j in judges if j.published_as], keys)
    names = [figure.set for figure in known.figures]
    _known("published_as of a set", [s.published_as for s in sets if s.published_as], names)


def _known(what: str, named: Iterable[str], known: Iterable[str]) -> None:
    there = list(dict.fromkeys(known))
    for name in named:
        if name not in there:
            raise ConfigError(
                f"{what}: {name!r} is not in configs/published.yaml",
                hint=f"there: {', '.join(there)}",
            )


def published_table(
    papers: Sequence[str],
    sets: Sequence[SetConfig],
    judges: Sequence[JudgeConfig],
    rows: Sequence[ResultRow],
    left_out: Mapping[str, str],
) -> Table:
    """Each figure of ``papers`` on a set of this benchmark, with ours where the judge was run.

    ``left_out`` maps a judge or set that is not available to the reason. Figures on sets that this
    benchmark does not have are counted in the note.
    """
    figures = [f for f in read_published().figures if f.paper in papers]
    cells: list[tuple[Cell, ...]] = []
    elsewhere: dict[str, int] = {}
    for figure in figures:
        shown = [
            line
            for one in sets
            if (one.published_as, one.level) == (figure.set, figure.level)
            for line in _lines(figure, one, judges, rows, left_out)
        ]
        cells += shown
        if not shown:
            where = f"{figure.set} ({figure.level}, {figure.dimension})"
            elsewhere[where] = elsewhere.get(where, 0) + 1
    counted = "; ".join(f"{where}: {count}" for where, count in elsewhere.items())
    note = f"{_NOTE} Figures on what this benchmark does not ask: {counted}." if counted else _NOTE
    return Table(TITLE, _COLUMNS, cells, note)


def _lines(
    figure: PublishedFigure,
    one: SetConfig,
    judges: Sequence[JudgeConfig],
    rows: Sequence[ResultRow],
    left_out: Mapping[str, str],
) -> list[tuple[Cell, ...]]:
    """A line for each of our judges that stands for the figure's; one that says why for none."""
    asked = [name for name, own in one.dimensions.items() if figure.dimension in (name, own)]
    ours = [judge for judge in judges if judge.published_as == figure.key]
    named = figure.judge if figure.variant is None else f"{figure.judge}, {figure.variant}"
    lines: list[tuple[Cell, ...]] = []
    for dimension in asked:
        theirs = (one.name, dimension, named, figure.model, _printed(figure, "spearman"),
                  _printed(figure, "pearson"))  # fmt: skip
        measured: list[tuple[Cell, ...]] = [
            (_model(row), row.metrics.get("spearman"), row.metrics.get("pearson"), row.scored)
            for judge in ours
            for row in rows
            if (row.judge, row.set_name, row.dimension) == (judge.name, one.name, dimension)
        ]
        unmeasured: list[tuple[Cell, ...]] = [(_why(one, ours, left_out), None, None, None)]
        for mine in measured or unmeasured:
            lines.append((*theirs, *mine, figure.source))
    return lines


def _printed(figure: PublishedFigure, metric: str) -> str | None:
    value = figure.spearman if metric == "spearman" else figure.pearson
    if value is None:
        return None
    return f"{value:.2f} ns" if metric in figure.not_significant else f"{value:.2f}"


def _model(row: ResultRow) -> str:
    """The model behind our figure; a judge without one is itself."""
    signature = Signature.parse(row.signature)
    return signature.base or signature.judge


def _why(one: SetConfig, ours: Sequence[JudgeConfig], left_out: Mapping[str, str]) -> str:
    if one.name in left_out:
        return "set not available"
    if not ours:
        return "not among our judges"
    return "judge not available" if any(j.name in left_out for j in ours) else "no figure"
