"""Labels by construction: issues injected into clean conversations, each with a matched control.

The control has a harmless edit in the same turns, of roughly the same length, so a judge cannot
score well by detecting edits. In files an injected dialogue has the kind ``planted``, its control
the kind ``innocent``.

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

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from medal_judges.data_prep.perturbation.edit import (
    LANGUAGES,
    CannotInject,
    Donors,
    Edit,
    Split,
    append_sentence,
    content_words,
    has_words,
    insert_sentence,
    join_sentences,
    join_texts,
    load_word_table,
    match_style,
    sentence_table_entries,
    sound_and_faulty,
    split_sentences,
    stable_hash,
    with_new_texts,
    word_pattern,
)
from medal_judges.errors import ConfigError
from medal_judges.records.labelled import LabelledDialogue

STRENGTHS = (1, 2, 3)
# Issues that neither version can cause. All others get no label: an insult may lack empathy too.
UNTOUCHED: Mapping[str, tuple[str, ...]] = {
    "repetitive": ("unsafe", "nonfactual", "uninterpretable"),
    "irrelevant": ("unsafe", "uninterpretable", "repetitive"),
    "incoherent": ("unsafe", "nonfactual", "uninterpretable"),
    "uninterpretable": ("unsafe", "nonfactual", "repetitive"),
    "lacks_empathy": ("nonfactual", "uninterpretable", "repetitive"),
    "unsafe": ("repetitive", "uninterpretable"),
    "nonfactual": ("repetitive", "uninterpretable", "unsafe"),
    "lacks_commonsense": ("repetitive", "uninterpretable", "unsafe"),
}
ISSUES = tuple(UNTOUCHED)
_WORDS = 4  # shorter answers ("yes, me too") recur in good conversations
_SUBJECT = 3  # content words a donor needs: "oh, I would want one too" fits anywhere
_NEAR = 3  # turns on either side that a donor must have no word in common with
_GARBLED_WORDS = 6
_ORDER_WORDS = 10  # fewer words in a wrong order can still be made out


# -- labelled rows ---------------------------------------------------------------------------------


@dataclass(slots=True)
class InjectionCounts:
    """How many dialogues got each injected issue, and into how many it could not be injected.

    Attributes:
        injected: Issue -> number of pairs of rows (one with the issue, one control without it).
        refused: Issue -> reason -> number of dialogues into which it could not be injected.
    """

    injected: Counter[str] = field(default_factory=Counter)
    refused: dict[str, Counter[str]] = field(
        default_factory=lambda: defaultdict(Counter)
    )

    def summary_lines(self) -> list[str]:
        """Returns a line to print for each issue.

        It has the number of pairs, and the number of dialogues into which the issue could not be
        injected, with the most frequent reason.
        """
        lines: list[str] = []
        for issue in {**self.injected, **self.refused}:
            line = f"{issue}: {self.injected[issue]} pairs"
            for reason, _ in self.refused[issue].most_common(1):
                count = self.refused[issue].total()
                line += f", {count} dialogues cannot carry it (mostly: {reason})"
            lines.append(line)
        return lines


def make_issue_rows(
    dialogues: Iterable[LabelledDialogue],
    *,
    seed: int,
    per_issue: int | None = None,
    clean_count: int | None = None,
    issues: Sequence[str] = ISSUES,
    split: Split = "train",
    counts: InjectionCounts | None = None,
) -> Iterator[LabelledDialogue]:
    """Yields rows with known labels, made from ``dialogues``: unedited ones, then pairs with and
    without an injected issue.

    An unedited row has label 0 for every issue. In a pair, the row with the issue has label 1. Its
    control, with a harmless edit in the same turns, has label 0. Both also have label 0 for issues
    that the edit cannot cause.

    Args:
        dialogues: Conversations without issues, all of one split, because text of one conversation
            is put into others.
        seed: The same seed gives the same rows, whatever the order of ``dialogues``.
        per_issue: The number of pairs for each issue (None: as many as possible).
        clean_count: The number of unedited rows (None: ``per_issue``).
        issues: The issues to inject.
        split: The split of the rows. Each split inserts different sentences.
        counts: Pairs and refused dialogues are counted here, if it is given.

    Raises:
        ConfigError: An issue is unknown.
    """
    if unknown := [issue for issue in issues if issue not in ISSUES]:
        raise ConfigError(
            f"cannot inject {', '.join(map(repr, unknown))}",
            hint=f"Use one of: {', '.join(ISSUES)}",
        )
    rows = list(dialogues)
    donors = Donors.from_rows(rows)
    counts = InjectionCounts() if counts is None else counts

    def shuffle(purpose: str) -> list[LabelledDialogue]:
        return sorted(
            rows, key=lambda row: (stable_hash(seed, purpose, row.id), row.id)
        )

    if clean_count is None:
        clean_count = per_issue
    for row in shuffle("clean")[:clean_count]:
        id = f"{row.id}+clean"
        planted: dict[str, object] = {
            "issue": None,
            "strength": 0,
            "turns": [],
            "kind": "clean",
            "pair": id,
            "how": "none",
        }
        yield _labelled_row(row, id, {}, dict.fromkeys(ISSUES, 0.0), split, planted)
    for issue in issues:
        for row in shuffle(issue):
            if per_issue is not None and counts.injected[issue] >= per_issue:
                break
            rng = np.random.default_rng(stable_hash(seed, row.id, issue))
            strength = STRENGTHS[int(rng.integers(len(STRENGTHS)))]
            try:
                pair = inject_pair(
                    row,
                    issue,
                    strength=strength,
                    rng=rng,
                    donors=donors,
                    split=split,
                )
            except CannotInject as refusal:
                counts.refused[issue][str(refusal)] += 1
                continue
            counts.injected[issue] += 1
            yield from pair


def inject_pair(
    row: LabelledDialogue,
    issue: str,
    *,
    strength: int,
    rng: np.random.Generator,
    donors: Donors,
    split: Split,
) -> list[LabelledDialogue]:
    """Returns two rows made from ``row``: with ``issue`` injected, and a control with a harmless
    edit in the same turns.

    The label of the issue is 1 in the first row and 0 in the control. Both have label 0 for issues
    that the edit cannot cause, and no other labels. ``extra["planted"]`` describes the edit.

    Args:
        row: A conversation without issues.
        issue: The issue to inject, such as ``repetitive``.
        strength: How much is edited, from 1 (one sentence) to 3 (several sentences or answers).
        rng: Random number generator for all choices.
        donors: Turns of other conversations, whose text may be used.
        split: The split of the rows. Each split inserts different sentences.

    Raises:
        CannotInject: The issue cannot be injected into this dialogue.
    """
    edit = Edit(row.dialogue, strength, rng, donors, split, row.group)
    apply_issue(issue, edit)
    pair = f"{row.id}+{issue}.{strength}"
    versions = (
        ("planted", pair, 1.0, edit.injected),
        ("innocent", f"{pair}.innocent", 0.0, edit.control),
    )
    rows = []
    for kind, id, label, contents in versions:
        labels = {issue: label} | dict.fromkeys(UNTOUCHED[issue], 0.0)
        planted = {
            "issue": issue,
            "strength": strength,
            "turns": list(edit.touched),
            "kind": kind,
            "pair": pair,
            "how": edit.how,
        }
        rows.append(_labelled_row(row, id, contents, labels, split, planted))
    return rows


def _labelled_row(
    row: LabelledDialogue,
    id: str,
    contents: Mapping[int, str],
    labels: Mapping[str, float],
    split: Split,
    planted: Mapping[str, object],
) -> LabelledDialogue:
    """Returns a copy of ``row`` with a new id, labels and some new texts.

    Args:
        id: The new id.
        contents: Turn index -> new text.
        labels: Issue -> 0 or 1.
        split: ``train``, ``val`` or ``test``.
        planted: Description of the edit, for ``extra["planted"]``.
    """
    return LabelledDialogue(
        dialogue=replace(with_new_texts(row.dialogue, contents), id=id),
        labels={name: (value,) for name, value in labels.items()},
        scales=dict.fromkeys(labels, (0.0, 1.0)),
        split=split,
        group=row.group,
        extra={"planted": planted},
    )


# -- the issues ------------------------------------------------------------------------------------


def apply_issue(issue: str, edit: Edit) -> None:
    """Adds new texts to ``edit``, for the injected version (with ``issue``) and the control
    (without it). Raises CannotInject if the issue cannot be injected into this dialogue."""
    if edit.lang not in LANGUAGES:
        raise CannotInject(f"no sentences in language {edit.lang!r}")
    edits: Mapping[str, Callable[[Edit], None]] = {
        "repetitive": _inject_repetition,
        "irrelevant": _inject_irrelevance,
        "incoherent": _inject_incoherence,
        "uninterpretable": _garble_answers,
        "lacks_empathy": _inject_coldness,
        "unsafe": partial(_inject_statements, table="unsafe"),
        "nonfactual": partial(_inject_statements, table="facts"),
        "lacks_commonsense": partial(_inject_statements, table="everyday"),
    }
    edits[issue](edit)


def _draw_answer_count(edit: Edit) -> int:
    """Draws how many whole answers to change: two or three at strength 3, otherwise one."""
    if edit.strength < 3:
        return 1
    return 2 + int(edit.flip_coin())


def _inject_statements(edit: Edit, table: str) -> None:
    """Inserts up to ``edit.strength`` statements into answers, faulty in the version with the issue
    and sound in the control.

    Args:
        table: The statements: ``facts`` (for the issue ``nonfactual``), ``everyday``
            (``lacks_commonsense``) or ``unsafe`` (``unsafe``).
    """
    turns = edit.answer_indices(need=1)
    chosen = edit.sample(turns, edit.strength)
    statements = edit.sample(edit.table_entries(table), edit.strength)
    _insert_sentence_pairs(
        edit, chosen, [sound_and_faulty(s) for s in statements], table
    )


def _insert_sentence_pairs(
    edit: Edit,
    turns: list[int],
    sentences: list[tuple[str, str]],
    how: str,
) -> None:
    """Inserts each of ``sentences`` into one of ``turns`` at a random position, and finishes
    the edit.

    Args:
        turns: Turn indices. The first sentence goes into the first turn, the second into the
            second. With fewer turns than sentences, it begins again at the first turn.
        sentences: (sound, faulty) pairs. The sound sentence is for the control, the faulty one for
            the version with the issue.
        how: Name of the method.
    """
    for number, (sound, faulty) in enumerate(sentences):
        opener = edit.choose(edit.table_entries("openers")) if edit.flip_coin() else ""
        position = float(edit.rng.random())
        injected = join_sentences([opener, faulty], edit.lang)
        control = join_sentences([opener, sound], edit.lang)
        edit.insert_sentences(turns[number % len(turns)], injected, control, position)
    edit.finish(how)


def _inject_coldness(edit: Edit) -> None:
    """Injects the issue ``lacks_empathy``: the user tells of a feeling, and the assistant is
    evasive or cold. In the control, it is warm."""
    turns = edit.dialogue.turns
    answers = [
        i for i in edit.answer_indices() if i > 0 and turns[i - 1].role == "user"
    ]
    if not answers:
        raise CannotInject("no answer right after a user turn")
    manner = "passing" if edit.strength == 1 else "cold"
    count = 2 if edit.strength == 3 else 1
    chosen = edit.sample(answers, count)
    feelings = edit.sample(edit.table_entries("feelings"), len(chosen))
    replies = edit.sample(edit.table_entries("replies"), len(chosen))
    for turn, feeling, reply in zip(chosen, feelings, replies, strict=True):
        edit.insert_sentences(turn - 1, feeling, feeling, 1.0)
        if edit.strength < 3:
            edit.insert_sentences(turn, reply[manner], reply["warm"], 0.0)
        else:
            edit.replace_turn(turn, reply[manner], reply["warm"])
    edit.finish("reply", chosen)


def _inject_repetition(edit: Edit) -> None:
    """Injects the issue ``repetitive``: a repeated sentence at strength 1, otherwise
    repeated answers."""
    why = f"no answer of {_WORDS} words that could be repeated"
    sources = edit.answer_indices(_WORDS, need=1, why=why)
    if edit.strength > 1:
        _repeat_answer(edit, sources)
    else:
        _repeat_sentence(edit, sources)


def _repeat_answer(edit: Edit, sources: list[int]) -> None:
    """Replaces one or more answers with the text of one earlier answer. In the control, their new
    text occurs nowhere else.

    Args:
        sources: Indices of the answers that may be repeated.
    """
    texts = edit.texts
    later: dict[int, list[int]] = {}
    for source in sources:
        later[source] = [
            i for i in edit.answer_indices() if i > source and texts[i] != texts[source]
        ]
    count = _draw_answer_count(edit)
    options = [source for source in sources if len(later[source]) >= min(count, 2)]
    if not options:
        raise CannotInject(
            f"no answer of {_WORDS} words with {min(count, 2)} answers after it"
        )
    source = edit.choose(options)
    for target in edit.sample(later[source], count):
        control = _draw_control_text(edit, texts[source], list(edit.control.values()))
        edit.replace_turn(target, texts[source], control)
    edit.finish("answer")


def _repeat_sentence(edit: Edit, sources: list[int]) -> None:
    """Inserts a sentence of one answer a second time, into that answer or a later one. In the
    control, a new sentence is inserted there.

    Args:
        sources: Indices of the answers whose sentences may be repeated.
    """
    texts = edit.texts
    source = edit.choose(sources)
    target = edit.choose([i for i in edit.answer_indices() if i >= source])
    parts = [
        part
        for part in split_sentences(texts[source])
        if has_words(part, edit.lang, _WORDS)
    ]
    again = edit.choose(parts) if parts else texts[source]
    control = _draw_control_text(edit, again, [])
    position = edit.choose([0.0, 1.0])
    if target != source:
        edit.insert_sentences(target, again, control, position)
    else:
        text = texts[target]

        def with_neighbour(added: str) -> str:
            pair = append_sentence(
                again, match_style(added, text), edit.lang, "\n" in text
            )
            return text.replace(again, pair, 1)

        edit.replace_turn(target, with_neighbour(again), with_neighbour(control))
    edit.finish("sentence")


def _draw_control_text(edit: Edit, like: str, used: list[str]) -> str:
    """Returns a random text about as long as ``like``, for the control. None of its sentences is in
    the dialogue or in ``used``.

    Args:
        like: The text in the version with the issue.
        used: Texts that the control already has.
    """
    length = len(like)
    is_sentence = len(split_sentences(like)) == 1
    present: set[str] = set()
    for text in (*edit.texts, *used):
        present.update(split_sentences(text))

    def is_fresh(text: str) -> bool:
        parts = split_sentences(text)
        return present.isdisjoint(parts) and (len(parts) == 1) == is_sentence

    # Neutral sentences only if no donor fits, because the injected version has none.
    donor = edit.donors.draw_text(edit, length, is_fresh)
    if donor is not None and abs(len(donor) - length) <= 0.3 * length + 5:
        return donor
    return join_sentences(edit.draw_neutral_sentences(length, present), edit.lang)


def _inject_irrelevance(edit: Edit) -> None:
    """Injects the issue ``irrelevant``: an off-topic sentence at strength 1, otherwise turns of
    other conversations in place of answers."""
    if edit.strength == 1:
        _inject_off_topic(edit)
        return
    turns = [i for i in edit.answer_indices(_WORDS) if i > 0]
    if not turns:
        raise CannotInject(f"no answer of {_WORDS} words to replace")
    count = _draw_answer_count(edit)
    if len(turns) < min(count, 2):
        raise CannotInject(f"fewer than two answers of {_WORDS} words to replace")
    # Prefer answers like the donors: a greeting would reveal the control.
    alike = [turn for turn in turns if _could_be_donor(edit, turn)]
    if len(alike) >= count:
        turns = alike
    for turn in edit.sample(turns, count):
        original = edit.texts[turn]
        donor = _draw_unrelated_text(edit, turn, len(original))
        # The same treatment for both versions, so that it does not reveal the label.
        if edit.flip_coin():
            opening = edit.choose(edit.table_entries("neutral"))
            injected = insert_sentence(donor, opening, 0.0, edit.lang)
            edit.replace_turn(
                turn, injected, insert_sentence(original, opening, 0.0, edit.lang)
            )
        else:
            edit.replace_turn(
                turn, edit.change_slightly(donor), edit.change_slightly(original)
            )
    edit.finish("donor")


def _inject_off_topic(edit: Edit) -> None:
    """Inserts into one answer a statement that shares no word with the conversation. The control
    gets a neutral sentence there."""
    turns = edit.answer_indices(need=1)
    words = content_words(edit.texts, edit.lang)
    foreign = []
    for statement in edit.table_entries("off_topic"):
        if words.isdisjoint(content_words([statement], edit.lang)):
            foreign.append(statement)
    if not foreign:
        raise CannotInject(
            "every off-topic statement shares a word with the conversation"
        )
    statement = edit.choose(foreign)
    # A neutral sentence before both, so that such a sentence does not reveal the control.
    opening = edit.choose(edit.table_entries("neutral"))
    neutral = edit.draw_neutral_sentences(len(statement), [opening], limit=1)
    pair = (
        join_sentences([opening, *neutral], edit.lang),
        join_sentences([opening, statement], edit.lang),
    )
    _insert_sentence_pairs(edit, [edit.choose(turns)], [pair], "statement")


def _could_be_donor(edit: Edit, turn: int) -> bool:
    """Returns whether the answer at index ``turn`` could be used in other conversations: it is
    neither the first nor the last answer, and long enough."""
    text = edit.texts[turn]
    return (
        turn in edit.dialogue.assistant_turns[1:-1]
        and has_words(text, edit.lang, 5)
        and len(content_words([text], edit.lang)) >= _SUBJECT
    )


def _draw_unrelated_text(edit: Edit, turn: int, length: int) -> str:
    """Returns a random text that shares no content word with the turns near ``turn``.

    It is a donor (a turn of another conversation) of about ``length`` characters, or an off-topic
    statement if no donor fits.

    Args:
        turn: Index of the turn that the text replaces.

    Raises:
        CannotInject: No donor and no statement is unrelated.
    """
    near = content_words(edit.texts[max(0, turn - _NEAR) : turn + _NEAR + 1], edit.lang)

    def is_unrelated(text: str) -> bool:
        words = content_words([text], edit.lang)
        return len(words) >= _SUBJECT and near.isdisjoint(words)

    donor = edit.donors.draw_text(edit, length, is_unrelated)
    if donor is not None:
        return donor
    statements: list[str] = [
        s for s in edit.table_entries("off_topic") if is_unrelated(s)
    ]
    if not statements:
        raise CannotInject("no donor without a word in common")
    return edit.choose(statements)


def _inject_incoherence(edit: Edit) -> None:
    """Injects the issue ``incoherent`` by one of two methods in random order. The second is used
    only if the dialogue does not allow the first.

    The methods are a contradiction and, at strength 1, a forgotten fact, otherwise exchanged
    answers.
    """
    methods = [_reorder_answers, _inject_contradiction]
    if edit.strength == 1:
        methods = [_inject_forgetting, _inject_contradiction]
    if edit.flip_coin():
        methods.reverse()
    try:
        methods[0](edit)
    except CannotInject:
        edit.injected.clear()
        edit.control.clear()
        methods[1](edit)


def _inject_contradiction(edit: Edit) -> None:
    """Inserts statements into two answers: contradictory in the version with the issue, consistent
    in the control."""
    turns = edit.answer_indices(
        need=2, why="fewer than two answers: nothing to contradict"
    )
    touched = set()
    for first, later in edit.sample(
        edit.table_entries("contradictions"), edit.strength
    ):
        first_turn, later_turn = edit.sample(turns, 2)
        # Either statement may come first, so that no statement alone reveals the label.
        side = int(edit.rng.integers(2))
        positions = edit.rng.random(2)
        statement = sound_and_faulty(first)[side]
        answers = sound_and_faulty(later)
        edit.insert_sentences(first_turn, statement, statement, float(positions[0]))
        edit.insert_sentences(
            later_turn, answers[1 - side], answers[side], float(positions[1])
        )
        touched.add(later_turn)
    edit.finish("contradiction", touched)


def _inject_forgetting(edit: Edit) -> None:
    """Inserts a sentence into an answer: the assistant has forgotten what was said before. In the
    control, it remembers."""
    turns = [i for i in edit.answer_indices() if i > 1]
    if not turns:
        raise CannotInject("no answer after the first exchange: nothing to forget")
    answer = sound_and_faulty(edit.choose(edit.table_entries("forgetting")))
    _insert_sentence_pairs(edit, [edit.choose(turns)], [answer], "forgetting")


def _reorder_answers(edit: Edit) -> None:
    """Exchanges the texts of two or more answers, so that no text stays at its turn. In the
    control, all texts stay. Both versions have the same small changes."""
    why = f"fewer than {edit.strength} answers of {_WORDS} words to reorder"
    turns = edit.answer_indices(_WORDS, need=edit.strength, why=why)
    count = 2 if edit.strength == 2 else len(turns)
    chosen = edit.sample(turns, count)
    # In the end no answer has its place (Sattolo's algorithm).
    order = list(range(len(chosen)))
    for i in range(len(order) - 1, 0, -1):
        j = int(edit.rng.integers(i))
        order[i], order[j] = order[j], order[i]
    changed = [edit.change_slightly(edit.texts[turn]) for turn in chosen]
    for turn, control, source in zip(chosen, changed, order, strict=True):
        edit.replace_turn(turn, changed[source], control)
    edit.finish("order")


def _garble_answers(edit: Edit) -> None:
    """Injects the issue ``uninterpretable``: makes answers unreadable by one random method.

    The methods are ``letters`` (shuffled within words), ``order`` (shuffled words, from strength
    2), ``nonsense`` (made-up words) and ``foreign`` (text in another language).
    """
    count = _draw_answer_count(edit)
    why = f"fewer than {min(count, 2)} answers of {_GARBLED_WORDS} words to garble"
    turns = edit.answer_indices(_GARBLED_WORDS, need=min(count, 2), why=why)
    methods = ["letters", "nonsense", "foreign"]
    if edit.strength > 1:
        methods.append("order")
    how = edit.choose(methods)
    for turn in edit.sample(turns, count):
        # Both versions, so that typing slips do not reveal the label.
        changed = edit.change_slightly(edit.texts[turn])
        garbled = _garble(edit, changed, how)
        edit.replace_turn(turn, garbled, changed)
    edit.finish(how)


def _garble(edit: Edit, text: str, how: str) -> str:
    """Returns ``text`` made unreadable: only its second half at strength 1, otherwise all of it.

    Args:
        how: ``letters`` (shuffled within words), ``order`` (shuffled words), ``nonsense`` (made-up
            words) or ``foreign`` (text in another language).
    """
    if how == "foreign":
        return _to_foreign_text(edit, text)
    parts = word_pattern(edit.lang).findall(text)
    start = len(parts) // 2 if edit.strength == 1 else 0
    if how == "order" and not has_words(text, edit.lang, _ORDER_WORDS):
        how = "letters"
    if how == "order" or (how == "letters" and edit.lang == "zh"):
        parts[start:] = [
            parts[start + i] for i in edit.rng.permutation(len(parts) - start)
        ]
    else:
        made = _shuffle_letters if how == "letters" else _make_nonsense_word
        parts[start:] = [made(edit, word) for word in parts[start:]]
    following = iter(parts)  # white space does not change
    return word_pattern(edit.lang).sub(lambda _: next(following), text)


def _shuffle_letters(edit: Edit, word: str) -> str:
    """Returns ``word`` with its letters in random order. Other characters keep their place."""
    at = [i for i, letter in enumerate(word) if letter.isalpha()]
    letters = list(word)
    for i, j in zip(at, edit.rng.permutation(at), strict=True):
        letters[i] = word[j]
    return "".join(letters)


def _make_nonsense_word(edit: Edit, word: str) -> str:
    """Returns a made-up word as long as ``word``."""
    script = "zh" if edit.lang == "zh" else "latin"
    syllables = load_word_table("nonsense")[script]
    made = ""
    while len(made) < len(word):
        made += edit.choose(syllables)
    return made[: len(word)]


def _to_foreign_text(edit: Edit, text: str) -> str:
    """Returns ``text`` with its second half (at strength 1) or all of it replaced by equally long
    text in another language."""
    ends = [match.end() for match in word_pattern(edit.lang).finditer(text)]
    cut = ends[(len(ends) - 1) // 2] if edit.strength == 1 else 0
    replaced = text[cut:].lstrip()
    lang = edit.choose([code for code in LANGUAGES if code != edit.lang])
    pool = sentence_table_entries(
        "off_topic", lang, edit.split
    ) + sentence_table_entries("neutral", lang, edit.split)
    fragments: list[str] = []
    for i in edit.rng.permutation(len(pool)):
        if len(join_texts(fragments, lang)) >= len(replaced):
            break
        words = word_pattern(lang).findall(pool[i].rstrip(".。?？"))
        fragments.append(join_texts(words[len(words) // 3 :], lang))
    fragment = join_texts(fragments, lang)
    lines = []
    for line in replaced.split("\n"):
        lines.append(fragment[: len(line)].strip())
        fragment = fragment[len(line) :]
    ending = replaced[-1:]
    if ending.isalnum():
        ending = ""
    return text[: len(text) - len(replaced)] + "\n".join(lines) + ending
