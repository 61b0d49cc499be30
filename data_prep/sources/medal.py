"""MEDAL: synthetic dialogues in six languages with GPT-4.1's labels (Hub data set)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain
from typing import Any

from medal_judges.data_prep.sources.cache import is_offline
from medal_judges.data_prep.sources.source import Source, hash_split
from medal_judges.errors import DataError, RecordError, SourceError
from medal_judges.reading.released import is_released, label_fields, line_of_released
from medal_judges.reading.report import ReadingReport
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.records.signature import content_hash

REPOSITORY = "Johndfm/medal"
TOOLKIT_FORM = "line"


def read_medal(
    offline: bool | None = None, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """Yields the rows of all configurations and splits of the Hub data set.

    Reads only the Hugging Face cache if offline. Raises SourceError if it is not available.
    """
    yield from medal_rows(chain.from_iterable(_hub_tables(_snapshot(offline))), reading)


def _snapshot(offline: bool | None) -> str:
    # Download the folder first: datasets has no offline switch for a single call.
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(
            REPOSITORY, repo_type="dataset", local_files_only=is_offline(offline)
        )
    except Exception as error:  # many kinds, all mean that it is not available
        problem = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise SourceError(
            f"the data set {REPOSITORY} is not here: {type(error).__name__}: {problem}",
            hint=f"with a network: hf download --repo-type dataset {REPOSITORY}; copy the "
            "Hugging Face cache ($HF_HOME) here, or give a JSONL file instead",
        ) from error


def _hub_tables(folder: str) -> Iterator[Iterable[Mapping[str, object]]]:
    import datasets

    try:
        for name in datasets.get_dataset_config_names(folder):
            data = datasets.load_dataset(folder, name)
            yield from (data[split] for split in data)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise SourceError(f"{folder}: cannot read the data set: {error}") from error


def medal_rows(
    records: Iterable[Mapping[str, object]], reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """Yields a LabelledDialogue per record in the released form or the line format (labels may be
    GPT-4.1's JSON); ``extra["form"]`` says which. A record without an id gets its number.

    Rows of one context are one group, and share a split, in all languages. Raises DataError that
    names the record (from 1) and the field, or counts it in ``reading`` if given.
    """
    seen: set[str] = set()
    for number, record in enumerate(records):
        try:
            row = _row(record, number)
        except RecordError as error:
            problem = DataError(REPOSITORY, number + 1, error.message)
            if reading is None:
                raise problem from error
            reading.add(problem)
            continue
        if reading is not None:
            reading.read += 1
        yield _with_own_id(row, seen)


def _row(record: Mapping[str, object], number: int) -> LabelledDialogue:
    line = line_of_released(record) if is_released(record) else _line_of_toolkit(record)
    line.setdefault("id", f"medal-{number:06d}")
    row = parse_labelled(line)
    return row if row.split else replace(row, split=hash_split(row.group, seed=0))


def _line_of_toolkit(record: Mapping[str, object]) -> dict[str, Any]:
    """A record in the line format; its context may be in fields beside the dialogue."""
    line = {k: v for k, v in record.items() if v is not None}
    beside = {k: line.pop(k) for k in ("scene", "persona", "gender", "affect") if k in line}
    line["context"] = line.get("context") or beside
    models = line.get("models")
    line["models"] = {"assistant": models} if isinstance(models, str) else models
    if "group" not in line and "scene" in beside:
        line["group"] = f"medal-{content_hash(beside['scene'])}"
    return line | label_fields(line) | {"form": TOOLKIT_FORM}


def _with_own_id(row: LabelledDialogue, seen: set[str]) -> LabelledDialogue:
    """``row`` with a numbered id if an earlier row has the same id."""
    id, count = row.id, 1
    while id in seen:
        count += 1
        id = f"{row.id}#{count}"
    seen.add(id)
    return row if id == row.id else replace(row, dialogue=replace(row.dialogue, id=id))


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
