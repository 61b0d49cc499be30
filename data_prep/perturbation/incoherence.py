"""incoherent: the assistant contradicts itself, forgets, or its answers stand in the wrong order.

contradiction (strength 1 to 3, how many): an earlier answer states one thing of the assistant, a
    later one the opposite; control: the later one agrees.
forgetting (1): an answer has lost what was said; control: the answer has kept it.
order (2: two answers, 3: all): answers change places, with small changes; control: the same
    small changes, in order.

In a contradiction either side may come first, so the later sentence alone, or the earlier, says
nothing: only both together do. ``touched`` is the later turn, where the fault can be seen.
"""

from __future__ import annotations

import numpy as np

from medal_judges.data_prep.perturbation.edit import (
    CannotInject,
    EditContext,
    EditedPair,
    small_change,
)
from medal_judges.data_prep.perturbation.insertions import insert_variants
from medal_judges.data_prep.perturbation.material import variants

_WORDS = 4


def incoherence(edit: EditContext) -> EditedPair:
    """The pair by one method, drawn among those of the strength that this dialogue can carry."""
    methods = [_forgetting, _contradiction] if edit.strength == 1 else [_order, _contradiction]
    if edit.chance():
        methods.reverse()
    try:
        return methods[0](edit)
    except CannotInject:
        return methods[1](edit)


def _contradiction(edit: EditContext) -> EditedPair:
    turns = edit.answers()
    if len(turns) < 2:
        raise CannotInject("fewer than two answers: nothing to contradict")
    pair = EditedPair(edit, "contradiction")
    touched = set()
    for first, later in edit.some(edit.table("contradictions"), edit.strength):
        one, two = edit.some(turns, 2)
        side = int(edit.rng.integers(2))
        positions = edit.rng.random(2)
        statement, answers = variants(first)[side], variants(later)
        pair.insert(one, statement, statement, float(positions[0]))
        pair.insert(two, answers[1 - side], answers[side], float(positions[1]))
        touched.add(two)
    return pair.finished(touched)


def _forgetting(edit: EditContext) -> EditedPair:
    turns = [i for i in edit.answers() if i > 1]
    if not turns:
        raise CannotInject("no answer after the first exchange: nothing to forget")
    answer = variants(edit.one(edit.table("forgetting")))
    return insert_variants(edit, [edit.one(turns)], [answer], "forgetting")


def _order(edit: EditContext) -> EditedPair:
    turns = edit.answers(_WORDS)
    if len(turns) < edit.strength:
        raise CannotInject(f"fewer than {edit.strength} answers of {_WORDS} words to reorder")
    chosen = edit.some(turns, 2 if edit.strength == 2 else len(turns))
    order = _derangement(len(chosen), edit.rng)
    changed = [small_change(edit, edit.texts[turn]) for turn in chosen]
    pair = EditedPair(edit, "order")
    for turn, control, other in zip(chosen, changed, order, strict=True):
        pair.put(turn, changed[other], control)
    return pair.finished()


def _derangement(count: int, rng: np.random.Generator) -> list[int]:
    """A random order in which nothing keeps its place (one cycle, Sattolo's algorithm)."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = int(rng.integers(i))
        order[i], order[j] = order[j], order[i]
    return order
