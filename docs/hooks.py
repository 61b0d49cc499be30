"""What mkdocs adds to the pages: the reference, from the commands' own help and from docstrings.

Nothing of it is a file in docs/, so that it cannot grow stale: ``on_config`` puts the section into
the navigation, ``on_files`` makes its pages. Texts of commands and options are the ones that
``medal COMMAND --help`` shows.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from typer.main import get_command

import medal_judges
from medal_judges.cli import JOBS, app

# Title of a page -> the names on it, by what they are for; every public name stands on one.
PYTHON = {
    "Dialogues and labels": ["Dialogue", "Turn", "Dimension", "Rating", "LabelledDialogue"],
    "Reading files": ["read_dialogues", "read_judgements"],
    "Judges": ["Judge"],
    "Judgements": ["Judgement", "Judgements", "Signature"],
    "Scoring files": ["score_file", "ScoreOptions"],
    "Training": ["train"],
    "Benchmark and comparison": ["benchmark", "compare", "CompareOptions"],
    "Errors": [name for name in medal_judges.__all__ if name.endswith("Error")],
}
# Beyond `medal_judges` itself: what other pages speak of.
BESIDE = {
    "Client of medal serve": ["medal_judges.client"],
    "Settings of a training": ["medal_judges.training.config"],
    "Settings of a language model": ["medal_judges.models.llm.settings"],
    "Language models: the protocol": ["medal_judges.models.llm.protocol"],
}
_FENCE = re.compile(r"``([^`]+)``")


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


def python_pages() -> dict[str, str]:
    """Path -> text of the reference from docstrings; mkdocstrings fills it in."""
    modules = medal_judges._PUBLIC
    lacking = set(modules) - {name for names in PYTHON.values() for name in names}
    if lacking:
        raise ValueError(f"docs/hooks.py: no page of the reference has {sorted(lacking)}")
    pages = {
        f"reference/python/{_slug(title)}.md": f"# {title}\n\n"
        + "\n".join(f"::: medal_judges.{modules[name]}.{name}\n" for name in names)
        for title, names in PYTHON.items()
    }
    for title, paths in BESIDE.items():
        blocks = "\n".join(
            f"::: {path}\n    options: {{show_root_heading: false, members_order: source}}\n"
            for path in paths
        )
        pages[f"reference/python/{_slug(title)}.md"] = f"# {title}\n\n{blocks}"
    return pages


def command_pages() -> dict[str, str]:
    """Path -> text of the reference of commands, one page a command of ``medal``."""
    root = get_command(app)
    pages = {}
    for commands in JOBS.values():
        for name, command in commands.items():
            context = root.get_command(None, name).make_context(  # type: ignore[attr-defined]
                name, [], resilient_parsing=True
            )
            text = [f"# medal {name}", _example(command.example)]
            text += _command(context.command, f"medal {name}", context, level=2)
            pages[f"reference/commands/{_slug(name)}.md"] = "\n\n".join(text) + "\n"
    return pages


def _example(line: str) -> str:
    return f"```bash\n{line}\n```"


def _command(command: Any, called: str, context: Any, level: int) -> Iterator[str]:
    """Help, usage and options of a command; of a group those of its commands."""
    below = getattr(command, "commands", {})
    if not below:
        usage = " ".join(command.collect_usage_pieces(context))
        yield f"```text\n{called} {usage}\n```"
    if command.help:
        yield _plain(command.help)
    for panel, rows in _panels(command, context).items():
        yield f"{'#' * level} {panel}"
        yield "\n".join([f"| {panel.split(' (')[0].rstrip('s').lower()} | |", "|---|---|", *rows])
    for name, inner in below.items():
        yield f"{'#' * level} {called} {name}"
        inner_context = inner.make_context(name, [], resilient_parsing=True)
        if inner.epilog and inner.epilog.startswith("Example: "):
            yield _example(inner.epilog.removeprefix("Example: "))
        yield from _command(inner, f"{called} {name}", inner_context, level + 1)


def _panels(command: Any, context: Any) -> dict[str, list[str]]:
    panels: dict[str, list[str]] = {}
    for parameter in command.params:
        record = parameter.get_help_record(context)
        if record is None:
            continue
        kind = "Options" if parameter.opts[0].startswith("-") else "Arguments"
        panel = getattr(parameter, "rich_help_panel", None) or kind
        told = " ".join(record[1].split())
        panels.setdefault(panel, []).append(f"| `{_cell(record[0])}` | {_cell(_plain(told))} |")
    return panels


def _plain(text: str) -> str:
    """Text of a help as Markdown: code stays code, and nothing is taken for a tag."""
    return html.escape(_FENCE.sub(r"`\1`", text), quote=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _navigation() -> dict[str, Any]:
    commands = [
        {job: [{f"medal {n}": f"reference/commands/{_slug(n)}.md"} for n in names]}
        for job, names in JOBS.items()
    ]
    python = [{title: f"reference/python/{_slug(title)}.md"} for title in (*PYTHON, *BESIDE)]
    return {"Reference": ["reference/index.md", {"Commands": commands}, {"Python": python}]}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The reference at the end of the navigation."""
    assert config.nav is not None
    config.nav.append(_navigation())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages of the reference beside those in docs/."""
    for path, text in (python_pages() | command_pages()).items():
        files.append(File.generated(config, path, content=text))
    return files
