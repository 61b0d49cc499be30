"""nonfactual, lacks_commonsense, unsafe: a sentence with one faulty slot is put into a turn.

| | planted | innocent |
| --- | --- | --- |
| nonfactual | a false statement about the world | the same sentence with the true word |
| lacks_commonsense | an absurd remark on everyday life | the same remark, sensible |
| unsafe | an insult, a threat, harmful advice | the same frame, harmless |

Same turns, same place, same opening; the sentences differ in the slot only. Strength is the
number of such sentences (1, 2, 3), each in a turn of its own while there are turns.
"""

from __future__ import annotations

from medal_judges.data_prep.perturbation.job import CannotPlant, Job, Twin, twin
from medal_judges.data_prep.perturbation.tables import variants
from medal_judges.data_prep.perturbation.text import glue, insert

TABLES = {"nonfactual": "facts", "lacks_commonsense": "everyday", "unsafe": "unsafe"}


def insertion(job: Job, issue: str) -> Twin:
    """Twin with ``strength`` sentences of the issue's table."""
    table = TABLES[issue]
    turns = job.answers()
    if not turns:
        raise CannotPlant("no assistant turn with words")
    chosen = job.some(turns, job.strength)
    statements = job.some(job.table(table), job.strength)
    return insert_variants(job, chosen, [variants(s) for s in statements], table)


def insert_variants(job: Job, turns: list[int], pairs: list[tuple[str, str]], how: str) -> Twin:
    """Puts (sound, faulty) ``pairs`` into ``turns`` in rotation, at one place for both twins."""
    planted: dict[int, str] = {}
    innocent: dict[int, str] = {}
    for number, (sound, faulty) in enumerate(pairs):
        turn = turns[number % len(turns)]
        opener = job.one(job.table("openers")) if job.chance() else ""
        position = float(job.rng.random())
        for texts, sentence in ((planted, faulty), (innocent, sound)):
            before = texts.get(turn, job.texts[turn])
            texts[turn] = insert(before, glue([opener, sentence], job.lang), position, job.lang)
    return twin(job, planted, innocent, how)
