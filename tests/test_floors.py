"""The floors of the house: imports go down only, never in circles.

Imports inside functions and under TYPE_CHECKING count too.
"""

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = "medal_judges"
LINKED = ("models", "training", "data_prep", "inference", "eval")

# From the ground up; a module belongs to the longest prefix that fits, "" are the records.
FLOORS: tuple[tuple[str, ...], ...] = (
    ("", "configs"),
    ("records",),
    ("storage",),
    ("stats",),
    ("report", "reading"),
    ("models",),  # what language models and judges share
    ("models.llm",),
    ("models.llm.local", "models.llm.server", "models.llm.vllm"),
    ("models.llm.loading",),  # the front door of the three
    ("models.base",),
    (
        *(
            "models.encoder",
            "models.linear",
            "models.lora",
            "models.prompted",
        ),
        *("models.followup", "models.trained_metrics", "models.hybrid"),
    ),
    ("models.card",),
    ("inference",),
    ("inference.serving",),
    ("eval.metaeval",),
    ("data_prep",),
    ("eval",),
    ("training.arguments",),
    ("training.config",),
    ("training.rows",),
    ("training.family", "training.doubts", "training.held_out"),
    ("training.calibration", "training.validation"),
    ("training.checkpoints",),
    ("training.trainer",),
    ("training.steps",),
    ("training.families",),
    ("training",),  # the run itself, from rows to the saved judge
    ("training.run",),
    ("integrations",),
    ("cli",),
)
# Nobody imports these: they are where a process, or a user's import of the package, begins.
ENTRANCES = {"", "__main__", "inference.__main__", "training.train"}


def _modules() -> dict[str, Path]:
    """Every module of the package by its name without the package's own."""
    package = ROOT / "src" / PACKAGE
    files = [(path, path.relative_to(package)) for path in package.rglob("*.py")]
    for folder in LINKED:
        files += [
            (path, path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*.py")
        ]
    return {
        ".".join(relative.with_suffix("").parts)
        .removesuffix("__init__")
        .removesuffix("."): path
        for path, relative in files
    }


def _arrows(modules: Mapping[str, Path]) -> dict[str, set[str]]:
    """Which modules each module imports, anywhere in its file."""
    return {
        name: {
            target
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            for target in _targets(node, modules)
            if target != name
        }
        for name, path in modules.items()
    }


def _targets(node: ast.AST, modules: Mapping[str, Path]) -> Iterator[str]:
    if isinstance(node, ast.ImportFrom):
        assert not node.level, "imports are absolute"
        named = [(node.module or "", alias.name) for alias in node.names]
    elif isinstance(node, ast.Import):
        named = [(alias.name, "") for alias in node.names]
    else:
        return
    for module, name in named:
        if module.split(".")[0] != PACKAGE:
            continue
        base = module.removeprefix(PACKAGE).removeprefix(".")
        full = f"{base}.{name}".removeprefix(".").removesuffix(".")
        yield full if full in modules else base


def _floor(module: str) -> int:
    """The floor a module stands on."""
    best = ("", 0)
    for number, prefixes in enumerate(FLOORS):
        for prefix in prefixes:
            if (module == prefix or module.startswith(f"{prefix}.")) and len(
                prefix
            ) > len(best[0]):
                best = (prefix, number)
    return best[1]


def _room(module: str) -> str:
    """The folder a module lies in; a floor of a single module is a room of its own."""
    if any(module in prefixes for prefixes in FLOORS):
        return module
    return module.rpartition(".")[0]


def _circles(arrows: Mapping[str, set[str]]) -> list[list[str]]:
    """Strongly connected parts with more than one member (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        index[node] = low[node] = len(index)
        stack.append(node)
        for target in sorted(arrows.get(node, ())):
            if target not in index:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], index[target])
        if low[node] == index[node]:
            part = stack[stack.index(node) :]
            del stack[stack.index(node) :]
            if len(part) > 1:
                found.append(sorted(part))

    for node in sorted(arrows):
        if node not in index:
            visit(node)
    return found


@pytest.fixture(scope="module")
def arrows() -> dict[str, set[str]]:
    modules = _modules()
    assert len(modules) > 100
    drawn = _arrows(modules)
    return {name: targets for name, targets in drawn.items() if name not in ENTRANCES}


def test_imports_go_down(arrows: dict[str, set[str]]) -> None:
    up = sorted(
        f"{name} imports {target}"
        for name, targets in arrows.items()
        for target in targets
        if _floor(target) > _floor(name)
    )
    assert up == []


def test_nobody_imports_the_command_line(arrows: dict[str, set[str]]) -> None:
    outside = [name for name in arrows if not name.startswith("cli")]
    assert not [(a, b) for a in outside for b in arrows[a] if b.split(".")[0] == "cli"]


def test_no_circle_of_files(arrows: dict[str, set[str]]) -> None:
    assert _circles(arrows) == []


def test_no_circle_of_rooms(arrows: dict[str, set[str]]) -> None:
    rooms: dict[str, set[str]] = {}
    for name, targets in arrows.items():
        rooms.setdefault(_room(name), set()).update(_room(target) for target in targets)
    assert _circles({room: targets - {room} for room, targets in rooms.items()}) == []
