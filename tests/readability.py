"""How much there is to understand: figures that tests/test_house.py holds.

    python tests/readability.py [FOLDER ...]

Docstrings, comments and white space are free; names, operators, numbers and strings count.
"""

from __future__ import annotations

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
SKIPPED_FOLDERS = {"tests", "benchmarks", "docs", ".ci", "examples"}
TEMPLATE_ENDINGS = (".html", ".css", ".js", ".xml", ".svg", ".tex")
BASE = "records, storage, config, errors"
ROOMS = {
    "data": ("src/medal_judges/reading", "data_prep/sources", "data_prep/perturbation"),
    "models": ("models/",),
    "inference": ("inference/",),
    "training": ("training/",),
    "eval": ("eval/",),
    "stats": ("src/medal_judges/stats",),
    "report": ("src/medal_judges/report",),
    "cli": ("src/medal_judges/cli",),
    "integrations": ("src/medal_judges/integrations",),
    "data_prep": ("data_prep/",),
}
MANY_BRANCHES = 15
SHORT_FUNCTION = 6  # lines

# Names that say only "the thing at hand".
VAGUE_WORDS = """
each own found known given place one mine both two rest other others whom told asked
said kept taken met seen held done wanted shown stated counted listed ordered ranked
judged read_ stuff thing things piece it that what which such same all_ some more most
less least here there now then ones plain bare whole single inner outer
"""
VAGUE_NAMES = frozenset(VAGUE_WORDS.split())

_FSTRING_START = getattr(tokenize, "FSTRING_START", -1)
_FSTRING_END = getattr(tokenize, "FSTRING_END", -1)
_COUNTED_TOKENS = {
    tokenize.NAME,
    tokenize.OP,
    tokenize.NUMBER,
    tokenize.STRING,
    _FSTRING_START,
}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_BRANCHES = (
    *(ast.If, ast.For, ast.AsyncFor, ast.While, ast.IfExp),
    *(ast.ExceptHandler, ast.Assert),
)


@dataclass
class Figures:
    """Counts over files; the properties are the figures that have limits."""

    tokens: int = 0
    code_lines: int = 0
    names: int = 0
    comprehensions: int = 0
    ternaries: int = 0
    vague_names: Counter[str] = field(default_factory=Counter)
    # of a function, by "file:line name"
    branches: dict[str, int] = field(default_factory=dict)
    # name, lines
    private_functions: list[tuple[str, int]] = field(default_factory=list)
    uses: Counter[str] = field(default_factory=Counter)
    tokens_by_room: Counter[str] = field(default_factory=Counter)

    @property
    def density(self) -> float:
        """Tokens in a line of code."""
        return self.tokens / max(1, self.code_lines)

    @property
    def vague(self) -> float:
        """Share of assigned names that are vague, in percent."""
        return 100 * self.vague_names.total() / max(1, self.names)

    @property
    def branchy_functions(self) -> int:
        return sum(count > MANY_BRANCHES for count in self.branches.values())

    @property
    def most_branches(self) -> int:
        return max(self.branches.values(), default=0)

    @property
    def comprehensions_per_thousand(self) -> float:
        return 1000 * self.comprehensions / max(1, self.code_lines)

    @property
    def ternaries_per_thousand(self) -> float:
        return 1000 * self.ternaries / max(1, self.code_lines)

    @property
    def used_once(self) -> int:
        """Short private functions that one place alone uses."""
        return sum(
            self.uses[name] == 1 and lines < SHORT_FUNCTION
            for name, lines in self.private_functions
        )


def measure(root: Path = ROOT, folders: Sequence[str] = ()) -> Figures:
    """Returns the figures of the tracked Python files outside tests and benchmarks."""
    figures = Figures()
    for name in _tracked_files(root):
        if not folders or name.startswith(tuple(folders)):
            _add_file(figures, name, (root / name).read_text(encoding="utf-8"))
    return figures


def _listing(root: Path, pattern: str) -> list[str]:
    command = ["git", "-C", str(root), "ls-files", pattern]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def _tracked_files(root: Path) -> Iterator[str]:
    for name in _listing(root, "*.py"):
        path = root / name
        is_source = path.is_file() and not path.is_symlink()
        if is_source and name.split("/")[0] not in SKIPPED_FOLDERS:
            yield name


def _room(name: str) -> str:
    """Returns the room of a file, as the budget of tests/test_house.py names it."""
    for room, starts in ROOMS.items():
        if name.startswith(starts):
            return room
    return BASE


def surface(root: Path = ROOT) -> Counter[str]:
    """Returns how much a person must know: keys and classes of configs, lines of tests, benchmarks,
    examples and YAML, words of the documents, bytes of templates, tokens of docs/*.py."""
    counts: Counter[str] = Counter()
    trees = []
    for name in _listing(root, "*"):
        path = root / name
        if path.is_symlink() or not path.is_file():
            continue
        top = name.split("/")[0]
        if name.endswith(".py"):
            text = path.read_text(encoding="utf-8")
            counts[f"{top}_lines"] += text.count("\n")
            if top == "docs":
                counts["docs_tokens"] += _tokens_by_line(text, set()).total()
            if top not in SKIPPED_FOLDERS:
                trees.append(ast.parse(text))
        elif name.startswith("configs/") and name.endswith(".yaml"):
            counts["yaml_lines"] += path.read_text(encoding="utf-8").count("\n")
        elif name.endswith(".md") and (top == "docs" or "/" not in name):
            counts["doc_words"] += len(path.read_text(encoding="utf-8").split())
        elif top != "tests" and name.endswith(TEMPLATE_ENDINGS):
            counts["template_bytes"] += path.stat().st_size
    keys = _config_keys(trees)
    counts["keys"], counts["configs"] = sum(keys.values()), len(keys)
    return counts


def _config_keys(trees: Sequence[ast.Module]) -> dict[str, int]:
    """Returns the number of fields of each class that derives from Config, options left out."""
    bases, fields = {}, {}
    for tree in trees:
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                bases[node.name] = {
                    ast.unparse(base).split("[")[0].split(".")[-1]
                    for base in node.bases
                }
                fields[node.name] = sum(map(_is_key, node.body))
    configs = {"Config"}
    while grown := {c for c, own in bases.items() if own & configs} - configs:
        configs |= grown
    return {name: fields[name] for name in configs - {"Config"}}


def _is_key(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.AnnAssign):
        return False
    value = statement.value
    is_option = isinstance(value, ast.Call) and ast.unparse(value.func) == "option"
    is_constant = isinstance(value, ast.Name) and value.id.isupper()
    is_of_class = "ClassVar" in ast.unparse(statement.annotation)
    return not (is_option or is_constant or is_of_class)


def _add_file(figures: Figures, name: str, text: str) -> None:
    tree = ast.parse(text)
    tokens_by_line = _tokens_by_line(text, _docstring_lines(tree))
    figures.tokens += tokens_by_line.total()
    figures.code_lines += len(tokens_by_line)
    figures.tokens_by_room[_room(name)] += tokens_by_line.total()
    for node in ast.walk(tree):
        _add_node(figures, name, node)


def _docstring_lines(tree: ast.Module) -> set[int]:
    lines = set()
    for node in ast.walk(tree):
        if (
            not isinstance(node, (ast.Module, ast.ClassDef, *_FUNCTIONS))
            or not node.body
        ):
            continue
        first = node.body[0]
        if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
            lines.add(first.value.lineno)
    return lines


def _tokens_by_line(text: str, docstring_lines: set[int]) -> Counter[int]:
    counts: Counter[int] = Counter()
    depth = 0  # of f-strings, which Python 3.12 and newer cut into tokens: each is one string
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        line = token.start[0]
        if token.type == _FSTRING_END:
            depth -= 1
            continue
        if depth:
            depth += token.type == _FSTRING_START
            continue
        depth += token.type == _FSTRING_START
        is_docstring = token.type == tokenize.STRING and line in docstring_lines
        if token.type in _COUNTED_TOKENS and not is_docstring:
            counts[line] += 1
    return counts


def _add_node(figures: Figures, file: str, node: ast.AST) -> None:
    figures.comprehensions += isinstance(node, ast.comprehension)
    figures.ternaries += isinstance(node, ast.IfExp)
    if isinstance(node, ast.Name):
        figures.uses[node.id] += 1
        if isinstance(node.ctx, ast.Store):
            _add_assigned(figures, node.id)
    elif isinstance(node, ast.Attribute):
        figures.uses[node.attr] += 1
    elif isinstance(node, ast.arg):
        _add_assigned(figures, node.arg)
    elif isinstance(node, _FUNCTIONS):
        figures.branches[f"{file}:{node.lineno} {node.name}"] = _complexity(node)
        if node.name.startswith("_") and not node.name.startswith("__"):
            lines = (node.end_lineno or node.lineno) - node.lineno + 1
            figures.private_functions.append((node.name, lines))


def _add_assigned(figures: Figures, name: str) -> None:
    figures.names += 1
    if name in VAGUE_NAMES:
        figures.vague_names[name] += 1


def _complexity(function: ast.AST) -> int:
    """Returns the cyclomatic complexity of ``function``, a comprehension counted as a loop."""
    total = 1
    for node in ast.walk(function):
        if isinstance(node, _BRANCHES):
            total += 1
        elif isinstance(node, ast.BoolOp):
            total += len(node.values) - 1
        elif isinstance(node, ast.comprehension):
            total += 1 + len(node.ifs)
    return total


if __name__ == "__main__":
    measured = measure(folders=sys.argv[1:])
    print(f"tokens {measured.tokens:,}")
    for room, tokens in measured.tokens_by_room.most_common():
        print(f"  {room} {tokens:,}")
    for name, count in sorted(surface().items()):
        print(f"{name} {count:,}")
    print(f"density {measured.density:.2f}")
    print(f"vague {measured.vague:.2f}%: {measured.vague_names.most_common(10)}")
    print(f"comprehensions {measured.comprehensions_per_thousand:.1f} a 1,000 lines")
    print(f"ternaries {measured.ternaries_per_thousand:.1f} a 1,000 lines")
    print(f"used once {measured.used_once}")
    print(f"functions above {MANY_BRANCHES} branches: {measured.branchy_functions}")
    worst = sorted(measured.branches.items(), key=lambda pair: -pair[1])
    for function, count in worst[:10]:
        print(f"  {count} {function}")
