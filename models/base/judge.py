"""The common interface of all judges.

A kind of judge (encoder, LoRA, prompted, ...) implements ``_prepare``, ``_score_batch`` and
``signature``. ``Judge.score`` does the rest, such as forming batches."""

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
from medal_judges.models.base.golden import write_golden_scores
from medal_judges.models.base.hub import push_judge_folder
from medal_judges.models.base.saving import load_judge, save_judge
from medal_judges.models.batching import (
    batch_longest_first,
    chunks,
    map_in_threads,
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

    The caller gives ``dialogue``, ``turn``, ``row`` and, if it is known, ``chat``. The judge sets
    the other fields during scoring.

    Attributes:
        dialogue: The dialogue. If one turn is scored, the dialogue ends with this turn.
        turn: The index in the dialogue of the turn to score, from 0. None scores the whole
            dialogue.
        row: The index of the dialogue among the dialogues that are scored together, from 0.
        tokens: The length of the input in tokens, by which batches are formed.
        payload: The input of the judge's model, such as a list of token ids.
        truncated_turns: The number of turns left out because they do not fit into the input.
        cut_turns: The number of turns of which only a part fits into the input.
        chat: A hash of the turns of ``dialogue``. None if it is not computed yet.
        detected_language: The detected language, such as ``de``. None if it was not detected.
        obstacle: Why the dialogue cannot be scored. None if it can.
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
    """A judge's score on one dimension.

    Attributes:
        score: A number on the dimension's scale, or None if there is a ``failure``.
        distribution: The probability of each rating on the scale, lowest rating first. Empty if
            unknown.
        details: Further facts about the score, such as ``{"raw": 3.7}``, the score before
            calibration.
        contributions: How much each turn of the dialogue added to the score. None if unknown.
        failure: Why the score is None, such as ``the dialogue has no fact``. None if there is a
            score.
    """

    score: float | None = None
    distribution: Sequence[float] = ()
    details: dict[str, Any] = field(default_factory=dict)
    contributions: Contributions | None = None
    failure: str | None = None


def as_judgement(
    results: Mapping[str, DimensionScore], *, failure: str | None = None, **fields: Any
) -> Judgement:
    """Combines the scores of one dialogue, one for each dimension, into one Judgement.

    Args:
        results: Dimension name -> its score.
        failure: The ``failure`` of the Judgement: why a score is None. None joins the different
            failures in ``results`` by semicolons.
        fields: Further fields of the Judgement, such as ``explanation``.
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

    Attributes:
        family: The kind of judge, such as ``encoder``.
        name: The name of the judge, such as ``length``.
        dimensions: The dimensions that the judge can score, each with its scale.
        languages: ISO 639-1 codes of the supported languages. None means any language, or unknown.
        revision: A hash of the judge's files, or ``unsaved``.
        computing: A lock that lets one thread at a time use the judge's network. The default locks
            nothing.
        token_budget: The maximum number of tokens in a batch. Padding counts.
        window: The number of dialogues that are read, sorted by length and scored together. They
            are called a window.
        windows_at_once: How many windows are scored in parallel.
        resumes_windows: Whether a resumed run scores all dialogues of a window again if one of them
            has no score. If false, it scores only the dialogues without a score.

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
    # A killed run loses the windows in progress, so one should take seconds.
    window: int = 256
    windows_at_once: int = 1  # more for a judge that waits for a server
    # Whether a resumed run must form the same windows as an uninterrupted run, see resuming.py.
    resumes_windows: ClassVar[bool] = False

    def set_batch_sizes(self, device: torch.device) -> None:
        """Sets ``token_budget`` and ``window`` for ``device``. Both are larger on a GPU
        than on a CPU."""
        self.token_budget = max_batch_tokens(device)
        if device.type == "cuda":
            self.window = GPU_WINDOW

    # -- the hooks of a family -----------------------------------------------------------------

    @abstractmethod
    def signature(self) -> Signature:
        """Returns the signature, which identifies the judge in saved scores. It holds the
        judge's name and a hash of its weights or settings."""

    @abstractmethod
    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        """Makes the input of each of ``requests``, such as its token ids.

        Sets the fields ``tokens``, ``payload``, ``truncated_turns`` and ``cut_turns`` of each
        request.
        """

    @abstractmethod
    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        """Returns one Judgement for each of ``requests``, in order.

        A score must not depend on the other requests. ``score`` sets fields such as ``id``,
        ``judge`` and ``turn`` afterwards.

        Args:
            dimensions: The names of the dimensions to score.
        """

    def language_models(self) -> list[LanguageModel]:
        """Returns the language models that the judge asks. A judge that combines other judges
        returns the models of all of them."""
        return []

    def answer_counts(self) -> Counter[str]:
        """Returns how many answers the judge's language models have given.

        Returns:
            A Counter such as ``{"kept": 12, "asked": 3}``: 12 answers came from the cache and 3
                from a model. Empty for a judge that asks no language model.
        """
        models = {id(model): model for model in self.language_models()}
        counts: Counter[str] = Counter()
        for model in models.values():
            counts += Counter(model.counts)
        return counts

    def move_to(self, device: str, dtype: str) -> None:  # noqa: B027  (most have nothing to move)
        """Moves the judge's network to ``device`` and casts it to ``dtype`` (``fp32``, ``bf16`` or
        ``fp16``). A judge without a network does nothing."""

    def unsaved_options(self) -> dict[str, Any]:
        """Returns the judge's options that a saved folder does not hold. ``from_pretrained`` needs
        them again to load the folder.

        Returns:
            Option -> value, such as the address of a server. Empty for most judges.
        """
        return {}

    def make_signature(self, **fields: Any) -> Signature:
        """Returns the signature, which identifies the judge in saved scores. It holds the judge's
        name, a hash of the judge's dimensions, the version of this package, and ``fields``.

        Args:
            fields: Further fields of the Signature, such as ``revision`` (a hash of the weights)
                and ``dtype``.
        """
        from medal_judges import __version__

        rubric = content_hash([d.to_record() for d in self.dimensions])
        return Signature(judge=self.name, rubric=rubric, version=__version__, **fields)

    def _save(self, folder: Path) -> None:
        """Writes judge.json and the other files that ``from_pretrained`` needs into ``folder``.

        Raises:
            ConfigError: Judges of this kind cannot be saved.
        """
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
        """Scores ``dialogues`` and yields their judgements in input order. ``dialogues`` can
        be a stream.

        The judgement of a dialogue without an assistant turn has None for each score, and a
        ``failure`` that says why.

        Args:
            dialogues: ``Dialogue`` objects, or chats in a form that ``parse_dialogue`` reads, such
                as a list of messages.
            level: ``dialogue`` scores each dialogue as a whole. ``turn`` scores each assistant
                turn without reading later turns. ``last`` scores only the last assistant turn.
            dimensions: The names of the dimensions to score. None is all.
            progress: Called after each batch with the number of dialogues that the batch finished.
            warn: Whether to log warnings at the end: about turns that did not fit into the judge's
                input, and about languages that the judge does not support.

        Raises:
            ConfigError: The level or a dimension is unknown, or ``dialogues`` is a single dialogue
                or has an element that is not a dialogue.
        """
        if level not in LEVELS:
            raise ConfigError(f"level: expected one of {', '.join(LEVELS)}")
        judgements = self._stream_judgements(
            as_dialogues(dialogues),
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
        detect = should_detect_languages(self.languages)

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

        scored_windows = map_in_threads(
            score_window, chunks(dialogues, self.window), self.windows_at_once
        )
        return chain.from_iterable(scored_windows)

    def _supports_language(self, lang: str) -> bool:
        """Returns whether the judge supports the language ``lang``. Returns True if the language is
        unknown."""
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

        Args:
            names: The dimensions to score.
            dialogues: How many dialogues were read, including those without a request.
            progress: Called with the number of newly finished dialogues.
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
        for batch in batch_longest_first(
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
        """Returns the dimension called ``name``.

        Raises:
            ConfigError: The judge has no such dimension.
        """
        self._checked_names([name])
        return next(d for d in self.dimensions if d.name == name)

    # -- saving and loading: see models/base/saving.py ---------------------------------------------

    @staticmethod
    def from_pretrained(
        path_or_repo_id: str | Path, *, revision: str | None = None, **options: Any
    ) -> Judge:
        """Loads a judge from a folder, a YAML file or the Hub.

        Args:
            path_or_repo_id: The name of a shipped judge such as ``boxed``, a folder, a YAML file,
                or a Hub id.
            revision: A branch, tag or commit of the Hub id. None is main.
            options: ``device``, ``dtype``, or other settings, which override the settings in the
                folder or YAML file.

        Raises:
            JudgeLoadError: The judge is not found, cannot be downloaded, or has damaged files.
            JudgeLoadError, ConfigError: A setting is unknown or wrong, or something that the judge
                needs is not available, such as the device.
        """
        judge: Judge = load_judge(path_or_repo_id, revision=revision, **options)
        return judge

    def save_pretrained(self, path: str | Path, *, golden: bool | None = None) -> Path:
        """Saves the judge in a folder and returns the folder.

        Args:
            path: The folder. A judge that is already in it is replaced.
            golden: Whether to save the judge's scores of fixed dialogues too. ``medal doctor`` uses
                them to check the judge on other machines. None is False for a hybrid (a judge that
                combines others) that asks language models, because their answers can cost money.
                For any other judge None is True.

        Raises:
            ConfigError: Judges of this kind cannot be saved.
        """
        folder = save_judge(self, Path(path))
        # The answers of a hybrid's language models can cost money.
        if golden or (
            golden is None and not (self.family == "hybrid" and self.language_models())
        ):
            write_golden_scores(self, folder)
        return folder

    def push_to_hub(
        self, repo_id: str, *, private: bool = True, revision: str | None = None
    ) -> str:
        """Uploads the judge to the Hub, without a model card, and returns the commit's URL.

        Args:
            repo_id: The Hub id OWNER/NAME. The repository is created if it does not exist.
            private: If true, a new repository is private, and an existing one must be private. If
                false, a new repository is public.
            revision: A tag to create for the commit, such as ``v1``. None creates none.

        Raises:
            ConfigError: Judges of this kind cannot be saved.
            HubError: The upload fails, the tag exists, or the repository is public but ``private``
                is true.
        """
        with TemporaryDirectory() as parent:
            folder = self.save_pretrained(Path(parent) / "judge", golden=True)
            return push_judge_folder(
                folder, repo_id, private=private, revision=revision
            )


def _finish_judgement(
    answer: Judgement,
    request: ScoreRequest,
    signature: str,
    dimensions: tuple[Dimension, ...],
) -> Judgement:
    """Returns ``answer`` with the fields that ``Judge.score`` sets for all kinds of judges, such as
    ``id`` and ``turn``.

    The scores become None if ``answer`` cannot be saved as JSON, for example if a score is NaN.

    Args:
        answer: The judgement of ``request``, without these fields.
        signature: The judge's signature as a string, such as ``judge:length|seed:0``.
        dimensions: The dimensions that are scored.
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


def as_dialogues(dialogues: Iterable[object]) -> Iterator[Dialogue]:
    """Yields ``dialogues`` as Dialogue objects, in order. An element that is not a Dialogue is
    parsed when it is reached.

    Args:
        dialogues: ``Dialogue`` objects, or chats in a form that ``parse_dialogue`` reads, such as a
            list of messages.

    Raises:
        ConfigError: ``dialogues`` is a single dialogue, which is noticed at once. Or an element is
            not a dialogue, which is noticed when the element is reached.
    """
    is_one_dialogue = isinstance(dialogues, Dialogue | Mapping | str | bytes)
    if is_one_dialogue or not isinstance(dialogues, Iterable):
        raise ConfigError(
            f"score takes an iterable of Dialogue, not an object of type "
            f"{type(dialogues).__name__!r}",
            hint="Put one dialogue in a list. To read a file: medal_judges.read_dialogues(PATH)",
        )

    def parse_each() -> Iterator[Dialogue]:
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

    return parse_each()


def make_score_requests(
    dialogue: Dialogue, level: ScoreLevel, row: int = 0
) -> list[ScoreRequest]:
    """Returns the requests to score ``dialogue``.

    Args:
        level: ``dialogue`` makes one request for the whole dialogue. ``turn`` makes one for each
            assistant turn. ``last`` makes one for the last assistant turn. A dialogue without an
            assistant turn gets one request for the whole dialogue at any level.
        row: The index of the dialogue among the dialogues that are scored together, from 0.
    """
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


def should_detect_languages(languages: Sequence[str] | None) -> bool:
    """Returns whether a judge should detect the language of dialogues that do not state it.

    True if the judge's supported ``languages`` are known (not None) and the package lingua is
    installed.
    """
    return languages is not None and find_spec("lingua") is not None


def is_truncated(judgement: Judgement) -> bool:
    """Returns whether the judge of ``judgement`` read only a part of the dialogue, because the rest
    did not fit into its input."""
    return judgement.truncated_turns > 0 or judgement.cut_turns > 0


def truncation_warning(subject: str, truncated_turns: int, cut_turns: int) -> str:
    """Returns a warning about dialogues that do not fit into the judge's input.

    Args:
        subject: What did not fit, such as ``3 judgements``. The warning starts with it.
        truncated_turns: The number of turns that are left out.
        cut_turns: The number of turns of which only a part is read.
    """
    counts = []
    if truncated_turns:
        counts.append(f"{truncated_turns} whole turns are left out")
    if cut_turns:
        counts.append(f"{cut_turns} turns are read in part")
    return f"{subject} beyond the judge's window: {', '.join(counts)}"


def warn_at_end(
    judgements: Iterator[Judgement], supported: Sequence[str] | None
) -> Iterator[Judgement]:
    """Yields ``judgements`` unchanged, then logs up to two warnings: about turns that did not fit
    into the judge's input, and about languages that the judge does not support.

    Args:
        supported: Codes of the supported languages, such as ``["en", "de"]``. None if they are
            unknown.
    """
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
