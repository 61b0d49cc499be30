"""What keeps the house small: sizes of files and functions, class names, parameters without a type.

Counted over the package alone, tests left out.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
ROOMS = ("src", "models", "training", "data_prep", "inference", "eval", "configs")
FILE, FUNCTION, ANY = 400, 60, 80
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _files() -> set[Path]:
    # resolved: the links in src/medal_judges/ lead to the same files
    return {path.resolve() for room in ROOMS for path in (ROOT / room).rglob("*.py")}


def _nodes() -> Iterator[tuple[Path, ast.AST]]:
    for path in sorted(_files()):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            yield path, node


def test_a_file_is_one_concept() -> None:
    lines = {path: len(path.read_text(encoding="utf-8").splitlines()) for path in _files()}
    assert len(lines) > 100
    assert [f"{path}: {n}" for path, n in lines.items() if n > FILE] == []


def test_a_function_fits_a_screen() -> None:
    long = [
        f"{path}: {node.name}"
        for path, node in _nodes()
        if isinstance(node, Function) and (node.end_lineno or 0) - node.lineno >= FUNCTION
    ]
    assert long == []


def test_no_class_name_stands_for_two_things() -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for path, node in _nodes():
        if isinstance(node, ast.ClassDef):
            places[node.name].append(str(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}


def test_parameters_have_types() -> None:
    untyped = [
        f"{path}: {node.name}({argument.arg})"
        for path, node in _nodes()
        if isinstance(node, Function)
        for argument in ast.walk(node.args)
        if isinstance(argument, ast.arg) and _says_any(argument.annotation)
    ]
    assert len(untyped) <= ANY, "\n".join(sorted(untyped))


def _says_any(annotation: ast.expr | None) -> bool:
    if annotation is None:
        return False
    return any(isinstance(node, ast.Name) and node.id == "Any" for node in ast.walk(annotation))
