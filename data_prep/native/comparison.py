"""Comparison of pairs by a prompted judge, each criterion in both orders (MEDAL, appendix C.5)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from pydantic import Field

from medal_judges.data_prep.native.asking import (
    AskingConfig,
    JsonAsker,
    JsonQuestion,
    Outcome,
    UnusableError,
    require_same,
)
from medal_judges.data_prep.native.pairs import (
    Choice,
    NativePair,
    PairAnswer,
    PairVerdict,
    parse_verdict,
)
from medal_judges.models.batching import windows
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel
from medal_judges.models.prompted.prompt import transcript
from medal_judges.records.languages import language
from medal_judges.records.signature import Signature
from medal_judges.storage.journal import Journal
from medal_judges.storage.jsonl import write_records

_PLACEHOLDERS = ("language", "country", "question", "first", "second", "choices")
_W = r"\W{0,20}"
_LETTER = re.compile(rf"\A{_W}(?:(?:conversation|dialogue){_W})?([ab]){_W}\Z", re.IGNORECASE)
_TIE = re.compile(rf"\A{_W}(?:tie|neither|equal|both){_W}\Z", re.IGNORECASE)
ORDERS = (True, False)  # native first, translated first


class CompareConfig(AskingConfig):
    """``criteria``: name to the question asked of the judge. ``ties``: it may say that neither is
    better."""

    prompt: str = "compare_native"
    criteria: dict[str, str] = Field(min_length=1)
    ties: bool = False


class Comparer:
    """Asks ``llm`` which dialogue of a pair is better. Raises ConfigError for a prompt file that
    does not fit."""

    def __init__(self, config: CompareConfig, llm: LanguageModel) -> None:
        self.config = config
        self.asker = JsonAsker(config, llm, config.prompt, _PLACEHOLDERS)
        self.choices = ["A", "B", "tie"] if config.ties else ["A", "B"]

    def signature(self) -> Signature:
        """What a verdict depends on."""
        judge = "native against translated"
        return self.asker.signature(judge, self.config.ties, prompts=self.config.criteria)

    def compare(self, wanted: Sequence[tuple[NativePair, str]]) -> list[PairVerdict]:
        """A verdict for each pair and criterion, in order. What cannot be read is a failure with
        its reason, never a tie."""
        outcomes = self.asker.ask(
            [self._question(*each, order) for each in wanted for order in ORDERS]
        )
        answers = [_answer(outcome) for outcome in outcomes]
        signature = str(self.signature())
        return [
            PairVerdict(
                id=pair.id,
                criterion=criterion,
                group=pair.group,
                lang=pair.lang,
                native=pair.native.id,
                translated=pair.translated.id,
                native_first=native_first,
                translated_first=translated_first,
                judge=signature,
            )
            for (pair, criterion), native_first, translated_first in zip(
                wanted, answers[::2], answers[1::2], strict=True
            )
        ]

    def requests(self, pair: NativePair) -> list[ChatRequest]:
        """What is asked of ``pair`` at the first try, for an estimate."""
        return [
            self.asker.request(self._question(pair, criterion, native_first))
            for criterion in self.config.criteria
            for native_first in ORDERS
        ]

    def _question(
        self, pair: NativePair, criterion: str, native_first: bool
    ) -> JsonQuestion[PairAnswer]:
        shown = [transcript(row.dialogue.turns) for row in (pair.native, pair.translated)]
        first, second = shown if native_first else reversed(shown)
        country = pair.native.dialogue.context.get("country")
        values = {
            "language": language(pair.lang).name,
            "country": str(country) if country else None,
            "question": self.config.criteria[criterion],
            "first": first,
            "second": second,
            "choices": " or ".join(json.dumps(choice) for choice in self.choices),
        }
        # The reason comes first: a choice that follows from it is better than one it defends.
        properties = {
            "reason": {"type": "string"},
            "better": {"type": "string", "enum": self.choices},
        }
        return JsonQuestion(
            values, properties, lambda fields: _choice(fields, native_first, self.config.ties)
        )


def _choice(fields: Mapping[str, object], native_first: bool, ties: bool) -> PairAnswer:
    better, reason = fields.get("better"), fields.get("reason")
    why = " ".join(reason.split()) if isinstance(reason, str) else ""
    if not isinstance(better, str):
        raise UnusableError("the entry 'better' is missing or no text")
    if ties and _TIE.match(better):
        return PairAnswer("neither", why)
    letter = _LETTER.match(better)
    if letter is None:
        raise UnusableError(f"'better' names neither A nor B: {better[:40]!r}")
    chose_first = letter[1].upper() == "A"
    choice: Choice = "native" if chose_first == native_first else "translated"
    return PairAnswer(choice, why)


def _answer(outcome: Outcome[PairAnswer]) -> PairAnswer:
    return outcome.value or PairAnswer(None, failure=outcome.reason or "no answer came")


def compare_to_file(
    pairs: Sequence[NativePair],
    comparer: Comparer,
    out: Path,
    *,
    progress: Callable[[int], None] | None = None,
) -> list[PairVerdict]:
    """A verdict for each pair and criterion, criterion by criterion, also in the file ``out``.

    Verdicts that stand there are kept; those without a result are asked for again. Raises
    MedalError where ``out`` holds verdicts of another judge.
    """
    signature = str(comparer.signature())
    journal = Journal(out)
    done = journal.by_key(parse_verdict, lambda verdict: verdict.key)
    require_same((verdict.judge for verdict in done.values()), signature, out, "verdicts")
    scored = {key for key, verdict in done.items() if verdict.result is not None}
    wanted = [(pair, name) for name in comparer.config.criteria for pair in pairs]
    for window in windows(wanted, comparer.config.at_once):
        new = comparer.compare([each for each in window if _asked(*each) not in scored])
        journal.append(new)
        done |= {verdict.key: verdict for verdict in new}
        if progress is not None:
            progress(len(window))
    verdicts = [done[_asked(pair, name)] for pair, name in wanted]
    write_records(out, verdicts)  # in order, each once
    return verdicts


def _asked(pair: NativePair, criterion: str) -> tuple[str, str, str, str]:
    return pair.id, criterion, pair.native.id, pair.translated.id
