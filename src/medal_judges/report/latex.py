"""LaTeX of a table, for papers."""

from __future__ import annotations

import re

from medal_judges.report.console import cell_text
from medal_judges.report.table import Figured, Table

_WIDE = 7  # columns from which on a table is scaled to the width of the text
# Commands of LaTeX, and signs of our tables that pdflatex has under a name only. The colour of a
# light is also a word.
_SIGNS = str.maketrans(
    {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"ρ": r"$\rho$", "τ": r"$\tau$", "α": r"$\alpha$", "κ": r"$\kappa$", "±": r"$\pm$"}
    | {"−": "$-$", "<": "$<$", ">": "$>$", "○": r"$\circ$", "●": "", "▲": "", "■": ""}
)


def latex(table: Table) -> str:
    """The table without its bars, for a document with the packages booktabs and graphicx. The best
    figures are bold."""
    shown = [i for i, kind in enumerate(table.column_kinds()) if kind != "bar"]
    kinds = ("l" if table.column_kinds()[i] == "words" else "r" for i in shown)

    def text(cell: object) -> str:
        found = cell_text(cell).translate(_SIGNS).strip()
        found = re.sub(r"(?<![\w$])-(?=[\d.])", "$-$", found)
        value, bracket, interval = found.partition(" [")
        is_best = isinstance(cell, Figured) and cell.best
        return rf"\textbf{{{value}}}{bracket}{interval}" if is_best else found

    lines = [" & ".join(text(table.columns[i]) for i in shown) + r" \\"]
    for heading, rows in table.groups():
        lines.append(r"\midrule")
        if heading:
            lines.append(rf"\multicolumn{{{len(shown)}}}{{l}}{{\emph{{{text(heading)}}}}} \\")
        for row, pin in rows:
            lines += [r"\midrule"] if pin else []
            lines.append(" & ".join(text(row[i]) for i in shown) + r" \\")
    scaled = r"\resizebox{\linewidth}{!}{" if len(shown) >= _WIDE else "{"
    return "\n".join((
        r"% \usepackage{booktabs,graphicx}; letters beyond Latin ones need lualatex or xelatex",
        rf"\begin{{table}}\centering\caption{{{text(table.title)}}}\medskip",
        rf"{scaled}\begin{{tabular}}{{{''.join(kinds)}}}", r"\toprule",
        *lines, r"\bottomrule", r"\end{tabular}}",
        *([rf"\par\footnotesize {text(table.note)}"] if table.note else []),
        r"\end{table}", "",
    ))  # fmt: skip
