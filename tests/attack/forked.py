"""Commands in forked processes, which begin at once: for attacks by the hundred."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medal_judges.cli import command_of, main


@dataclass(frozen=True)
class Done:
    returncode: int
    stderr: str


def medal(
    words: Sequence[str],
    said: Path,
    *,
    first: Callable[[], object] = lambda: None,
    end: tuple[signal.Signals, float] | None = None,
) -> Done:
    """``medal`` in a process of its own, forked from this one, which has imported everything.
    ``first`` is called there before it; ``end``: a signal, and after how many seconds it comes."""
    command_of(words[0])  # its import, which pytest hooks into, is not to be ended half way
    child = os.fork()
    if not child:
        for kind in (signal.SIGINT, signal.SIGTERM):  # as a shell starts it
            signal.signal(kind, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        with said.open("w") as stream:
            os.dup2(stream.fileno(), 1)
            os.dup2(stream.fileno(), 2)
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__  # not what pytest put there
        sys.argv = ["medal", *words]
        code = 70
        try:
            first()
            main()
            code = 0
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            sys.stdout.flush()
            os._exit(code)
    if end is not None:
        time.sleep(end[1])
        os.kill(child, end[0])
    _, status = os.waitpid(child, 0)
    return Done(os.waitstatus_to_exitcode(status), said.read_text(errors="replace"))
