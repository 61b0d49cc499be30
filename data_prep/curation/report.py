"""A curation: the selection of each language, and its counts beside its pool's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from medal_judges import __version__
from medal_judges.data_prep.curation.pool import (
    Candidate,
    CurateOptions,
    ForeignLanguageFinder,
    load_label_rules,
    read_candidates,
)
from medal_judges.data_prep.curation.selection import Selected, select_balanced
from medal_judges.data_prep.sources.registry import stream_rows
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.report.table import Row, Table

_FACTORS = ("categories", "level", "chatbot", "user")


@dataclass(frozen=True, slots=True)
class Curation:
    """The result of a curation: the dialogues selected for annotation.

    Attributes:
        options: The options of ``medal curate``.
        facts: What the selection was made from and how, such as ``{"seed": "0", "pool": HASH}``.
        left_out: A mapping for each dialogue that could not be selected, with its ``reason``.
        selections: Language -> selected dialogues, in the order of selection.
        counts: A table with a row for each value of a factor. Columns are ``lang``, ``factor``
            (such as ``chatbot``), ``value`` (such as ``aya-8b``), and two numbers of dialogues with
            that value: among all candidates (``pool``) and among the selected ones (``selected``).
    """

    options: CurateOptions
    facts: dict[str, str]
    left_out: list[dict[str, Any]]
    selections: dict[str, Sequence[Selected]]
    counts: pd.DataFrame

    def to_record(self) -> dict[str, Any]:
        """Returns the content of curation.json: ``facts``, the number of dialogues left out,
        and ``counts``."""
        return {
            "facts": self.facts,
            "left_out": len(self.left_out),
            "counts": self.counts.to_dict("records"),
        }


def curate(options: CurateOptions, reading: ReadingReport) -> Curation:
    """Selects dialogues for annotation, separately for each language.

    Args:
        options: The options of ``medal curate``, such as the files and the number of dialogues.
        reading: A report, in which dialogues and bad rows are counted.

    Raises:
        ConfigError: The rubric has no dimension ``overall``.
        DataError: A file is missing or damaged, two rows have the same id, or there is no
            candidate.
    """
    rules = load_label_rules(options.rubric)
    foreign = None
    if not options.keep_foreign:
        foreign = ForeignLanguageFinder()
    pool, left_out = read_candidates(options, rules, foreign, reading)
    selections: dict[str, Sequence[Selected]] = {}
    counts = []
    for lang in sorted({candidate.lang for candidate in pool}):
        candidates = [candidate for candidate in pool if candidate.lang == lang]
        selections[lang] = select_balanced(
            candidates, options.n, rules, seed=options.seed
        )
        chosen = [selected.candidate for selected in selections[lang]]
        for factor in _FACTORS:
            in_pool = _count_values(candidates, factor)
            selected = _count_values(chosen, factor)
            for value in sorted(in_pool):
                counts.append((lang, factor, value, in_pool[value], selected[value]))
    facts = {
        "per language": str(options.n),
        "seed": str(options.seed),
        "foreign-language filter": foreign.hash if foreign else "off",
        "pool": content_hash(sorted(candidate.id for candidate in pool)),
        "version": __version__,
    }
    columns = ["lang", "factor", "value", "pool", "selected"]
    frame = pd.DataFrame(counts, columns=columns)
    return Curation(options, facts, left_out, selections, frame)


def _count_values(candidates: Sequence[Candidate], factor: str) -> Counter[str]:
    """Returns value -> number of ``candidates`` with that value in the field ``factor``, such
    as ``chatbot``."""
    counts: Counter[str] = Counter()
    for candidate in candidates:
        value = getattr(candidate, factor)
        if factor == "categories":
            counts.update(value)
        else:
            counts[str(value)] += 1
    return counts


def load_selected_rows(curation: Curation) -> list[LabelledDialogue]:
    """Reads the selected dialogues of ``curation`` from its files, with their texts.

    Returns:
        The dialogues, sorted by language and order of selection. ``extra["curation"]`` has ``rank``
        (1: selected first), ``weight`` (the number of candidates that the dialogue represents) and
        ``pool`` (the number of candidates in its language).

    Raises:
        KeyError: A selected dialogue is no longer in the files.
        DataError: A file is missing or damaged.
    """
    options = curation.options
    notes: dict[str, dict[str, Any]] = {}
    for selection in curation.selections.values():
        pool = round(sum(selected.weight for selected in selection))
        for rank, selected in enumerate(selection, 1):
            note = {"rank": rank, "weight": selected.weight, "pool": pool}
            notes[selected.candidate.id] = note
    rows = {}
    for spec in options.files:
        for row in stream_rows(spec, reading=ReadingReport(), options=options.reading):
            if row.id in notes:
                extra = {**row.extra, "curation": notes[row.id]}
                rows[row.id] = replace(row, extra=extra)
    return [rows[id] for id in notes]


def size_table(curation: Curation) -> Table:
    """Returns a table with a row for each language in ``curation``. The columns are the numbers of
    candidates, selected dialogues and distinct conversations, and the effective sample size.

    The effective size is the number of equally weighted dialogues that would say as much about the
    candidates.
    """
    sizes: list[Row] = []
    for lang, selection in curation.selections.items():
        total = 0.0
        squares = 0.0
        contexts = set()
        for selected in selection:
            total += selected.weight
            squares += selected.weight**2
            contexts.add(selected.candidate.group)
        effective = round(total**2 / squares)
        sizes.append((lang, round(total), len(selection), len(contexts), effective))
    columns = ("Language", "Pool", "Selected", "Contexts", "Effective")
    note = "Effective: as many equally weighted dialogues say as much about the pool."
    return Table("Dialogues", columns, sizes, note)


def describe_left_out(curation: Curation) -> list[str]:
    """Returns lines to print: how many dialogues were left out, for each language and reason."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in curation.left_out:
        counts[line["lang"], line["reason"].replace("_", " ")] += 1
    lines = []
    for (lang, reason), count in sorted(counts.items()):
        lines.append(f"left out: {count} in {lang}, {reason} (left_out.jsonl)")
    return lines
