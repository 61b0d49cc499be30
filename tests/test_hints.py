"""Errors name options that the command has, or what the setting is in its YAML file."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

from medal_judges.cli import COMMANDS, command_of

from .forked import medal

ROOT = Path(__file__).parent.parent
FOLDERS = ("src/medal_judges", "models", "training", "data_prep", "inference", "eval")
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z](?![\w-])")
# A command line, up to the end of the clause.
END = r"(?:(?!; |: |, or |[(`]|medal [a-z]).)*"
COMMAND = re.compile(rf"medal ([a-z]+)(?: ([a-z-]+))?{END}")
FOREIGN = re.compile(rf"(?:pip install|hf download|accelerate launch){END}")
JOINED = ('--role "{}={}"',)  # dialogues.py adds what it is in YAML


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


def options_by_command() -> dict[str, set[str]]:
    """Command -> its options; that of a group has those of all its commands."""
    options: dict[str, set[str]] = {}

    def add(name: str, command: Any) -> set[str]:
        options[name] = {
            o for p in command.params for o in (*p.opts, *p.secondary_opts)
        }
        for word, inner in getattr(command, "commands", {}).items():
            options[name] |= add(f"{name} {word}", inner)
        return options[name]

    for name in COMMANDS:
        add(name, command_of(name))
    return {name: own | {"--debug", "--version"} for name, own in options.items()}


OPTIONS = options_by_command()
READERS = {
    name
    for name, options in OPTIONS.items()
    if "--column" in options and name != "data"
}
# Where an error can be raised: the commands that reach the module. Those of cli/NAME.py are NAME.
REACHED_BY: dict[str, set[str]] = {
    "src/medal_judges/reading/": READERS | {"train", "benchmark"},
    "src/medal_judges/storage/": {"score", "label", "generate", "data translate"},
    "models/llm/cost.py": {
        "score",
        "label",
        "benchmark",
        "generate",
        "train",
        "trial",
        "align",
    },
    "training/": {"train"},
    "models/card/": {"push"},
    "data_prep/labelling.py": {"label"},
    "data_prep/translation.py": {"data translate"},
    "data_prep/jobs.py": {"data translate", "generate", "label"},
    "data_prep/generation/": {"generate"},
    "data_prep/annotation/project.py": {"annotate export"},
    "data_prep/sources/": {"agreement"},
    "data_prep/annotation/answers.py": {"annotate import"},
    "data_prep/corpus_stats/": {"data stats"},
    "models/base/hub.py": {"push"},
    "models/base/golden.py": {"doctor"},
    "inference/": {"score"},
    "inference/judge_choice.py": {"score", "label"},
    "inference/serving/": {"serve"},
    "eval/align/": {"align"},
    "eval/report/": {"report"},
    "eval/scores/": {"report"},
    "eval/benchmark/": {"benchmark"},
    "eval/comparison/": {"compare"},
    "eval/trial/": {"trial"},
}
# Where an option is named and no command line is told to have it.
ELSEWHERE = {
    "src/medal_judges/cli/__init__.py": "the options of medal itself",
    "src/medal_judges/cli/options.py": "makes options",
    "src/medal_judges/cli/configs.py": "says which option takes a folder's configs",
    "src/medal_judges/integrations/pytest_plugin.py": "options of pytest",
    "src/medal_judges/reading/roles.py": "dialogues.py adds what the option is in YAML",
}


def reached_by(module: str) -> set[str]:
    """The commands that reach a module, by the longest entry that fits."""
    name = Path(module).stem.replace("data_translate", "data translate")
    if module.startswith("src/medal_judges/cli/") and name in OPTIONS:
        return {name}
    fitting = [prefix for prefix in REACHED_BY if module.startswith(prefix)]
    return REACHED_BY[max(fitting, key=len)] if fitting else set()


def lacking(module: str, text: str) -> list[str]:
    """The options in ``text`` that the command it names, or one that reaches the module, lacks."""
    wrong = []

    def check(named: re.Match[str]) -> str:
        command = f"{named[1]} {named[2]}"
        command = command if command in OPTIONS else named[1]
        for option in OPTION.findall(named[0]):
            if option not in OPTIONS.get(command, set()):
                wrong.append(f"medal {command} has no {option}")
        return ""

    # its name alone, for a command that has it
    if OPTION.fullmatch(text) or text in JOINED:
        return []
    rest = COMMAND.sub(check, FOREIGN.sub("", text))
    for option in OPTION.findall(rest):
        commands = reached_by(module)
        if not commands:
            wrong.append(f"{option}: say in REACHED_BY which commands reach {module}")
        for command in sorted(commands):
            has_file = {"--config", "--columns"} & OPTIONS[command]
            is_named = bool(has_file) and "in YAML: " in text
            is_named |= option == "--strict"  # only a command that has it can be strict
            if option not in OPTIONS[command] and not is_named:
                wrong.append(f"medal {command} has no {option}")
    return wrong


def test_an_error_names_options_that_its_command_has() -> None:
    wrong, count = [], 0
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            module = path.relative_to(ROOT).as_posix()
            if module in ELSEWHERE:
                continue
            for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
                count += bool(OPTION.search(text))
                wrong += [
                    f"{module}:{line}: {fault}" for fault in lacking(module, text)
                ]
    assert not wrong, "\n".join(wrong)
    assert count > 150  # they were found


def test_a_hint_says_what_an_option_is_in_yaml(tmp_path: Path) -> None:
    """The words that it says, put into the file, are what was missing."""
    chats = (
        "conversation,role,content,score\n"
        "1,Kunde,hello,3\n1,Bot,hi,3\n2,Kunde,so,4\n2,Bot,no,4\n"
    )
    (tmp_path / "chats.csv").write_text(chats)
    source = f"train: [{{source: {tmp_path / 'chats.csv'}, columns: COLUMNS}}]\n"
    config = "name: a\nrubric: overall\nmodel: {family: linear, vectors: false, features: [copy]}\n"
    config += f"output_dir: {tmp_path / 'judge'}\n{source}"
    path = tmp_path / "train.yaml"

    def train(columns: str) -> CompletedProcess[str]:
        path.write_text(config.replace("COLUMNS", columns))
        return medal("train", "--config", path)

    refused = train("{labels: {score: 'overall:1..5'}}")
    assert refused.returncode == 2
    assert "--role (in YAML: format, columns, columns.roles)" in refused.stderr
    assert "--strict" not in refused.stderr
    trained = train(
        "{labels: {score: 'overall:1..5'}, roles: {Kunde: user, Bot: assistant}}"
    )
    assert trained.returncode == 0, trained.stderr
    scored = medal("score", tmp_path / "chats.csv", "--judge", "length", "--strict")
    assert (
        scored.returncode == 2
        and "without --strict bad rows are skipped" in scored.stderr
    )
    (tmp_path / "columns.yaml").write_text("labels: {score: 'overall:1..'}\n")
    words = ("--columns", tmp_path / "columns.yaml", "--judge", "length")
    labelled = medal("score", tmp_path / "chats.csv", *words)
    assert "(in YAML: score: overall:1..5)" in labelled.stderr
