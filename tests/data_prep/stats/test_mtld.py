"""MTLD against the definition written out plainly, and against the package of the paper."""

import random
import sys
import types
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path

import pytest

from medal_judges.data_prep.corpus_stats.tokens import mtld


def plain(tokens: Sequence[str]) -> float | None:
    """McCarthy and Jarvis (2010), from the text: walk on until the ratio of types to tokens falls
    under 0.72, count a factor and begin anew; the rest counts for how far its ratio has come."""

    def walk(text: Sequence[str]) -> float | None:
        factors, start = 0.0, 0
        for end in range(1, len(text)):
            piece = text[start:end]
            if len(piece) >= 10 and len(set(piece)) / len(piece) < 0.72:
                factors, start = factors + 1, end
        rest = text[start:]
        if rest:
            factors += (1 - len(set(rest)) / len(rest)) / (1 - 0.72)
        return len(text) / factors if factors else None

    there, back = walk(tokens), walk(tokens[::-1])
    return None if there is None or back is None else (there + back) / 2


def texts(count: int) -> list[list[str]]:
    rng = random.Random(7)
    sizes = [
        (rng.randint(0, 300), rng.choice([2, 10, 50, 300, 5000])) for _ in range(count)
    ]
    return [[str(int(rng.paretovariate(0.8)) % k) for _ in range(n)] for n, k in sizes]


def test_equals_the_definition() -> None:
    for text in texts(300):
        expected = plain(text)
        assert mtld(text) == (
            expected if expected is None else pytest.approx(expected)
        ), text


@pytest.fixture
def package(monkeypatch: pytest.MonkeyPatch) -> Callable[[list[str]], float]:
    """``lexical_diversity.lex_div.mtld``. Its module asks pkg_resources, which setuptools has no
    longer, where its word list lies; that one question is answered here."""
    spec = find_spec("lexical_diversity")
    if spec is None or not spec.submodule_search_locations:
        pytest.skip("lexical-diversity is not installed")
    folder = Path(spec.submodule_search_locations[0])
    stub = types.ModuleType("pkg_resources")
    stub.resource_filename = lambda _, name: str(folder / name)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pkg_resources", stub)
    from lexical_diversity import lex_div

    return lex_div.mtld  # type: ignore[no-any-return]


def test_equals_the_package_of_the_paper(package: Callable[[list[str]], float]) -> None:
    for text in texts(300):
        # the package says 0 where nothing is defined, and None is right
        assert (mtld(text) or 0) == package(text), text
