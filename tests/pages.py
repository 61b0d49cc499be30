"""The text of a page without its figure files, which take seconds to draw, and its elements."""

from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

VOID = {"meta", "link", "br", "img", "input", "hr"}


def page_text(write: Callable[[Path], object]) -> str:
    """The one page that ``write`` writes into a folder."""
    with (
        TemporaryDirectory() as folder,
        patch("medal_judges.report.page.write_figures", return_value={}),
        patch("medal_judges.report.page.render_bytes", return_value={"svg": b""}),
    ):
        write(Path(folder))
        (page,) = Path(folder).glob("*.html")
        return page.read_text(encoding="utf-8")


class Tree(HTMLParser):
    """Checks that tags nest; collects tags, attributes, ids and the text outside the script."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text: list[str] = []
        self.data: list[tuple[str, str]] = []  # (element, text)
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert len({name for name, _ in attrs}) == len(attrs), (
            f"double attribute on {tag}: {attrs}"
        )
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        self.data.append((self.open[-1] if self.open else "", data))
        if self.open and self.open[-1] not in ("script", "style"):
            self.text.append(data)

    def named(self, tag: str) -> Iterator[dict[str, str]]:
        return (attributes for name, attributes in self.tags if name == tag)
