"""The site's pages and README.md: their commands run as written, their output is what came.

    python tests/walks.py [README.md docs/tutorials/*.md]

(``make walks``.) A walk is Markdown with blocks ```` ```console ````: a line that begins with
``$ `` is a command (``> `` continues it), all else up to the next command is its output. All
commands of a walk run in one shell, in a temporary folder that holds a copy of docs/tutorials, so
that ``$?`` and files of earlier commands are there. The output is written back into the file;
tests/test_walks.py compares it, but for durations and speeds (with ``<!-- walk: numbers vary -->``
in the page: but for all numbers and the widths of tables).
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
WALKS = DOCS / "tutorials"
_BLOCK = re.compile(r"^```console\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_PAGES = (
    page
    for page in sorted(DOCS.rglob("*.md"))
    if _BLOCK.search(page.read_text("utf-8"))
)
TOLD = (ROOT / "README.md", *_PAGES)
# What a page may say of itself at its top.
NEEDS_DATA = "<!-- walk: needs MEDAL_JUDGES_DATA -->"
NUMBERS_VARY = (
    "<!-- walk: numbers vary -->"  # sampled, or bf16: other processors differ
)
_MARK = "-- walk: end of command --"
# What another run or a slower machine changes, and no reader of a walk looks for.
_DURATION = re.compile(
    r"\d[\d,.]*(?= ?(?:s\b|ms\b|min\b|dialogues/s|tokens/s|MB\b))|\d+:\d\d:\d\d"
)


@dataclass(frozen=True, slots=True)
class Step:
    """A command as the walk shows it, and what it printed on both streams."""

    command: str
    output: str

    @property
    def shell(self) -> str:
        """The command for the shell: without the prompts."""
        lines = self.command.splitlines()
        return "\n".join(line[2:] for line in lines)

    @property
    def lasting(self) -> str:
        """The output without durations and speeds, and without what a line was padded with."""
        lines = (line.rstrip() for line in self.output.splitlines())
        return _DURATION.sub("#", "\n".join(lines))

    @property
    def words(self) -> list[str]:
        """The words of the output: no numbers, no rules of tables, whatever the spaces between."""
        return re.sub(r"[-−+]?[\d.,]+%?|[─━]+", " ", self.lasting).split()


def steps(text: str) -> list[Step]:
    """The steps of a walk's text, block by block."""
    return [step for block in _BLOCK.finditer(text) for step in _of_block(block[1])]


def _of_block(block: str) -> Iterator[Step]:
    command, output = "", ""
    for line in block.splitlines(keepends=True):
        if line.startswith("$ "):
            if command:
                yield Step(command.rstrip("\n"), output)
            command, output = line, ""
        elif (line.startswith("> ") or line == ">\n") and command and not output:
            command += line
        else:
            output += line
    if command:
        yield Step(command.rstrip("\n"), output)


def run(told: Sequence[Step], folder: Path) -> list[Step]:
    """``told`` with the output that their commands print now, in one shell in ``folder``."""
    # `true` after the mark would change $?, which a walk may show.
    script = "".join(
        f"{step.shell}\n__code=$?; printf '%s\\n' {shlex.quote(_MARK)}; (exit $__code)\n"
        for step in told
    )
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    plain = {
        "PATH": path,
        "COLUMNS": "100",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "HF_HUB_OFFLINE": "1",
    }
    plain["DS_ACCELERATOR"] = (
        "cpu"  # else deepspeed, where installed, prints what it found
    )
    done = subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        env=os.environ | plain,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    outputs = done.stdout.split(_MARK + "\n")[:-1]
    return [
        Step(step.command, output) for step, output in zip(told, outputs, strict=True)
    ]


def run_walk(walk: Path) -> list[Step]:
    """The steps of the file ``walk`` with what they print now."""
    told = steps(walk.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place) / "walk"
        shutil.copytree(WALKS, folder)
        return run(told, folder)


def rewritten(text: str, came: Sequence[Step]) -> str:
    """``text`` with the output of ``came`` in its blocks."""
    rest = iter(came)

    def block(found: re.Match[str]) -> str:
        said = ""
        for _ in _of_block(found[1]):
            step = next(rest)
            output = "".join(f"{line.rstrip()}\n" for line in step.output.splitlines())
            said += f"{step.command}\n{output}"
        return f"```console\n{said}```"

    return _BLOCK.sub(block, text)


if __name__ == "__main__":
    for file in [Path(name) for name in sys.argv[1:]] or TOLD:
        if NEEDS_DATA in file.read_text("utf-8") and not os.environ.get(
            "MEDAL_JUDGES_DATA"
        ):
            print(f"{file}: left as it is, needs MEDAL_JUDGES_DATA")
            continue
        file.write_text(
            rewritten(file.read_text("utf-8"), run_walk(file)), encoding="utf-8"
        )
