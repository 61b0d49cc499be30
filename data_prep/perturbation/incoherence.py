"""incoherent: the assistant contradicts itself, forgets, or its answers stand in the wrong order.

contradiction (strength 1 to 3, how many): an earlier answer states one thing of the assistant, a
    later one the opposite; innocent: the later one agrees.
forgetting (1): an answer has lost what was said; innocent: the answer has kept it.
order (2: two answers, 3: all): answers change places, with small changes; innocent: the same
    small changes, in order.

In a contradiction either side may come first, so the later sentence alone, or the earlier, says
nothing: only both together do. ``touched`` is the later turn, where the fault can be seen.
"""

from __future__ import annotations

import numpy as np

from medal_judges.data_prep.perturbation.innocent import small_change
from medal_judges.data_prep.perturbation.insertions import insert_variants
from medal_judges.data_prep.perturbation.job import CannotPlant, Job, Twin, twin
from medal_judges.data_prep.perturbation.tables import variants
from medal_judges.data_prep.perturbation.text import insert

_WORDS = 4


def incoherence(job: Job, issue: str) -> Twin:
    """Twin by one method, drawn among those of the strength that this dialogue can carry."""
    methods = [_forgetting, _contradiction] if job.strength == 1 else [_order, _contradiction]
    if job.chance():
        methods.reverse()
    try:
        return methods[0](job)
    except CannotPlant:
        return methods[1](job)


def _contradiction(job: Job) -> Twin:
    turns = job.answers()
    if len(turns) < 2:
        raise CannotPlant("fewer than two answers: nothing to contradict")
    planted: dict[int, str] = {}
    innocent: dict[int, str] = {}
    touched: set[int] = set()
    for first, later in job.some(job.table("contradictions"), job.strength):
        one, two = job.some(turns, 2)
        side = int(job.rng.integers(2))
        positions = job.rng.random(2)
        for texts, answer in ((planted, 1 - side), (innocent, side)):
            added = ((one, variants(first)[side]), (two, variants(later)[answer]))
            for (turn, sentence), position in zip(added, positions, strict=True):
                before = texts.get(turn, job.texts[turn])
                texts[turn] = insert(before, sentence, float(position), job.lang)
        touched.add(two)
    return twin(job, planted, innocent, "contradiction", sorted(touched))


def _forgetting(job: Job) -> Twin:
    turns = [i for i in job.answers() if i > 1]
    if not turns:
        raise CannotPlant("no answer after the first exchange: nothing to forget")
    pair = variants(job.one(job.table("forgetting")))
    return insert_variants(job, [job.one(turns)], [pair], "forgetting")


def _order(job: Job) -> Twin:
    turns = job.answers(_WORDS)
    if len(turns) < job.strength:
        raise CannotPlant(f"fewer than {job.strength} answers of {_WORDS} words to reorder")
    chosen = job.some(turns, 2 if job.strength == 2 else len(turns))
    order = _derangement(len(chosen), job.rng)
    innocent = {turn: small_change(job, job.texts[turn]) for turn in chosen}
    planted = {chosen[i]: innocent[chosen[j]] for i, j in enumerate(order)}
    return twin(job, planted, innocent, "order")


def _derangement(count: int, rng: np.random.Generator) -> list[int]:
    """A random order in which nothing keeps its place (one cycle, Sattolo's algorithm)."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = int(rng.integers(i))
        order[i], order[j] = order[j], order[i]
    return order
