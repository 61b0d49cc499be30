"""irrelevant: something that has nothing to do with the conversation.

1. planted: a neutral sentence and an off-topic statement are added to an answer;
   innocent: that neutral sentence and another one in that place.
2. planted: an answer is replaced by one of another conversation, of about its length;
   innocent: the old answer. Both stand after the same neutral sentence, or have small changes.
3. two or three answers are replaced so.

A donor shares no word of four letters with the turns around the place (no pair of characters in
Chinese) and comes from the middle of its conversation.
"""

from __future__ import annotations

from medal_judges.data_prep.perturbation.innocent import filler, small_change
from medal_judges.data_prep.perturbation.insertions import insert_variants
from medal_judges.data_prep.perturbation.job import CannotPlant, Job, Twin, twin
from medal_judges.data_prep.perturbation.text import content_words, glue, has_words, insert

_WORDS = 4
_SUBJECT = 3  # content words a donor needs: "oh, I would want one too" fits anywhere
_NEAR = 3  # turns on either side that a donor must have no word in common with


def irrelevance(job: Job, issue: str) -> Twin:
    """Twin for the strength asked for."""
    if job.strength == 1:
        return _statement(job)
    turns = [i for i in job.answers(_WORDS) if i > 0]
    if not turns:
        raise CannotPlant(f"no answer of {_WORDS} words to replace")
    count = 1 if job.strength == 2 else 2 + int(job.chance())
    if len(turns) < min(count, 2):
        raise CannotPlant(f"fewer than two answers of {_WORDS} words to replace")
    # Of the kind that donors are where there are enough: a greeting would tell the innocent twin.
    alike = [i for i in turns if i in job.dialogue.assistant_turns[1:-1] and _has_subject(job, i)]
    turns = alike if len(alike) >= count else turns
    planted: dict[int, str] = {}
    innocent: dict[int, str] = {}
    for turn in job.some(turns, count):
        original = job.texts[turn]
        donor = _stranger(job, turn, len(original))
        # the same treatment for both, so that neither neutral sentences nor slips tell
        if job.chance():
            opening = job.one(job.table("neutral"))
            planted[turn] = insert(donor, opening, 0.0, job.lang)
            innocent[turn] = insert(original, opening, 0.0, job.lang)
        else:
            planted[turn] = small_change(job, donor)
            innocent[turn] = small_change(job, original)
    return twin(job, planted, innocent, "donor")


def _has_subject(job: Job, turn: int) -> bool:
    text = job.texts[turn]
    return has_words(text, job.lang, 5) and len(content_words([text], job.lang)) >= _SUBJECT


def _statement(job: Job) -> Twin:
    turns = job.answers()
    if not turns:
        raise CannotPlant("no assistant turn with words")
    said = content_words(job.texts, job.lang)
    foreign = [s for s in job.table("off_topic") if said.isdisjoint(content_words([s], job.lang))]
    if not foreign:
        raise CannotPlant("every off-topic statement shares a word with the conversation")
    statement = job.one(foreign)
    # One neutral sentence before both, so that seeing such a sentence does not mean "innocent".
    opening: str = job.one(job.table("neutral"))
    neutral = filler(job, len(statement), [opening], most=1)
    pair = (glue([opening, *neutral], job.lang), glue([opening, statement], job.lang))
    return insert_variants(job, [job.one(turns)], [pair], "statement")


def _stranger(job: Job, turn: int, length: int) -> str:
    """A donor of about ``length`` characters, or off-topic statements where there is no donor."""
    near = job.texts[max(0, turn - _NEAR) : turn + _NEAR + 1]
    said = content_words(near, job.lang)

    def apart(text: str) -> bool:
        words = content_words([text], job.lang)
        return len(words) >= _SUBJECT and said.isdisjoint(words)

    donor = job.donors.pick(job.rng, job.lang, job.group, length, apart)
    if donor is None:
        statements = [s for s in job.table("off_topic") if apart(s)]
        if not statements:
            raise CannotPlant("no donor without a word in common")
        donor = job.one(statements)
    return donor
