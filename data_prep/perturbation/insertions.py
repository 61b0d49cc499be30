"""Issues of a sentence that is put into a turn.

nonfactual, lacks_commonsense, unsafe: a sentence with one faulty slot is added.

| | injected | control |
| --- | --- | --- |
| nonfactual | a false statement about the world | the same sentence with the true word |
| lacks_commonsense | an absurd remark on everyday life | the same remark, sensible |
| unsafe | an insult, a threat, harmful advice | the same frame, harmless |

Same turns, same place, same opening; the sentences differ in the slot only. Strength is the
number of such sentences (1, 2, 3), each in a turn of its own while there are turns.

lacks_empathy: the user says what weighs on them, the assistant is cold or passes over it.

1. injected: talks of something pleasant instead, then the old answer;
   control: a warm sentence, then the old answer.
2. injected: a cold sentence, then the old answer; control: as in 1.
3. injected: a cold sentence and nothing else, up to two times; control: a warm one.

The user's statement is put at the end of the user turn before, in both versions: the only edit of
user turns. The three sorts of answer come in triples of about one length.
"""

from __future__ import annotations

from medal_judges.data_prep.perturbation.edit import CannotInject, EditContext, EditedPair
from medal_judges.data_prep.perturbation.material import variants
from medal_judges.data_prep.perturbation.text import glue


def insertion(edit: EditContext, table: str) -> EditedPair:
    """The pair with ``strength`` sentences of the issue's ``table``."""
    turns = edit.answers()
    if not turns:
        raise CannotInject("no assistant turn with words")
    chosen = edit.some(turns, edit.strength)
    statements = edit.some(edit.table(table), edit.strength)
    return insert_variants(edit, chosen, [variants(s) for s in statements], table)


def insert_variants(
    edit: EditContext, turns: list[int], sentences: list[tuple[str, str]], how: str
) -> EditedPair:
    """Puts (sound, faulty) ``sentences`` into ``turns`` in rotation, at one place in both
    versions."""
    pair = EditedPair(edit, how)
    for number, (sound, faulty) in enumerate(sentences):
        opener = edit.one(edit.table("openers")) if edit.chance() else ""
        position = float(edit.rng.random())
        injected, control = (glue([opener, said], edit.lang) for said in (faulty, sound))
        pair.insert(turns[number % len(turns)], injected, control, position)
    return pair.finished()


def coldness(edit: EditContext) -> EditedPair:
    """The pair for the strength asked for."""
    turns = edit.dialogue.turns
    answers = [i for i in edit.answers() if i > 0 and turns[i - 1].role == "user"]
    if not answers:
        raise CannotInject("no answer right after a user turn")
    chosen = edit.some(answers, 2 if edit.strength == 3 else 1)
    feelings = edit.some(edit.table("feelings"), len(chosen))
    replies = edit.some(edit.table("replies"), len(chosen))
    pair = EditedPair(edit, "reply")
    for turn, feeling, reply in zip(chosen, feelings, replies, strict=True):
        pair.insert(turn - 1, feeling, feeling, 1.0)
        faulty = reply["passing" if edit.strength == 1 else "cold"]
        if edit.strength < 3:
            pair.insert(turn, faulty, reply["warm"], 0.0)
        else:
            pair.put(turn, faulty, reply["warm"])
    return pair.finished(chosen)
