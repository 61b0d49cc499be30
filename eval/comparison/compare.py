"""Compare: which of several systems is better, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, combinations, product
from pathlib import Path
from shlex import quote

import numpy as np
import numpy.typing as npt

from medal_judges import __version__
from medal_judges.errors import MedalError
from medal_judges.eval.comparison.results import (
    ALL,
    Basis,
    ComparedOn,
    Differing,
    PairResult,
    SystemComparison,
    SystemResult,
)
from medal_judges.eval.comparison.rows import (
    CompareOptions,
    Systems,
    find_contexts,
    read_systems,
    turns_of,
)
from medal_judges.eval.scores.bad import BY_DEFAULT, BadScores, bad_scores
from medal_judges.eval.scores.columns import row_keys
from medal_judges.eval.scores.labels import LabelledRow, label_columns, weight_column
from medal_judges.eval.scores.scores import checked_dimensions
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import ReadingReport, labelled_of
from medal_judges.records.dimension import Dimension
from medal_judges.records.joining import ScoreKey, join_labels
from medal_judges.records.labelled import LabelledDialogue, Scale, mean
from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import Difference, holm_corrected
from medal_judges.stats.equal import EQUAL_FACT, Values
from medal_judges.stats.means import interval_of, mean_of, share_of
from medal_judges.stats.ppi import (
    CorrectedFigures,
    LabelledSample,
    correct,
    too_few_labels,
)
from medal_judges.stats.systems import (
    SHARE,
    SystemRows,
    indistinct_groups,
    rank_intervals,
    system_difference,
)

HINT = " Human labels of some dialogues correct that: --human FILE."  # in the terminal
_ALONE = (
    "By the judge alone: a judge that favours one system's style makes it look better."
)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_DIFFERING = 6  # pairs of dialogues on the page, at least one of each dimension
Numbers = npt.NDArray[np.intp]


@dataclass(slots=True)
class _Labels:
    """``values``: by dimension the human means, shape (rows,), NaN without labels. ``scales``:
    the raw scales of their labels. ``weights``: shape (rows,), of curated rows."""

    values: dict[str, Floats] = field(default_factory=dict)
    scales: dict[str, set[Scale | None]] = field(default_factory=dict)
    weights: Floats | None = None

    def common_scale(self, dimension: str) -> Scale | None:
        """Returns the scale of the labels; None if they state different ones."""
        scales = self.scales.get(dimension, ())
        if len(scales) == 1:
            return next(iter(scales))
        return None


def compare(
    options: CompareOptions,
    judge: Judge | None = None,
    reading: ReadingReport | None = None,
    progress: Callable[[int], None] | None = None,
) -> SystemComparison:
    """Says which system is better, per dimension and language. ``judge`` replaces the one that the
    options name. Writes nothing but the scores of chats: see ``comparison_page``.

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
    scored = _scored_dimensions(systems, options.dimensions)
    labels, notes = None, [_ALONE + HINT]
    if options.human:
        labels, notes = _read_labels(systems, options, reading)
    context_names, context_by, context_note = find_contexts(systems, options.context)
    clusters = contexts = _codes(context_names)
    varies = "a context"
    if options.cluster is not None:
        clusters = _codes(systems.grouped(options.cluster, "cluster"))
        varies = f"the column {options.cluster!r}"
    scales = checked_dimensions(scored, systems.stated, options.rubric)
    first = systems.names[0]
    rows_of_first = (systems.row("system") == first).to_numpy()
    bad = bad_scores(options.bad, scales, scored, rows_of_first)
    languages = _languages(systems)

    def compared_on(
        dimensions: Iterable[tuple[Dimension, BadScores | None]],
    ) -> tuple[list[ComparedOn], int]:
        results = []
        for (scale, part), lang in product(dimensions, languages):
            rows = _SystemsOn(systems, labels, contexts, clusters, scale, lang, part)
            if rows.by_system:
                results.append(rows.compared())
        return _corrected_for_all(results)

    results, comparisons = compared_on([(scale, None) for scale in scales.values()])
    results += compared_on([(part.scale, part) for part in bad.values()])[0]
    # A share of bad scores stands behind the mean of its dimension.
    results.sort(key=lambda result: list(scales).index(result.base))
    for result in results:
        notes += _notes_on(result)
    if bad and not options.bad:
        notes.append(f"{BY_DEFAULT.format(first)}.")
    if context_note:
        notes.append(context_note)
    if systems.without:
        notes.append(f"{systems.without} rows name no system and were skipped.")
    counts: dict[str, int] = systems.row("system").value_counts(sort=False).to_dict()
    facts = [
        ("Dialogues", ", ".join(f"{name} {n:,}" for name, n in counts.items())),
        ("Files", ", ".join(path.name for path in options.sources.values())),
        ("One context by", context_by or "nothing: each dialogue stands alone"),
        ("Varies together", varies),
        ("Intervals", "95%; each context is left out in turn, Student's t"),
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
        differing=_differing(systems, options, contexts, scored, scales),
    )


def _scored_dimensions(systems: Systems, chosen: Sequence[str]) -> dict[str, Floats]:
    """Returns the scores of each dimension that has some, ``overall`` first. Raises MedalError for
    a chosen one that no row has."""
    scored = {}
    overall_first = sorted(systems.dimensions, key=lambda name: name != "overall")
    for name in chosen or overall_first:
        if name not in systems.dimensions:
            hint = f"there: {', '.join(systems.dimensions)}"
            raise MedalError(f"no row has the dimension {name!r}", hint=hint)
        scores = systems.scores(name)
        if np.isfinite(scores).any():
            scored[name] = scores
    return scored


def _languages(systems: Systems) -> list[str]:
    """Returns ``all``, and each language if there are two or more."""
    languages = sorted(systems.column("lang").dropna().unique())
    if len(languages) < 2:
        return [ALL]
    return [ALL, *languages]


def _corrected_for_all(results: Sequence[ComparedOn]) -> tuple[list[ComparedOn], int]:
    """Returns the results with ranks, corrected for all comparisons (Holm), and their number."""
    tested: list[Difference] = []
    for result in results:
        tested += [pair.tested for pair in result.pairs]
    corrected = iter(holm_corrected(tested))
    final = []
    for result in results:
        pairs = [replace(pair, tested=next(corrected)) for pair in result.pairs]
        systems = _ranked(result, pairs)
        final.append(replace(result, pairs=pairs, systems=systems))
    return final, sum(difference.p_value is not None for difference in tested)


def _notes_on(result: ComparedOn) -> list[str]:
    """Says what is missing from a result on all languages together."""
    if result.lang != ALL:
        return []
    notes = []
    if result.uncorrected:
        notes.append(f"not corrected by human labels: {result.uncorrected}.")
    if result.missing:
        notes.append(f"no scores of {', '.join(result.missing)}.")
    unscored = [f"{s.unscored} of {s.system}" for s in result.systems if s.unscored]
    if unscored:
        notes.append(f"dialogues without a score were skipped: {', '.join(unscored)}.")
    if any(any(pair.difference.left_out) for pair in result.pairs):
        notes.append(
            "dialogues in contexts that the other system lacks do not enter a difference (the "
            "table counts them)."
        )
    return [f"{result.dimension}: {note}" for note in notes]


def _differing(
    systems: Systems,
    options: CompareOptions,
    contexts: Numbers,
    scored: Mapping[str, Floats],
    scales: Mapping[str, Dimension],
) -> list[Differing]:
    """Returns the contexts whose highest and lowest score differ most, and are of two systems."""
    import pandas

    names, ids = systems.row("system"), systems.row("id")
    pairs: list[tuple[str, list[int]]] = []
    for dimension, scores in scored.items():
        is_scored = np.isfinite(scores)
        by_context = pandas.Series(scores)[is_scored].groupby(contexts[is_scored])
        high, low = by_context.idxmax().to_numpy(), by_context.idxmin().to_numpy()
        gaps = scores[high] - scores[low]
        gaps[names[high].to_numpy() == names[low].to_numpy()] = 0
        largest = np.argsort(-gaps, kind="stable")[: max(1, _DIFFERING // len(scored))]
        largest = largest[gaps[largest] > scales[dimension].tolerance]
        for pair in np.stack([high[largest], low[largest]], axis=1).tolist():
            pairs.append((dimension, pair))
    rows = chain.from_iterable(pair for _, pair in pairs)
    turns = turns_of(systems, options, list(rows))
    differing: list[Differing] = []
    for dimension, pair in pairs:
        sides = []
        for row in pair:
            score = float(scored[dimension][row])
            sides.append((names[row], ids[row], score, turns.get(row, ())))
        differing.append((dimension, tuple(sides)))
    return differing


def _codes(names: Iterable[str]) -> Numbers:
    """Returns a number for each distinct name, shape (rows,). Numbers sort faster than names."""
    import pandas

    return np.asarray(pandas.factorize(np.asarray(names, dtype=object))[0])


def _read_labels(
    systems: Systems, options: CompareOptions, reading: ReadingReport | None
) -> tuple[_Labels, list[str]]:
    """Reads the human labels of the rows, matched by id and chat. If several systems have an id,
    the label must name one of them (in ``models.assistant`` or a field ``system``). Labels of
    single turns and of other dialogues are skipped and counted in notes.

    Raises MedalError if the system of an id is ambiguous, if no label fits, and if labels are of
    other chats, see JoinedLabels.
    """
    keys = row_keys(systems.frame["row"], ["system"])
    matched: list[LabelledRow] = []
    notes: list[str] = []
    for text in options.human:
        system, sign, path = text.partition("=")
        if not sign or Path(text).exists():
            system, path = "", text
        elif system not in systems.names:
            hint = f"systems: {', '.join(systems.names)}"
            raise MedalError(f"labels of {system!r}, which is no system", hint=hint)
        labels = list(labelled_of(path, options.reading, reading))
        may_meet = partial(_may_meet, system, set(systems.names))
        matched += _match_labels(labels, keys, may_meet, Path(path).name, notes)
    values = label_columns(matched, len(keys), mean)
    if not values:
        raise MedalError(
            f"no label belongs to a dialogue that is compared ({' '.join(notes) or 'no labels'})",
            hint="labels are matched by id; name the system if ids are the same: A=FILE",
        )
    scales: dict[str, set[Scale | None]] = {}
    for _, label in matched:
        for rating in label.ratings():
            scales.setdefault(rating.dimension, set()).add(rating.scale)
    weights = weight_column(matched, len(keys), "the labels")
    return _Labels(values, scales, weights), notes


def _match_labels(
    labels: Sequence[LabelledDialogue],
    keys: Sequence[ScoreKey],
    may_meet: Callable[[LabelledDialogue, ScoreKey], bool],
    file: str,
    notes: list[str],
) -> list[LabelledRow]:
    """Returns each label of a dialogue with its row; adds to ``notes`` what was left out."""
    of_dialogues = [label for label in labels if label.level == "dialogue"]
    joined = join_labels(of_dialogues, keys, may_meet)
    notes += joined.notes(file)
    if turns := len(labels) - len(of_dialogues):
        notes.append(f"{turns} labels of single turns were skipped ({file}).")
    if absent := len(joined.absent):
        notes.append(
            f"{absent} labels of dialogues that no system has were skipped ({file})."
        )
    matched = []
    for label, rows in zip(of_dialogues, joined.score_rows, strict=True):
        if len(rows) > 1:
            first, second = (keys[row].system for row in rows[:2])
            raise MedalError(
                f"the label of {label.id!r} fits dialogues of {first} and {second}",
                hint=f"say whose labels they are: --human {quote(first)}=FILE, or name the system "
                "in each row (system, or models.assistant)",
            )
        matched += [(row, label) for row in rows]
    return matched


def _may_meet(
    system: str, systems: Set[str], label: LabelledDialogue, score: ScoreKey
) -> bool:
    """Says whether a label can be of a score: its system is ``system``, the one that the label
    states, or any if neither names a system."""
    meta = label.dialogue.meta
    for name in (
        system,
        label.extra.get("system"),
        meta.get("system"),
        label.dialogue.chatbot,
    ):
        if isinstance(name, str) and name in systems:
            return score.system == name
    return True


class _SystemsOn:
    """The rows of all systems on one dimension and language, and their comparison."""

    def __init__(
        self,
        systems: Systems,
        labels: _Labels | None,
        contexts: Numbers,
        clusters: Numbers,
        dimension: Dimension,
        lang: str,
        bad: BadScores | None,
    ) -> None:
        self.lang, self.has_labels, self.bad = lang, labels is not None, bad
        labels = labels or _Labels()
        self.span = labels.common_scale(dimension.name)
        scores = systems.scores(dimension.name)
        unscored = systems.unscored(dimension.name)
        self.score_span: Scale | None = None
        people = labels.values.get(dimension.name)
        if bad is not None:
            scores, dimension = bad.of(scores), bad.dimension
            if people is not None and self.span is not None:
                ends = bad.scale.low, bad.scale.high
                people = bad.of(np.interp(people, self.span, ends))
            else:
                people = None
            self.span = self.score_span = SHARE
        self.dimension = dimension
        of_lang = (systems.column("lang") == lang).to_numpy() | (lang == ALL)
        self.by_system: dict[str, SystemRows] = {}
        self.unscored: dict[str, int] = {}
        for name in systems.names:
            of_system = of_lang & (systems.row("system") == name).to_numpy()
            self.unscored[name] = int((of_system & unscored).sum())
            rows = np.flatnonzero(of_system & np.isfinite(scores))
            if len(rows):
                self.by_system[name] = SystemRows(
                    Values(scores[rows], dimension.tolerance),
                    contexts[rows],
                    clusters[rows],
                    _part(people, rows),
                    _part(labels.weights, rows),
                )

    def compared(self) -> ComparedOn:
        """Returns means and differences, without ranks and before the correction of p-values."""
        samples = {name: rows.whole() for name, rows in self.by_system.items()}
        uncorrected = self._why_uncorrected(samples) if self.has_labels else ""
        basis: Basis = "people"
        corrected = None
        if not self.has_labels or uncorrected:
            basis = "judge"
        else:
            corrected = correct(list(samples.values()), self.span)
        return ComparedOn(
            dimension=self.dimension.name,
            lang=self.lang,
            good=self.dimension.good,
            tolerance=self.dimension.tolerance,
            systems=self._system_results(samples, corrected),
            pairs=[self._pair(*names, basis) for names in combinations(samples, 2)],
            basis=basis,
            uncorrected=uncorrected,
            missing=[name for name in self.unscored if name not in samples],
            bad=self.bad,
        )

    @staticmethod
    def _why_uncorrected(samples: Mapping[str, LabelledSample]) -> str:
        """Returns the systems that have too few labels; an empty text if none has."""
        if not any(sample.labelled.any() for sample in samples.values()):
            return "people labelled no dialogue on it"
        reasons = []
        for name, sample in samples.items():
            if reason := too_few_labels(sample):
                reasons.append(f"{name} has {reason}")
        return "; ".join(reasons)

    def _system_results(
        self, samples: Mapping[str, LabelledSample], corrected: CorrectedFigures | None
    ) -> list[SystemResult]:
        results = []
        for i, (name, sample) in enumerate(samples.items()):
            figure = mean_of(sample.sample)
            if self.bad is not None:
                figure = share_of(sample.sample)
            result = SystemResult(
                system=name,
                n=len(sample.sample.scores),
                unscored=self.unscored[name],
                labelled=int(sample.labelled.sum()),
                judge=figure,
            )
            if result.labelled:
                result = replace(result, people=mean_of(sample.people, self.span))
            if corrected is not None:
                mean, hidden = corrected.figures[i], corrected.hidden[i]
                estimate = interval_of(mean, corrected.certain, self.span, hidden)
                result = replace(result, corrected=estimate)
            results.append(result)
        return results

    def _pair(self, first: str, second: str, basis: Basis) -> PairResult:
        rows = self.by_system
        spans = self.score_span, self.span
        difference = system_difference(rows[first], rows[second], *spans)
        if self.dimension.good == "low":
            # The first wins a context if its score is lower.
            wins, losses = difference.losses, difference.wins
            difference = replace(difference, wins=wins, losses=losses)
        tested = difference.judge
        if basis == "people":
            tested = difference.best
        return PairResult(first, second, difference, basis, tested)


def _part(column: Floats | None, rows: Numbers) -> Floats | None:
    return None if column is None else column[rows]


def _ranked(result: ComparedOn, pairs: Sequence[PairResult]) -> list[SystemResult]:
    """Returns the systems, best first (equal ones in the order of the files), with the interval of
    each rank and the groups that cannot be told apart, by the corrected p-values."""
    p_values: dict[tuple[str, str], float | None] = {}
    for pair in pairs:
        p_values[pair.first, pair.second] = pair.tested.p_value
        p_values[pair.second, pair.first] = pair.tested.p_value
    systems = result.systems

    def p_value(i: int, j: int) -> float | None:
        return p_values[systems[i].system, systems[j].system]

    means = np.array([system.best.value or 0.0 for system in systems])
    if result.good == "low":
        means = -means
    # Equal means have one rank.
    values = Values(means, result.tolerance).ranks(np.ones((1, len(means))))[0].tolist()
    letters: list[list[str]] = [[] for _ in systems]
    for n, group in enumerate(indistinct_groups(values, p_value)):
        letter = _LETTERS[n] if n < len(_LETTERS) else str(n + 1)
        for i in group:
            letters[i].append(letter)
    with_ranks = []
    for i, rank in enumerate(rank_intervals(values, p_value)):
        with_ranks.append(replace(systems[i], rank=rank, groups=" ".join(letters[i])))
    order = np.argsort([-value for value in values], kind="stable")
    return [with_ranks[i] for i in order]
