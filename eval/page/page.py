"""Page: a benchmark as one self-contained HTML file, with its figures beside it."""

from __future__ import annotations

from pathlib import Path

from medal_judges.eval.page.arrangement import Arrangement
from medal_judges.eval.page.calibration import calibration
from medal_judges.eval.page.cascade import cascades
from medal_judges.eval.page.disagreements import disagreements
from medal_judges.eval.page.heatmap import heatmap
from medal_judges.eval.page.leaderboard import leaderboard
from medal_judges.eval.page.scatter import scatter
from medal_judges.eval.page.slices import slices
from medal_judges.report.csv_tables import write_csv
from medal_judges.report.further_tables import further_tables
from medal_judges.report.provenance import facts, signatures
from medal_judges.report.shell import whole_page
from medal_judges.stats.results import Benchmark

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
    from medal_judges.eval.page.figures import write_figures  # asks for matplotlib

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
    return whole_page(view.benchmark.title, _said(view), _NAVIGATION, sections, signatures(view))


def _said(view: Arrangement) -> str:
    rows = view.benchmark.rows
    langs = {point.lang for row in rows for point in row.points}
    counts = [
        (len(view.judges), "judge"),
        (len({row.set_name for row in rows}), "set"),
        (len({row.dimension for row in rows}), "dimension"),
        (len(langs), "language"),
    ]
    return " · ".join(f"{n} {name}{'' if n == 1 else 's'}" for n, name in counts if n)
