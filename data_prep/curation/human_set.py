"""An annotated set and judgement files as a HumanSet for the simulation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from medal_judges.data_prep.curation.candidate import CLEAN, Candidate, LabelReading
from medal_judges.data_prep.curation.information import judge_table, read_views
from medal_judges.data_prep.curation.job import rows_of
from medal_judges.data_prep.curation.simulation import HumanSet
from medal_judges.errors import ConfigError
from medal_judges.jsonl import read_judgements
from medal_judges.labelled import LabelledDialogue
from medal_judges.rating import mean

Floats = npt.NDArray[np.float64]
# Shares of the levels from the lowest up, by which judges' scores become the labels of a labelling
# model: over 80% best and next to none worst, as GPT-4.1 gave them (MEDAL, appendix D.2).
_SHARES = (0.01, 0.02, 0.05, 0.12, 0.8)


def read_human_set(
    spec: str,
    judgements: Sequence[str | Path],
    reading: LabelReading,
    *,
    dimension: str = "overall",
    langs: Sequence[str] = (),
    judged_issues: bool = False,
) -> tuple[HumanSet, dict[str, int]]:
    """The rows with a human answer that every judge scored, and counts of the others by reason.

    The labels that the balanced policy goes by stand in for a labelling model's: the level of
    overall follows from the judges' mean standardised score, with the shares that such a model
    gives. There are no issues, or with ``judged_issues`` those that the first judge who knows them
    gives a chance of one half or more. Raises ConfigError for rows of several languages, since
    policies choose within one, and where no judge knows the issues asked for.
    """
    views = read_views(judgements, dimension)
    counts = {"without a human answer": 0, "not scored by every judge": 0}
    rows: list[LabelledDialogue] = []
    human: list[float] = []
    for row in rows_of(spec):
        if langs and row.dialogue.lang not in langs:
            continue
        rating = row.rating(dimension)
        answer = None if rating is None else mean(rating)
        if answer is None:
            counts["without a human answer"] += 1
        elif any(row.id not in view.scores for view in views):
            counts["not scored by every judge"] += 1
        else:
            rows.append(row)
            human.append(answer)
    _require_one_language(rows, counts)
    ids = [row.id for row in rows]
    scores = np.array([[view.scores[id] for id in ids] for view in views])
    table = judge_table(views, ids, reading.overall)
    issues = _issues(judgements, reading) if judged_issues else None
    candidates = _candidates(rows, _levels(scores, reading), issues)
    categories = reading.categories if issues else (CLEAN,)
    best = int(reading.overall.high)
    people = HumanSet(np.array(human), scores, table, candidates, categories, best)
    return people, counts


def _require_one_language(rows: Sequence[LabelledDialogue], counts: Mapping[str, int]) -> None:
    if not rows:
        reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        raise ConfigError(f"no annotated and judged dialogue to simulate on: {reasons}")
    langs = sorted({row.dialogue.lang for row in rows})
    if len(langs) > 1:
        raise ConfigError(
            f"the set holds {', '.join(langs)}; a selection is made within one language",
            hint=f"--lang {langs[0]}",
        )


def _levels(scores: Floats, reading: LabelReading) -> npt.NDArray[np.int64]:
    """Levels of the scale, shape (rows,), by rank of the judges' mean score."""
    spread = scores.std(axis=1, keepdims=True)
    units = (scores - scores.mean(axis=1, keepdims=True)) / np.where(spread > 0, spread, 1.0)
    average = units.mean(axis=0)
    ends = np.quantile(average, np.cumsum(_SHARES)[:-1])
    found: npt.NDArray[np.int64] = np.searchsorted(ends, average, side="right").astype(np.int64)
    return found + int(reading.overall.high) - len(_SHARES) + 1


def _issues(judgements: Sequence[str | Path], reading: LabelReading) -> dict[str, tuple[str, ...]]:
    """Issues by id, of the first judge that scores all of them. Raises ConfigError."""
    for path in judgements:
        found: dict[str, tuple[str, ...]] = {}
        for judgement in read_judgements(path):
            if not set(reading.issues) <= judgement.scores.keys():
                break
            scores = {name: judgement.scores[name] for name in reading.issues}
            found[judgement.id] = tuple(n for n, s in scores.items() if s is not None and s >= 0.5)
        else:
            return found
    raise ConfigError("no judge scores all issues of the rubric, so none can label by them")


def _candidates(
    rows: Sequence[LabelledDialogue],
    levels: npt.NDArray[np.int64],
    issues: Mapping[str, tuple[str, ...]] | None,
) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(
            id=row.id,
            lang=row.dialogue.lang,
            group=row.group,
            user=row.dialogue.models.get("user") or "",
            chatbot=row.dialogue.chatbot or "",
            categories=(issues or {}).get(row.id) or (CLEAN,),
            level=int(level),
        )
        for row, level in zip(rows, levels, strict=True)
    )
