"""Metrics that papers published, beside ours."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from medal_judges.config import judge_yaml, load_config, read_yaml, shipped_names
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import BenchmarkConfig, JudgeConfig, SetConfig
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.records.signature import Signature
from medal_judges.report.table import Cell, Row, Table

OURS = "Our ρ"  # empty in rows that this run did not measure
PUBLISHED = "Beside the published figures"
DIFFERS = "Differs in"
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
    DIFFERS,
    "Source",
)
_NOTE = (
    "The paper's numbers beside those of this run by the same model. A row that differs in "
    "anything does not reproduce the paper's number."
)
_LEGEND = (
    "\n\nρ is Spearman's, r Pearson's. ns marks numbers that the paper calls not significant "
    "(p > 0.05)."
)
Place = tuple[str, str, str]  # set, its dimension, judge
Published = dict[str, Any]  # a row of configs/published.yaml


def read_published() -> list[Published]:
    """Reads the correlations with people that papers report from configs/published.yaml.

    Returns:
        One mapping, field -> value, for each reported correlation. The file states fields such as
            ``judge``, ``set``, ``dimension`` and ``spearman``. Four fields are added: ``paper``,
            ``key`` (the paper and its judge, such as ``diet/fed``), ``models`` (all names of the
            model) and ``differs`` (how our method or data differs from the paper's).
    """
    file = read_yaml("published")
    methods = file["methods"]
    for row in file["figures"]:
        row["paper"] = row["source"].split(",")[0]
        words = [row["paper"]]
        if row["judge"] != row["paper"]:
            words.append(row["judge"])
        if row.get("variant"):
            words.append(row["variant"])
        row["key"] = "/".join(words)
        row["models"] = (row["model"], *file["models"].get(row["model"], ()))
        row["differs"] = [*methods[row["key"]], *file["sets"].get(row["set"], ())]
    return list(file["figures"])


def is_same_model(name: str, other_name: str) -> bool:
    """Returns whether two names are of the same model. Owner, date and letter case are ignored.

    >>> is_same_model("openai/gpt-4.1-2025-04-14", "GPT-4.1")
    True
    """
    return _bare_name(name) == _bare_name(other_name)


def _bare_name(model: str) -> str:
    return re.sub(r"-20\d\d-\d\d-\d\d$", "", model.rpartition("/")[2].lower())


def check_published(config: BenchmarkConfig) -> None:
    """Checks that configs/published.yaml has the papers, judges and sets that ``config`` names.

    Raises:
        ConfigError: The file lacks one of these names.
    """
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
            raise ConfigError(problem, hint=f"Use one of: {', '.join(published)}")


def published_table(config: BenchmarkConfig, rows: Sequence[ResultRow]) -> Table:
    """Returns a table of metrics that papers published, each beside the metric that we measured.

    Args:
        config: The config of the benchmark, which names the papers, judges and sets.
        rows: The results of our judges.
    """
    row_of = {(row.set_name, row.dimension, row.judge): row for row in rows}
    lines: list[Row] = []
    used: set[str] = set()
    for published in read_published():
        if published["paper"] not in config.published:
            continue
        source = published["source"]
        for set_config, dimension in _matching_sets(config, published):
            judges = list(_matching_judges(config, set_config, published))
            theirs: list[Cell] = [set_config.name, dimension]
            theirs += [published["key"].replace("/", ", "), published["model"]]
            theirs += [
                _format_metric(published, "spearman"),
                _format_metric(published, "pearson"),
            ]
            measured = []
            for judge, model, marks in judges:
                row = row_of.get((set_config.name, dimension, judge))
                if row is not None and _uses_same_model(published, row, model):
                    measured.append((row, model, marks))
            if not measured:
                reason = "not among our judges"
                if judges:
                    reason = "this model was not run"
                differs = _differs_text(published["differs"])
                lines.append([*theirs, reason, None, None, None, differs, source])
            for row, model, marks in measured:
                rho, r = row.metrics.get("spearman"), row.metrics.get("pearson")
                ours = [model or _model_of(row), rho, r, row.scored]
                lines.append([*theirs, *ours, _differs_text(marks), source])
                used.update(marks)
    note = _NOTE
    for mark, meaning in read_yaml("published")["marks"].items():
        if mark in used:
            note += f" {mark}: {meaning}."
    return Table(PUBLISHED, _COLUMNS, lines, note + _LEGEND)


def _differs_text(marks: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(marks)) or "nothing"


def _matching_sets(
    config: BenchmarkConfig, published: Published
) -> Iterator[tuple[SetConfig, str]]:
    """Yields each set of ``config`` that the paper's result is about, with the set's
    name for the dimension.

    Args:
        published: A paper's result, as ``read_published`` returns it.
    """
    for set_config in config.sets:
        is_turn_level = set_config.level != "dialogue"
        if set_config.published_as != published["set"]:
            continue
        if is_turn_level != (published["level"] != "dialogue"):
            continue
        for names in set_config.dimensions.items():
            if published["dimension"] in names:
                yield set_config, names[0]


def _matching_judges(
    config: BenchmarkConfig, set_config: SetConfig, published: Published
) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yields the judges of ``config`` that use the method of a paper's result.

    Args:
        set_config: The set that the result is about.
        published: A paper's result, as ``read_published`` returns it.

    Yields:
        The judge's name, its model (None if ``config`` does not state it), and keywords on what
            differs from the paper, such as ``prompt``.
    """
    other_rows = []
    if _comparable_settings(set_config) not in _shipped_settings(
        "sets", published["set"]
    ):
        other_rows = ["data"]
    for judge in config.judges:
        if judge.published_as == published["key"]:
            marks = [*published["differs"], *other_rows]
            if _comparable_settings(judge) not in _shipped_settings(
                "judges", published["key"]
            ):
                marks.append("settings")
            yield judge.name, judge.model, marks
    if published["key"] == set_config.published_as:
        # Labels that come with a paper's own set are by its own judge.
        for model in set_config.published:
            yield f"{model} (published)", model, other_rows


def _uses_same_model(published: Published, row: ResultRow, model: str | None) -> bool:
    """Returns whether a judge uses the same model as a paper's result.

    Args:
        published: A paper's result, as ``read_published`` returns it.
        row: The result of the judge.
        model: The judge's model as the config states it. None: take the model from the judge's
            saved settings (``row.signature``).
    """
    ours = model or _model_of(row)
    return any(is_same_model(ours, name) for name in published["models"])


def _model_of(row: ResultRow) -> str:
    signature = Signature.parse(row.signature)
    return signature.base or signature.judge


@cache
def _shipped_settings(kind: str, name: str) -> list[object]:
    """Returns the settings of each shipped judge or set whose ``published_as`` is ``name``.

    Args:
        kind: ``judges`` or ``sets``.
    """
    shipped = []
    for benchmark in shipped_names("benchmark"):
        config = load_config(BenchmarkConfig, f"benchmark/{benchmark}")
        for part in getattr(config, kind):
            if part.published_as == name:
                shipped.append(_comparable_settings(part))
    return shipped


def _comparable_settings(part: JudgeConfig | SetConfig) -> object:
    """Returns the settings that make a result comparable with a paper's.

    Args:
        part: A judge (its settings without the model) or a set (the settings that select rows).
    """
    if isinstance(part, SetConfig):
        return part.model_dump(exclude={"name", "dimensions", "optional", "published"})
    options = {name: value for name, value in part.options.items() if name != "llm"}
    return judge_yaml(part.path) or part.path, options


def _format_metric(published: Mapping[str, Any], metric: str) -> str | None:
    value = published[metric]
    if value is None:
        return None
    mark = ""
    if metric in published.get("not_significant", ()):
        mark = " ns"
    return f"{value:.2f}{mark}"
