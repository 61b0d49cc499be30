"""Every answer is kept, and asked for once: the same command again costs nothing.

``CachedModel(inner, folder)`` stands before any language model. Answers lie in an append-only file
(answer_store.py) under a key made of the model's name and fingerprint, of what a server says it
serves, and of every field of the request. Failures are never kept, so that the
next run asks again. An answer is on disk before it is handed on (``LanguageModel.chat_each``).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from medal_judges.errors import MedalError
from medal_judges.models.batching import windows
from medal_judges.models.llm.answer_store import (
    AnswerStore,
    chat_key,
    completion_of,
    likelihood_key,
    likelihood_of,
    model_key,
    served_key,
)
from medal_judges.models.llm.protocol import (
    AnswerCounts,
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    OnAnswer,
    Wrapper,
)
from medal_judges.storage.files import atomic_write, cache_folder
from medal_judges.storage.process_lock import ProcessLock

logger = logging.getLogger(__name__)


class CachedModel(Wrapper):
    """``inner`` with its answers kept in ``folder`` (``answers`` in MEDAL_JUDGES_CACHE by default),
    one file a model and fingerprint.

    Answers found there come back with ``usage.from_cache``, and so does the second of two equal
    requests in one call: it is asked once. To sample twice, give two seeds. Any number of processes
    may share the folder; two that ask the same at the same moment both pay.
    """

    def __init__(self, inner: LanguageModel, folder: Path | None = None) -> None:
        super().__init__(inner)
        self.model_key = model_key(inner)
        label = re.sub(r"[^A-Za-z0-9._-]+", "-", inner.name)[:80]
        path = (folder or cache_folder() / "answers") / f"{label}-{self.model_key[:12]}.jsonl"
        self.store = AnswerStore(path)
        self.counts = AnswerCounts()
        # What the server was last seen to serve: while it cannot be reached, answers are found by
        # that.
        self._served = path.with_suffix(".served")
        self._warned = False
        self._key: str | None = None  # of the model that is served, once that was asked
        self._lock = ProcessLock()

    def answer_counts(self) -> AnswerCounts:
        return self.counts

    def kept(self, request: ChatRequest) -> Completion | None:
        """The kept answer, if there is one; nothing is sent, not even to see what is served."""
        model = self._key or served_key(self.model_key, self._last_served())
        kept = self.store.find([chat_key(model, request)], completion_of)
        return next((each.with_usage(from_cache=True) for each in kept.values()), None)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Kept answers first, then each new one as it arrives. Raises SourceError when the folder
        cannot be read or written."""
        places: dict[str, list[int]] = {}
        model = self._served_key() if requests else self.model_key
        for index, request in enumerate(requests):
            places.setdefault(chat_key(model, request), []).append(index)
        kept = self.store.find(places, completion_of)
        for key, completion in kept.items():
            _report(places[key], completion.with_usage(from_cache=True), on_answer)
        asked = [key for key in places if key not in kept]
        with self._lock:
            self.counts.add(kept=len(kept), asked=len(asked))

        def arrived(index: int, completion: Completion) -> None:
            with self._lock:
                if completion.finish != "failed":
                    self.store.append({asked[index]: asdict(completion)})
                _report(places[asked[index]], completion, on_answer)

        if asked:
            self.inner.chat_each([requests[places[key][0]] for key in asked], arrived)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """See LanguageModel; of each group only what is not kept is asked."""
        model = self._served_key() if groups else self.model_key
        keys = [[likelihood_key(model, each, joint=joint) for each in group] for group in groups]
        known = self.store.find((key for group in keys for key in group), likelihood_of)
        missing = _missing(groups, keys, known)
        with self._lock:
            self.counts.add(kept=len(known), asked=sum(map(len, missing)))
        for part in windows(missing, self.chunk):
            asked = [list(group.values()) for group in part]
            answers = self.inner.loglikelihood(asked, joint=joint)
            new: dict[str, Likelihood] = {}
            for group, likelihoods in zip(part, answers, strict=True):
                new |= zip(group, likelihoods, strict=True)
            with self._lock:
                self.store.append({key: asdict(likelihood) for key, likelihood in new.items()})
            known |= new
        return [[known[key] for key in group] for group in keys]

    # -- what is served -----------------------------------------------------------------------

    def _served_key(self) -> str:
        """``model_key`` with what the server says it serves, asked once."""
        with self._lock:
            if self._key is None:
                earlier = self._last_served()
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
                if identity != earlier:
                    atomic_write(self._served, f"{identity or ''}\n")
                self._key = served_key(self.model_key, identity)
            return self._key

    def _last_served(self) -> str | None:
        try:
            return self._served.read_text(encoding="ascii").strip() or None
        except (OSError, ValueError):
            return None


def _report(indices: Sequence[int], completion: Completion, on_answer: OnAnswer) -> None:
    """Hand an answer to everyone who asked; it was paid for once."""
    on_answer(indices[0], completion)
    for index in indices[1:]:
        on_answer(index, completion.with_usage(from_cache=True))


def _missing(
    groups: Sequence[Sequence[Continuation]],
    keys: Sequence[Sequence[str]],
    known: Mapping[str, Likelihood],
) -> list[dict[str, Continuation]]:
    """What has to be asked, group by group, nothing twice; groups all known are left out."""
    seen = set(known)
    missing: list[dict[str, Continuation]] = []
    for names, group in zip(keys, groups, strict=True):
        new = {k: c for k, c in zip(names, group, strict=True) if k not in seen}
        seen.update(new)
        if new:
            missing.append(new)
    return missing
