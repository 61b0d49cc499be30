"""Translation of dialogues by a prompted model (MEDAL, appendix C.5): turns and roles are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from medal_judges.data_prep.native.asking import Outcome, Question, Spending, UnusableError, ask
from medal_judges.data_prep.native.config import TranslateConfig
from medal_judges.data_prep.seeds.languages import language_name
from medal_judges.dialogue import Turn
from medal_judges.labelled import LabelledDialogue
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel
from medal_judges.models.prompted.prompt import load_prompt, transcript
from medal_judges.signature import Signature, content_hash

if TYPE_CHECKING:
    from medal_judges.data_prep.native.turn_language import TurnLanguage

SOURCE = "medal-translated"
_UNCHANGED_FROM = 5  # words; shorter turns may well read the same in two languages
_WORD = re.compile(r"[^\W\d_]")
_PLACEHOLDERS = frozenset(("language", "dialogue", "reason"))


@dataclass(slots=True)
class Task:
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


class Translator:
    """Translates by ``llm``. ``signature`` stands in every translated row. With ``language`` a turn
    in another language than asked for is a failed try.

    Raises ConfigError for a prompt file that does not fit.
    """

    def __init__(
        self, config: TranslateConfig, llm: LanguageModel, language: TurnLanguage | None = None
    ) -> None:
        self.config, self.llm, self.language = config, llm, language
        self.spending = Spending()
        by_turn = config.style == "turns"
        self.prompt = load_prompt(
            config.turn_prompt if by_turn else config.prompt,
            _PLACEHOLDERS | {"translated", "turn"} if by_turn else _PLACEHOLDERS,
        )

    def signature(self) -> Signature:
        """What a translation depends on."""
        from medal_judges import __version__

        settings = [self.config.decoding(), dict(self.llm.fingerprint())]
        return Signature(
            judge=f"translation ({self.config.style})",
            revision=content_hash(settings),
            base=self.llm.name,
            prompt=content_hash(self.prompt.model_dump()),
            seed=self.config.seed,
            version=__version__,
        )

    def translate(self, tasks: Sequence[Task]) -> None:
        """Fill the ``turns`` of each task, or its ``failure``: the reason of the last try."""
        if self.config.style == "whole":
            self._answered(tasks, self._whole)
        else:
            for place in range(max((len(task.source) for task in tasks), default=0)):
                going = [t for t in tasks if t.failure is None and place < len(t.source)]
                for task in going:
                    if not task.source[place].content.strip():
                        task.turns.append("")
                self._answered([t for t in going if len(t.turns) == place], self._next)

    def requests(self, task: Task) -> list[ChatRequest]:
        """What ``translate`` asks of ``task`` at the first try, for an estimate: turn by turn, the
        English turns stand where translated ones will."""
        if self.config.style == "whole":
            return [self._whole(task).request(None, 0)]
        english = [turn.content for turn in task.source]
        asked = [replace(task, turns=english[:i]) for i, said in enumerate(english) if said.strip()]
        return [self._next(part).request(None, 0) for part in asked]

    def _answered(self, tasks: Sequence[Task], question: Any) -> None:
        outcomes: list[Outcome[list[str]]] = ask(
            self.llm, [question(task) for task in tasks], self.config.tries
        )
        for task, outcome in zip(tasks, outcomes, strict=True):
            task.tries += outcome.tries
            task.failure = outcome.reason
            task.turns += outcome.value or []
            for usage in outcome.usage:
                self.spending.add(usage)

    def _whole(self, task: Task) -> Question[list[str]]:
        keys = [f"{i}_{turn.role}" for i, turn in enumerate(task.source, 1)]
        contents = [turn.content for turn in task.source]
        shown = json.dumps(dict(zip(keys, contents, strict=True)), ensure_ascii=False, indent=1)
        values = {"dialogue": shown}

        def read(found: Mapping[str, Any]) -> list[str]:
            return [self._checked(text, task, i) for i, text in enumerate(_only(found, keys))]

        return self._question(task, keys, values, read)

    def _next(self, task: Task) -> Question[list[str]]:
        place = len(task.turns)
        before = [replace(t, content=c) for t, c in zip(task.source, task.turns, strict=False)]
        values = {
            "dialogue": transcript(task.source),
            "translated": transcript(before),
            "turn": transcript([task.source[place]]),
        }

        def read(found: Mapping[str, Any]) -> list[str]:
            return [self._checked(text, task, place) for text in _only(found, ["translation"])]

        return self._question(task, ["translation"], values, read)

    def _checked(self, text: object, task: Task, place: int) -> str:
        turn = task.source[place]
        where = f"turn {place + 1} ({turn.role})"
        read = _translated(text, turn, where)
        if self.language is not None:
            spoken = task.row.dialogue.lang
            if fault := self.language.fault(read, task.lang, turn, spoken):
                raise UnusableError(f"{where} {fault}")
        return read

    def _question(
        self, task: Task, keys: Sequence[str], values: Mapping[str, str], read: Any
    ) -> Question[list[str]]:
        schema = {
            "type": "object",
            "properties": {key: {"type": "string"} for key in keys},
            "required": list(keys),
            "additionalProperties": False,
        }
        told = {"language": language_name(task.lang), **values}

        def request(reason: str | None, attempt: int) -> ChatRequest:
            again = [] if reason is None else [{"reason": reason}]
            messages = self.prompt.messages(told, again=again)
            return self.config.request(messages, schema, attempt)

        return Question(request, read)


def _only(found: Mapping[str, Any], keys: Sequence[str]) -> list[Any]:
    """The values of ``keys``. Raises UnusableError for one that is missing, and for others."""
    if missing := [key for key in keys if key not in found]:
        raise UnusableError(f"the entry {missing[0]!r} is missing")
    if unknown := [key for key in found if key not in keys]:
        raise UnusableError(f"there is an entry {unknown[0]!r} that was not asked for")
    return [found[key] for key in keys]


def _translated(text: object, turn: Turn, where: str) -> str:
    """The translation of one turn. Raises UnusableError for none, and for one left as it was."""
    if not isinstance(text, str):
        raise UnusableError(f"{where} is no text")
    if bool(text.strip()) != bool(turn.content.strip()):
        raise UnusableError(f"{where} is {'not ' if text.strip() else ''}empty")
    if _WORD.search(turn.content) and not _WORD.search(text):
        raise UnusableError(f"{where} has no word in it")
    words = turn.content.casefold().split()
    if len(words) >= _UNCHANGED_FROM and text.casefold().split() == words:
        raise UnusableError(f"{where} was left in the original language")
    return text.strip()


def translated_row(task: Task, signature: str, *, checked: bool = False) -> LabelledDialogue:
    """The translated dialogue: the same turns and roles, speakers, context, group and split.
    ``checked`` says whether its language was looked at, ``extra["language_checked"]``.

    It has no labels: those of the original were given to other words.
    """
    turns = tuple(
        replace(turn, content=text) for turn, text in zip(task.source, task.turns, strict=True)
    )
    dialogue = replace(
        task.row.dialogue, id=task.id, lang=task.lang, turns=turns, source=SOURCE, meta={}
    )
    told = {
        "translated_from": task.row.id,
        "translated_by": signature,
        "tries": task.tries,
        "language_checked": checked,
    }
    return LabelledDialogue(
        dialogue, {}, {}, split=task.row.split, group=task.row.group, extra=told
    )
