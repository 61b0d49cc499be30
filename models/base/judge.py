"""The one interface of every judge.

``Judge.score`` reads top to bottom: windows of dialogues, requests, batches, the family's hook,
judgements. A family (encoder, embedding, LoRA, prompted, ...) writes three hooks: ``_prepare``
(the length of each request), ``_score_batch`` (the numbers) and ``signature``.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from copy import copy
from dataclasses import dataclass, replace
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
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement, finite_details, unscored
from medal_judges.records.signature import Signature, content_hash

ScoreLevel = Literal["dialogue", "turn", "last"]
NO_ASSISTANT_TURN = "no assistant turn to judge"


@dataclass(slots=True)
class ScoreRequest:
    """One thing to score: a dialogue up to the judged turn, and what the family made of it.

    ``tokens`` is the length by which batches are budgeted; ``payload`` belongs to the family;
    ``row`` is the dialogue's place in its window.
    """

    dialogue: Dialogue
    turn: int | None
    row: int = 0
    tokens: int = 0
    payload: Any = None
    truncated_turns: int = 0


class Judge(ABC):
    """Scores dialogues on named dimensions; see ``score``.

    ``token_budget`` bounds one batch (padded tokens), in the hooks' own passes too. ``window``
    bounds how many dialogues are in memory to be sorted by length; a kill can lose a window, so it
    takes seconds, not minutes. ``languages`` (ISO 639-1) are the supported ones: those of the
    training data, or as a YAML file says; None: any, or unknown. ``revision`` is a hash of the
    folder that the judge was loaded from or saved in (see judge_revision).

    >>> from medal_judges import Judge, read_dialogues
    >>> judge = Judge.from_pretrained("length")  # a shipped name, a folder, a YAML file, a hub id
    >>> for judgement in judge.score(read_dialogues("dialogues.jsonl")):
    ...     print(judgement.id, round(judgement.scores["overall"], 2))
    d0 1.98
    d1 1.98
    d2 1.98
    """

    family: ClassVar[str]
    name: str
    dimensions: tuple[Dimension, ...]
    languages: tuple[str, ...] | None = None
    revision: str = "unsaved"
    # A tokenizer keeps its last truncation and padding, so a network of this process serves one
    # thread at a time. A judge that asks servers needs no such lock.
    computing: AbstractContextManager[None] = nullcontext()
    token_budget: int = 8192
    window: int = 256
    # Whether a resumed run must begin at a window of an uninterrupted one, see resuming.py.
    resumes_windows: ClassVar[bool] = False

    # -- the hooks of a family -----------------------------------------------------------------

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
        """Positions of requests that must share a batch because they share work (the turns of one
        dialogue, read once); by default each request is alone."""
        return [[i] for i in range(len(requests))]

    def language_models(self) -> list[LanguageModel]:
        """The language models that the judge asks; a hybrid's are its members'."""
        return []

    def answer_counts(self) -> AnswerCounts:
        """How many answers of its language models came from the cache, and how many were new."""
        counts = AnswerCounts()
        for model in {id(each): each for each in self.language_models()}.values():
            mine = model.answer_counts()
            counts.add(kept=mine.kept, asked=mine.asked)
        return counts

    def place(self, device: str, dtype: str) -> None:  # noqa: B027  (most have nothing to move)
        """Move the judge's own network, as loading with these options would."""

    def load_options(self) -> dict[str, Any]:
        """Options that ``from_pretrained`` needs to load the saved judge: places and servers, which
        no judge folder may name."""
        return {}

    def signed(self, **fields: Any) -> Signature:
        """Returns a Signature with ``fields`` and the judge's name, rubric and package version."""
        from medal_judges import __version__

        rubric = content_hash([d.to_record() for d in self.dimensions])
        return Signature(judge=self.name, rubric=rubric, version=__version__, **fields)

    def _save(self, folder: Path) -> None:
        """Write config.json and whatever else ``from_pretrained`` needs into ``folder``."""
        raise ConfigError(f"a judge of family {self.family!r} has nothing to save")

    # -- scoring ---------------------------------------------------------------------------------

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
        """Yields judgements in input order; at most ``window`` dialogues are in memory.

        ``level="dialogue"``: one judgement per dialogue. ``level="turn"``: one per assistant turn,
        judged on the turns before it only. ``level="last"``: one for the last assistant turn, like
        turn-level human ratings. A dialogue without an assistant turn gives one unscored judgement
        with its reason. ``progress`` is called after each batch with the number of dialogues
        finished since the last call. Scores do not depend on batch or order.

        ``unknown_language``: a dialogue in none of the judge's ``languages`` is scored with a
        warning (``Judgement.unknown_language`` names the language) or left unscored (``refuse``).
        ``detect_language``: detect the language of dialogues that state none
        (``Judgement.detected_language``); by default if the judge states its own languages and the
        extra lang is installed.

        Raises ConfigError at the call for an unknown level or dimension, and if ``dialogues`` is
        not an iterable of Dialogue (elements of an iterator are checked as they are read).
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
        signature = str(self.signature())
        policy, detect = how
        for window in windows(dialogues, self.window):
            found = [with_language(dialogue, detect) for dialogue in window]
            unknown: dict[int, str] = {}  # row -> its language, if the judge does not support it
            if policy != "allow" and self.languages is not None:
                langs = enumerate(dialogue.lang for dialogue, _ in found)
                unknown = {row: lang for row, lang in langs if is_outside(lang, self.languages)}
            refused = unknown if policy == "refuse" else {}
            requests = [r for row, (d, _) in enumerate(found) for r in requests_at(d, level, row)]
            judged = [r for r in requests if r.dialogue.assistant_turns and r.row not in refused]
            answers = self._score_requests(judged, names, len(window), progress)
            given = dict(zip(map(id, judged), answers, strict=True))
            for request in requests:
                row, detected = request.row, found[request.row][1]
                if (answer := given.get(id(request))) is not None:
                    judgement = _completed(answer, request, signature)
                else:
                    languages = self.languages or ()
                    reason = (
                        refusal(refused[row], languages) if row in refused else NO_ASSISTANT_TURN
                    )
                    judgement = unscored(
                        request.dialogue.id, signature, names, reason, request.turn
                    )
                if row in unknown or detected is not None:
                    judgement = replace(
                        judgement, unknown_language=unknown.get(row), detected_language=detected
                    )
                yield judgement

    def _score_requests(
        self,
        requests: Sequence[ScoreRequest],
        names: Sequence[str],
        dialogues: int,
        progress: Callable[[int], None],
    ) -> list[Judgement]:
        """The family's judgement of each request of a window of ``dialogues``, in order."""
        answers: dict[int, Judgement] = {}
        waiting = Counter(request.row for request in requests)  # dialogue -> requests to score
        progress(dialogues - len(waiting))
        with self.computing:
            self._prepare(requests)

        def run(units: Sequence[list[int]]) -> list[tuple[int, Judgement]]:
            places = [i for unit in units for i in unit]
            batch = [requests[i] for i in places]
            return list(zip(places, self._score_batch(batch, names), strict=True))

        def length(unit: list[int]) -> int:
            return sum(requests[i].tokens for i in unit)

        for batch in budget_batches(self._units(requests), length, self.token_budget):
            with self.computing:
                scored = retry_on_oom(run, batch)
            answers.update(scored)
            before = len(waiting)
            waiting -= Counter(requests[i].row for i, _ in scored)
            progress(before - len(waiting))
        return [answers[i] for i in range(len(requests))]

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
        """Returns the dimension called ``name``. Raises ConfigError for an unknown one."""
        self._check_dimensions([name])
        return next(d for d in self.dimensions if d.name == name)

    # -- saving and loading: see models/base/saving.py ---------------------------------------------

    @staticmethod
    def from_pretrained(
        path_or_repo_id: str | Path, *, revision: str | None = None, **options: Any
    ) -> Judge:
        """Loads a judge from a folder, a hub id or a YAML file of configs/judges/.

        ``options`` go to the family (``device``, ``dtype``, or fields of the YAML file).
        Raises JudgeLoadError, with its own message for not found, offline, gated and not a judge.
        """
        judge: Judge = load_judge(path_or_repo_id, revision=revision, **options)
        return judge

    def save_pretrained(self, path: str | Path) -> Path:
        """Writes the judge as a folder (config.json, safetensors, tokenizer) and returns it."""
        return save_judge(self, Path(path))

    def push_to_hub(self, repo_id: str, *, private: bool = True, **options: str | None) -> str:
        """Uploads the judge to the Hub with golden scores and returns the commit's address.

        ``options``: ``revision`` (a tag), ``message``. A card is written by ``medal push`` from the
        folder of ``medal train``, which has the facts of the run.
        """
        with TemporaryDirectory() as place:
            folder = self.save_pretrained(Path(place) / "judge")
            write_golden(self, folder)
            return push_folder(folder, repo_id, private=private, **options)


def _completed(answer: Judgement, request: ScoreRequest, signature: str) -> Judgement:
    """The family's ``answer`` with what the base class knows, and without NaN and infinity, which
    JSON does not have: such a score becomes None with a failure, everything else is left out."""
    scores = answer.scores
    lost = [n for n, v in scores.items() if v is not None and not math.isfinite(v)]
    reason = f"the judge's number is not finite: {', '.join(lost)}" if lost else None
    usage = {"tokens": request.tokens} | dict(answer.usage)
    return replace(
        answer,
        id=request.dialogue.id,
        judge=signature,
        turn=request.turn,
        truncated_turns=request.truncated_turns,
        scores={n: None if n in lost else v for n, v in scores.items()},
        distributions={n: p for n, p in answer.distributions.items() if all(map(math.isfinite, p))},
        failure="; ".join(filter(None, (answer.failure, reason))) or None,
        usage={n: v for n, v in usage.items() if math.isfinite(v)},
        contributions={n: c for n, c in answer.contributions.items() if c.finite},
        details={n: d for n, one in answer.details.items() if (d := finite_details(one))},
    )


def checked_dialogues(dialogues: Iterable[Dialogue]) -> Iterator[Dialogue]:
    """Returns an iterator over ``dialogues`` that checks each element as it is read.

    Raises ConfigError for a single dialogue, and for an element that is not a Dialogue.
    """
    single = isinstance(dialogues, Dialogue | Mapping | str | bytes)
    if single or not isinstance(dialogues, Iterable):
        raise ConfigError(
            f"score takes an iterable of Dialogue, not an object of type "
            f"{type(dialogues).__name__!r}",
            hint="put one dialogue in a list; read a file with medal_judges.read_dialogues(PATH)",
        )

    def checked() -> Iterator[Dialogue]:
        for index, dialogue in enumerate(dialogues):
            if not isinstance(dialogue, Dialogue):
                raise ConfigError(
                    f"dialogues[{index}] is an object of type {type(dialogue).__name__!r}, not a "
                    "Dialogue",
                    hint="medal_judges.parse_dialogue(record) returns one; a LabelledDialogue has "
                    "one as .dialogue",
                )
            yield dialogue

    return checked()


def requests_at(dialogue: Dialogue, level: ScoreLevel, row: int = 0) -> list[ScoreRequest]:
    """Returns the requests of one dialogue at ``level``; ``row``: see ScoreRequest."""
    turns = dialogue.assistant_turns
    if level == "dialogue" or not turns:
        return [ScoreRequest(dialogue, None, row)]
    chosen = turns if level == "turn" else turns[-1:]
    return [ScoreRequest(dialogue.upto(turn), turn, row) for turn in chosen]
