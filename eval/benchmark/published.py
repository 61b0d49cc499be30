"""The papers' published metrics, beside those of a benchmark."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from medal_judges.config import judge_file, load_config, read_yaml, shipped_names
from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.config import BenchmarkConfig, JudgeConfig, SetConfig
from medal_judges.eval.benchmark.files import SETTINGS
from medal_judges.eval.metaeval.metaeval import ResultRow
from medal_judges.records.signature import Signature, content_hash
from medal_judges.report.table import Cell, Table

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
    "The paper's figures beside those of this run by the same model. A row that differs in "
    "anything does not reproduce the paper's."
)
_LEGEND = (
    "\n\nρ is Spearman's, r Pearson's; ns marks figures that the paper calls not significant "
    "(p > 0.05)."
)
_QUOTES = str.maketrans("“”‘’", "\"\"''")
_UNMEASURED = ("not among our judges", "no figure of this model in this run")
_Place = tuple[str, str, str]  # set, its dimension, judge
Published = dict[str, Any]  # a row of configs/published.yaml


def read_published() -> list[Published]:
    """Returns the published correlations with people, the rows of configs/published.yaml.

    ``judge`` and ``variant`` name the judge, ``model`` its language model. ``key`` is the name for
    ``published_as`` in a config: its ``paper``, judge and variant (``diet/fed``; of the paper's own
    judge ``diet/craft-cll``, ``medal``). ``models``: all names of the model. ``differs``: marks of
    what our method and data do otherwise; ``hashes``: mark -> hashes of the paper's texts.
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
        of_model = f"{row['key']} of {row['model']}"
        method = {**methods[row["key"]], **methods.get(of_model, {})}
        row["hashes"] = method.get("hashes", {})
        row["differs"] = [*method.get("differs", ()), *file["sets"].get(row["set"], ())]
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


def published_table(
    config: BenchmarkConfig,
    texts: Mapping[_Place, Mapping[str, str]],
    rows: Sequence[ResultRow],
) -> Table:
    """Returns the published metrics on the sets of this benchmark: a line for each of our judges
    that they belong to, or a line that says why there is none. ``texts``: Judge.wording."""
    lines: list[list[Cell]] = []
    row_of = {(row.set_name, row.dimension, row.judge): row for row in rows}
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
                    lines += _lines(
                        config, set_config, dimension, published, row_of, texts
                    )
    used = str([line[-2] for line in lines])
    note = _NOTE
    for mark, meaning in read_yaml("published")["marks"].items():
        if mark in used:
            note += f" {mark}: {meaning}."
    return Table(PUBLISHED, _COLUMNS, lines, note + _LEGEND)


def _lines(
    config: BenchmarkConfig,
    set_config: SetConfig,
    dimension: str,
    published: Published,
    row_of: Mapping[_Place, ResultRow],
    texts: Mapping[_Place, Mapping[str, str]],
) -> list[list[Cell]]:
    """Returns the lines of one published row on a dimension of a set. ``texts``: Judge.wording."""
    # Judges of ours, the models that their configs state, and what differs.
    judges: list[Any] = []
    other_rows = []
    if _method(set_config) not in _shipped("sets", published["set"]):
        other_rows = ["data"]
    for judge in config.judges:
        if judge.published_as == published["key"]:
            wording = texts.get((set_config.name, dimension, judge.name), {})
            differs = _marks(published, judge, wording) + other_rows
            judges.append((judge.name, judge.model, differs))
    if published["key"] == set_config.published_as:
        # Labels that come with a paper's own set are by its own judge.
        for model in set_config.published:
            judges.append((f"{model} (published)", model, other_rows))
    measured: list[list[Cell]] = []
    for name, stated_model, marks in judges:
        if row := row_of.get((set_config.name, dimension, name)):
            signature = Signature.parse(row.signature)
            our_model = stated_model or signature.base or signature.judge
            if any(same_model(our_model, name) for name in published["models"]):
                rho, r = row.metrics.get("spearman"), row.metrics.get("pearson")
                measured.append(
                    [our_model, rho, r, row.scored, ", ".join(dict.fromkeys(marks))]
                )
    if not measured:
        reason = _UNMEASURED[bool(judges)]
        measured = [[reason, None, None, None, ", ".join(published["differs"])]]
    theirs: list[Cell] = [set_config.name, dimension]
    theirs += [published["key"].replace("/", ", "), published["model"]]
    theirs += [_printed(published, "spearman"), _printed(published, "pearson")]
    source = published["source"]
    return [[*theirs, *ours, marks or "nothing", source] for *ours, marks in measured]


def _marks(
    published: Published, judge: JudgeConfig, texts: Mapping[str, str]
) -> list[str]:
    """Returns what differs between a published row and ``judge``, which sends ``texts``: one of the
    paper's, by its hash, does not differ."""
    marks = list(published["differs"])
    for mark, text in texts.items():
        if text_hash(text) in published["hashes"].get(mark, ()):
            marks.remove(mark)
    if _method(judge) not in _shipped("judges", published["key"]):
        marks.append("settings")
    return marks


def text_hash(text: str) -> str:
    """Returns the hash of a paper's text; white space and the form of quotation marks do not count.

    >>> text_hash("“Rate it:”\\r\\n {dialogue} ") == text_hash('"Rate it:" {dialogue}')
    True
    """
    return content_hash(" ".join(text.translate(_QUOTES).split()))


@cache
def _shipped(kind: str, name: str) -> list[object]:
    """Returns the methods of the judges, or the rows of the sets (``kind``), that stand for
    ``name`` in the shipped benchmarks."""
    shipped = []
    for benchmark in shipped_names("benchmark"):
        for part in getattr(
            load_config(BenchmarkConfig, f"benchmark/{benchmark}"), kind
        ):
            if part.published_as == name:
                shipped.append(_method(part))
    return shipped


def _method(part: JudgeConfig | SetConfig) -> object:
    """Returns what a judge does, without its texts, which have hashes, and its model; or which rows
    a set has."""
    if isinstance(part, SetConfig):
        return part.model_dump(exclude={"name", "dimensions", "optional", "published"})
    options = dict(part.options)
    for name in (*SETTINGS, "llm"):
        options.pop(name, None)
    return judge_file(part.path) or part.path, options


def _printed(published: Published, metric: str) -> str | None:
    value = published[metric]
    if value is None:
        return None
    mark = ""
    if metric in published.get("not_significant", ()):
        mark = " ns"
    return f"{value:.2f}{mark}"
