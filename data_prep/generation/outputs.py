"""The folder of a run: its record, its journal, and the files that are made from the journal."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any

from filelock import Timeout

from medal_judges.data_prep.generation.journal import Journal
from medal_judges.data_prep.generation.pool import Step
from medal_judges.errors import MedalError
from medal_judges.files import lock_of
from medal_judges.jsonl import to_line

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

RECORD, JOURNAL = "run.json", "journal.jsonl"
DIALOGUES, REJECTED, SUMMARY = "dialogues.jsonl", "rejected.jsonl", "summary.json"
# The record goes last: a kill before that leaves a folder that is still known as a run's.
_OWN = (JOURNAL, DIALOGUES, REJECTED, SUMMARY, RECORD)


class Outputs:
    """``folder`` of one run, held by one process at a time until ``close``. ``dialogues`` and
    ``rejected`` are written anew from the journal when a run goes on, and take the old files'
    places at once. ``overwrite`` takes the files of an earlier run away, and nobody else's.

    Raises MedalError for a folder that another process or another run holds.
    """

    def __init__(self, folder: Path, record: dict[str, Any], *, overwrite: bool = False) -> None:
        self.folder = folder
        self.journal = Journal(folder / JOURNAL)
        self._streams: dict[str, IO[str]] = {}
        self._lock = _held(folder)
        try:
            if overwrite and (folder / RECORD).exists():
                _read_record(folder / RECORD)
                for name in _OWN:
                    (folder / name).unlink(missing_ok=True)
            self._check(record)
        except OSError as error:
            self.close()
            raise _unwritable(folder, error) from error
        except BaseException:
            self.close()
            raise

    def _check(self, record: dict[str, Any]) -> None:
        """Keep ``record`` on the first run; refuse another one's folder on later ones."""
        path = self.folder / RECORD
        if path.exists():
            _require_same(self.folder, _read_record(path), record)
        elif foreign := [name for name in _OWN if (self.folder / name).exists()]:
            raise MedalError(
                f"{self.folder / foreign[0]} is there, but no {RECORD} that says what made it",
                hint="give another folder with out=DIR, or take the file away yourself",
            )
        text = json.dumps(record, indent=2, ensure_ascii=False, default=str)
        _replace(path, f"{text}\n")

    def rebuild(self) -> None:
        """Begin the files that are made from the journal, beside the old ones."""
        for name in (DIALOGUES, REJECTED):
            path = self.folder / f".new-{name}"
            self._streams[name] = path.open("w", encoding="utf-8", newline="\n")

    def rebuilt(self) -> None:
        """Put them in the old ones' places; what is written from here on goes to them."""
        for name, stream in self._streams.items():
            stream.flush()
            (self.folder / f".new-{name}").replace(self.folder / name)

    def add(self, step: Step) -> None:
        """Write what a step brought: a rejected turn, a finished dialogue, or nothing."""
        if step.rejection is not None:
            line = json.dumps(step.rejection.to_record(), ensure_ascii=False)
            self._streams[REJECTED].write(f"{line}\n")
        if step.unit.ended is not None and step.unit.chatbot is not None:
            self._streams[DIALOGUES].write(to_line(step.unit.row()))

    def flush(self) -> None:
        """Let readers see what there is; called after each round."""
        self.journal.sync()
        for stream in self._streams.values():
            stream.flush()

    def close(self) -> None:
        """Let go of the files."""
        self.journal.close()
        streams, self._streams = self._streams, {}
        lock, self._lock = self._lock, None
        try:
            for stream in streams.values():
                stream.close()
        finally:
            if lock is not None:
                lock()

    def arrange(self, order: Iterable[str]) -> None:
        """Put the finished dialogues in the plan's order, so that the file does not depend on which
        server was faster. Places are held in memory, texts are not."""
        path, beside = self.folder / DIALOGUES, self.folder / f".new-{DIALOGUES}"
        places: dict[str, tuple[int, int]] = {}
        with path.open("rb") as source, beside.open("wb") as target:
            offset = 0
            for line in source:
                places[json.loads(line)["id"]] = (offset, len(line))
                offset += len(line)
            for id in order:
                if id in places:
                    source.seek(places[id][0])
                    target.write(source.read(places[id][1]))
        beside.replace(path)

    def summarise(self, summary: dict[str, Any]) -> None:
        """Write summary.json."""
        text = json.dumps(summary, indent=2, ensure_ascii=False)
        _replace(self.folder / SUMMARY, f"{text}\n")


@contextmanager
def room_in(folder: Path) -> Iterator[None]:
    """A disk without room is a MedalError that says what to do."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise MedalError(
            f"no room to write in {folder}: {error.strerror}",
            hint="make room and run the same command again: it goes on from here",
        ) from error


def _held(folder: Path) -> Callable[[], None] | None:
    """Lock ``folder``, made where there is none; what lets go of it, as the system does when its
    process dies. None where folders cannot be locked."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if fcntl is None:
            lock = lock_of(folder)
            lock.acquire()
            return lock.release
        # The folder itself, not a file in a temporary one: its disk may be shared by machines.
        held = os.open(folder, os.O_RDONLY)
    except Timeout:
        raise _at_work(folder) from None
    except OSError as error:
        raise _unwritable(folder, error) from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        if not isinstance(error, BlockingIOError):  # a network's file system without locks
            return None
        raise _at_work(folder) from None
    return partial(os.close, held)  # and with it the lock


def _at_work(folder: Path) -> MedalError:
    return MedalError(
        f"another run is at work in {folder}",
        hint="wait until it ends (chatbots of one folder run one after the other), or give "
        "another folder with out=DIR",
    )


def _unwritable(folder: Path, error: OSError) -> MedalError:
    return MedalError(
        f"{folder} cannot be written to: {error.strerror}", hint="give another with out=DIR"
    )


def _read_record(path: Path) -> dict[str, Any]:
    """The record at ``path``. Raises MedalError where it is none that a run wrote."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        record = None
    parts = ("settings", "agents", "languages", "contexts")
    if not isinstance(record, dict) or not all(part in record for part in parts):
        raise MedalError(
            f"{path} is no record of medal generate, so its folder is left alone",
            hint="give another folder with out=DIR, or take the file away yourself",
        )
    return record


def _require_same(folder: Path, there: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise MedalError where ``now`` would make other dialogues than those that stand there.

    Chatbots, languages and contexts may be added, none may change or go.
    """
    problems = [
        f"{name}: {there['settings'].get(name)!r} there, {value!r} now"
        for name, value in now["settings"].items()
        if there["settings"].get(name) != value
    ]
    for agent, model in there["agents"].items():
        if agent not in now["agents"]:
            problems.append(f"{agent} is not in the config any more")
        elif now["agents"][agent] != model:
            problems.append(f"{agent}: {model!r} there, {now['agents'][agent]!r} now")
    for name in ("languages", "contexts"):
        here = set(now[name])
        missing = [each for each in there[name] if each not in here]
        if missing:
            problems.append(f"{name}: {len(missing)} are not in this run any more: {missing[0]}")
    moved = _moved(there["contexts"], now["contexts"])
    if moved:
        problems.append(f"contexts: {len(moved)} have another country now: {moved[0]}")
    if problems:
        listed = "\n    ".join(problems)
        raise MedalError(
            f"{folder} was made with other settings:\n    {listed}",
            hint="give another out, or begin anew with --overwrite",
        )


def _moved(there: Any, now: dict[str, str]) -> list[str]:
    """Contexts whose country is another now; it is no part of their names."""
    if not isinstance(there, dict):
        return []
    return [
        f"{id}: {country!r} there, {now[id]!r} now"
        for id, country in there.items()
        if now.get(id, country) != country
    ]


def _replace(path: Path, text: str) -> None:
    beside = path.with_name(f".new-{path.name}")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)
