"""Settings of ``medal benchmark``: judges, sets, and which dimensions to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from medal_judges.config import Config, option
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.reading.dialogues import ChatFileConfig


class BenchmarkOptions(Config):
    """Options of ``medal benchmark``: the YAML file, changes of it, and further judges."""

    overrides: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="FIELD=VALUE",
        help="Change a setting of the YAML file: a=1, or a.b=1 inside a group.",
    )
    config: str = option(
        "configs/benchmark/human.yaml",
        help="YAML file, or the name of one in configs/benchmark/.",
    )
    out: str | None = option(
        None, help="Folder to write.  [default: output_dir of the config]"
    )
    judge: tuple[str, ...] = option(
        (),
        metavar="[NAME=]PATH",
        help="Add a judge: shipped name, YAML file, folder or Hub id. May be repeated.",
    )
    retry_failed: bool = option(False, help="Score again every row that has no score.")
    no_cache: bool = option(False, help="Ask language models anew. Store no answers.")


class JudgeConfig(Config):
    """A judge of a benchmark, which scores the sets or has a file of scores for them.

    Attributes:
        name: The judge's name in the tables.
        path: A folder, Hub id (``ORG/NAME@REVISION``) or YAML file. Empty with ``predictions``.
        predictions: Files of finished scores by the set's name: judgements, or a CSV table.
        options: Settings to load the judge with.
        dimensions: Maps a set's dimension to the judge's name for it, before the set's own mapping.
        optional: Whether to skip the judge, with a note, if its files, package or key are missing.
        published_as: The judge's key in configs/published.yaml, such as ``diet/fed``.
        model: The judge's model as configs/published.yaml names it, if the name differs.
    """

    name: str
    path: str = ""
    predictions: Mapping[str, Path] = {}
    options: Mapping[str, Any] = {}
    dimensions: Mapping[str, str] = {}
    optional: bool = False
    published_as: str | None = None
    model: str | None = None


class SetConfig(ChatFileConfig):
    """A set of labelled rows in a benchmark.

    Attributes:
        name: The set's name in the tables.
        level: What people rated: the ``dialogue``, the last ``turn``, or the dialogue where the
            judge scores the ``last`` turn.
        groups: The groups whose rows are used (default: all).
        dimensions: Maps a set's dimension to the judge's name for it. A list: equal names.
        view: ``rows`` as they are, ``planted`` issues of ``medal data plant``, or ABC-Eval's turn
            labels as ``abceval_issues_by_dialogue``.
        exclude_chatbots: Chatbots whose rows are left out.
        exclude_overlaps: Whether to leave out rows that other sets also have.
        limit: The maximum number of rows, from the first.
        optional: Whether to skip the set, with a note, if its data is missing.
        published: Models, such as ``gpt-4.1``, whose labels in the rows are shown as judges.
        published_as: The set's name in configs/published.yaml.
    """

    name: str
    level: Literal["dialogue", "turn", "last"] = "dialogue"
    groups: tuple[str, ...] = ()
    dimensions: Mapping[str, str] = {}
    view: Literal["rows", "planted", "abceval_issues_by_dialogue"] = "rows"
    exclude_chatbots: tuple[str, ...] = ()
    exclude_overlaps: bool = False
    limit: int | None = Field(None, ge=1)
    optional: bool = False
    published: tuple[str, ...] = ()
    published_as: str | None = None

    @field_validator("dimensions", mode="before")
    @classmethod
    def _as_mapping(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return {name: name for name in value}
        return value


class BenchmarkConfig(Config):
    """The YAML file of ``medal benchmark``.

    Attributes:
        title: The heading of the page.
        output_dir: The folder to write.
        min_coverage: The share of rows that must be scored for a metric, on [0, 1].
        device: The device of all judges whose ``options`` name none, such as ``cuda``.
        llm: The language model of all judges whose ``options`` name none.
        published: Papers whose metrics are shown beside ours, such as ``medal`` or ``oralis``.
        judges: The judges to compare.
        sets: The labelled sets to compare them on.
    """

    title: str = "Benchmark of dialogue judges"
    output_dir: Path
    min_coverage: float = Field(0.98, ge=0, le=1)
    device: str | None = None
    llm: LLMConfig | None = None
    published: tuple[str, ...] = ()
    judges: tuple[JudgeConfig, ...] = ()
    sets: tuple[SetConfig, ...] = ()

    @model_validator(mode="after")
    def _check_names(self) -> BenchmarkConfig:
        names = [part.name for part in self.sets]
        _require_distinct("sets", names)
        _require_distinct("judges", [judge.name for judge in self.judges])
        for part in self.sets:
            if not part.dimensions and part.view != "planted":
                raise ValueError(f"set {part.name!r}: give it dimensions")
        for judge in self.judges:
            if bool(judge.path) == bool(judge.predictions):
                raise ValueError(f"judge {judge.name!r}: give a path or predictions")
            for name in judge.predictions:
                if name not in names:
                    problem = f"predictions of {judge.name!r}: no set {name!r}"
                    raise ValueError(f"{problem}. Use one of: {', '.join(names)}")
        return self


def _require_distinct(kind: str, names: Iterable[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"two {kind} have the name {', '.join(repeated)}. Rename one")
