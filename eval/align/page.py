"""The page of ``medal align``, and its table of the proof."""

from __future__ import annotations

import numpy as np

from medal_judges.eval.align.proof import ALIGNED, AS_IS, Alignment
from medal_judges.report.console import Printout
from medal_judges.report.figure import Axis, Dot, Figure, Line, Plot, padded
from medal_judges.report.page import (
    Block,
    Fold,
    Page,
    Section,
    chat_block,
    counted,
    facts_section,
)
from medal_judges.report.table import PValue, Row, Table, number

_SHOWN = 20  # largest disagreements
_PROOF = (
    "Every line is measured on chats that it was not fitted on: nested cross-validation holds "
    "whole conversations out, and chooses the way without them. The gain is how much smaller the "
    "error of the aligned judge is. It counts over the better of the judge after a line (which "
    "corrects its level and spread) and the mean rating: shuffled labels would gain as much over "
    "the judge as it is if its level is wrong."
)
_SCATTER = "Each dot is a chat. On the dashed line, judge and people agree."
_LARGEST = "Scores of the aligned judge are those of the fit without the chat."


def proof_table(result: Alignment, name: str) -> Table:
    """Returns the lines of one dimension's proof."""
    proof, dimension = result.proofs[name], result.dimensions[name]
    rows: list[Row] = []
    for line in proof.lines:
        p_value = None
        if line.gain is not None and line.gain.p_value is not None:
            p_value = PValue(line.gain.p_value)
        rows.append((line.name, line.error, line.rho, line.gain, p_value))
    columns = ("", "error", "Spearman ρ", "gain of the aligned judge", "p")
    scale = f"people's scale is {dimension.low:g} to {dimension.high:g}"
    note = f"The error is the {proof.measure.value}; {scale}."
    return Table(
        f"{name}: {len(result.rows[name])} labelled chats", columns, rows, note
    )


def align_page(result: Alignment) -> Page:
    """Returns align.html, align.json, its tables and figures, and what the terminal shows."""
    tables: dict[str, Table] = {}
    scatters: dict[str, Figure] = {}
    disagreements: list[Block] = []
    facts = []
    for key, fact in result.facts.items():
        facts.append((key.replace("_", " ").capitalize(), str(fact)))
    for name, proof in result.proofs.items():
        tables[name] = proof_table(result, name)
        scatters[f"scatter_{name}"] = _scatter(result, name)
        for line in (AS_IS, ALIGNED):
            chats = _largest_disagreements(result, name, line)
            disagreements.append(Fold(f"{name}: {line}", chats, line == ALIGNED))
        facts.append((f"Way of {name}", proof.way))
    sentences = result.sentences()
    proof_blocks: list[Block] = ["\n".join(sentences), *tables.values()]
    chat_count = len(next(iter(result.rows.values())))
    return Page(
        name="align",
        title="Aligned with people's labels",
        subtitle=counted([(len(tables), "dimension"), (chat_count, "chat")]),
        sections=[
            Section("proof", "The proof", proof_blocks, _PROOF),
            Section("scatter", "Before and after", [*scatters.values()], _SCATTER),
            Section("largest", "The largest disagreements", disagreements, _LARGEST),
            facts_section(facts),
        ],
        tables=tables,
        figures=scatters,
        record=result.record(),
        printout=Printout(
            list(tables.values()),
            [*sentences, str(result.facts.get("notes", ""))],
        ),
    )


def _scatter(result: Alignment, name: str) -> Figure:
    """People's means against the scores of the judge as it is, and of the aligned judge."""
    proof, dimension = result.proofs[name], result.dimensions[name]
    ends = (dimension.low, dimension.high)
    equal = Line([(end, end) for end in ends], "ideal")
    plots = []
    for line in (AS_IS, ALIGNED):
        dots = []
        points = np.column_stack([proof.targets, proof.units[line]])
        for target, unit in points.tolist():
            x, y = dimension.from_unit(target), dimension.from_unit(unit)
            dots.append(Dot(x, y, 0))
        plot = Plot(
            line,
            Axis("people's mean", padded(ends)),
            Axis("judge", padded(ends)),
            [equal, dots],
        )
        plots.append(plot)
    return Figure(f"{name}: scatter", plots)


def _largest_disagreements(result: Alignment, name: str, line: str) -> list[Block]:
    """Returns the chats whose scores on a ``line`` of the proof are farthest from people's."""
    proof, dimension = result.proofs[name], result.dimensions[name]
    units = {
        "people": proof.targets,
        AS_IS: proof.units[AS_IS],
        ALIGNED: proof.units[ALIGNED],
    }
    distances = np.abs(proof.units[line] - proof.targets)
    chats: list[Block] = []
    for i in np.argsort(-distances, kind="stable")[:_SHOWN].tolist():
        row = result.rows[name][i]
        scores = []
        for scorer, values in units.items():
            scores.append(f"{scorer} {number(dimension.from_unit(float(values[i])))}")
        turns = [(turn.role, turn.content) for turn in row.dialogue.turns]
        chats.append(Fold(f"{row.id}: {', '.join(scores)}", [chat_block(turns)]))
    return chats
