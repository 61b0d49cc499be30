"""The statistics as CSV, in full precision, one figure a line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from medal_judges.data_prep.corpus_stats.findings import Distribution, Findings
from medal_judges.data_prep.corpus_stats.page import facts
from medal_judges.data_prep.corpus_stats.part import Part
from medal_judges.data_prep.corpus_stats.texts import SIDES
from medal_judges.report.csv_tables import Line, write_table
from medal_judges.stats.results import Estimate

_PART = ("lang", "chatbot", "user")


def write_csv(findings: Findings, folder: Path) -> list[Path]:
    """Write every table; paths as written. An empty lang, chatbot or user stands for all, an
    empty value has a reason."""
    folder.mkdir(parents=True, exist_ok=True)
    tables: list[tuple[str, Sequence[str], Iterator[Line]]] = [
        ("texts", (*_PART, "side", "figure", "unit", "n", "value", "reason"), _texts(findings)),
        ("tokens", ("lang", "tokens"), _tokens(findings)),
        ("labels", (*_PART, *_LABEL), _labels(findings)),
        ("levels", (*_PART, *_LEVEL), _levels(findings)),
        ("ends", (*_PART, "ended", "n", "share"), _ends(findings)),
        ("tries", (*_PART, "turns", "n", "mean", "at_once", "most"), _tries(findings)),
        ("facts", ("fact", "value"), iter(facts(findings))),
    ]
    return [write_table(folder / f"{name}.csv", head, lines) for name, head, lines in tables]


_LEVEL = ("dimension", "scale", "level", "n", "rows", "share")
_LABEL = ("dimension", "scale", "figure", "n", "groups", "value", "low", "high", "method", "reason")


def _at(part: Part) -> Line:
    return part.lang, part.chatbot, part.user


def _value(found: Estimate) -> Line:
    return found.value, found.reason


def _texts(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        counts, at = findings.survey.text(part), _at(part)
        for side in SIDES:
            one = counts.sides[side]
            yield *at, side, "turns", "turns", counts.dialogues, *_value(counts.mean_turns(side))
            for unit in findings.survey.units:
                mean = _value(counts.mean_length(unit, side))
                yield *at, side, "length", unit, one.turns_by[unit], *mean
            yield *at, side, "mtld", "tokens", one.diverse, *_value(counts.mean_mtld(side))
        together = findings.survey.together(part)
        yield *at, "all", "mtld run together", "tokens", counts.dialogues, *_value(together)


def _tokens(findings: Findings) -> Iterator[Line]:
    for lang, tool in sorted(findings.survey.lemmatisers.items()):
        yield lang, tool.name


def _labels(findings: Findings) -> Iterator[Line]:
    labels = findings.survey.labels
    for part in findings.parts:
        for d in labels.dimensions():
            found = findings.figure(part, d)
            e = found.estimate
            kind = "share" if labels.is_share(d) else "mean"
            about = (d.name, _scale(d.scale), kind, found.n, found.groups)
            yield *_at(part), *about, e.value, e.low, e.high, found.method, e.reason


def _scale(scale: tuple[float, float] | None) -> str | None:
    return None if scale is None else f"{scale[0]:g} to {scale[1]:g}"


def _levels(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        for d in findings.graded:
            found = findings.distribution(part, d)
            if isinstance(found, Distribution):
                about = (*_at(part), d.name, _scale(d.scale))
                cells = zip(found.levels, found.counts, found.shares, strict=True)
                for level, count, share in cells:
                    yield *about, level, count, found.n, share


def _ends(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        course = findings.survey.course(part)
        for ended, n in sorted(course.ended.items()):
            weights = course.ended_weights
            yield *_at(part), ended, n, weights[ended] / weights.total()


def _tries(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        course = findings.survey.course(part)
        for name, tries in (("first", course.first), ("later", course.later)):
            if tries.turns:
                share = tries.share_at_once.value
                yield *_at(part), name, tries.turns, tries.mean.value, share, tries.most
