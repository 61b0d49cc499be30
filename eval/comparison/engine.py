"""Every dimension and language: means, differences, p-values, ranks."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Literal

import numpy as np
import numpy.typing as npt

from medal_judges.eval.comparison.contexts import Contexts
from medal_judges.eval.comparison.labels import HumanLabels
from medal_judges.eval.comparison.results import ALL, Basis, ComparedOn, PairResult, SystemResult
from medal_judges.eval.comparison.rows import ScoredDialogue
from medal_judges.records.languages import UNKNOWN_LANGUAGE
from medal_judges.stats.correlation import Floats
from medal_judges.stats.means import interval_of, mean_of
from medal_judges.stats.ppi import correct, too_few_labels
from medal_judges.stats.significance import holm
from medal_judges.stats.systems import (
    SystemRows,
    indistinct_groups,
    rank_intervals,
    system_difference,
)

Good = Literal["low", "high"]
Codes = npt.NDArray[np.intp]
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True, slots=True)
class ComparedRows:
    """What is compared: rows with their contexts, clusters (None: contexts) and labels (None: no
    people). ``good`` tells the better end of a dimension's scale, ``difference`` the one that
    ``PairResult.more`` is for."""

    rows: Sequence[ScoredDialogue]
    contexts: Contexts
    good: Callable[[str], Good]
    clusters: Sequence[str] | None = None
    labels: HumanLabels | None = None
    difference: float | None = None
    places: Mapping[str, Sequence[int]] = field(init=False)  # the rows of each system
    # contexts and clusters as numbers: sorting names for each pair would cost more than all else
    context_codes: Codes = field(init=False)
    cluster_codes: Codes | None = field(init=False)

    def __post_init__(self) -> None:
        places: dict[str, list[int]] = {}
        for i, row in enumerate(self.rows):
            places.setdefault(row.system, []).append(i)
        object.__setattr__(self, "places", places)
        object.__setattr__(self, "context_codes", _codes(self.contexts.names))
        codes = None if self.clusters is None else _codes(self.clusters)
        object.__setattr__(self, "cluster_codes", codes)

    def of_system(self, system: str, dimension: str, lang: str) -> SystemRows:
        """The scored rows of a system on a dimension and language."""
        chosen = [
            i
            for i in self.places.get(system, ())
            if dimension in self.rows[i].scores and lang in (ALL, self.rows[i].lang)
        ]
        rows = [self.rows[i] for i in chosen]
        labels, weights = self._labels(rows, dimension)
        return SystemRows(
            np.array([row.scores[dimension] for row in rows], dtype=np.float64),
            self.context_codes[chosen],
            None if self.cluster_codes is None else self.cluster_codes[chosen],
            labels,
            weights,
        )

    def unscored(self, system: str, dimension: str, lang: str) -> int:
        """Rows of a system that the judge should have scored and did not."""
        return sum(
            dimension in self.rows[i].failures and lang in (ALL, self.rows[i].lang)
            for i in self.places.get(system, ())
        )

    def _labels(
        self, rows: Sequence[ScoredDialogue], dimension: str
    ) -> tuple[Floats | None, Floats | None]:
        if self.labels is None or dimension not in self.labels.scales:
            return None, None
        keys = [(row.system, row.id) for row in rows]
        given = [self.labels.values.get(key, {}).get(dimension, math.nan) for key in keys]
        if self.labels.weights is None:
            return np.array(given, dtype=np.float64), None
        weights = [self.labels.weights.get(key, 1.0) for key in keys]
        return np.array(given, dtype=np.float64), np.array(weights)


def _codes(names: Sequence[str]) -> Codes:
    known: dict[str, int] = {}
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.intp)


def compare_rows(
    compared: ComparedRows, systems: Sequence[str], dimensions: Sequence[str]
) -> tuple[list[ComparedOn], int]:
    """The results of all dimensions and languages, and how many p-values Holm's correction is over.

    Languages have results of their own where two or more are known.
    """
    langs = {row.lang for row in compared.rows if row.lang is not None}
    known = sorted(langs - {UNKNOWN_LANGUAGE})
    places = [ALL, *known] if len(known) > 1 else [ALL]
    found = [_on(compared, systems, dimension, lang) for dimension in dimensions for lang in places]
    found = [result for result in found if result.systems]
    p_values = holm([pair.tested.estimate.p_value for result in found for pair in result.pairs])
    rest = iter(p_values)
    placed = []
    for result in found:
        pairs = [replace(pair, p_holm=next(rest)) for pair in result.pairs]
        ranked = _ranked(result.systems, pairs, result.good)
        placed.append(replace(result, pairs=pairs, systems=ranked))
    return placed, sum(p is not None for p in p_values)


def _on(compared: ComparedRows, systems: Sequence[str], dimension: str, lang: str) -> ComparedOn:
    rows = {name: compared.of_system(name, dimension, lang) for name in systems}
    having = [name for name in systems if len(rows[name].scores)]
    good = compared.good(dimension)
    span = None if compared.labels is None else compared.labels.scales.get(dimension)
    uncorrected = _uncorrected({name: rows[name] for name in having}, compared)
    basis: Basis = "judge" if compared.labels is None or uncorrected else "people"
    results = _means(rows, having, span, basis == "people")
    counted = [
        replace(result, unscored=compared.unscored(result.system, dimension, lang))
        for result in results
    ]
    pairs = [
        _pair(one, two, rows, span, basis, compared.difference)
        for one, two in combinations(having, 2)
    ]
    missing = [name for name in systems if name not in having]
    return ComparedOn(dimension, lang, good, counted, pairs, basis, uncorrected, missing)


def _uncorrected(rows: Mapping[str, SystemRows], compared: ComparedRows) -> str:
    """Why a dimension is not corrected though there are labels; empty where it is, or none are."""
    if compared.labels is None:
        return ""
    if not any(system.whole().labelled.any() for system in rows.values()):
        return "people labelled no dialogue on it"
    reasons = [
        f"{name} has {reason}"
        for name, system in rows.items()
        if (reason := too_few_labels(system.whole()))
    ]
    return "; ".join(reasons)


def _means(
    rows: Mapping[str, SystemRows],
    systems: Sequence[str],
    span: tuple[float, float] | None,
    corrected: bool,
) -> list[SystemResult]:
    fit = correct([rows[name].whole() for name in systems], span) if corrected else None
    results = []
    for k, name in enumerate(systems):
        whole = rows[name].whole()
        labelled = int(whole.labelled.sum())
        best = None
        if fit is not None:
            best = interval_of(fit.figures[k], fit.certain, span, tested=False, extra=fit.hidden[k])
        results.append(
            SystemResult(
                name,
                len(whole.sample.scores),
                0,
                labelled,
                mean_of(whole.sample),
                mean_of(whole.people, span) if labelled else None,
                best,
            )
        )
    return results


def _pair(
    one: str,
    two: str,
    rows: Mapping[str, SystemRows],
    span: tuple[float, float] | None,
    basis: Basis,
    asked: float | None,
) -> PairResult:
    found = system_difference(rows[one], rows[two], label_span=span)
    pair = PairResult(one, two, found, basis)
    if asked is None or (times := pair.tested.times_more(asked)) is None:
        return pair
    more = [math.ceil(count * (times - 1) - 1e-9) for count in found.rows]
    return replace(pair, more=(more[0], more[1]))


def _ranked(
    results: Sequence[SystemResult], pairs: Sequence[PairResult], good: Good
) -> list[SystemResult]:
    """Best first, with the interval of each rank and the groups that cannot be told apart, by the
    p-values after Holm's correction."""
    found = {frozenset((pair.first, pair.second)): pair.p_holm for pair in pairs}
    names = [result.system for result in results]

    def p_value(i: int, j: int) -> float | None:
        return found.get(frozenset((names[i], names[j])))

    sign = 1.0 if good == "high" else -1.0
    values = [sign * (result.best.value or 0.0) for result in results]
    ranks = rank_intervals(values, p_value)
    groups = indistinct_groups(values, p_value)
    lettered = [
        replace(
            result,
            rank=ranks[i],
            groups=" ".join(_letter(n) for n, group in enumerate(groups) if i in group),
        )
        for i, result in enumerate(results)
    ]
    return [lettered[i] for i in sorted(range(len(names)), key=lambda i: -values[i])]


def _letter(index: int) -> str:
    return _LETTERS[index] if index < len(_LETTERS) else str(index + 1)
