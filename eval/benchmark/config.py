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
    """Options of ``medal benchmark``."""

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
    """A judge of a benchmark. It has either a ``path`` or ``predictions``. ``name``: its name in
    the tables.

    ``path``: a folder, a hub id (``ORG/NAME@REVISION``) or a YAML file of configs/judges/. The
    judge is loaded with ``options``. ``predictions``: maps the name of a set to a file of the
    judge's judgements. The file may also be a CSV table of ``id``, ``turn`` (at turn level) and
    scores. ``dimensions``: maps a dimension of the sets (or an injected issue) to the judge's name
    for it. This overrides the mapping of the set. ``optional``: whether to skip the judge, with a
    note, if its folder, weights, package or key is missing.

    ``published_as``: the judge's key in configs/published.yaml. ``model``: the name that
    configs/published.yaml uses for the judge's language model or encoder. It is needed only if that
    name differs.
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
    """A set of labelled rows. ``view``: how to read them. ``planted`` is for rows of ``medal data
    plant``, ``abceval_issues_by_dialogue`` turns ABC-Eval's labels of turns into issues of
    dialogues, ``rows`` changes nothing.

    ``level``: whether people rated whole dialogues (``dialogue``) or last turns (``turn``). With
    ``last``, people rated dialogues but the judge scores the last turn. ``dimensions``: maps a
    dimension of the set to the judge's name for it. A list means that the names are equal.
    ``groups``: the groups whose rows are used (default: all). ``limit``: the maximum number of
    rows, from the first. ``optional``: whether to skip the set, with a note, if its data is
    missing. ``published``: models (``gpt-4.1``) whose labels are in the rows under
    ``machine_labels``, to show beside the judges. ``published_as``: the set's name in
    configs/published.yaml.
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

    ``device`` and ``llm`` (the language model) apply to judges whose ``options`` do not set them.
    ``published``: papers whose metrics are shown beside ours (``diet``, ``meep``, ``medal``,
    ``oralis``).
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
