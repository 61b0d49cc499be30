"""Which languages the turns of a dialogue are written in, by a language-identification library.

MEDAL asks GPT-4.1 whether a user wrote in another language (section 3.4); a library costs nothing,
says where, and errs in other places. Each turn is cut into passages (passages.py). A passage of
another script is foreign by its characters, one of the same script when lingua is certain.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from medal_judges.data_prep.labelling.passages import Passage, kana, passages, scripts_of
from medal_judges.reading.language_detection import LanguageIdentifier
from medal_judges.records.dialogue import ROLES, Dialogue, Role, Turn
from medal_judges.records.languages import UNKNOWN_LANGUAGE

# What a passage may turn out to be, besides the languages of the dialogues themselves: the six of
# MEDAL and those that a model slips into. Each further one costs memory and false alarms.
CANDIDATES = ("zh", "en", "de", "fr", "pt", "es", "ar", "hi", "it", "ja", "ko", "nl", "ru")
SHORT = "too short to tell"
UNCERTAIN = "not certain of any language"
UNKNOWN = "the dialogue has no language"
UNSUPPORTED = "the library does not know the language {}"
NO_TURN = "no turn"
_OF_ONE_LANGUAGE = ("hangul", "greek", "hebrew", "bengali", "thai")
_SHOWN = 80  # characters of a foreign passage that are kept
Verdict = Literal["own", "foreign"]

# When a passage counts: the fewest letters and words that lingua is asked about; the least
# confidence in a foreign language and the most that may be left for the dialogue's own, for a whole
# passage and for words out of the middle of a sentence; letters of a script that the language does
# not use; words of Latin script in a language of another one, where brands and titles are common.
_LETTERS, _WORDS = 10, 3
_SURE, _OWN = 0.4, 0.1
_WINDOW_SURE, _WINDOW_OWN = 0.5, 0.05
_OTHER_SCRIPT, _OTHER_LETTERS = {"cjk": 2, "hangul": 2}, 4
_LATIN = 3


@dataclass(frozen=True, slots=True)
class TurnLanguages:
    """``languages``: letters found of each language; ``foreign``: passages of another language as
    (language or None, text). ``mixed``: whether there are any, None with the ``reason`` where it
    is not known."""

    turn: int
    role: Role
    languages: Mapping[str, int]
    foreign: tuple[tuple[str | None, str], ...] = ()
    mixed: bool | None = None
    reason: str | None = None

    def to_record(self) -> dict[str, Any]:
        """An entry of ``turns`` in language_check.jsonl."""
        return {
            "turn": self.turn,
            "role": self.role,
            "mixed": self.mixed,
            "reason": self.reason,
            "languages": dict(self.languages),
            "foreign": [{"lang": lang, "text": text} for lang, text in self.foreign],
        }


@dataclass(frozen=True, slots=True)
class DialogueLanguages:
    """All turns of one dialogue that should be in ``lang``."""

    id: str
    lang: str
    turns: tuple[TurnLanguages, ...]

    def mixed(self, role: Role) -> bool | None:
        """Whether a turn of ``role`` holds another language; None where it is not known
        of any turn."""
        known = [t.mixed for t in self.turns if t.role == role and t.mixed is not None]
        return any(known) if known else None

    def reason(self, role: Role) -> str | None:
        """Why ``mixed`` is None: the commonest reason of the turns; None where it is not."""
        if self.mixed(role) is not None:
            return None
        reasons = [t.reason or UNCERTAIN for t in self.turns if t.role == role]
        return max(sorted(set(reasons)), key=reasons.count) if reasons else NO_TURN

    def to_record(self) -> dict[str, Any]:
        """A line of language_check.jsonl."""
        record: dict[str, Any] = {"id": self.id, "lang": self.lang}
        for role in ROLES:
            record[role] = {"mixed": self.mixed(role), "reason": self.reason(role)}
        return record | {"turns": [turn.to_record() for turn in self.turns]}


class LanguageChecker:
    """Checks dialogues of the languages ``langs`` (ISO 639-1); loads lingua's models of these and
    of ``CANDIDATES`` (about 200 MB, one second). Raises MissingExtraError without the extra lang.
    """

    def __init__(self, langs: Iterable[str]) -> None:
        purpose = "the check of languages by a library"
        self.identifier = LanguageIdentifier({*langs, *CANDIDATES}, purpose=purpose)
        self.known = self.identifier.known

    def check(self, dialogue: Dialogue) -> DialogueLanguages:
        """What each turn is written in."""
        turns = tuple(self._turn(i, t, dialogue.lang) for i, t in enumerate(dialogue.turns))
        return DialogueLanguages(dialogue.id, dialogue.lang, turns)

    def _turn(self, index: int, turn: Turn, lang: str) -> TurnLanguages:
        if lang == UNKNOWN_LANGUAGE:
            return TurnLanguages(index, turn.role, {}, reason=UNKNOWN)
        if lang not in self.known:
            return TurnLanguages(index, turn.role, {}, reason=UNSUPPORTED.format(lang))
        letters: dict[str, int] = {}
        foreign: dict[str, str | None] = {}
        asked = own = False
        for passage in passages(turn.content, lang):
            answer = self._passage(passage, lang)
            if answer is None:
                continue
            asked = True
            verdict, code = answer
            own |= verdict == "own"
            if verdict == "foreign":
                foreign.setdefault(passage.text[:_SHOWN], code)
            if code is not None:
                letters[code] = max(letters.get(code, 0), passage.letters)
        mixed = True if foreign else False if own else None
        reason = None if mixed is not None else UNCERTAIN if asked else SHORT
        listed = tuple((code, text) for text, code in foreign.items())
        return TurnLanguages(index, turn.role, letters, listed, mixed, reason)

    def _passage(self, passage: Passage, lang: str) -> tuple[Verdict | None, str | None] | None:
        """(verdict, language) of a passage; None where it is too short to be asked about."""
        if passage.script not in scripts_of(lang):
            return self._of_other_script(passage)
        if passage.script == "cjk" and lang in ("zh", "ja"):
            return self._chinese_or_japanese(passage, lang)
        if passage.script in _OF_ONE_LANGUAGE:
            return ("own", lang) if passage.letters >= 2 else None
        if passage.letters < _LETTERS or passage.words < _WORDS:
            return None
        return self._by_chances(passage, lang)

    def _by_chances(self, passage: Passage, lang: str) -> tuple[Verdict | None, str | None]:
        chances = self.identifier.chances(passage.text)
        best = max(chances, key=lambda code: chances[code])
        if best == lang:
            return "own", lang
        sure, own = (_WINDOW_SURE, _WINDOW_OWN) if passage.window else (_SURE, _OWN)
        foreign = chances[best] >= sure and chances[lang] <= own
        return ("foreign", best) if foreign else (None, None)

    def _of_other_script(self, passage: Passage) -> tuple[Verdict | None, str | None] | None:
        if passage.script == "latin":
            enough = passage.words >= _LATIN and passage.letters >= 3 * _LATIN
        else:
            least = _OTHER_SCRIPT.get(passage.script, _OTHER_LETTERS)
            enough = passage.letters >= least
        if not enough:
            return None
        return "foreign", self.identifier.likeliest(passage.text)

    def _chinese_or_japanese(
        self, passage: Passage, lang: str
    ) -> tuple[Verdict | None, str | None] | None:
        """By kana, which only Japanese has; one alone is an ornament in Chinese."""
        if passage.letters < 2:
            return None
        syllables = kana(passage.text)
        if lang == "zh":
            japanese = syllables >= 2
            return ("foreign", "ja") if japanese else ("own", "zh")
        if syllables:
            return "own", "ja"
        if passage.letters < 8:
            return None, None
        chances = self.identifier.chances(passage.text)
        chinese = chances["zh"] >= _SURE
        return ("foreign", "zh") if chinese else (None, None)
