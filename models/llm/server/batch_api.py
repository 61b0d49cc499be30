"""The provider's batch API: half the price, an answer within a day, and resumable.

Requests are uploaded as a file, a batch is made of it, polled, and its output and error files are
downloaded (OpenAI's protocol: 50,000 requests and 200 MB a file, more are several batches). A
request's custom_id is its key (request_key.py), the same as in the cache of answers: what a batch
answers and what is asked directly lie in one cache.

What is under way stands on disk before anything is paid (batch_journal.py): killed at any moment
and started again, the same command polls the batch that there is. A batch whose making was asked
for, but whose id did not arrive, is looked up by the tag it carries.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from medal_judges.errors import ConfigError
from medal_judges.files import cache_folder
from medal_judges.models.llm.cache import OnAnswer, collect
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)
from medal_judges.models.llm.request_key import model_key
from medal_judges.models.llm.server.background import run
from medal_judges.models.llm.server.batch_file import MAX_BYTES, MAX_REQUESTS
from medal_judges.models.llm.server.batch_journal import Journal
from medal_judges.models.llm.server.batch_run import BatchRun, Limits
from medal_judges.models.llm.server.model import RemoteModel
from medal_judges.signature import content_hash


class BatchModel(LanguageModel):
    """``remote`` asked through its provider's batch API.

    ``folder`` holds what is under way (``batches`` in MEDAL_JUDGES_CACHE by default), ``poll`` is
    in seconds. Likelihoods are asked directly: there is no batch API for them. ``in_batches`` tells
    judges to ask about as many dialogues as they can in one call.
    """

    in_batches = True

    def __init__(
        self,
        remote: RemoteModel,
        folder: Path | None = None,
        *,
        poll: float = 30.0,
        max_requests: int = MAX_REQUESTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        self.remote = remote
        self.name, self.context = remote.name, remote.context
        self.limits = Limits(poll, max_requests, max_bytes)
        # Another server knows nothing of a batch: its jobs lie apart.
        place = content_hash([model_key(remote), remote.base_url])
        self.journal = Journal((folder or cache_folder() / "batches") / place)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """As the remote model counts."""
        return self.remote.count_tokens(messages)

    def fingerprint(self) -> Mapping[str, str]:
        """The remote model's: the answer is the same, by whatever way it is asked for."""
        return self.remote.fingerprint()

    def served_identity(self) -> str | None:
        """The remote model's."""
        return self.remote.served_identity()

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """See RemoteModel."""
        return self.remote.loglikelihood(groups, joint=joint)

    def close(self) -> None:
        """Close the remote model; batches go on."""
        self.remote.close()

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """See LanguageModel; returns when the last batch has ended."""
        return collect(self.chat_each, requests)

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """See cache.AnswersEach; answers arrive a batch at a time.

        Requests of a batch that expired, failed or was cancelled are failures with that reason; the
        next run asks them again. An answer that was cut is asked for once more, with twice the
        room, in a second batch. Raises ConfigError when the server refuses the key or has no batch
        API, and CostLimitError where the next batch could pass the limit of cost.
        """
        if any(request.prefill for request in requests):
            raise ConfigError("a server cannot be given the beginning of its answer (prefill)")
        if requests:
            run(BatchRun(self.remote, self.journal, self.limits, on_answer).all(requests))
