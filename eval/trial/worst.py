"""The worst pairs of a judge, to be read side by side with what changed marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from medal_judges.eval.trial.edits import Edit
from medal_judges.eval.trial.findings import Analysis
from medal_judges.eval.trial.pairs import ScoredPairs
from medal_judges.eval.trial.plan import VersionPair
from medal_judges.eval.trial.results import GROUPS
from medal_judges.records.dialogue import Dialogue, Turn

MOST = 5
_TOKEN = re.compile(r"\s+|\w+|[^\w\s]", re.UNICODE)
_CJK = re.compile(r"[\u3040-\u9fff\uac00-\ud7af]")
_NEAR = 1  # unchanged turns shown on either side of a changed one


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of a turn's text; ``changed``: the other version does not have it."""

    text: str
    changed: bool


@dataclass(frozen=True, slots=True)
class TurnRow:
    """One turn in both versions, None where a version has no such turn; ``alike`` turns before it
    are the same in both and not shown."""

    index: int
    role: str
    before: tuple[Part, ...] | None
    after: tuple[Part, ...] | None
    alike: int = 0

    @property
    def same(self) -> bool:
        """Whether both versions have the turn, word for word."""
        return self.before is not None and self.before == self.after


@dataclass(frozen=True, slots=True)
class WorstPair:
    """A pair that went badly: the judge's quality of both versions and their turns side by side.
    ``harm``: points by which it went the wrong way; ``alike``: turns after the last that is shown.
    """

    group: str
    check: str
    what: str
    lang: str
    id: str
    before: float
    after: float
    harm: float
    rows: tuple[TurnRow, ...]
    alike: int


def worst_pairs(analysis: Analysis, most: int = MOST) -> list[WorstPair]:
    """The ``most`` worst pairs, of different checks, the worst first: by how far the score went
    where it should not. Pairs that went as they should are never among them."""
    found: list[tuple[float, Edit, VersionPair, float, float]] = []
    for edit in {e.name: e for e in analysis.plan.edits}.values():
        scored = analysis.own(analysis.scored(edit.name))
        harm = _harm(edit, scored)
        if harm and (worst := max(range(len(harm)), key=harm.__getitem__)) is not None:
            pair = scored.pairs[worst]
            ends = float(scored.before[worst]), float(scored.after[worst])
            found.append((harm[worst], edit, pair, *ends))
    found.sort(key=lambda one: (-one[0], one[1].name))
    return [
        _worst(analysis, harm, edit, pair, before, after)
        for harm, edit, pair, before, after in found[:most]
        if harm > 0
    ]


def _harm(edit: Edit, scored: ScoredPairs) -> list[float]:
    """How far each pair went the wrong way, in points."""
    if edit.group == "same":
        return [abs(float(s)) for s in scored.shift]
    sign = -1.0 if edit.harm == "down" else 1.0
    return [sign * float(s) for s in scored.shift]


def _worst(
    analysis: Analysis, harm: float, edit: Edit, pair: VersionPair, before: float, after: float
) -> WorstPair:
    dialogues = analysis.plan.dialogues
    rows, alike = side_by_side(dialogues[pair.before], dialogues[pair.after])
    name = edit.name if not pair.strength else f"{edit.name}, strength {pair.strength}"
    return WorstPair(
        GROUPS[edit.group], name, edit.what, pair.lang, pair.after, before, after, harm, rows, alike
    )


def side_by_side(one: Dialogue, other: Dialogue) -> tuple[tuple[TurnRow, ...], int]:
    """The turns that differ and those next to them, and how many alike turns follow the last."""
    count = max(len(one.turns), len(other.turns))
    turns = [(_at(one, i), _at(other, i)) for i in range(count)]
    changed = [i for i, (a, b) in enumerate(turns) if a != b]
    shown = sorted({j for i in changed for j in range(i - _NEAR, i + _NEAR + 1) if 0 <= j < count})
    rows, last = [], -1
    for i in shown:
        before, after = turns[i]
        role = (after or before or Turn("user", "")).role
        left, right = marked(_content(before), _content(after))
        rows.append(TurnRow(i, role, left, right, i - last - 1))
        last = i
    return tuple(rows), count - last - 1


def _at(dialogue: Dialogue, turn: int) -> Turn | None:
    return dialogue.turns[turn] if turn < len(dialogue.turns) else None


def _content(turn: Turn | None) -> str | None:
    return None if turn is None else turn.content


Parts = tuple[Part, ...] | None


def _whole(text: str | None) -> Parts:
    return None if text is None else (Part(text, True),)


def marked(before: str | None, after: str | None) -> tuple[Parts, Parts]:
    """Both texts in parts, word by word (character by character in Chinese and Japanese)."""
    if before is None or after is None:
        return _whole(before), _whole(after)
    left, right = _tokens(before), _tokens(after)
    codes = SequenceMatcher(None, left, right, autojunk=False).get_opcodes()
    one = _joined((left[a:b], kind != "equal") for kind, a, b, _, _ in codes)
    two = _joined((right[a:b], kind != "equal") for kind, _, _, a, b in codes)
    return one, two


def _tokens(text: str) -> Sequence[str]:
    found = _TOKEN.findall(text)
    return [t for word in found for t in (list(word) if _CJK.search(word) else [word])]


def _joined(parts: Iterator[tuple[Sequence[str], bool]]) -> tuple[Part, ...]:
    return tuple(Part("".join(tokens), changed) for tokens, changed in parts if tokens)
