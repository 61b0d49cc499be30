"""Native against translated dialogues: pairs, and a prompted judge's verdicts on each criterion in
both orders (MEDAL, section 3.2 and appendix C.5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import Field

from medal_judges.data_prep.jobs import Agents
from medal_judges.data_prep.json_jobs import (
    JsonJob,
    JsonJobsConfig,
    JsonQuestion,
    JsonRunner,
    UnusableError,
)
from medal_judges.errors import MedalError
from medal_judges.models.prompted.prompt import transcript
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import language
from medal_judges.storage.jsonl import write_records

Choice = Literal["native", "translated", "neither"]
Result = Literal["win", "tie", "loss"]
_PLACEHOLDERS = ("language", "country", "question", "first", "second", "choices")
_W = r"\W{0,20}"
_LETTER = re.compile(rf"\A{_W}(?:(?:conversation|dialogue){_W})?([ab]){_W}\Z", re.IGNORECASE)
_TIE = re.compile(rf"\A{_W}(?:tie|neither|equal|both){_W}\Z", re.IGNORECASE)


class CompareConfig(JsonJobsConfig):
    """``criteria``: name -> question for the judge. ``ties``: it may prefer neither."""

    prompt: str = "compare_native"
    criteria: dict[str, str] = Field(min_length=1)
    ties: bool = False


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


@dataclass(frozen=True, slots=True)
class Paired:
    """``pairs`` in the order of the translated rows, and the number of rows without a partner."""

    pairs: tuple[NativePair, ...]
    native_only: int
    translated_only: int


def paired(native: Iterable[LabelledDialogue], translated: Iterable[LabelledDialogue]) -> Paired:
    """Pairs of rows that agree in group, language, user and chatbot. Native rows in languages
    without any translation (the English ones) do not count as lacking a partner.

    Raises MedalError for two rows of one side with the same four, for a dialogue that is on both
    sides, and if nothing matches.
    """
    theirs = _by_key(translated, "translated")
    langs = {key[1] for key in theirs}
    ours = _by_key((row for row in native if row.dialogue.lang in langs), "native")
    pairs = tuple(NativePair(*key, ours[key], row) for key, row in theirs.items() if key in ours)
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
    return Paired(pairs, len(ours) - len(pairs), len(theirs) - len(pairs))


def _by_key(
    rows: Iterable[LabelledDialogue], side: str
) -> dict[tuple[str, str, str, str], LabelledDialogue]:
    by_key: dict[tuple[str, str, str, str], LabelledDialogue] = {}
    for row in rows:
        models = row.dialogue.models
        speakers = models.get("user") or "", models.get("assistant") or ""
        same = by_key.setdefault((row.group, row.dialogue.lang, *speakers), row)
        if same is not row:
            raise MedalError(
                f"{side} rows {same.id!r} and {row.id!r} have the same context, language, user and "
                "chatbot: it is not clear which one to compare",
                hint="leave one of them out",
            )
    return by_key


Answer = dict[str, Any]
Verdict = dict[str, Any]


def pair_answer(choice: Choice | None, reason: str = "", failure: str | None = None) -> Answer:
    """One answer: ``choice``, or None and the ``failure``; ``reason`` in the judge's words."""
    return {"choice": choice, "reason": reason, "failure": failure}


def result_of(native_first: Answer, translated_first: Answer) -> Result | None:
    """Of the native dialogue: win or loss if both answers agree, else tie; None if an answer is
    missing (MEDAL, appendix C.5)."""
    choices = native_first["choice"], translated_first["choice"]
    if None in choices:
        return None
    if choices[0] != choices[1] or choices[0] == "neither":
        return "tie"
    return "win" if choices[0] == "native" else "loss"


class PairQuestion(JsonJob):
    """Which dialogue of ``pair`` is better by the ``criterion``, a question of ``config``."""

    def __init__(
        self, pair: NativePair, criterion: str, config: CompareConfig, *, native_first: bool
    ) -> None:
        order = "native first" if native_first else "translated first"
        super().__init__(f"{criterion}--{pair.id}--{pair.native.id}--{pair.translated.id}--{order}")
        self.pair, self.native_first, self.config = pair, native_first, config
        self.asked = config.criteria[criterion]

    def question(self) -> JsonQuestion | None:
        if self.values:
            return None
        pair, ties = self.pair, self.config.ties
        shown = [transcript(row.dialogue.turns) for row in (pair.native, pair.translated)]
        first, second = shown if self.native_first else reversed(shown)
        country = pair.native.dialogue.context.get("country")
        choices = ["A", "B", "tie"] if ties else ["A", "B"]
        values = {
            "language": language(pair.lang).name,
            "country": str(country) if country else None,
            "question": self.asked,
            "first": first,
            "second": second,
            "choices": " or ".join(json.dumps(choice) for choice in choices),
        }
        # The reason comes first: a choice that follows from it is better than one it defends.
        properties = {
            "reason": {"type": "string"},
            "better": {"type": "string", "enum": choices},
        }
        return JsonQuestion(values, properties, self._read)

    def _read(self, fields: Mapping[str, object]) -> Answer:
        better, reason = fields.get("better"), fields.get("reason")
        why = " ".join(reason.split()) if isinstance(reason, str) else ""
        if not isinstance(better, str):
            raise UnusableError("the entry 'better' is missing or no text")
        if self.config.ties and _TIE.match(better):
            return pair_answer("neither", why)
        letter = _LETTER.match(better)
        if letter is None:
            raise UnusableError(f"'better' names neither A nor B: {better[:40]!r}")
        chose_first = letter[1].upper() == "A"
        return pair_answer("native" if chose_first == self.native_first else "translated", why)


class Comparer(JsonRunner):
    """Asks ``config.llm`` which dialogue of a pair is better."""

    config: CompareConfig

    def __init__(
        self,
        config: CompareConfig,
        *,
        agents: Agents | None = None,
        max_cost: float | None = None,
    ) -> None:
        super().__init__(config, config.prompt, _PLACEHOLDERS, agents=agents, max_cost=max_cost)

    def by(self) -> str:
        """The signature of the verdicts."""
        config = self.config
        return str(
            self.signature("native against translated", config.ties, prompts=config.criteria)
        )

    def questions(self, pairs: Sequence[NativePair]) -> list[PairQuestion]:
        """The questions, criterion by criterion; the two orders of a pair are neighbours."""
        return [
            PairQuestion(pair, name, self.config, native_first=order)
            for name in self.config.criteria
            for pair in pairs
            for order in (True, False)
        ]

    def compare(
        self,
        pairs: Sequence[NativePair],
        out: Path,
        *,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> list[Verdict]:
        """A line of verdicts.jsonl for each pair and criterion: both answers, by the dialogue shown
        first, and the result. Also written to the file ``out``. An unusable answer is a failure
        with its reason, never a tie; the next run asks for it again.

        Raises MedalError if ``out`` holds verdicts of another judge.
        """
        by, questions = self.by(), self.questions(pairs)
        self.finish(questions, out, by, overwrite=overwrite, progress=progress)
        answers = [
            each.values[0] if each.values else pair_answer(None, failure=self.failure(each))
            for each in questions
        ]
        asked = [(name, pair) for name in self.config.criteria for pair in pairs]
        verdicts: list[Verdict] = [
            {
                "id": pair.id,
                "criterion": name,
                "group": pair.group,
                "lang": pair.lang,
                "native": pair.native.id,
                "translated": pair.translated.id,
                "native_first": answers[2 * i],
                "translated_first": answers[2 * i + 1],
                "judge": by,
                "result": result_of(answers[2 * i], answers[2 * i + 1]),
            }
            for i, (name, pair) in enumerate(asked)
        ]
        write_records(out, verdicts)
        return verdicts
