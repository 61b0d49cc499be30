"""The worst pairs of a judge: both versions side by side, with the changes marked."""

from __future__ import annotations

import re
from difflib import SequenceMatcher
from itertools import zip_longest
from typing import Any

from medal_judges.eval.trial.config import GROUPS
from medal_judges.eval.trial.findings import Analysis
from medal_judges.records.dialogue import Dialogue

_MOST = 5
_TOKEN = re.compile(r"\s+|\w+|[^\w\s]", re.UNICODE)
_CJK = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")
Parts = list[tuple[str, bool]] | None  # (text, changed); None: this version has no such turn


def worst_pairs(analysis: Analysis) -> list[dict[str, Any]]:
    """Returns the pairs with the largest ``harm`` (points in the wrong direction), at most one of
    each check, the worst first, as templates/pair.html reads them."""
    found = []
    for edit in {e.name: e for e in analysis.plan.edits}.values():
        pairs = analysis.own(edit.name)
        sign = -1.0 if edit.harm == "down" else 1.0
        harm = pairs.change.abs() if edit.group == "same" else sign * pairs.change
        if harm.max() > 0:  # NaN without a pair
            found.append((float(harm.max()), edit, pairs.loc[harm.idxmax()]))
    found.sort(key=lambda one: (-one[0], one[1].name))
    worst = []
    for points, edit, pair in found[:_MOST]:
        before, after = (analysis.plan.dialogues[id] for id in (pair.before, pair.after))
        rows, alike = _side_by_side(before, after)
        worst.append(
            {
                "group": GROUPS[edit.group],
                "check": f"{edit.name}, strength {pair.strength}" if pair.strength else edit.name,
                "what": edit.what,
                "lang": pair.lang,
                "id": pair.after,
                "before": float(pair.x),
                "after": float(pair.y),
                "harm": points,
                "rows": rows,
                "alike": alike,
            }
        )
    return worst


def _side_by_side(one: Dialogue, other: Dialogue) -> tuple[list[dict[str, Any]], int]:
    """Returns the turns that differ, with one unchanged turn on either side, each with ``alike``,
    the number of unchanged turns left out before it; and how many are left out at the end."""
    turns = list(zip_longest(one.turns, other.turns))
    changed = [i for i, (before, after) in enumerate(turns) if before != after]
    rows, last = [], -1
    for i in sorted({j for k in changed for j in (k - 1, k, k + 1) if 0 <= j < len(turns)}):
        before, after = turns[i]
        left, right = marked(before and before.content, after and after.content)
        role = (after or before).role
        row = {"index": i, "role": role, "before": left, "after": right, "alike": i - last - 1}
        rows.append(row)
        last = i
    return rows, len(turns) - last - 1


def marked(before: str | None, after: str | None) -> tuple[Parts, Parts]:
    """Splits both texts into parts, word by word (Chinese and Japanese: by character)."""
    if before is None or after is None:
        one, two = (None if text is None else [(text, True)] for text in (before, after))
        return one, two
    left, right = (
        [t for word in _TOKEN.findall(text) for t in (word if _CJK.search(word) else [word])]
        for text in (before, after)
    )
    codes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    one = [("".join(left[a:b]), kind != "equal") for kind, a, b, _, _ in codes if b > a]
    two = [("".join(right[a:b]), kind != "equal") for kind, _, _, a, b in codes if b > a]
    return one, two
