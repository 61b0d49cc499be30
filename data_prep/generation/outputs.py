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

from medal_judges.data_prep.generation.dialogue_state import DialogueState, Rejection
from medal_judges.errors import MedalError
from medal_judges.storage.files import atomic_path, atomic_write, only_run_in
from medal_judges.storage.journal import Journal
from medal_judges.storage.jsonl import to_line

RECORD, JOURNAL = "run.json", "journal.jsonl"
DIALOGUES, REJECTED, SUMMARY = "dialogues.jsonl", "rejected.jsonl", "summary.json"
# The record goes last: a kill before that leaves a folder that is still known as a run's.
_OWN = (JOURNAL, DIALOGUES, REJECTED, SUMMARY, RECORD)
_FIELDS = {"version", "settings", "agents", "languages", "contexts"}


class Outputs:
    """``folder`` of one run, held by one process until ``close``. ``record`` (see RECORD) says
    whether two runs make the same dialogues. ``overwrite`` removes the files of an earlier run.

    Raises MedalError for a folder that another process or another run holds.
    """

    def __init__(self, folder: Path, record: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.folder = folder
        self.journal = Journal(folder / JOURNAL)
        self._streams: dict[str, IO[str]] = {}
        path = folder / RECORD
        with ExitStack() as held:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(only_run_in(folder))
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
            _write_json(path, record)
            held.enter_context(self.journal.stay_open())
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

    def add(self, state: DialogueState, rejection: Rejection | None) -> None:
        """Write what an answer led to: a rejected turn, a finished dialogue, or nothing."""
        if rejection is not None:
            self._streams[REJECTED].write(to_line(rejection))
        if state.ended is not None and state.chatbot is not None:
            self._streams[DIALOGUES].write(to_line(state.row()))

    def flush(self) -> None:
        """Let readers see what there is; called after each round."""
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

    def summarise(self, summary: Mapping[str, object]) -> None:
        """Write summary.json."""
        _write_json(self.folder / SUMMARY, summary)


def _write_json(path: Path, value: Mapping[str, object]) -> None:
    atomic_write(path, json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n")


def _read_record(path: Path) -> dict[str, Any]:
    """The record at ``path``. Raises MedalError if no run wrote it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not set(record) >= _FIELDS:
        raise MedalError(
            f"{path} is no record of medal generate, so its folder is left unchanged",
            hint="give another folder with --out DIR, or remove the file yourself",
        )
    return record


def _require_same(folder: Path, there: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise MedalError if ``now`` makes other dialogues than ``there``. Chatbots, languages and
    contexts may be added. The country of a context is no part of its id, so it is compared too."""

    def changed(name: str) -> list[str]:
        old, new = there[name], now[name]
        return [f"{k}: {v!r} there, {new[k]!r} now" for k, v in old.items() if new.get(k, v) != v]

    problems = changed("settings")
    gone = [agent for agent in there["agents"] if agent not in now["agents"]]
    problems += [f"{agent} is not in the config any more" for agent in gone]
    problems += changed("agents")
    for name in ("languages", "contexts"):
        if missing := [each for each in there[name] if each not in now[name]]:
            problems.append(f"{name}: {len(missing)} are not in this run any more: {missing[0]}")
    if moved := changed("contexts"):
        problems.append(f"contexts: {len(moved)} have another country now: {moved[0]}")
    if problems:
        listed = "\n    ".join(problems)
        raise MedalError(
            f"{folder} was made with other settings:\n    {listed}",
            hint="give another --out, or start again from the beginning with --overwrite",
        )
