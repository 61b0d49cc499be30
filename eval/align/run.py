"""``align``: from human labels of some chats to a judge that agrees better with people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from medal_judges.config import BOXED
from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.errors import ConfigError, CoverageError
from medal_judges.eval.align.labels import choose_label_names, learnable_dimension
from medal_judges.eval.align.proof import (
    MIN_LABELS,
    Alignment,
    FitData,
    Proof,
    fit_and_cross_validate,
)
from medal_judges.eval.metaeval.alignment import rating_matrix
from medal_judges.inference.scoring import ScoreOptions, load_or_score
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.models.card.writer import write_card
from medal_judges.models.hybrid.judge import (
    HybridJudge,
    Member,
    MemberConfig,
    load_member,
)
from medal_judges.records.dimension import EQUAL, Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.stats.correlation import Floats
from medal_judges.storage.files import write_json

_REVERSED = (
    "labels fall as the judge's scores rise. If a low label is a good one, turn the labels round. "
    "If not, the aligned judge gives good chats low scores"
)
Scores = Mapping[str, Floats]  # by MEMBER:DIMENSION, [n] on [0, 1]


def align(
    judge: Judge | str | Path,
    rows: str | Iterable[LabelledDialogue],
    out: str | Path | None = None,
    *,
    dimensions: Sequence[str] = (),
    keep_anyway: bool = False,
    **options: Any,
) -> Alignment:
    """Fits the scores of ``judge`` to human labels, and measures the gain on
    held-out conversations.

    A dimension is aligned only if the fit is significantly better than two baselines: a straight
    line fitted to the judge's score, and the mean label.

    Args:
        judge: A judge, or the folder, Hub id, YAML file or shipped name of one.
        rows: Labelled dialogues or turns, or a file of them.
        out: The folder to save the aligned judge and align.json in. None saves nothing.
        dimensions: Names of labels to align with (default: all). The judge needs no dimension of
            the same name.
        keep_anyway: Whether to align every dimension, even if the fit is no better than the
            baselines.
        options: Passed to ``Judge.from_pretrained`` if ``judge`` is not yet loaded.

    Returns:
        The aligned judge (None if no dimension is aligned) with its measured errors.

    Raises:
        ConfigError: A label is of fewer than 20 chats, has one value only or is on different
            scales, or ``out`` already holds a judge.
        CoverageError: The judge scores fewer than 20 of the labelled chats.

    >>> from medal_judges import align
    >>> align("length", "labelled.jsonl", "aligned")
    Traceback (most recent call last):
        ...
    medal_judges.errors.ConfigError: 12 chats have a label of 'overall', at least 20 are needed
      Label more chats. The file has labels of: overall
    """
    folder = None if out is None else Path(out)
    if folder is not None and (folder / "judge.json").is_file():
        raise ConfigError(f"{out} already holds a judge. Type another folder")
    labelled = _read_labelled(rows)
    member = _load_as_member(judge, options)
    names = choose_label_names(labelled, dimensions)
    judge_dimensions = {scored.name: scored for scored in member.judge.dimensions}
    rated_dimensions = _learnable_dimensions(labelled, names, judge_dimensions)
    # All refusals are above: from here on a language model is asked, and paid, for each dimension.
    asked_names = list(judge_dimensions)
    if member.judge.language_models() and set(names) <= set(judge_dimensions):
        asked_names = names
    members = _add_shipped_judges(member)
    scores = score_with_judges(members, asked_names, labelled, folder)
    proofs: dict[str, Proof] = {}
    notes: list[str] = []
    for name, dimension in rated_dimensions.items():
        rated = [row.has_label(name) for row in labelled]
        fit_data = collect_fit_data(labelled, dimension, scores)
        proof = fit_and_cross_validate(fit_data)
        proofs[name] = proof
        unscored_count = sum(rated) - proof.count
        if unscored_count:
            notes.append(f"{name}: {unscored_count} of {sum(rated)} chats are unscored")
        if name in judge_dimensions and proof.is_reversed:
            notes.append(f"{name}: {_REVERSED}")
    facts: dict[str, object] = {
        "aligned": str(member.judge.signature()),
        "data": content_hash([row.to_record() for row in labelled]),
        "labels": len(labelled),
    }
    if notes:
        facts["notes"] = "; ".join(notes)
    result = Alignment(None, rated_dimensions, proofs, facts)
    result = replace(result, judge=_build_aligned_judge(result, members, keep_anyway))
    if folder is not None:
        _save(result, folder, labelled)
    return result


def _learnable_dimensions(
    rows: Sequence[LabelledDialogue],
    names: Sequence[str],
    judge_dimensions: Mapping[str, Dimension],
) -> dict[str, Dimension]:
    """Returns label name -> dimension with the scale of the human labels, for each of ``names``.

    Args:
        rows: Labelled dialogues or turns.
        judge_dimensions: Dimension name -> the judge's dimension.

    Raises:
        ConfigError: The labels are too few, all equal, or on different scales.
    """
    dimensions = {}
    for name in names:
        scored = judge_dimensions.get(name)
        dimensions[name] = learnable_dimension(rows, name, scored)
    return dimensions


def _add_shipped_judges(member: Member) -> dict[str, Member]:
    """Returns name -> judge whose scores a regression may use: ``member`` as ``judge``, and shipped
    judges such as ``length``."""
    members = {"judge": member}
    for name in (BOXED, "repetition", "length"):
        if name != BOXED or member.judge.name != BOXED:
            members[name] = load_member(name, MemberConfig(path=name))
    return members


def _load_as_member(judge: Judge | str | Path, options: Mapping[str, Any]) -> Member:
    if isinstance(judge, Judge):
        return Member("judge", judge)
    return load_member("judge", MemberConfig(path=str(judge), options=options))


def _read_labelled(rows: str | Iterable[LabelledDialogue]) -> list[LabelledDialogue]:
    """Returns the dialogues that have a label, from ``rows``: labelled
    dialogues, or a file of them."""
    if isinstance(rows, str):
        rows = load_rows(rows)
    labelled: list[LabelledDialogue] = []
    for row in rows:
        if any(map(row.has_label, row.labels)):
            labelled.append(row)
    return labelled


def score_with_judges(
    members: Mapping[str, Member],
    dimensions: Sequence[str],
    rows: Sequence[LabelledDialogue],
    folder: Path | None = None,
) -> dict[str, Floats]:
    """Scores the dialogues of ``rows`` with several judges.

    Args:
        members: Name -> judge. The judge to align has the name ``judge``.
        dimensions: Names of the dimensions on which the judge to align scores the dialogues. Every
            other judge scores only ``overall``.
        rows: Labelled dialogues or turns. Their labels are not used.
        folder: Where to store the judgements of the judge to align, so that a second run reuses
            them. None stores nothing.

    Returns:
        ``JUDGE:DIMENSION``, such as ``length:overall`` -> scores [rows] on [0, 1].
    """
    dialogues = [row.dialogue for row in rows]
    level: ScoreLevel = "dialogue"
    if rows[0].level == "turn":
        level = "last"
    scores: dict[str, Floats] = {}
    for name, member in members.items():
        names = ["overall"]
        if name == "judge":
            names = list(dimensions)
        options = ScoreOptions(dimensions=tuple(names), level=level)
        if folder is None or name != "judge":
            judgements = list(options.score(member.judge, dialogues))
        else:  # answers of a language model can cost money: a second run reads them
            file = folder / "judgements.jsonl"
            judgements = load_or_score(member.judge, dialogues, file, options)
        for dimension in names:
            units = [
                member.unit_score(judgement, dimension) for judgement in judgements
            ]
            scores[f"{name}:{dimension}"] = np.array(units, dtype=float)
    return scores


def collect_fit_data(
    rows: Sequence[LabelledDialogue], dimension: Dimension, scores: Scores
) -> FitData:
    """Returns the data for a regression: the scores and ratings of the rows that have both.

    Args:
        rows: Labelled dialogues or turns.
        dimension: The dimension of the labels, with people's scale.
        scores: ``JUDGE:DIMENSION``, such as ``judge:overall`` -> scores [rows] on [0, 1], NaN if
            unscored.

    Raises:
        CoverageError: Fewer than 20 rows have a label and all scores.
    """
    name = dimension.name
    matrix = np.column_stack(list(scores.values()))
    has_label = np.array([row.has_label(name) for row in rows])
    chosen = np.flatnonzero(has_label & np.isfinite(matrix).all(axis=1))
    if len(chosen) < MIN_LABELS:
        problem = (
            f"{has_label.sum() - len(chosen)} of {has_label.sum()} chats with a label of {name!r} "
            "have no score"
        )
        raise CoverageError(
            problem,
            hint="Score the chats with medal score and read the field failure of each line",
        )
    scored_rows = [rows[i] for i in chosen.tolist()]
    span = dimension.high - dimension.low
    ratings = (rating_matrix(scored_rows, name) - dimension.low) / span
    inputs = tuple(scores)
    targets = np.nanmean(ratings, axis=1)
    return FitData(
        inputs,
        matrix[chosen],
        ratings,
        contexts=np.array([row.group for row in scored_rows]),
        judge_column=_find_judge_column(inputs, name, matrix[chosen], targets),
        span=span,
    )


def _find_judge_column(
    inputs: Sequence[str], name: str, scores: Floats, targets: Floats
) -> int:
    """Returns the index in ``inputs`` of the judge's score to align with the label ``name``.

    The score of the same name is chosen. If there is none, ``overall`` is, and if that is missing,
    the score that correlates most with the ratings.

    Args:
        inputs: Names of scores, such as ``judge:overall``.
        scores: [rows, inputs] on [0, 1].
        targets: [rows] mean ratings on [0, 1].
    """
    for dimension in (name, "overall"):
        if f"judge:{dimension}" in inputs:
            return inputs.index(f"judge:{dimension}")
    columns = [i for i, key in enumerate(inputs) if key.startswith("judge:")]
    units = scores[:, columns] - scores[:, columns].mean(axis=0)
    sizes = np.maximum(np.linalg.norm(units, axis=0), EQUAL)
    return columns[int(np.argmax(np.abs(targets @ units) / sizes))]


def _build_aligned_judge(
    result: Alignment, members: Mapping[str, Member], keep_anyway: bool
) -> HybridJudge | None:
    """Builds the aligned judge from the regressions in ``result``. Returns None if no
    dimension is aligned.

    Args:
        members: Name -> judge whose scores the regressions use.
        keep_anyway: Whether to include dimensions whose regression is no better than the baselines.
    """
    lines = {}
    names = {"judge"}
    for name, proof in result.proofs.items():
        if proof.improves or keep_anyway:
            lines[name] = proof.line
            names.update(key.partition(":")[0] for key in proof.line.inputs)
    if not lines:
        return None
    return HybridJudge(
        {name: member for name, member in members.items() if name in names},
        lines,
        [result.dimensions[name] for name in lines],
        name=f"{members['judge'].judge.name}_aligned",
        facts=result.facts,
    )


def _save(result: Alignment, folder: Path, rows: Sequence[LabelledDialogue]) -> None:
    """Writes align.json and, if there is one, the aligned judge with its model card to ``folder``.

    Args:
        rows: The labelled rows, which the model card describes.
    """
    write_json(folder / "align.json", result.to_record())
    if result.judge is None:
        return
    result.judge.save_pretrained(folder, golden=True)
    entry = {
        "part": "train",
        "source": "labels",
        "rows": len(rows),
        "hash": result.facts["data"],
        "languages": sorted({row.dialogue.lang for row in rows}),
        "chats": " ".join(sorted({row.dialogue.text_hash for row in rows})),
    }
    write_json(folder / "data.json", [entry])
    write_card(folder)
