"""Every answer is kept, and asked for once: the same command again costs nothing.

``CachedModel(inner, folder)`` stands before any language model. Answers lie in an append-only file
(see answer_store.py) under a key made of the model's name and fingerprint, of what a server says it
serves (served.py), and of every field of the request (request_key.py). Failures are never kept, so
that the next run asks again.

The contract with remote models
-------------------------------
A model whose answers arrive one by one also has the method of ``AnswersEach``::

    def chat_each(self, requests, on_answer: Callable[[int, Completion], None]) -> None

It asks all ``requests`` and calls ``on_answer(index, completion)`` once for each index, at once
when that answer is there, in any order, failed ones too; it returns when all have been reported.
``on_answer`` writes to disk and waits for it (milliseconds); it may be called from any thread. An
exception out of ``on_answer`` (the disk is full) must stop the run and come out of ``chat_each``.
A run that stops by itself (--max-cost) either reports the rest as failed, with the reason, or
raises: what was reported before is kept either way. Such a model's ``chat`` is then::

    def chat(self, requests):
        return collect(self.chat_each, requests)

Models without ``chat_each`` (local ones) are asked in chunks, and each chunk is kept when it is
done.
"""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Protocol, runtime_checkable

from medal_judges.errors import MedalError
from medal_judges.files import cache_folder
from medal_judges.models.batching import windows
from medal_judges.models.llm.answer_records import (
    completion_of,
    completion_record,
    likelihood_of,
)
from medal_judges.models.llm.answer_store import AnswerStore
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)
from medal_judges.models.llm.request_key import chat_key, likelihood_key, model_key, served_key
from medal_judges.models.llm.server.served import LastServed

OnAnswer = Callable[[int, Completion], None]
logger = logging.getLogger(__name__)


@runtime_checkable
class AnswersEach(Protocol):
    """A model that reports each answer as it arrives; the contract stands at the file's top."""

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Call ``on_answer(index, completion)`` once for each request."""


def collect(
    chat_each: Callable[[Sequence[ChatRequest], OnAnswer], None], requests: Sequence[ChatRequest]
) -> list[Completion]:
    """The answers of ``chat_each`` in the order of ``requests``; one never reported is failed."""
    answers: dict[int, Completion] = {}
    chat_each(requests, answers.__setitem__)
    missing = Completion("", "failed", "the backend reported no answer", transient=True)
    return [answers.get(index, missing) for index in range(len(requests))]


def answers_folder() -> Path:
    """Where answers are kept unless a folder is named: ``answers`` in MEDAL_JUDGES_CACHE."""
    return cache_folder() / "answers"


@dataclass(slots=True)
class AnswerCounts:
    """How many answers were ``kept`` from before, and how many had to be ``asked`` for."""

    kept: int = 0
    asked: int = 0

    def add(self, *, kept: int, asked: int) -> None:
        """Count more of them."""
        self.kept, self.asked = self.kept + kept, self.asked + asked


class CachedModel(LanguageModel):
    """``inner`` with its answers kept in ``folder``, one file a model and fingerprint.

    Answers found there come back with ``usage.from_cache``, and so does the second of two equal
    requests in one call: it is asked once. To sample twice, give two seeds. ``chunk`` is how many
    requests (or groups of continuations) a model without ``chat_each`` is asked at a time: what a
    kill loses at most. Any number of processes may share the folder; two that ask the same at the
    same moment both pay.
    """

    def __init__(
        self, inner: LanguageModel, folder: Path | None = None, *, chunk: int = 32
    ) -> None:
        self.inner, self.chunk = inner, chunk
        self.name, self.context = inner.name, inner.context
        self.model_key = model_key(inner)
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", inner.name)[:80]
        path = (folder or answers_folder()) / f"{label}-{self.model_key[:12]}.jsonl"
        self.store = AnswerStore(path)
        self.counts = AnswerCounts()
        self._last_served = LastServed(path.with_suffix(".served"))
        self._warned = False
        self._key: str | None = None  # of the model that is served, once that was asked
        self._lock = threading.Lock()

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """As the inner model counts."""
        return self.inner.count_tokens(messages)

    def fingerprint(self) -> Mapping[str, str]:
        """The inner model's: a kept answer is the same answer."""
        return self.inner.fingerprint()

    def served_identity(self) -> str | None:
        """The inner model's."""
        return self.inner.served_identity()

    def kept(self, request: ChatRequest) -> Completion | None:
        """The kept answer, if there is one; nothing is sent, not even to see what is served."""
        model = self._key or served_key(self.model_key, self._last_served.read())
        key = chat_key(model, request)
        return next(iter(self.store.find([key], completion_of).values()), None)

    def _served_key(self) -> str:
        """``model_key`` with what the server says it serves, asked once."""
        with self._lock:
            if self._key is None:
                earlier = self._last_served.read()
                try:
                    identity = self.inner.served_identity()
                except MedalError as error:
                    if not self._warned:
                        logger.warning("%s; kept answers are given all the same", error.message)
                    self._warned = True
                    return served_key(self.model_key, earlier)
                if earlier not in (None, identity):
                    logger.warning(
                        "%s: the server has other weights behind this name than before; answers "
                        "of those are not used",
                        self.name,
                    )
                self._last_served.note(identity)
                self._key = served_key(self.model_key, identity)
            return self._key

    def close(self) -> None:
        """Close the inner model."""
        self.inner.close()

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """See LanguageModel; asks only what is not kept. Raises SourceError when the folder cannot
        be read or written."""
        return collect(self.chat_each, requests)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """See AnswersEach: kept answers first, then each new one as it arrives."""
        places: dict[str, list[int]] = {}
        model = self._served_key() if requests else self.model_key
        for index, request in enumerate(requests):
            places.setdefault(chat_key(model, request), []).append(index)
        kept = self.store.find(places, completion_of)
        for key, completion in kept.items():
            self._report(places[key], marked_from_cache(completion), on_answer)
        asked = [key for key in places if key not in kept]
        self.counts.add(kept=len(kept), asked=len(asked))

        def arrived(index: int, completion: Completion) -> None:
            with self._lock:
                if completion.finish != "failed":
                    self.store.append({asked[index]: completion_record(completion)})
                self._report(places[asked[index]], completion, on_answer)

        if asked:
            self._ask([requests[places[key][0]] for key in asked], arrived)

    @staticmethod
    def _report(indices: Sequence[int], completion: Completion, on_answer: OnAnswer) -> None:
        on_answer(indices[0], completion)
        for index in indices[1:]:
            on_answer(index, marked_from_cache(completion))

    def _ask(self, requests: Sequence[ChatRequest], arrived: OnAnswer) -> None:
        if isinstance(self.inner, AnswersEach):
            self.inner.chat_each(requests, arrived)
            return
        for chunk in windows(enumerate(requests), self.chunk):
            answers = self.inner.chat([request for _, request in chunk])
            for (index, _), completion in zip(chunk, answers, strict=True):
                arrived(index, completion)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """See LanguageModel; of each group only what is not kept is asked."""
        model = self._served_key() if groups else self.model_key
        keys = [[likelihood_key(model, each, joint=joint) for each in group] for group in groups]
        known = self.store.find((key for group in keys for key in group), likelihood_of)
        missing = self._missing(groups, keys, known)
        self.counts.add(kept=len(known), asked=sum(map(len, missing)))
        for chunk in windows(missing, self.chunk):
            asked = [[continuation for _, continuation in group] for group in chunk]
            answers = self.inner.loglikelihood(asked, joint=joint)
            new = {
                key: likelihood
                for group, likelihoods in zip(chunk, answers, strict=True)
                for (key, _), likelihood in zip(group, likelihoods, strict=True)
            }
            with self._lock:
                self.store.append({key: asdict(likelihood) for key, likelihood in new.items()})
            known |= new
        return [[known[key] for key in group] for group in keys]

    @staticmethod
    def _missing(
        groups: Sequence[Sequence[Continuation]],
        keys: Sequence[Sequence[str]],
        known: Mapping[str, Likelihood],
    ) -> list[list[tuple[str, Continuation]]]:
        """What has to be asked, group by group, nothing twice; groups all known are left out."""
        seen = set(known)
        missing: list[list[tuple[str, Continuation]]] = []
        for names, group in zip(keys, groups, strict=True):
            new = {k: c for k, c in zip(names, group, strict=True) if k not in seen}
            seen.update(new)
            if new:
                missing.append(list(new.items()))
        return missing


def marked_from_cache(completion: Completion) -> Completion:
    """The same answer, for which nothing was spent this time."""
    return replace(completion, usage=replace(completion.usage, from_cache=True))
