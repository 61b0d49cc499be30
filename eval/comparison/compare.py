"""Compare: which of several systems is better, and how sure that is."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from itertools import combinations
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from medal_judges import __version__
from medal_judges.errors import MedalError
from medal_judges.eval.comparison.contexts import Contexts, find_contexts
from medal_judges.eval.comparison.results import (
    ALL,
    Basis,
    ComparedOn,
    PairResult,
    SystemComparison,
    SystemResult,
)
from medal_judges.eval.comparison.rows import CompareOptions, Systems, codes_of, read_systems
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import labelled_of
from medal_judges.reading.report import ReadingReport
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import UNKNOWN_LANGUAGE
from medal_judges.records.rating import Scale, mean
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
from medal_judges.stats.weights import choose_weights, curation_weight

Good = Literal["low", "high"]
_RUBRICS = ("medal", "human", "quickstart", "fed", "dstc12", "malformed", "overall", "usr")
_LANG_SHIFT = 0.1  # shares of a language that differ by more may make a difference by themselves
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


def compare(
    options: CompareOptions,
    judge: Judge | None = None,
    reading: ReadingReport | None = None,
    progress: Callable[[int], None] | None = None,
) -> SystemComparison:
    """Which system is better, per dimension and language. ``judge`` replaces the one that the
    options name. Writes nothing but the scores of chats: see ``write_comparison``.

    Raises MedalError for one system only, files scored by different judges, and labels that fit no
    dialogue.

    >>> from medal_judges import CompareOptions, compare
    >>> files = ["old=old.jsonl", "new=new.jsonl"]
    >>> found = compare(CompareOptions(files=files, dimensions=["overall"], judge="length"))
    >>> found.systems, found.on("overall").pairs[0].difference.pairing
    (['old', 'new'], 'paired')
    >>> print(found.verdicts()[0])
    overall: new is better than old by 1.72 [1.50, 1.94], p < 0.001 (by the judge alone).
    """
    systems = read_systems(options, judge, reading, progress)
    for name in options.dimensions:
        if name not in systems.dimensions:
            listed = ", ".join(systems.dimensions)
            raise MedalError(f"no row has the dimension {name!r}", hint=f"there: {listed}")
    labels = _labels(systems, options, reading) if options.human else None
    contexts = find_contexts(systems, options)
    clusters = None
    if options.cluster is not None:
        values = systems.required(options.cluster)
        clusters = codes_of(systems.alone.where(values.isna(), "cluster " + values.astype(object)))
    compared = _Compared(systems, options, codes_of(contexts.names), clusters, labels)
    names = options.dimensions or sorted(systems.dimensions, key=lambda name: name != "overall")
    results, comparisons = _results(compared, names)
    counts = systems.row("system").value_counts(sort=False)
    facts = [
        ("Dialogues", ", ".join(f"{name} {n:,}" for name, n in counts.items())),
        ("Files", ", ".join(path.name for path in options.sources.values())),
        ("One context by", contexts.by or "nothing: each dialogue stands alone"),
        ("Varies together", f"the column {options.cluster!r}" if options.cluster else "a context"),
        ("Intervals", "95%; each context is left out in turn, Student's t"),
        ("Judge", systems.judge),
        ("medal-judges", __version__),
    ]
    return SystemComparison(
        systems=systems.names,
        results=results,
        comparisons=comparisons,
        judge=systems.judge,
        asked=options.difference,
        notes=_notes(systems, contexts, labels, results),
        facts=facts,
        counts={str(name): int(n) for name, n in counts.items()},
    )


# -- labels ----------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Labels:
    """Human means by dimension, shape (rows,), NaN without labels, on the raw ``scales`` (None if
    labels state no common one); ``weights`` (rows,), None unless curated."""

    values: dict[str, Floats] = field(default_factory=dict)
    scales: dict[str, Scale | None] = field(default_factory=dict)
    weights: Floats | None = None
    notes: list[str] = field(default_factory=list)


def _labels(systems: Systems, options: CompareOptions, reading: ReadingReport | None) -> _Labels:
    """The labels of the rows, by id. If several systems have an id, the label names one of them
    (``models.assistant`` or a field ``system``). Labels of single turns and of other dialogues are
    skipped and counted.

    Raises MedalError for an id whose system is not clear, and if no label fits.
    """
    place: dict[str, dict[str, int]] = {}
    for k, (id, system) in enumerate(zip(systems.row("id"), systems.row("system"), strict=True)):
        place.setdefault(id, {})[system] = k
    found = _Labels()
    scales: dict[str, set[Scale | None]] = {}
    own: dict[int, LabelledDialogue] = {}
    skipped: Counter[str] = Counter()
    for text in options.human:
        name, sign, path = text.partition("=")
        if not sign or Path(text).exists():
            name, path = "", text
        elif name not in systems.names:
            raise MedalError(
                f"labels of {name!r}, which is no system",
                hint=f"systems: {', '.join(systems.names)}",
            )
        for row in labelled_of(path, options.reading, reading):
            means = {r.dimension: m for r in row.ratings() if (m := mean(r)) is not None}
            i = _place(name, row, place.get(row.id, {}))
            if row.level == "turn":
                skipped["of single turns"] += 1
            elif i is None:
                skipped["of dialogues that no system has"] += 1
            elif means:
                own[i] = row
                for dimension, value in means.items():
                    nothing = np.full(len(systems.frame), math.nan)
                    found.values.setdefault(dimension, nothing)[i] = value
                    scales.setdefault(dimension, set()).add(row.scales.get(dimension))
    if not own:
        why = ", ".join(f"{count} {why}" for why, count in skipped.items()) or "no labels at all"
        raise MedalError(
            f"no label belongs to a dialogue that is compared ({why})",
            hint="labels are matched by id; name the system if ids are the same: A=FILE",
        )
    found.scales = {n: each.pop() if len(each) == 1 else None for n, each in scales.items()}
    if choose_weights(list(own.values()), options.weights, "the labels") != "none":
        found.weights = np.ones(len(systems.frame))
        for i, row in own.items():
            found.weights[i] = curation_weight(row) or 1.0
    found.notes = [f"{count} labels {why} were skipped." for why, count in skipped.items()]
    return found


def _place(named: str, row: LabelledDialogue, having: dict[str, int]) -> int | None:
    """The row that a label is of; None if no system has it."""
    stated = (row.extra.get("system"), row.dialogue.meta.get("system"), row.dialogue.chatbot)
    for name in (named, *stated):
        if isinstance(name, str) and name in having:
            return having[name]
    if named or not having:
        return None
    if len(having) > 1:
        first, second = list(having)[:2]
        raise MedalError(
            f"the label of {row.id!r} fits dialogues of {first} and {second}",
            hint=f"say whose labels they are: --human {first}=FILE, or name the system in each "
            "row (system, or models.assistant)",
        )
    return next(iter(having.values()))


# -- every dimension and language: means, differences, p-values, ranks -----------------------------


@dataclass(frozen=True, slots=True)
class _Compared:
    """The rows with the numbers of their contexts and clusters (None: the contexts)."""

    systems: Systems
    options: CompareOptions
    contexts: npt.NDArray[np.intp]
    clusters: npt.NDArray[np.intp] | None
    labels: _Labels | None

    def rows(self, mask: npt.NDArray[np.bool_], dimension: str) -> SystemRows:
        """The scored rows of ``mask``."""
        scores, labels = self.systems.scores(dimension), self.labels
        chosen = np.flatnonzero(mask & np.isfinite(scores))
        given = labels.values.get(dimension) if labels is not None else None
        weights = labels.weights if labels is not None and given is not None else None
        return SystemRows(
            scores[chosen],
            self.contexts[chosen],
            None if self.clusters is None else self.clusters[chosen],
            None if given is None else given[chosen],
            None if weights is None else weights[chosen],
        )


def _results(compared: _Compared, dimensions: Sequence[str]) -> tuple[list[ComparedOn], int]:
    """The results of all dimensions and languages, and how many p-values Holm's correction is over.
    Languages have own results if two or more are known."""
    langs = compared.systems.row("lang")
    known = sorted(set(langs.dropna()) - {UNKNOWN_LANGUAGE})
    good = _directions(compared)
    found = [
        _on(compared, dimension, lang, good(dimension))
        for dimension in dimensions
        for lang in ([ALL, *known] if len(known) > 1 else [ALL])
    ]
    found = [result for result in found if result.systems]
    p_values = holm([pair.tested.estimate.p_value for result in found for pair in result.pairs])
    rest = iter(p_values)
    placed = []
    for result in found:
        pairs = [replace(pair, p_holm=next(rest)) for pair in result.pairs]
        ranked = _ranked(result.systems, pairs, result.good)
        placed.append(replace(result, pairs=pairs, systems=ranked))
    return placed, sum(p is not None for p in p_values)


def _on(compared: _Compared, dimension: str, lang: str, good: Good) -> ComparedOn:
    systems, labels = compared.systems, compared.labels
    names, langs = systems.row("system").to_numpy(), systems.row("lang").to_numpy()
    masks = {s: (names == s) & ((langs == lang) | (lang == ALL)) for s in systems.names}
    every = {name: compared.rows(mask, dimension) for name, mask in masks.items()}
    rows = {name: each for name, each in every.items() if len(each.scores)}
    missing = [name for name in every if name not in rows]
    span = labels.scales.get(dimension) if labels is not None else None
    wholes = {name: each.whole() for name, each in rows.items()}
    uncorrected = ""
    if labels is not None:
        uncorrected = "; ".join(
            f"{name} has {why}" for name, each in wholes.items() if (why := too_few_labels(each))
        )
        if not any(each.labelled.any() for each in wholes.values()):
            uncorrected = "people labelled no dialogue on it"
    basis: Basis = "judge" if labels is None or uncorrected else "people"
    fit = correct(list(wholes.values()), span) if rows and basis == "people" else None
    results = []
    for k, (name, whole) in enumerate(wholes.items()):
        labelled = int(whole.labelled.sum())
        corrected = None
        if fit is not None:
            figure, extra = fit.figures[k], fit.hidden[k]
            corrected = interval_of(figure, fit.certain, span, tested=False, extra=extra)
        results.append(
            SystemResult(
                name,
                len(whole.sample.scores),
                int((masks[name] & systems.unscored(dimension)).sum()),
                labelled,
                mean_of(whole.sample),
                mean_of(whole.people, span) if labelled else None,
                corrected,
            )
        )
    pairs = []
    for one, two in combinations(rows, 2):
        difference = system_difference(rows[one], rows[two], label_span=span)
        pair = PairResult(one, two, difference, basis)
        asked = compared.options.difference
        if asked is not None and (times := pair.tested.times_more(asked)) is not None:
            first, second = (math.ceil(n * (times - 1) - 1e-9) for n in difference.rows)
            pair = replace(pair, more=(first, second))
        pairs.append(pair)
    return ComparedOn(dimension, lang, good, results, pairs, basis, uncorrected, missing)


def _ranked(
    results: Sequence[SystemResult], pairs: Sequence[PairResult], good: Good
) -> list[SystemResult]:
    """Best first, with the interval of each rank and the groups that cannot be told apart, by the
    p-values after Holm's correction."""
    found = {frozenset((pair.first, pair.second)): pair.p_holm for pair in pairs}

    def p_value(i: int, j: int) -> float | None:
        return found.get(frozenset((results[i].system, results[j].system)))

    sign = 1.0 if good == "high" else -1.0
    values = [sign * (result.best.value or 0.0) for result in results]
    ranks = rank_intervals(values, p_value)
    groups = indistinct_groups(values, p_value)
    letters = [_LETTERS[n] if n < len(_LETTERS) else str(n + 1) for n in range(len(groups))]
    lettered = [
        replace(
            result,
            rank=ranks[i],
            groups=" ".join(x for x, group in zip(letters, groups, strict=True) if i in group),
        )
        for i, result in enumerate(results)
    ]
    return [lettered[i] for i in sorted(range(len(results)), key=lambda i: -values[i])]


def _directions(compared: _Compared) -> Callable[[str], Good]:
    """The good end of each dimension: of the rubric, or the judge, or the first shipped rubric that
    has a dimension of this name; else the high end."""
    known: dict[str, Dimension] = {}
    if compared.options.rubric is not None:
        known = {d.name: d for d in load_rubric(compared.options.rubric)}
    if compared.systems.loaded is not None:
        known = {d.name: d for d in compared.systems.loaded.dimensions} | known
    folder = files("medal_judges.configs") / "rubrics"
    shipped = sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir())
    for name in sorted(shipped, key=lambda name: (name not in _RUBRICS, name)):
        known = {d.name: d for d in load_rubric(name)} | known
    return lambda name: known[name].good if name in known else "high"


# -- notes -----------------------------------------------------------------------------------------


def _notes(
    systems: Systems, contexts: Contexts, labels: _Labels | None, results: Sequence[ComparedOn]
) -> list[str]:
    notes = [
        "By the judge alone: a judge that favours one system's style makes it look better. "
        "Human labels of some dialogues correct that: --human FILE."
    ]
    if labels is not None:
        notes = list(labels.notes)
    for result in results:
        where = result.dimension if result.lang == ALL else f"{result.dimension}, {result.lang}"
        if result.uncorrected and (result.lang == ALL or result.labelled):
            notes.append(f"{where}: not corrected by human labels: {result.uncorrected}.")
        if result.missing:
            notes.append(f"{where}: no scores of {', '.join(result.missing)}.")
        if unscored := [f"{s.unscored} of {s.system}" for s in result.systems if s.unscored]:
            notes.append(f"{where}: dialogues without a score were skipped: {', '.join(unscored)}.")
        if result.lang == ALL and any(any(pair.difference.left_out) for pair in result.pairs):
            notes.append(
                f"{where}: dialogues in contexts that the other system lacks do not enter a "
                "difference (the table counts them)."
            )
    if contexts.note:
        notes.append(contexts.note)
    if systems.without:
        notes.append(f"{systems.without} rows name no system and were skipped.")
    pairs = [pair for result in results if result.lang == ALL for pair in result.pairs]
    if all(pair.difference.pairing == "paired" for pair in pairs):
        return notes
    # Systems with other shares of languages, and not in the same contexts.
    langs = systems.row("lang").groupby(systems.row("system"), sort=False)
    shares = langs.value_counts(normalize=True, dropna=False).unstack(fill_value=0.0)
    for lang in sorted(set(systems.row("lang").dropna())):
        low, high = shares[lang].min(), shares[lang].max()
        if high - low > _LANG_SHIFT:
            most, least = shares[lang].idxmax(), shares[lang].idxmin()
            notes.append(
                f"{high:.0%} of the dialogues of {most} and {low:.0%} of {least} are {lang}: all "
                "languages together mix the systems with the languages; compare by language."
            )
            break
    return notes
