"""Settings of ``medal benchmark``: judges, sets, and which dimensions to compare."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain, product
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from medal_judges.config import DEVICE, NO_CACHE, OFFLINE, Config, option
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.reading.dialogues import ChatFileConfig
from medal_judges.stats.intervals import Lead
from medal_judges.training.config import SplitConfig

Headline = Literal["spearman", "pairwise"]


class BenchmarkOptions(Config):
    """Options of ``medal benchmark``."""

    overrides: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="FIELD=VALUE",
        help="Changes a setting of the YAML file: a=1, or a.b=1 inside a group.",
    )
    config: str = option(
        "configs/benchmark/human.yaml",
        help="YAML file, or the name of one in configs/benchmark/.",
    )
    out: str | None = option(
        None, help="Folder to write; default: the config's output_dir."
    )
    judge: tuple[str, ...] = option(
        (),
        metavar="[NAME=]PATH",
        help="A further judge: shipped name, YAML file, folder or hub id; may be repeated.",
    )
    device: str | None = DEVICE
    workers: int | None = option(
        None, ge=1, help="Number of scoring processes; on GPUs one each. [default: 1]"
    )
    interval_for: Lead | None = option(
        None,
        help="Whom intervals are for: these chatbots, or others like them. [default: these]",
    )
    headline: Headline | None = option(
        None,
        help="The figure of graded dimensions that ranks judges. [default: spearman]",
    )
    offline: bool = OFFLINE
    retry_failed: bool = option(False, help="Score every row without a score again.")
    no_cache: bool = NO_CACHE


class JudgeConfig(Config):
    """A judge: ``path`` is a folder, a hub id or a YAML file of configs/judges/.

    ``dimensions`` maps a dimension of the sets (or an injected issue) to the judge's name for it,
    and overrides the set's mapping. ``optional``: skip with a note if its folder, weights, package
    or key are missing. ``published_as``: the judge's name in configs/published.yaml, and ``model``
    its model's there, if that is not the name of its language model or encoder. ``grid`` lists
    values of options: every combination is a judge of its own.
    """

    name: str
    path: str
    revision: str | None = None
    options: Mapping[str, Any] = {}
    grid: Mapping[str, Annotated[tuple[Any, ...], Field(min_length=1)]] = {}
    dimensions: Mapping[str, str] = {}
    optional: bool = False
    published_as: str | None = None
    model: str | None = None

    def combinations(self) -> Iterator[JudgeConfig]:
        """Yields a judge for each combination of the grid, with its values among the options and in
        the name."""
        for values in product(*self.grid.values()):
            name = " ".join([self.name, *map(str, values)])
            options = dict(zip(self.grid, values, strict=True))
            yield self.model_copy(
                update={"name": name, "options": {**self.options, **options}}
            )


class SetConfig(ChatFileConfig):
    """Labelled rows; ``view`` turns ABC-Eval's turns into issues of whole dialogues.

    ``level``: rows rated as whole dialogues or by their last turn; ``last`` judges the last turn of
    rows that are rated as dialogues. ``dimensions`` maps a dimension of the set to the judge's (a
    list if the names are equal). ``groups``: those whose rows are used (none: all). Of the rows in
    ``langs`` and in their order, ``limit`` rows after the first ``skip``.
    ``split``: that of a training config on the same source; only its test rows are read.
    ``optional``: skip the set with a note if its data is missing. ``published``: models
    (``gpt-4.1``) whose labels the rows hold, in ``machine_labels`` or ``earlier_labels``, to show
    beside the judges. ``published_as``: the set's name in configs/published.yaml.
    """

    name: str
    level: Literal["dialogue", "turn", "last"] = "dialogue"
    groups: tuple[str, ...] = ()
    dimensions: Mapping[str, str]
    view: Literal["rows", "abceval_issues_by_dialogue"] = "rows"
    exclude_chatbots: tuple[str, ...] = ()
    exclude_overlaps: bool = False
    split: SplitConfig | None = None
    skip: int = Field(0, ge=0)
    limit: int | None = Field(None, ge=1)
    optional: bool = False
    published: tuple[str, ...] = ()
    published_as: str | None = None

    @field_validator("dimensions", mode="before")
    @classmethod
    def _same_names(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            return {name: name for name in value}
        return value


class InjectedConfig(Config):
    """Rows of ``medal data plant``."""

    name: str
    source: str
    optional: bool = False


class PredictionConfig(Config):
    """A file of judgements of one set. ``dimensions`` as in JudgeConfig. ``rubric``: shipped name
    or YAML file, for a file that states no dimensions."""

    name: str
    set: str
    path: Path
    rubric: str | None = None
    dimensions: Mapping[str, str] = {}


class BenchmarkConfig(Config):
    """The YAML file of ``medal benchmark``.

    ``interval_for``: whom the leading intervals are for, ``these`` chatbots in new conversations or
    ``others`` like them. ``headline``: the figure of graded dimensions that ranks judges,
    ``spearman`` or ``pairwise``. ``device`` and ``llm`` (the language model) apply to judges whose
    ``options`` set neither. ``workers``: number of scoring processes (judges behind an API use
    one). ``prompts`` and ``followups``: files (one, or a list) that the judges use instead of the
    shipped files of the same ``name``. ``published``: papers whose figures are shown beside ours
    (``diet``, ``meep``, ``medal``, ``oralis``).
    """

    title: str = "Benchmark of dialogue judges"
    output_dir: Path
    interval_for: Lead = "these"
    headline: Headline = "spearman"
    min_coverage: float = Field(0.98, ge=0, le=1)
    disagreements: int = Field(6, ge=0)
    device: str | None = None
    workers: int = Field(1, ge=1)
    llm: LLMConfig | None = None
    prompts: tuple[str, ...] = ()
    followups: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    judges: tuple[JudgeConfig, ...] = ()
    sets: tuple[SetConfig, ...] = ()
    injected: tuple[InjectedConfig, ...] = ()
    predictions: tuple[PredictionConfig, ...] = ()

    @field_validator("prompts", "followups", mode="before")
    @classmethod
    def _one_file(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _names_fit(self) -> BenchmarkConfig:
        combined = chain.from_iterable(judge.combinations() for judge in self.judges)
        judges = [judge.name for judge in combined]
        judges += {prediction.name for prediction in self.predictions}
        sets = [set_config.name for set_config in self.sets]
        sets += [injected.name for injected in self.injected]
        predictions = [
            f"{prediction.name} on {prediction.set}" for prediction in self.predictions
        ]
        _require_distinct("judges", judges)
        _require_distinct("sets", sets)
        _require_distinct("predictions", predictions)
        for prediction in self.predictions:
            if prediction.set not in sets:
                names = ", ".join(sets) or "none"
                problem = f"predictions {prediction.name!r}: no set {prediction.set!r}"
                raise ValueError(f"{problem}; known: {names}")
        return self


def _require_distinct(kind: str, names: Iterable[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"two {kind} have the name {', '.join(repeated)}")
