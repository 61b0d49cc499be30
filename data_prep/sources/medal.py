"""MEDAL: synthetic dialogues in six languages with GPT-4.1's labels (Hub data set)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import chain
from typing import Any

from medal_judges.data_prep.sources.cache import is_offline
from medal_judges.data_prep.sources.source import Source
from medal_judges.data_prep.splits import hash_split
from medal_judges.dialogue import Dialogue, parse_dialogue
from medal_judges.dimension import load_rubric
from medal_judges.errors import DataError, RecordError, SourceError
from medal_judges.labelled import LabelledDialogue
from medal_judges.rating import Scale
from medal_judges.signature import content_hash

REPOSITORY = "Johndfm/medal"
_OVERALL_KEY = "overall_quality_rating"  # Table 11's key for what this project calls overall
_LABEL_FIELDS = ("labels", "evaluation", "annotation", "gpt-4.1", "judgement")


def read_medal(offline: bool | None = None) -> Iterator[LabelledDialogue]:
    """Rows of the Hub data set, all its configurations and splits in order.

    Raises SourceError when it cannot be had. Offline only the Hugging Face cache is looked at.
    """
    yield from medal_rows(chain.from_iterable(_hub_tables(_snapshot(offline))))


def _snapshot(offline: bool | None) -> str:
    # The folder first, then datasets on it: datasets has no offline switch for a single call.
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(
            REPOSITORY, repo_type="dataset", local_files_only=is_offline(offline)
        )
    except Exception as error:  # a dozen kinds, all of which mean: not here, or not to be had
        problem = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise SourceError(
            f"the data set {REPOSITORY} is not here: {type(error).__name__}: {problem}",
            hint=f"where there is a network: hf download --repo-type dataset {REPOSITORY}, and "
            "bring the Hugging Face cache ($HF_HOME) here; or give a JSONL file in its place",
        ) from error


def _hub_tables(folder: str) -> Iterator[Iterable[Mapping[str, Any]]]:
    import datasets

    try:
        for name in datasets.get_dataset_config_names(folder):
            data = datasets.load_dataset(folder, name)
            yield from (data[split] for split in data)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise SourceError(f"{folder}: not a data set that can be read: {error}") from error


def medal_rows(records: Iterable[Mapping[str, Any]]) -> Iterator[LabelledDialogue]:
    """LabelledDialogue of each record: source, scene, lang, dialogue, models, ended, and the labels
    as the JSON of the evaluation prompt (an object or its text). Absent keys are missing labels.

    Rows of one scene are one group in all languages: they grow from one description. Raises
    DataError that names the record (from 1) and the field.
    """
    for number, record in enumerate(records):
        try:
            row = _row(record, number)
        except RecordError as error:
            raise DataError(REPOSITORY, number + 1, error.message) from error
        yield row


def _row(record: Mapping[str, Any], number: int) -> LabelledDialogue:
    id = str(record.get("id") or f"medal-{number:06d}")
    # a scene is a text of any length: its hash is the name
    group = f"medal-{content_hash(record['scene'])}" if record.get("scene") else id
    context = {k: record[k] for k in ("scene", "persona", "gender", "affect") if record.get(k)}
    base = parse_dialogue(
        {"id": id} | {key: record.get(key) for key in ("lang", "dialogue", "source")}
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
        if isinstance(label, bool):
            raise TypeError
        number = float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError) as error:
        raise RecordError(f"labels.{name}", f"a number from {low:g} to {high:g}", label) from error
    if not low <= number <= high:
        raise RecordError(f"labels.{name}", f"a number from {low:g} to {high:g}", label)
    return number


@cache
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
    labelled_by="GPT-4.1",
    notes=("Turns may be clipped at both ends by the published code: run medal data audit medal.",),
)
