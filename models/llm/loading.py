"""Loads the model of an ``llm`` setting; a cache of its answers, and a counter for a dry run.

Answers are in an append-only file per model, under a key made of the model's name and fingerprint,
the identity of the served weights, and every field of the request. Other weights behind the same
name therefore do not return old answers. Failures are not cached. An answer is on disk before it is
handed on. A line that cannot be read as an answer is a miss.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cached_property
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from weakref import WeakValueDictionary

from pydantic import TypeAdapter

from medal_judges.errors import (
    ConfigError,
    MedalError,
    MissingExtraError,
    NotAvailableError,
    RecordError,
    SourceError,
)
from medal_judges.models.llm.cost import CostEstimate, Usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
    OnAnswer,
    Wrapper,
    failed,
)
from medal_judges.models.llm.settings import (
    LLMConfig,
    OpenAILLM,
    TransformersLLM,
    VllmLLM,
    llm_config,
)
from medal_judges.storage.files import ProcessLock, cache_folder
from medal_judges.storage.jsonl import Journal

logger = logging.getLogger(__name__)
COMPLETION = TypeAdapter(Completion)
# What reading a wrong line raises.
_BROKEN = (ValueError, KeyError, TypeError, RecursionError)


def chat_key(model: str, request: ChatRequest) -> str:
    """Returns the cache key of an answer: ``model`` (see ``model_key``) and each field of the
    request."""
    fields = asdict(request)
    return _hash("chat", model, fields)


def model_key(model: LanguageModel) -> str:
    """Hash of a model's name and fingerprint; no host, path or secret is part of it."""
    return _hash(model.name, dict(model.fingerprint()))


def _hash(*parts: object) -> str:
    # ASCII, because half a surrogate pair in a turn has no UTF-8. 0 and 0.0 give one key.
    content = json.loads(json.dumps(parts), parse_float=_number)
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:32]


def _number(text: str) -> float:
    value = float(text)
    return int(value) if value.is_integer() else value


class AnswerStore:
    """Answers by key in the journal ``path``; the last line of a key counts. Memory holds keys and
    offsets only."""

    def __init__(self, path: Path) -> None:
        self.path, self.journal = path, Journal(path)
        self._places: dict[str, tuple[int, int]] = {}
        self._read = 0
        self._lock = ProcessLock()

    def find(self, keys: Iterable[str]) -> dict[str, Completion]:
        """Returns the answers for those of ``keys`` that are in the file. Raises SourceError."""
        try:
            with self._lock:
                self._read_new_lines()
                return self._read_answers(dict.fromkeys(keys))
        except OSError as error:
            raise SourceError(
                f"{self.path}: cached answers cannot be read: {error}"
            ) from error

    def _read_new_lines(self) -> None:
        """Notes the keys of the lines that were appended since the last call."""
        for start, line in self.journal.lines(self._read):
            self._read = start + len(line)
            try:
                record = json.loads(line)
                key = str(record["key"])
                self._places[key] = (start, len(line))
            except _BROKEN:
                logger.warning("%s: a line is not a cached answer", self.path)

    def _read_answers(self, keys: Iterable[str]) -> dict[str, Completion]:
        answers: dict[str, Completion] = {}
        keys = [key for key in keys if key in self._places]
        if not keys:
            return answers
        with self.path.open("rb") as stream:
            for key in keys:
                start, length = self._places[key]
                stream.seek(start)
                try:
                    record = json.loads(stream.read(length))
                    answer = COMPLETION.validate_json(
                        json.dumps(record["answer"]), strict=True
                    )
                    if record["key"] != key or answer.failed:
                        raise ValueError("not an answer to this request")
                    answers[key] = answer
                except _BROKEN:
                    del self._places[key]
                    logger.warning(
                        "%s: an unreadable answer is requested anew", self.path
                    )
        return answers

    def append(self, key: str, answer: Completion) -> None:
        """Writes ``answer``, which then survives a kill; not a failure. Raises SourceError."""
        if answer.failed:
            return
        try:
            self.journal.append([{"key": key, "answer": asdict(answer)}], sync=False)
        except OSError as error:
            raise SourceError(
                f"{self.path}: an answer cannot be cached: {error}"
            ) from error
        except RecordError as error:  # half a surrogate pair
            logger.warning("%s: an answer is not cached: %s", self.path, error)


class CachedModel(Wrapper):
    """A model with its answers (no likelihoods) cached in ``folder`` (default: ``answers`` in
    MEDAL_JUDGES_CACHE), one file per model and fingerprint.

    Cached answers have ``usage.from_cache``, and so has the second of two equal requests, which is
    sent once. Any number of processes may share the folder.
    """

    def __init__(self, model: LanguageModel, folder: Path | None = None) -> None:
        super().__init__(model)
        key = model_key(model)
        folder = folder or cache_folder() / "answers"
        self.store = AnswerStore(folder / f"{self.label}-{key[:12]}.jsonl")
        self.counts: Counter[str] = Counter()
        # Requests under way, by key; other threads wait for their answers.
        self._asked: dict[str, Future[Completion]] = {}
        self._lock = ProcessLock()

    @cached_property
    def key(self) -> str:
        """The model's key, with the identity that its server reports (requested once). Raises
        MedalError if the server is down: under another key, answers would be paid again."""
        key, identity = model_key(self.inner), self.inner.served_identity()
        if identity is None:
            return key
        return _hash(key, identity)

    def cached(self, request: ChatRequest) -> Completion | None:
        """Returns the cached answer, or None; for a dry run, which needs no server."""
        try:
            _ = self.key
        except MedalError as error:
            logger.warning("%s; cached answers may not be found", error.message)
            self.key = model_key(self.inner)
        key = chat_key(self.key, request)
        answer = self.store.find([key]).get(key)
        return None if answer is None else answer.with_usage(from_cache=True)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Reports cached answers first, then each new answer as it arrives. Raises SourceError
        if the folder cannot be read or written."""
        with self._lock:
            model = self.key  # asks the server once
        keys = [chat_key(model, request) for request in requests]
        missing: list[int] = []
        equal: list[
            tuple[int, Future[Completion]]
        ] = []  # those that somebody else asks
        with self._lock:
            cached = self.store.find(() if self.renews else keys)
            for index, key in enumerate(keys):
                if key in self._asked:
                    equal.append((index, self._asked[key]))
                elif key not in cached:
                    self._asked[key] = Future()
                    missing.append(index)
            self.counts.update(kept=len(requests) - len(missing), asked=len(missing))
        for index, key in enumerate(keys):
            if key in cached:
                on_answer(index, cached[key].with_usage(from_cache=True))

        def arrived(number: int, completion: Completion) -> None:
            key = keys[missing[number]]
            self.store.append(key, completion)
            self._asked.pop(key).set_result(completion)
            on_answer(missing[number], completion)

        try:
            if missing:
                self.inner.chat_each([requests[index] for index in missing], arrived)
        finally:
            lost = failed("an equal request was not answered", transient=True)
            for index in missing:
                unanswered = self._asked.pop(keys[index], None)
                if unanswered is not None:
                    unanswered.set_result(lost)
        for index, future in equal:
            on_answer(index, future.result().with_usage(from_cache=True))


class CountingModel(Wrapper):
    """Counts each distinct request to a model once and answers with a failure, for a dry run.

    Cached answers are returned, so that requests that depend on them are counted too.
    ``likelihoods`` says whether to assume that the server returns likelihoods.
    """

    def __init__(self, model: LanguageModel, *, likelihoods: bool = True) -> None:
        super().__init__(model)
        self.likelihoods, self.key = likelihoods, model_key(model)
        self.asked: dict[str, ChatRequest] = {}
        self.cached_keys: set[str] = set()
        self.continuations = self.continuation_tokens = 0

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Reports cached answers, and failures for the other requests."""
        for index, request in enumerate(requests):
            key = chat_key(self.key, request)
            cached = None
            if isinstance(self.inner, CachedModel):
                cached = self.inner.cached(request)
            if cached is not None:
                self.cached_keys.add(key)
            else:
                self.asked.setdefault(key, request)
            on_answer(index, cached or failed("a dry run: nothing was sent"))

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Returns placeholders of one token. Raises ConfigError if ``likelihoods`` is False."""
        if not self.likelihoods:
            raise ConfigError(f"{self.name} does not return log-probabilities")
        for continuation in chain.from_iterable(groups):
            text = f"{continuation.prefill} {continuation.text}"
            messages = [*continuation.messages, Message(continuation.role, text)]
            self.continuations += 1
            self.continuation_tokens += self.inner.count_tokens(messages)
        placeholder = Likelihood((-1.0,))
        if joint:
            placeholder = replace(placeholder, prefix_logprob=-1.0)
        return [[placeholder] * len(group) for group in groups]

    def counted(self) -> CostEstimate:
        """Returns the most that all counted requests can take, including likelihoods."""
        total = Usage(input=self.continuation_tokens)
        if self.api:  # a server writes one token
            total = replace(total, output=self.continuations)
        for request in self.asked.values():
            read = self.count_tokens(request.messages)
            total += Usage(input=read, output=self.highest_output(request))
        return CostEstimate(
            requests=len(self.asked) + self.continuations,
            kept=len(self.cached_keys),
            input=total.input,
            output=total.output,
            money=self.cost(total),
            api=self.api,
        )


def counting_model(setting: object, *, likelihoods: bool = True) -> CountingModel:
    """Returns the counter of a dry run. Without the model's package or weights, and for vLLM, whose
    engine takes long to start, it counts an upper bound of tokens."""
    config = llm_config(setting)
    if not isinstance(config, VllmLLM):
        with suppress(MissingExtraError, NotAvailableError):
            return CountingModel(load_llm(config), likelihoods=likelihoods)
    from medal_judges.models.llm.server import RemoteModel

    if isinstance(config, OpenAILLM):
        return CountingModel(RemoteModel(config), likelihoods=likelihoods)
    stand_in = RemoteModel(OpenAILLM(model=config.model))
    stand_in.api, stand_in.price = False, None
    return CountingModel(stand_in, likelihoods=likelihoods)


# -- loading ---------------------------------------------------------------------------------------

# Judges share a model of this machine: weights are large. A server's client is not shared: it has
# its own limit of cost.
_IN_USE: WeakValueDictionary[str, LanguageModel] = WeakValueDictionary()
_LOADING = ProcessLock()


def load_llm(
    setting: str | Mapping[str, object] | LLMConfig | LanguageModel,
) -> LanguageModel:
    """Loads the model that ``setting`` names, see llm_config. A model of this machine that is in
    use is not loaded twice. Raises ConfigError for a wrong setting or if the model does not
    load."""
    if isinstance(setting, LanguageModel):
        return setting
    config = llm_config(setting)
    if isinstance(config, OpenAILLM):
        if find_spec("openai") is None:
            raise MissingExtraError("openai", "api", f"llm: openai:{config.model}")
        from medal_judges.models.llm.server import RemoteModel

        remote = RemoteModel(config)
        return _cached(remote, config.cache, remote.folder)
    key = config.model_dump_json()
    with _LOADING:
        model = _IN_USE.get(key)
        if model is None:
            model = _IN_USE[key] = _cached(_load_here(config), config.cache)
    return model


def _load_here(config: TransformersLLM | VllmLLM) -> LanguageModel:
    """Loads a model into this process."""
    if isinstance(config, VllmLLM):
        from medal_judges.models.llm.vllm.model import load_vllm

        return load_vllm(config)
    from medal_judges.models.llm.local.model import load_local

    return load_local(config)


def _cached(
    model: LanguageModel, cache: str | bool | None, folder: Path | None = None
) -> LanguageModel:
    if cache is False:
        return model
    if isinstance(cache, str):
        folder = Path(cache)
    return CachedModel(model, folder)
