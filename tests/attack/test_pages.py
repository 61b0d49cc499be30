"""Markup, scripts, formulas and escape sequences in ids, chatbots, dimensions, comments and texts:
text on every page, in every table, and on the terminal. The pages are parsed here, and opened in
headless Chromium with a listener for any script, alert or request (``-m browser``)."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app

from .test_servers import http, raw_server

HOSTILE = [
    '<script>window.hit=1;fetch("LISTEN/s")</script>',
    '"><img src="LISTEN/i" onerror="window.hit=1">',
    "'><svg onload=alert(1)><a href='javascript:window.hit=1'>x</a>",
    '</title></style></script><iframe src="LISTEN/f"></iframe>',
    "<style>@import 'LISTEN/c'; *{background:url(LISTEN/b)}</style>",
    "[x](javascript:window.hit=1) ![y](LISTEN/m) <b>bold</b>",
    '=HYPERLINK("LISTEN/x","y")',
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "\x1b[31mred\x1b]0;title\x07",
    "{{7*7}} {% raw %} ${7*7} %(x)s \u202egnirts\u202c",
    "<!-- --> <![CDATA[x]]> &lt;script&gt; \u2028",
]


def rows(listen: str) -> list[dict[str, Any]]:
    texts = [text.replace("LISTEN", listen) for text in HOSTILE]
    made = []
    for number in range(44):
        bad = texts[number % len(texts)]
        turns = [
            {"role": "user", "content": f"{bad} said {number}"},
            {"role": "assistant", "content": f"answer {number} {bad}"},
        ]
        labels = {
            "overall": [1 + number % 5, 1 + (number + 1) % 5],
            texts[0]: [number % 2, 1],
        }
        made.append(
            {
                "id": f"{bad}-{number}",
                "lang": ("en", "de")[number % 2],
                "dialogue": turns * (1 + number % 3),
                "models": {"assistant": texts[number % 4], "user": texts[5]},
                "source": texts[1],
                "labels": labels,
                "scales": {"overall": [1, 5], texts[0]: [0, 1]},
                "comments": {"overall": bad},
            }
        )
    return made


def medal(*arguments: object) -> str:
    done = CliRunner().invoke(app, list(map(str, arguments)))
    assert done.exit_code == 0, (arguments, done.output, done.exception)
    return done.output


def made_pages(folder: Path, listen: str) -> tuple[list[Path], list[str]]:
    """(pages, what was printed) of every command that makes pages."""
    source = folder / "rows.jsonl"
    source.write_text(
        "".join(json.dumps(row) + "\n" for row in rows(listen)), encoding="utf-8"
    )
    scores = folder / "scores.jsonl"
    printed = [
        medal(
            "score", source, "--judge", "length", "--out", scores, "--keep", "chatbot"
        ),
        medal("agreement", source, "--out", folder / "agreement"),
        medal("data", "stats", source, "--no-lemmas", "--out", folder / "stats"),
        medal(
            "report",
            scores,
            "--chats",
            source,
            "--by",
            "chatbot",
            "--out",
            folder / "report",
        ),
        medal("compare", scores, "--by", "chatbot", "--out", folder / "compare"),
    ]
    return sorted(folder.rglob("*.html")), printed


class Elements(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []
        self.scripts: list[str] = []
        self._inside = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        # data
        self._inside = tag == "script" and dict(attrs).get("type") != "application/json"
        if tag in ("iframe", "object", "embed", "base", "form"):
            self.found.append(tag)
        for name, value in attrs:
            place = (value or "").strip().lower()
            if name.startswith("on") or place.startswith(
                ("javascript:", "http:", "file:")
            ):
                self.found.append(f"{tag} {name}={value}")

    def handle_data(self, data: str) -> None:
        if self._inside:
            self.scripts.append(data)

    def handle_endtag(self, tag: str) -> None:
        self._inside = False


def test_no_text_becomes_markup_a_formula_or_a_command(tmp_path: Path) -> None:
    pages, printed = made_pages(tmp_path, "http://127.0.0.1:9")
    assert len(pages) >= 4
    for page in pages:
        parsed = Elements()
        parsed.feed(page.read_text(encoding="utf-8"))
        assert not parsed.found, (page, parsed.found)
        assert not any("window.hit=1" in script for script in parsed.scripts), page
        assert "<b>bold" not in page.read_text(encoding="utf-8"), page
    for table in tmp_path.rglob("*.csv"):
        with table.open(encoding="utf-8-sig", newline="") as stream:
            for line in csv.reader(stream):
                for cell in line:
                    assert not cell.startswith(("=", "@", "\t", "\r")), (table, cell)
    for text in printed:
        assert "\x1b" not in text and "\x07" not in text


CARD = (
    "<script>window.hit=1</script>",
    "[x](javascript:alert(1))",
    "![y](http://127.0.0.1:9/m)",
)


@pytest.mark.slow
@pytest.mark.parametrize("hostile", CARD)
def test_a_card_shows_what_data_say_as_text(hostile: str, tmp_path: Path) -> None:
    source = tmp_path / "rows.jsonl"
    made = [each | {"lang": "en"} for each in rows("http://127.0.0.1:9")]
    for each in made:
        each["labels"] = {"overall": each["labels"]["overall"]}
        each["scales"] = {"overall": [1, 5]}
        each["source"], each["models"] = hostile, {"assistant": hostile}
    source.write_text("".join(json.dumps(row) + "\n" for row in made), encoding="utf-8")
    config = tmp_path / "train.yaml"
    settings = {
        "name": "mine",
        "output_dir": str(tmp_path / "out"),
        "rubric": "quickstart",
        "model": {
            "family": "linear",
            "vectors": False,
            "features": ["assistant.log_words"],
        },
        "train": [{"source": str(source), "dimensions": {"overall": "overall"}}],
    }
    config.write_text(json.dumps(settings))
    medal("train", "--config", config)
    (card,) = (tmp_path / "out").rglob("README.md")
    assert hostile not in card.read_text(encoding="utf-8")


@pytest.mark.browser
@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium here")
def test_pages_run_nothing_and_ask_for_nothing_in_a_browser(tmp_path: Path) -> None:
    with raw_server(http(200, "x")) as listener:
        listen = f"http://127.0.0.1:{listener.server_address[1]}"
        pages, _ = made_pages(tmp_path, listen)
        flags = ["--headless=new", "--no-sandbox", "--enable-logging=stderr"]
        for page in pages:
            command = ["chromium", *flags, "--dump-dom", page.as_uri()]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            assert "<iframe" not in done.stdout and "CONSOLE" not in done.stderr, page
        assert not listener.seen
