"""The papers' published metrics, beside those of a benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import BenchmarkConfig, SetConfig
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.records.signature import Signature
from medal_judges.report.table import Cell, Table

OURS = "Our ρ"  # empty in rows that this run did not measure
PUBLISHED = "Beside the published figures"
_COLUMNS = (
    "Set",
    "Dimension",
    "Judge",
    "Their model",
    "Their ρ",
    "Their r",
    "Our model",
    OURS,
    "Our r",
    "n",
    "Source",
)
_NOTE = (
    "The paper's figures, on its version of the data, beside the figures of this run by the same "
    "method and model.\n\nρ is Spearman's, r Pearson's; ns marks figures that the paper calls not "
    "significant (p > 0.05)."
)
Published = dict[str, Any]  # a row of configs/published.yaml


def read_published() -> list[Published]:
    """Returns the published correlations with people, the rows of configs/published.yaml.

    ``judge`` and ``variant`` name the judge, ``model`` its language model. ``key`` is the name for
    ``published_as`` in a config: its ``paper``, judge and variant (``diet/fed``; of the paper's own
    judge ``diet/craft-cll``, ``medal``). ``models``: all names of the model.
    """
    file = read_yaml("published")
    for row in file["figures"]:
        row["paper"] = row["source"].split(",")[0]
        words = [row["paper"]]
        if row["judge"] != row["paper"]:
            words.append(row["judge"])
        if row.get("variant"):
            words.append(row["variant"])
        row["key"] = "/".join(words)
        row["models"] = (row["model"], *file["models"].get(row["model"], ()))
    return list(file["figures"])


def same_model(name: str, other_name: str) -> bool:
    """Returns whether two names are of one model, apart from its owner, a date and case.

    >>> same_model("openai/gpt-4.1-2025-04-14", "GPT-4.1")
    True
    """
    return _bare_name(name) == _bare_name(other_name)


def _bare_name(model: str) -> str:
    return re.sub(r"-20\d\d-\d\d-\d\d$", "", model.rpartition("/")[2].lower())


def check_published(config: BenchmarkConfig) -> None:
    """Raises ConfigError for a paper, judge or set that is not among the published metrics."""
    rows = read_published()
    _require_published(rows, "paper", "published", config.published)
    judges = [judge.published_as for judge in config.judges]
    _require_published(rows, "key", "a judge's published_as", judges)
    sets = [set_config.published_as for set_config in config.sets]
    _require_published(rows, "set", "a set's published_as", sets)


def _require_published(
    rows: Sequence[Published], field: str, setting: str, names: Iterable[str | None]
) -> None:
    published = list(dict.fromkeys(row[field] for row in rows))
    for name in names:
        if name and name not in published:
            problem = f"{setting}: {name!r} is not in configs/published.yaml"
            raise ConfigError(problem, hint=f"there: {', '.join(published)}")


def published_table(config: BenchmarkConfig, rows: Sequence[ResultRow]) -> Table:
    """Returns the published metrics on the sets of this benchmark: a line for each of our judges
    that they belong to, or a line that says why there is none."""
    lines: list[list[Cell]] = []
    for published in read_published():
        if published["paper"] not in config.published:
            continue
        for set_config in config.sets:
            is_whole = set_config.level == "dialogue"
            if (set_config.published_as, is_whole) != (
                published["set"],
                published["level"] == "dialogue",
            ):
                continue
            for dimension, judge_dimension in set_config.dimensions.items():
                if published["dimension"] in (dimension, judge_dimension):
                    lines += _lines(config, set_config, dimension, published, rows)
    return Table(PUBLISHED, _COLUMNS, lines, _NOTE)


def _lines(
    config: BenchmarkConfig,
    set_config: SetConfig,
    dimension: str,
    published: Published,
    rows: Sequence[ResultRow],
) -> list[list[Cell]]:
    """Returns the lines of one published row on a dimension of a set."""
    # Name of a judge of ours -> the model that its config states.
    judges: dict[str, str | None] = {}
    for judge in config.judges:
        if judge.published_as == published["key"]:
            judges[judge.name] = judge.model
    if published["key"] == set_config.published_as:
        # Labels that come with a paper's own set are by its own judge.
        for model in set_config.published:
            judges[f"{model} (published)"] = model
    measured: list[list[Cell]] = []
    for row in rows:
        is_ours = (row.set_name, row.dimension) == (set_config.name, dimension)
        if is_ours and row.judge in judges:
            signature = Signature.parse(row.signature)
            our_model = judges[row.judge] or signature.base or signature.judge
            if any(same_model(our_model, name) for name in published["models"]):
                rho, r = row.metrics.get("spearman"), row.metrics.get("pearson")
                measured.append([our_model, rho, r, row.scored])
    if not measured:
        reason = "not among our judges"
        if judges:
            reason = "no figure of this model in this run"
        measured = [[reason, None, None, None]]
    theirs: list[Cell] = [set_config.name, dimension]
    theirs += [published["key"].replace("/", ", "), published["model"]]
    theirs += [_printed(published, "spearman"), _printed(published, "pearson")]
    return [[*theirs, *ours, published["source"]] for ours in measured]


def _printed(published: Published, metric: str) -> str | None:
    value = published[metric]
    if value is None:
        return None
    mark = ""
    if metric in published.get("not_significant", ()):
        mark = " ns"
    return f"{value:.2f}{mark}"
