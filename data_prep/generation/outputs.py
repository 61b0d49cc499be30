"""The folder of a run: its record, its journal, and the files that are made from the journal.

journal.jsonl holds every answer in the order of arrival and is all that a resume needs;
dialogues.jsonl and rejected.jsonl are made from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from medal_judges.errors import MedalError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.files import atomic_path, atomic_write, only_run
from medal_judges.storage.journal import Journal
from medal_judges.storage.jsonl import to_line

RECORD, DIALOGUES, REJECTED = "run.json", "dialogues.jsonl", "rejected.jsonl"
# The record goes last: a kill before that leaves a folder that is still known as a run's.
_OWN = ("journal.jsonl", DIALOGUES, REJECTED, "summary.json", RECORD)
_PARTS = ("settings", "agents", "contexts")


class Outputs:
    """``folder`` of one run, held by one process until ``close``. ``record`` (see RECORD) says
    whether two runs make the same dialogues. ``overwrite`` removes the files of an earlier run.

    Raises MedalError for a folder that another process or another run holds.
    """

    def __init__(self, folder: Path, record: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.folder = folder
        self.journal = Journal(folder / "journal.jsonl")
        self._streams: dict[str, IO[str]] = {}
        path = folder / RECORD
        with ExitStack() as held:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(only_run(folder, folder=True))
            if overwrite and path.exists():
                _read_record(path)
                for name in _OWN:
                    (folder / name).unlink(missing_ok=True)
            if path.exists():
                _require_same(folder, _read_record(path), record)
            elif foreign := [name for name in _OWN if (folder / name).exists()]:
                raise MedalError(
                    f"{folder / foreign[0]} exists, but no {RECORD} that says what made it",
                    hint="give another folder with --out DIR, or remove the file yourself",
                )
            self.write_json(RECORD, record)
            self._held = held.pop_all()

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        """While the block runs, ``add`` writes dialogues and rejections beside the old files; then
        these are replaced, and later ones are appended."""
        with ExitStack() as replacing:
            for name in (DIALOGUES, REJECTED):
                partial = replacing.enter_context(atomic_path(self.folder / name))
                stream = partial.open("w", encoding="utf-8", newline="\n")
                self._streams[name] = self._held.enter_context(stream)
            yield
            self.flush()

    def add(self, line: Mapping[str, Any] | LabelledDialogue) -> None:
        """Write a rejected turn or a finished dialogue."""
        name = DIALOGUES if isinstance(line, LabelledDialogue) else REJECTED
        self._streams[name].write(to_line(line))

    def flush(self) -> None:
        """Make the journal durable and let readers see the files; called after each round."""
        self.journal.sync()
        for stream in self._streams.values():
            stream.flush()

    def close(self) -> None:
        """Close the files and release the folder."""
        self._held.close()

    def arrange(self, order: Iterable[str]) -> None:
        """Sort the finished dialogues into ``order`` (ids), so that the file does not depend on
        which server was faster. Memory holds offsets, not texts."""
        path = self.folder / DIALOGUES
        places = {json.loads(line)["id"]: start for start, line in Journal(path).lines()}
        with path.open("rb") as source, atomic_path(path) as partial, partial.open("wb") as target:
            for id in order:
                if id in places:
                    source.seek(places[id])
                    target.write(source.readline())

    def write_json(self, name: str, value: Mapping[str, object]) -> None:
        """Write run.json or summary.json."""
        text = json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"
        atomic_write(self.folder / name, text)


def _read_record(path: Path) -> dict[str, Any]:
    """The record at ``path``. Raises MedalError if no run wrote it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not set(record) >= set(_PARTS):
        raise MedalError(
            f"{path} is no record of medal generate, so its folder is left unchanged",
            hint="give another folder with --out DIR, or remove the file yourself",
        )
    return record


def _require_same(folder: Path, there: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise MedalError if ``now`` makes other dialogues than ``there``. Chatbots, languages and
    contexts may be added. The country of a context is no part of its id, so it is compared too."""
    problems = []
    for part in _PARTS:
        for name, old in there[part].items():
            if name not in now[part]:
                problems.append(f"{part}: {name} is not in this run any more")
            elif now[part][name] != old:
                problems.append(f"{part}: {name}: {old!r} there, {now[part][name]!r} now")
    if problems:
        more = [f"and {len(problems) - 5} more"] if len(problems) > 5 else []
        listed = "\n    ".join([*problems[:5], *more])
        raise MedalError(
            f"{folder} was made with other settings:\n    {listed}",
            hint="give another --out, or start again from the beginning with --overwrite",
        )
