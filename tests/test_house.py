"""Room budgets: each room has a limit of lines outside tests, and so has the whole house.

A budget may move between rooms in a commit that says why. The sum may not grow: the aim is 45,000
lines, and each budget is what its room has.
"""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = "src/medal_judges"

# Room: lines. The longest prefix of a file's path decides its room.
BUDGETS = {
    f"{PACKAGE}/cli": 2150,
    f"{PACKAGE}/integrations": 749,
    "eval": 7936,
    "training": 4212,
    "data_prep": 7348,
    "inference": 2363,
    "models": 6688,
    "models/prompted": 2135,
    "models/llm": 3541,
    f"{PACKAGE}/report": 1215,
    f"{PACKAGE}/stats": 1964,
    f"{PACKAGE}/reading": 2557,
    PACKAGE: 2102,  # records/, storage/ and the modules at the root
}
HOUSE = 45_000
TESTS = 34_000


def _lines(*folders: str) -> dict[str, int]:
    """Lines of each Python file in ``folders``, by its path; skips the links in the package."""
    paths = {path for folder in folders for path in (ROOT / folder).rglob("*.py")}
    return {
        str(path.relative_to(ROOT)): len(path.read_text(encoding="utf-8").splitlines())
        for path in paths
        if path == path.resolve()
    }


def _room(path: str) -> str:
    return max((room for room in BUDGETS if path.startswith(f"{room}/")), key=len)


@pytest.fixture(scope="module")
def rooms() -> dict[str, int]:
    sizes = dict.fromkeys(BUDGETS, 0)
    for path, lines in _lines("src", *(room for room in BUDGETS if "/" not in room)).items():
        sizes[_room(path)] += lines
    return sizes


@pytest.mark.parametrize("room", BUDGETS)
def test_a_room_keeps_its_budget(room: str, rooms: dict[str, int]) -> None:
    assert 0 < rooms[room] <= BUDGETS[room]


def test_the_house_keeps_its_budget(rooms: dict[str, int]) -> None:
    assert sum(BUDGETS.values()) <= HOUSE
    assert sum(rooms.values()) <= HOUSE


def test_the_tests_keep_their_budget() -> None:
    assert sum(_lines("tests").values()) <= TESTS
