"""The one interface of every judge: ordering, batching, truncation and levels live here.

A family (encoder, embedding, LoRA, prompted, follow-up, ...) writes three small hooks:
``_prepare`` (what one dialogue costs), ``_score_batch`` (the numbers) and ``signature``.
"""

from __future__ import annotations

import logging
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from medal_judges.contributions import Contributions
from medal_judges.details import Details
from medal_judges.dialogue import Dialogue
from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError
from medal_judges.judgement import Judgement, unscored
from medal_judges.models.base.judged_languages import POLICIES, UnknownLanguage, language_outside
from medal_judges.models.batching import budget_batches, retry_on_oom, windows
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.signature import Signature

logger = logging.getLogger(__name__)

ScoreLevel = Literal["dialogue", "turn", "last"]
NO_ASSISTANT_TURN = "no assistant turn to judge"


@dataclass(slots=True)
class ScoreRequest:
    """One thing to score: a dialogue cut at the judged turn, and what the family made of it.

    ``tokens`` is the length that batches are budgeted by; ``payload`` belongs to the family.
    """

    dialogue: Dialogue
    turn: int | None
    tokens: int = 0
    payload: Any = None
    truncated_turns: int = 0


@dataclass(slots=True)
class Prediction:
    """A family's answer for one item, see Judgement for the fields. ``usage`` without ``tokens``
    stands for one reading of the item's tokens."""

    scores: Mapping[str, float | None]
    distributions: Mapping[str, Sequence[float]] = field(default_factory=dict)
    contributions: Mapping[str, Contributions] = field(default_factory=dict)
    explanation: str | None = None
    failure: str | None = None
    usage: Mapping[str, float] = field(default_factory=dict)
    transient: bool = False
    details: Mapping[str, Details] = field(default_factory=dict)
    left_out_turns: int = 0
    shortened_turns: int = 0


class Judge(ABC):
    """Scores dialogues on named dimensions; see ``score``.

    ``token_budget`` bounds one batch (padded tokens), in the hooks' own passes too; ``window``
    bounds how many dialogues are held in memory to be sorted by length; it is also what a kill can
    lose, so it is some seconds of work and not minutes. ``languages`` are those (ISO 639-1) that it
    was made for: of its training data, or as its YAML file says; None: any, or not known.

    >>> from medal_judges import Judge, read_dialogues
    >>> judge = Judge.from_pretrained("length")  # a shipped name, a folder, a YAML file, a hub id
    >>> for judgement in judge.score(read_dialogues("dialogues.jsonl")):
    ...     print(judgement.id, round(judgement.scores["overall"], 2))
    d0 1.98
    d1 1.98
    d2 1.98
    """

    family: ClassVar[str]
    dimensions: tuple[Dimension, ...]
    languages: tuple[str, ...] | None = None
    token_budget: int = 8192
    window: int = 256

    # -- what a family writes ---------------------------------------------------------------

    @abstractmethod
    def signature(self) -> Signature:
        """Everything of the judge that a number depends on; data and dimension are added later."""

    @abstractmethod
    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        """Fill ``tokens``, ``payload`` and ``truncated_turns`` of each item."""

    @abstractmethod
    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        """One Prediction per request, in order. A score may not depend on the rest of the batch."""

    def _units(self, items: Sequence[ScoreRequest]) -> list[list[int]]:
        """Positions of items that have to be in one batch, because they share work (the turns of
        one dialogue, read once); each by itself unless a family says otherwise."""
        return [[i] for i in range(len(items))]

    def language_models(self) -> list[LanguageModel]:
        """The language models that the judge speaks through; a hybrid's are its members'."""
        return []

    def _save(self, folder: Path) -> None:
        """Write config.json and whatever else ``from_pretrained`` needs into ``folder``."""
        raise ConfigError(f"a judge of family {self.family!r} has nothing to save")

    # -- what everybody gets ----------------------------------------------------------------

    def score(
        self,
        dialogues: Iterable[Dialogue],
        *,
        level: ScoreLevel = "dialogue",
        dimensions: Sequence[str] | None = None,
        token_budget: int | None = None,
        unknown_language: UnknownLanguage = "warn",
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Judgement]:
        """Judgements in input order, streaming: at most ``window`` dialogues are held at once.

        ``level="dialogue"``: one judgement a dialogue. ``level="turn"``: one for each assistant
        turn, judged in the light of what came before it only. ``level="last"``: one for the last
        assistant turn, as turn-level human ratings are stored. A dialogue without an assistant
        turn gives one unscored judgement with its reason. ``progress`` is called after each batch
        with the number of dialogues done since the last call. Scores do not depend on batch or
        order. ``unknown_language``: dialogues in none of the judge's ``languages`` are scored with
        a warning (``Judgement.unknown_language`` names the language), or left unscored
        (``refuse``).

        Raises ConfigError, when called and not at the first judgement, for a level or a dimension
        that this judge does not have and for what is no iterable of Dialogue (of an iterator the
        wrong element is met when it is read).
        """
        if level not in ("dialogue", "turn", "last"):
            raise ConfigError(f"level must be 'dialogue', 'turn' or 'last', not {level!r}")
        if unknown_language not in POLICIES:
            raise ConfigError(f"unknown_language must be warn or refuse, not {unknown_language!r}")
        names = self._check_dimensions(dimensions)
        judge = self
        if token_budget is not None:  # a copy shares the weights; hooks read the budget there
            if token_budget < 1:
                raise ConfigError(f"token_budget must be 1 or more, not {token_budget}")
            judge = copy(self)
            judge.token_budget = token_budget
        given = checked_dialogues(dialogues)
        return judge._stream(given, level, names, unknown_language, progress or _no_progress)

    def _stream(
        self,
        dialogues: Iterable[Dialogue],
        level: ScoreLevel,
        names: Sequence[str],
        unknown_language: UnknownLanguage,
        progress: Callable[[int], None],
    ) -> Iterator[Judgement]:
        name = str(self.signature())
        cut = turns = 0
        outside: Counter[str] = Counter()
        for window in windows(dialogues, self.window):
            refused = self._outside(window) if unknown_language != "allow" else {}
            asked = refused if unknown_language == "refuse" else {}
            for judgement in self._score_window(window, level, names, name, asked, progress):
                cut += judgement.truncated_turns > 0
                turns += judgement.truncated_turns
                if (lang := refused.get(judgement.id)) is not None:
                    outside[lang] += 1
                    judgement = replace(judgement, unknown_language=lang)
                yield judgement
        if cut:
            logger.warning("%d judgements: %d whole turns beyond the judge's window", cut, turns)
        if outside and unknown_language == "warn":
            told = ", ".join(f"{lang} ({count})" for lang, count in outside.most_common())
            logger.warning(
                "judgements in languages that the judge was not made for: %s; it was made for %s",
                told,
                ", ".join(self.languages or ()),
            )

    def _outside(self, dialogues: Sequence[Dialogue]) -> dict[str, str]:
        """Id -> language of those that are in none of the judge's languages."""
        if self.languages is None:
            return {}
        told = {d.id: language_outside(d, self.languages) for d in dialogues}
        return {id: lang for id, lang in told.items() if lang is not None}

    def _score_window(
        self,
        window: Sequence[Dialogue],
        level: ScoreLevel,
        names: Sequence[str],
        signature: str,
        refused: Mapping[str, str],
        progress: Callable[[int], None],
    ) -> Iterator[Judgement]:
        plans = [items_of(dialogue, level) for dialogue in window]
        items = [item for plan in plans for item in plan]
        owners = [row for row, plan in enumerate(plans) for _ in plan]
        answers: dict[int, Prediction] = {}
        judged = [
            i
            for i, item in enumerate(items)
            if item.dialogue.assistant_turns and item.dialogue.id not in refused
        ]
        waiting = Counter(owners[i] for i in judged)  # dialogue -> its items without an answer
        progress(len(window) - len(waiting))
        self._prepare([items[i] for i in judged])
        units = [[judged[k] for k in unit] for unit in self._units([items[i] for i in judged])]
        for batch in budget_batches(
            units, lambda unit: sum(items[i].tokens for i in unit), self.token_budget
        ):

            def run(part: Sequence[list[int]]) -> list[tuple[int, Prediction]]:
                flat = [i for unit in part for i in unit]
                scored = self._score_batch([items[i] for i in flat], names)
                return list(zip(flat, scored, strict=True))

            answers.update(retry_on_oom(run, batch))
            before = len(waiting)
            waiting -= Counter(owners[i] for unit in batch for i in unit)
            progress(before - len(waiting))
        for i, item in enumerate(items):
            lang = refused.get(item.dialogue.id)
            reason = NO_ASSISTANT_TURN if lang is None else self._not_its_language(lang)
            yield self._judgement(item, answers.get(i), names, signature, reason)

    def _not_its_language(self, lang: str) -> str:
        return f"in {lang!r}; the judge was made for {', '.join(self.languages or ())}"

    def _judgement(
        self,
        item: ScoreRequest,
        answer: Prediction | None,
        names: Sequence[str],
        signature: str,
        reason: str,
    ) -> Judgement:
        if answer is None:
            return unscored(item.dialogue.id, signature, names, reason, item.turn)
        answer = _finite(answer)
        return Judgement(
            id=item.dialogue.id,
            judge=signature,
            scores=answer.scores,
            turn=item.turn,
            distributions=answer.distributions,
            explanation=answer.explanation,
            failure=answer.failure,
            truncated_turns=item.truncated_turns,
            usage={"tokens": item.tokens} | dict(answer.usage),
            contributions=answer.contributions,
            transient=answer.transient,
            details=answer.details,
            left_out_turns=answer.left_out_turns,
            shortened_turns=answer.shortened_turns,
        )

    def _check_dimensions(self, wanted: Sequence[str] | None) -> list[str]:
        known = [d.name for d in self.dimensions]
        if wanted is None:
            return known
        if missing := [name for name in wanted if name not in known]:
            raise ConfigError(
                f"this judge has no dimension {', '.join(map(repr, missing))}",
                hint=f"it has: {', '.join(known)}",
            )
        return list(wanted)

    def dimension(self, name: str) -> Dimension:
        """The dimension called ``name``. Raises ConfigError when the judge has none such."""
        self._check_dimensions([name])
        return next(d for d in self.dimensions if d.name == name)

    # -- saving and loading: see models/base/saving.py ---------------------------------------------

    def load_options(self) -> dict[str, Any]:
        """What ``from_pretrained`` has to be given for the saved judge to be this one: places and
        servers, which no folder of a judge may name."""
        return {}

    @staticmethod
    def from_pretrained(
        path_or_repo_id: str | Path, *, revision: str | None = None, **options: Any
    ) -> Judge:
        """Load a judge from a folder, a hub id or a YAML file of configs/judges/.

        ``options`` go to the family (``device``, ``dtype``, or fields of the YAML file).
        Raises JudgeLoadError that tells not found from offline, gated and not-a-judge.
        """
        from medal_judges.models.base.saving import load_judge

        return load_judge(path_or_repo_id, revision=revision, **options)

    def save_pretrained(self, path: str | Path) -> Path:
        """Write the whole judge as a folder (config.json, safetensors, tokenizer); returns it."""
        from medal_judges.models.base.saving import save_judge

        return save_judge(self, Path(path))

    def push_to_hub(self, repo_id: str, *, private: bool = True, **options: Any) -> str:
        """Upload the judge to the Hub (private unless told otherwise) with golden scores; returns
        the commit's address. ``options``: ``revision`` (a tag), ``message``. The card is written
        where the facts of a run are: ``medal push`` of the folder that ``medal train`` left.
        """
        from medal_judges.models.base.saving import push_judge

        return push_judge(self, repo_id, private=private, **options)


def _finite(answer: Prediction) -> Prediction:
    """``answer`` without NaN and infinity, which JSON does not have: such a score is None, and the
    failure says so; such a distribution, contribution or usage is left out."""
    lost = [n for n, v in answer.scores.items() if v is not None and not math.isfinite(v)]
    reason = f"the judge's number is not finite: {', '.join(lost)}" if lost else None
    return replace(
        answer,
        scores={n: None if n in lost else v for n, v in answer.scores.items()},
        distributions=_all_finite(answer.distributions),
        contributions={n: c for n, c in answer.contributions.items() if c.finite},
        details={n: d.finite() for n, d in answer.details.items() if d != Details()},
        failure="; ".join(filter(None, (answer.failure, reason))) or None,
        usage={n: v for n, v in answer.usage.items() if math.isfinite(v)},
    )


def _all_finite(lists: Mapping[str, Sequence[float]]) -> dict[str, Sequence[float]]:
    return {n: values for n, values in lists.items() if all(map(math.isfinite, values))}


def _no_progress(done: int) -> None:
    """Nobody is told."""


def checked_dialogues(dialogues: Iterable[Dialogue]) -> Iterable[Dialogue]:
    """``dialogues``; a list is looked through at once, an iterator as it is read.

    Raises ConfigError for one dialogue without a list around it, and for an element that is none.
    """
    if isinstance(dialogues, Dialogue | Mapping | str | bytes) or not isinstance(
        dialogues, Iterable
    ):
        raise ConfigError(
            f"score takes an iterable of Dialogue, not {_told_type(dialogues)}",
            hint="one dialogue goes in a list; a file is read with medal_judges.jsonl."
            "read_dialogues(PATH)",
        )
    if isinstance(dialogues, Sequence):
        for index, dialogue in enumerate(dialogues):
            _require_dialogue(index, dialogue)
        return dialogues
    return _checked_as_read(dialogues)


def _checked_as_read(dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
    for index, dialogue in enumerate(dialogues):
        _require_dialogue(index, dialogue)
        yield dialogue


def _require_dialogue(index: int, dialogue: object) -> None:
    if isinstance(dialogue, Dialogue):
        return
    hint = "make one with Dialogue(id, (Turn('user', 'Hello'), Turn('assistant', 'Hi')))"
    if isinstance(dialogue, Mapping):
        hint = "medal_judges.dialogue.parse_dialogue(record) makes a Dialogue of a line's object"
    elif isinstance(getattr(dialogue, "dialogue", None), Dialogue):
        hint = "give its .dialogue: labels are no part of what is scored"
    raise ConfigError(f"dialogues[{index}] is {_told_type(dialogue)}, not a Dialogue", hint=hint)


def _told_type(value: object) -> str:
    name = type(value).__name__
    return f"an object of type {name!r}"


def items_of(dialogue: Dialogue, level: ScoreLevel) -> list[ScoreRequest]:
    """What there is to score in one dialogue at ``level``."""
    turns = dialogue.assistant_turns
    if level == "dialogue" or not turns:
        return [ScoreRequest(dialogue, None)]
    chosen = turns if level == "turn" else turns[-1:]
    return [ScoreRequest(dialogue.upto(turn), turn) for turn in chosen]
