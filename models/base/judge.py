"""The one interface of every judge.

``Judge.score`` reads a number of dialogues at a time (a window), detects languages, makes requests
and forms batches. A family of judges (encoder, linear, LoRA, prompted, ...) scores the batches and
writes three hooks: ``_prepare`` (the length of each request), ``_score_batch`` (the numbers) and
``signature``.
"""

from __future__ import annotations

import json
import logging
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from medal_judges.errors import ConfigError, RecordError
from medal_judges.models.base.golden import write_golden
from medal_judges.models.base.hub import push_folder
from medal_judges.models.base.saving import load_judge, save_judge
from medal_judges.models.batching import (
    batch_within_budget,
    chunks,
    map_in_order,
    retry_on_oom,
)
from medal_judges.models.device import max_batch_tokens
from medal_judges.models.llm.protocol import LanguageModel
from medal_judges.reading.dialogues import parse_dialogue
from medal_judges.reading.language_detection import detect_language
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, Dialogue, base_language
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Contributions, Judgement, empty_judgement
from medal_judges.records.signature import Signature, content_hash

if TYPE_CHECKING:
    import torch

ScoreLevel = Literal["dialogue", "turn", "last"]
LEVELS: tuple[ScoreLevel, ...] = get_args(ScoreLevel)
NO_ASSISTANT_TURN = "no assistant turn to judge"
GPU_WINDOW = 1024  # dialogues: some seconds of an encoder on a GPU
# A judged answer has no contributions beyond as many turns: one number per turn for each answer
# would let the file grow with the square of a dialogue's length.
EXPLAINED_TURNS = 100
logger = logging.getLogger(__name__)


@dataclass(slots=True)
class ScoreRequest:
    """A request to score one dialogue, or one turn of it.

    ``turn``: the index of the turn to score. ``dialogue`` then ends with this turn. None is the
    whole dialogue. ``row``: the index of the dialogue among those that are scored together.
    ``chat``: the dialogue's chat_hash, or None if it is not computed yet. ``detected_language``:
    the language that was detected because the dialogue states none, or None. ``obstacle``: why the
    dialogue cannot be scored, or None.

    A family's ``_prepare`` sets the other fields. ``tokens``: the length of the request, by which
    batches are formed. ``payload``: the request in the family's own form. ``truncated_turns``: how
    many turns do not fit. ``cut_turns``: how many turns fit only in part.
    """

    dialogue: Dialogue
    turn: int | None
    row: int = 0
    tokens: int = 0
    payload: Any = None
    truncated_turns: int = 0
    cut_turns: int = 0
    chat: str | None = None
    detected_language: str | None = None
    obstacle: str | None = None


@dataclass(frozen=True, slots=True)
class DimensionScore:
    """A judge's result for one dimension.

    ``score``: a number on the dimension's scale, or None. ``failure``: why the score is None.
    ``distribution``: the probability of each level, or empty. ``details`` and ``contributions``:
    the dimension's entries in the fields of Judgement with these names.
    """

    score: float | None = None
    distribution: Sequence[float] = ()
    details: dict[str, Any] = field(default_factory=dict)
    contributions: Contributions | None = None
    failure: str | None = None


def as_judgement(
    results: Mapping[str, DimensionScore], *, failure: str | None = None, **fields: Any
) -> Judgement:
    """Returns a Judgement from ``results``, which has the result of each dimension by name.

    ``failure``: why there is no score. By default it joins the distinct failures of the results.
    ``fields``: further fields of the Judgement.
    """
    scores, distributions, details, contributions = {}, {}, {}, {}
    failures: dict[str | None, None] = {}
    for name, result in results.items():
        scores[name] = result.score
        failures[result.failure] = None
        if result.distribution:
            distributions[name] = result.distribution
        if result.details:
            details[name] = result.details
        if result.contributions:
            contributions[name] = result.contributions
    return Judgement(
        scores=scores,
        distributions=distributions,
        details=details,
        contributions=contributions,
        failure=failure or "; ".join(filter(None, failures)) or None,
        **fields,
    )


class Judge(ABC):
    """Base class of all judges. A judge scores dialogues on named dimensions.

    ``token_budget``: the maximum number of padded tokens in a batch. ``window``: how many dialogues
    ``score`` reads before it sorts them by length and scores them. A run that is killed loses the
    scores of the dialogues in progress, so a window should take seconds. ``windows_at_once``: how
    many windows are scored in parallel. ``resumes_windows``: whether a resumed run must form the
    same windows as an uninterrupted run.

    ``languages``: ISO 639-1 codes of the supported languages, from the training data or the YAML
    file. None means any, or unknown. ``revision``: a hash of the judge's files.

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
    # A tokenizer keeps the truncation and padding of its last call, so a network in this process
    # serves one thread at a time. A judge that asks a server needs no lock.
    computing: AbstractContextManager[None] = nullcontext()
    token_budget: int = 8192
    window: int = 256
    windows_at_once: int = 1  # more for a judge that waits for a server
    # Whether a resumed run must form the same windows as an uninterrupted run, see resuming.py.
    resumes_windows: ClassVar[bool] = False

    def set_batch_sizes(self, device: torch.device) -> None:
        """Sets ``token_budget`` and ``window`` for ``device``. A GPU gets larger batches and a
        larger window."""
        self.token_budget = max_batch_tokens(device)
        if device.type == "cuda":
            self.window = GPU_WINDOW

    # -- the hooks of a family -----------------------------------------------------------------

    @abstractmethod
    def signature(self) -> Signature:
        """Returns everything that a score depends on, except the dialogue and the dimension."""

    @abstractmethod
    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        """Sets ``tokens``, ``payload``, ``truncated_turns`` and ``cut_turns`` of each of
        ``requests``."""

    @abstractmethod
    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        """Returns one Judgement per request, in order. A score must not depend on the other
        requests of the batch.

        ``score`` sets ``id``, ``judge``, ``turn``, ``truncated_turns`` and ``cut_turns``
        afterwards. It also sets ``usage["tokens"]`` if the family does not.
        """

    def language_models(self) -> list[LanguageModel]:
        """Returns the language models that the judge asks. A hybrid returns the models of all its
        members."""
        return []

    def answer_counts(self) -> Counter[str]:
        """Returns how many answers of the judge's language models came from the cache (``kept``),
        and how many from the models (``asked``)."""
        models = {id(model): model for model in self.language_models()}
        counts: Counter[str] = Counter()
        for model in models.values():
            counts += Counter(model.counts)
        return counts

    def move_to(self, device: str, dtype: str) -> None:  # noqa: B027  (most have nothing to move)
        """Moves the judge's network to ``device`` and casts it to ``dtype`` (``fp32``, ``bf16`` or
        ``fp16``). A judge without a network does nothing."""

    def unsaved_options(self) -> dict[str, Any]:
        """Returns the options that ``from_pretrained`` needs besides the saved folder: servers and
        paths, which are never saved."""
        return {}

    def make_signature(self, **fields: Any) -> Signature:
        """Returns a Signature with the judge's name, a hash of its dimensions, the package version
        and ``fields``."""
        from medal_judges import __version__

        rubric = content_hash([d.to_record() for d in self.dimensions])
        return Signature(judge=self.name, rubric=rubric, version=__version__, **fields)

    def _save(self, folder: Path) -> None:
        """Writes judge.json and the other files that ``from_pretrained`` needs into ``folder``.
        Raises ConfigError if the family cannot be saved."""
        raise ConfigError(f"a judge of family {self.family!r} has nothing to save")

    # -- scoring ---------------------------------------------------------------------------------

    def score(
        self,
        dialogues: Iterable[Dialogue | Mapping[str, Any] | list[Any]],
        *,
        level: ScoreLevel = "dialogue",
        dimensions: Sequence[str] | None = None,
        progress: Callable[[int], None] | None = None,
        warn: bool = True,
    ) -> Iterator[Judgement]:
        """Yields the judgements of ``dialogues`` in input order. The input is read a part at a
        time, so it can be a stream. Scores do not depend on how dialogues are batched or ordered.

        ``level``: ``dialogue`` gives one judgement per dialogue. ``turn`` gives one per assistant
        turn, and the judge sees no later turns. ``last`` gives one for the last assistant turn, as
        in turn-level human ratings. A dialogue without an assistant turn gives one unscored
        judgement with a reason.

        ``dimensions``: the names to score. None is all. ``progress``: a function, called after each
        batch with the number of dialogues finished since the last call. ``warn``: whether to log a
        warning at the end about turns that did not fit and about unsupported languages.

        ``Judgement.unknown_language`` is set for a dialogue in a language that is not in the
        judge's ``languages``. If a dialogue states no language, it is detected
        (``Judgement.detected_language``). Detection needs the extra lang, and a judge with
        ``languages``.

        Raises ConfigError at the call for an unknown level or dimension, and if ``dialogues`` is
        not iterable or is a single dialogue. Raises it during iteration for an element that is not
        a dialogue.
        """
        if level not in LEVELS:
            raise ConfigError(f"level: expected one of {', '.join(LEVELS)}")
        judgements = self._stream_judgements(
            checked_dialogues(dialogues),
            level,
            self._checked_names(dimensions),
            progress or (lambda dialogues: None),
        )
        return warn_at_end(judgements, self.languages) if warn else judgements

    def _stream_judgements(
        self,
        dialogues: Iterable[Dialogue],
        level: ScoreLevel,
        names: Sequence[str],
        progress: Callable[[int], None],
    ) -> Iterator[Judgement]:
        signature = str(self.signature())
        dimensions = tuple(self.dimension(name) for name in names)
        detect = detects_languages(self.languages)

        def score_window(window: Sequence[Dialogue]) -> list[Judgement]:
            requests: list[ScoreRequest] = []
            for row, dialogue in enumerate(window):
                language = None
                if detect and dialogue.lang == UNKNOWN_LANGUAGE:
                    language = detect_language(dialogue)
                if language is not None:
                    dialogue = replace(dialogue, lang=language)
                for request in make_score_requests(dialogue, level, row):
                    request.detected_language = language
                    if request.turn is None and not dialogue.assistant_turns:
                        request.obstacle = NO_ASSISTANT_TURN
                    requests.append(request)
            readable = [request for request in requests if request.obstacle is None]
            answers = iter(self._score_requests(readable, names, len(window), progress))
            judgements = []
            for request in requests:
                dialogue, reason = request.dialogue, request.obstacle
                if reason is None:
                    judgement = _finish_judgement(
                        next(answers), request, signature, dimensions
                    )
                else:
                    judgement = empty_judgement(
                        dialogue, signature, dimensions, reason, request.turn
                    )
                is_outside = not self._supports_language(dialogue.lang)
                judgement = replace(
                    judgement,
                    detected_language=request.detected_language,
                    unknown_language=dialogue.lang if is_outside else None,
                )
                judgements.append(judgement)
            return judgements

        scored_windows = map_in_order(
            score_window, chunks(dialogues, self.window), self.windows_at_once
        )
        return chain.from_iterable(scored_windows)

    def _supports_language(self, lang: str) -> bool:
        """Returns whether the judge supports the language ``lang``. Returns True if ``lang`` is
        unknown or the judge has no ``languages``."""
        if self.languages is None or lang == UNKNOWN_LANGUAGE:
            return True
        return base_language(lang) in map(base_language, self.languages)

    def _score_requests(
        self,
        requests: Sequence[ScoreRequest],
        names: Sequence[str],
        dialogues: int,
        progress: Callable[[int], None],
    ) -> list[Judgement]:
        """Returns a judgement for each of ``requests``, in order.

        ``names``: the dimensions to score. ``dialogues``: the number of dialogues that were read,
        including those without a request. ``progress``: a function, called with the number of newly
        finished dialogues.
        """
        answers: dict[int, Judgement] = {}
        # dialogue -> its requests that are not scored yet
        waiting = Counter(request.row for request in requests)
        progress(dialogues - len(waiting))
        with self.computing:
            self._prepare(requests)

        def run(rows: Sequence[int]) -> list[tuple[int, Judgement]]:
            batch = [requests[row] for row in rows]
            return list(zip(rows, self._score_batch(batch, names), strict=True))

        length = [request.tokens for request in requests].__getitem__
        for batch in batch_within_budget(
            range(len(requests)), length, self.token_budget
        ):
            with self.computing:
                scored = retry_on_oom(run, batch)
            answers.update(scored)
            unfinished = len(waiting)
            waiting -= Counter(requests[i].row for i, _ in scored)
            progress(unfinished - len(waiting))
        return [answers[i] for i in range(len(requests))]

    def _checked_names(self, names: Sequence[str] | None) -> list[str]:
        own_names = [dimension.name for dimension in self.dimensions]
        if names is None:
            return own_names
        if missing := [name for name in names if name not in own_names]:
            raise ConfigError(
                f"this judge has no dimension {', '.join(map(repr, missing))}",
                hint=f"Use one of: {', '.join(own_names)}",
            )
        return list(names)

    def dimension(self, name: str) -> Dimension:
        """Returns the dimension called ``name``. Raises ConfigError if the judge does not have
        it."""
        self._checked_names([name])
        return next(d for d in self.dimensions if d.name == name)

    # -- saving and loading: see models/base/saving.py ---------------------------------------------

    @staticmethod
    def from_pretrained(
        path_or_repo_id: str | Path, *, revision: str | None = None, **options: Any
    ) -> Judge:
        """Loads a judge from ``path_or_repo_id``: a shipped name, a folder, a YAML file, or a hub
        id (at ``revision``).

        ``options`` are settings of the family: ``device``, ``dtype``, or fields that replace those
        of the YAML file. Raises JudgeLoadError if the judge is not found, cannot be downloaded, or
        has damaged files.
        """
        judge: Judge = load_judge(path_or_repo_id, revision=revision, **options)
        return judge

    def save_pretrained(self, path: str | Path, *, golden: bool | None = None) -> Path:
        """Saves the judge as a folder (judge.json, safetensors, tokenizer) and returns the folder.

        ``golden``: whether to score sixteen dialogues and save the scores in golden.json, so that
        ``medal doctor`` can compare later scores with them. None is yes, except for a hybrid that
        asks language models, because their answers can cost money.
        """
        folder = save_judge(self, Path(path))
        if golden or (
            golden is None and not (self.family == "hybrid" and self.language_models())
        ):
            write_golden(self, folder)
        return folder

    def push_to_hub(
        self, repo_id: str, *, private: bool = True, revision: str | None = None
    ) -> str:
        """Uploads the judge with its golden scores to ``repo_id`` on the Hub and returns the
        commit's URL.

        ``private``: whether the repository, if it does not exist yet, is created as private.
        ``revision``: the name of a new tag for the commit. Uploads no model card. To upload a
        folder that ``medal train`` wrote with a card, use ``medal push``.
        """
        with TemporaryDirectory() as parent:
            folder = self.save_pretrained(Path(parent) / "judge", golden=True)
            return push_folder(folder, repo_id, private=private, revision=revision)


def _finish_judgement(
    answer: Judgement,
    request: ScoreRequest,
    signature: str,
    dimensions: tuple[Dimension, ...],
) -> Judgement:
    """Returns the judgement ``answer`` of a family, with the fields that all families share.

    The result is unscored if JSON cannot hold ``answer``: if a score is NaN or infinite, or a text
    has half a surrogate pair.
    """
    problem = None
    try:
        texts = [answer.explanation, answer.failure, answer.details]
        json.dumps(texts, ensure_ascii=False, default=str).encode()
    except UnicodeEncodeError:
        problem = "the answer contains half a surrogate pair"
    if not all(map(math.isfinite, filter(None, answer.scores.values()))):
        problem = "the judge's number is not finite"
    if problem is not None:
        scores = dict.fromkeys(answer.scores)
        answer = Judgement(scores=scores, failure=problem, usage=answer.usage)
    return replace(
        answer,
        id=request.dialogue.id,
        judge=signature,
        turn=request.turn,
        truncated_turns=request.truncated_turns,
        cut_turns=request.cut_turns,
        usage={"tokens": request.tokens} | dict(answer.usage),
        chat=request.chat or request.dialogue.chat_hash,
        dimensions=dimensions,
    )


def checked_dialogues(dialogues: Iterable[object]) -> Iterator[Dialogue]:
    """Returns an iterator over ``dialogues`` that checks each element as it is read.

    An element is a Dialogue, a record of a chat in any form, or a list of messages. Raises
    ConfigError at the call if ``dialogues`` is a single dialogue or not iterable. Raises it during
    iteration for an element that is none of the three.
    """
    is_one_dialogue = isinstance(dialogues, Dialogue | Mapping | str | bytes)
    if is_one_dialogue or not isinstance(dialogues, Iterable):
        raise ConfigError(
            f"score takes an iterable of Dialogue, not an object of type "
            f"{type(dialogues).__name__!r}",
            hint="Put one dialogue in a list. To read a file: medal_judges.read_dialogues(PATH)",
        )

    def checked() -> Iterator[Dialogue]:
        for index, item in enumerate(dialogues):
            if isinstance(item, Mapping | list):
                try:
                    item = parse_dialogue(item)
                except RecordError as error:
                    raise ConfigError(f"dialogues[{index}]: {error.message}") from error
            if not isinstance(item, Dialogue):
                raise ConfigError(
                    f"dialogues[{index}] is an object of type {type(item).__name__!r}, not a "
                    "Dialogue or a record of a chat",
                    hint="Use medal_judges.parse_dialogue(record) or LabelledDialogue.dialogue",
                )
            yield item

    return checked()


def make_score_requests(
    dialogue: Dialogue, level: ScoreLevel, row: int = 0
) -> list[ScoreRequest]:
    """Returns the requests for ``dialogue`` at ``level``, a value of ``Judge.score``. Level
    ``turn`` has one request per assistant turn. Every other level has one request. ``row``: the
    index of the dialogue among those that are scored together."""
    turns = dialogue.assistant_turns
    if level == "dialogue" or not turns:
        return [ScoreRequest(dialogue, None, row)]
    if level == "last":
        return [ScoreRequest(dialogue.upto(turns[-1]), turns[-1], row)]
    hashes = dialogue.prefix_hashes()
    return [
        ScoreRequest(dialogue.upto(turn), turn, row, chat=hashes[turn + 1])
        for turn in turns
    ]


# -- languages -----------------------------------------------------------------------------------


def detects_languages(languages: Sequence[str] | None) -> bool:
    """Returns whether a judge that supports ``languages`` detects the language of dialogues that
    state none. It does if ``languages`` is not None and the extra lang is installed."""
    return languages is not None and find_spec("lingua") is not None


def is_truncated(judgement: Judgement) -> bool:
    """Returns whether the judge read only a part of the dialogue of ``judgement``, because the rest
    did not fit."""
    return judgement.truncated_turns > 0 or judgement.cut_turns > 0


def truncation_warning(rows: str, truncated_turns: int, cut_turns: int) -> str:
    """Returns a warning about ``rows`` ("3 judgements") of dialogues that do not fit.
    ``truncated_turns``: how many turns are left out. ``cut_turns``: how many turns are read in
    part."""
    counts = []
    if truncated_turns:
        counts.append(f"{truncated_turns} whole turns are left out")
    if cut_turns:
        counts.append(f"{cut_turns} turns are read in part")
    return f"{rows} beyond the judge's window: {', '.join(counts)}"


def warn_at_end(
    judgements: Iterator[Judgement], supported: Sequence[str] | None
) -> Iterator[Judgement]:
    """Yields ``judgements``. Then logs warnings about truncated turns and about languages that are
    not in ``supported``."""
    truncated = truncated_turns = cut_turns = 0
    unknown: Counter[str] = Counter()
    for judgement in judgements:
        truncated += is_truncated(judgement)
        truncated_turns += judgement.truncated_turns
        cut_turns += judgement.cut_turns
        if judgement.unknown_language is not None:
            unknown[judgement.unknown_language] += 1
        yield judgement
    if truncated:
        logger.warning(
            truncation_warning(f"{truncated} judgements", truncated_turns, cut_turns)
        )
    if unknown:
        logger.warning(
            "judgements in languages that the judge does not support: %s. It supports %s",
            ", ".join(f"{lang} ({count})" for lang, count in unknown.most_common()),
            ", ".join(supported or ()),
        )
