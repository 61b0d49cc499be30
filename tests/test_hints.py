"""Errors name options that the command has, or what the setting is in its YAML file."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from medal_judges.cli import COMMANDS, command_of

ROOT = Path(__file__).parent.parent
FOLDERS = ("src/medal_judges", "models", "training", "data_prep", "inference", "eval")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])")
END = r"(?:(?!; |: |, or |[(`]|medal [a-z]).)*"  # up to the end of the clause
FOREIGN = re.compile(rf"(?:pip install|hf download|accelerate launch){END}")


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """(line, text) of each string that is no docstring; ``{}`` stands for what is filled in."""
    if isinstance(tree, ast.JoinedStr):
        parts = [
            part.value if isinstance(part, ast.Constant) else "{}"
            for part in tree.values
        ]
        yield tree.lineno, "".join(map(str, parts))
        for part in tree.values:
            if isinstance(part, ast.FormattedValue):
                yield from texts(part.value)
        return
    if isinstance(tree, ast.Constant) and isinstance(tree.value, str):
        yield tree.lineno, tree.value
    for child in ast.iter_child_nodes(tree):
        is_statement = isinstance(child, ast.Expr) and isinstance(
            child.value, ast.Constant
        )
        if not is_statement:
            yield from texts(child)


def options() -> set[str]:
    """The options of all commands."""
    found = {"--debug", "--version", "--help"}
    for name in COMMANDS:
        command = command_of(name)
        for each in getattr(command, "commands", {"": command}).values():
            for parameter in each.params:
                found |= {*parameter.opts, *parameter.secondary_opts}
    return found


def test_an_error_names_options_that_a_command_has() -> None:
    wrong, count, known = [], 0, options()
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
                for option in OPTION.findall(FOREIGN.sub("", text)):
                    count += 1
                    if option not in known:
                        wrong.append(f"{path.relative_to(ROOT)}:{line}: {option}")
    assert not wrong, "\n".join(wrong)
    assert count > 100  # they were found
