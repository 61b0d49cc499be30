"""Translation of dialogues by a prompted model (MEDAL, appendix C.5): turns and roles are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from medal_judges.data_prep.labelling.language_check import LanguageChecker, TurnLanguages
from medal_judges.data_prep.native.asking import (
    AskingConfig,
    JsonAsker,
    JsonQuestion,
    UnusableError,
)
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel
from medal_judges.models.prompted.prompt import transcript
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import language, load_languages
from medal_judges.records.signature import Signature

SOURCE = "medal-translated"
_UNCHANGED_FROM = 5  # words; shorter turns may well read the same in two languages
_WORD = re.compile(r"[^\W\d_]")


class TranslateConfig(AskingConfig):
    """``style``: a whole dialogue in one request, or turn by turn with ``turn_prompt``.
    ``check_language``: a turn in another language than asked for is a failed try, where the extra
    lang is installed."""

    prompt: str = "translate"
    turn_prompt: str = "translate_turn"
    style: Literal["whole", "turns"] = "whole"
    check_language: bool = True


@dataclass(slots=True)
class Translation:
    """One dialogue and the language it is to be in; ``turns`` are the translated ones so far."""

    row: LabelledDialogue
    lang: str
    turns: list[str] = field(default_factory=list)
    failure: str | None = None
    tries: int = 0

    @property
    def id(self) -> str:
        """Id of the translated dialogue."""
        return f"{self.row.id}--in-{self.lang}"

    @property
    def source(self) -> tuple[Turn, ...]:
        """The turns to be translated."""
        return self.row.dialogue.turns


class TurnLanguage:
    """Whether a translated turn is in the language that was asked for: a model may answer with an
    apology in English, or leave a sentence as it was. Tells by a library (labelling/
    language_check.py), which is not asked about names, titles, quotations, links, code and turns of
    fewer than three words.

    Loads the models of ``languages`` (ISO 639-1); raises MissingExtraError without the extra lang.
    """

    def __init__(self, languages: Iterable[str]) -> None:
        wanted = list(languages)
        self.checker = LanguageChecker(wanted)
        self.unknown = tuple(lang for lang in wanted if not self.knows(lang))

    def knows(self, lang: str) -> bool:
        """Whether the library knows ``lang``."""
        return lang in self.checker.known

    def fault(self, text: str, lang: str, source: Turn, source_lang: str) -> str | None:
        """``is in English, not in German``, or ``has English in it``; None where ``text`` is in
        ``lang``, where that is not known, and where ``source`` holds that other language too: a
        dialogue about Japanese keeps its Japanese words."""
        languages = self._languages(Turn(source.role, text), lang)
        if not languages.mixed:
            return None
        before = {code for code, _ in self._languages(source, source_lang).foreign}
        others = [code for code, _ in languages.foreign if code not in before]
        if not others:
            return None
        other = next((_named(code) for code in others if code is not None), "another language")
        if languages.languages.get(lang):
            return f"has {other} in it"
        return f"is in {other}, not in {_named(lang)}"

    def _languages(self, turn: Turn, lang: str) -> TurnLanguages:
        return self.checker.check(Dialogue("turn", (turn,), lang=lang)).turns[0]


class Translator:
    """Translates by ``llm``. ``signature`` stands in every translated row. With ``language`` a turn
    in another language than asked for is a failed try.

    Raises ConfigError for a prompt file that does not fit.
    """

    def __init__(
        self, config: TranslateConfig, llm: LanguageModel, language: TurnLanguage | None = None
    ) -> None:
        self.config, self.language = config, language
        if config.style == "turns":
            placeholders = ("language", "dialogue", "translated", "turn")
            self.asker = JsonAsker(config, llm, config.turn_prompt, placeholders)
        else:
            self.asker = JsonAsker(config, llm, config.prompt, ("language", "dialogue"))

    def signature(self) -> Signature:
        """What a translation depends on."""
        return self.asker.signature(f"translation ({self.config.style})")

    def translate(self, translations: Sequence[Translation]) -> None:
        """Fill the ``turns`` of each, or its ``failure``: the reason of the last try."""
        if self.config.style == "whole":
            self._ask(translations, self._whole)
            return
        for place in range(max((len(each.source) for each in translations), default=0)):
            unfinished = [t for t in translations if t.failure is None and place < len(t.source)]
            for each in unfinished:
                if not each.source[place].content.strip():
                    each.turns.append("")
            self._ask([t for t in unfinished if len(t.turns) == place], self._next_turn)

    def requests(self, translation: Translation) -> list[ChatRequest]:
        """What ``translate`` asks at the first try, for an estimate: turn by turn, the English
        turns stand where translated ones will."""
        if self.config.style == "whole":
            return [self.asker.request(self._whole(translation))]
        english = [turn.content for turn in translation.source]
        parts = (
            replace(translation, turns=english[:i]) for i, t in enumerate(english) if t.strip()
        )
        return [self.asker.request(self._next_turn(part)) for part in parts]

    def _ask(
        self,
        translations: Sequence[Translation],
        question: Callable[[Translation], JsonQuestion[list[str]]],
    ) -> None:
        outcomes = self.asker.ask([question(each) for each in translations])
        for translation, outcome in zip(translations, outcomes, strict=True):
            translation.tries += outcome.tries
            translation.failure = outcome.reason
            translation.turns += outcome.value or []

    def _whole(self, translation: Translation) -> JsonQuestion[list[str]]:
        keys = [f"{i}_{turn.role}" for i, turn in enumerate(translation.source, 1)]
        contents = [turn.content for turn in translation.source]
        shown = json.dumps(dict(zip(keys, contents, strict=True)), ensure_ascii=False, indent=1)
        return self._question(translation, keys, 0, {"dialogue": shown})

    def _next_turn(self, translation: Translation) -> JsonQuestion[list[str]]:
        source, done = translation.source, translation.turns
        before = [replace(t, content=c) for t, c in zip(source, done, strict=False)]
        values = {
            "dialogue": transcript(source),
            "translated": transcript(before),
            "turn": transcript([source[len(done)]]),
        }
        return self._question(translation, ["translation"], len(done), values)

    def _question(
        self, translation: Translation, keys: Sequence[str], first: int, values: Mapping[str, str]
    ) -> JsonQuestion[list[str]]:
        """The translations of the turns from ``first`` on, each under its key."""

        def read(fields: Mapping[str, object]) -> list[str]:
            if missing := [key for key in keys if key not in fields]:
                raise UnusableError(f"the entry {missing[0]!r} is missing")
            if unknown := [key for key in fields if key not in keys]:
                raise UnusableError(f"there is an entry {unknown[0]!r} that was not asked for")
            return [
                self._checked(fields[key], translation, first + i) for i, key in enumerate(keys)
            ]

        values = {"language": language(translation.lang).name, **values}
        return JsonQuestion(values, {key: {"type": "string"} for key in keys}, read)

    def _checked(self, text: object, translation: Translation, place: int) -> str:
        """The translation of one turn. Raises UnusableError for none, for one left as it was, and
        for one in another language."""
        turn = translation.source[place]
        where = f"turn {place + 1} ({turn.role})"
        if not isinstance(text, str):
            raise UnusableError(f"{where} is not a text")
        if bool(text.strip()) != bool(turn.content.strip()):
            raise UnusableError(f"{where} is {'not ' if text.strip() else ''}empty")
        if _WORD.search(turn.content) and not _WORD.search(text):
            raise UnusableError(f"{where} has no word in it")
        words = turn.content.casefold().split()
        if len(words) >= _UNCHANGED_FROM and text.casefold().split() == words:
            raise UnusableError(f"{where} was left in the original language")
        if self.language is not None:
            spoken = translation.row.dialogue.lang
            if fault := self.language.fault(text.strip(), translation.lang, turn, spoken):
                raise UnusableError(f"{where} {fault}")
        return text.strip()

    def row(self, translation: Translation) -> LabelledDialogue:
        """The translated dialogue: the same turns and roles, speakers, context, group and split.
        ``extra["language_checked"]`` says whether its language was looked at.

        It has no labels: those of the original were given to other words.
        """
        original, lang = translation.row, translation.lang
        turns = zip(translation.source, translation.turns, strict=True)
        dialogue = replace(
            original.dialogue,
            id=translation.id,
            lang=lang,
            turns=tuple(replace(turn, content=text) for turn, text in turns),
            source=SOURCE,
            meta={},
        )
        extra = {
            "translated_from": original.id,
            "translated_by": str(self.signature()),
            "tries": translation.tries,
            "language_checked": self.language is not None and self.language.knows(lang),
        }
        return LabelledDialogue(
            dialogue, {}, {}, split=original.split, group=original.group, extra=extra
        )


def _named(code: str) -> str:
    known = load_languages()
    return known[code].name if code in known else repr(code)
