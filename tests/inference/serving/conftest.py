"""``medal serve`` as a process of its own on loopback, and a judge with weights to serve."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi", reason="the server is in the extra serve")

from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric

from ...forked import start
from ...linear_judges import random_judge
from ...talks import spoken


class Served:
    """A running ``medal serve``: its address, and what it has written."""

    def __init__(
        self, words: list[str], environment: Mapping[str, str], log: Path
    ) -> None:
        self.log = log

        def write_to_log() -> None:
            with log.open("a") as stream:
                os.dup2(stream.fileno(), 1)
                os.dup2(stream.fileno(), 2)
            # PR_SET_PDEATHSIG: ended with pytest
            ctypes.CDLL(None).prctl(1, signal.SIGKILL)

        log.touch()
        self.process = start("serve", *words, first=write_to_log, env=environment)
        self.address = self._address()

    def _address(self) -> str:
        for _ in range(600):
            if found := re.findall(r"serving .* on (http://\S+)", self.log.read_text()):
                return str(found[-1])
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise AssertionError(self.log.read_text())

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    def stop(self, kind: int = signal.SIGTERM) -> int:
        """The exit code after a signal."""
        self.process.send_signal(kind)
        return self.process.wait(timeout=60)


Start = Callable[..., Served]


@pytest.fixture(name="start")
def starting(tmp_path: Path) -> Iterator[Start]:
    """``start(*words, **environment)`` runs ``medal serve`` with these words, on a free port unless
    they name one."""
    running: list[Served] = []

    def begin(*words: str, **environment: str) -> Served:
        port = [] if "--port" in words else ["--port", "0"]
        log = tmp_path / f"server{len(running)}.log"
        running.append(Served([*words, *port], environment, log))
        return running[-1]

    yield begin
    for each in running:
        if each.process.poll() is None:
            each.process.kill()
            each.process.wait()


@pytest.fixture(scope="module")
def judge_folder(tiny_bert: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved linear judge with random heads, made for English."""
    judge = random_judge(tiny_bert, load_rubric("medal"))
    return judge.save_pretrained(tmp_path_factory.mktemp("served") / "judge")


def talk(number: int, turns: int = 4, **more: Any) -> Dialogue:
    """A dialogue of its own words and length."""
    words = ("music", "film", "garden", "train", "bread", "river", "winter", "coffee")
    texts = [
        " ".join(words[(number * 3 + k * j) % 8] for j in range(1 + (number + k) % 7))
        for k in range(turns)
    ]
    return Dialogue(more.pop("id", f"chat-{number}"), spoken(*texts), lang="en", **more)
