"""Configuration of ``medal benchmark``: which judges, on which sets, compared on what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from medal_judges.config import Config
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.reading.options import ChatFileConfig
from medal_judges.records.rating import Scale
from medal_judges.stats.weights import Weights

# How the rows of a source become the rows of a set.
View = Literal["rows", "abceval_issues_by_turn", "abceval_issues_by_dialogue"]


class JudgeConfig(Config):
    """A judge: ``path`` is a folder, a hub id or a YAML file of configs/judges/.

    ``dimensions`` maps a dimension of the sets (or an injected issue) to this judge's own name for
    it, on every set that has it; it goes before the set's mapping. ``optional``: passed over with a
    note where its folder, weights, package or key are not available. ``published_as``: the judge in
    configs/published.yaml that it stands for, such as ``diet/craft-cll``.
    """

    name: str
    path: str
    revision: str | None = None
    options: Mapping[str, Any] = {}
    dimensions: Mapping[str, str] = {}
    optional: bool = False
    published_as: str | None = None


class SetConfig(ChatFileConfig):
    """Rows with human answers.

    ``source`` and how it is read: see ChatFileConfig. ``dimensions`` maps a dimension of
    the set to the judge's (a list where the names are the same). ``optional``: passed over with a
    note where its data is not here. ``published``: labellers of abceval's machine labels that stand
    beside the judges (``gpt``). ``published_as``: the set's name in configs/published.yaml.
    """

    name: str
    level: Literal["dialogue", "turn"] = "dialogue"
    dimensions: Mapping[str, str]
    view: View = "rows"
    exclude_chatbots: tuple[str, ...] = ()
    exclude_overlaps: bool = False
    optional: bool = False
    published: tuple[str, ...] = ()
    published_as: str | None = None

    @field_validator("dimensions", mode="before")
    @classmethod
    def _same_names(cls, value: Any) -> Any:
        return {name: name for name in value} if isinstance(value, list | tuple) else value

    @model_validator(mode="after")
    def _published_fits(self) -> SetConfig:
        if self.published and self.view != "abceval_issues_by_dialogue":
            raise ValueError("published labels go with view: abceval_issues_by_dialogue only")
        return self


class InjectedConfig(Config):
    """Rows of ``medal data plant``."""

    name: str
    source: str
    optional: bool = False


class PredictionConfig(Config):
    """Judgements made elsewhere, of one set. ``dimensions`` as of a judge. ``scales`` maps a
    dimension of the judgements to its (lowest, highest) score, which the file does not say."""

    name: str
    set: str
    path: Path
    dimensions: Mapping[str, str] = {}
    scales: Mapping[str, Scale] = {}

    @field_validator("scales")
    @classmethod
    def _ordered(cls, value: Mapping[str, Scale]) -> Mapping[str, Scale]:
        for name, (low, high) in value.items():
            if not low < high:
                raise ValueError(f"scale of {name}: {low:g} is not below {high:g}")
        return value


class CascadeConfig(Config):
    """Two judges of the benchmark, by name: what asking the strong one only where the weak one is
    unsure would cost, and how well it would agree."""

    weak: str
    strong: str


class BenchmarkConfig(Config):
    """Everything ``medal benchmark`` does. ``weights``: ``curation`` makes figures of a selection
    by ``medal curate`` those of its pool. ``seed``: of random orders.

    ``device``: of every judge whose ``options`` do not name another. ``workers``: processes that
    judge; a judge that is asked through an API is always one.
    ``llm``: the language model of every judge whose YAML file has one and whose ``options`` do not
    name another. ``published``: papers whose figures stand beside ours (``diet``, ``meep``,
    ``medal``, ``oralis``).
    """

    title: str = "Benchmark of dialogue judges"
    output_dir: Path
    weights: Weights = "none"
    seed: int = 0
    min_coverage: float = Field(0.98, ge=0, le=1)
    disagreements: int = Field(6, ge=0)
    device: str | None = None
    workers: int = Field(1, ge=1)
    llm: LLMConfig | None = None
    published: tuple[str, ...] = ()
    judges: tuple[JudgeConfig, ...] = ()
    sets: tuple[SetConfig, ...] = ()
    injected: tuple[InjectedConfig, ...] = ()
    predictions: tuple[PredictionConfig, ...] = ()
    cascades: tuple[CascadeConfig, ...] = ()

    @model_validator(mode="after")
    def _names_fit(self) -> BenchmarkConfig:
        _distinct("judges", [judge.name for judge in self.judges])
        names = [one.name for one in self.sets] + [each.name for each in self.injected]
        _distinct("sets", names)
        _distinct("predictions", [f"{p.name} on {p.set}" for p in self.predictions])
        judged = {one.name for one in self.judges} | {one.name for one in self.predictions}
        for cascade in self.cascades:
            if missing := {cascade.weak, cascade.strong} - judged:
                raise ValueError(
                    f"a cascade names {', '.join(sorted(missing))}, which is no judge here; "
                    f"there are {', '.join(sorted(judged)) or 'none'}"
                )
        for prediction in self.predictions:
            if prediction.set not in names:
                raise ValueError(
                    f"predictions {prediction.name!r} are of set {prediction.set!r}; the sets are "
                    f"{', '.join(names) or 'none'}"
                )
            if prediction.name in (judge.name for judge in self.judges):
                raise ValueError(
                    f"predictions {prediction.name!r} and a judge have the same name: rename one"
                )
        return self


def _distinct(what: str, names: list[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two {what} are called {', '.join(twice)}: give each its own name")
