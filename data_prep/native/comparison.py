"""Comparison of pairs by a prompted judge, each criterion in both orders (MEDAL, appendix C.5)."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from medal_judges.data_prep.native.asking import Outcome, Question, Spending, UnusableError, ask
from medal_judges.data_prep.native.config import CompareConfig
from medal_judges.data_prep.native.pairs import Pair
from medal_judges.data_prep.native.verdict import Choice, Said, Verdict
from medal_judges.data_prep.seeds.languages import language_name
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel
from medal_judges.models.prompted.prompt import load_prompt, transcript
from medal_judges.signature import Signature, content_hash

_PLACEHOLDERS = frozenset(
    ("language", "country", "question", "first", "second", "choices", "reason")
)
_W = r"\W{0,20}"
_LETTER = re.compile(rf"\A{_W}(?:(?:conversation|dialogue){_W})?([ab]){_W}\Z", re.IGNORECASE)
_TIE = re.compile(rf"\A{_W}(?:tie|neither|equal|both){_W}\Z", re.IGNORECASE)
ORDERS = (True, False)  # native first, translated first


class Comparer:
    """Asks ``llm`` which dialogue of a pair is better. Raises ConfigError for a prompt file that
    does not fit."""

    def __init__(self, config: CompareConfig, llm: LanguageModel) -> None:
        self.config, self.llm = config, llm
        self.spending = Spending()
        self.prompt = load_prompt(config.prompt, _PLACEHOLDERS)
        self.choices = ["A", "B", "tie"] if config.ties else ["A", "B"]

    def signature(self) -> Signature:
        """What a verdict depends on."""
        from medal_judges import __version__

        settings = [self.config.decoding(), self.config.ties, dict(self.llm.fingerprint())]
        return Signature(
            judge="native against translated",
            revision=content_hash(settings),
            base=self.llm.name,
            prompt=content_hash([self.prompt.model_dump(), self.config.criteria]),
            seed=self.config.seed,
            version=__version__,
        )

    def compare(self, wanted: Sequence[tuple[Pair, str]]) -> list[Verdict]:
        """A verdict for each pair and criterion, in order. What cannot be read is a failure with
        its reason, never a tie."""
        questions = [
            self._question(pair, criterion, native_first)
            for pair, criterion in wanted
            for native_first in ORDERS
        ]
        outcomes = ask(self.llm, questions, self.config.tries)
        for outcome in outcomes:
            for usage in outcome.usage:
                self.spending.add(usage)
        signature = str(self.signature())
        both = zip(outcomes[::2], outcomes[1::2], strict=True)
        return [
            _verdict(pair, criterion, _said(one), _said(other), signature)
            for (pair, criterion), (one, other) in zip(wanted, both, strict=True)
        ]

    def requests(self, pair: Pair) -> list[ChatRequest]:
        """What is asked of ``pair`` at the first try, for an estimate."""
        return [
            self._question(pair, criterion, native_first).request(None, 0)
            for criterion in self.config.criteria
            for native_first in ORDERS
        ]

    def _question(self, pair: Pair, criterion: str, native_first: bool) -> Question[Said]:
        shown = [transcript(row.dialogue.turns) for row in (pair.native, pair.translated)]
        first, second = shown if native_first else reversed(shown)
        country = pair.native.dialogue.context.get("country")
        values = {
            "language": language_name(pair.lang),
            "country": str(country) if country else None,
            "question": self.config.criteria[criterion],
            "first": first,
            "second": second,
            "choices": " or ".join(json.dumps(choice) for choice in self.choices),
        }
        schema = _schema(self.choices)

        def request(reason: str | None, attempt: int) -> ChatRequest:
            again = [] if reason is None else [{"reason": reason}]
            messages = self.prompt.messages(values, again=again)
            return self.config.request(messages, schema, attempt)

        def read(found: Mapping[str, Any]) -> Said:
            return _read(found, native_first, ties=self.config.ties)

        return Question(request, read)


def _schema(choices: Sequence[str]) -> dict[str, Any]:
    """The reason comes first: a choice that follows from it is better than one it defends."""
    return {
        "type": "object",
        "properties": {
            "reason": {"type": "string"},
            "better": {"type": "string", "enum": list(choices)},
        },
        "required": ["reason", "better"],
        "additionalProperties": False,
    }


def _read(found: Mapping[str, Any], native_first: bool, *, ties: bool) -> Said:
    better, reason = found.get("better"), found.get("reason")
    said = " ".join(reason.split()) if isinstance(reason, str) else ""
    if not isinstance(better, str):
        raise UnusableError("the entry 'better' is missing or no text")
    if ties and _TIE.match(better):
        return Said("neither", said)
    letter = _LETTER.match(better)
    if letter is None:
        raise UnusableError(f"'better' names neither A nor B: {better[:40]!r}")
    chose_first = letter[1].upper() == "A"
    choice: Choice = "native" if chose_first == native_first else "translated"
    return Said(choice, said)


def _said(outcome: Outcome[Said]) -> Said:
    return outcome.value or Said(None, failure=outcome.reason or "no answer came")


def _verdict(pair: Pair, criterion: str, one: Said, other: Said, judge: str) -> Verdict:
    return Verdict(
        id=pair.id,
        criterion=criterion,
        group=pair.group,
        lang=pair.lang,
        native=pair.native.id,
        translated=pair.translated.id,
        native_first=one,
        translated_first=other,
        judge=judge,
    )
