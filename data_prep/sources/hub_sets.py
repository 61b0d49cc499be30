"""Sets of the Hub: MEDAL (synthetic dialogues in six languages with GPT-4.1's labels), and
Soda-Eval, read in the columns that its card states: its files were never here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medal_judges.data_prep.sources.public import make_row
from medal_judges.data_prep.sources.source import is_offline, source
from medal_judges.errors import SourceError
from medal_judges.reading.containers import HUB, open_rows
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Role, Turn
from medal_judges.records.labelled import LabelledDialogue

REPOSITORY = "Johndfm/medal"
SODA_EVAL = "Johndfm/soda_eval"
_SPLITS = {"train": "train", "val": "validation", "test": "test"}


@source("medal")
def read_medal() -> Iterator[LabelledDialogue]:
    """Yields the rows of MEDAL's data set on the Hugging Face Hub, all configurations and splits.
    Raises SourceError if the set is not available."""
    return read_labelled(read_hub_folder(fetch_hub_folder(REPOSITORY)))


def fetch_hub_folder(repository: str) -> str:
    """Returns the local folder of a data set on the Hugging Face Hub.

    The data set is downloaded if needed, unless HF_HUB_OFFLINE is set.

    Args:
        repository: The data set, such as ``Johndfm/medal``.

    Raises:
        SourceError: The data set is not available.
    """
    from huggingface_hub import snapshot_download

    try:
        return snapshot_download(
            repository,
            repo_type="dataset",
            local_files_only=is_offline(),
        )
    except Exception as error:  # many kinds, all mean that it is not available
        problem = str(error).strip().partition("\n")[0]
        raise SourceError(
            f"the data set {repository} is not here: {type(error).__name__}: {problem}",
            hint=f"With a network, type: hf download --repo-type dataset {repository}; copy the "
            "Hugging Face cache ($HF_HOME) here, or give a JSONL file instead",
        ) from error


def read_hub_folder(folder: str) -> Iterator[Any]:
    """Yields the rows of all configurations and splits in ``folder``, a local copy of a data set on
    the Hugging Face Hub. A row maps column -> value. Raises DataError if the set cannot be read.
    """
    import datasets

    for config in datasets.get_dataset_config_names(folder):
        for split in datasets.get_dataset_split_names(folder, config):
            _, rows = open_rows(f"{HUB}{folder}:{config}:{split}")
            yield from (row for _, row in rows)


def _comments_by_issue(row: Mapping[str, Any]) -> dict[str, str]:
    """Returns issue -> GPT-4's comment on it, for the issues found in ``row``, a row
    of Soda-Eval."""
    issues = {}
    for issue in row["issues"] or ():
        name = "_".join(issue["type"].lower().split())
        issues[name] = issue["comment"] or ""
    return issues


@source("soda_eval")
def read_soda_eval() -> Iterator[LabelledDialogue]:
    """Yields the rows of Soda-Eval. Each is a dialogue of SODA up to a turn that GPT-4 labelled.

    The label ``overall`` is from 1 to 5, and the label of each issue is 1 (present) or 0. Whoever
    speaks last has the role ``assistant``.

    Raises:
        SourceError: The set is not available.
    """
    folder = fetch_hub_folder(SODA_EVAL)
    types: set[str] = set()
    for row in read_hub_folder(folder):
        types.update(_comments_by_issue(row))
    for row in read_hub_folder(folder):
        history = [line for line in row["dialog_history"].split("\n") if line.strip()]
        names = []
        texts = []
        for line in (*history, row["response"]):
            name, _, text = line.partition(":")
            names.append(name.strip())
            texts.append(text.strip())
        roles: list[Role] = [
            "assistant" if name == names[-1] else "user" for name in names
        ]
        issues = _comments_by_issue(row)
        group = f"soda-eval-{row['dialog_id']}"
        yield make_row(
            f"{group}-{len(history)}",
            map(Turn, roles, texts),
            {"overall": [row["score"]]}
            | {name: [int(name in issues)] for name in sorted(types)},
            {"overall": (1.0, 5.0)} | dict.fromkeys(types, (0.0, 1.0)),
            source="soda_eval",
            group=group,
            split=_SPLITS[row["split"]],
            level="turn",
            extra={
                "labels_by": "GPT-4",
                "comments": {"overall": row["overall_comment"]} | issues,
            },
        )
