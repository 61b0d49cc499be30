"""The page of ``medal align``, and its table of the proof."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from medal_judges.eval.align.proof import ALIGNED, AS_IS, Alignment
from medal_judges.report.figure import Axis, Dot, Figure, Line, Plot, padded
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    chat_block,
    counted,
    facts_section,
    write_page,
)
from medal_judges.report.table import PValue, Row, Table, number

PAGE_NAME = "align.html"
_SHOWN = 20  # largest disagreements
_PROOF = (
    "Every line is measured on chats that it was not fitted on: nested cross-validation holds "
    "whole conversations out, and chooses the way without them. The gain is how much smaller the "
    "error of the aligned judge is. It counts over the better of the judge after a line (which "
    "corrects its level and spread) and the mean rating: shuffled labels would gain as much over "
    "the judge as it is if its level is wrong."
)
_CURVE = (
    "The error of the aligned judge on held-out chats, by the number of labels that it learns "
    "from. A line that still falls at its end says that more labels help."
)
_SCATTER = "Each dot is a chat. On the dashed line, judge and people agree."
_LARGEST = "Scores of the aligned judge are those of the fit without the chat."


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
    columns = ("", "error", "Spearman ρ", "gain of the aligned judge", "p")
    scale = f"people's scale is {dimension.low:g} to {dimension.high:g}"
    note = f"The error is the {proof.measure.value}; {scale}."
    return Table(f"{name}: {len(result.rows[name])} labelled chats", columns, rows, note)


def write_align_page(result: Alignment, folder: Path) -> Path:
    """Writes align.html, and tables/ and figures/ beside it; returns its path."""
    tables = {name: proof_table(result, name) for name in result.proofs}
    figures, largest = dict[str, Figure](), list[Block]()
    for name, proof in result.proofs.items():
        dimension, both = result.dimensions[name], (AS_IS, ALIGNED)
        error = proof.line(proof.base).error
        ends = (proof.curve[0][0], proof.curve[-1][0])
        dots = [Dot(n, value, 0, f"{n:g} labels: {number(value)}", 4) for n, value in proof.curve]
        curve = Plot(
            f"{dimension.name}: error by labels",
            Axis("labels", padded(ends)),
            Axis("error", padded([*(value for _, value in proof.curve), error])),
            [Line([(n, error) for n in ends], "ideal"), Line(proof.curve, colour=0), dots],
            f"Error of the aligned judge by number of labels; dashed: {proof.base}",
        )
        figures[f"curve_{name}"] = Figure(f"{name}: curve", [curve])
        ends, scatter = (dimension.low, dimension.high), []
        ideal, at = Line([(end, end) for end in ends], "ideal"), padded(ends)
        for line in both:
            units = zip(proof.targets.tolist(), proof.units[line].tolist(), strict=True)
            pairs = [(dimension.from_unit(x), dimension.from_unit(y)) for x, y in units]
            dots = [Dot(x, y, 0, f"people {number(x)}, judge {number(y)}") for x, y in pairs]
            about = f"People's mean and the scores: {line}"
            axes = Axis("people's mean", at), Axis("judge", at)
            scatter.append(Plot(line, *axes, [ideal, dots], about))
        figures[f"scatter_{name}"] = Figure(f"{name}: scatter", scatter)
        shown = {"people": proof.targets} | {line: proof.units[line] for line in both}
        for line in both:
            chats: list[Block] = []
            apart = np.abs(proof.units[line] - proof.targets)
            for i in np.argsort(-apart, kind="stable")[:_SHOWN].tolist():
                row = result.rows[name][i]
                scores = (
                    f"{k} {number(dimension.from_unit(float(v[i])))}" for k, v in shown.items()
                )
                turns = [(turn.role, turn.content) for turn in row.dialogue.turns]
                chats.append(Fold(f"{row.id}: {', '.join(scores)}", [chat_block(turns)]))
            largest.append(Fold(f"{name}: {line}", chats, line == ALIGNED))
    curves, scatters = (
        [one for key, one in figures.items() if key.startswith(kind)]
        for kind in ("curve", "scatter")
    )
    sections = [
        Section("proof", "The proof", ["\n".join(result.sentences()), *tables.values()], _PROOF),
        Section("curve", "Number of labels", curves, _CURVE),
        Section("scatter", "Before and after", scatters, _SCATTER),
        Section("largest", "The largest disagreements", largest, _LARGEST),
    ]
    facts = [(key.replace("_", " ").capitalize(), str(fact)) for key, fact in result.facts.items()]
    ways = [(f"Way of {name}", proof.way) for name, proof in result.proofs.items()]
    return write_page(
        folder / PAGE_NAME,
        "Aligned with people's labels",
        counted([(len(tables), "dimension"), (len(next(iter(result.rows.values()))), "chat")]),
        [*sections, facts_section([*facts, *ways])],
        tables=tables,
        figures=figures,
    )
