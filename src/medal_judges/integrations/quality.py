"""An assertion on the quality of chats, decided by the 95% interval; see pytest_plugin.py."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence

from medal_judges.errors import ConfigError, CoverageError
from medal_judges.eval.report.conversations import badness
from medal_judges.eval.report.gate import GateResult, check_gates
from medal_judges.eval.report.options import Gate
from medal_judges.integrations.chats import (
    Chat,
    JudgeSource,
    ScoredChats,
    goodness,
    load_judge,
    score_chats,
)
from medal_judges.models.base.judge import Judge, ScoreLevel
from medal_judges.records.foreign_text import visible
from medal_judges.shipped import BOXED

_SHOWN, _TEXT = 3, 160  # chats to look at, and characters of a turn


class QualityUndecidedWarning(UserWarning):
    """The limit lies inside the interval: these chats show neither that it is kept nor broken."""


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
    """Judge ``chats`` and hold each dimension of ``limits`` against its 95% interval.

    A limit is the least mean of a dimension that is good when high (``overall=3.5``), and the
    largest mean, or share of chats, of one that is good when low (``unsafe=0.05``). It fails where
    the whole interval lies on the wrong side, as ``medal report --fail-under`` does; where the
    limit lies inside the interval, QualityUndecidedWarning is given, or with ``fail_undecided`` it
    fails too. Returns the scored chats.

    Raises AssertionError that names the chats to look at; ConfigError for no limits, for a
    dimension that the judge lacks or a limit outside its scale; CoverageError where fewer than
    ``min_coverage`` of the chats have a score, and MedalError where they are too few for an
    interval: what says nothing does not pass.
    """
    __tracebackhide__ = True
    loaded = load_judge(judge, max_cost=max_cost)
    gates = _gates(loaded, limits)
    scored = score_chats(chats, loaded, level=level)
    _require_coverage(scored, min_coverage)
    results = check_gates(gates, scored.scores(), scored.figures(), min_coverage)
    failing = ("failed", "undecided") if fail_undecided else ("failed",)
    if any(each.verdict in failing for each in results):
        raise AssertionError(_message(results, scored))
    for each in results:
        if each.verdict == "undecided":
            warnings.warn(each.text, QualityUndecidedWarning, stacklevel=2)
    return scored


def _gates(judge: Judge, limits: Mapping[str, float]) -> list[Gate]:
    if not limits:
        names = ", ".join(dimension.name for dimension in judge.dimensions)
        raise ConfigError(
            "assert_quality: no limit is given, so nothing would be asserted",
            hint=f"give one by dimension, such as overall=3.5; this judge has: {names}",
        )
    return [
        Gate(
            "over" if judge.dimension(name).good == "low" else "under",
            name,
            float(limit),
            f"assert_quality({name}={limit:g})",
        )
        for name, limit in limits.items()
    ]


def _require_coverage(scored: ScoredChats, floor: float) -> None:
    coverage = scored.coverage
    if coverage is None:
        raise CoverageError("assert_quality: there are no chats, so nothing was shown")
    if coverage < floor:
        reasons = Counter(
            each.failure or "no reason" for each in scored.judgements if not each.scored
        )
        told = "; ".join(f"{count} x {reason}" for reason, count in reasons.most_common(3))
        raise CoverageError(
            f"assert_quality: coverage {coverage:.1%} is under the floor of {floor:.0%}, so the "
            f"scores say nothing: {told}",
            hint="min_coverage sets the floor",
        )


def _message(results: Sequence[GateResult], scored: ScoredChats) -> str:
    """The gates, then the worst chats by the first dimension that failed, with their last turns."""
    coverage = scored.coverage or 0.0
    lines = [each.text for each in results]
    lines.append(
        f"{len(scored.judgements)} judgements, coverage {coverage:.1%}: {scored.signature}"
    )
    broken = [each.gate.dimension for each in results if each.verdict != "passed"]
    lines.append(f"look first at these, the worst by {broken[0]}:")
    lines += [line for row in _worst(scored, broken[0]) for line in _shown(scored, row, broken)]
    return visible("\n".join(lines))


def _worst(scored: ScoredChats, dimension: str) -> list[int]:
    """Rows from the worst on: by ``dimension``, then by all that the judge says of the chat."""
    own, others = scored.judge.dimension(dimension), badness(scored.scores())
    rows = [
        (good, -float(others[row]), row)
        for row, each in enumerate(scored.judgements)
        if (good := goodness(own, each.scores[dimension])) is not None
    ]
    return [row for *_, row in sorted(rows)[:_SHOWN]]


def _shown(scored: ScoredChats, row: int, dimensions: Sequence[str]) -> list[str]:
    judgement, chat = scored.judgements[row], scored.chats[row]
    said = ", ".join(f"{name} {judgement.scores[name]:.2f}" for name in dimensions)
    turn = "" if judgement.turn is None else f", turn {judgement.turn}"
    dialogue = scored.dialogues[chat]
    shown = dialogue if judgement.turn is None else dialogue.upto(judgement.turn)
    lines = [f"  chats[{chat}] (id {dialogue.id}{turn}): {said}"]
    return lines + [f"    {each.role}: {_short(each.content)}" for each in shown.turns[-2:]]


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT else f"{line[: _TEXT - 1]}…"
