"""README.md of a saved judge: what is known of it from its folder, and its way to the Hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from medal_judges.data_prep.sources.registry import SOURCES, parse_spec, source_of
from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.base.golden import read_golden
from medal_judges.models.base.saving import read_config
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write
from medal_judges.training.agreement import METRICS, AgreementRow, read_agreement
from medal_judges.training.card.base_model import BaseModel, base_model
from medal_judges.training.card.emissions import EMISSIONS_NAME
from medal_judges.training.card.trial import trial_of

if TYPE_CHECKING:
    from huggingface_hub import EvalResult, ModelCardData


_NO_MODEL = ("feature", "hybrid")  # their signature's base names measures or members, no model
_SHOWN = ("spearman", "within_system", "f1_present", "f1_absent")  # of a benchmark's figures
_ON_THE_HUB = {"spearman": "spearmanr", "f1_present": "f1"}


@dataclass(frozen=True, slots=True)
class DataSource:
    """One entry of a run's data: where from, how much, under which terms, labelled by which model
    (None: by people; injected rows: by the rule that injected them). ``known``: a source of
    data_prep, not a file of the maker's own."""

    part: str
    source: str
    rows: int
    revision: str
    languages: tuple[str, ...]
    licence: str
    citation: str
    labelled_by: str | None
    injected: bool
    known: bool

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> DataSource:
        """The entry of a line of data.json, with what the registry says of its source."""
        name = str(record["source"])
        try:
            spec = parse_spec(name)
        except SourceError:
            spec = None
        source = None if spec is None or spec.is_file else SOURCES[spec.name]
        injected = bool(record.get("injected"))
        return cls(
            part=record["part"],
            source=name if source else Path(name).name,  # of a file the name alone, not its folder
            rows=record["rows"],
            revision=record["hash"],
            languages=tuple(record.get("languages") or (source.languages if source else ())),
            licence=source.licence if source else "a file of the maker's own: not stated",
            citation=source.citation if source else "",
            labelled_by=source.labelled_by if source and not injected else None,
            injected=injected,
            known=source is not None,
        )


@dataclass(frozen=True, slots=True)
class BenchmarkFigure:
    """A figure of a benchmark: of a whole set, with the judge like for like and the human ceiling
    (where too few rows were scored, ``metric`` says so), or of one language of it."""

    set_name: str
    level: str
    lang: str | None
    dimension: str
    rows: int | str
    scored: int | str
    metric: str
    estimate: Estimate | None
    like_for_like: Estimate | None = None
    ceiling: Estimate | None = None


@dataclass(frozen=True, slots=True)
class JudgeMetadata:
    """All that a card says. ``run`` is what config.json says of the run, ``benchmark`` the figures
    of a results.json that are this very judge's, ``trial`` what trial.json says of it, ``notes``
    what its maker adds (card_notes of the training's settings)."""

    name: str
    family: str
    dimensions: tuple[Dimension, ...]
    signature: Signature
    base: BaseModel | None
    data: tuple[DataSource, ...]
    figures: Mapping[str, float]
    agreement: Sequence[AgreementRow]
    calibrated: Mapping[str, int]
    golden: Mapping[str, Any]
    emissions: Mapping[str, Any] | None
    run: Mapping[str, Any]
    benchmark: Sequence[BenchmarkFigure]
    trial: Mapping[str, Any] | None = None
    notes: tuple[str, ...] = ()

    @property
    def trained_on(self) -> tuple[DataSource, ...]:
        return tuple(d for d in self.data if d.part == "train")

    @property
    def languages(self) -> list[str]:
        """Languages of the training rows, ISO 639-1."""
        return sorted({lang for d in self.trained_on for lang in d.languages} - {"unknown"})

    @property
    def at_chance(self) -> list[AgreementRow]:
        """Rows whose interval does not exclude chance."""
        chance = {"roc_auc": 0.5, "spearmanr": 0.0}
        return [r for r in self.agreement if r.low is not None and r.low <= chance[r.metric]]

    def hub_metadata(self) -> ModelCardData:
        """The YAML head of the card."""
        from huggingface_hub import ModelCardData

        extra: dict[str, Any] = {}
        if self.emissions and self.emissions["kg_co2"] is not None:
            extra["co2_eq_emissions"] = {
                "emissions": round(1000 * self.emissions["kg_co2"], 3),  # the Hub counts grams
                "source": self.emissions["tool"],
                "training_type": "fine-tuning",
                "hardware_used": self.emissions["hardware"],
            }
        return ModelCardData(
            language=self.languages or None,
            license="other",
            license_name="see-the-chain-in-the-card",
            license_link="README.md#licences",
            library_name="medal_judges",
            pipeline_tag="text-classification",
            tags=["dialogue-evaluation", "llm-as-a-judge", f"medal-judges:{self.family}"],
            base_model=self.base.hub_id if self.base else None,
            model_name=self.name,
            eval_results=[*self._eval_results()] or None,
            **extra,
        )

    def _eval_results(self) -> Iterator[EvalResult]:
        """The figures that are defined, as model-index entries. The Hub gathers the metrics of one
        set and language in one entry, so that the dimension has to be in the metric's name."""
        for r in self.agreement:
            name = f"{METRICS[r.metric]}, {r.dimension}"
            if r.value is not None:
                yield _eval_result(r.source, r.part, r.metric, name, r.estimate, r.n, r.lang)
        for figure in self.benchmark:
            kind, value = _ON_THE_HUB.get(figure.metric), figure.estimate
            if kind and value and value.value is not None and figure.lang is None:
                name = f"{figure.metric}, {figure.dimension} ({figure.level})"
                yield _eval_result(figure.set_name, "test", kind, name, value, figure.scored)


def _eval_result(
    source: str,
    part: str,
    metric: str,
    name: str,
    estimate: Estimate,
    rows: int | str,
    lang: str | None = None,
) -> EvalResult:
    from huggingface_hub import EvalResult

    assert estimate.value is not None
    counted: dict[str, Any] = {"n": rows}
    if estimate.low is not None and estimate.high is not None:
        counted = {"interval_95": [round(estimate.low, 4), round(estimate.high, 4)], "n": rows}
    return EvalResult(
        task_type="text-classification",
        task_name="dialogue evaluation",
        dataset_type=source,
        dataset_name=source,
        dataset_config=lang,
        dataset_split=part,
        metric_type=metric,
        metric_name=name,
        metric_value=round(estimate.value, 4),
        metric_args=counted,
    )


def read_metadata(folder: Path, results: Path | None = None) -> JudgeMetadata:
    """What is known of the judge in ``folder``, with its own rows of a benchmark's results.json.

    Raises JudgeLoadError where there is no judge or no golden.json, ConfigError where the results
    hold no row of this judge at this revision.
    """
    config, golden = read_config(folder), read_golden(folder)
    signature = Signature.parse(golden["signature"])
    has_model = config["family"] not in _NO_MODEL and signature.base is not None
    calibration = config.get("calibration") or {}
    rows = () if results is None else _own_rows(results, signature)
    return JudgeMetadata(
        name=config.get("name", folder.name),
        family=config["family"],
        dimensions=tuple(Dimension(**d) for d in config["dimensions"]),
        signature=signature,
        base=base_model(signature.base) if has_model and signature.base else None,
        data=tuple(DataSource.from_record(r) for r in _read_json(folder / "data.json", [])),
        figures=_read_json(folder / "validation.json", {}),
        agreement=read_agreement(folder),
        calibrated={name: c.get("rows", 0) for name, c in calibration.items()},
        golden=golden,
        emissions=_read_json(folder / EMISSIONS_NAME, None),
        run=config.get("facts") or {},
        benchmark=[figure for row in rows for figure in _benchmark_figures(row)],
        trial=trial_of(folder),
        notes=tuple(_read_json(folder / "train_config.json", {}).get("card_notes", ())),
    )


def _read_json(path: Path, otherwise: object) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else otherwise


def _own_rows(results: Path, signature: Signature) -> list[Mapping[str, Any]]:
    if not results.is_file():
        raise ConfigError(f"no results of a benchmark at {results}", hint="medal benchmark ...")
    rows = json.loads(results.read_text(encoding="utf-8"))["rows"]
    own = [row for row in rows if _same_judge(Signature.parse(row["signature"]), signature)]
    if not own:
        others = sorted({row["judge"] for row in rows})
        raise ConfigError(
            f"{results}: no row is of this judge at revision {signature.revision}; "
            f"it has {', '.join(others)}",
            hint="run medal benchmark with --judge NAME=FOLDER of this folder first",
        )
    return own


def _same_judge(row: Signature, own: Signature) -> bool:
    return (row.revision, row.base, row.rubric) == (own.revision, own.base, own.rubric)


def _benchmark_figures(row: Mapping[str, Any]) -> Iterator[BenchmarkFigure]:
    """The figures of one row of results, of the whole set and of each of several languages."""
    place = (row["set_name"], row["level"])
    if row["scored"] < row["min_coverage"] * row["n"]:
        none = "none: too few rows scored"
        yield BenchmarkFigure(*place, None, row["dimension"], row["n"], row["scored"], none, None)
        return
    for metric in _SHOWN:
        if metric in row["metrics"]:
            yield BenchmarkFigure(
                *(*place, None, row["dimension"], row["n"], row["scored"], metric),
                Estimate(**row["metrics"][metric]),
                *(
                    Estimate(**row[side][metric]) if metric in row[side] else None
                    for side in ("like_for_like", "ceiling")
                ),
            )
    parts = {k.removeprefix("lang:"): v for k, v in row["slices"].items() if k.startswith("lang:")}
    for lang, metrics in parts.items() if len(parts) > 1 else ():
        size = row["slice_sizes"].get(f"lang:{lang}", "")
        for metric in (name for name in _SHOWN if name in metrics):
            estimate = Estimate(**metrics[metric])
            yield BenchmarkFigure(*place, lang, row["dimension"], size, "", metric, estimate)


CARD_NAME = "README.md"


def write_card(
    folder: Path,
    *,
    repo_id: str | None = None,
    revision: str | None = None,
    results: Path | None = None,
) -> None:
    """Write the card of the judge in ``folder``; its snippet loads ``repo_id`` at ``revision``
    where they are given, else the folder's name.

    Raises JudgeLoadError and ConfigError as ``read_metadata`` does.
    """
    judge = read_metadata(folder, results)
    environment = Environment(
        loader=PackageLoader("medal_judges.training.card"),
        trim_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["figure"] = _figure
    sources: dict[str, DataSource] = {}
    for entry in judge.trained_on:
        sources.setdefault(source_of(entry.source), entry)
    text = environment.get_template("card.md").render(
        judge=judge,
        hub=judge.hub_metadata().to_yaml(),
        folder=folder.name,
        repo_id=repo_id,
        revision=revision,
        metrics=METRICS,
        sources=sources,
    )
    atomic_write(folder / CARD_NAME, text)


def _figure(estimate: Estimate | None) -> str:
    """``0.42 [0.30, 0.55]``; where there is none, why."""
    if estimate is None:
        return ""
    if estimate.value is None:
        return f"none: {estimate.reason or 'undefined'}"
    if estimate.low is None:
        return f"{estimate.value:.2f} (no interval)"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
