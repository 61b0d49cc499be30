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
from mkdocs.structure.pages import Page
from settings_page import settings_page

import medal_judges
from medal_judges.cli import COMMANDS, load_command
from medal_judges.cli.configs import CONFIGS
from medal_judges.config import shipped_names, top_sentence

# Title of a page -> the names on it, by what they are for; every public name stands on one.
PYTHON = {
    "Dialogues and labels": [
        "Dialogue",
        "Turn",
        "Dimension",
        "Rating",
        "LabelledDialogue",
    ],
    "Reading files": [
        "read_dialogues",
        "parse_dialogue",
        "read_messages",
        "read_judgements",
    ],
    "Judges": ["Judge"],
    "Judgements": [
        "Judgement",
        "write_judgements",
        "read_frame",
        "to_frame",
        "Signature",
    ],
    "Scoring files": ["score_file", "ScoreOptions"],
    "Training": ["train", "align"],
    "Benchmark and comparison": ["benchmark", "compare", "CompareOptions"],
    "Errors": [name for name in medal_judges.__all__ if name.endswith("Error")],
}
# Beyond `medal_judges` itself: what other pages speak of.
BESIDE = {
    "Language models: the protocol": "medal_judges.models.llm.protocol",
}
_FENCE = re.compile(r"``([^`]+)``")


def _slug(title: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", title.lower()).strip("_")


def python_pages() -> dict[str, str]:
    """Path -> text of the reference from docstrings; mkdocstrings fills it in."""
    modules = medal_judges._PUBLIC
    lacking = set(modules) - {name for names in PYTHON.values() for name in names}
    if lacking:
        raise ValueError(
            f"docs/hooks.py: no page of the reference has {sorted(lacking)}"
        )
    pages = {
        f"reference/python/{_slug(title)}.md": f"# {title}\n\n"
        + "\n".join(f"::: medal_judges.{modules[name]}.{name}\n" for name in names)
        for title, names in PYTHON.items()
    }
    for title, path in BESIDE.items():
        options = "show_root_heading: false, show_root_toc_entry: false"
        block = f"::: {path}\n    options: {{{options}}}\n"
        pages[f"reference/python/{_slug(title)}.md"] = f"# {title}\n\n{block}"
    return pages


def command_pages() -> dict[str, str]:
    """Path -> text of the reference of commands, one page a command of ``medal``."""
    pages = {}
    for name in COMMANDS:
        text = [f"# medal {name}", *_helps(load_command(name), f"medal {name}")]
        pages[f"reference/commands/{name}.md"] = "\n\n".join(text) + "\n"
    return pages


def shipped_page() -> str:
    """Text of the page on what is shipped in configs/, as `medal configs` lists it."""
    text = [
        "# What is shipped",
        "`medal configs show NAME` prints one, `copy` begins your own.",
    ]
    for taker, folder in CONFIGS.items():
        text.append(f"## `{taker}`")
        rows = [
            f"| `{n}` | {_cell(_plain(top_sentence(folder, n)))} |"
            for n in shipped_names(folder)
        ]
        text.append("\n".join([f"| configs/{folder} | |", "|---|---|", *rows]))
    return "\n\n".join(text) + "\n"


def command_table() -> str:
    """Every command with its purpose."""
    rows = ["| command | |", "|---|---|"]
    for name, purpose in COMMANDS.items():
        rows.append(f"| [medal {name}](commands/{name}.md) | {_cell(purpose)} |")
    return "\n".join(rows)


def _helps(command: Any, called: str) -> Iterator[str]:
    """The ``--help`` of a command, and of each command of a group below its heading."""
    context = command.context_class(command, info_name=called, terminal_width=100)
    yield f"```text\n{command.get_help(context)}\n```"
    for name, inner in getattr(command, "commands", {}).items():
        yield f"## {called} {name}"
        yield from _helps(inner, f"{called} {name}")


def _plain(text: str) -> str:
    """Text of a help as Markdown: code stays code, and nothing is taken for a tag."""
    return html.escape(_FENCE.sub(r"`\1`", text), quote=False)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def _navigation() -> dict[str, Any]:
    commands = [{f"medal {name}": f"reference/commands/{name}.md"} for name in COMMANDS]
    python = [
        {title: f"reference/python/{_slug(title)}.md"} for title in (*PYTHON, *BESIDE)
    ]
    shipped = {"What is shipped": "reference/shipped.md"}
    settings = {"Settings": "reference/settings.md"}
    below = [
        "reference/index.md",
        {"Commands": commands},
        settings,
        shipped,
        {"Python": python},
    ]
    return {"Reference": below}


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The reference at the end of the navigation."""
    assert config.nav is not None
    config.nav.append(_navigation())
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """The pages of the reference beside those in docs/."""
    pages = python_pages() | command_pages()
    pages |= {
        "reference/shipped.md": shipped_page(),
        "reference/settings.md": settings_page(),
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """The table of commands where its page asks for it."""
    return (
        markdown.replace("<!-- commands -->", command_table())
        if page.is_page
        else markdown
    )


def on_page_content(content: str, **_: Any) -> str:
    """The copy button of a console block copies its commands: no prompts, no output. The theme
    copies ``data-copy`` if a block has it."""

    def commands(block: re.Match[str]) -> str:
        prompts = r'<span class="(?:gp">(?:\$|&gt;) ?</span>|go">&gt; ?)(.*)'
        lines = [re.sub(r"<[^>]+>", "", line) for line in re.findall(prompts, block[2])]
        text = html.escape(html.unescape("\n".join(lines)))
        return f'{block[1]} data-copy="{text}"{block[2]}' if lines else block[0]

    return re.sub(
        r'(<div class="highlight")(>.*?</div>)', commands, content, flags=re.DOTALL
    )
