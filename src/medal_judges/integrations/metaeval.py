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
    systems = [None] * total if systems is None else systems
    groups = list(map(str, range(total))) if groups is None else groups
    columns = {"references": references, "systems": systems, "groups": groups}
    for name, column in columns.items():
        if len(column) != total:
            raise RecordError(name, f"{total} rows, as many as predictions", len(column))
    rows = []
    judgements = []
    for i, (prediction, answers) in enumerate(zip(predictions, references, strict=True)):
        dialogue = Dialogue(str(i), (), models={"assistant": systems[i]})
        labels = {_NAME: _values(f"references[{i}]", answers)}
        rows.append(LabelledDialogue(dialogue, labels, {_NAME: scale}, group=str(groups[i])))
        score, *_ = parse_values(f"predictions[{i}]", prediction)
        judgements.append(Judgement(str(i), "", {_NAME: score}))
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
    if isinstance(answers, Sequence) and not isinstance(answers, str):
        answers = list(answers)
    return parse_values(field, answers)
