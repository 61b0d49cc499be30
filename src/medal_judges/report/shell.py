"""Shell: what every page has around its sections. One file, nothing asked of the network."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files

from medal_judges.report.markup import escape


def whole_page(
    title: str, said: str, anchors: Sequence[tuple[str, str]], sections: str, foot: str = ""
) -> str:
    """A page as text. ``said`` is the line under the title, ``sections`` and ``foot`` are HTML;
    of ``anchors``, (id, name) pairs, those with a section are linked at the top."""
    return (
        f"{_head(title)}<body>\n{_top(title, said)}{_navigation(anchors, sections + foot)}"
        f"<main>\n{sections}</main>\n<footer>{foot}</footer>\n"
        '<div id="toast" role="status" hidden></div>\n'
        f"<script>{_asset('page.js')}</script>\n</body>\n</html>\n"
    )


def _head(title: str) -> str:
    """The head, with a policy under which the browser itself refuses any request and any
    script but ours, should some text ever get past the escaping."""
    digest = hashlib.sha256(_asset("page.js").encode()).digest()
    policy = (
        "default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{base64.b64encode(digest).decode()}'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f'<title>{escape(title)}</title>\n<link rel="icon" href="data:,">\n'
        f"<style>{_asset('style.css')}</style>\n</head>\n"
    )


def _top(title: str, said: str) -> str:
    return (
        f'<header class="top"><div><h1 dir="auto">{escape(title)}</h1>'
        f'<p class="said">{escape(said)}</p></div>'
        '<button id="theme" type="button" hidden>Dark</button></header>\n'
    )


def _navigation(anchors: Sequence[tuple[str, str]], body: str) -> str:
    links = "".join(
        f'<li><a href="#{anchor}">{name}</a></li>'
        for anchor, name in anchors
        if f'<section id="{anchor}"' in body
    )
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n'


def _asset(name: str) -> str:
    return (files("medal_judges.report") / name).read_text(encoding="utf-8")
