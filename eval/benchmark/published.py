"""Published figures beside ours: the papers' numbers, each with the paper's own model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medal_judges.config import read_yaml
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


def read_published() -> list[dict[str, Any]]:
    """Returns the rows of configs/published.yaml: correlations of a ``judge`` with people.

    ``variant`` is the judge's variant and ``model`` its language model. ``key`` is what a config
    names in ``published_as`` (``diet/craft-cll``, ``fed``). ``paper`` is the source of the figure.
    """
    rows = read_yaml("published")["figures"]
    for row in rows:
        row["key"] = "/".join(filter(None, (row["judge"], row.get("variant"))))
        row["paper"] = row["source"].split(",")[0]
    return list(rows)


def check_published(config: BenchmarkConfig) -> None:
    """Raises ConfigError for a paper, judge or set that the published figures do not have."""
    named = [("published", name, "paper") for name in config.published]
    named += [
        ("a judge's published_as", j.published_as, "key") for j in config.judges if j.published_as
    ]
    named += [
        ("a set's published_as", s.published_as, "set") for s in config.sets if s.published_as
    ]
    rows = read_published() if named else []
    for what, name, field in named:
        there = dict.fromkeys(row[field] for row in rows)
        if name not in there:
            raise ConfigError(
                f"{what}: {name!r} is not in configs/published.yaml",
                hint=f"there: {', '.join(there)}",
            )


def published_table(config: BenchmarkConfig, rows: Sequence[ResultRow]) -> Table:
    """Returns each figure of ``config.published`` on a set of this benchmark, a line for each of
    our judges with this figure, or one that says why there is none."""
    lines: list[tuple[Cell, ...]] = []
    for figure in (figure for figure in read_published() if figure["paper"] in config.published):
        ours = [judge.name for judge in config.judges if judge.published_as == figure["key"]]
        printed: list[str | None] = []
        for metric in ("spearman", "pearson"):
            mark = " ns" if metric in figure.get("not_significant", ()) else ""
            value = figure[metric]
            printed.append(None if value is None else f"{value:.2f}{mark}")
        for one in config.sets:
            if (one.published_as, one.level) != (figure["set"], figure["level"]):
                continue
            for dimension, judged in one.dimensions.items():
                if figure["dimension"] not in (dimension, judged):
                    continue
                measured: list[tuple[Cell, ...]] = []
                for row in rows:
                    at = row.set_name, row.dimension
                    if at == (one.name, dimension) and row.judge in ours:
                        signature = Signature.parse(row.signature)
                        pair = row.metrics.get("spearman"), row.metrics.get("pearson")
                        measured.append((signature.base or signature.judge, *pair, row.scored))
                why = "no figure in this run" if ours else "not among our judges"
                who = figure["key"].replace("/", ", "), figure["model"]
                lines += [
                    (one.name, dimension, *who, *printed, *mine, figure["source"])
                    for mine in measured or [(why, None, None, None)]
                ]
    return Table(TITLE, _COLUMNS, lines, _NOTE)
