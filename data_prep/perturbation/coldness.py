"""lacks_empathy: the user says what weighs on them, the assistant is cold or passes over it.

1. planted: talks of something pleasant instead, then the old answer;
   innocent: a warm sentence, then the old answer.
2. planted: a cold sentence, then the old answer; innocent: as in 1.
3. planted: a cold sentence and nothing else, up to two times; innocent: a warm one.

The user's statement is put at the end of the user turn before, in both twins: the only edit of
user turns there is. The three sorts of answer come in triples of about one length.
"""

from __future__ import annotations

from medal_judges.data_prep.perturbation.job import CannotPlant, Job, Twin, twin
from medal_judges.data_prep.perturbation.text import insert


def coldness(job: Job, issue: str) -> Twin:
    """Twin for the strength asked for."""
    turns = job.dialogue.turns
    answers = [i for i in job.answers() if i > 0 and turns[i - 1].role == "user"]
    if not answers:
        raise CannotPlant("no answer right after a user turn")
    chosen = job.some(answers, 2 if job.strength == 3 else 1)
    feelings = job.some(job.table("feelings"), len(chosen))
    replies = job.some(job.table("replies"), len(chosen))
    planted: dict[int, str] = {}
    innocent: dict[int, str] = {}
    for turn, feeling, reply in zip(chosen, feelings, replies, strict=True):
        told = insert(job.texts[turn - 1], feeling, 1.0, job.lang)
        faulty = reply["passing" if job.strength == 1 else "cold"]
        for texts, answer in ((planted, faulty), (innocent, reply["warm"])):
            texts[turn - 1] = told
            kept = job.texts[turn] if job.strength < 3 else ""
            texts[turn] = insert(kept, answer, 0.0, job.lang)
    return twin(job, planted, innocent, "reply", chosen)
