"""Report: from files of scores (and chats) to figures, gates and the page."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medal_judges import __version__
from medal_judges.eval.traffic.conversations import collect
from medal_judges.eval.traffic.figures import TrafficFigures, compute_figures
from medal_judges.eval.traffic.gate import Gate, GateResult, check_gates
from medal_judges.eval.traffic.human import (
    PeopleSample,
    agreement_section,
    match_people,
    people_notes,
    with_people,
)
from medal_judges.eval.traffic.page import TrafficReport, write_traffic_report
from medal_judges.eval.traffic.reading import TrafficOptions, read_traffic
from medal_judges.eval.traffic.selection import select
from medal_judges.eval.traffic.traffic import Traffic
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.progress import ProgressBar

MOST_CONVERSATIONS = 10_000


@dataclass(frozen=True, slots=True)
class TrafficInput:
    """Where scores and chats come from: each call gives a new stream of the same rows."""

    judgements: Callable[[], Iterable[Judgement]]
    dialogues: Callable[[], Iterable[Dialogue]] | None = None
    names: Sequence[str] = ()
    people: Callable[[], Iterable[LabelledDialogue]] | None = None
    people_name: str = ""


@dataclass(frozen=True, slots=True)
class TrafficRequest:
    """What is asked: columns and dimensions, gates, and how many conversations the page holds."""

    options: TrafficOptions = field(default_factory=TrafficOptions)
    gates: Sequence[Gate] = ()
    min_coverage: float = 0.98
    conversations: int = MOST_CONVERSATIONS
    title: str = "Scored chats"


@dataclass(frozen=True, slots=True)
class TrafficOutcome:
    """What came of it; ``page`` and ``note`` where a folder was asked for."""

    traffic: Traffic
    figures: TrafficFigures
    gates: Sequence[GateResult]
    page: Path | None = None
    note: str = ""


def report_traffic(
    source: TrafficInput, request: TrafficRequest, out: Path | None, bar: ProgressBar
) -> TrafficOutcome:
    """Figures of all scores, the gates, and with ``out`` the page, tables and figures there.

    The page is written before a gate that cannot be decided raises; see ``check_gates``,
    ``read_traffic``.
    """
    options = request.options
    traffic = read_traffic(source.judgements(), source.dialogues, options, bar.advance)
    sample: PeopleSample | None = None
    if source.people is not None and traffic.rows:
        sample = match_people(source.people_name, source.people(), traffic)
        traffic = with_people(traffic, sample)
        notes = [*traffic.notes, *people_notes(traffic, sample)]
        traffic = replace(traffic, notes=notes)
    figures = compute_figures(traffic, options, lambda what: bar.update(bar.done, note=what))
    undecided: Exception | None = None
    gates: Sequence[GateResult] = ()
    try:
        leads = {name: figures.lead(name) for name in figures.overall}
        gates = check_gates(request.gates, traffic, leads, request.min_coverage)
        gates = [_with_basis(gate, figures) for gate in gates]
    except Exception as error:
        undecided = error
    outcome = TrafficOutcome(traffic, figures, gates)
    if out is not None:
        selection = select(traffic, request.conversations)
        bar.update(bar.done, note="conversations")
        more = set(sample.labelled) if sample is not None else set()
        found = collect(selection, source.judgements(), source.dialogues, bar.advance, more)
        people = None
        if sample is not None:
            judged = {row: found[row].judgement for row in sample.labelled}
            people = agreement_section(traffic, figures, sample, judged)
        bar.update(bar.done, note="page")
        made = TrafficReport(
            request.title,
            traffic,
            figures,
            selection,
            found,
            gates,
            _facts(source, traffic),
            people,
        )
        page, note = write_traffic_report(made, out)
        outcome = replace(outcome, page=page, note=note)
    if undecided is not None:
        raise undecided
    return outcome


def _with_basis(result: GateResult, figures: TrafficFigures) -> GateResult:
    """A gate that holds the corrected figure says so."""
    if not figures.is_corrected(result.gate.dimension):
        return result
    return replace(result, text=f"{result.text} (corrected by people's labels)")


def _facts(source: TrafficInput, traffic: Traffic) -> list[tuple[str, str]]:
    facts = [("Files", ", ".join(source.names))] if source.names else []
    coverage = "–" if traffic.coverage is None else f"{traffic.coverage:.1%}"
    facts.append((f"{traffic.unit}s".capitalize(), f"{traffic.rows:,}, {coverage} scored in full"))
    drawn = "the conversation" if traffic.cluster_name == "conversation" else (
        f"all rows of one {traffic.cluster_name}")  # fmt: skip
    facts.append(("Intervals", f"95%; what is drawn at random is {drawn}. Means: jackknife over "
                  "these, Student's t. Shares: Wilson at the effective size."))  # fmt: skip
    return [*facts, ("medal-judges", __version__)]
