"""The ratings that a model may give, distributions over them, and the judgement that results."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Literal

import numpy as np

from medal_judges.models.base.judge import DimensionScore, judgement_of
from medal_judges.models.llm.protocol import Completion, TokenChoice
from medal_judges.models.prompted.answers import (
    Answer,
    AnswerField,
    AnswerShape,
    Scale,
    read_answers,
    shown,
)
from medal_judges.models.prompted.builder import PromptBuilder
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement, known_details
from medal_judges.records.labelled import rescale

SHAPE = AnswerShape(format="number", line="any")
MOST_LEVELS = 11  # more whole numbers than this are not one token each


@dataclass(frozen=True, slots=True)
class Ratings:
    """The ratings that the model may write (``texts``) and their ``values`` on the dimension's
    scale, both ascending."""

    texts: tuple[str, ...]
    values: tuple[float, ...]

    @classmethod
    def of(cls, dimension: Dimension, points: int) -> Ratings:
        """The whole numbers of the dimension's scale if there are two to eleven; else 1 to
        ``points``, spread evenly over it."""
        low, high = dimension.low, dimension.high
        ends_on_integers = low % 1 == 0 and high % 1 == 0 and low >= 0
        # A continuous [0, 1] has just two whole numbers: too coarse to rate with.
        fewest_steps = 1 + (dimension.kind == "continuous")
        if ends_on_integers and fewest_steps <= high - low < MOST_LEVELS:
            integers = range(int(low), int(high) + 1)
            return cls(tuple(map(str, integers)), tuple(map(float, integers)))
        texts = tuple(map(str, range(1, points + 1)))
        return cls(
            texts, tuple(dimension.from_unit(i / (points - 1)) for i in range(points))
        )

    @classmethod
    def on_scale(cls, dimension: Dimension, scale: Scale) -> Ratings:
        """All whole numbers of the requested ``scale``, or eleven evenly spread ones (0, 10, ...
        100) if there are more; eleven decimals if it has less than two whole numbers."""
        low, high = math.ceil(scale[0]), math.floor(scale[1])
        steps = min(high - low, MOST_LEVELS - 1)
        if steps < 1:
            numbers = np.linspace(*scale, MOST_LEVELS)
        else:
            numbers = np.linspace(low, high, steps + 1).round() + 0.0  # no -0
        target = (dimension.low, dimension.high)
        values = tuple(rescale(number, scale, target) for number in numbers.tolist())
        return cls(tuple(f"{number:.9g}" for number in numbers), values)

    @property
    def ambiguous(self) -> bool:
        """Whether one rating begins another, as 1 does 10."""
        # A text and a longer one that it begins are neighbours in alphabetical order.
        neighbours = pairwise(sorted(self.texts))
        return any(longer.startswith(text) for text, longer in neighbours)

    def read(self, completion: Completion) -> Answer:
        """Returns the rating in a response: a line with it alone, or after ``Rating:``."""
        scale = (float(self.texts[0]), float(self.texts[-1]))
        binary = self.texts == ("0", "1")
        field = AnswerField("rating", "rating", "rating", scale, binary)
        answer = read_answers(completion, [field], SHAPE)["rating"]
        if answer.value is None or f"{answer.value:g}" in self.texts:
            return answer
        reason = f"{answer.value:g} is none of the ratings in {shown(completion.text)}"
        return Answer(reason=reason)

    def moments(self, chances: Sequence[float]) -> tuple[float, float]:
        """(expected value, standard deviation) of ``values`` under ``chances``."""
        pairs = list(zip(chances, self.values, strict=True))
        mean = sum(chance * value for chance, value in pairs)
        variance = sum(chance * (value - mean) ** 2 for chance, value in pairs)
        # Rounding must not leave the scale.
        return min(max(mean, self.values[0]), self.values[-1]), math.sqrt(variance)


# -- distributions ---------------------------------------------------------------------------------


def from_logprobs(answer: Answer, logprobs: Sequence[float]) -> Answer:
    """``answer`` with the distribution from the log-probability of each rating's text."""
    top = max(logprobs)
    weights = [math.exp(value - top) for value in logprobs]
    total = sum(weights)
    chances = tuple(w / total for w in weights)
    return replace(answer, chances=chances, mass=total * math.exp(top))


def from_alternatives(
    completion: Completion, answer: Answer, ratings: Ratings
) -> Answer:
    """``answer`` with the distribution from the alternatives to its number's token, if the backend
    reports them, one token is the whole number, and no rating begins another one (1 and 10)."""
    if answer.span is None or ratings.ambiguous:
        return answer
    start, end = answer.span
    token, before = _token_at(completion, start)
    written = "".join(token.text for token in completion.tokens)
    if token is None or written[:end] != completion.text[:end]:
        return answer
    if token.text[before:] != written[start:end]:
        return answer
    return _over_ratings(answer, token, token.text[:before].strip(), ratings)


def _token_at(completion: Completion, position: int) -> tuple[TokenChoice | None, int]:
    """The token with the character at ``position``, and the character's index in it."""
    for token in completion.tokens:
        if position < len(token.text):
            return token, position
        position -= len(token.text)
    return None, 0


def _over_ratings(
    answer: Answer, token: TokenChoice, mark: str, ratings: Ratings
) -> Answer:
    """Adds to ``answer`` the probability of each rating (after the text ``mark``) in the place of
    ``token``, ignoring white space. Without alternatives the answer stays unchanged: the token
    would pass for certain."""
    masses = dict.fromkeys([mark + rating for rating in ratings.texts], 0.0)
    for text, logprob in {**token.alternatives, token.text: token.logprob}.items():
        if text.strip() in masses:
            masses[text.strip()] += math.exp(logprob)
    total = sum(masses.values())
    if not token.alternatives or total <= 0:
        return answer
    chances = tuple(mass / total for mass in masses.values())
    return replace(answer, chances=chances, mass=min(1.0, total))


def from_samples(completions: Sequence[Completion], ratings: Ratings) -> Answer:
    """Returns the share of each rating among the answers that have one; if none has, the first
    reason."""
    counts = [0] * len(ratings.texts)
    reasons: list[str] = []
    for completion in completions:
        answer = ratings.read(completion)
        if answer.value is None:
            reasons.append(answer.reason or "no rating")
        else:
            counts[ratings.texts.index(f"{answer.value:g}")] += 1
    total = sum(counts)
    if total == 0:
        return Answer(reason=f"no rating in {len(reasons)} answers: {reasons[0]}")
    chances = tuple(count / total for count in counts)
    return Answer(chances=chances, mass=total / len(completions), samples=total)


# -- from answers to a judgement -------------------------------------------------------------------


def to_judgement(
    answers: Mapping[str, Sequence[Answer]],
    dimensions: Iterable[Dimension],
    builder: PromptBuilder,
    ratings: Mapping[str, Ratings],
    *,
    score: Literal["said", "expected"] = "said",
) -> Judgement:
    """Returns the judgement from the repeated answers for each dimension. ``score``: the mean of
    the numbers in the answers, or the expected rating under the mean of their distributions."""
    results: dict[str, DimensionScore] = {}
    names_by_reason: dict[str, list[str]] = {}
    comments: list[str] = []
    for dimension in dimensions:
        name, repeats = dimension.name, answers[dimension.name]
        details = _details(repeats, dimension, builder)
        chances = _add_distribution(details, repeats, ratings[name])
        value = details["value"]
        if score == "expected":
            value = details.get("expected")
        if value is None:
            reason = _first(answer.reason for answer in repeats)
            if reason is None and details["value"] is None:
                reason = "no answer has a score"
            reason = reason or "no probabilities of the ratings"
            names_by_reason.setdefault(reason, []).append(name)
        if details["comment"]:
            comments.append(f"{name}: {details['comment']}")
        # The distribution of other ratings than the dimension's levels is in the details alone.
        if ratings[name].values != dimension.levels:
            chances = ()
        results[name] = DimensionScore(value, chances, known_details(**details))
    failures = []
    for reason, names in names_by_reason.items():
        failures.append(f"{', '.join(names)}: {reason}")
    return judgement_of(
        results,
        explanation="\n".join(comments) or None,
        failure="; ".join(failures) or None,
    )


def _first(texts: Iterable[str | None]) -> str | None:
    return next(filter(None, texts), None)


def _details(
    repeats: Sequence[Answer], dimension: Dimension, builder: PromptBuilder
) -> dict[str, Any]:
    """Returns the numbers in the repeated answers on the dimension's scale, and their mean."""
    values = [builder.to_dimension(answer.value, dimension) for answer in repeats]
    numbers = [value for value in values if value is not None]
    details: dict[str, Any] = {
        "value": None,
        "comment": _first(answer.comment for answer in repeats),
        "parsed": tuple(answer.step for answer in repeats),
    }
    if numbers:
        details["value"] = statistics.fmean(numbers)
    if len(values) > 1:
        details |= {"repeats": tuple(values)} | self_agreement(values)
    return details


def _add_distribution(
    details: dict[str, Any], repeats: Sequence[Answer], ratings: Ratings
) -> tuple[float, ...]:
    """Adds the expected rating under the mean distribution of those ``repeats`` that have one to
    ``details``. Returns that distribution; empty if none has one."""
    weighed = [answer for answer in repeats if answer.chances is not None]
    if not weighed:
        return ()
    distributions: Any = [answer.chances for answer in weighed]
    chances = tuple(np.mean(distributions, axis=0).tolist())
    details["expected"], details["spread"] = ratings.moments(chances)
    details["mass"] = sum(answer.mass for answer in weighed) / len(weighed)
    details["samples"] = sum(answer.samples for answer in weighed) or None
    return chances


def self_agreement(values: Sequence[float | None]) -> dict[str, float]:
    """The standard deviation over the repeats (n - 1), as in MEDAL, Table 3, and the share of pairs
    of repeats with the same score. Empty with fewer than two scores."""
    scores = [value for value in values if value is not None]
    if len(scores) < 2:
        return {}
    pairs = [a == b for a, b in combinations(scores, 2)]
    agreement = sum(pairs) / len(pairs)
    return {"repeats_std": statistics.stdev(scores), "repeats_agreement": agreement}
