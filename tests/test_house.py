"""The house stays readable: limits of what must be understood, measured by tests/readability.py.

A limit may only fall; that of tokens rises by what a feature may cost, stated before it is written.
White space, docstrings and comments are free.
"""

from __future__ import annotations

import pytest
from tests.readability import Figures, measure

# Figure: its limit. The goal of each is in the comment.
LIMITS = {
    "tokens": 361_950,  # 300,000
    "density": 8.2,  # 7.5
    "vague": 0.2,  # 0.3
    "branchy_functions": 4,  # 40
    "most_branches": 19,  # 25
    "comprehensions_per_thousand": 35.0,  # 35
    "ternaries_per_thousand": 8.2,  # 15
    "used_once": 22,  # 10
}


@pytest.fixture(scope="module")
def figures() -> Figures:
    return measure()


@pytest.mark.parametrize("figure", LIMITS)
def test_a_figure_stays_below_its_limit(figure: str, figures: Figures) -> None:
    assert 0 < getattr(figures, figure) <= LIMITS[figure]


def test_what_is_free_and_what_counts() -> None:
    from tests.readability import _add_file

    plain = Figures()
    _add_file(
        plain,
        "eval/a.py",
        'def double(number):\n    """Twice."""\n    return 2 * number\n',
    )
    assert (plain.tokens, plain.code_lines, plain.vague) == (10, 2, 0)

    dense = Figures()
    _add_file(
        dense, "eval/b.py", "own = [each if each else 0 for each in (1, 2) if each]\n"
    )
    assert dense.vague == 100
    assert (dense.comprehensions, dense.ternaries) == (1, 1)
