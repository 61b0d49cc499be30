"""Whether a translated turn is in the language that was asked for: a model may answer with an
apology in English, or leave a sentence as it was."""

from __future__ import annotations

from collections.abc import Iterable

from medal_judges.data_prep.labelling.language_check import LanguageChecker, TurnLanguages
from medal_judges.data_prep.seeds.languages import language_name, load_languages
from medal_judges.dialogue import Dialogue, Turn


class TurnLanguage:
    """Tells by a library (labelling/language_check.py), which is not asked about names, titles,
    quotations, links, code and turns of fewer than three words.

    Loads the models of ``languages`` (ISO 639-1); raises MissingExtraError without the extra lang.
    """

    def __init__(self, languages: Iterable[str]) -> None:
        wanted = list(languages)
        self.checker = LanguageChecker(wanted)
        self.unknown = tuple(lang for lang in wanted if not self.knows(lang))

    def knows(self, lang: str) -> bool:
        """Whether the library can tell ``lang``."""
        return ("nb" if lang == "no" else lang) in self.checker.known

    def fault(self, text: str, lang: str, source: Turn, source_lang: str) -> str | None:
        """``is in English, not in German``, or ``has English in it``; None where ``text`` is in
        ``lang``, where it cannot be told, and where ``source`` holds that other language too: a
        dialogue about Japanese keeps its Japanese words."""
        found = self._found(Turn(source.role, text), lang)
        if not found.mixed:
            return None
        before = {code for code, _ in self._found(source, source_lang).foreign}
        others = [code for code, _ in found.foreign if code not in before]
        if not others:
            return None
        other = next((_named(code) for code in others if code is not None), "another language")
        own = "nb" if lang == "no" else lang
        if found.languages.get(own):
            return f"has {other} in it"
        return f"is in {other}, not in {_named(lang)}"

    def _found(self, turn: Turn, lang: str) -> TurnLanguages:
        return self.checker.check(Dialogue("turn", (turn,), lang=lang)).turns[0]


def _named(code: str) -> str:
    code = "no" if code == "nb" else code
    return language_name(code) if code in load_languages() else repr(code)
