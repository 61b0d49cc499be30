"""The worst pairs of a judge: both versions side by side, with the changes marked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from medal_judges.eval.trial.findings import Analysis
from medal_judges.eval.trial.results import GROUPS
from medal_judges.records.dialogue import Dialogue

MOST = 5
_TOKEN = re.compile(r"\s+|\w+|[^\w\s]", re.UNICODE)
_CJK = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")
Parts = list[tuple[str, bool]] | None  # (text, changed); None: this version has no such turn


@dataclass(frozen=True, slots=True)
class WorstPair:
    """The quality of both versions of a pair; ``harm``: points in the wrong direction. ``rows``
    are the turns that differ, with one unchanged turn on either side: index, role, before, after,
    and ``alike``, the number of unchanged turns left out before it."""

    group: str
    check: str
    what: str
    lang: str
    id: str
    before: float
    after: float
    harm: float
    rows: Sequence[dict[str, Any]]
    alike: int  # turns left out after the last row


def worst_pairs(analysis: Analysis, most: int = MOST) -> list[WorstPair]:
    """Returns the ``most`` worst pairs, at most one of each check, the worst first; none that moved
    as expected."""
    found = []
    for edit in {e.name: e for e in analysis.plan.edits}.values():
        scored = analysis.own(analysis.scored(edit.name))
        sign = -1.0 if edit.harm == "down" else 1.0
        harm = [abs(float(s)) if edit.group == "same" else sign * float(s) for s in scored.shift]
        if harm and max(harm) > 0:
            index = harm.index(max(harm))
            ends = float(scored.before[index]), float(scored.after[index])
            found.append((harm[index], edit, scored.pairs[index], *ends))
    found.sort(key=lambda one: (-one[0], one[1].name))
    worst = []
    for points, edit, pair, before, after in found[:most]:
        dialogues = analysis.plan.dialogues
        rows, alike = _side_by_side(dialogues[pair.before], dialogues[pair.after])
        name = f"{edit.name}, strength {pair.strength}" if pair.strength else edit.name
        about = GROUPS[edit.group], name, edit.what, pair.lang, pair.after
        worst.append(WorstPair(*about, before, after, points, rows, alike))
    return worst


def _side_by_side(one: Dialogue, other: Dialogue) -> tuple[list[dict[str, Any]], int]:
    count = max(len(one.turns), len(other.turns))
    padded = [[*d.turns, *[None] * (count - len(d.turns))] for d in (one, other)]
    turns = list(zip(*padded, strict=True))
    changed = [i for i, (before, after) in enumerate(turns) if before != after]
    rows, last = [], -1
    for i in sorted({j for k in changed for j in (k - 1, k, k + 1) if 0 <= j < count}):
        before, after = turns[i]
        left, right = marked(before and before.content, after and after.content)
        role = next(turn.role for turn in (after, before) if turn is not None)
        rows.append(
            {"index": i, "role": role, "before": left, "after": right, "alike": i - last - 1}
        )
        last = i
    return rows, count - last - 1


def marked(before: str | None, after: str | None) -> tuple[Parts, Parts]:
    """Splits both texts into parts, word by word (Chinese and Japanese: by character)."""
    if before is None or after is None:
        whole = [None if text is None else [(text, True)] for text in (before, after)]
        return whole[0], whole[1]
    left, right = (
        [t for word in _TOKEN.findall(text) for t in (word if _CJK.search(word) else [word])]
        for text in (before, after)
    )
    codes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    one = [("".join(left[a:b]), kind != "equal") for kind, a, b, _, _ in codes if b > a]
    two = [("".join(right[a:b]), kind != "equal") for kind, _, _, a, b in codes if b > a]
    return one, two
