"""Issues of what an answer says: something again, or something else.

repetitive: the assistant says again what it said, word for word.

1. injected: a sentence of an earlier answer is added to a later one, or said twice in a row;
   control: an answer of another conversation, of that length in that place.
2. injected: a later answer is replaced by an earlier one;
   control: it is replaced by an answer of another conversation.
3. two or three later answers are the same earlier one; control: all different.

Where no answer of that length is found, neutral sentences stand in for it. The control may be off
the subject: it is free of repetition only.

irrelevant: something that has nothing to do with the conversation.

1. injected: a neutral sentence and an off-topic statement are added to an answer;
   control: that neutral sentence and another one in that place.
2. injected: an answer is replaced by one of another conversation, of about its length;
   control: the old answer. Both stand after the same neutral sentence, or have small changes.
3. two or three answers are replaced so.

A donor shares no word of four letters with the turns around the place (no pair of characters in
Chinese) and comes from the middle of its conversation.
"""

from __future__ import annotations

from medal_judges.data_prep.perturbation.edit import (
    CannotInject,
    EditContext,
    EditedPair,
    filler,
    small_change,
)
from medal_judges.data_prep.perturbation.insertions import insert_variants
from medal_judges.data_prep.perturbation.text import (
    attach,
    content_words,
    glue,
    has_words,
    in_style,
    insert,
    sentences,
)

_WORDS = 4  # shorter answers ("yes, me too") come back in good conversations
_SUBJECT = 3  # content words a donor needs: "oh, I would want one too" fits anywhere
_NEAR = 3  # turns on either side that a donor must have no word in common with


def repetition(edit: EditContext) -> EditedPair:
    """The pair for the strength asked for."""
    sources = edit.answers(_WORDS)
    if not sources:
        raise CannotInject(f"no answer of {_WORDS} words that could be repeated")
    return _sentence(edit, sources) if edit.strength == 1 else _answers(edit, sources)


def _sentence(edit: EditContext, sources: list[int]) -> EditedPair:
    source = edit.one(sources)
    target = edit.one([i for i in edit.answers() if i >= source])
    parts = [s for s in sentences(edit.texts[source]) if has_words(s, edit.lang, _WORDS)]
    again = edit.one(parts) if parts else edit.texts[source]
    other = _something_else(edit, again, [])
    position = edit.one([0.0, 1.0])
    pair = EditedPair(edit, "sentence")
    if target != source:
        pair.insert(target, again, other, position)
        return pair.finished()

    def with_added(sentence: str) -> str:
        """Said twice in a row: right after the sentence itself."""
        text = edit.texts[target]
        twice = attach(again, in_style(sentence, text), edit.lang, "\n" in text)
        return text.replace(again, twice, 1)

    pair.put(target, with_added(again), with_added(other))
    return pair.finished()


def _answers(edit: EditContext, sources: list[int]) -> EditedPair:
    count = edit.strength - 1 if edit.strength == 2 else 2 + int(edit.chance())
    options = [s for s in sources if len(_later(edit, s)) >= min(count, 2)]
    if not options:
        raise CannotInject(f"no answer of {_WORDS} words with {min(count, 2)} answers after it")
    source = edit.one(options)
    targets = edit.some(_later(edit, source), count)
    again = edit.texts[source]
    pair = EditedPair(edit, "answer")
    for target in targets:
        pair.put(target, again, _something_else(edit, again, list(pair.control.values())))
    return pair.finished()


def _later(edit: EditContext, source: int) -> list[int]:
    return [i for i in edit.answers() if i > source and edit.texts[i] != edit.texts[source]]


def _something_else(edit: EditContext, like: str, used: list[str]) -> str:
    """Text about as long as ``like`` that does not occur in the dialogue or in ``used``.

    One sentence where ``like`` is one, several where it is several.
    """
    length, single = len(like), len(sentences(like)) == 1
    said = {sentence for text in (*edit.texts, *used) for sentence in sentences(text)}

    def fresh(text: str) -> bool:
        parts = sentences(text)
        return said.isdisjoint(parts) and (len(parts) == 1) == single

    # Neutral sentences only where no donor fits: they would stand in the control alone.
    donor = edit.donors.pick(edit.rng, edit.lang, edit.group, length, fresh)
    if donor is not None and abs(len(donor) - length) <= 0.3 * length + 5:
        return donor
    return glue(filler(edit, length, said), edit.lang)


def irrelevance(edit: EditContext) -> EditedPair:
    """The pair for the strength asked for."""
    if edit.strength == 1:
        return _statement(edit)
    turns = [i for i in edit.answers(_WORDS) if i > 0]
    if not turns:
        raise CannotInject(f"no answer of {_WORDS} words to replace")
    count = 1 if edit.strength == 2 else 2 + int(edit.chance())
    if len(turns) < min(count, 2):
        raise CannotInject(f"fewer than two answers of {_WORDS} words to replace")
    # Of the kind that donors are where there are enough: a greeting would reveal the control.
    alike = [i for i in turns if i in edit.dialogue.assistant_turns[1:-1] and _has_subject(edit, i)]
    turns = alike if len(alike) >= count else turns
    pair = EditedPair(edit, "donor")
    for turn in edit.some(turns, count):
        original = edit.texts[turn]
        donor = _stranger(edit, turn, len(original))
        # the same treatment for both, so that neither neutral sentences nor slips reveal the label
        if edit.chance():
            opening = edit.one(edit.table("neutral"))
            opened = [insert(text, opening, 0.0, edit.lang) for text in (donor, original)]
            pair.put(turn, *opened)
        else:
            pair.put(turn, small_change(edit, donor), small_change(edit, original))
    return pair.finished()


def _has_subject(edit: EditContext, turn: int) -> bool:
    text = edit.texts[turn]
    return has_words(text, edit.lang, 5) and len(content_words([text], edit.lang)) >= _SUBJECT


def _statement(edit: EditContext) -> EditedPair:
    turns = edit.answers()
    if not turns:
        raise CannotInject("no assistant turn with words")
    said = content_words(edit.texts, edit.lang)
    foreign = [s for s in edit.table("off_topic") if said.isdisjoint(content_words([s], edit.lang))]
    if not foreign:
        raise CannotInject("every off-topic statement shares a word with the conversation")
    statement = edit.one(foreign)
    # One neutral sentence before both, so that seeing such a sentence does not mean "control".
    opening = edit.one(edit.table("neutral"))
    neutral = filler(edit, len(statement), [opening], most=1)
    variants = (glue([opening, *neutral], edit.lang), glue([opening, statement], edit.lang))
    return insert_variants(edit, [edit.one(turns)], [variants], "statement")


def _stranger(edit: EditContext, turn: int, length: int) -> str:
    """A donor of about ``length`` characters, or off-topic statements where there is no donor."""
    near = edit.texts[max(0, turn - _NEAR) : turn + _NEAR + 1]
    said = content_words(near, edit.lang)

    def apart(text: str) -> bool:
        words = content_words([text], edit.lang)
        return len(words) >= _SUBJECT and said.isdisjoint(words)

    donor = edit.donors.pick(edit.rng, edit.lang, edit.group, length, apart)
    if donor is not None:
        return donor
    statements: list[str] = [s for s in edit.table("off_topic") if apart(s)]
    if not statements:
        raise CannotInject("no donor without a word in common")
    return edit.one(statements)
