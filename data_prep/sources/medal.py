"""MEDAL: synthetic dialogues in six languages with GPT-4.1's labels (Hub data set)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from medal_judges.data_prep.sources.source import Source
from medal_judges.data_prep.splits import hash_split
from medal_judges.dialogue import Dialogue, parse_dialogue
from medal_judges.dimension import load_rubric
from medal_judges.errors import RecordError, SourceError
from medal_judges.labelled import LabelledDialogue
from medal_judges.rating import Scale

REPOSITORY = "Johndfm/medal"
_OVERALL_KEY = "overall_quality_rating"  # Table 11's key for what this project calls overall
_LABEL_FIELDS = ("labels", "evaluation", "annotation", "gpt-4.1", "judgement")


def read_medal() -> Iterator[LabelledDialogue]:
    """Rows of the Hub data set. Raises SourceError when it cannot be had."""
    import datasets

    try:
        data = datasets.load_dataset(REPOSITORY)
    except Exception as error:  # datasets raises a dozen kinds, all of which mean: not here
        raise SourceError(
            f"the data set {REPOSITORY} cannot be loaded: {type(error).__name__}: {error}",
            hint="it needs a network or a filled Hugging Face cache; or give a JSONL file",
        ) from error
    for split in data:
        yield from medal_rows(data[split])


def medal_rows(records: Iterable[Mapping[str, Any]]) -> Iterator[LabelledDialogue]:
    """LabelledDialogue of each record: source, scene, lang, dialogue, models, ended, and the labels
    as the JSON of the evaluation prompt (an object or its text). Absent keys are missing labels.

    Rows of one scene and language are one group: they open with the same user turn.
    """
    for number, record in enumerate(records):
        yield _row(record, number)


def _row(record: Mapping[str, Any], number: int) -> LabelledDialogue:
    lang = str(record.get("lang", "und"))
    id = str(record.get("id") or f"medal-{number:06d}")
    group = f"medal-{record.get('scene') or id}"
    context = {k: record[k] for k in ("scene", "persona", "gender", "affect") if record.get(k)}
    base = parse_dialogue(
        {"id": id, "lang": lang, "dialogue": record.get("dialogue"), "source": record.get("source")}
    )
    labels, comments = parse_labels(_labels_of(record))
    return LabelledDialogue(
        dialogue=Dialogue(
            id, base.turns, base.lang, base.source, _models(record.get("models")), context
        ),
        labels=labels,
        scales={name: _scales()[name] for name in labels},
        split=hash_split(group, seed=0),
        group=group,
        extra={"ended": record.get("ended"), "comments": comments, "labels_by": "gpt-4.1"},
    )


def _models(value: object) -> dict[str, str | None]:
    if isinstance(value, Mapping):
        return {"user": value.get("user"), "assistant": value.get("assistant")}
    return {"assistant": value} if isinstance(value, str) else {}


def _labels_of(record: Mapping[str, Any]) -> object:
    found = next((record[name] for name in _LABEL_FIELDS if record.get(name)), None)
    return found if found is not None else record


def parse_labels(value: object) -> tuple[dict[str, tuple[float, ...]], dict[str, str]]:
    """(labels, comments) of the JSON of MEDAL's evaluation prompt (Table 11).

    Accepts an object or its text; a label may be bare (``"unsafe": 1``) or in an object with its
    comment. Raises RecordError for text that is not JSON or a label outside its scale.
    """
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except json.JSONDecodeError as error:
            raise RecordError("labels", "a JSON object", value) from error
    if not isinstance(value, Mapping):
        raise RecordError("labels", "an object of dimension: {label, comment}", value)
    labels: dict[str, tuple[float, ...]] = {}
    comments: dict[str, str] = {}
    for name, (low, high) in _scales().items():
        entry = value.get(_OVERALL_KEY if name == "overall" else name)
        label = entry.get("label") if isinstance(entry, Mapping) else entry
        if label is None:
            continue
        labels[name] = (_label(name, label, low, high),)
        if isinstance(entry, Mapping) and entry.get("comment"):
            comments[name] = str(entry["comment"])
    return labels, comments


def _label(name: str, label: object, low: float, high: float) -> float:
    try:
        number = float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise RecordError(f"labels.{name}", f"a number from {low:g} to {high:g}", label) from error
    if not low <= number <= high:
        raise RecordError(f"labels.{name}", f"a number from {low:g} to {high:g}", label)
    return number


def _scales() -> dict[str, Scale]:
    return {d.name: (d.low, d.high) for d in load_rubric("medal")}


MEDAL = Source(
    name="medal",
    title="MEDAL: synthetic dialogues of eight chatbots in six languages, labels by GPT-4.1",
    licence="see the data set's page on the Hub",
    citation="MEDAL: A Framework for Benchmarking LLMs as Multilingual Open-Domain Dialogue "
    "Evaluators",
    languages=("de", "en", "es", "fr", "pt", "zh"),
    package_read=read_medal,
    package=f"hub data set {REPOSITORY}",
    notes=("Turns may be clipped at both ends by the published code: run medal data audit medal.",),
)
