"""Asserts the quality of chats with 95% intervals; pytest_plugin.py makes a fixture of it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Literal

from medal_judges.config import BOXED
from medal_judges.errors import ConfigError, CoverageError, visible
from medal_judges.eval.report.estimates import GateResult, check_gates
from medal_judges.eval.report.options import Gate
from medal_judges.eval.report.worst import badness
from medal_judges.integrations.chats import (
    Chat,
    JudgeSource,
    ScoredChats,
    goodness,
    load_judge,
    score_chats,
)
from medal_judges.models.base.judge import ScoreLevel

# chats to look at, and characters of a turn
_SHOWN = 3
_TEXT = 160


class QualityUndecidedWarning(UserWarning):
    """The limit lies inside the interval, so these chats cannot decide whether it holds."""


def assert_quality(
    chats: Sequence[Chat],
    *,
    judge: JudgeSource = BOXED,
    level: ScoreLevel = "dialogue",
    max_cost: float | None = None,
    min_coverage: float = 0.98,
    fail_undecided: bool = False,
    **limits: float,
) -> ScoredChats:
    """Scores ``chats``, compares each dimension of ``limits`` with its 95% interval, and returns
    the scored chats.

    The limit of a dimension whose good end is high is the minimum of its mean (``overall=3.5``); of
    a dimension whose good end is low, the maximum of its mean or share of chats (``unsafe=0.05``).
    The assertion fails if the whole interval is on the wrong side, as in ``medal report
    --fail-under``. If the limit is inside the interval, it fails with ``fail_undecided``, else it
    issues QualityUndecidedWarning.

    Raises AssertionError that names the chats to read; ConfigError for no limits, an unknown
    dimension or a limit outside its scale; CoverageError if fewer than ``min_coverage`` of the
    chats have a score; MedalError if there are too few for an interval.
    """
    __tracebackhide__ = True
    loaded = load_judge(judge, max_cost=max_cost)
    if not limits:
        names = ", ".join(dimension.name for dimension in loaded.dimensions)
        raise ConfigError(
            "assert_quality: no limit is given, so nothing would be asserted",
            hint=f"give one by dimension, such as overall=3.5; this judge has: {names}",
        )
    gates = []
    for name, limit in limits.items():
        side: Literal["over", "under"] = "under"
        if loaded.dimension(name).good == "low":
            side = "over"
        text = f"assert_quality({name}={limit:g})"
        gates.append(Gate(side, name, float(limit), text))
    scored = score_chats(chats, loaded, level=level)
    _require_coverage(scored, min_coverage)
    results = check_gates(gates, scored.scores(), scored.figures(), min_coverage)
    verdicts = [result.verdict for result in results]
    if "failed" in verdicts or (fail_undecided and "undecided" in verdicts):
        raise AssertionError(_message(results, scored))
    for result in results:
        if result.verdict == "undecided":
            warnings.warn(result.text, QualityUndecidedWarning, stacklevel=2)
    return scored


def _require_coverage(scored: ScoredChats, minimum: float) -> None:
    """Raises CoverageError if too few chats have a score, with the most frequent reasons."""
    report = scored.report()
    if report.coverage is None:
        raise CoverageError("assert_quality: there are no chats to score")
    if report.coverage >= minimum:
        return
    reasons = []
    for reason, count in report.failures.most_common(3):
        reasons.append(f"{count} x {reason}")
    raise CoverageError(
        f"assert_quality: coverage {report.coverage:.1%} is below the minimum of {minimum:.0%}, so "
        f"the scores say nothing: {'; '.join(reasons)}",
        hint="min_coverage sets the minimum",
    )


def _message(results: Sequence[GateResult], scored: ScoredChats) -> str:
    """Returns the failed limits, then the worst chats by the first of them, with their last
    turns."""
    broken = [result.gate.dimension for result in results if result.verdict != "passed"]
    lines = [result.text for result in results]
    lines.append(
        f"{len(scored.judgements)} judgements, coverage {scored.coverage or 0.0:.1%}: "
        f"{scored.signature}"
    )
    lines.append(f"look first at these, the worst by {broken[0]}:")
    for row in _worst_rows(scored, broken[0]):
        judgement = scored.judgements[row]
        chat = scored.chats[row]
        scores = ", ".join(f"{name} {judgement.scores[name]:.2f}" for name in broken)
        dialogue = scored.dialogues[chat]
        turn = ""
        turns = dialogue.turns
        if judgement.turn is not None:
            turn = f", turn {judgement.turn}"
            turns = dialogue.upto(judgement.turn).turns
        lines.append(f"  chats[{chat}] (id {dialogue.id}{turn}): {scores}")
        for shown_turn in turns[-2:]:
            text = " ".join(shown_turn.content.split())
            if len(text) > _TEXT:
                text = f"{text[: _TEXT - 1]}…"
            lines.append(f"    {shown_turn.role}: {text}")
    return visible("\n".join(lines))


def _worst_rows(scored: ScoredChats, name: str) -> list[int]:
    """Returns the judgements with the worst scores in one dimension; of equals, the worst in
    all."""
    dimension = scored.judge.dimension(name)
    all_dimensions = badness(scored.scores())
    by_score = []
    for row, judgement in enumerate(scored.judgements):
        good = goodness(dimension, judgement.scores[name])
        if good is not None:
            by_score.append((good, -float(all_dimensions[row]), row))
    return [row for *_, row in sorted(by_score)[:_SHOWN]]
