"""Native against translated dialogues: pairs, and a prompted judge's verdicts on each criterion in
both orders (MEDAL, section 3.2 and appendix C.5)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from medal_judges.data_prep.jobs import (
    JsonJob,
    JsonJobsConfig,
    JsonRunner,
    UnusableError,
)
from medal_judges.errors import MedalError
from medal_judges.models.prompted.prompt import transcript
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import language
from medal_judges.storage.jsonl import write_records

# One answer: ``choice`` (native or translated), or None and the ``failure``; and the ``reason``.
Answer = dict[str, str | None]
Verdict = dict[str, Any]
Key = tuple[str, str, str, str]
_W = r"\W{0,20}"
_LETTER = re.compile(rf"\A{_W}(?:(?:conversation|dialogue){_W})?([ab]){_W}\Z", re.IGNORECASE)


class CompareConfig(JsonJobsConfig):
    """``criteria``: name -> question for the judge."""

    prompt: str = "compare_native"
    criteria: dict[str, str] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class NativePair:
    """Two dialogues that differ in how they were made. ``group`` is their seed context's."""

    group: str
    lang: str
    user: str
    chatbot: str
    native: LabelledDialogue
    translated: LabelledDialogue

    @property
    def id(self) -> str:
        """Context, language, user and chatbot, unique to the pair."""
        return f"{self.group}--{self.lang}--{self.user}--{self.chatbot}"


def paired(
    native: Iterable[LabelledDialogue], translated: Iterable[LabelledDialogue]
) -> tuple[list[NativePair], int, int]:
    """Pairs of rows that agree in group, language, user and chatbot, in the order of the translated
    ones; and how many native and translated rows have no partner. Native rows in languages without
    any translation (the English ones) do not count.

    Raises MedalError for two rows of one side with the same four, for a dialogue that is on both
    sides, and if nothing matches.
    """

    def by_key(rows: Iterable[LabelledDialogue], side: str) -> dict[Key, LabelledDialogue]:
        keyed: dict[Key, LabelledDialogue] = {}
        for row in rows:
            models = row.dialogue.models
            speakers = models.get("user") or "", models.get("assistant") or ""
            same = keyed.setdefault((row.group, row.dialogue.lang, *speakers), row)
            if same is not row:
                raise MedalError(
                    f"{side} rows {same.id!r} and {row.id!r} have the same context, language, user "
                    "and chatbot: it is not clear which one to compare",
                    hint="leave one of them out",
                )
        return keyed

    theirs = by_key(translated, "translated")
    langs = {key[1] for key in theirs}
    ours = by_key((row for row in native if row.dialogue.lang in langs), "native")
    pairs = [NativePair(*key, ours[key], row) for key, row in theirs.items() if key in ours]
    if not pairs:
        raise MedalError(
            "no native dialogue has the context, language, user and chatbot of a translated one",
            hint="give the file of `medal generate` and its translation by `medal data translate`",
        )
    if same := [pair.native.id for pair in pairs if pair.native.id == pair.translated.id]:
        raise MedalError(
            f"{len(same)} dialogues, such as {same[0]!r}, are both native and translated",
            hint="give two files: native ones first, then those of `medal data translate`",
        )
    return pairs, len(ours) - len(pairs), len(theirs) - len(pairs)


class PairQuestion(JsonJob):
    """Which dialogue of ``pair`` is better by the ``criterion``, a question of ``config``."""

    def __init__(
        self, pair: NativePair, criterion: str, config: CompareConfig, *, native_first: bool
    ) -> None:
        order = "native first" if native_first else "translated first"
        super().__init__(f"{criterion}--{pair.id}--{pair.native.id}--{pair.translated.id}--{order}")
        self.pair, self.native_first, self.criterion = pair, native_first, criterion
        self.asked = config.criteria[criterion]

    def question(self) -> tuple[Mapping[str, str | None], Mapping[str, object]]:
        pair = self.pair
        shown = [transcript(row.dialogue.turns) for row in (pair.native, pair.translated)]
        first, second = shown if self.native_first else reversed(shown)
        country = pair.native.dialogue.context.get("country")
        values = {
            "language": language(pair.lang).name,
            "country": str(country) if country else None,
            "question": self.asked,
            "first": first,
            "second": second,
            "choices": '"A" or "B"',
        }
        # The reason comes first: a choice that follows from it is better than one it defends.
        properties = {
            "reason": {"type": "string"},
            "better": {"type": "string", "enum": ["A", "B"]},
        }
        return values, properties

    def read(self, fields: Mapping[str, object]) -> Answer:
        better, reason = fields.get("better"), fields.get("reason")
        if not isinstance(better, str):
            raise UnusableError("the entry 'better' is missing or no text")
        letter = _LETTER.match(better)
        if letter is None:
            raise UnusableError(f"'better' names neither A nor B: {better[:40]!r}")
        native = (letter[1].upper() == "A") == self.native_first
        why = " ".join(reason.split()) if isinstance(reason, str) else ""
        return {"choice": "native" if native else "translated", "reason": why, "failure": None}


def result_of(*answers: Answer) -> Literal["win", "tie", "loss"] | None:
    """Of the native dialogue: win or loss if both answers agree, else tie; None if an answer is
    missing (MEDAL, appendix C.5)."""
    choices = {answer["choice"] for answer in answers}
    if None in choices:
        return None
    return "tie" if len(choices) > 1 else "win" if choices == {"native"} else "loss"


def comparer(config: CompareConfig, **options: Any) -> JsonRunner:
    """The runner that compares; ``options`` as for JsonRunner."""
    placeholders = ("language", "country", "question", "first", "second", "choices")
    what = "native against translated"
    return JsonRunner(config, what, placeholders, prompts=config.criteria, **options)


def pair_questions(config: CompareConfig, pairs: Sequence[NativePair]) -> list[PairQuestion]:
    """The questions, criterion by criterion; the two orders of a pair are neighbours."""
    return [
        PairQuestion(pair, name, config, native_first=order)
        for name in config.criteria
        for pair in pairs
        for order in (True, False)
    ]


def compare(
    runner: JsonRunner,
    questions: Sequence[PairQuestion],
    out: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Verdict]:
    """A line of verdicts.jsonl for each pair and criterion: both answers, by the dialogue shown
    first, and the result. Also written to the file ``out``. An unusable answer is a failure with
    its reason, never a tie; the next run asks for it again.

    Raises MedalError if ``out`` holds verdicts of another judge.
    """
    runner.finish(questions, out, overwrite=overwrite, progress=progress)
    answers: list[Answer] = [
        each.value or {"choice": None, "reason": "", "failure": runner.failure(each)}
        for each in questions
    ]
    verdicts: list[Verdict] = [
        {
            "id": each.pair.id,
            "criterion": each.criterion,
            "group": each.pair.group,
            "lang": each.pair.lang,
            "native": each.pair.native.id,
            "translated": each.pair.translated.id,
            "native_first": first,
            "translated_first": second,
            "judge": runner.made_by,
            "result": result_of(first, second),
        }
        for each, first, second in zip(questions[::2], answers[::2], answers[1::2], strict=True)
    ]
    write_records(out, verdicts)
    return verdicts
