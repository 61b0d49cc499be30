"""Chat: a dialogue as speech bubbles, each turn coloured by its contribution to a score."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup

from medal_judges.records.judgement import Contributions, Unit
from medal_judges.report.numbers import number
from medal_judges.report.page import fragment

_IN_SIGHT = 6
TURN_KEY = Markup(
    '<p class="turnkey"><span class="pos" style="--s:90%">raised the score above the baseline'
    '</span><span style="--s:0%">as an average turn</span>'
    '<span class="neg" style="--s:90%">lowered it below the baseline</span></p>'
)
_UNITS: dict[Unit, str] = {
    "score": "units of the score",
    "uncalibrated score": "units of the score before calibration",
    "logit": "logits of the score's place on its scale",
    "uncalibrated logit": "logits of the score's place on its scale, before calibration",
    "mean logit": "mean logits over the steps of the scale",
    "logit per level": "logits per level of the scale",
}


def chat_html(
    turns: Sequence[tuple[str, str]], given: Contributions | None, judged: int | None = None
) -> Markup:
    """The turns, (role, text) each; the strongest contribution has the full colour, turns beyond
    the sixth are folded. Contributions of another number of turns are not shown. ``judged`` is the
    turn of the score."""
    count = len(turns)
    moves = [*given.turns] if given is not None and len(given.turns) == count else [None] * count
    largest = max((abs(move) for move in moves if move), default=0.0)
    strengths = [round(100 * abs(move) / largest) if move else 0 for move in moves]
    return fragment(
        "medal_judges.report",
        "chat.html",
        turns=list(zip(range(count), turns, moves, strengths, strict=True)),
        in_sight=_IN_SIGHT if count > _IN_SIGHT + 2 else count,
        judged=judged,
    )


def account(given: Contributions | None, turns: int) -> str:
    """How baseline and contributions add up, or why none are shown."""
    if given is None:
        return "This judge gives no contributions."
    if len(given.turns) != turns:
        return f"{len(given.turns)} contributions for {turns} turns: not shown."
    moved = given.value - given.baseline
    sign = "−" if moved < 0 else "+"
    sums = f"{number(given.baseline)} {sign} {number(abs(moved))} by its turns"
    return f"Baseline {sums} = {number(given.value)}, in {_UNITS[given.unit]}"
