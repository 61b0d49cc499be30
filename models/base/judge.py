"""The one interface of every judge: ordering, batching, truncation and levels live here.

A family (encoder, embedding, LoRA, prompted, follow-up, ...) writes three small hooks:
``_prepare`` (what one dialogue costs), ``_score_batch`` (the numbers) and ``signature``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Literal, get_args

from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import write_golden
from medal_judges.models.base.hub import push_folder
from medal_judges.models.base.judged_languages import (
    POLICIES,
    UnknownLanguage,
    is_detecting,
    is_outside,
    refusal,
    with_language,
    with_warnings,
)
from medal_judges.models.base.saving import load_judge, save_judge
from medal_judges.models.batching import budget_batches, retry_on_oom, windows
from medal_judges.models.llm.protocol import AnswerCounts, LanguageModel
from medal_judges.records.details import finite_details
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement, unscored
from medal_judges.records.signature import Signature

ScoreLevel = Literal["dialogue", "turn", "last"]
NO_ASSISTANT_TURN = "no assistant turn to judge"


@dataclass(slots=True)
class ScoreRequest:
    """One thing to score: a dialogue cut at the judged turn, and what the family made of it.

    ``tokens`` is the length that batches are budgeted by; ``payload`` belongs to the family;
    ``row`` tells its dialogue from others of the window, whose ids may be equal.
    """

    dialogue: Dialogue
    turn: int | None
    row: int = 0
    tokens: int = 0
    payload: Any = None
    truncated_turns: int = 0


class Judge(ABC):
    """Scores dialogues on named dimensions; see ``score``.

    ``token_budget`` bounds one batch (padded tokens), in the hooks' own passes too; ``window``
    bounds how many dialogues are held in memory to be sorted by length; it is also what a kill can
    lose, so it is some seconds of work and not minutes. ``languages`` are those (ISO 639-1) that it
    was made for: of its training data, or as its YAML file says; None: any, or not known.
    ``revision`` is of the folder that it was loaded from or saved in (see judge_revision).

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
    revision: str = "unsaved"
    # Tokenizers keep how they last cut and filled up, so a network of this process serves one
    # thread at a time; a judge that asks servers needs no such lock.
    computing: AbstractContextManager[None] = nullcontext()
    token_budget: int = 8192
    window: int = 256
    # Whether a resumed run begins where a window of an unbroken one does, see resuming.py.
    resumes_windows: ClassVar[bool] = False

    # -- what a family writes ---------------------------------------------------------------

    @abstractmethod
    def signature(self) -> Signature:
        """Everything of the judge that a number depends on; data and dimension are added later."""

    @abstractmethod
    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        """Fill ``tokens``, ``payload`` and ``truncated_turns`` of each request."""

    @abstractmethod
    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        """Returns one Judgement per request, in order. A score may not depend on the batch.

        ``id``, ``judge``, ``turn`` and ``truncated_turns`` are filled in by ``score``; ``usage``
        without ``tokens`` means that the request's tokens were read once.
        """

    def _units(self, requests: Sequence[ScoreRequest]) -> list[list[int]]:
        """Positions of requests that have to be in one batch, because they share work (the turns
        of one dialogue, read once); each by itself unless a family says otherwise."""
        return [[i] for i in range(len(requests))]

    def language_models(self) -> list[LanguageModel]:
        """The language models that the judge speaks through; a hybrid's are its members'."""
        return []

    def answer_counts(self) -> AnswerCounts:
        """How many answers of its language models were kept from before, and how many asked for."""
        counts = AnswerCounts()
        for model in {id(each): each for each in self.language_models()}.values():
            mine = model.answer_counts()
            counts.add(kept=mine.kept, asked=mine.asked)
        return counts

    def advice(self) -> str | None:  # noqa: B027  (most have none)
        """What to tell whoever has waited for its scores; None where nothing would be faster."""

    def place(self, device: str, dtype: str) -> None:  # noqa: B027  (most have nothing to move)
        """Move the judge's own network, as loading with these options would."""

    def load_options(self) -> dict[str, Any]:
        """What ``from_pretrained`` has to be given for the saved judge to be this one: places and
        servers, which no folder of a judge may name."""
        return {}

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
        detect_language: bool | None = None,
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
        (``refuse``). ``detect_language``: the language of dialogues that state none is detected
        (``Judgement.detected_language``); by default where the judge states its own and the extra
        lang is installed.

        Raises ConfigError, when called and not at the first judgement, for a level or a dimension
        that this judge does not have and for what is no iterable of Dialogue (of an iterator the
        wrong element is met when it is read).
        """
        if level not in get_args(ScoreLevel):
            raise ConfigError(f"level must be 'dialogue', 'turn' or 'last', not {level!r}")
        if unknown_language not in POLICIES:
            raise ConfigError(f"unknown_language must be warn or refuse, not {unknown_language!r}")
        names = self._check_dimensions(dimensions)
        judge = self
        if token_budget is not None:  # a copy shares the weights; hooks read the budget there
            if not isinstance(token_budget, int) or token_budget < 1:
                raise ConfigError(f"token_budget must be 1 or more, not {token_budget!r}")
            judge = copy(self)
            judge.token_budget = token_budget
        given = checked_dialogues(dialogues)
        how = (unknown_language, is_detecting(self.languages, detect_language))
        judged = judge._stream(given, level, names, how, progress or (lambda done: None))
        return with_warnings(judged, self.languages, outside=unknown_language == "warn")

    def _stream(
        self,
        dialogues: Iterable[Dialogue],
        level: ScoreLevel,
        names: Sequence[str],
        how: tuple[UnknownLanguage, bool],
        progress: Callable[[int], None],
    ) -> Iterator[Judgement]:
        unknown_language, detect = how
        signature = str(self.signature())
        for window in windows(dialogues, self.window):
            placed = [with_language(dialogue, detect) for dialogue in window]
            window, detected = [each for each, _ in placed], [lang for _, lang in placed]
            unknown: dict[int, str] = {}  # row -> language of those in none of the judge's
            if unknown_language != "allow" and self.languages is not None:
                codes = enumerate(dialogue.lang for dialogue in window)
                unknown = {row: code for row, code in codes if is_outside(code, self.languages)}
            refused = unknown if unknown_language == "refuse" else {}
            for request, prediction in self._score_window(window, level, names, refused, progress):
                row, reason = request.row, NO_ASSISTANT_TURN
                if prediction is not None:
                    judgement = _judgement(request, prediction, signature)
                else:
                    if row in refused:
                        reason = refusal(refused[row], self.languages or ())
                    id = request.dialogue.id
                    judgement = unscored(id, signature, names, reason, request.turn)
                if row in unknown or detected[row] is not None:
                    judgement = replace(
                        judgement,
                        unknown_language=unknown.get(row),
                        detected_language=detected[row],
                    )
                yield judgement

    def _score_window(
        self,
        window: Sequence[Dialogue],
        level: ScoreLevel,
        names: Sequence[str],
        refused: Mapping[int, str],
        progress: Callable[[int], None],
    ) -> Iterator[tuple[ScoreRequest, Judgement | None]]:
        """Each request of the dialogues in ``window``, in order, with its prediction; None for one
        that is not scored."""
        plans = [requests_at(dialogue, level, row) for row, dialogue in enumerate(window)]
        requests = [request for plan in plans for request in plan]
        owners = [request.row for request in requests]
        predictions: dict[int, Judgement] = {}
        judged = [
            i
            for i, request in enumerate(requests)
            if request.dialogue.assistant_turns and request.row not in refused
        ]
        waiting = Counter(owners[i] for i in judged)  # dialogue -> its requests without an answer
        progress(len(window) - len(waiting))
        with self.computing:
            self._prepare([requests[i] for i in judged])
        units = [[judged[k] for k in unit] for unit in self._units([requests[i] for i in judged])]

        def run(part: Sequence[list[int]]) -> list[tuple[int, Judgement]]:
            flat = [i for unit in part for i in unit]
            scored = self._score_batch([requests[i] for i in flat], names)
            return list(zip(flat, scored, strict=True))

        for batch in budget_batches(
            units, lambda unit: sum(requests[i].tokens for i in unit), self.token_budget
        ):
            with self.computing:
                predictions.update(retry_on_oom(run, batch))
            before = len(waiting)
            waiting -= Counter(owners[i] for unit in batch for i in unit)
            progress(before - len(waiting))
        for i, request in enumerate(requests):
            yield request, predictions.get(i)

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

    @staticmethod
    def from_pretrained(
        path_or_repo_id: str | Path, *, revision: str | None = None, **options: Any
    ) -> Judge:
        """Load a judge from a folder, a hub id or a YAML file of configs/judges/.

        ``options`` go to the family (``device``, ``dtype``, or fields of the YAML file).
        Raises JudgeLoadError that tells not found from offline, gated and not-a-judge.
        """
        judge = load_judge(path_or_repo_id, revision=revision, **options)
        assert isinstance(judge, Judge)  # FAMILIES names classes of judges only
        return judge

    def save_pretrained(self, path: str | Path) -> Path:
        """Write the whole judge as a folder (config.json, safetensors, tokenizer); returns it."""
        return save_judge(self, Path(path))

    def push_to_hub(self, repo_id: str, *, private: bool = True, **options: str | None) -> str:
        """Upload the judge to the Hub (private unless told otherwise) with golden scores; returns
        the commit's address. ``options``: ``revision`` (a tag), ``message``. The card is written
        where the facts of a run are: ``medal push`` of the folder that ``medal train`` left.
        """
        with TemporaryDirectory() as place:
            folder = self.save_pretrained(Path(place) / "judge")
            write_golden(self, folder)
            return push_folder(folder, repo_id, private=private, **options)


def _judgement(request: ScoreRequest, prediction: Judgement, signature: str) -> Judgement:
    """The judgement without NaN and infinity, which JSON does not have: such a score is None, and
    the failure says so; such a distribution, contribution or usage is left out."""
    scores = prediction.scores
    lost = [n for n, v in scores.items() if v is not None and not math.isfinite(v)]
    reason = f"the judge's number is not finite: {', '.join(lost)}" if lost else None
    distributions = prediction.distributions
    usage = {"tokens": request.tokens} | dict(prediction.usage)
    return replace(
        prediction,
        id=request.dialogue.id,
        judge=signature,
        scores={n: None if n in lost else v for n, v in scores.items()},
        turn=request.turn,
        distributions={n: p for n, p in distributions.items() if all(map(math.isfinite, p))},
        failure="; ".join(filter(None, (prediction.failure, reason))) or None,
        truncated_turns=request.truncated_turns,
        usage={n: v for n, v in usage.items() if math.isfinite(v)},
        contributions={n: c for n, c in prediction.contributions.items() if c.finite},
        details={n: d for n, one in prediction.details.items() if (d := finite_details(one))},
    )


def checked_dialogues(dialogues: Iterable[Dialogue]) -> Iterable[Dialogue]:
    """``dialogues``; a list is looked through at once, an iterator as it is read.

    Raises ConfigError for one dialogue without a list around it, and for an element that is none.
    """
    single = isinstance(dialogues, Dialogue | Mapping | str | bytes)
    if single or not isinstance(dialogues, Iterable):
        raise ConfigError(
            f"score takes an iterable of Dialogue, not an object of type "
            f"{type(dialogues).__name__!r}",
            hint="one dialogue goes in a list; a file is read with medal_judges."
            "read_dialogues(PATH)",
        )
    checked = map(_checked_dialogue, count(), dialogues)
    if not isinstance(dialogues, Sequence):
        return checked
    for _ in checked:  # looked at, and not held: rows may be read from a file each time
        pass
    return dialogues


def _checked_dialogue(index: int, dialogue: object) -> Dialogue:
    if isinstance(dialogue, Dialogue):
        return dialogue
    hint = "make one with Dialogue(id, (Turn('user', 'Hello'), Turn('assistant', 'Hi')))"
    if isinstance(dialogue, Mapping):
        hint = "medal_judges.parse_dialogue(record) returns a Dialogue"
    elif isinstance(getattr(dialogue, "dialogue", None), Dialogue):
        hint = "give its .dialogue: labels are no part of what is scored"
    what = f"an object of type {type(dialogue).__name__!r}"
    raise ConfigError(f"dialogues[{index}] is {what}, not a Dialogue", hint=hint)


def requests_at(dialogue: Dialogue, level: ScoreLevel, row: int = 0) -> list[ScoreRequest]:
    """What there is to score in one dialogue at ``level``; ``row``: see ScoreRequest."""
    turns = dialogue.assistant_turns
    if level == "dialogue" or not turns:
        return [ScoreRequest(dialogue, None, row)]
    chosen = turns if level == "turn" else turns[-1:]
    return [ScoreRequest(dialogue.upto(turn), turn, row) for turn in chosen]
