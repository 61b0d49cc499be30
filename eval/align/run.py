"""``align``: people's labels of some chats in, a judge that agrees better with them out, with the
proof that it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from medal_judges.config import BOXED, DEVICE, Config, option
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import ConfigError, CoverageError
from medal_judges.eval.align import proof
from medal_judges.eval.align.labels import held_out_groups, label_names, rated_dimension
from medal_judges.eval.align.page import align_page
from medal_judges.eval.align.proof import (
    MIN_LABELS,
    Alignment,
    Fit,
    Material,
    Measure,
    Proof,
)
from medal_judges.eval.metaeval.alignment import answer_matrix
from medal_judges.inference.scoring import ScoreOptions, judge_once
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.models.card.writer import write_card
from medal_judges.models.hybrid.judge import (
    HybridJudge,
    Member,
    MemberConfig,
    open_member,
)
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.heads import FittedHead
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.reading.dialogues import DEFAULT_READING, ReadOptions
from medal_judges.records.dimension import EQUAL, Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.stats.correlation import Floats
from medal_judges.storage.files import write_json

_REVERSED = (
    "labels fall as the judge's scores rise; if a low label is a good one, turn the labels round, "
    "or the aligned judge gives good chats low scores"
)


class AlignOptions(Config):
    """Options of ``medal align``."""

    judge: str = option(
        argument=True, help="Shipped name (medal judges), YAML file, folder or hub id."
    )
    settings: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="FIELD=VALUE",
        help="Change a setting of the judge's YAML file.",
    )
    labels: str = option(help="Chats with people's labels, 20 or more: file or spec.")
    out: Path = option(help="Folder to write: the aligned judge with its proof.")
    max_cost: float | None = option(
        None,
        ge=0,
        help="US dollars; stops before it spends more.",
    )
    keep_anyway: bool = option(
        False, help="Write the judge even if the gain may be chance."
    )
    as_json: bool = option(False, flag="--json", help="Print the proof as JSON.")
    device: str | None = DEVICE
    reading: ReadOptions = DEFAULT_READING


def align(
    judge: Judge | str | Path,
    rows: str | Iterable[LabelledDialogue],
    out: str | Path | None = None,
    *,
    dimensions: Sequence[str] = (),
    keep_anyway: bool = False,
    **options: Any,
) -> Alignment:
    """Fits ``judge`` to people's labels of ``rows`` (or of a file), and measures it on labels that
    it has not seen.

    Tries a linear and an isotonic map, a ridge over the judge's scores, length, repetition and
    sentence vectors, and a stack with ``boxed``; nested cross-validation chooses and measures. A
    dimension is aligned if its error falls beyond chance below that of the judge after a line, and
    of the mean label; or with ``keep_anyway``. The error of 0/1 labels is their log loss.

    ``dimensions`` are the labels to use (default: all); one that the judge does not score is learnt
    from its other scores. ``options`` go to ``Judge.from_pretrained``. The judge is saved in the
    folder ``out``, with a page. Raises ConfigError for labels that teach nothing, before the judge
    is asked.

    >>> from medal_judges import align
    >>> align("length", "labelled.jsonl", "aligned")
    Traceback (most recent call last):
        ...
    medal_judges.errors.ConfigError: 12 chats have a label of 'overall', at least 20 are needed
      label more chats; labels in the file: overall
    """
    folder = _new_folder(out)
    labelled = _labelled(rows)
    if isinstance(judge, Judge):
        member = Member("judge", judge)
    else:
        member = open_member("judge", MemberConfig(path=str(judge), options=options))
    names = label_names(labelled, dimensions)
    judge_dimensions = {
        dimension.name: dimension for dimension in member.judge.dimensions
    }
    rated_dimensions: dict[str, Dimension] = {}
    for name in names:
        rated_dimensions[name] = rated_dimension(
            labelled, name, judge_dimensions.get(name)
        )
    # All refusals are above: from here on a language model is asked, and paid, for each dimension.
    asked_names = list(judge_dimensions)
    if member.judge.language_models() and set(names) <= set(judge_dimensions):
        asked_names = names
    inputs = read_inputs(member, asked_names, labelled, folder)
    proofs: dict[str, Proof] = {}
    rows_of_proofs: dict[str, Sequence[LabelledDialogue]] = {}
    notes: list[str] = []
    for name, dimension in rated_dimensions.items():
        proved = _prove(dimension, labelled, inputs)
        proofs[name], rows_of_proofs[name] = proved.proof, proved.rows
        notes += proved.notes
    facts: dict[str, object] = {
        "aligned": str(member.judge.signature()),
        "data": content_hash([row.to_record() for row in labelled]),
        "labels": len(labelled),
    }
    if notes:
        facts["notes"] = "; ".join(notes)
    result = Alignment(None, rated_dimensions, proofs, rows_of_proofs, facts)
    result = replace(
        result, judge=_aligned_judge(result, inputs, keep_anyway=keep_anyway)
    )
    if folder is not None:
        _write_folder(result, folder, labelled)
    return result


def _labelled(rows: str | Iterable[LabelledDialogue]) -> list[LabelledDialogue]:
    """Returns the rows with a label; a text names a file of rows."""
    if isinstance(rows, str):
        rows = load_spec(rows)
    labelled: list[LabelledDialogue] = []
    for row in rows:
        if any(map(row.has_label, row.labels)):
            labelled.append(row)
    return labelled


@dataclass(frozen=True, slots=True)
class _Proved:
    """The proof of one dimension, with the ``rows`` that it is measured on."""

    proof: Proof
    rows: list[LabelledDialogue]
    notes: list[str]


def _prove(
    dimension: Dimension,
    labelled: Sequence[LabelledDialogue],
    inputs: Inputs,
) -> _Proved:
    """Fits and measures all ways of one dimension."""
    name, member = dimension.name, inputs.members["judge"]
    judge_has_dimension = name in [scored.name for scored in member.judge.dimensions]
    indices = _scored_rows(labelled, name, inputs.scores)
    rows = [labelled[i] for i in indices]
    material, people = _material(rows, dimension, inputs.of_rows(indices))
    dimension_proof = proof.prove([material] * (proof.FOLDS + 1), people)
    notes = _notes(name, dimension_proof, len(rows), judge_has_dimension)
    scored_rows = [rows[i] for i in dimension_proof.scored]
    return _Proved(dimension_proof, scored_rows, notes)


def _notes(
    name: str, dimension_proof: Proof, rated_count: int, judge_has_dimension: bool
) -> list[str]:
    """Returns what a user should check about the labels ``name``."""
    notes: list[str] = []
    unscored_count = rated_count - len(dimension_proof.scored)
    if unscored_count:
        notes.append(
            f"{name}: no line counts {unscored_count} of {rated_count} chats, which the aligned "
            "judge leaves unscored"
        )
    if judge_has_dimension and dimension_proof.is_reversed:
        notes.append(f"{name}: {_REVERSED}")
    return notes


def _new_folder(out: str | Path | None) -> Path | None:
    if out is None:
        return None
    if (Path(out) / "judge.json").is_file():
        raise ConfigError(f"{out} holds a judge already", hint="give another folder")
    return Path(out)


# -- what the ways learn from ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Inputs:
    """What is known of each labelled row before its labels are used.

    ``scores`` [n, inputs] on [0, 1] are those of the ``members``, by ``names`` (MEMBER:DIMENSION);
    ``vectors`` [n, W] are sentence vectors, read by ``vector_judge``, a judge without heads.
    """

    members: dict[str, Member]
    names: tuple[str, ...]
    scores: Floats
    vector_judge: LinearJudge
    vectors: Floats

    def of_rows(self, indices: Sequence[int]) -> Inputs:
        return replace(self, scores=self.scores[indices], vectors=self.vectors[indices])


def read_inputs(
    member: Member,
    dimensions: Sequence[str],
    rows: Sequence[LabelledDialogue],
    folder: Path | None = None,
) -> Inputs:
    """Asks the judge for ``dimensions``, and the packaged judges. With a ``folder`` the judge's
    judgements are stored there."""
    asked_dimensions = {"judge": list(dimensions)}
    members = {"judge": member}
    for name in (BOXED, "repetition", "length"):
        if name != BOXED or member.judge.name != BOXED:
            members[name] = open_member(name, MemberConfig(path=name))
            asked_dimensions[name] = ["overall"]
    dialogues = [row.dialogue for row in rows]
    level: ScoreLevel = "dialogue"
    if rows[0].level == "turn":
        level = "last"
    names: list[str] = []
    columns: list[Floats] = []
    for name, scorer in members.items():
        options = ScoreOptions(dimensions=tuple(asked_dimensions[name]), level=level)
        if folder is None or name != "judge":
            judgements = list(options.score(scorer.judge, dialogues))
        else:  # answers of a language model can cost money: a second run reads them
            file = folder / "judgements.jsonl"
            judgements = judge_once(scorer.judge, dialogues, file, options)
        for dimension_name in asked_dimensions[name]:
            dimension = scorer.judge.dimension(dimension_name)
            scores = np.array(
                [j.scores[dimension_name] for j in judgements], dtype=float
            )
            columns.append((scores - dimension.low) / (dimension.high - dimension.low))
            names.append(f"{name}:{dimension_name}")
    vector_judge = LinearJudge.create(LinearConfig(features=()), [])
    reader = vector_judge.reader
    readings = reader.read(dialogues, vector_judge.token_budget)
    vectors = np.stack(
        [reader.pool(reading, reader.rows(reading)) for reading in readings]
    )
    return Inputs(
        members, tuple(names), np.column_stack(columns), vector_judge, vectors
    )


def _scored_rows(
    rows: Sequence[LabelledDialogue], name: str, scores: Floats
) -> list[int]:
    """Returns the indices of the rows with a label of ``name`` and all ``scores`` [n, inputs].
    Raises CoverageError if too few have scores."""
    rated = [i for i, row in enumerate(rows) if row.has_label(name)]
    scored = [i for i in rated if np.isfinite(scores[i]).all()]
    if len(scored) < MIN_LABELS:
        unscored_count = len(rated) - len(scored)
        problem = f"{unscored_count} of {len(rated)} chats with a label of {name!r} have no score"
        raise CoverageError(problem, hint="medal score shows why, in the field failure")
    return scored


def _material(
    rows: Sequence[LabelledDialogue], dimension: Dimension, inputs: Inputs
) -> tuple[Material, Floats]:
    """Returns what ways learn from, and people's answers [n, annotators] on [0, 1]."""
    span = dimension.high - dimension.low
    people = (answer_matrix(rows, dimension.name) - dimension.low) / span
    targets = np.nanmean(people, axis=1)
    measure = Measure.DISTANCE
    if np.isin(people[np.isfinite(people)], (0, 1)).all():
        measure = Measure.LOG_LOSS
    material = Material(
        inputs.names,
        inputs.scores,
        inputs.vectors,
        targets,
        groups=held_out_groups(rows),
        contexts=np.array([row.group for row in rows]),
        judge_column=judge_column(inputs.names, dimension.name, inputs.scores, targets),
        span=span,
        measure=measure,
    )
    return material, people


def judge_column(
    inputs: Sequence[str], name: str, scores: Floats, targets: Floats
) -> int:
    """Returns the column of the judge's score that labels of ``name`` are about: its dimension of
    that name, else its ``overall``, else the one that correlates most with the labels."""
    for dimension in (name, "overall"):
        if f"judge:{dimension}" in inputs:
            return inputs.index(f"judge:{dimension}")
    columns = [i for i, key in enumerate(inputs) if key.startswith("judge:")]
    units = scores[:, columns] - scores[:, columns].mean(axis=0)
    sizes = np.maximum(np.linalg.norm(units, axis=0), EQUAL)
    return columns[int(np.argmax(np.abs(targets @ units) / sizes))]


# -- the aligned judge and its folder --------------------------------------------------------------


def _aligned_judge(
    result: Alignment, inputs: Inputs, *, keep_anyway: bool
) -> HybridJudge | None:
    """Returns the judge of the dimensions with a gain beyond chance, or of all, with the members
    that they use; None if there is no dimension."""
    fits: dict[str, Fit] = {}
    for name, dimension_proof in result.proofs.items():
        if dimension_proof.kept or keep_anyway:
            fits[name] = dimension_proof.fit
    if not fits:
        return None
    dimensions = result.dimensions
    heads: dict[str, FittedHead] = {}
    for name, fit in fits.items():
        if fit.net is not None:
            mean, weights = fit.net
            slopes = weights / proof.REACH
            user, assistant = (mean * slopes).reshape(2, -1).sum(axis=1).tolist()
            intercept = 0.5 - user - assistant
            heads[name] = FittedHead.line("ridge", slopes, intercept, (user, assistant))
    vector_judge = LinearJudge(
        inputs.vector_judge.config,
        [dimensions[name] for name in heads],
        encoder=inputs.vector_judge.reader.encoder,
        heads=heads,
    )
    vectors = proof.VECTORS.removesuffix(":")
    members = inputs.members | {vectors: Member(vectors, vector_judge)}
    lines = {name: fit.line for name, fit in fits.items()}
    used_members = {"judge"}
    for fitted_line in lines.values():
        used_members.update(key.partition(":")[0] for key in fitted_line.inputs)
    return HybridJudge(
        {name: member for name, member in members.items() if name in used_members},
        lines,
        [dimensions[name] for name in fits],
        name=f"{members['judge'].judge.name}_aligned",
        facts=result.facts,
    )


def _write_folder(
    result: Alignment, folder: Path, rows: Sequence[LabelledDialogue]
) -> None:
    """Writes the proof with its page and, if there is one, the judge with its card."""
    align_page(result).write(folder)
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
