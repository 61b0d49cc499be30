"""What README.md and the pages of docs/ show is what their commands print."""

import os
from pathlib import Path

import pytest

from .walks import NEEDS_DATA, NUMBERS_VARY, TOLD, run_walk, steps

# README's in the suite, the others with the slow ones: a walk starts ten processes.
WALKED = [TOLD[0], *(pytest.param(walk, marks=pytest.mark.slow) for walk in TOLD[1:])]


@pytest.mark.parametrize("walk", WALKED, ids=lambda walk: walk.stem)
def test_the_walk_shows_what_its_commands_print(walk: Path) -> None:
    text = walk.read_text(encoding="utf-8")
    if NEEDS_DATA in text and not os.environ.get("MEDAL_JUDGES_DATA"):
        pytest.skip("set MEDAL_JUDGES_DATA to the folder of the sets")
    told = steps(text)
    assert told
    for before, now in zip(told, run_walk(walk), strict=True):
        if NUMBERS_VARY in text:
            assert now.words == before.words, before.command
        else:
            assert now.lasting == before.lasting, before.command
