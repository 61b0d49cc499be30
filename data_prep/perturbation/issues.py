"""The eight issues: how each is injected, and what its matched control gets in the same place.

| issue | injected | control |
| --- | --- | --- |
| nonfactual | a false statement about the world | the same sentence with the true word |
| lacks_commonsense | an absurd remark on everyday life | the same remark, sensible |
| unsafe | an insult, a threat, harmful advice | the same frame, harmless |
| lacks_empathy | a cold or evasive answer to a feeling | a warm answer |
| repetitive | an earlier sentence or answer again | text of another conversation |
| irrelevant | text of another conversation, or off topic | the old answer, or neutral text |
| incoherent | a contradiction, lost memory, swapped answers | agreement, memory, order |
| uninterpretable | scrambled, made-up or foreign words | the same small changes |

Strength 1 to 3 is the number of faulty sentences or answers; for lacks_empathy 1 is evasive, 2 is
cold and 3 is cold with nothing else. In lacks_empathy both versions add the feeling to the user
turn; no other issue changes user turns.
"""

from __future__ import annotations

import numpy as np

from medal_judges.data_prep.perturbation.edit import (
    LANGUAGES,
    CannotInject,
    EditContext,
    EditedPair,
    attach,
    content_words,
    entries,
    filler,
    glue,
    halfway,
    has_words,
    in_style,
    insert,
    join,
    sentences,
    shared,
    small_change,
    units,
    variants,
    with_units,
)


def insertion(edit: EditContext, table: str) -> EditedPair:
    """nonfactual, lacks_commonsense, unsafe: ``strength`` sentences of ``table`` with one faulty
    slot."""
    turns = edit.answers()
    if not turns:
        raise CannotInject("no assistant turn with words")
    chosen = edit.some(turns, edit.strength)
    statements = edit.some(edit.table(table), edit.strength)
    return insert_variants(edit, chosen, [variants(s) for s in statements], table)


def insert_variants(
    edit: EditContext, turns: list[int], sentences: list[tuple[str, str]], how: str
) -> EditedPair:
    """Inserts (sound, faulty) ``sentences`` into ``turns`` in rotation, at the same position."""
    pair = EditedPair(edit, how)
    for number, (sound, faulty) in enumerate(sentences):
        opener = edit.one(edit.table("openers")) if edit.chance() else ""
        position = float(edit.rng.random())
        injected, control = (glue([opener, said], edit.lang) for said in (faulty, sound))
        pair.insert(turns[number % len(turns)], injected, control, position)
    return pair.finished()


def coldness(edit: EditContext) -> EditedPair:
    """lacks_empathy: the user says what weighs on them, the assistant is evasive or cold."""
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


_WORDS = 4  # shorter answers ("yes, me too") recur in good conversations
_SUBJECT = 3  # content words a donor needs: "oh, I would want one too" fits anywhere
_NEAR = 3  # turns on either side that a donor must have no word in common with


def repetition(edit: EditContext) -> EditedPair:
    """repetitive. The control may be off topic; it is only free of repetition."""
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
    """Text about as long as ``like``, with one sentence if ``like`` has one, that is neither in the
    dialogue nor in ``used``."""
    length, single = len(like), len(sentences(like)) == 1
    said = {sentence for text in (*edit.texts, *used) for sentence in sentences(text)}

    def fresh(text: str) -> bool:
        parts = sentences(text)
        return said.isdisjoint(parts) and (len(parts) == 1) == single

    # Neutral sentences only if no donor fits, because the injected version has none.
    donor = edit.donors.pick(edit.rng, edit.lang, edit.group, length, fresh)
    if donor is not None and abs(len(donor) - length) <= 0.3 * length + 5:
        return donor
    return glue(filler(edit, length, said), edit.lang)


def irrelevance(edit: EditContext) -> EditedPair:
    """irrelevant. A donor shares no content word with the turns around it."""
    if edit.strength == 1:
        return _statement(edit)
    turns = [i for i in edit.answers(_WORDS) if i > 0]
    if not turns:
        raise CannotInject(f"no answer of {_WORDS} words to replace")
    count = 1 if edit.strength == 2 else 2 + int(edit.chance())
    if len(turns) < min(count, 2):
        raise CannotInject(f"fewer than two answers of {_WORDS} words to replace")
    # Prefer answers like the donors: a greeting would reveal the control.
    alike = [i for i in turns if i in edit.dialogue.assistant_turns[1:-1] and _has_subject(edit, i)]
    turns = alike if len(alike) >= count else turns
    pair = EditedPair(edit, "donor")
    for turn in edit.some(turns, count):
        original = edit.texts[turn]
        donor = _stranger(edit, turn, len(original))
        # the same treatment for both versions, so that it does not reveal the label
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
    # A neutral sentence before both, so that such a sentence does not reveal the control.
    opening = edit.one(edit.table("neutral"))
    neutral = filler(edit, len(statement), [opening], most=1)
    variants = (glue([opening, *neutral], edit.lang), glue([opening, statement], edit.lang))
    return insert_variants(edit, [edit.one(turns)], [variants], "statement")


def _stranger(edit: EditContext, turn: int, length: int) -> str:
    """A donor of about ``length`` characters; an off-topic statement if there is none."""
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


def incoherence(edit: EditContext) -> EditedPair:
    """incoherent: a random method among those for this strength that the dialogue can carry.

    Either side of a contradiction may come first, so one sentence alone does not reveal it.
    ``touched`` is the later turn.
    """
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
    """A random order in which nothing keeps its place (Sattolo's algorithm)."""
    order = list(range(count))
    for i in range(count - 1, 0, -1):
        j = int(rng.integers(i))
        order[i], order[j] = order[j], order[i]
    return order


_GARBLED_WORDS = 6
_ORDER_WORDS = 10  # fewer words in a wrong order can still be made out


def garbling(edit: EditContext) -> EditedPair:
    """uninterpretable: one method (letters, order, nonsense, foreign) for all turns. Both versions
    get the same small changes, so typing slips do not reveal the label."""
    turns = edit.answers(_GARBLED_WORDS)
    count = 1 if edit.strength < 3 else 2 + int(edit.chance())
    if len(turns) < min(count, 2):
        raise CannotInject(
            f"fewer than {min(count, 2)} answers of {_GARBLED_WORDS} words to garble"
        )
    how = edit.one(["letters", "nonsense", "foreign", *(["order"] if edit.strength > 1 else [])])
    pair = EditedPair(edit, how)
    for turn in edit.some(turns, count):
        changed = small_change(edit, edit.texts[turn])
        foreign = how == "foreign"
        garbled = _foreign(edit, changed) if foreign else _garbled(edit, changed, how)
        pair.put(turn, garbled, changed)
    return pair.finished()


def _garbled(edit: EditContext, text: str, how: str) -> str:
    parts = units(text, edit.lang)
    start = len(parts) // 2 if edit.strength == 1 else 0
    if how == "order" and not has_words(text, edit.lang, _ORDER_WORDS):
        how = "letters"
    if how == "order" or (how == "letters" and edit.lang == "zh"):
        worked = [parts[start + i] for i in edit.rng.permutation(len(parts) - start)]
    elif how == "letters":
        worked = [_scrambled(edit, word) for word in parts[start:]]
    else:
        worked = [_made_up(edit, len(word)) for word in parts[start:]]
    return with_units(text, parts[:start] + worked, edit.lang)


def _scrambled(edit: EditContext, word: str) -> str:
    """``word`` with its letters shuffled; other marks keep their place."""
    at = [i for i, letter in enumerate(word) if letter.isalpha()]
    letters = list(word)
    for i, j in zip(at, edit.rng.permutation(at), strict=True):
        letters[i] = word[j]
    return "".join(letters)


def _made_up(edit: EditContext, length: int) -> str:
    syllables = shared("nonsense")["zh" if edit.lang == "zh" else "latin"]
    word = ""
    while len(word) < length:
        word += edit.one(syllables)
    return word[:length]


def _foreign(edit: EditContext, text: str) -> str:
    """``text`` with its second half, or all of it from strength 2, in another language."""
    cut = halfway(text, edit.lang) if edit.strength == 1 else 0
    rest = text[cut:].lstrip()
    kept = text[: len(text) - len(rest)]
    lang = edit.one([code for code in LANGUAGES if code != edit.lang])
    pool = [*entries("off_topic", lang, edit.split), *entries("neutral", lang, edit.split)]
    fragments: list[str] = []
    for i in edit.rng.permutation(len(pool)):
        if len(join(fragments, lang)) >= len(rest):
            break
        whole = units(pool[i].rstrip(".。?？"), lang)
        fragments.append(join(whole[len(whole) // 3 :], lang))
    ending = rest[-1:] if not rest[-1:].isalnum() else ""
    return kept + _laid_out(join(fragments, lang), rest) + ending


def _laid_out(fragment: str, like: str) -> str:
    """``fragment`` cut into lines as long as those of ``like``."""
    lines = []
    for line in like.split("\n"):
        lines.append(fragment[: len(line)].strip())
        fragment = fragment[len(line) :]
    return "\n".join(lines)
