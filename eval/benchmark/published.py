"""Published figures beside ours: the papers' numbers, each with the paper's own model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medal_judges.config import Config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import BenchmarkConfig
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


class Published(Config):
    """configs/published.yaml: full names of the papers, and their figures."""

    papers: Mapping[str, str]
    figures: tuple[PublishedFigure, ...]


def read_published() -> Published:
    """Reads the shipped figures."""
    return Published.model_validate(read_yaml("published"))


def check_published(config: BenchmarkConfig) -> None:
    """Raises ConfigError for a paper, judge or set that the published figures do not have."""
    known = read_published()
    judges, sets = {each.key for each in known.figures}, {each.set for each in known.figures}
    named = [("published", name, [*known.papers]) for name in config.published]
    named += [("a judge", j.published_as, sorted(judges)) for j in config.judges if j.published_as]
    named += [("a set", s.published_as, sorted(sets)) for s in config.sets if s.published_as]
    for what, name, there in named:
        if name not in there:
            raise ConfigError(
                f"{what if what == 'published' else f'published_as of {what}'}: {name!r} is not in "
                "configs/published.yaml",
                hint=f"there: {', '.join(there)}",
            )


def published_table(
    config: BenchmarkConfig, rows: Sequence[ResultRow], left_out: Mapping[str, str]
) -> Table:
    """Returns each figure of ``config.published`` on a set of this benchmark, a line for each of
    our judges with this figure, or one with the reason for none. ``left_out``: missing judges and
    sets."""
    lines: list[tuple[Cell, ...]] = []
    figures = (f for f in read_published().figures if f.source.split(",")[0] in config.published)
    for figure in figures:
        ours = [judge.name for judge in config.judges if judge.published_as == figure.key]
        printed: list[str | None] = []
        for metric, value in (("spearman", figure.spearman), ("pearson", figure.pearson)):
            mark = " ns" if metric in figure.not_significant else ""
            printed.append(None if value is None else f"{value:.2f}{mark}")
        for one in config.sets:
            if (one.published_as, one.level) != (figure.set, figure.level):
                continue
            why = "judge not available" if any(name in left_out for name in ours) else "no figure"
            why = why if ours else "not among our judges"
            why = "set not available" if one.name in left_out else why
            for dimension, judged in one.dimensions.items():
                if figure.dimension not in (dimension, judged):
                    continue
                measured: list[tuple[Cell, ...]] = []
                for row in rows:
                    at = row.set_name, row.dimension
                    if at == (one.name, dimension) and row.judge in ours:
                        signature = Signature.parse(row.signature)
                        pair = row.metrics.get("spearman"), row.metrics.get("pearson")
                        measured.append((signature.base or signature.judge, *pair, row.scored))
                theirs = (one.name, dimension, figure.key.replace("/", ", "), figure.model)
                lines += [
                    (*theirs, *printed, *mine, figure.source)
                    for mine in measured or [(why, None, None, None)]
                ]
    return Table(TITLE, _COLUMNS, lines, _NOTE)
