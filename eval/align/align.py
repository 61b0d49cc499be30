"""``align``: people's labels of some chats in, a judge that agrees better with them out, with the
proof that it does."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from medal_judges.config import BOXED, Config, option
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.errors import ConfigError, CoverageError
from medal_judges.eval.align.proof import REACH, Material, Proof, held_together, prove
from medal_judges.eval.metaeval.alignment import answer_matrix
from medal_judges.inference.scoring import ScoreOptions, judge_once
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.models.embedding.judge import (
    EmbeddingConfig,
    EmbeddingJudge,
    FittedNet,
    SentenceEncoder,
)
from medal_judges.models.hybrid.judge import HybridJudge, Stack
from medal_judges.models.hybrid.members import Member, MemberConfig, open_member
from medal_judges.reading.dialogues import DEFAULT_READING, ReadOptions
from medal_judges.records.dimension import Dimension, Kind
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.stats.correlation import Floats
from medal_judges.storage.files import atomic_write
from medal_judges.training.card.card import write_card

MIN_LABELS = 20
RECORD_NAME = "align.json"


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
    keep_anyway: bool = option(False, help="Write the judge even if the gain may be chance.")
    as_json: bool = option(False, flag="--json", help="Print the proof as JSON.")
    device: str | None = option(None, help="cpu, cuda, cuda:1, ...")
    reading: ReadOptions = DEFAULT_READING


@dataclass(frozen=True, slots=True)
class Alignment:
    """The outcome of ``align``: ``proofs`` by dimension, on the scales of ``dimensions``, and the
    ``judge`` of the dimensions with a gain beyond chance; None if there are none."""

    judge: HybridJudge | None
    dimensions: Mapping[str, Dimension]
    proofs: Mapping[str, Proof]
    rows: Mapping[str, Sequence[LabelledDialogue]]
    facts: Mapping[str, object]

    def record(self) -> dict[str, Any]:
        """Returns the content of align.json, which has no text of a chat."""
        found = {
            name: {
                "kept": proof.kept,
                "way": proof.way,
                "rows": len(self.rows[name]),
                "scale": [self.dimensions[name].low, self.dimensions[name].high],
                "gain_over": proof.base,
                "gain": asdict(proof.gain),
                "more_labels": proof.more,
                "lines": [asdict(line) for line in proof.lines],
            }
            for name, proof in self.proofs.items()
        }
        return {**self.facts, "judge_written": self.judge is not None, "dimensions": found}

    def sentences(self) -> list[str]:
        """Returns for each dimension whether the labels improve the judge, and by how much."""
        found = []
        for name, proof in self.proofs.items():
            gain, low, high = proof.gain.value or 0.0, proof.gain.low, proof.gain.high
            shown = f"(gain {gain:.2f}" + (")" if low is None else f" [{low:.2f}, {high:.2f}])")
            if proof.kept:
                found.append(f"{name}: labels improve this judge {shown}, by {proof.way}")
                continue
            found.append(f"{name}: labels do not improve this judge {shown}")
            if proof.more is not None:
                found.append(f"about {proof.more} more labels like these would show such a gain")
        return found


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

    Tries the judge as it is, a linear and an isotonic map, a ridge over its scores, length,
    repetition and sentence vectors, and a stack with ``boxed``; nested cross-validation chooses and
    measures. A dimension is aligned if its error falls beyond chance, or with ``keep_anyway``.

    ``dimensions`` are the labels to use (default: all); one that the judge does not score is learnt
    from its other scores. ``options`` go to ``Judge.from_pretrained``. The judge is saved in the
    folder ``out``. Raises ConfigError for labels that nothing can be learnt from, before the judge
    is asked.

    >>> from medal_judges import align
    >>> align("length", "labelled.jsonl", "aligned")
    Traceback (most recent call last):
        ...
    medal_judges.errors.ConfigError: 12 chats have a label of 'overall', at least 20 are needed
      label more chats; labels in the file: overall
    """
    folder = None if out is None else Path(out)
    if folder is not None and (folder / "config.json").is_file():
        raise ConfigError(f"{folder} holds a judge already", hint="give another folder")
    rows = load_spec(rows) if isinstance(rows, str) else rows
    labelled = [row for row in rows if any(rating.given for rating in row.ratings())]
    member = Member("judge", judge, {}) if isinstance(judge, Judge) else None
    if member is None:
        member = open_member("judge", MemberConfig(path=str(judge), options=options))
    mine = {d.name: d for d in member.judge.dimensions}
    names = list(dimensions) or sorted({name for row in labelled for name in row.labels})
    if not names:
        hint = "--label COLUMN=DIMENSION:1..5 names a column of labels"
        raise ConfigError("no chat has a label", hint=hint)
    targets = {name: _target(labelled, name, mine.get(name)) for name in names}
    if len(levels := {row.level for row in labelled}) > 1:
        raise ConfigError(f"labels of {' and '.join(sorted(levels))}s", hint="give one kind only")
    # A language model is asked, and paid, for each dimension.
    all_of_them = not member.judge.language_models() or bool(set(names) - set(mine))
    own = list(mine) if all_of_them else names
    members = {"judge": member}
    for name in (*([BOXED] if member.judge.name != BOXED else []), "repetition", "length"):
        members[name] = open_member(name, MemberConfig(path=name))
    asked = {name: own if name == "judge" else ["overall"] for name in members}
    inputs = tuple(f"{name}:{one}" for name, some in asked.items() for one in some)
    dialogues = [row.dialogue for row in labelled]
    data = content_hash([row.to_record() for row in labelled])
    columns: list[Floats] = []
    for name, one in members.items():
        level: ScoreLevel = "last" if labelled[0].level == "turn" else "dialogue"
        how = ScoreOptions(dimensions=tuple(asked[name]), level=level)
        if folder is None or name != "judge":
            judged = list(how.score(one.judge, dialogues))
        else:  # answers of a language model can cost money: a second run reads them
            judged = judge_once(one.judge, dialogues, folder / "judgements.jsonl", how, data=data)
        for each in map(one.judge.dimension, asked[name]):
            found = [np.nan if (v := j.scores[each.name]) is None else v for j in judged]
            columns.append((np.array(found, float) - each.low) / (each.high - each.low))
    table = np.column_stack(columns)
    encoder = SentenceEncoder.create("embedded:minilm", None)
    reader = EmbeddingJudge(EmbeddingConfig(features=()), encoder, [], {})
    vectors = np.stack([each.vector for each in reader.read(dialogues)])
    proofs, used = {}, {}
    for name, dimension in targets.items():
        rated = [i for i, r in enumerate(labelled) if (q := r.rating(name)) is not None and q.given]
        whole = [i for i in rated if np.isfinite(table[i]).all()]
        if len(whole) < MIN_LABELS:
            raise CoverageError(
                f"{len(rated) - len(whole)} of {len(rated)} chats with a label of {name!r} have no "
                "score",
                hint="medal score shows why, in the field failure",
            )
        used[name] = [labelled[i] for i in whole]
        people = answer_matrix(used[name], name)
        span = dimension.high - dimension.low
        material = Material(
            inputs,
            table[whole],
            vectors[whole],
            (np.nanmean(people, axis=1) - dimension.low) / span,
            _groups(used[name]),
            inputs.index(f"judge:{name}") if name in own else -1,
        )
        proofs[name] = prove(material, span, people)
    kept = {name: one for name, one in proofs.items() if one.kept or keep_anyway}
    facts = {"aligned": str(member.judge.signature()), "data": data, "labels": len(labelled)}
    result = Alignment(None, targets, proofs, used, facts)
    if kept:
        nets = {}
        for name, proof in kept.items():
            if proof.fit.net is not None:
                mean, weights = proof.fit.net
                layer = (weights[:, None] / REACH, np.array([0.5]))
                nets[name] = FittedNet("ridge", mean, np.ones_like(mean), (layer,))
        if nets:
            learnt = [targets[name] for name in nets]
            with_nets = EmbeddingJudge(EmbeddingConfig(features=()), encoder, learnt, nets)
            members["vectors"] = Member("vectors", with_nets, {})
        stack = Stack({name: proof.fit.blend for name, proof in kept.items()})
        needed = {m for name in kept for m, _ in stack.asked(name, members).values()}
        chosen = {n: m for n, m in members.items() if n in needed or n == "judge"}
        own_name = f"{member.judge.name}_aligned"
        aligned = HybridJudge(chosen, stack, [targets[n] for n in kept], name=own_name, facts=facts)
        result = replace(result, judge=aligned)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        _write(folder / RECORD_NAME, result.record())
        if result.judge is not None:
            result.judge.save_pretrained(folder, golden=True)
            languages = sorted({row.dialogue.lang for row in labelled})
            entry = {"part": "train", "source": "labels", "rows": len(labelled), "hash": data}
            _write(folder / "data.json", [entry | {"languages": languages}])
            write_card(folder)
    return result


def _write(path: Path, record: object) -> None:
    atomic_write(path, json.dumps(record, indent=2, ensure_ascii=False) + "\n")


def _groups(rows: Sequence[LabelledDialogue]) -> Any:
    return held_together([row.dialogue.chatbot for row in rows], [row.group for row in rows])


def _target(labelled: Sequence[LabelledDialogue], name: str, judged: Dimension | None) -> Dimension:
    """Returns the dimension that people rated in the label ``name``, on their scale; ``judged`` is
    the judge's dimension of that name. Raises ConfigError for labels that teach nothing."""
    rows = [row for row in labelled if (r := row.rating(name)) is not None and r.given]
    if len(rows) < MIN_LABELS:
        raise ConfigError(
            f"{len(rows)} chats have a label of {name!r}, at least {MIN_LABELS} are needed",
            hint=f"label more chats; labels in the file: "
            f"{', '.join(sorted({n for row in labelled for n in row.labels})) or 'none'}",
        )
    for row in rows:
        people = list(map(str, row.extra.get("annotators") or ()))
        if twice := [person for person in people if people.count(person) > 1]:
            raise ConfigError(
                f"chat {row.id!r}: two labels of {name!r} by the annotator {twice[0]!r}",
                hint="give each annotator a name of their own, and one label of a chat",
            )
    values = {value for row in rows for value in row.labels[name] if value is not None}
    if len(values) < 2:
        raise ConfigError(
            f"all {len(rows)} labels of {name!r} are {min(values):g}: there is nothing to learn",
            hint=f"label chats that differ, or leave {name!r} out: --label names what is used",
        )
    first = {row.scales.get(name): row.id for row in reversed(rows)}
    if len(first) > 1:
        parts = (
            f"{'none' if scale is None else '{:g} to {:g}'.format(*scale)} in chat {id!r}"
            for scale, id in first.items()
        )
        raise ConfigError(
            f"labels of {name!r} are on several scales: {' and '.join(parts)}",
            hint="convert them to one scale",
        )
    (scale,) = first
    if scale is None:
        scale = None if judged is None else (judged.low, judged.high)
        low, high = scale or (-np.inf, np.inf)
        given = ((row.id, value) for row in rows for value in row.labels[name])
        outside = [id for id, value in given if value is not None and not low <= value <= high]
        if scale is None or outside:
            why = (
                f"chat {outside[0]!r} is outside of the judge's"
                if outside
                else "the judge has none"
            )
            raise ConfigError(
                f"the scale of {name!r} is not stated, and {why}",
                hint=f"--label COLUMN={name}:{min(values):g}..{max(values):g}",
            )
    _groups(rows)
    whole = all(each % 1 == 0 for each in (*values, *scale)) and not rows[0].aggregated
    kind: Kind = "ordinal" if whole else "continuous"
    kind = "binary" if whole and scale == (0.0, 1.0) else kind
    mine = judged or Dimension(name, kind, *scale)
    return replace(mine, kind=kind, low=scale[0], high=scale[1])
