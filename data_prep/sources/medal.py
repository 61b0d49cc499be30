"""MEDAL: synthetic dialogues in six languages with GPT-4.1's labels (Hub data set)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from medal_judges.data_prep.sources.source import is_offline
from medal_judges.errors import DataError, RecordError, SourceError
from medal_judges.reading.containers import HUB, open_rows
from medal_judges.reading.dialogues import ReadingReport, read_labelled
from medal_judges.records.labelled import LabelledDialogue, hash_split

REPOSITORY = "Johndfm/medal"


def read_medal(
    offline: bool | None = None, reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """Yields the rows of all configurations and splits of the Hub data set.

    Reads only the Hugging Face cache if offline. Raises SourceError if it is not available.
    """
    yield from medal_rows(folder_records(hub_folder(REPOSITORY, offline)), reading)


def hub_folder(repository: str, offline: bool | None) -> str:
    """The folder of a data set of the Hub, downloaded first unless offline. Raises SourceError if
    it is not available."""
    # Download the folder first: datasets has no offline switch for a single call.
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(
            repository, repo_type="dataset", local_files_only=is_offline(offline)
        )
    except Exception as error:  # many kinds, all mean that it is not available
        problem = str(error).strip().partition("\n")[0]
        raise SourceError(
            f"the data set {repository} is not here: {type(error).__name__}: {problem}",
            hint=f"with a network: hf download --repo-type dataset {repository}; copy the "
            "Hugging Face cache ($HF_HOME) here, or give a JSONL file instead",
        ) from error


def folder_records(folder: str) -> Iterator[Any]:
    """Yields the rows of all configurations and splits of a folder of the Hub."""
    import datasets

    for config in datasets.get_dataset_config_names(folder):
        for split in datasets.get_dataset_split_names(folder, config):
            _, rows = open_rows(f"{HUB}{folder}:{config}:{split}")
            yield from (row for _, row in rows)


def medal_rows(
    records: Iterable[object], reading: ReadingReport | None = None
) -> Iterator[LabelledDialogue]:
    """Yields a LabelledDialogue per record in the released form or the line format.

    Rows of one context are one group, and share a split, in all languages. Raises DataError that
    names the field of a bad record, or counts it in ``reading`` if given.
    """
    try:
        for row in read_labelled(records, reading=reading):
            yield row if row.split else replace(row, split=hash_split(row.group, seed=0))
    except RecordError as error:
        raise DataError(REPOSITORY, None, error.message) from error
