"""Comparison of systems, such as chatbots: which one is better, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from medal_judges import __version__
from medal_judges.errors import MedalError
from medal_judges.eval.comparison.results import (
    Basis,
    ComparedOn,
    PairResult,
    SystemComparison,
    SystemResult,
)
from medal_judges.eval.comparison.systems import (
    CompareOptions,
    Systems,
    read_or_score_systems,
)
from medal_judges.eval.scores.bad import BadScoreLimit, parse_bad_score_limits
from medal_judges.eval.scores.labels import (
    MatchedLabels,
    match_labels,
    mean_labels_by_dimension,
)
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import ReadingReport, stream_labelled
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import correct_by_holm
from medal_judges.stats.equal import EQUAL_FACT, Values
from medal_judges.stats.means import estimate_mean, estimate_share, to_mean_estimate
from medal_judges.stats.ppi import LabelledSample, correct_means, too_few_labels_reason
from medal_judges.stats.systems import (
    SHARE,
    SystemRows,
    system_difference,
)

_ALONE = "By the judge alone, which may favour one style: --human FILE corrects that."
Numbers = npt.NDArray[np.intp]


def compare(
    options: CompareOptions,
    judge: Judge | None = None,
    reading: ReadingReport | None = None,
    progress: Callable[[int], None] | None = None,
) -> SystemComparison:
    """Tests which of several systems (chatbots, versions) is better on each dimension.

    Args:
        options: The files, columns and dimensions.
        judge: Scores files of chats, in place of the judge that ``options.judge`` names.
        reading: Counts unreadable rows.
        progress: Called with the number of chats judged since its last call.

    Returns:
        The mean score of each system and the difference of each pair, with intervals and p-values.

    Raises:
        MedalError: There is only one system, files were scored by different judges, or no label
            fits a dialogue.
        ConfigError: A limit for bad scores is wrong, or ``options.judge`` is set but all files hold
            scores.

    >>> from medal_judges import CompareOptions, compare
    >>> files = ["old=old.jsonl", "new=new.jsonl"]
    >>> found = compare(CompareOptions(files=files, dimensions=["overall"], judge="length"))
    >>> found.systems, found.on("overall").pairs[0].difference.pairing
    (['old', 'new'], 'paired')
    >>> print(found.verdicts()[0].partition(" (")[0])
    overall: new is better than old by 1.72 [1.50, 1.94], p < 0.001
    """
    systems = read_or_score_systems(options, judge, reading, progress)
    labels = None
    notes = [_ALONE]
    if options.human:
        labels, notes = _read_mean_labels(systems, options, reading)
    bad = parse_bad_score_limits(options.bad, systems.dimensions)
    samples = _SystemComparer(systems, labels, options)
    results = []
    for name in systems.scores:
        scale = systems.dimensions[name]
        results.append(samples.compare_systems(scale, None))
        for part in bad.values():
            if part.scale == scale:
                results.append(samples.compare_systems(scale, part))
    results, comparisons = _correct_p_values_and_sort(results)
    for result in results:
        notes += _sentences_on_missing(result)
    if systems.unnamed:
        notes.append(f"{systems.unnamed} rows name no system and were skipped.")
    counts = systems.frame["system"].value_counts(sort=False).to_dict()
    facts = [
        ("Files", ", ".join(path.name for path in options.sources.values())),
        ("One context by", options.context or "id"),
        ("Varies together", options.cluster or "a context"),
        EQUAL_FACT,
        ("Judge", systems.judge),
        ("medal-judges", __version__),
    ]
    return SystemComparison(
        systems=systems.names,
        results=results,
        comparisons=comparisons,
        judge=systems.judge,
        notes=notes,
        facts=facts,
        counts=counts,
    )


def _correct_p_values_and_sort(
    results: Sequence[ComparedOn],
) -> tuple[list[ComparedOn], int]:
    """Corrects the p-values in ``results`` by Holm's method, and sorts systems from best to worst.

    Returns:
        The results, and the number of comparisons of means that were corrected together.
    """
    corrected: dict[str, ComparedOn] = {}
    comparisons = 0
    for is_bad in (False, True):
        chosen = [result for result in results if (result.bad is not None) == is_bad]
        tested = [pair.tested for result in chosen for pair in result.pairs]
        if not is_bad:
            comparisons = sum(test.p_value is not None for test in tested)
        differences = iter(correct_by_holm(tested))
        for result in chosen:
            pairs = []
            for pair in result.pairs:
                pairs.append(replace(pair, tested=next(differences)))
            result = replace(result, pairs=pairs, systems=_sort_best_first(result))
            corrected[result.dimension] = result
    return [corrected[result.dimension] for result in results], comparisons


def _sentences_on_missing(result: ComparedOn) -> list[str]:
    """Returns warnings about missing human labels and about systems without scores."""
    notes = []
    if result.uncorrected:
        notes.append(f"not corrected by human labels: {result.uncorrected}.")
    if result.missing:
        notes.append(f"no scores of {', '.join(result.missing)}.")
    return [f"{result.dimension}: {note}" for note in notes]


def _read_mean_labels(
    systems: Systems, options: CompareOptions, reading: ReadingReport | None
) -> tuple[dict[str, Floats], list[str]]:
    """Reads the human labels, and returns the mean label of each dialogue on the judge's scale.

    Args:
        systems: The dialogues of all systems.
        options: The files of labels, and how to read them.
        reading: Counts unreadable rows.

    Returns:
        Dimension -> mean labels [rows], NaN without a label. Second, notes on labels of dialogues
            that are not compared.

    Raises:
        MedalError: A label fits dialogues of two systems, or no label fits.
    """
    matched = MatchedLabels([], [])
    for text in options.human:
        system, sign, path = text.partition("=")
        if not sign or Path(text).exists():
            system, path = "", text
        elif system not in systems.names:
            hint = f"Use one of: {', '.join(systems.names)}"
            raise MedalError(f"--human {system}: no system has this name", hint=hint)
        labels: list[LabelledDialogue] = []
        for label in stream_labelled(path, options.reading, reading):
            if label.level == "dialogue":
                labels.append(label)
        searched = np.arange(len(systems.frame))
        if system:
            searched = np.flatnonzero(systems.frame["system"] == system)
        part = match_labels(systems.frame, searched, labels, Path(path).name)
        matched.rows.extend(part.rows)
        matched.notes.extend(f"{note}." for note in part.notes)
    for label, rows in matched.rows:
        if len(rows) > 1:
            first, second = systems.frame["system"].iloc[rows[:2]]
            raise MedalError(
                f"the label of {label.id!r} fits dialogues of {first} and {second}",
                hint=f"Type whose labels they are: --human {quote(first)}=FILE",
            )
    if not matched.rows:
        raise MedalError(
            "no label belongs to a dialogue that is compared "
            f"({' '.join(matched.notes) or 'no labels'})",
            hint="Give labels with the ids of the chats. If systems share ids, type: A=FILE",
        )
    size = len(systems.frame)
    values = mean_labels_by_dimension(matched, size, systems.dimensions, "the labels")
    return values, matched.notes


class _SystemComparer:
    """Compares all systems (chatbots or versions) on one dimension at a time.

    Attributes:
        systems: The scored dialogues of all systems.
        labels: Dimension -> mean human labels [rows], empty without labels.
        contexts: [rows] index of each dialogue's context, which systems can share, such as a scene.
        clusters: [rows] index of each dialogue's cluster. Rows of one cluster are not independent.
    """

    def __init__(
        self,
        systems: Systems,
        labels: Mapping[str, Floats] | None,
        options: CompareOptions,
    ) -> None:
        self.systems = systems
        self.has_labels = labels is not None
        self.labels = labels or {}
        self.contexts = self._value_indices(options.context or "id")
        self.clusters = self.contexts
        if options.cluster is not None:
            self.clusters = self._value_indices(options.cluster)

    def _value_indices(self, column: str) -> Numbers:
        """Returns an integer for each row [rows]: equal if rows have the same value of ``column``.
        A row without a value gets an integer of its own."""
        frame = self.systems.frame
        alone = "row " + frame.index.astype(str).to_series(index=frame.index)
        return np.asarray(("value " + frame[column]).fillna(alone).factorize()[0])

    def _scored_rows_by_system(
        self, scores: Floats, people: Floats | None, tolerance: float
    ) -> dict[str, SystemRows]:
        """Returns the name of each system -> its scored rows.

        Args:
            scores: [rows] scores, NaN if unscored.
            people: [rows] mean labels, None without labels.
            tolerance: Scores that differ by less are equal.
        """
        by_system = {}
        for name in self.systems.names:
            is_of_system = (self.systems.frame["system"] == name).to_numpy()
            rows = np.flatnonzero(is_of_system & np.isfinite(scores))
            if len(rows):
                by_system[name] = SystemRows(
                    Values(scores[rows], tolerance),
                    self.contexts[rows],
                    self.clusters[rows],
                    None if people is None else people[rows],
                )
        return by_system

    def compare_systems(
        self, scale: Dimension, bad: BadScoreLimit | None
    ) -> ComparedOn:
        """Compares all systems (chatbots or versions) on one dimension. P-values are not yet
        corrected for multiple tests.

        Args:
            scale: The dimension.
            bad: The limit beyond which a score is bad, to compare the systems' shares of bad
                scores. None to compare their mean scores.

        Returns:
            The means (or shares) and the pairwise differences.
        """
        scores = self.systems.scores[scale.name]
        people = self.labels.get(scale.name)
        dimension = scale
        score_span = None
        if bad is not None:
            dimension, scores, score_span = bad.dimension, bad.flags(scores), SHARE
            if people is not None:
                people = bad.flags(people)
        span = dimension.low, dimension.high
        by_system = self._scored_rows_by_system(scores, people, dimension.tolerance)
        unscored: dict[str, int] = {}
        for name, count in self.systems.frame["system"].value_counts().items():
            unscored[name] = int(count)
            if name in by_system:
                unscored[name] -= len(by_system[name].scores)
        samples = {name: rows.full_sample() for name, rows in by_system.items()}
        uncorrected = _why_uncorrected(samples) if self.has_labels else ""
        basis: Basis = "people"
        if not self.has_labels or uncorrected:
            basis = "judge"
        pairs = []
        for first, second in combinations(samples, 2):
            difference = system_difference(
                by_system[first], by_system[second], score_span, span
            )
            if dimension.good == "low":
                # The first wins a context if its score is lower.
                wins, losses = difference.losses, difference.wins
                difference = replace(difference, wins=wins, losses=losses)
            tested = difference.best_estimate if basis == "people" else difference.judge
            pairs.append(PairResult(first, second, difference, tested))
        return ComparedOn(
            dimension=dimension.name,
            good=dimension.good,
            systems=_system_results(samples, unscored, basis, dimension, bad),
            pairs=pairs,
            basis=basis,
            tolerance=dimension.tolerance,
            is_share=dimension.kind == "binary",
            uncorrected=uncorrected,
            missing=[name for name in unscored if name not in samples],
            bad=bad,
        )


def _why_uncorrected(samples: Mapping[str, LabelledSample]) -> str:
    """Returns a message if systems have too few labels to correct the judge.
    Empty if all have enough."""
    if not any(sample.is_labelled.any() for sample in samples.values()):
        return "people labelled no dialogue on it"
    reasons = []
    for name, sample in samples.items():
        if reason := too_few_labels_reason(sample):
            reasons.append(f"{name} has {reason}")
    return "; ".join(reasons)


def _system_results(
    samples: Mapping[str, LabelledSample],
    unscored: Mapping[str, int],
    basis: Basis,
    dimension: Dimension,
    bad: BadScoreLimit | None,
) -> list[SystemResult]:
    span = dimension.low, dimension.high
    corrected = None
    if basis == "people":
        corrected = correct_means(list(samples.values()), span)
    results = []
    for i, (name, sample) in enumerate(samples.items()):
        estimate = estimate_mean(sample.sample, span)
        if bad is not None:
            estimate = estimate_share(sample.sample)
        result = SystemResult(
            system=name,
            n=len(sample.sample.scores),
            unscored=unscored[name],
            labelled=int(sample.is_labelled.sum()),
            judge=estimate,
        )
        if result.labelled:
            result = replace(result, people=estimate_mean(sample.label_sample, span))
        if corrected is not None:
            mean, hidden = corrected.means[i], corrected.hidden[i]
            interval = to_mean_estimate(mean, corrected.reason, span, hidden)
            result = replace(result, corrected=interval)
        results.append(result)
    return results


def _sort_best_first(result: ComparedOn) -> list[SystemResult]:
    """Returns the systems of ``result``, the best first."""
    means = np.array([system.best.value or 0.0 for system in result.systems])
    if result.good == "low":
        means = -means
    # Equal means have one rank.
    ranks = Values(means, result.tolerance).ranks(np.ones((1, len(means))))[0]
    return [result.systems[i] for i in np.argsort(-ranks, kind="stable")]
