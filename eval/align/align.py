"""``align``: people's labels of some chats in, a judge that agrees better with them out, with the
proof that it does."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

from medal_judges.config import BOXED, Config, option
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import ConfigError, CoverageError
from medal_judges.eval.align import proof
from medal_judges.eval.align.page import write_align_page
from medal_judges.eval.align.prompts import fit_prompts
from medal_judges.eval.align.proof import MIN_LABELS, Alignment, Fit, Material, Measure, Proof
from medal_judges.eval.metaeval.alignment import answer_matrix
from medal_judges.inference.scoring import ScoreOptions, judge_once
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.models.hybrid.judge import HybridJudge, Stack
from medal_judges.models.hybrid.members import Member, MemberConfig, open_member
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.heads import FittedHead
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.reading.dialogues import DEFAULT_READING, ReadOptions
from medal_judges.records.dimension import EQUAL, Dimension, Kind
from medal_judges.records.labelled import LabelledDialogue, Scale
from medal_judges.records.signature import content_hash
from medal_judges.stats.correlation import Floats
from medal_judges.storage.files import atomic_write
from medal_judges.training.card.card import write_card

RECORD_NAME = "align.json"
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
        (), argument=True, metavar="FIELD=VALUE", help="Change a setting of the judge's YAML file."
    )
    labels: str = option(help="Chats with people's labels, 20 or more: file or spec.")
    out: Path = option(help="Folder to write: the aligned judge with its proof.")
    max_cost: float | None = option(
        None, ge=0, help="US dollars; stops before it spends more. Also tries changed prompts."
    )
    max_calls: int | None = option(
        None, ge=0, help="Also try changed prompts, on at most so many dialogues in all."
    )
    reflect_with: str | None = option(
        None, help="Language model that rewrites the prompt (default: the judge's)."
    )
    keep_anyway: bool = option(False, help="Write the judge even if the gain may be chance.")
    as_json: bool = option(False, flag="--json", help="Print the proof as JSON.")
    device: str | None = option(None, help="cpu, cuda, cuda:1, ...")
    reading: ReadOptions = DEFAULT_READING


def align(
    judge: Judge | str | Path,
    rows: str | Iterable[LabelledDialogue],
    out: str | Path | None = None,
    *,
    dimensions: Sequence[str] = (),
    keep_anyway: bool = False,
    max_calls: int | None = None,
    max_cost: float | None = None,
    reflect_with: str | None = None,
    **options: Any,
) -> Alignment:
    """Fits ``judge`` to people's labels of ``rows`` (or of a file), and measures it on labels that
    it has not seen.

    Tries a linear and an isotonic map, a ridge over the judge's scores, length, repetition and
    sentence vectors, and a stack with ``boxed``; nested cross-validation chooses and measures. A
    dimension is aligned if its error falls beyond chance below that of the judge after a line, and
    of the mean label; or with ``keep_anyway``. The error of 0/1 labels is their log loss.

    ``dimensions`` are the labels to use (default: all); one that the judge does not score is learnt
    from its other scores. With ``max_calls`` or ``max_cost`` a prompted judge also tries few-shot
    examples, and instructions rewritten by gepa, which reflects with the judge's language model or
    ``reflect_with``: on at most ``max_calls`` dialogues, for at most ``max_cost`` US dollars.
    ``options`` go to ``Judge.from_pretrained``. The judge is saved in the folder ``out``, with a
    page. Raises ConfigError for labels that teach nothing, before the judge is asked.

    >>> from medal_judges import align
    >>> align("length", "labelled.jsonl", "aligned")
    Traceback (most recent call last):
        ...
    medal_judges.errors.ConfigError: 12 chats have a label of 'overall', at least 20 are needed
      label more chats; labels in the file: overall
    """
    folder = None if out is None else Path(out)
    if folder is not None and (folder / "judge.json").is_file():
        raise ConfigError(f"{folder} holds a judge already", hint="give another folder")
    rows = load_spec(rows) if isinstance(rows, str) else rows
    labelled = [row for row in rows if any(map(row.has_label, row.labels))]
    member = Member("judge", judge, {}) if isinstance(judge, Judge) else None
    member = member or open_member("judge", MemberConfig(path=str(judge), options=options))
    is_prompted = (member.settings or {}).get("family") == "prompted"
    if not is_prompted and (max_calls is not None or reflect_with is not None):
        option_of_prompts = "--max-calls" if reflect_with is None else "--reflect-with"
        raise ConfigError(f"{option_of_prompts} is for prompted judges: it changes their prompts")
    judged = {d.name: d for d in member.judge.dimensions}
    names = list(dimensions) or sorted({name for row in labelled for name in row.labels})
    if not names or len({row.level for row in labelled}) > 1:
        problem = "labels of dialogues and of turns" if names else "no chat has a label"
        hint = "give one kind; --label COLUMN=DIMENSION:1..5 names a column of labels"
        raise ConfigError(problem, hint=hint)
    rated_dimensions = {name: _rated(labelled, name, judged.get(name)) for name in names}
    # A language model is asked, and paid, for each dimension.
    paid = member.judge.language_models() and set(names) <= set(judged)
    asked = names if paid else list(judged)
    members, inputs, table, reader, vectors = read_inputs(member, asked, labelled, folder)
    proofs, used, notes = dict[str, Proof](), dict[str, list[LabelledDialogue]](), list[str]()
    limits = max_calls, max_cost, reflect_with
    for name, dimension in rated_dimensions.items():
        chosen = _scored_rows(labelled, name, table)
        learnt = [labelled[i] for i in chosen]
        material, people = _material(learnt, dimension, inputs, table[chosen], vectors[chosen])
        materials = [material] * (proof.FOLDS + 1)
        if is_prompted and name in judged and limits != (None, None, None):
            place = (folder or Path(mkdtemp())) / "prompts" / name
            fitted = fit_prompts(member, dimension, learnt, material, place, *limits)
            materials, changed, notes_on_prompts = fitted
            members |= {prompted.name: prompted for prompted in changed}
            notes += notes_on_prompts
        proofs[name] = proof.prove(materials, people, curve=folder is not None)
        used[name] = [learnt[i] for i in proofs[name].scored]
        if lost := len(learnt) - len(used[name]):
            lines = f"no line counts {lost} of {len(learnt)} chats"
            notes.append(f"{name}: {lines}, which the aligned judge leaves unscored")
        if name in judged and proofs[name].is_reversed:
            notes.append(f"{name}: {_REVERSED}")
    data = content_hash([row.to_record() for row in labelled])
    facts = {"aligned": str(member.judge.signature()), "data": data, "labels": len(labelled)}
    facts |= {"notes": "; ".join(notes)} if notes else {}
    result = Alignment(None, rated_dimensions, proofs, used, facts)
    kept = {name: shown for name, shown in proofs.items() if shown.kept or keep_anyway}
    if kept:
        fits = {name: shown.fit for name, shown in kept.items()}
        result = replace(result, judge=_judge(result, fits, members, reader))
    if folder is not None:
        _write_folder(result, folder, labelled)
    return result


def _scored_rows(rows: Sequence[LabelledDialogue], name: str, table: Floats) -> list[int]:
    """Returns the rows with a label of ``name`` and all scores of the ``table`` [n, inputs]. Raises
    CoverageError if too few have scores."""
    rated = [i for i, row in enumerate(rows) if row.has_label(name)]
    scored = [i for i in rated if np.isfinite(table[i]).all()]
    if len(scored) < MIN_LABELS:
        lost = len(rated) - len(scored)
        problem = f"{lost} of {len(rated)} chats with a label of {name!r} have no score"
        raise CoverageError(problem, hint="medal score shows why, in the field failure")
    return scored


def _material(
    rows: Sequence[LabelledDialogue],
    dimension: Dimension,
    inputs: tuple[str, ...],
    scores: Floats,
    vectors: Floats,
) -> tuple[Material, Floats]:
    """Returns what ways learn from, and people's answers [n, annotators] on [0, 1]."""
    span = dimension.high - dimension.low
    people = (answer_matrix(rows, dimension.name) - dimension.low) / span
    targets = np.nanmean(people, axis=1)
    are_flags = np.isin(people[np.isfinite(people)], (0, 1)).all()
    material = Material(
        inputs,
        scores,
        vectors,
        targets,
        held_together(rows),
        np.array([row.group for row in rows]),
        judge_column(inputs, dimension.name, scores, targets),
        span,
        Measure.LOG_LOSS if are_flags else Measure.DISTANCE,
    )
    return material, people


def _write_folder(result: Alignment, folder: Path, rows: Sequence[LabelledDialogue]) -> None:
    """Writes the proof with its page and, if there is one, the judge with its card."""
    _write(folder / RECORD_NAME, result.record())
    write_align_page(result, folder)
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
    _write(folder / "data.json", [entry])
    write_card(folder)


def _judge(
    result: Alignment, fits: Mapping[str, Fit], members: dict[str, Member], reader: LinearJudge
) -> HybridJudge:
    """Returns the judge of the dimensions in ``fits``."""
    heads, dimensions, vectors = {}, result.dimensions, proof.VECTORS[:-1]
    for name, fit in fits.items():
        if fit.net:
            mean, weights = fit.net
            slopes = weights / proof.REACH
            user, assistant = (mean * slopes).reshape(2, -1).sum(axis=1).tolist()
            averages = (user, assistant)
            heads[name] = FittedHead.line("ridge", slopes, 0.5 - user - assistant, averages)
    read = [dimensions[name] for name in heads]
    learnt = LinearJudge(reader.config, read, encoder=reader.reader.encoder, heads=heads)
    members = members | {vectors: Member(vectors, learnt, {})}
    stack = Stack({name: fit.blend for name, fit in fits.items()})
    needed = {"judge", *(m for n in fits for m, _ in stack.asked(n, members).values())}
    return HybridJudge(
        {name: one for name, one in members.items() if name in needed},
        stack,
        [dimensions[name] for name in fits],
        name=f"{members['judge'].judge.name}_aligned",
        facts=result.facts,
    )


def read_inputs(
    member: Member, own: Sequence[str], rows: Sequence[LabelledDialogue], folder: Path | None = None
) -> tuple[dict[str, Member], tuple[str, ...], Floats, LinearJudge, Floats]:
    """Asks the judge for its dimensions ``own``, and the shipped judges. Returns them, the inputs
    with their scores [n, inputs], and the reader of sentence vectors with the vectors [n, W]: see
    Material."""
    members, columns = {"judge": member}, list[Floats]()
    for name in (*([BOXED] if member.judge.name != BOXED else []), "repetition", "length"):
        members[name] = open_member(name, MemberConfig(path=name))
    asked = {name: own if name == "judge" else ["overall"] for name in members}
    dialogues = [row.dialogue for row in rows]
    for name, one in members.items():
        level: ScoreLevel = "last" if rows[0].level == "turn" else "dialogue"
        how = ScoreOptions(dimensions=tuple(asked[name]), level=level)
        if folder is None or name != "judge":
            judged = list(how.score(one.judge, dialogues))
        else:  # answers of a language model can cost money: a second run reads them
            data = content_hash([d.to_record() for d in dialogues])
            file = folder / "judgements.jsonl"
            judged = judge_once(one.judge, dialogues, file, how, data=data)
        for each in map(one.judge.dimension, asked[name]):
            found = [np.nan if (v := j.scores[each.name]) is None else v for j in judged]
            columns.append((np.array(found, float) - each.low) / (each.high - each.low))
    judge = LinearJudge.create(LinearConfig(features=()), [])
    reader = judge.reader
    readings = reader.read(dialogues, judge.token_budget)
    vectors = np.stack([reader.pool(reading, reader.rows(reading)) for reading in readings])
    inputs = tuple(f"{name}:{one}" for name, some in asked.items() for one in some)
    return members, inputs, np.column_stack(columns), judge, vectors


def judge_column(inputs: Sequence[str], name: str, scores: Floats, targets: Floats) -> int:
    """Returns the column of the judge's score that labels of ``name`` are about: its dimension of
    that name, else its ``overall``, else the one that correlates most with the labels."""
    for dimension in (name, "overall"):
        if f"judge:{dimension}" in inputs:
            return inputs.index(f"judge:{dimension}")
    columns = [i for i, key in enumerate(inputs) if key.startswith("judge:")]
    units = scores[:, columns] - scores[:, columns].mean(axis=0)
    sizes = np.maximum(np.linalg.norm(units, axis=0), EQUAL)
    return columns[int(np.argmax(np.abs(targets @ units) / sizes))]


def _write(path: Path, record: object) -> None:
    atomic_write(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def held_together(rows: Sequence[LabelledDialogue]) -> Any:
    """Returns the group [n] of each row: its chatbot if all rows name one, there are five, and none
    answers a context of another; else its context. Raises ConfigError with fewer than 5 groups."""
    groups, bots = [row.group for row in rows], [str(row.dialogue.chatbot) for row in rows]
    crossing = len(set(zip(groups, bots, strict=True))) > len(set(groups))
    if len({*bots} - {"None"}) >= proof.FOLDS and "None" not in bots and not crossing:
        groups = bots
    if (count := len(set(groups))) < proof.FOLDS:
        raise ConfigError(
            f"labels of {count} conversations: at least {proof.FOLDS} are needed, because a judge "
            "is measured on conversations that it was not fitted on",
            hint="label chats of further conversations",
        )
    return np.array(groups)


def _rated(labelled: Sequence[LabelledDialogue], name: str, judged: Dimension | None) -> Dimension:
    """Returns the dimension that people rated in the label ``name``, on their scale; ``judged`` is
    the judge's dimension of that name. Raises ConfigError for labels that teach nothing."""
    rows = [row for row in labelled if row.has_label(name)]
    if len(rows) < MIN_LABELS:
        there = ", ".join(sorted({n for row in labelled for n in row.labels})) or "none"
        raise ConfigError(
            f"{len(rows)} chats have a label of {name!r}, at least {MIN_LABELS} are needed",
            hint=f"label more chats; labels in the file: {there}",
        )
    _refuse_second_labels(rows, name)
    values = [(value, row.id) for row in rows for value in row.labels[name] if value is not None]
    scale = _scale_of(rows, name, values, judged)
    held_together(rows)
    kind: Kind = "continuous"
    if not rows[0].aggregated and all(number % 1 == 0 for number, _ in values):
        if scale == (0.0, 1.0):
            kind = "binary"
        elif scale[0] % 1 == 0 == scale[1] % 1:
            kind = "ordinal"
    return replace(judged or Dimension(name, kind, *scale), kind=kind, low=scale[0], high=scale[1])


def _refuse_second_labels(rows: Sequence[LabelledDialogue], name: str) -> None:
    """Raises ConfigError for two labels of a chat by one annotator."""
    for row in rows:
        people = Counter(map(str, row.extra.get("annotators") or ()))
        for person, count in people.items():
            if count > 1:
                raise ConfigError(
                    f"chat {row.id!r}: two labels of {name!r} by the annotator {person!r}",
                    hint="give each annotator a name of their own, and one label of a chat",
                )


def _scale_of(
    rows: Sequence[LabelledDialogue],
    name: str,
    values: Sequence[tuple[float, str]],
    judged: Dimension | None,
) -> Scale:
    """Returns the scale of the ``values`` (label, id of the chat): the stated one, else that of the
    judge. Raises ConfigError if there is none, or several, or all values are equal."""
    low, high = min(values)[0], max(values)[0]
    if low == high:
        raise ConfigError(
            f"all {len(rows)} labels of {name!r} are {low:g}: there is nothing to learn",
            hint=f"label chats that differ, or leave {name!r} out: --label names what is used",
        )
    chats = {row.scales.get(name): row.id for row in reversed(rows)}
    if len(chats) > 1:
        scales = []
        for scale, chat in chats.items():
            ends = "none" if scale is None else "{:g} to {:g}".format(*scale)
            scales.append(f"{ends} in chat {chat!r}")
        raise ConfigError(
            f"labels of {name!r} are on several scales: {' and '.join(scales)}",
            hint="convert them to one scale",
        )
    scale = next(iter(chats))
    problem = "the judge has none"
    if scale is None and judged is not None:
        scale = judged.low, judged.high
        middle = (judged.low + judged.high) / 2
        _, chat = max(values, key=lambda value: abs(value[0] - middle))
        problem = f"chat {chat!r} is outside of the judge's"
    if scale is None or low < scale[0] or high > scale[1]:
        raise ConfigError(
            f"the scale of {name!r} is not stated, and {problem}",
            hint=f"--label COLUMN={name}:{low:g}..{high:g}",
        )
    return scale
