"""Page: a benchmark as one self-contained HTML file, with its figures beside it."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

from medal_judges.eval.report.arrangement import Arrangement
from medal_judges.eval.report.calibration import calibration
from medal_judges.eval.report.cascade import cascades
from medal_judges.eval.report.csv_tables import write_csv
from medal_judges.eval.report.disagreements import disagreements
from medal_judges.eval.report.further_tables import further_tables
from medal_judges.eval.report.heatmap import heatmap
from medal_judges.eval.report.leaderboard import leaderboard
from medal_judges.eval.report.markup import escape
from medal_judges.eval.report.provenance import facts, signatures
from medal_judges.eval.report.scatter import scatter
from medal_judges.eval.report.slices import slices
from medal_judges.eval.results import Benchmark

_NAVIGATION = (
    ("leaderboard", "Leaderboard"),
    ("scatter", "Scatter"),
    ("dimensions", "Dimensions"),
    ("calibration", "Calibration"),
    ("by-lang", "Languages"),
    ("by-chatbot", "Chatbots"),
    ("tables", "Further tables"),
    ("cascades", "Cascades"),
    ("disagreements", "Disagreements"),
    ("facts", "How it was made"),
    ("signatures", "Signatures"),
)


def write_report(benchmark: Benchmark, output_dir: Path) -> Path:
    """Write report.html, tables/*.csv and figures/*.png under ``output_dir``; path of the page.

    The page asks nothing of the network and is the same bytes for the same benchmark. Raises
    MedalError for rows that cannot stand in one table, and MissingExtraError (after page and
    CSV are written) when matplotlib is not there for the PNG figures.
    """
    view = Arrangement(benchmark)
    output_dir.mkdir(parents=True, exist_ok=True)
    path = output_dir / "report.html"
    path.write_text(render(view), encoding="utf-8", newline="\n")
    write_csv(view, output_dir / "tables")
    from medal_judges.eval.report.figures import write_figures  # asks for matplotlib

    write_figures(view, output_dir / "figures")
    return path


def render(view: Arrangement) -> str:
    """The whole page as text."""
    sections = (
        leaderboard(view)
        + scatter(view)
        + heatmap(view)
        + calibration(view)
        + slices(view, "lang")
        + slices(view, "chatbot")
        + further_tables(view)
        + cascades(view)
        + disagreements(view)
        + facts(view)
    )
    foot = signatures(view)
    return (
        f"{_head(view.benchmark.title)}<body>\n{_top(view)}{_navigation(sections + foot)}"
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


def _top(view: Arrangement) -> str:
    rows = view.benchmark.rows
    langs = {point.lang for row in rows for point in row.points}
    counts = [
        (len(view.judges), "judge"),
        (len({row.set_name for row in rows}), "set"),
        (len({row.dimension for row in rows}), "dimension"),
        (len(langs), "language"),
    ]
    said = " · ".join(f"{n} {name}{'' if n == 1 else 's'}" for n, name in counts if n)
    return (
        f'<header class="top"><div><h1 dir="auto">{escape(view.benchmark.title)}</h1>'
        f'<p class="said">{said}</p></div>'
        '<button id="theme" type="button" hidden>Dark</button></header>\n'
    )


def _navigation(body: str) -> str:
    links = "".join(
        f'<li><a href="#{anchor}">{name}</a></li>'
        for anchor, name in _NAVIGATION
        if f'<section id="{anchor}"' in body
    )
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>\n'


def _asset(name: str) -> str:
    return (files("medal_judges.eval.report") / name).read_text(encoding="utf-8")
