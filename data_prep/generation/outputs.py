"""The folder of a run: its record, its journal, and the files that are made from the journal.

journal.jsonl holds every answer in the order in which they came and is all that a run needs to
resume; dialogues.jsonl and rejected.jsonl are made from it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, TypedDict, cast

from medal_judges.data_prep.generation.dialogue_state import (
    DialogueState,
    Event,
    Rejection,
    parse_event,
)
from medal_judges.errors import MedalError
from medal_judges.storage.files import atomic_path, atomic_write, only_run_in
from medal_judges.storage.journal import Journal
from medal_judges.storage.jsonl import to_line

RECORD, JOURNAL = "run.json", "journal.jsonl"
DIALOGUES, REJECTED, SUMMARY = "dialogues.jsonl", "rejected.jsonl", "summary.json"
# The record goes last: a kill before that leaves a folder that is still known as a run's.
_OWN = (JOURNAL, DIALOGUES, REJECTED, SUMMARY, RECORD)


class RunRecord(TypedDict):
    """run.json: what says whether two runs make the same dialogues. ``contexts``: id -> country."""

    version: str
    settings: dict[str, object]
    agents: dict[str, object]
    languages: list[str]
    contexts: dict[str, str]


class Outputs:
    """``folder`` of one run, held by one process at a time until ``close``. ``overwrite`` removes
    the files of an earlier run, and nobody else's.

    Raises MedalError for a folder that another process or another run holds.
    """

    def __init__(self, folder: Path, record: RunRecord, *, overwrite: bool = False) -> None:
        self.folder = folder
        self.journal = Journal(folder / JOURNAL)
        self._streams: dict[str, IO[str]] = {}
        with ExitStack() as held:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(only_run_in(folder))
            held.enter_context(self.journal.kept_open())
            if overwrite and (folder / RECORD).exists():
                _read_record(folder / RECORD)
                for name in _OWN:
                    (folder / name).unlink(missing_ok=True)
            self._keep(record)
            self._held = held.pop_all()

    def _keep(self, record: RunRecord) -> None:
        """Write ``record`` on the first run; refuse another run's folder on later ones."""
        path = self.folder / RECORD
        if path.exists():
            _require_same(self.folder, _read_record(path), record)
        elif foreign := [name for name in _OWN if (self.folder / name).exists()]:
            raise MedalError(
                f"{self.folder / foreign[0]} is there, but no {RECORD} that says what made it",
                hint="give another folder with --out DIR, or remove the file yourself",
            )
        _write_json(path, record)

    def earlier(self) -> Iterator[Event]:
        """The events of earlier runs. Raises DataError, with the line, for one that is none."""
        return self.journal.records(parse_event)

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        """While the block runs, ``add`` writes the dialogues and rejections beside the old files;
        then they replace these, and further ones are added to them."""
        with ExitStack() as replacing:
            for name in (DIALOGUES, REJECTED):
                partial = replacing.enter_context(atomic_path(self.folder / name))
                stream = partial.open("w", encoding="utf-8", newline="\n")
                self._streams[name] = self._held.enter_context(stream)
            yield
            self.flush()

    def add(self, state: DialogueState, rejection: Rejection | None) -> None:
        """Write what an event led to: a rejected turn, a finished dialogue, or nothing."""
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
        """Close the files and let go of the folder."""
        self._held.close()

    def arrange(self, order: Iterable[str]) -> None:
        """Put the finished dialogues in the plan's order, so that the file does not depend on which
        server was faster. Places are held in memory, texts are not."""
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


def _read_record(path: Path) -> RunRecord:
    """The record at ``path``. Raises MedalError where it is none that a run wrote."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not RunRecord.__required_keys__ <= set(record):
        raise MedalError(
            f"{path} is no record of medal generate, so its folder is left alone",
            hint="give another folder with --out DIR, or remove the file yourself",
        )
    return cast(RunRecord, record)


def _require_same(folder: Path, there: RunRecord, now: RunRecord) -> None:
    """Raise MedalError where ``now`` would make other dialogues than those that stand there.

    Chatbots, languages and contexts may be added, none may change or go. The country of a context
    is no part of its name, so it is compared too.
    """
    problems = _changed(dict.fromkeys(now["settings"]) | there["settings"], now["settings"])
    gone = [agent for agent in there["agents"] if agent not in now["agents"]]
    problems += [f"{agent} is not in the config any more" for agent in gone]
    problems += _changed(there["agents"], now["agents"])
    for name, earlier, current in (
        ("languages", there["languages"], now["languages"]),
        ("contexts", there["contexts"], now["contexts"]),
    ):
        if missing := [each for each in earlier if each not in current]:
            problems.append(f"{name}: {len(missing)} are not in this run any more: {missing[0]}")
    if moved := _changed(there["contexts"], now["contexts"]):
        problems.append(f"contexts: {len(moved)} have another country now: {moved[0]}")
    if problems:
        listed = "\n    ".join(problems)
        raise MedalError(
            f"{folder} was made with other settings:\n    {listed}",
            hint="give another --out, or start again from the beginning with --overwrite",
        )


def _changed(there: Mapping[str, object], now: Mapping[str, object]) -> list[str]:
    """What stands in both, with another value."""
    return [
        f"{name}: {value!r} there, {now[name]!r} now"
        for name, value in there.items()
        if name in now and now[name] != value
    ]
