"""How the time to read a hostile answer grows with its length:

    PYTHONPATH=src:. python benchmarks/reading.py

Each line is a kind of text with the milliseconds at 2,500, 5,000, 10,000 and 20,000 characters. A
linear reader doubles at each step.
"""

from __future__ import annotations

import time

from tests.attack.test_growth import ATOMS, WRAPS, _grown

from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.answers import AnswerField, AnswerShape, read_answers

WANTED = [AnswerField("overall", "overall", "overall", (1, 5))]
LENGTHS = (2_500, 5_000, 10_000, 20_000)


def milliseconds(text: str) -> float:
    started = time.perf_counter()
    read_answers(
        Completion(text), WANTED, AnswerShape(score="label", comment="comment")
    )
    return 1000 * (time.perf_counter() - started)


def main() -> None:
    worst = 0.0
    for i, atom in enumerate(ATOMS):
        took = [milliseconds(_grown(atom, WRAPS[i % len(WRAPS)], n)) for n in LENGTHS]
        worst = max(worst, took[-1])
        print(f"{atom!r:>22}", *(f"{each:8.1f}" for each in took))
    print(f"slowest at {LENGTHS[-1]} characters: {worst:.0f} ms")


if __name__ == "__main__":
    main()
