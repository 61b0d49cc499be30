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
    """Options of ``medal benchmark``: the YAML file, changes of its settings, and added judges."""

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
    """A judge of a benchmark. It scores the sets, or its finished scores are read from files.

    Attributes:
        name: The judge's name in the tables.
        path: A folder, Hub id (``ORG/NAME@REVISION``) or YAML file of a judge that scores the sets.
            Empty with ``predictions``.
        predictions: Set -> file of finished scores, such as ``{fed: fed.csv}``: judgements, or a
            CSV table.
        options: Settings that override the judge's own, such as ``{llm: ORG/NAME}``.
        dimensions: Name of a dimension in the sets -> the judge's name for it, such as ``{engaging:
            engagingness}``. It overrides the field ``dimensions`` of a set.
        optional: What happens if the judge's files, package or API key are missing. True skips the
            judge with a note, false raises an error.
        published_as: The judge's method in configs/published.yaml, such as ``diet/fed``. Metrics
            that papers published for this method are shown beside ours.
        model: The judge's model as configs/published.yaml names it, such as ``GPT-3.5``. Needed if
            the judge itself names the model differently.
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
    """A set of labelled dialogues or turns in a benchmark.

    Attributes:
        name: The set's name in the tables.
        level: What people rated and what judges score. ``dialogue``: whole dialogues. ``turn``: the
            last turn. ``last``: people rated whole dialogues, judges score the last answer.
        groups: Names of the conversations to use, as in the rows' field ``group`` (default: all).
        dimensions: Name of a dimension in the set -> the judges' name for it, such as ``{engaging:
            engagingness}``. If the names are equal, a list such as ``[overall]`` suffices.
        view: How labels are used. ``rows``: unchanged. ``planted``: issues injected by ``medal data
            plant``. ``abceval_issues_by_dialogue``: ABC-Eval's turn labels, merged by dialogue.
        exclude_chatbots: Names of chatbots whose dialogues are left out.
        exclude_overlaps: Whether to leave out dialogues that other data sets also contain.
        limit: The number of dialogues to use, from the first (default: all).
        optional: What happens if the set's data is missing. True skips the set with a note, false
            raises an error.
        published: Models, such as ``gpt-4.1``, whose labels in the data are evaluated like a
            judge's scores.
        published_as: The set's name in configs/published.yaml, such as ``fed``.
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
        min_coverage: The share of a set's labelled dialogues that a judge must score, on [0, 1].
            Below it, the judge gets no metric.
        device: The default device of all judges, such as ``cuda``.
        llm: The default language model of all judges that use one.
        published: Papers whose metrics are shown beside ours, such as ``medal`` or ``oralis``.
        judges: The judges to compare.
        sets: The labelled sets to compare the judges on.
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
    def _check_sets_and_judges(self) -> BenchmarkConfig:
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
