"""Compare: which of several systems is better, and how sure that is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from medal_judges.errors import MedalError
from medal_judges.eval.comparison.contexts import Contexts, PairBy, find_contexts
from medal_judges.eval.comparison.engine import ComparedRows, Good, compare_rows
from medal_judges.eval.comparison.labels import HumanLabels, match_labels
from medal_judges.eval.comparison.results import ALL, ComparedOn, SystemComparison
from medal_judges.eval.comparison.rows import (
    ScoredDialogue,
    ScoredSystems,
    SystemFile,
    named_sources,
    read_systems,
)
from medal_judges.inference.scoring import DEFAULT_OPTIONS, ScoreOptions
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import read_dialogues, read_labelled
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.weights import Weights

Paths = Mapping[str, str | Path] | Sequence[str | Path] | str | Path
_RUBRICS = ("medal", "human", "quickstart", "fed", "dstc12", "malformed", "overall", "usr")
_LANG_SHIFT = 0.1  # a share of a language that differs by more may make a difference by itself


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """How systems are compared.

    ``by``: the column that names the system (``chatbot``, ``lang`` or a kept one) instead of the
    file. ``dimensions``: these only. ``pair_by``, ``context``: what makes two dialogues one
    context, see contexts.py. ``cluster``: a column of what varies together, such as the user.
    ``difference``: how many more dialogues would show this one. ``weights``: how labels count.
    ``rubric``: says which end of a dimension is good, where the judge is not there to say it.

    >>> CompareOptions(by="chatbot", difference=0.2).pair_by
    'auto'
    """

    by: str | None = None
    dimensions: Sequence[str] = ()
    pair_by: PairBy = "auto"
    context: str | None = None
    cluster: str | None = None
    difference: float | None = None
    weights: Weights = "none"
    rubric: str | Path | None = None


DEFAULT = CompareOptions()


def compare(
    systems: Paths,
    options: CompareOptions = DEFAULT,
    *,
    judge: Judge | str | Path | None = None,
    human: Paths | None = None,
    chats: Sequence[str | Path] = (),
    out: str | Path | None = None,
    scoring: ScoreOptions = DEFAULT_OPTIONS,
    read: Callable[[str | Path], Iterable[Dialogue]] = read_dialogues,
    read_labels: Callable[[str | Path], Iterable[LabelledDialogue]] = read_labelled,
    progress: Callable[[int], None] | None = None,
) -> SystemComparison:
    """Which system is better, per dimension and language.

    ``systems``: files of scores, or of chats that ``judge`` scores (the one in the package unless
    given), as ``{name: path}``, ``"name=path"`` or paths. ``human``: files of labels, for all
    systems or ``{name: path}``; they correct the judge (stats/ppi.py). ``chats``: dialogues of
    score files, for first user turns and columns. ``out``: a folder; chats scored before are kept
    there. Nothing else is written: see ``write_comparison``.

    Raises MedalError for one system only, files scored by different judges, and labels that fit no
    dialogue.

    >>> from medal_judges import CompareOptions, compare
    >>> options = CompareOptions(dimensions=["overall"])
    >>> found = compare({"old": "old.jsonl", "new": "new.jsonl"}, options, judge="length")
    >>> found.systems, found.on("overall").pairs[0].difference.pairing
    (['old', 'new'], 'paired')
    >>> print(found.verdicts()[0])
    overall: new is better than old by 1.72 [1.50, 1.94], p < 0.001 (by the judge alone).
    """
    sources = named_sources([systems] if isinstance(systems, str | Path) else systems)
    loaded = Judge.from_pretrained(judge) if isinstance(judge, str | Path) else judge
    found = read_systems(
        sources,
        judge=loaded,
        by=options.by,
        chats=chats,
        out=None if out is None else Path(out),
        options=scoring,
        read=read,
        progress=progress,
    )
    labels = None if human is None else _labels(human, found, options.weights, read_labels)
    compared = ComparedRows(
        found.rows,
        find_contexts(found.rows, options.pair_by, options.context),
        _directions(found.judge_object, options.rubric),
        _clusters(found.rows, options.cluster),
        labels,
        options.difference,
    )
    return _compared(compared, found, options, sources)


def _compared(
    compared: ComparedRows,
    found: ScoredSystems,
    options: CompareOptions,
    sources: Sequence[SystemFile],
) -> SystemComparison:
    names = _dimensions(found, options.dimensions)
    results, comparisons = compare_rows(compared, found.systems, names)
    return SystemComparison(
        systems=found.systems,
        results=results,
        comparisons=comparisons,
        judge=found.judge,
        asked=options.difference,
        notes=_notes(found, compared.contexts, compared.labels, results),
        facts=_facts(found, compared.contexts, options, sources),
        counts={name: sum(r.system == name for r in found.rows) for name in found.systems},
    )


def _labels(
    human: Paths,
    found: ScoredSystems,
    weights: Weights,
    read: Callable[[str | Path], Iterable[LabelledDialogue]],
) -> HumanLabels:
    if isinstance(human, Mapping):
        files_of: list[tuple[str | None, Path]] = [(name, Path(p)) for name, p in human.items()]
    else:
        texts = [human] if isinstance(human, str | Path) else list(human)
        files_of = [_named_labels(str(text), found.systems) for text in texts]
    for name, _ in files_of:
        if name is not None and name not in found.systems:
            raise MedalError(
                f"labels of {name!r}, which is no system",
                hint=f"systems: {', '.join(found.systems)}",
            )
    rows = ((name, row) for name, path in files_of for row in read(path))
    return match_labels(rows, found.rows, weights)


def _named_labels(text: str, systems: Sequence[str]) -> tuple[str | None, Path]:
    name, sign, path = text.partition("=")
    return (name, Path(path)) if sign and name in systems else (None, Path(text))


def _clusters(rows: Sequence[ScoredDialogue], column: str | None) -> list[str] | None:
    if column is None:
        return None
    values = [row.value(column) for row in rows]
    if all(value is None for value in values):
        raise MedalError(
            f"no row has a value of {column!r}",
            hint=f"scores keep it with: medal score --keep {column}",
        )
    return [
        f"own {row.system}\x00{row.id}" if value is None else f"cluster {value}"
        for row, value in zip(rows, values, strict=True)
    ]


def _dimensions(found: ScoredSystems, asked: Sequence[str]) -> list[str]:
    for name in asked:
        if name not in found.dimensions:
            raise MedalError(
                f"no row has the dimension {name!r}", hint=f"there: {', '.join(found.dimensions)}"
            )
    return list(asked) or sorted(found.dimensions, key=lambda name: name != "overall")


def _directions(judge: Judge | None, rubric: str | Path | None) -> Callable[[str], Good]:
    """Which end of a dimension's scale is good: as the judge says, or the rubric, or the first
    shipped rubric that has a dimension of this name; the high end else."""
    known: dict[str, Dimension] = {}
    if rubric is not None:
        known = {d.name: d for d in load_rubric(rubric)}
    if judge is not None:
        known = {d.name: d for d in judge.dimensions} | known
    for name in _shipped():
        for dimension in load_rubric(name):
            known.setdefault(dimension.name, dimension)
    return lambda name: known[name].good if name in known else "high"


def _shipped() -> list[str]:
    folder = files("medal_judges.configs") / "rubrics"
    there = sorted(entry.name.removesuffix(".yaml") for entry in folder.iterdir())
    return sorted(there, key=lambda name: (name not in _RUBRICS, name))


def _notes(
    found: ScoredSystems,
    contexts: Contexts,
    labels: HumanLabels | None,
    results: Sequence[ComparedOn],
) -> list[str]:
    notes = []
    if labels is None:
        notes.append(
            "By the judge alone: a judge that favours one system's style makes it look better. "
            "Labels of some dialogues by people correct that: --human FILE."
        )
    else:
        notes += labels.notes
    for result in results:
        where = result.dimension if result.lang == ALL else f"{result.dimension}, {result.lang}"
        if result.uncorrected and (result.lang == ALL or result.labelled):
            notes.append(f"{where}: not corrected by people's labels: {result.uncorrected}.")
        if result.missing:
            notes.append(f"{where}: no scores of {', '.join(result.missing)}.")
        unscored = [f"{s.unscored} of {s.system}" for s in result.systems if s.unscored]
        if unscored:
            notes.append(
                f"{where}: dialogues without a score were left out: {', '.join(unscored)}."
            )
        left = sum(sum(pair.difference.left_out) for pair in result.pairs)
        if left and result.lang == ALL:
            notes.append(
                f"{where}: dialogues in contexts that the other system never met do not enter a "
                "difference (the table counts them)."
            )
    if contexts.note:
        notes.append(contexts.note)
    if found.without:
        notes.append(f"{found.without} rows name no system and were left out.")
    return notes + _language_shift(found, results)


def _language_shift(found: ScoredSystems, results: Sequence[ComparedOn]) -> list[str]:
    """A warning where systems spoke languages in different shares, and not on the same contexts."""
    unpaired = [p for r in results if r.lang == ALL for p in r.pairs]
    if all(pair.difference.pairing == "paired" for pair in unpaired):
        return []
    langs = sorted({row.lang for row in found.rows if row.lang is not None})
    for lang in langs:
        shares = {}
        for name in found.systems:
            own = [row.lang == lang for row in found.rows if row.system == name]
            shares[name] = sum(own) / len(own)
        low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        if shares[high] - shares[low] > _LANG_SHIFT:
            return [
                f"{shares[high]:.0%} of the dialogues of {high} and {shares[low]:.0%} of {low} are "
                f"{lang}: all languages together mix the systems with the languages; compare by "
                "language."
            ]
    return []


def _facts(
    found: ScoredSystems, contexts: Contexts, options: CompareOptions, sources: Sequence[SystemFile]
) -> list[tuple[str, str]]:
    from medal_judges import __version__

    counts = [f"{n} {sum(row.system == n for row in found.rows):,}" for n in found.systems]
    how = contexts.by or "nothing: each dialogue stands alone"
    facts = [
        ("Dialogues", ", ".join(counts)),
        ("Files", ", ".join(source.path.name for source in sources)),
        ("One context by", how),
        ("Varies together", f"the column {options.cluster!r}" if options.cluster else "a context"),
        ("Intervals", "95%; each context is left out in turn, Student's t"),
        ("Judge", found.judge),
    ]
    return [*facts, ("medal-judges", __version__)]
