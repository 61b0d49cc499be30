"""Statistics of a set of dialogues, from one pass over its rows: MEDAL's Table 2 and its figures.

Each dialogue becomes one row of a DataFrame; texts are not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import nan
from typing import Any

import pandas as pd

from medal_judges.data_prep.corpus_stats.tokens import (
    Lemmatiser,
    length,
    load_lemmatiser,
    mtld,
    unit_of,
)
from medal_judges.errors import MedalError
from medal_judges.records.dimension import load_rubric
from medal_judges.records.labelled import LabelledDialogue, Scale, mean
from medal_judges.records.signature import content_hash
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import Estimate
from medal_judges.stats.means import Sample, estimate_mean, estimate_share

SIDES = ("user", "assistant")
UNITS = ("words", "characters")
NOT_STATED = "not stated"
PRESENT_FROM = 0.5  # an issue is present if the mean of its answers is at least this
MAX_NAMES = 60  # with more names than this, chatbots or users are people, not systems
_SPEAKERS = ["lang", "chatbot", "user"]


@dataclass(frozen=True)
class CorpusStatistics:
    """Statistics of a set of dialogues, from which tables and figures are made.

    Attributes:
        name: The name of the set.
        rows: A row for each dialogue. Columns are ``lang``, ``chatbot``, ``user`` (the user model)
            and ``group`` (the conversation). Columns that end in ``_user`` or ``_assistant``
            measure one speaker: number of turns (``turns_user``), their total length
            (``words_user`` or ``characters_user``), and MTLD, a measure of lexical diversity
            (``mtld_user``).
        labels: The same rows as in ``rows``, with a column for each dimension. A cell is the mean
            label of the annotators, NaN without a label.
        scales: Dimension -> scale (low, high), such as ``{"overall": (1, 5)}``. None if unknown.
        shares: Names of the yes-or-no dimensions. Their mean labels are rounded to 0 or 1.
        issues: The names in ``shares`` that are dimensions of MEDAL's rubric, such as
            ``repetitive``.
        tools: Language -> name of the tool that splits its texts into words.
        counts: Number of rows with labels (``labelled``), of rows that a judge failed to label
            (``failed``), and of rows with a faulty simulated user (``malformed``).
        labelled_by: Judge -> number of rows that it labelled.
        data: A hash of all rows, the same in any order.
    """

    name: str
    rows: pd.DataFrame
    labels: pd.DataFrame
    scales: dict[str, Scale | None]
    shares: list[str]
    issues: list[str]
    tools: dict[str, str]
    counts: Counter[str]
    labelled_by: Counter[str]
    data: str

    @property
    def graded_dimensions(self) -> list[str]:
        """The names of the dimensions whose labels are numbers on a scale, not yes or no. Those
        that begin with ``overall`` come first."""
        names = [name for name in self.labels if name not in self.shares]
        return sorted(names, key=lambda name: not name.startswith("overall"))

    def groupable_names(self, column: str) -> list[str]:
        """Returns the sorted distinct names in one column of ``rows``.

        The list is empty if no row has a name. It is also empty for more than 60 names, which are
        probably people and not systems.

        Args:
            column: ``lang``, ``chatbot`` or ``user``.
        """
        names = sorted(self.rows[column].unique())
        if names == [NOT_STATED] or len(names) > MAX_NAMES:
            return []
        return names

    def select_rows(self, **speakers: str) -> pd.DataFrame:
        """Returns the rows whose columns have the given values, such
        as ``select_rows(lang="de", chatbot="bot")``.

        Args:
            speakers: Column (``lang``, ``chatbot`` or ``user``) -> its value.
        """
        rows = self.rows
        for column, name in speakers.items():
            rows = rows[rows[column] == name]
        return rows

    def estimate(self, rows: pd.DataFrame, dimension: str) -> Estimate:
        """Returns the mean label on ``dimension`` over ``rows``, with its 95% interval. For a
        yes-or-no dimension, it is the share of rows with label 1, on [0, 1].

        The interval treats dialogues of one conversation as dependent.

        Args:
            rows: A selection of the rows of this object.
            dimension: The dimension, such as ``overall``.
        """
        answers = self.labels.loc[rows.index, dimension].dropna()
        sample = Sample(
            Values(answers.to_numpy(dtype=float), 0.0),
            rows.group[answers.index].tolist(),
        )
        if dimension in self.shares:
            return estimate_share(sample)
        return estimate_mean(sample)


def compute_statistics(
    dialogues: Iterable[LabelledDialogue], name: str, *, lemmas: bool = True
) -> CorpusStatistics:
    """Returns the statistics of ``dialogues``, a set called ``name``.

    Args:
        dialogues: The rows, with or without labels.
        name: The name of the set, for headings.
        lemmas: Whether MTLD, a measure of lexical diversity, is computed on lemmas, for which
            packages are needed. False: on words.

    Raises:
        MedalError: Two rows have the same id, or different scales for one dimension.
        MissingExtraError: A package for ``lemmas`` is not installed.
    """
    tools: dict[str, Lemmatiser] = {}
    counts: Counter[str] = Counter()
    labelled_by: Counter[str] = Counter()
    answers: dict[str, dict[str, float]] = {}  # by id
    scales: dict[str, Scale | None] = {}
    between: set[str] = set()  # dimensions with an answer but 0 and 1
    measures = []
    contents = []
    for row in dialogues:
        if row.id in answers:
            raise MedalError(
                f"the id {row.id!r} occurs twice, so its dialogue would be counted twice",
                hint="Give every dialogue in one file only",
            )
        answers[row.id] = _mean_labels_recording_scales(row, scales, between)
        lang = row.dialogue.lang
        if lang not in tools:
            tools[lang] = load_lemmatiser(lang, lemmas=lemmas)
        measures.append(_measure_row(row, tools[lang]))
        contents.append(content_hash(row.to_record()))
        counts["labelled"] += bool(answers[row.id])
        counts["failed"] += "label_failure" in row.extra
        counts["malformed"] += "malformed" in row.extra
        labeller = row.extra.get("labels_by")
        if isinstance(labeller, str):
            labelled_by[labeller] += 1
    labels = pd.DataFrame(list(answers.values()), dtype=float)
    shares = []
    for dimension, scale in scales.items():
        if scale == (0, 1) and dimension not in between:
            shares.append(dimension)
            present = (labels[dimension] >= PRESENT_FROM).astype(float)
            labels[dimension] = present.where(labels[dimension].notna())
    rubric = [dimension.name for dimension in load_rubric("medal")]
    return CorpusStatistics(
        name=name,
        rows=pd.DataFrame(measures or {column: [] for column in _SPEAKERS}),
        labels=labels,
        scales=scales,
        shares=shares,
        issues=[name for name in rubric if name in shares],
        tools={lang: tool.name for lang, tool in tools.items()},
        counts=counts,
        labelled_by=labelled_by,
        data=content_hash(sorted(contents)),
    )


def _mean_labels_recording_scales(
    row: LabelledDialogue, scales: dict[str, Scale | None], between: set[str]
) -> dict[str, float]:
    """Returns the mean label of ``row`` on each dimension. Also adds to ``scales`` and ``between``,
    which the caller keeps for all rows.

    Args:
        scales: Dimension -> scale. The scales of ``row`` are added.
        between: Names of dimensions with a rating other than 0 and 1. Those in ``row`` are added.

    Returns:
        Dimension -> mean label over annotators, for the dimensions with a label.

    Raises:
        MedalError: ``scales`` already has a different scale for a dimension.
    """
    answers = {}
    for rating in row.ratings():
        answer = mean(rating)
        if answer is None:
            continue
        name = rating.dimension
        answers[name] = answer
        if scales.setdefault(name, rating.scale) != rating.scale:
            raise MedalError(
                f"row {row.id!r}: {name} is on the scale {rating.scale}, and on {scales[name]} in "
                "rows before it",
                hint="Give one file at a time",
            )
        if not {0, 1}.issuperset(rating.given_values):
            between.add(name)
    return answers


def _measure_row(row: LabelledDialogue, tool: Lemmatiser) -> dict[str, Any]:
    """Returns the language, speakers and group of ``row``, and for user and assistant the number,
    length and MTLD of their turns.

    Args:
        tool: Splits texts into words.

    Returns:
        Column of ``CorpusStatistics.rows`` -> value, such as ``{"lang": "en", "turns_user": 4}``.
    """
    dialogue = row.dialogue
    measures: dict[str, Any] = {
        "lang": dialogue.lang,
        "chatbot": dialogue.models.get("assistant") or NOT_STATED,
        "user": dialogue.models.get("user") or NOT_STATED,
        "group": row.group,
    }
    for side in SIDES:
        texts = [turn.content for turn in dialogue.turns if turn.role == side]
        measures[f"turns_{side}"] = len(texts)
        tokens: list[str] = []
        for text in texts:
            if tool.split is not None:
                tokens += tool.split(text)
        for unit in UNITS:
            measures[f"{unit}_{side}"] = nan
        unit = unit_of(dialogue.lang)
        measures[f"{unit}_{side}"] = sum(length(text, unit) for text in texts)
        diversity = mtld(tokens)
        measures[f"mtld_{side}"] = nan if diversity is None else diversity
    return measures
