"""Native against translated dialogues: pairs, and a prompted judge's verdicts on each criterion in
both orders (MEDAL, section 3.2 and appendix C.5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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


@dataclass(frozen=True, slots=True)
class PairAnswer:
    """One answer: ``choice``, or None and the ``failure``; ``reason`` in the judge's words."""

    choice: Choice | None
    reason: str = ""
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class PairVerdict:
    """The answers on one pair and criterion, by the dialogue that was shown first. ``native`` and
    ``translated`` are the ids of the two."""

    id: str
    criterion: str
    group: str
    lang: str
    native: str
    translated: str
    native_first: PairAnswer
    translated_first: PairAnswer
    judge: str

    @property
    def failure(self) -> str | None:
        """Why there is no result; None if there is one."""
        return self.native_first.failure or self.translated_first.failure

    @property
    def inconsistent(self) -> bool:
        """Whether the two answers differ: then the order decided."""
        return self.native_first.choice != self.translated_first.choice

    @property
    def result(self) -> Result | None:
        """Of the native dialogue: win or loss if both answers agree, else tie; None if an answer is
        missing (MEDAL, appendix C.5)."""
        if self.failure is not None:
            return None
        if self.inconsistent or self.native_first.choice == "neither":
            return "tie"
        return "win" if self.native_first.choice == "native" else "loss"

    @property
    def first_shown(self) -> float:
        """Share of the two answers that chose what was shown first; neither counts as a half."""
        choices = (self.native_first.choice, "native"), (self.translated_first.choice, "translated")
        return sum(0.5 if c == "neither" else float(c == first) for c, first in choices) / 2

    def to_record(self) -> dict[str, Any]:
        """A line of verdicts.jsonl."""
        return asdict(self) | {"result": self.result}


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

    def _read(self, fields: Mapping[str, object]) -> PairAnswer:
        better, reason = fields.get("better"), fields.get("reason")
        why = " ".join(reason.split()) if isinstance(reason, str) else ""
        if not isinstance(better, str):
            raise UnusableError("the entry 'better' is missing or no text")
        if self.config.ties and _TIE.match(better):
            return PairAnswer("neither", why)
        letter = _LETTER.match(better)
        if letter is None:
            raise UnusableError(f"'better' names neither A nor B: {better[:40]!r}")
        chose_first = letter[1].upper() == "A"
        return PairAnswer("native" if chose_first == self.native_first else "translated", why)


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
    ) -> list[PairVerdict]:
        """A verdict for each pair and criterion, also in the file ``out``. An unusable answer is a
        failure with its reason, never a tie; the next run asks for it again.

        Raises MedalError if ``out`` holds verdicts of another judge.
        """
        by, questions = self.by(), self.questions(pairs)
        self.finish(questions, out, by, overwrite=overwrite, progress=progress)
        answers = [
            each.values[0] if each.values else PairAnswer(None, failure=self.failure(each))
            for each in questions
        ]
        asked = [(name, pair) for name in self.config.criteria for pair in pairs]
        verdicts = [
            PairVerdict(
                id=pair.id,
                criterion=name,
                group=pair.group,
                lang=pair.lang,
                native=pair.native.id,
                translated=pair.translated.id,
                native_first=answers[2 * i],
                translated_first=answers[2 * i + 1],
                judge=by,
            )
            for i, (name, pair) in enumerate(asked)
        ]
        write_records(out, verdicts)
        return verdicts
