"""Records of a benchmark: its rows, points and curves, between the statistics and the page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from medal_judges.records.contributions import Contributions
from medal_judges.records.rating import Scale
from medal_judges.stats.estimate import Estimate


@dataclass(frozen=True, slots=True)
class Point:
    """One judged row with a human answer: ``human`` is the mean over annotators, raw scale;
    ``weight`` is how often the row counts."""

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

    ``metrics`` maps a name (``spearman``, ``pearson``, ``kendall``, ``within_system`` = Spearman
    within chatbots, ``f1_present``, ``f1_absent``, ``precision``, ``recall``, ``accuracy``) to an
    Estimate. ``slices`` maps ``lang:de`` or ``chatbot:Meena`` to the same for that part.
    ``ceiling`` is the same figure for one annotator against the others, ``like_for_like`` for the
    judge against the same others, both on the ``ceiling_rows`` rows with two answers or more;
    ``ceiling_difference`` is the judge's headline figure minus the annotator's there.
    ``noise_free`` is the judge's headline figure without the annotators' noise (rater_model.py).
    ``slice_ceilings`` and ``slice_like_for_like`` have the headline figures of the slices.
    ``clusters`` says what the intervals leave out at a time. Under ``min_coverage`` there is no
    headline. ``human_scale`` and ``judge_scale`` are (lowest, highest) of people's raw answers and
    of the judge's scores, None where they are not stated.
    """

    judge: str
    signature: str
    set_name: str
    level: str
    dimension: str
    kind: str
    n: int
    scored: int
    metrics: Mapping[str, Estimate]
    ceiling: Mapping[str, Estimate] = field(default_factory=dict)
    like_for_like: Mapping[str, Estimate] = field(default_factory=dict)
    noise_free: Mapping[str, Estimate] = field(default_factory=dict)
    ceiling_rows: int = 0
    ceiling_difference: Estimate | None = None
    slices: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    slice_ceilings: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
    slice_like_for_like: Mapping[str, Mapping[str, Estimate]] = field(default_factory=dict)
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
        """True where too many rows went unscored for a headline number."""
        return self.coverage is not None and self.coverage < self.min_coverage


@dataclass(frozen=True, slots=True)
class Disagreement:
    """A dialogue where judge and people differ most, by rank, with what each turn contributed.

    Ranks lie in [0, 1] (0 lowest, 1 highest of the set, ties shared). ``turns`` are (role, text);
    ``contributions`` what each of them added to the score, None where the judge cannot say.
    """

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

    @property
    def matched_contributions(self) -> Contributions | None:
        """The contributions, where there is one for each turn."""
        told = self.contributions
        return told if told is not None and len(told.turns) == len(self.turns) else None


@dataclass(frozen=True, slots=True)
class CascadePoint:
    """``share`` of the rows (``deferred`` of them) answered by the strong judge: Spearman with
    people, the mean figure when as many are deferred at random, mean ``cost`` a row by kind."""

    share: float
    deferred: int
    spearman: Estimate
    at_random: float | None
    cost: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class CascadeCurve:
    """A weak judge before a strong one, over the ``n`` rows of a set that both scored."""

    weak: str
    strong: str
    set_name: str
    level: str
    dimension: str
    n: int
    points: Sequence[CascadePoint]
