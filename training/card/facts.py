"""The facts of a judge's card, read from the folder that a run left; nothing else is known."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medal_judges.data_prep.sources.registry import SOURCES, parse_spec
from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.base.golden import read_golden
from medal_judges.models.base.saving import read_config
from medal_judges.signature import Signature
from medal_judges.training.agreement import AGREEMENT_NAME
from medal_judges.training.card.emissions import EMISSIONS_NAME

_NO_MODEL = ("feature", "hybrid")  # their signature's base names measures or members, no model


@dataclass(frozen=True, slots=True)
class DataFact:
    """One entry of a run's data: where from, how much, under which terms, labelled by which model
    (None: by people; planted rows: by the rule that planted them). ``known``: a source of
    data_prep, not a file of the maker's own."""

    part: str
    source: str
    rows: int
    revision: str
    languages: tuple[str, ...]
    licence: str
    citation: str
    labelled_by: str | None
    planted: bool
    known: bool


@dataclass(frozen=True, slots=True)
class CardFacts:
    """All that a card says. ``agreement`` are the records of training/agreement.py, ``benchmark``
    the rows of a results.json that are this very judge's."""

    name: str
    family: str
    version: str
    dimensions: tuple[Dimension, ...]
    signature: Signature
    base: str | None
    data: tuple[DataFact, ...]
    figures: Mapping[str, float]
    agreement: Sequence[Mapping[str, Any]]
    calibrated: Mapping[str, int]
    golden: Mapping[str, Any]
    emissions: Mapping[str, Any] | None = None
    benchmark: Sequence[Mapping[str, Any]] = ()
    run: Mapping[str, Any] = field(default_factory=dict)  # the facts of config.json

    @property
    def trained_on(self) -> tuple[DataFact, ...]:
        return tuple(d for d in self.data if d.part == "train")

    @property
    def languages(self) -> tuple[str, ...]:
        """Languages of the training rows, ISO 639-1."""
        found = {lang for d in self.trained_on for lang in d.languages}
        return tuple(sorted(found - {"unknown"}))


def read_facts(folder: Path, results: Path | None = None) -> CardFacts:
    """The facts in a judge's folder, and its own rows of a benchmark's results.json.

    Raises JudgeLoadError where there is no judge or no golden.json, ConfigError where the results
    hold no row of this judge at this revision.
    """
    config = read_config(folder)
    golden = read_golden(folder)
    signature = Signature.parse(golden["signature"])
    calibration = config.get("calibration") or {}
    return CardFacts(
        name=config.get("name", folder.name),
        family=config["family"],
        version=config.get("medal_judges_version", "unknown"),
        dimensions=tuple(Dimension(**d) for d in config["dimensions"]),
        signature=signature,
        base=None if config["family"] in _NO_MODEL else signature.base,
        data=tuple(_data_fact(record) for record in _read(folder / "data.json", [])),
        figures=_read(folder / "validation.json", {}),
        agreement=_read(folder / AGREEMENT_NAME, []),
        calibrated={name: c.get("rows", 0) for name, c in calibration.items()},
        golden=golden,
        emissions=_read(folder / EMISSIONS_NAME, None),
        benchmark=() if results is None else _own_rows(results, signature),
        run=config.get("facts") or {},
    )


def _read(path: Path, otherwise: Any) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.is_file() else otherwise


def _data_fact(record: Mapping[str, Any]) -> DataFact:
    name = str(record["source"])
    try:
        spec = parse_spec(name)
    except SourceError:
        spec = None
    source = None if spec is None or spec.is_file else SOURCES[spec.name]
    planted = bool(record.get("planted"))
    return DataFact(
        part=record["part"],
        source=name if source else Path(name).name,  # of a file the name alone, not its folder
        rows=record["rows"],
        revision=record["hash"],
        languages=tuple(record.get("languages") or (source.languages if source else ())),
        licence=source.licence if source else "a file of the maker's own: not stated",
        citation=source.citation if source else "",
        labelled_by=source.labelled_by if source and not planted else None,
        planted=planted,
        known=source is not None,
    )


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
