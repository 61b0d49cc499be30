"""``medal`` as it is typed, in this process: with its real errors and exit codes."""

from __future__ import annotations

import io
import sys
from contextlib import redirect_stderr, redirect_stdout
from typing import NamedTuple

from medal_judges.cli import main


class Done(NamedTuple):
    """A command that has ended: its exit code, and what it wrote."""

    code: int
    out: str
    err: str


def medal(*words: object, stdin: bytes = b"") -> Done:
    """Runs ``medal`` in this process, from its ``main``: with the real errors and exit codes."""
    typed = [str(word) for word in words]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    before = sys.argv, sys.stdin
    sys.argv, sys.stdin = (
        ["medal", *typed],
        io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8"),
    )
    code = 0
    try:
        with redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 1
    finally:
        sys.argv, sys.stdin = before
    return Done(code, _written(out), _written(err))


def works(*words: object, stdin: bytes = b"") -> Done:
    """``medal`` for a command line that has to work."""
    done = medal(*words, stdin=stdin)
    assert done.code == 0, (words, done)
    return done


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    buffer = stream.buffer
    assert isinstance(buffer, io.BytesIO)
    return buffer.getvalue().decode()
