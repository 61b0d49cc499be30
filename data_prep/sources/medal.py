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
    """Rows of the Hub data set, all its configurations and splits in order.

    Raises SourceError when it is not available. Offline only the Hugging Face cache is read.
    """
    yield from medal_rows(chain.from_iterable(_hub_tables(_snapshot(offline))), reading)


def _snapshot(offline: bool | None) -> str:
    # The folder first, then datasets on it: datasets has no offline switch for a single call.
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(
            REPOSITORY, repo_type="dataset", local_files_only=is_offline(offline)
        )
    except Exception as error:  # a dozen kinds, all of which mean: not here, or not available
        problem = str(error).strip().splitlines()[0] if str(error).strip() else ""
        raise SourceError(
            f"the data set {REPOSITORY} is not here: {type(error).__name__}: {problem}",
            hint=f"where there is a network: hf download --repo-type dataset {REPOSITORY}, and "
            "bring the Hugging Face cache ($HF_HOME) here; or give a JSONL file in its place",
        ) from error


def _hub_tables(folder: str) -> Iterator[Iterable[Mapping[str, object]]]:
    import datasets

    try:
        for name in datasets.get_dataset_config_names(folder):
            data = datasets.load_dataset(folder, name)
            yield from (data[split] for split in data)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise SourceError(f"{folder}: not a data set that can be read: {error}") from error


def medal_rows(
    records: Iterable[Mapping[str, object]], reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """LabelledDialogue of each record, in the released form, in the line format, or in the line
    format with GPT-4.1's JSON for labels; ``extra["form"]`` says which. Absent keys are missing
    labels. A record without an id of its own or of its request is named by its place.

    Rows of one context are one group in all languages, and share a split. Raises DataError that
    names the record (from 1) and the field; with ``reading`` it is counted there instead.
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
    """A record whose ``models`` are an object: the line format. Labels may be GPT-4.1's JSON, and
    the context may stand beside the dialogue."""
    line = {k: v for k, v in record.items() if v is not None}
    beside = {k: line.pop(k) for k in ("scene", "persona", "gender", "affect") if k in line}
    line["context"] = line.get("context") or beside
    models = line.get("models")
    line["models"] = {"assistant": models} if isinstance(models, str) else models
    if "group" not in line and "scene" in beside:
        # a scene is a text of any length: its hash is the name
        line["group"] = f"medal-{content_hash(beside['scene'])}"
    return line | label_fields(line) | {"form": TOOLKIT_FORM}


def _with_own_id(row: LabelledDialogue, seen: set[str]) -> LabelledDialogue:
    """``row``; where an earlier one has its id (one dialogue in two configurations), numbered."""
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
