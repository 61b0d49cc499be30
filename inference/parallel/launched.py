"""Processes that ``accelerate launch`` or ``torchrun`` started: the first reads and writes, all of
them judge.

They meet once through torch.distributed, where the first tells the others its address and a key;
from then on they speak as a pool's own processes do. Who started them ends all where one dies.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from multiprocessing.connection import Client, Connection, Listener

from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.parallel.crew import JudgeProcess
from medal_judges.inference.parallel.places import worker_environments
from medal_judges.inference.parallel.worker import work

_WAIT = timedelta(minutes=10)  # until all machines have their processes


@dataclass(slots=True)
class Meeting:
    """The connections of the first process to the others, each with its name."""

    connections: dict[str, Connection]

    def others(self, choice: JudgeChoice, device: str | None) -> list[JudgeProcess]:
        """The others, which now load the judge of ``choice``."""
        level = logging.getLogger().getEffectiveLevel()
        for connection in self.connections.values():
            connection.send((choice, device, level))
        return [JudgeProcess(name, each) for name, each in self.connections.items()]


_MEETING: Meeting | None = None


def meeting() -> Meeting | None:
    """The meeting of this process's launch, None where it was not launched with others."""
    return _MEETING


def meet() -> bool:
    """Meet the processes that were launched with this one; True for the one that reads and writes.

    The others judge here until it ends, and return False.
    """
    world = int(os.environ.get("WORLD_SIZE", "1"))
    if world == 1:
        return True
    rank = int(os.environ["RANK"])
    if rank == 0:
        _invite(world)
        return True
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the first process decides
    address, key = _told(None)
    with Client(address, authkey=key) as connection:
        connection.send(f"process {rank} on {socket.gethostname()}")
        with suppress(EOFError, OSError):
            choice, device, level = connection.recv()
            os.environ.update(own_environment(device))
            _set_threads()
            work(connection, choice, level)
    return False


def _invite(world: int) -> None:
    global _MEETING
    key = secrets.token_bytes(32)
    host = os.environ.get("MASTER_ADDR", "127.0.0.1")
    with Listener((host, 0), backlog=world, authkey=key) as listener:
        _told((listener.address, key))
        connections = {}
        for _ in range(world - 1):
            connection = listener.accept()
            connections[connection.recv()] = connection
    _MEETING = Meeting(connections)


def _told(told: object) -> tuple[tuple[str, int], bytes]:
    """What the first process tells all the others."""
    from torch import distributed

    distributed.init_process_group("gloo", timeout=_WAIT)
    box = [told]
    distributed.broadcast_object_list(box, src=0)
    distributed.destroy_process_group()
    return box[0]  # type: ignore[return-value]


def own_environment(device: str | None) -> dict[str, str]:
    """See worker_environments: of this process among those of its machine."""
    local = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return worker_environments(local, device)[int(os.environ.get("LOCAL_RANK", "0"))]


def _set_threads() -> None:
    """Torch is loaded already, and took its threads from what the launcher said, if anything."""
    import torch

    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
