"""Commands in processes forked from this one, which has imported everything: they begin at once.
Everything else about them is real: exit status, signals, streams, files."""

import gc
import logging
import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from subprocess import CompletedProcess, TimeoutExpired
from tempfile import TemporaryFile
from typing import Any

from medal_judges.cli import COMMANDS, load_command, main
from medal_judges.records.judgement import Judgement


class Forked:
    """``work()`` in such a process, with Popen's methods; ``env`` is put over the environment."""

    def __init__(
        self,
        work: Callable[[], object],
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> None:
        self.returncode: int | None = None
        self.files = [TemporaryFile() for _ in range(3)]  # noqa: SIM115
        self.files[0].write(stdin)
        self.files[0].seek(0)
        self.pid = os.fork()
        if not self.pid:
            self._run(work, env or {})

    def _run(self, work: Callable[[], object], env: Mapping[str, str]) -> None:
        code = 1
        try:
            gc.freeze()  # a collection would copy the parent's memory
            # as a shell starts it
            signal.signal(signal.SIGINT, signal.default_int_handler)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            for number, file in enumerate(self.files):
                os.dup2(file.fileno(), number)
            sys.stdin = open(0, closefd=False)  # noqa: SIM115
            sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
            sys.stderr = open(2, "w", buffering=1, closefd=False)  # noqa: SIM115
            logging.getLogger().handlers.clear()  # pytest's
            if "torch" in sys.modules:  # a pool of threads does not survive a fork
                sys.modules["torch"].set_num_threads(1)
            sys.meta_path[:] = [
                f for f in sys.meta_path if "assertion" not in type(f).__module__
            ]
            os.environ |= env
            work()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            for stream in (sys.stdout, sys.stderr):
                try:
                    stream.flush()
                except OSError:
                    code = code or 1
            os._exit(code)

    def said(self, stream: int) -> str:
        """What it has written to 1 or 2."""
        return os.pread(self.files[stream].fileno(), 1 << 27, 0).decode(
            errors="replace"
        )

    def poll(self, how: int = os.WNOHANG) -> int | None:
        if self.returncode is None and (status := os.waitpid(self.pid, how))[0]:
            self.returncode = os.waitstatus_to_exitcode(status[1])
        return self.returncode

    def wait(self, timeout: float = 120) -> int:
        end = time.monotonic() + timeout
        while self.poll() is None:
            if time.monotonic() > end:
                raise TimeoutExpired(str(self.pid), timeout)
            time.sleep(0.002)
        assert self.returncode is not None
        return self.returncode

    def communicate(self, timeout: float = 120) -> tuple[str, str]:
        self.wait(timeout)
        return self.said(1), self.said(2)

    def send_signal(self, kind: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, kind)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    *words: object,
    first: Callable[[], object] = lambda: None,
    env: Mapping[str, str] | None = None,
    stdin: bytes = b"",
) -> Forked:
    """``medal`` with these words; ``first`` is called in its process before it."""
    if words[0] in COMMANDS:
        load_command(str(words[0]))  # a signal is not to come during its import

    def work() -> None:
        sys.argv = ["medal", *map(str, words)]
        first()
        main()

    return Forked(work, env, stdin)


def medal(
    *words: object, end: tuple[signal.Signals, float] | None = None, **how: Any
) -> CompletedProcess[str]:
    """``start`` to its end. ``end``: a signal, and after how many seconds it comes."""
    process = start(*words, **how)
    if end is not None:
        time.sleep(end[1])
        process.send_signal(end[0])
    out, err = process.communicate()
    assert process.returncode is not None
    return CompletedProcess(list(words), process.returncode, out, err)


def score_slowly() -> None:
    """Makes scoring take a millisecond a judgement, so that a signal comes before its end on any
    CPU: to be called in the process."""
    from medal_judges.inference.scoring import ScoreOptions

    score = ScoreOptions.score

    def slow_score(*arguments: Any) -> Iterator[Judgement]:
        for judgement in score(*arguments):
            time.sleep(0.001)
            yield judgement

    ScoreOptions.score = slow_score  # type: ignore[method-assign]
