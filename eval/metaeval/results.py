"""Records of a benchmark: figures of a judge, its points, and dialogues where it disagrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medal_judges.records.contributions import Contributions
from medal_judges.records.rating import Scale
from medal_judges.stats.estimate import Estimate

Figures = Mapping[str, Estimate]


@dataclass(frozen=True, slots=True)
class Point:
    """One judged row: ``human`` is the mean over annotators on the raw scale, ``weight`` how often
    the row counts."""

    id: str
    turn: int | None
    human: float
    score: float
    lang: str
    chatbot: str | None
    group: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class ResultRow:
    """One judge on one set and dimension.

    ``metrics``: ``spearman``, ``pearson``, ``kendall``, ``within_system`` (Spearman within
    chatbots), and for issues ``f1_present``, ``f1_absent``, ``precision``, ``recall``,
    ``accuracy``. ``slices``: the same for parts such as ``lang:de`` or ``chatbot:Meena``.
    ``ceiling``: one annotator against the others, ``like_for_like``: the judge against the same
    others, on the ``ceiling_rows`` rows with two answers or more; ``ceiling_difference``: the
    headline figure of the judge minus the annotator's. ``noise_free``: the headline figures without
    annotator noise (rater_model.py). ``clusters``: what intervals leave out. Below
    ``min_coverage`` there is no headline. Scales are (lowest, highest), None if not stated.
    """

    judge: str
    signature: str
    set_name: str
    level: str
    dimension: str
    kind: str
    n: int
    scored: int
    metrics: Figures
    ceiling: Figures = field(default_factory=dict)
    like_for_like: Figures = field(default_factory=dict)
    noise_free: Figures = field(default_factory=dict)
    ceiling_rows: int = 0
    ceiling_difference: Estimate | None = None
    slices: Mapping[str, Figures] = field(default_factory=dict)
    slice_ceilings: Mapping[str, Figures] = field(default_factory=dict)
    slice_like_for_like: Mapping[str, Figures] = field(default_factory=dict)
    slice_sizes: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    points: Sequence[Point] = ()
    clusters: str = ""
    min_coverage: float = 0.98
    human_scale: Scale | None = None
    judge_scale: Scale | None = None

    @property
    def coverage(self) -> float | None:
        """Share of the rows with a human answer that the judge scored; None for no rows."""
        return self.scored / self.n if self.n else None

    @property
    def under_floor(self) -> bool:
        """Whether coverage is too low for a headline figure."""
        return self.coverage is not None and self.coverage < self.min_coverage


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A dialogue where judge and people differ in rank, from 0 (lowest of the set) to 1. ``turns``
    are (role, text)."""

    judge: str
    set_name: str
    dimension: str
    id: str
    human: float
    score: float
    human_rank: float
    score_rank: float
    turns: Sequence[tuple[str, str]]
    contributions: Contributions | None = None
