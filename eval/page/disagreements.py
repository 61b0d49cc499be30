"""Disagreements: the dialogues where judge and people differ most, as a chat to read."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from markupsafe import Markup

from medal_judges.contributions import Unit
from medal_judges.eval.page.arrangement import Arrangement
from medal_judges.report.numbers import number
from medal_judges.report.page import Block, Fold, Section, fragment
from medal_judges.report.svg import rank_svg
from medal_judges.stats.results import Disagreement

_IN_SIGHT = 6
_LEAD = (
    "Dialogues ranked most differently by judge and people. Where the judge can say so, turns are "
    "coloured by what they contributed: by how much each moved the score away from the baseline, "
    "which is what the dialogue would have if every turn were an average one of its speaker in the "
    "judge's training data (the middle of the scale for a judge without any). Baseline and "
    "contributions add up to the score before it is clipped to its scale; each card names the "
    "baseline and the unit. The strongest turn of a dialogue has the full colour. Ranks run from "
    "0 (lowest of the set) to 1; the line shows where people ◆ and judge ● put the dialogue."
)
_KEY = Markup(
    '<p class="turnkey"><span class="pos" style="--s:90%">raised the score above the baseline'
    '</span><span style="--s:0%">as an average turn</span>'
    '<span class="neg" style="--s:90%">lowered it below the baseline</span></p>'
)
_UNIT: dict[Unit, str] = {
    "score": "units of the score",
    "uncalibrated score": "units of the score before calibration",
    "logit": "logits of the score's place on its scale",
    "uncalibrated logit": "logits of the score's place on its scale, before calibration",
    "mean logit": "mean logits over the steps of the scale",
    "logit per level": "logits per level of the scale",
}


def disagreements(view: Arrangement) -> Section:
    """One fold a judge, the first open."""
    places = {judge: i for i, judge in enumerate(view.judges)}
    ordered = sorted(  # stable within a judge
        view.benchmark.disagreements, key=lambda d: places.get(d.judge, len(places))
    )
    blocks: list[Block] = [_KEY] if ordered else []
    for judge, group in groupby(ordered, key=lambda d: d.judge):
        cards = [_card(item) for item in group]
        body = Markup('<div class="cards">{}</div>').format(Markup("").join(cards))
        blocks.append(Fold(f"{judge}: {len(cards)} dialogues", [body], is_open=len(blocks) == 1))
    heading = "Where judge and people differ most"
    return Section("disagreements", heading, blocks, _LEAD, link="Disagreements")


def _card(item: Disagreement) -> Markup:
    given = item.matched_contributions
    moves: Sequence[float | None] = given.turns if given else [None] * len(item.turns)
    largest = max((abs(move) for move in moves if move), default=0.0)
    strengths = [round(100 * abs(move) / largest) if move else 0 for move in moves]
    ranks = (item.human_rank, item.score_rank)
    return fragment(
        "medal_judges.eval.page",
        "disagreement.html",
        item=item,
        track=rank_svg(*ranks) if all(0 <= rank <= 1 for rank in ranks) else "",
        account=_account(item),
        turns=list(zip(range(len(moves)), item.turns, moves, strengths, strict=True)),
        in_sight=_IN_SIGHT if len(moves) > _IN_SIGHT + 2 else len(moves),
    )


def _account(item: Disagreement) -> str:
    """How baseline and contributions add up, or why none are shown."""
    given = item.contributions
    if given is None:
        return "This judge gives no contributions."
    if item.matched_contributions is None:
        return f"{len(given.turns)} contributions for {len(item.turns)} turns: not shown."
    moved = given.value - given.baseline
    return (
        f"Baseline {number(given.baseline)} {'−' if moved < 0 else '+'} {number(abs(moved))} by "
        f"its turns = {number(given.value)}, in {_UNIT[given.unit]}"
    )
