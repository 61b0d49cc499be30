"""The dialogues of each system with their scores: from files of scores, or of chats and a judge."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medal_judges.errors import MedalError
from medal_judges.inference.metadata import metadata_of
from medal_judges.inference.scoring import DEFAULT_OPTIONS, ScoreOptions, score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import read_dialogues
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature
from medal_judges.report.table import unique_slugs
from medal_judges.shipped import BOXED
from medal_judges.storage.files import only_run
from medal_judges.storage.judgements import holds_judgements, read_judgements

# What ``by``, ``context`` and ``cluster`` may name beside the columns that a row keeps.
CHATBOT, LANG = "chatbot", "lang"


@dataclass(frozen=True, slots=True)
class SystemFile:
    """A file of one system's scores or chats; with ``by`` of several systems'."""

    name: str
    path: Path


@dataclass(frozen=True, slots=True)
class ScoredDialogue:
    """A dialogue of a system: its scores (means over its judged turns), and what may say which
    other dialogues it goes with. ``opening`` is the first user turn, ``dialogue`` the dialogue
    without its turns, both None where only scores are known; ``fields`` is what the scores kept of
    it; ``failures`` counts dimensions without a score."""

    system: str
    id: str
    scores: Mapping[str, float]
    failures: frozenset[str] = frozenset()
    lang: str | None = None
    opening: str | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    dialogue: Dialogue | None = None

    def value(self, name: str) -> str | None:
        """A field as text, by the names that ``medal score --keep`` knows; None where there is
        none."""
        if name == LANG:
            return self.lang
        value = self.fields.get(name)
        if value in (None, "") and self.dialogue is not None:
            value = metadata_of(self.dialogue, [name])[name]
        return None if value is None or value == "" else _text(value)


@dataclass(frozen=True, slots=True)
class ScoredSystems:
    """All rows, system by system in the order of the files; ``judge`` is what scored them.
    ``without`` counts rows that name no system."""

    rows: Sequence[ScoredDialogue]
    judge: str
    dimensions: Sequence[str]
    without: int = 0
    judge_object: Judge | None = None

    @property
    def systems(self) -> list[str]:
        return list(dict.fromkeys(row.system for row in self.rows))


def named_sources(texts: Iterable[str | Path] | Mapping[str, str | Path]) -> list[SystemFile]:
    """``name=path`` or ``path`` (then the file's own name); no two of one name.

    Raises MedalError for a name given twice.
    """
    if isinstance(texts, Mapping):
        return [SystemFile(name, Path(path)) for name, path in texts.items()]
    found = []
    for text in texts:
        name, sign, path = str(text).partition("=")
        named = bool(sign and name and path and "/" not in name and not Path(text).exists())
        found.append(SystemFile(name, Path(path)) if named else SystemFile("", Path(text)))
    stems = unique_slugs([_stem(source.path) for source in found])
    sources = [
        source if source.name else replace(source, name=stem)
        for source, stem in zip(found, stems, strict=True)
    ]
    counts = Counter(source.name for source in sources)
    if twice := [name for name, count in counts.items() if count > 1]:
        raise MedalError(
            f"two systems are named {twice[0]!r}", hint="name them: v1=old.jsonl v2=new.jsonl"
        )
    return sources


def read_systems(
    sources: Sequence[SystemFile],
    *,
    judge: Judge | None = None,
    by: str | None = None,
    chats: Sequence[str | Path] = (),
    out: Path | None = None,
    options: ScoreOptions = DEFAULT_OPTIONS,
    read: Callable[[str | Path], Iterable[Dialogue]] = read_dialogues,
    progress: Callable[[int], None] | None = None,
) -> ScoredSystems:
    """The rows of every file. Files of chats are scored by ``judge`` (the one in the package unless
    given), into ``out``/scores/ where it is given (an earlier run is resumed). ``by``: the column
    that names the system, instead of the file. ``chats``: files of dialogues that belong to the
    scores by id, for what scores lack.

    Raises MedalError for files scored by different judges, and for fewer than two systems.
    """
    texts = {dialogue.id: dialogue for path in chats for dialogue in read(path)}
    rows: list[ScoredDialogue] = []
    judges: dict[str, str] = {}
    slugs = unique_slugs([source.name for source in sources])
    for source, slug in zip(sources, slugs, strict=True):
        known = texts
        if holds_judgements(source.path):
            judgements = list(read_judgements(source.path))
        else:
            judge = judge or Judge.from_pretrained(BOXED)
            dialogues = list(read(source.path))
            known = {dialogue.id: dialogue for dialogue in dialogues}
            file = None if out is None else out / "scores" / f"{slug}.jsonl"
            judgements = _scored(dialogues, judge, file, options, progress)
        for signature in dict.fromkeys(judgement.judge for judgement in judgements):
            judges.setdefault(_judge_name(signature), str(source.path))
        rows += _rows(source.name, judgements, known)
    _require_one_judge(judges)
    if not any(row.scores for row in rows):
        raise MedalError("no dialogue has a score", hint="each line says why, in its failure")
    return _by_system(rows, by, next(iter(judges), ""), judge)


def _scored(
    dialogues: Sequence[Dialogue],
    judge: Judge,
    out: Path | None,
    options: ScoreOptions,
    progress: Callable[[int], None] | None,
) -> list[Judgement]:
    if out is None:
        return list(options.score(judge, dialogues, progress))
    with only_run(out):
        score_to_file(iter(dialogues), judge, out, options, progress=progress)
    return list(read_judgements(out))


def _rows(
    system: str, judgements: Iterable[Judgement], texts: Mapping[str, Dialogue]
) -> list[ScoredDialogue]:
    """One row a dialogue; scores of its turns are averaged."""
    by_id: dict[str, list[Judgement]] = defaultdict(list)
    for judgement in judgements:
        by_id[judgement.id].append(judgement)
    return [_row(system, id, given, texts.get(id)) for id, given in by_id.items()]


def _row(
    system: str, id: str, judgements: Sequence[Judgement], dialogue: Dialogue | None
) -> ScoredDialogue:
    values: dict[str, list[float]] = {}
    for judgement in judgements:
        for name, value in judgement.scores.items():
            values.setdefault(name, [])
            if value is not None:
                values[name].append(value)
    scores = {name: sum(given) / len(given) for name, given in values.items() if given}
    missing = frozenset(name for name, given in values.items() if not given)
    kept = {name: value for one in judgements for name, value in one.meta.items()}
    lang = kept.get(LANG)
    row = ScoredDialogue(system, id, scores, missing, None if lang is None else str(lang))
    row = replace(row, fields=kept)
    if dialogue is None:
        return row
    user = next((turn.content for turn in dialogue.turns if turn.role == "user"), None)
    opening = None if user is None else " ".join(user.split())
    bare = replace(dialogue, turns=())
    detected = next((one.detected_language for one in judgements if one.detected_language), None)
    lang = row.lang or detected or dialogue.lang
    return replace(row, lang=lang, opening=opening or None, dialogue=bare)


def _by_system(
    rows: list[ScoredDialogue], by: str | None, judged: str, judge: Judge | None
) -> ScoredSystems:
    without = 0
    if by is not None:
        named = [(row, row.value(by)) for row in rows]
        without = sum(name is None for _, name in named)
        rows = [replace(row, system=name) for row, name in named if name is not None]
        if not rows:
            raise MedalError(f"no row has a value of {by!r}", hint=_kept(named, by))
    names = list(dict.fromkeys(name for row in rows for name in (*row.scores, *row.failures)))
    systems = sorted({row.system for row in rows}) if by else None
    if systems is not None:  # files come in the order they are named in
        rows = sorted(rows, key=lambda row: row.system)
    found = ScoredSystems(rows, judged, names, without, judge)
    if len(found.systems) < 2:
        what = f"all rows have the {by} {found.systems[0]!r}" if by else "one system"
        raise MedalError(
            f"{what}: nothing to compare", hint="give two files or more, or --by COLUMN"
        )
    return found


def _kept(named: Sequence[tuple[ScoredDialogue, str | None]], by: str) -> str:
    known = sorted({name for row, _ in named for name in _names(row)})
    if known:
        return f"rows have: {', '.join(known)}"
    return f"scores keep it with: medal score --keep {by}; or give the dialogues: --chats FILE"


def _names(row: ScoredDialogue) -> Iterator[str]:
    """What ``--by`` may name in a row."""
    yield from row.fields
    if row.dialogue is not None:
        yield from row.dialogue.meta
        yield from row.dialogue.context
        yield from (f"models.{speaker}" for speaker in row.dialogue.models)
        if row.dialogue.chatbot is not None:
            yield CHATBOT
        if row.dialogue.source is not None:
            yield "source"


def _judge_name(signature: str) -> str:
    """The signature without what may differ between the files of one judge."""
    return str(replace(Signature.parse(signature), data=None, dimension=None, seed=None))


def _require_one_judge(judges: Mapping[str, str]) -> None:
    if len(judges) < 2:
        return
    (first, where), (other, there) = list(judges.items())[:2]
    one, two = (dict(part.split(":", 1) for part in name.split("|")) for name in (first, other))
    apart = [key for key in {**one, **two} if one.get(key) != two.get(key)]
    told = "; ".join(f"{key}: {one.get(key)} and {two.get(key)}" for key in apart)
    raise MedalError(
        f"{where} and {there} were scored by different judges ({told})",
        hint="score both with the same judge and settings: medal score, or --judge with the chats",
    )


def _stem(path: Path) -> str:
    name = path.name
    for ending in (".gz", ".zst", ".jsonl", ".json", ".parquet", ".csv", ".scores", ".scored"):
        name = name.removesuffix(ending)
    return name or path.name


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)
