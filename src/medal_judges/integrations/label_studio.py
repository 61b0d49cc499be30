"""Label Studio by its SDK: the package of ``medal annotate export`` to a server, answers back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.data_prep.annotation.project import PACKAGE, load_project
from medal_judges.errors import ConfigError, DataError, MedalError, MissingExtraError, RecordError
from medal_judges.records.validation import text
from medal_judges.storage.files import atomic_write

if TYPE_CHECKING:
    from label_studio_sdk import LabelStudio

KEY_VARIABLE = "LABEL_STUDIO_API_KEY"
PUSHED = "label_studio.json"  # in the project's folder: the server, and each file's project there
ANSWERS = "answers"


def push_project(
    folder: Path, url: str, *, title: str | None = None, key: str | None = None
) -> dict[str, int]:
    """Make a project on the server for each annotator's tasks (one for all where nothing is
    assigned), with the interface and the instructions; their numbers by the file of tasks.

    ``key``: the server's API key (LABEL_STUDIO_API_KEY). Each project is written down as soon as it
    is made, so that the same call goes on after an interruption and makes none twice. Raises
    DataError for a folder without a package for Label Studio, ConfigError for one that was pushed
    to another server, and MedalError with what the server said.
    """
    load_project(folder)
    package = folder / PACKAGE / "label_studio"
    files = sorted(package.glob("tasks*.json"))
    if not files:
        raise DataError(
            package,
            None,
            "no tasks for Label Studio",
            hint="medal annotate export --form label-studio",
        )
    pushed = _pushed(folder, url)
    client = _client(url, key)
    config = (package / "config.xml").read_text(encoding="utf-8")
    instructions = (package / "instructions.html").read_text(encoding="utf-8")
    with _told(url):
        for file in files:
            listed = json.loads(file.read_text(encoding="utf-8"))
            if file.name not in pushed:
                made = client.projects.create(
                    title=f"{title or folder.resolve().name} {file.stem}"[:50],
                    label_config=config,
                    expert_instruction=instructions,
                    show_instruction=True,
                )
                pushed[file.name] = int(made.id)
                _write(folder, url, pushed)
            number = pushed[file.name]
            there = client.projects.get(id=number).task_number or 0
            if there == 0:
                client.projects.import_tasks(id=number, request=listed)
            elif there != len(listed):
                raise MedalError(
                    f"project {number} of {url} has {there} tasks, {file.name} has {len(listed)}",
                    hint=f"delete the project there and its line in {folder / PUSHED}",
                )
    return pushed


def pull_answers(folder: Path, *, key: str | None = None) -> list[Path]:
    """The answers of every project of ``push_project`` as files of ``answers/``, for ``medal
    annotate import``; a file is written whole or not at all.

    Raises DataError for a folder that was not pushed, MedalError with what the server said.
    """
    url, pushed = _read(folder)
    client, written = _client(url, key), []
    for name, number in pushed.items():
        with _told(url):
            parts = client.projects.exports.download_sync(
                number, export_type="JSON", download_all_tasks=True
            )
            answers = b"".join(parts).decode("utf-8")
        path = folder / ANSWERS / name.replace("tasks", "answers", 1)
        path.parent.mkdir(exist_ok=True)
        written.append(atomic_write(path, answers))
    return written


def _client(url: str, key: str | None) -> LabelStudio:
    import os

    try:
        from label_studio_sdk import LabelStudio
    except ImportError as error:
        purpose = "Label Studio over the network"
        raise MissingExtraError("label-studio-sdk", "label-studio", purpose) from error
    known = key or os.environ.get(KEY_VARIABLE)
    if not known:
        raise ConfigError(
            f"no API key of Label Studio: {KEY_VARIABLE} is not set",
            hint="in Label Studio: Account & Settings, Personal Access Token or Legacy Token",
        )
    with _told(url):
        return LabelStudio(base_url=url, api_key=known)


@contextmanager
def _told(url: str) -> Iterator[None]:
    """What the server or the network said as MedalError; no header or key is part of it."""
    from label_studio_sdk.core import ApiError

    try:
        yield
    except ApiError as error:
        hint = f"is {KEY_VARIABLE} of this server?" if error.status_code in (401, 403) else None
        body = " ".join(str(error.body).split())[:300]
        raise MedalError(f"{url} answered {error.status_code}: {body}", hint=hint) from None
    except Exception as error:
        # By name, as versions of the SDK bring httpx or httpx2.
        if "TransportError" not in {base.__name__ for base in type(error).__mro__}:
            raise
        raise MedalError(
            f"{url} cannot be reached: {error}", hint="is the server running?"
        ) from None


def _pushed(folder: Path, url: str) -> dict[str, int]:
    if not (folder / PUSHED).is_file():
        return {}
    earlier, pushed = _read(folder)
    if earlier != url:
        raise ConfigError(
            f"{folder} was pushed to {earlier}, not to {url}",
            hint=f"export into another folder, or remove {folder / PUSHED}",
        )
    return pushed


def _read(folder: Path) -> tuple[str, dict[str, int]]:
    path = folder / PUSHED
    if not path.is_file():
        raise DataError(path, None, "no such file", hint="push the project first")
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
        projects = {text("projects", k): int(v) for k, v in record["projects"].items()}
        return text("url", record["url"]), projects
    except (ValueError, KeyError, TypeError, AttributeError, RecordError) as error:
        raise DataError(path, None, f"not as it was written: {error}") from error


def _write(folder: Path, url: str, pushed: dict[str, int]) -> None:
    record = {"url": url, "projects": pushed}
    atomic_write(folder / PUSHED, json.dumps(record, indent=1) + "\n")
