"""Asserts the quality of chats with 95% intervals; pytest_plugin.py makes a fixture of it."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence

from medal_judges.config import BOXED
from medal_judges.errors import ConfigError, CoverageError, visible
from medal_judges.eval.report.conversations import badness
from medal_judges.eval.report.figures import GateResult, check_gates
from medal_judges.eval.report.options import Gate
from medal_judges.integrations.chats import (
    Chat,
    JudgeSource,
    ScoredChats,
    goodness,
    load_judge,
    score_chats,
)
from medal_judges.models.base.judge import ScoreLevel

_SHOWN, _TEXT = 3, 160  # chats to look at, and characters of a turn


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
        side = "over" if loaded.dimension(name).good == "low" else "under"
        gates.append(Gate(side, name, float(limit), f"assert_quality({name}={limit:g})"))  # type: ignore[arg-type]
    scored = score_chats(chats, loaded, level=level)
    if scored.coverage is None:
        raise CoverageError("assert_quality: there are no chats to score")
    if scored.coverage < min_coverage:
        unscored = [each.failure or "no reason" for each in scored.judgements if not each.scored]
        reasons = "; ".join(f"{count} x {why}" for why, count in Counter(unscored).most_common(3))
        raise CoverageError(
            f"assert_quality: coverage {scored.coverage:.1%} is below the minimum of "
            f"{min_coverage:.0%}, so the scores say nothing: {reasons}",
            hint="min_coverage sets the minimum",
        )
    results = check_gates(gates, scored.scores(), scored.figures(), min_coverage)
    failing = ("failed", "undecided") if fail_undecided else ("failed",)
    if any(each.verdict in failing for each in results):
        raise AssertionError(_message(results, scored))
    for each in results:
        if each.verdict == "undecided":
            warnings.warn(each.text, QualityUndecidedWarning, stacklevel=2)
    return scored


def _message(results: Sequence[GateResult], scored: ScoredChats) -> str:
    """Returns the failed limits, then the worst chats by the first of them, with their last
    turns."""
    coverage = f"coverage {scored.coverage or 0.0:.1%}"
    broken = [each.gate.dimension for each in results if each.verdict != "passed"]
    lines = [each.text for each in results]
    lines.append(f"{len(scored.judgements)} judgements, {coverage}: {scored.signature}")
    lines.append(f"look first at these, the worst by {broken[0]}:")
    own, others = scored.judge.dimension(broken[0]), badness(scored.scores())
    worst = sorted(
        (good, -float(others[row]), row)
        for row, each in enumerate(scored.judgements)
        if (good := goodness(own, each.scores[broken[0]])) is not None
    )
    for *_, row in worst[:_SHOWN]:
        judgement, chat = scored.judgements[row], scored.chats[row]
        scores = ", ".join(f"{name} {judgement.scores[name]:.2f}" for name in broken)
        turn = "" if judgement.turn is None else f", turn {judgement.turn}"
        dialogue = scored.dialogues[chat]
        lines.append(f"  chats[{chat}] (id {dialogue.id}{turn}): {scores}")
        read = dialogue if judgement.turn is None else dialogue.upto(judgement.turn)
        for each in read.turns[-2:]:
            text = " ".join(each.content.split())
            text = text if len(text) <= _TEXT else f"{text[: _TEXT - 1]}…"
            lines.append(f"    {each.role}: {text}")
    return visible("\n".join(lines))
