"""Everything that the package does on a GPU, measured in one command that needs no network.

    make gpu-check                                # nine minutes at most; run it again to go on
    python benchmarks/gpu/check.py [--only NAME ...] [--fresh] [--minutes 9] [--journal FILE]
    python benchmarks/gpu/check.py --small             # the same in a tiny form, on a CPU too
    python benchmarks/gpu/check.py --report            # the journal's table into docs/howto/gpu.md

Each check is a process of its own with a time limit, so that memory that runs out in one ends no
other. What is done stands in the journal (JSON lines) and is not done again on the same device with
the same versions, but with --fresh. Exit status: 0 all is well, 1 a number is wrong or a check
failed, 2 there is no GPU, 3 the time was up before the last check.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

if __name__ == "__main__":
    sys.path[:1] = [str(ROOT / place) for place in ("benchmarks", "tests", "src")]
    try:
        from gpu.driver import main
    except ModuleNotFoundError as error:
        print(
            f"gpu-check: {error.name} is not installed, see docs/howto/gpu.md",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.exit(main(__doc__ or ""))
