"""The proof of ``medal align`` as a table and a page."""

from __future__ import annotations

from medal_judges.eval.align.align import Alignment
from medal_judges.report.table import PValue, Row, Table


def proof_table(result: Alignment, name: str) -> Table:
    """Returns the lines of one dimension's proof."""
    proof, dimension = result.proofs[name], result.dimensions[name]
    rows: list[Row] = [
        (
            *(line.name, line.error, line.rho, line.gain),
            line.gain and line.gain.p_value and PValue(line.gain.p_value),
        )
        for line in proof.lines
    ]
    scale = f"{dimension.low:g} to {dimension.high:g}"
    columns = ("", "error", "Spearman ρ", "gain of the aligned judge", "p")
    note = f"Root mean square error against people's mean, from {scale}; {proof.way}."
    return Table(f"{name}: {len(result.rows[name])} labelled chats", columns, rows, note)
