"""Translation of dialogues by a prompted model (MEDAL, appendix C.5); turns and roles stay."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medal_judges.data_prep.jobs import (
    JsonJob,
    JsonJobsConfig,
    JsonRunner,
    UnusableError,
    beside,
)
from medal_judges.errors import ConfigError
from medal_judges.reading.language_detection import LanguageIdentifier
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.records.languages import language, load_languages
from medal_judges.storage.jsonl import Journal, write_records

_UNCHANGED_FROM = 5  # words; shorter turns may read the same in two languages
_SURE, _LETTERS = 0.9, 10  # least confidence in another language, and letters of a turn
_WORD = re.compile(r"[^\W\d_]")


class TranslateConfig(JsonJobsConfig):
    """``check_language``: a turn in another language is a failed try, if the extra lang is
    installed."""

    prompt: str = "translate"
    check_language: bool = True


class Translation(JsonJob):
    """One dialogue in the language ``lang``. With ``check`` a turn in another language is a failed
    try. The value is the text of each turn."""

    def __init__(
        self, row: LabelledDialogue, lang: str, check: LanguageIdentifier | None = None
    ) -> None:
        super().__init__(f"{row.id}--in-{lang}")
        self.row, self.lang, self.source = row, lang, row.dialogue.turns
        self.check = check if check is not None and lang in check.known else None
        self.keys = [f"{i}_{turn.role}" for i, turn in enumerate(self.source, 1)]

    def question(self) -> tuple[Mapping[str, str | None], Mapping[str, object]]:
        shown = {key: turn.content for key, turn in zip(self.keys, self.source, strict=True)}
        values = {
            "language": language(self.lang).name,
            "dialogue": json.dumps(shown, ensure_ascii=False, indent=1),
        }
        return values, {key: {"type": "string"} for key in self.keys}

    def read(self, fields: Mapping[str, object]) -> list[str]:
        if missing := [key for key in self.keys if key not in fields]:
            raise UnusableError(f"the entry {missing[0]!r} is missing")
        if unknown := [key for key in fields if key not in self.keys]:
            raise UnusableError(f"there is an unexpected entry {unknown[0]!r}")
        return [self._checked(fields[key], place) for place, key in enumerate(self.keys)]

    def _checked(self, text: object, place: int) -> str:
        """The translation of one turn. Raises UnusableError for none, for an unchanged one, and for
        one in another language."""
        turn = self.source[place]
        where = f"turn {place + 1} ({turn.role})"
        if not isinstance(text, str):
            raise UnusableError(f"{where} is not a text")
        text = text.strip()
        if bool(text) != bool(turn.content.strip()):
            raise UnusableError(f"{where} is {'not ' if text else ''}empty")
        if _WORD.search(turn.content) and not _WORD.search(text):
            raise UnusableError(f"{where} has no word in it")
        words = turn.content.casefold().split()
        if len(words) >= _UNCHANGED_FROM and text.casefold().split() == words:
            raise UnusableError(f"{where} was left in the original language")
        if self.check is not None and len(_WORD.findall(text)) >= _LETTERS:
            found, chance = next(iter(self.check.chances(text).items()))
            if found != self.lang and chance >= _SURE:
                names = load_languages()
                other = names[found].name if found in names else repr(found)
                raise UnusableError(f"{where} is in {other}, not in {language(self.lang).name}")
        return text

    def result(self, by: str) -> LabelledDialogue:
        """The translated dialogue: the same roles, speakers, context, group and split, but no
        labels. ``extra["language_checked"]`` says whether its language was checked."""
        extra = {
            "translated_from": self.row.id,
            "translated_by": by,
            "tries": self.tries,
            "language_checked": self.check is not None,
        }
        pairs = zip(self.source, self.value, strict=True)
        dialogue = replace(
            self.row.dialogue,
            id=self.id,
            lang=self.lang,
            turns=tuple(replace(turn, content=text) for turn, text in pairs),
            source="medal-translated",
            meta={},
        )
        return LabelledDialogue(
            dialogue, {}, {}, split=self.row.split, group=self.row.group, extra=extra
        )


def translator(config: TranslateConfig, **options: Any) -> JsonRunner:
    """The runner that translates; ``options`` as for JsonRunner."""
    return JsonRunner(config, "translation", ("language", "dialogue"), **options)


def translate(
    runner: JsonRunner,
    translations: Sequence[Translation],
    out: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Counter[str]:
    """Write the translations to ``out``, after rows of earlier runs, and those that failed to
    ``x.failed.jsonl`` with the reason; returns the reasons. The next run tries these again.

    Raises MedalError if ``out`` holds rows of another translator.
    """
    runner.finish(translations, out, overwrite=overwrite, progress=progress)
    good: list[LabelledDialogue] = []
    if out.exists() and not overwrite:
        records = Journal(out).records(parse_labelled)
        good = [row for row in records if row.id not in runner.jobs]
    failed = []
    for each in translations:
        reason = runner.failure(each)
        if reason is None:
            good.append(each.result(runner.made_by))
            continue
        extra: dict[str, Any] = {"translated_from": each.row.id, "to": each.lang}
        extra |= {"failure": reason, "tries": each.tries}
        dialogue = replace(each.row.dialogue, id=each.id)
        failed.append(LabelledDialogue(dialogue, {}, {}, extra=extra))
    write_records(out, good)
    beside(out, "failed").unlink(missing_ok=True)
    if failed:
        write_records(beside(out, "failed"), failed)
    return Counter(str(row.extra["failure"]) for row in failed)


def require_targets(languages: Sequence[str], source: str = "en") -> None:
    """Raise ConfigError for a language that is not listed, is given twice, or is the source's."""
    for lang in languages:
        language(lang)
    if not languages or len(set(languages)) < len(languages) or source in languages:
        given = ", ".join(languages) or "nothing"
        raise ConfigError(
            f"--to takes languages, each once and not {source!r}; got {given}",
            hint="for example --to zh --to de",
        )
