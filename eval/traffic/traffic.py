"""Traffic: the scores of a body of chats as columns, a few bytes a number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from medal_judges.records.dimension import Dimension
from medal_judges.stats.correlation import Floats

HEADLINE = "overall"
THRESHOLD = 0.5  # from this probability on an issue counts as present
Codes = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of few values: ``codes`` (rows,) into ``names``, -1 where a row has none."""

    codes: Codes
    names: Sequence[str]

    def counts(self) -> npt.NDArray[np.int64]:
        """How many rows have each value."""
        return np.bincount(self.codes[self.codes >= 0], minlength=len(self.names))


@dataclass(frozen=True, slots=True)
class Traffic:
    """All judgements of a file, one row each (a dialogue, or a judged turn).

    ``scores``: a column a dimension, NaN where unscored. ``marks`` (rows,) are hashes of the ids,
    equal for turns of one dialogue. ``clusters`` (rows,): what is drawn at a time, ``cluster_name``
    in words. ``uncertainty`` (rows,): see Judgement.uncertainty, NaN where the judge does not say.
    ``sizes``: turns and characters of each dialogue where its text is known, NaN else.
    ``assumed``: dimensions that no rubric knows. ``notes``: what a reader has to know.
    ``people``: mean label of a dimension on the judge's scale, NaN where nobody labelled the row;
    ``people_weights``: how many rows a labelled one stands for, None where drawn at random.
    """

    dimensions: Mapping[str, Dimension]
    scores: Mapping[str, Floats]
    signatures: Mapping[str, int]
    marks: Codes
    turns: Codes
    uncertainty: Floats
    clusters: Codes
    cluster_name: str
    columns: Mapping[str, TextColumn] = field(default_factory=dict)
    times: Floats | None = None
    sizes: Mapping[str, Floats] = field(default_factory=dict)
    failures: Counter[str] = field(default_factory=Counter)
    scored: int = 0
    unknown_languages: Counter[str] = field(default_factory=Counter)
    assumed: Sequence[str] = ()
    notes: Sequence[str] = ()
    people: Mapping[str, Floats] = field(default_factory=dict)
    people_weights: Floats | None = None

    @property
    def rows(self) -> int:
        return len(self.marks)

    @property
    def dialogues(self) -> int:
        return len(np.unique(self.marks))

    @property
    def coverage(self) -> float | None:
        """Share of the rows with a number in every dimension; None for an empty file."""
        return self.scored / self.rows if self.rows else None

    @property
    def issues(self) -> list[str]:
        return [name for name, d in self.dimensions.items() if d.kind == "binary"]

    @property
    def graded(self) -> list[str]:
        """Graded dimensions, the headline one first."""
        names = [name for name, d in self.dimensions.items() if d.kind != "binary"]
        return sorted(names, key=lambda name: name != HEADLINE)

    @property
    def headline(self) -> str | None:
        """``overall`` where there is one, else the first graded dimension; None without any."""
        return next(iter(self.graded), None)

    @property
    def unit(self) -> str:
        """What a row is, in words."""
        return "judged turn" if (self.turns >= 0).any() else "conversation"
