"""Plain lists of scores, answers and systems into meta-evaluation, and its figures out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.eval.metaeval.metaeval import ComparedDimension, evaluate
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import parse_values
from medal_judges.stats.estimate import Estimate

_NAME = "score"


def agreement(
    predictions: Sequence[float | None],
    references: Sequence[float | Sequence[float | None]],
    systems: Sequence[str | None] | None = None,
    *,
    groups: Sequence[str] | None = None,
    scale: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Correlations of a judge's ``predictions`` with people's ``references``, by name, each with
    its 95% interval, and coverage; see eval/metaeval.

    ``references``: a number a row, or one an annotator. ``systems``: the chatbot of each row;
    ``groups``: its conversation, each row its own where None. Raises RecordError for lists of other
    lengths, and for what is no number.
    """
    total = len(predictions)
    for name, given in (("references", references), ("systems", systems), ("groups", groups)):
        if given is not None and len(given) != total:
            raise RecordError(name, f"{total} rows, as many as predictions", len(given))
    rows = [
        LabelledDialogue(
            Dialogue(str(i), (), models={"assistant": None if systems is None else systems[i]}),
            {_NAME: _values(f"references[{i}]", answers)},
            {_NAME: scale},
            group=str(i if groups is None else groups[i]),
        )
        for i, answers in enumerate(references)
    ]
    judgements = [
        Judgement(str(i), "", {_NAME: parse_values(f"predictions[{i}]", value)[0]})
        for i, value in enumerate(predictions)
    ]
    question = ComparedDimension("", _NAME)
    row = evaluate(rows, judgements, question, judge="", signature="").row
    return {
        **_told(row.metrics),
        "ceiling": _told(row.ceiling),
        "coverage": row.coverage,
        "n": row.n,
        "scored": row.scored,
        "clusters": row.clusters,
    }


def _values(field: str, answers: object) -> tuple[float | None, ...]:
    listed = isinstance(answers, Sequence) and not isinstance(answers, str)
    return parse_values(field, list(answers) if listed else answers)  # type: ignore[call-overload]


def _told(figures: Mapping[str, Estimate]) -> dict[str, dict[str, Any]]:
    return {name: asdict(estimate) for name, estimate in figures.items()}
