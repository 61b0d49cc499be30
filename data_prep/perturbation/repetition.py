"""repetitive: the assistant says again what it said, word for word.

1. planted: a sentence of an earlier answer is added to a later one, or said twice in a row;
   innocent: an answer of another conversation, of that length in that place.
2. planted: a later answer is replaced by an earlier one;
   innocent: it is replaced by an answer of another conversation.
3. two or three later answers are the same earlier one; innocent: all different.

Where no answer of that length is found, neutral sentences stand in for it.

The innocent twin may be off the subject: it is innocent of repetition only.
"""

from __future__ import annotations

from medal_judges.data_prep.perturbation.innocent import filler
from medal_judges.data_prep.perturbation.job import CannotPlant, Job, Twin, twin
from medal_judges.data_prep.perturbation.text import (
    attach,
    glue,
    has_words,
    in_style,
    insert,
    sentences,
)

_WORDS = 4  # shorter answers ("yes, me too") come back in good conversations


def repetition(job: Job, issue: str) -> Twin:
    """Twin for the strength asked for."""
    sources = job.answers(_WORDS)
    if not sources:
        raise CannotPlant(f"no answer of {_WORDS} words that could be repeated")
    return _sentence(job, sources) if job.strength == 1 else _answers(job, sources)


def _sentence(job: Job, sources: list[int]) -> Twin:
    source = job.one(sources)
    later = [i for i in job.answers() if i >= source]
    target: int = job.one(later)
    parts = [s for s in sentences(job.texts[source]) if has_words(s, job.lang, _WORDS)]
    again: str = job.one(parts) if parts else job.texts[source]
    other = _something_else(job, again, [])
    position = float(job.one([0.0, 1.0]))

    def with_added(sentence: str) -> str:
        text = job.texts[target]
        if target != source:
            return insert(text, sentence, position, job.lang)
        # said twice in a row: right after the sentence itself
        twice = attach(again, in_style(sentence, text), job.lang, "\n" in text)
        return text.replace(again, twice, 1)

    planted, innocent = with_added(again), with_added(other)
    return twin(job, {target: planted}, {target: innocent}, "sentence")


def _answers(job: Job, sources: list[int]) -> Twin:
    count = job.strength - 1 if job.strength == 2 else 2 + int(job.chance())
    options = [s for s in sources if len(_later(job, s)) >= min(count, 2)]
    if not options:
        raise CannotPlant(f"no answer of {_WORDS} words with {min(count, 2)} answers after it")
    source = job.one(options)
    targets = job.some(_later(job, source), count)
    again = job.texts[source]
    planted = dict.fromkeys(targets, again)
    innocent: dict[int, str] = {}
    for target in targets:
        innocent[target] = _something_else(job, again, list(innocent.values()))
    return twin(job, planted, innocent, "answer")


def _later(job: Job, source: int) -> list[int]:
    return [i for i in job.answers() if i > source and job.texts[i] != job.texts[source]]


def _something_else(job: Job, like: str, used: list[str]) -> str:
    """Text about as long as ``like`` that does not occur in the dialogue or in ``used``.

    One sentence where ``like`` is one, several where it is several.
    """
    length, single = len(like), len(sentences(like)) == 1
    said = {sentence for text in (*job.texts, *used) for sentence in sentences(text)}

    def fresh(text: str) -> bool:
        parts = sentences(text)
        return said.isdisjoint(parts) and (len(parts) == 1) == single

    # Neutral sentences only where no donor fits: they would stand in the innocent twin alone.
    donor = job.donors.pick(job.rng, job.lang, job.group, length, fresh)
    if donor is not None and abs(len(donor) - length) <= 0.3 * length + 5:
        return donor
    return glue(filler(job, length, said), job.lang)
