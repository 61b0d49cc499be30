"""Compare: which of several systems is better, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from medal_judges import __version__
from medal_judges.errors import CoverageError, MedalError
from medal_judges.eval.comparison.rows import (
    CompareOptions,
    Systems,
    find_contexts,
    read_systems,
    turns_of,
)
from medal_judges.eval.scores.columns import row_keys
from medal_judges.eval.scores.scores import checked_dimensions
from medal_judges.eval.scores.trust import trust_section
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import ReadingReport, labelled_of
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE
from medal_judges.records.dimension import Dimension
from medal_judges.records.joining import ScoreKey, join_labels
from medal_judges.records.labelled import LabelledDialogue, Scale, mean
from medal_judges.report.console import print_tables, wide_console
from medal_judges.report.figure import Figure, padded
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    Turns,
    chat_block,
    counted,
    facts_section,
    fragment,
    write_page,
)
from medal_judges.report.table import (
    Cell,
    IntervalBar,
    PValue,
    Row,
    Table,
    interval,
    number,
    p_value_text,
    slug,
)
from medal_judges.stats.correlation import Floats
from medal_judges.stats.difference import LEVEL, Difference, holm_corrected
from medal_judges.stats.equal import EQUAL_FACT, Values
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.means import interval_of, mean_of
from medal_judges.stats.ppi import correct, too_few_labels
from medal_judges.stats.systems import (
    SystemDifference,
    SystemRows,
    indistinct_groups,
    rank_intervals,
    system_difference,
)
from medal_judges.stats.weights import curation_weights
from medal_judges.storage.files import write_json

ALL = "all"  # every language together
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
# Fields of a SystemDifference in compare.json.
_RECORDED = ("pairing", "shared", "rows", "left_out", "wins", "ties", "losses", "by_context")
Verdict = Literal["passed", "failed", "undecided"]
# What a result rests on: human labels that correct the judge, or the judge alone.
Basis = Literal["people", "judge"]
_BY = {"people": "human labels", "judge": "the judge alone"}
# A dimension and two dialogues of one context, the higher score first: system, id, score, turns
# (none if the chats are not known).
Differing = tuple[str, tuple[tuple[str, str, float, Turns], ...]]
# By dimension the human means, shape (rows,), NaN without labels, and their raw scale (None if the
# labels state different ones); the weights, shape (rows,), of curated rows.
_Labels = tuple[dict[str, Floats], dict[str, Scale | None], Floats | None]


@dataclass(frozen=True, slots=True)
class SystemResult:
    """One system on one dimension and language: the judge's mean of its ``n`` scored dialogues, the
    human mean of the ``labelled`` ones, and the estimated human mean of all (``corrected``).

    ``rank`` is the (best, worst) possible rank, 1 is best. Systems that share a letter of
    ``groups`` cannot be told apart.
    """

    system: str
    n: int
    unscored: int
    labelled: int
    judge: Estimate
    people: Estimate | None = None
    corrected: Estimate | None = None
    rank: tuple[int, int] = (1, 1)
    groups: str = ""

    @property
    def best(self) -> Estimate:
        """The corrected mean if there is one, or else the judge's."""
        return self.judge if self.corrected is None else self.corrected


@dataclass(frozen=True, slots=True)
class PairResult:
    """Two systems on one dimension and language. ``tested``: the difference that decides, by human
    labels if they are the ``basis``, corrected for all comparisons."""

    first: str
    second: str
    difference: SystemDifference
    basis: Basis
    tested: Difference

    @property
    def estimate(self) -> Estimate:
        """The difference that decides, with its interval and p-value."""
        return self.tested.estimate

    @property
    def apart(self) -> bool:
        """Whether the two can be told apart at 5%."""
        p_value = self.tested.p_value
        return p_value is not None and p_value < LEVEL

    def to_record(self) -> dict[str, Any]:
        """One JSON object."""
        difference = self.difference
        record: dict[str, Any] = {name: getattr(difference, name) for name in _RECORDED}
        record |= {"first": self.first, "second": self.second, "basis": self.basis}
        record["difference"] = asdict(self.estimate)
        record["judge_alone"] = asdict(difference.judge.estimate)
        return record | {"smallest": self.tested.smallest}


@dataclass(frozen=True, slots=True)
class ComparedOn:
    """All systems on one dimension and language (``all`` for every language together), the best
    first. ``good`` is the better end of the scale. ``basis`` is ``people`` only if every system has
    enough labels; ``uncorrected`` gives the reason otherwise. ``missing``: systems without a score.
    """

    dimension: str
    lang: str
    good: Literal["low", "high"]
    systems: Sequence[SystemResult]
    pairs: Sequence[PairResult]
    basis: Basis
    uncorrected: str = ""
    missing: Sequence[str] = ()

    def words(self) -> tuple[str, str]:
        """The result in a few words, and by how much (of more than two systems: nothing)."""
        first = self.systems[0].system
        if not self.pairs:
            return f"only {first} has scores", "; nothing to compare"
        if len(self.systems) == 2:
            return _pair_words(self.pairs[0], self.good)
        others = [other.system for other in self.systems[1:]]
        apart = {frozenset((p.first, p.second)) for p in self.pairs if p.apart}
        peers = [other for other in others if frozenset((first, other)) not in apart]
        if not peers:
            return f"{first} is better than every other system", ""
        if len(peers) == len(others):
            return f"{first} cannot be told apart from any other system", ""
        return f"the best cannot be told apart: {', '.join((first, *peers))}", ""

    def verdict(self) -> str:
        """The result as a sentence."""
        by = f" (by {_BY[self.basis]})" if self.pairs else ""
        return f"{self.dimension.replace('_', ' ')}: {''.join(self.words())}{by}."


def _pair_words(pair: PairResult, good: str) -> tuple[str, str]:
    estimate, one, two = pair.estimate, pair.first, pair.second
    if estimate.value is None:
        return f"{one} and {two} cannot be compared", f": {estimate.reason}"
    apart = number(abs(estimate.value))
    if estimate.low is None or estimate.high is None:
        if pair.tested.equal:
            return f"the scores of {one} and {two} do not differ", ""
        return f"{one} and {two} differ by {apart}", f", which may be chance: {estimate.reason}"
    p_value = "" if estimate.p_value is None else f", p {p_value_text(estimate.p_value)}"
    if not pair.apart:
        smallest = pair.tested.smallest
        power = "" if smallest is None else f"; these dialogues can show {number(smallest)} or more"
        how = f"{number(estimate.value)} {interval(estimate)}{p_value}{power}"
        return f"{one} and {two} cannot be told apart", f": {one} minus {two} is {how}"
    if (estimate.value > 0) != (good == "high"):
        one, two = two, one
    ends = (estimate.low, estimate.high) if estimate.value > 0 else (-estimate.high, -estimate.low)
    how = f"{apart} {interval(Estimate(0.0, *ends))}{p_value}"
    return f"{one} is better than {two}", f" by {how}"


@dataclass(frozen=True, slots=True)
class SystemComparison:
    """The result of ``compare``. ``comparisons``: number of differences in Holm's correction;
    ``counts``: number of dialogues of each system; ``differing``: what differs most."""

    systems: Sequence[str]
    results: Sequence[ComparedOn]
    comparisons: int
    judge: str
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    counts: Mapping[str, int] = field(default_factory=dict)
    differing: Sequence[Differing] = ()

    @property
    def dimensions(self) -> list[str]:
        return list(dict.fromkeys(result.dimension for result in self.results))

    @property
    def languages(self) -> list[str]:
        """Languages with own results, without ``all``."""
        return list(dict.fromkeys(r.lang for r in self.results if r.lang != ALL))

    def on(self, dimension: str, lang: str = ALL) -> ComparedOn:
        """The result of a dimension and language. Raises KeyError if there is none."""
        return {(r.dimension, r.lang): r for r in self.results}[dimension, lang]

    def verdicts(self) -> list[str]:
        """A sentence for each dimension, all languages together."""
        return [result.verdict() for result in self.results if result.lang == ALL]

    def to_record(self) -> dict[str, Any]:
        """One JSON object."""
        results = []
        for result in self.results:
            pairs = [pair.to_record() for pair in result.pairs]
            results.append(asdict(replace(result, pairs=())) | {"pairs": pairs})
        record = asdict(replace(self, results=()))
        return record | {"results": results, "verdicts": self.verdicts()}


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
    labels, notes = None, [_ALONE + _HINT]
    if options.human:
        labels, notes = _read_labels(systems, options, reading)
    contexts, context_by, context_note = find_contexts(systems, options.context)
    cluster = options.cluster
    clusters = None if cluster is None else _codes(systems.grouped(cluster, "cluster"))
    dimensions = options.dimensions or sorted(systems.dimensions, key=lambda n: n != "overall")
    scored = {n: s for n in dimensions if np.isfinite(s := systems.scores(n)).any()}
    scales = checked_dimensions(scored, systems.stated, options.rubric)
    # Languages have own results if two or more are known.
    langs = sorted(set(systems.row("lang").dropna()) - {UNKNOWN_LANGUAGE})
    codes = _codes(contexts)
    results = [
        _compared_on(systems, labels, codes, clusters, scales[dimension], lang)
        for dimension in scored
        for lang in ([ALL, *langs] if len(langs) > 1 else [ALL])
    ]
    results = [result for result in results if result.systems]
    tested = [pair.tested for result in results for pair in result.pairs]
    corrected = iter(holm_corrected(tested))
    for i, result in enumerate(results):
        pairs = [replace(pair, tested=next(corrected)) for pair in result.pairs]
        tolerance = scales[result.dimension].tolerance
        results[i] = replace(result, pairs=pairs, systems=_ranked(result, pairs, tolerance))
    for result in (each for each in results if each.lang == ALL):
        where = result.dimension
        if result.uncorrected:
            notes.append(f"{where}: not corrected by human labels: {result.uncorrected}.")
        if result.missing:
            notes.append(f"{where}: no scores of {', '.join(result.missing)}.")
        if unscored := [f"{s.unscored} of {s.system}" for s in result.systems if s.unscored]:
            notes.append(f"{where}: dialogues without a score were skipped: {', '.join(unscored)}.")
        if any(any(pair.difference.left_out) for pair in result.pairs):
            notes.append(
                f"{where}: dialogues in contexts that the other system lacks do not enter a "
                "difference (the table counts them)."
            )
    notes += [context_note] if context_note else []
    if systems.without:
        notes.append(f"{systems.without} rows name no system and were skipped.")
    counts = systems.row("system").value_counts(sort=False)
    facts = [
        ("Dialogues", ", ".join(f"{name} {n:,}" for name, n in counts.items())),
        ("Files", ", ".join(path.name for path in options.sources.values())),
        ("One context by", context_by or "nothing: each dialogue stands alone"),
        ("Varies together", f"the column {cluster!r}" if cluster else "a context"),
        ("Intervals", "95%; each context is left out in turn, Student's t"),
        EQUAL_FACT,
        ("Judge", systems.judge),
        ("medal-judges", __version__),
    ]
    return SystemComparison(
        systems=systems.names,
        results=results,
        comparisons=sum(difference.p_value is not None for difference in tested),
        judge=systems.judge,
        notes=notes,
        facts=facts,
        counts={str(name): int(n) for name, n in counts.items()},
        differing=_differing(systems, options, codes, scored, scales),
    )


def _differing(
    systems: Systems,
    options: CompareOptions,
    contexts: npt.NDArray[np.intp],
    scored: Mapping[str, Floats],
    scales: Mapping[str, Dimension],
) -> list[Differing]:
    """The contexts whose highest and lowest score differ most, if these are of two systems."""
    import pandas

    names, ids, pairs = systems.row("system"), systems.row("id"), []
    for dimension, scores in scored.items():
        of = pandas.Series(scores).dropna().groupby(contexts[np.isfinite(scores)])
        ends, tolerance = zip(of.idxmax(), of.idxmin(), strict=True), scales[dimension].tolerance
        apart = [
            (i, j) for i, j in ends if names[i] != names[j] and scores[i] - scores[j] > tolerance
        ]
        apart.sort(key=lambda pair: scores[pair[1]] - scores[pair[0]])
        pairs += [(dimension, scores, i, j) for i, j in apart[: _DIFFERING // len(scored) or 1]]
    turns = turns_of(systems, options, [i for *_, one, two in pairs for i in (one, two)])
    return [
        (name, tuple((names[i], ids[i], float(scores[i]), turns.get(i, ())) for i in (one, two)))
        for name, scores, one, two in pairs
    ]


def check_worse(
    found: SystemComparison, margin: float, min_coverage: float
) -> list[tuple[str, Verdict, str]]:
    """(name, verdict, text) for each dimension and each system beside the first one: failed if the
    whole 95% interval of how much worse it is lies above ``margin``, passed if it lies below, and
    if all scores are the same.

    Raises CoverageError below ``min_coverage``, MedalError if a difference has no interval.
    """
    first, checked = found.systems[0], []
    for result in (each for each in found.results if each.lang == ALL):
        name = f"--fail-if-worse {result.dimension}"
        for each in result.systems:
            if (coverage := each.n / (each.n + each.unscored)) < min_coverage:
                raise CoverageError(
                    f"{name}: coverage {coverage:.1%} of {each.system} is below the minimum of "
                    f"{min_coverage:.0%}",
                    hint="--min-coverage sets the minimum",
                )
        for pair in (p for p in result.pairs if first in (p.first, p.second)):
            other = pair.second if pair.first == first else pair.first
            # How much worse the other one is.
            turned = (pair.first == first) != (result.good == "high")
            difference = -pair.tested if turned else pair.tested
            e, tolerance = difference.estimate, difference.tolerance
            verdict: Verdict = "undecided"
            if difference.equal:
                verdict = "passed"
                text = f"the scores of {other} and {first} do not differ"
            elif e.value is None or e.low is None or e.high is None:
                raise MedalError(f"{name}: {other} cannot be compared with {first}: {e.reason}")
            else:
                text = f"{other} is worse than {first} by {number(e.value)} {interval(e)}"
                if e.low > margin + tolerance:
                    verdict = "failed"
                elif e.high <= margin + tolerance:
                    verdict = "passed"
            checked.append((f"{name}: {other}", verdict, f"{text}, margin {margin:g}: {verdict}"))
    if not checked:
        raise MedalError("--fail-if-worse: no dimension has scores of both systems")
    return checked


def _codes(names: Sequence[str]) -> npt.NDArray[np.intp]:
    """A number for each distinct name, shape (rows,); sorting numbers is faster than names."""
    import pandas

    return np.asarray(pandas.factorize(np.asarray(names, dtype=object))[0], dtype=np.intp)


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
    labels: list[tuple[LabelledDialogue, int]] = []
    notes: list[str] = []
    for text in options.human:
        name, sign, path = text.partition("=")
        if not sign or Path(text).exists():
            name, path = "", text
        elif name not in systems.names:
            hint = f"systems: {', '.join(systems.names)}"
            raise MedalError(f"labels of {name!r}, which is no system", hint=hint)
        given = list(labelled_of(path, options.reading, reading))
        whole = [label for label in given if label.level == "dialogue"]
        joined = join_labels(whole, keys, partial(_may_meet, name, set(systems.names)))
        file = Path(path).name
        notes += joined.notes(file)
        if turns := len(given) - len(whole):
            notes.append(f"{turns} labels of single turns were skipped ({file}).")
        if absent := len(joined.absent):
            notes.append(f"{absent} labels of dialogues that no system has were skipped ({file}).")
        for label, places in zip(whole, joined.score_rows, strict=True):
            if len(places) > 1:
                first, second = (keys[place].system for place in places[:2])
                raise MedalError(
                    f"the label of {label.id!r} fits dialogues of {first} and {second}",
                    hint=f"say whose labels they are: --human {first}=FILE, or name the system "
                    "in each row (system, or models.assistant)",
                )
            labels += [(label, place) for place in places]
    values: dict[str, Floats] = {}
    scales: dict[str, set[Scale | None]] = {}
    own: dict[int, LabelledDialogue] = {}
    for label, place in labels:
        for rating in label.ratings():
            value = mean(rating)
            if value is None:
                continue
            own[place] = label
            nothing = np.full(len(systems.frame), math.nan)
            values.setdefault(rating.dimension, nothing)[place] = value
            scales.setdefault(rating.dimension, set()).add(label.scales.get(rating.dimension))
    if not own:
        raise MedalError(
            f"no label belongs to a dialogue that is compared ({' '.join(notes) or 'no labels'})",
            hint="labels are matched by id; name the system if ids are the same: A=FILE",
        )
    weights = None
    if represented := curation_weights(list(own.values()), "the labels"):
        weights = np.ones(len(systems.frame))
        weights[list(own)] = represented
    common = {name: each.pop() if len(each) == 1 else None for name, each in scales.items()}
    return (values, common, weights), notes


def _may_meet(name: str, systems: Set[str], label: LabelledDialogue, score: ScoreKey) -> bool:
    """Returns whether a label can be of a score: its system is ``name``, the one that the label
    states, or any if neither names a system."""
    stated = label.extra.get("system"), label.dialogue.meta.get("system"), label.dialogue.chatbot
    named = [system for system in (name, *stated) if isinstance(system, str) and system in systems]
    return not named or score.system == named[0]


def _compared_on(
    systems: Systems,
    labels: _Labels | None,
    contexts: npt.NDArray[np.intp],
    clusters: npt.NDArray[np.intp] | None,
    scale: Dimension,
    lang: str,
) -> ComparedOn:
    """Computes the means and differences of all systems, without ranks and corrected p-values."""
    dimension = scale.name
    names, langs = systems.row("system").to_numpy(), systems.row("lang").to_numpy()
    scores, unscored = systems.scores(dimension), systems.unscored(dimension)
    values, scales, weights = labels or ({}, {}, None)
    given, span = values.get(dimension), scales.get(dimension)
    masks = {s: (names == s) & ((langs == lang) | (lang == ALL)) for s in systems.names}
    rows: dict[str, SystemRows] = {}
    for name, mask in masks.items():
        chosen = np.flatnonzero(mask & np.isfinite(scores))
        if len(chosen):
            rows[name] = SystemRows(
                Values(scores[chosen], scale.tolerance),
                contexts[chosen],
                None if clusters is None else clusters[chosen],
                None if given is None else given[chosen],
                None if given is None or weights is None else weights[chosen],
            )
    wholes = {name: each.whole() for name, each in rows.items()}
    uncorrected = ""
    if labels is not None:
        few = {name: too_few_labels(each) for name, each in wholes.items()}
        uncorrected = "; ".join(f"{name} has {why}" for name, why in few.items() if why)
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
            corrected = interval_of(figure, fit.certain, span, extra)
        results.append(
            SystemResult(
                name,
                len(whole.sample.scores),
                int((masks[name] & unscored).sum()),
                labelled,
                mean_of(whole.sample),
                mean_of(whole.people, span) if labelled else None,
                corrected,
            )
        )
    pairs = []
    for one, two in combinations(rows, 2):
        difference = system_difference(rows[one], rows[two], label_span=span)
        if scale.good == "low":  # the first system wins a context where its score is lower
            wins, losses = difference.losses, difference.wins
            difference = replace(difference, wins=wins, losses=losses)
        tested = difference.best if basis == "people" else difference.judge
        pairs.append(PairResult(one, two, difference, basis, tested))
    missing = [name for name in masks if name not in rows]
    return ComparedOn(dimension, lang, scale.good, results, pairs, basis, uncorrected, missing)


def _ranked(
    result: ComparedOn, pairs: Sequence[PairResult], tolerance: float
) -> list[SystemResult]:
    """The systems, best first (equal ones in the order of the files), with the interval of each
    rank and the groups that cannot be told apart, by the corrected p-values."""
    found = {frozenset((pair.first, pair.second)): pair.tested.p_value for pair in pairs}
    systems = result.systems

    def p_value(i: int, j: int) -> float | None:
        return found.get(frozenset((systems[i].system, systems[j].system)))

    sign = 1.0 if result.good == "high" else -1.0
    means = np.array([sign * (each.best.value or 0.0) for each in systems])
    # Equal means have one rank.
    values = Values(means, tolerance).ranks(np.ones((1, len(means))))[0].tolist()
    groups = indistinct_groups(values, p_value)
    letters = [_LETTERS[n] if n < len(_LETTERS) else str(n + 1) for n in range(len(groups))]
    ranked = []
    for i, rank in enumerate(rank_intervals(values, p_value)):
        own = [x for x, group in zip(letters, groups, strict=True) if i in group]
        ranked.append(replace(systems[i], rank=rank, groups=" ".join(own)))
    return [ranked[i] for i in sorted(range(len(ranked)), key=lambda i: -values[i])]


_HINT = " Human labels of some dialogues correct that: --human FILE."  # in the terminal
_ALONE = "By the judge alone: a judge that favours one system's style makes it look better."
_DIFFERING = 6  # pairs of dialogues on the page, at least one of each dimension
_PRINTED = 15  # pairs of a table in the terminal; page and CSV have all
_NAMED = 4  # systems in a title
_IN_SIGHT = 12  # pairs of a table that is not folded
_READ = "Pairs of chats in one context. A large difference can also be an error of the judge."
_PEOPLE = (
    "The mean is the estimated human mean of all dialogues: the judge's mean, corrected by its "
    "error on the labelled ones."
)


def print_comparison(found: SystemComparison) -> None:
    """Prints a table of systems and one of differences for each dimension, then the verdicts."""
    tables = []
    for result in found.results:
        tables.append(systems_table(result))
        if 0 < len(result.pairs) <= _PRINTED:
            tables.append(pairs_table(found, result))
    print_tables(tables, found.notes, piped=150)
    console = wide_console(piped=150)
    console.print(f"Judge: {found.judge}", highlight=False, style="dim", soft_wrap=True)
    for sentence in found.verdicts():
        console.print(sentence, highlight=False, style="bold", soft_wrap=True)


def write_comparison(found: SystemComparison, folder: Path) -> Path:
    """Writes compare.json, compare.html, tables/* and figures/*; returns the page's path."""
    write_json(folder / "compare.json", found.to_record())
    count, langs = len(found.systems), len(found.languages)
    named = " · ".join(found.systems) if count <= _NAMED else f"{count} systems"
    dialogues = sum(found.counts.values())
    counts = [(count, "system"), (dialogues, "dialogue"), (len(found.dimensions), "dimension")]
    counts += [(langs, "language")] if langs else []
    package, verdicts, folds = str(__package__), [], list[Block]()
    for result in (each for each in found.results if each.lang == ALL):
        best = {each.system for each in result.systems[:2]}
        ahead = [_pair_words(p, result.good) for p in result.pairs if {p.first, p.second} == best]
        what, how = result.words()
        how = how.lstrip(" ,:;") or "".join(*ahead)  # of many systems: how far the best is ahead
        verdicts.append((result, what, how, any(pair.apart for pair in result.pairs)))
    lead: list[Block] = [fragment(package, "verdict.html", verdicts=verdicts, by=_BY)]
    lead += [note.removesuffix(_HINT) for note in found.notes]
    people = any(system.labelled for result in found.results for system in result.systems)
    terms = fragment(package, "terms.html", comparisons=found.comparisons, people=people)
    sections = [Section("verdict", "Which is better", lead)]
    for name, sides in found.differing:
        scores = ", ".join(f"{system} {number(score)}" for system, _, score, _ in sides)
        chats = [(*each, chat_block(each[3])) for each in sides]
        block = fragment(package, "differing.html", chats=chats)
        folds.append(Fold(f"{name.replace('_', ' ')}: {scores}", [block], is_open=not folds))
    sheets: dict[str, Table] = {}
    figures: dict[str, Figure] = {}
    for dimension in found.dimensions:  # all languages together, then each in a fold
        blocks: list[Block] = []
        for result in found.results:
            if result.dimension == dimension:
                systems, pairs = systems_table(result), pairs_table(found, result)
                name = f"{slug(dimension)}-{slug(result.lang)}"
                sheets |= {f"systems-{name}": systems, f"differences-{name}": pairs}
                if any(system.best.low is not None for system in result.systems):
                    figures[f"systems-{name}"] = Figure(systems.title, [systems])
                tables: list[Block] = [systems]
                if len(pairs.rows) > _IN_SIGHT:
                    tables.append(Fold(f"{len(pairs.rows)} differences", [pairs]))
                elif pairs.rows:
                    tables.append(pairs)
                lang = result.lang
                blocks += tables if lang == ALL else [Fold(f"Language: {lang}", tables)]
        sections.append(Section(slug(dimension), dimension.replace("_", " "), blocks))
    return write_page(
        folder / "compare.html",
        f"Compared: {named}",
        counted(counts),
        [
            *sections,
            Section("differing", "Where the scores differ most", folds, _READ, "Chats"),
            trust_section([str(found.judge)]),
            Section("terms", "How to read it", [terms]),
            facts_section(found.facts),
        ],
        tables=sheets,
        figures=figures,
    )


def _title(result: ComparedOn, what: str) -> str:
    name = result.dimension.replace("_", " ")
    return f"{name}: {what}" if result.lang == ALL else f"{name}, {result.lang}: {what}"


def systems_table(result: ComparedOn) -> Table:
    """One row a system, best first."""
    people = result.basis == "people"
    labelled = any(system.labelled for system in result.systems)
    unscored = any(system.unscored for system in result.systems)
    best = [system.best for system in result.systems]
    ends = [end for e in best for end in (e.value, e.low, e.high) if end is not None]
    span = padded(ends) if ends else (0.0, 1.0)
    rows: list[Row] = []
    for system in result.systems:
        first, last = system.rank
        rank = f"{first}" if first == last else f"{first} to {last}"
        bar = IntervalBar(system.best, span)
        cells: list[Cell] = [system.system, system.best, bar, f"{rank} · {system.groups}"]
        cells += [system.judge] if people else []
        cells += [system.people, system.labelled] if labelled else []
        rows.append((*cells, system.n, *([system.unscored] if unscored else [])))
    heads = ["System", "Mean", "", "Rank · group"]
    heads += ["Judge alone"] if people else []
    heads += ["People, labelled ones", "Labelled"] if labelled else []
    heads += ["Dialogues", *(["Unscored"] if unscored else [])]
    note = _PEOPLE if people else "The mean is the judge's."
    note += "" if result.good == "high" else " Lower is better."
    return Table(_title(result, "systems"), heads, rows, note)


def pairs_table(found: SystemComparison, result: ComparedOn) -> Table:
    """One row a pair of systems."""
    people = any(pair.difference.corrected is not None for pair in result.pairs)
    rows: list[Row] = []
    for pair in result.pairs:
        difference = pair.difference
        estimate = pair.estimate
        p_value = None if estimate.p_value is None else PValue(estimate.p_value)
        cells: list[Cell] = [pair.first, pair.second, estimate, p_value]
        cells += [difference.judge.estimate] if people else []
        counts = (difference.wins, difference.ties, difference.losses)
        if difference.by_context:
            cells.append(" · ".join(f"{count:,}" for count in counts))
        else:
            cells.append(" · ".join(f"{count / max(1, sum(counts)):.0%}" for count in counts))
        how: list[str] = [difference.pairing]
        if difference.shared:
            how.append(counted([(difference.shared, "context")]))
        if difference.rows != (difference.shared, difference.shared):
            how.append(f"{difference.rows[0]:,} and {difference.rows[1]:,}")
        if any(difference.left_out):
            how.append(f"{difference.left_out[0]:,} and {difference.left_out[1]:,} left out")
        rows.append((*cells, ", ".join(how), pair.tested.smallest))
    heads = ["First", "Second", "Difference", "p", *(["Judge alone"] if people else [])]
    heads += ["Won · tied · lost", "Compared", "Smallest"]
    note = (
        f"Intervals and p-values are corrected alike for all {found.comparisons} comparisons "
        "(Holm): an interval excludes 0 if its p-value is below 0.05."
    )
    return Table(_title(result, "differences"), heads, rows, note if found.comparisons > 1 else "")
