"""Meta-evaluation of a judge's scores in plain lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from medal_judges.errors import RecordError
from medal_judges.eval.metaeval.metaeval import evaluate
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, parse_values

_NAME = "score"


def agreement(
    predictions: Sequence[float | None],
    references: Sequence[float | Sequence[float | None]],
    systems: Sequence[str | None] | None = None,
    *,
    groups: Sequence[str] | None = None,
    scale: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Returns the correlations, by name, of a judge's ``predictions`` with human ``references``,
    each with its 95% interval, and coverage; see eval/metaeval.

    ``references``: a number for each row, or a list with one for each annotator. ``systems``: the
    chatbot of each row. ``groups``: the conversation of each row (default: each row is one). Raises
    RecordError for lists of unequal lengths and for values that are not numbers.
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
    row = evaluate(rows, judgements, _NAME).row
    return {
        **{name: asdict(figure) for name, figure in row.metrics.items()},
        "ceiling": {name: asdict(figure) for name, figure in row.ceiling.items()},
        "coverage": row.coverage,
        "n": row.n,
        "scored": row.scored,
        "clusters": row.clusters,
    }


def _values(field: str, answers: object) -> tuple[float | None, ...]:
    listed = isinstance(answers, Sequence) and not isinstance(answers, str)
    return parse_values(field, list(answers) if listed else answers)  # type: ignore[call-overload]
