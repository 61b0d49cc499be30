"""The ratings that a model may give, their probabilities, and the judgement made from them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from statistics import fmean
from typing import Any

import numpy as np

from medal_judges.models.base.judge import DimensionScore, as_judgement
from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.answers import (
    Answer,
    AnswerField,
    AnswerShape,
    Scale,
    read_answers,
    snippet,
)
from medal_judges.models.prompted.builder import PromptBuilder
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement, make_details
from medal_judges.records.labelled import rescale

SHAPE = AnswerShape(format="number", line="any")
MOST_LEVELS = 11  # more whole numbers than this are not one token each


@dataclass(frozen=True)
class Ratings:
    """The ratings that a model may write for one dimension, in ascending order.

    Attributes:
        texts: How the model writes each rating, such as ``("1", "2", "3")``.
        values: The score of each rating on the dimension's scale.
    """

    texts: tuple[str, ...]
    values: tuple[float, ...]

    @classmethod
    def of_dimension(cls, dimension: Dimension, points: int) -> Ratings:
        """Returns the ratings to choose from on ``dimension``: the whole numbers on its scale, such
        as 1 to 5.

        In three cases the ratings are instead 1 to ``points``, with values evenly spaced over the
        scale: the scale has more than eleven whole numbers, it has a negative or fractional end, or
        it is a continuous [0, 1].
        """
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
    def of_scale(cls, dimension: Dimension, scale: Scale) -> Ratings:
        """Returns the whole numbers on ``scale`` as ratings. Their values are mapped to the scale
        of ``dimension``.

        If ``scale`` has more than eleven whole numbers, or fewer than two, the ratings are eleven
        evenly spaced numbers. They are 0, 10, ... 100 for (0, 100).

        Args:
            dimension: The dimension that is rated.
            scale: The (lowest, highest) score that the prompt asks for.
        """
        low, high = math.ceil(scale[0]), math.floor(scale[1])
        steps = min(high - low, MOST_LEVELS - 1)
        if steps < 1:
            numbers = np.linspace(*scale, MOST_LEVELS)
        else:
            numbers = np.linspace(low, high, steps + 1).round() + 0.0  # no -0
        target = (dimension.low, dimension.high)
        values = tuple(rescale(number, scale, target) for number in numbers.tolist())
        return cls(tuple(f"{number:.9g}" for number in numbers), values)

    @cached_property
    def any_is_prefix(self) -> bool:
        """Whether the text of one rating begins the text of another, as 1 begins 10."""
        # A text and a longer one that it begins are neighbours in alphabetical order.
        neighbours = pairwise(sorted(self.texts))
        return any(longer.startswith(text) for text, longer in neighbours)

    def read(self, completion: Completion) -> Answer:
        """Reads the rating that a model wrote, on a line by itself or after ``Rating:``.

        Args:
            completion: The model's answer.

        Returns:
            An Answer with the rating as its ``value``. If there is no rating, ``value`` is None and
            ``reason`` says why.
        """
        scale = (float(self.texts[0]), float(self.texts[-1]))
        binary = self.texts == ("0", "1")
        field = AnswerField("rating", "rating", "rating", scale, binary)
        answer = read_answers(completion, [field], SHAPE)["rating"]
        if answer.value is None or f"{answer.value:g}" in self.texts:
            return answer
        why = f"{answer.value:g} is none of the ratings in {snippet(completion.text)}"
        return Answer(reason=why)

    def mean_and_deviation(self, chances: Sequence[float]) -> tuple[float, float]:
        """Returns (mean, standard deviation) of the score, computed from the probabilities of the
        ratings.

        Args:
            chances: The probability of each of ``values``, in the same order.
        """
        mean = variance = 0.0
        for chance, rating in zip(chances, self.values, strict=True):
            mean += chance * rating
        for chance, rating in zip(chances, self.values, strict=True):
            variance += chance * (rating - mean) ** 2
        # Rounding must not leave the scale.
        return min(max(mean, self.values[0]), self.values[-1]), math.sqrt(variance)


# -- distributions ---------------------------------------------------------------------------------


def with_rating_probabilities(answer: Answer, logprobs: Sequence[float]) -> Answer:
    """Returns a copy of ``answer`` with the probabilities of the ratings.

    ``chances`` of the copy has the probability of each rating, made to add up to 1. ``mass`` has
    their sum before that.

    Args:
        logprobs: The log-probability of the text of each rating, lowest rating first.
    """
    top = max(logprobs)
    weights = [math.exp(value - top) for value in logprobs]
    total = sum(weights)
    chances = tuple(w / total for w in weights)
    return replace(answer, chances=chances, mass=total * math.exp(top))


def with_reported_probabilities(
    completion: Completion, answer: Answer, ratings: Ratings
) -> Answer:
    """Returns a copy of ``answer`` with the probability of each rating in ``chances``. They come
    from the log-probabilities that a server reports.

    Returns ``answer`` unchanged if the server reports no alternatives to the token of the score, or
    if one rating begins another, as 1 begins 10.

    Args:
        completion: The model's answer, with the alternatives to each token.
        answer: The score read from ``completion``.
        ratings: The ratings that the model may give.
    """
    if answer.span is None or ratings.any_is_prefix or not completion.tokens:
        return answer
    start, end = answer.span
    written, before = "", 0
    for token in completion.tokens:
        before = start - len(written)
        written += token.text
        if len(written) > start:
            break
    # Without alternatives the token would pass for certain.
    if written != completion.text[:end] or not token.alternatives:
        return answer
    mark = token.text[:before].strip()
    masses = {}
    for rating in ratings.texts:
        masses[mark + rating] = 0.0
    for text, logprob in {**token.alternatives, token.text: token.logprob}.items():
        if text.strip() in masses:
            masses[text.strip()] += math.exp(logprob)
    total = sum(masses.values())
    if total <= 0:
        return answer
    chances = []
    for mass in masses.values():
        chances.append(mass / total)
    return replace(answer, chances=tuple(chances), mass=min(1.0, total))


def average_answers(repeats: Sequence[Answer]) -> Answer:
    """Returns the mean of several answers to one question: an Answer with their mean score and
    their mean rating probabilities.

    Args:
        repeats: The answers, at least one. An answer without a score, or without probabilities,
            does not count in that mean. The comment is taken from the first answer that has a
            score.
    """
    values = [answer.value for answer in repeats]
    numbers = [value for value in values if value is not None]
    answer = repeats[0]
    if numbers:
        answer = next(repeat for repeat in repeats if repeat.value is not None)
        answer = replace(answer, value=fmean(numbers))
    weighed = [repeat for repeat in repeats if repeat.chances is not None]
    if weighed:
        distributions: Any = [repeat.chances for repeat in weighed]
        chances = tuple(np.mean(distributions, axis=0).tolist())
        mass = fmean(repeat.mass for repeat in weighed)
        answer = replace(answer, chances=chances, mass=mass)
    return replace(answer, repeats=tuple(values))


# -- from answers to a judgement -------------------------------------------------------------------


def to_judgement(
    answers: Mapping[str, Answer],
    dimensions: Iterable[Dimension],
    builder: PromptBuilder,
    ratings: Mapping[str, Ratings],
    *,
    expected: bool,
) -> Judgement:
    """Returns the judgement of one dialogue, built from the model's answers.

    Args:
        answers: Dimension -> the model's answer, for all ``dimensions``.
        dimensions: The dimensions to score.
        builder: The builder of the prompts, which maps scores to the dimensions' scales.
        ratings: Dimension -> its possible ratings.
        expected: What the score is. True: the expected rating, which is the mean weighted by the
            probability of each rating. False: the number in the answer.
    """
    results: dict[str, DimensionScore] = {}
    names_by_reason: dict[str, list[str]] = {}
    comments: list[str] = []
    for dimension in dimensions:
        name, answer = dimension.name, answers[dimension.name]
        value = builder.to_dimension_scale(answer.value, dimension)
        details: dict[str, Any] = {
            "value": value,
            "comment": answer.comment,
            "parsed": answer.step,
            "repeats": [],
        }
        for repeat in answer.repeats:
            details["repeats"].append(builder.to_dimension_scale(repeat, dimension))
        chances = answer.chances or ()
        if chances:
            details["expected"], details["spread"] = ratings[name].mean_and_deviation(
                chances
            )
            details["mass"] = answer.mass
        if expected:
            value = details.get("expected")
        if value is None:
            reason = answer.reason or "no probabilities of the ratings"
            names_by_reason.setdefault(reason, []).append(name)
        if answer.comment:
            comments.append(f"{name}: {answer.comment}")
        # The distribution of other ratings than the dimension's levels is in the details alone.
        if ratings[name].values != dimension.levels:
            chances = ()
        results[name] = DimensionScore(value, chances, make_details(**details))
    failures = []
    for reason, names in names_by_reason.items():
        failures.append(f"{', '.join(names)}: {reason}")
    return as_judgement(
        results,
        explanation="\n".join(comments) or None,
        failure="; ".join(failures) or None,
    )
