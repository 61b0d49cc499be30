"""Disagreements: the dialogues where judge and people differ most, as a chat to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from medal_judges.contributions import Contributions, Unit
from medal_judges.eval.page.arrangement import Arrangement
from medal_judges.report.markup import details, escape, section
from medal_judges.report.numbers import number
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
_KEY = (
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


def disagreements(view: Arrangement) -> str:
    """The section, one fold a judge, the first open; empty where there are none."""
    found = view.benchmark.disagreements
    ordered = sorted(found, key=lambda d: _position(view.judges, d.judge))  # stable within a judge
    folds: list[str] = []
    for judge, group in groupby(ordered, key=lambda d: d.judge):
        cards = [_card(item) for item in group]
        body = f'<div class="cards">{"".join(cards)}</div>'
        folds.append(details(f"{judge}: {len(cards)} dialogues", body, is_open=not folds))
    body = _KEY + "".join(folds) if folds else ""
    return section("disagreements", "Where judge and people differ most", body, _LEAD)


def _position(judges: Sequence[str], judge: str) -> int:
    return judges.index(judge) if judge in judges else len(judges)


def _card(item: Disagreement) -> str:
    turns = list(_bubbles(item))
    folded = turns[_IN_SIGHT:] if len(turns) > _IN_SIGHT + 2 else []
    visible = turns[: len(turns) - len(folded)]
    rest = details(f"{len(folded)} more turns", "".join(folded)) if folded else ""
    return (
        f'<article class="card"><header><h4><bdi>{escape(item.id)}</bdi></h4>'
        f'<p class="where" dir="auto">{escape(item.set_name)} · {escape(item.dimension)}</p>'
        f'<p class="verdict"><span>◆ people <b>{number(item.human)}</b> '
        f"{_rank(item.human_rank)}</span><span>● judge <b>{number(item.score)}</b> "
        f"{_rank(item.score_rank)}</span></p>{_track(item)}{_account(item)}</header>"
        f'<div class="chat">{"".join(visible)}{rest}</div></article>\n'
    )


def _rank(rank: float) -> str:
    return f'<span class="ci">rank {number(rank)}</span>'


def _track(item: Disagreement) -> str:
    """Where people and judge rank the dialogue, from lowest (left) to highest (right)."""
    ranks = (item.human_rank, item.score_rank)
    if not all(0 <= rank <= 1 for rank in ranks):
        return ""
    people, judge = (6 + 188 * rank for rank in ranks)
    return (
        '<svg class="track" viewBox="0 0 200 12" aria-hidden="true">'
        '<line class="track" x1="6" y1="6" x2="194" y2="6"/>'
        f'<line class="span" x1="{people:.1f}" y1="6" x2="{judge:.1f}" y2="6"/>'
        f'<path class="ceiling" d="M{people:.1f} 0l4 6-4 6-4-6z"/>'
        f'<circle class="dot" cx="{judge:.1f}" cy="6" r="4"/></svg>'
    )


def _told_turns(item: Disagreement) -> Contributions | None:
    """The contributions, where there is one for each turn."""
    told = item.contributions
    return told if told is not None and len(told.turns) == len(item.turns) else None


def _account(item: Disagreement) -> str:
    """How baseline and contributions add up, or why none are shown."""
    told = item.contributions
    if told is None:
        text = "This judge gives no contributions."
    elif _told_turns(item) is None:
        text = f"{len(told.turns)} contributions for {len(item.turns)} turns: not shown."
    else:
        moved = told.value - told.baseline
        text = (
            f"Baseline {number(told.baseline)} {'−' if moved < 0 else '+'} {number(abs(moved))} by "
            f"its turns = {number(told.value)}, in {_UNIT[told.unit]}"
        )
    return f'<p class="count">{text}</p>'


def _bubbles(item: Disagreement) -> Iterator[str]:
    told = _told_turns(item)
    values: Sequence[float | None] = told.turns if told is not None else [None] * len(item.turns)
    largest = max((abs(v) for v in values if v is not None), default=0.0)
    for i, ((role, text), value) in enumerate(zip(item.turns, values, strict=True)):
        yield _bubble(i, role, text, value, largest)


def _bubble(i: int, role: str, text: str, value: float | None, largest: float) -> str:
    side = "assistant" if role == "assistant" else "user"
    tint, told = "", ""
    if value is not None:
        strength = round(100 * abs(value) / largest) if largest else 0
        tint = f' style="--s:{strength}%"'
        side += " neg" if value < 0 else " pos"
        told = f'<span class="contribution">{"+" if value > 0 else ""}{number(value)}</span>'
    said = escape(text) if text.strip() else '<i class="empty">(empty turn)</i>'
    return (
        f'<div class="turn {side}"{tint}><p class="who">{i} · {escape(role)}{told}</p>'
        f'<p class="said" dir="auto">{said}</p></div>'
    )
