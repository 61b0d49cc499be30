"""The provider's batch API: half the price, an answer within a day, and resumable.

Requests are uploaded as a file, a batch is made of it, polled, and its output and error files are
downloaded (OpenAI's protocol: 50,000 requests and 200 MB a file, more are several batches). A
request's custom_id is its key (answer_store.py), the same as in the cache of answers: what a batch
answers and what is asked directly lie in one cache.

What is under way stands on disk before anything is paid (BatchJournal): killed at any moment and
started again, the same command polls the batch that there is. A batch whose making was asked for,
but whose id did not arrive, is looked up by the tag it carries.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from medal_judges.models.llm.answer_store import model_key
from medal_judges.models.llm.cost import CostEstimate, Usage
from medal_judges.models.llm.protocol import ChatRequest, OnAnswer, Wrapper
from medal_judges.models.llm.server.batch_files import MAX_BYTES, MAX_REQUESTS, BatchJournal
from medal_judges.models.llm.server.batch_run import BatchLimits, BatchRun
from medal_judges.models.llm.server.connection import run
from medal_judges.models.llm.server.model import RemoteModel, require_no_prefill
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import cache_folder


class BatchModel(Wrapper):
    """``remote`` asked through its provider's batch API.

    ``folder`` holds what is under way (``batches`` in MEDAL_JUDGES_CACHE by default), ``poll`` is
    in seconds. Likelihoods are asked directly: there is no batch API for them.
    """

    def __init__(
        self,
        remote: RemoteModel,
        folder: Path | None = None,
        *,
        poll: float = 30.0,
        max_requests: int = MAX_REQUESTS,
        max_bytes: int = MAX_BYTES,
    ) -> None:
        super().__init__(remote)
        self.remote, self.limits = remote, BatchLimits(poll, max_requests, max_bytes)
        self.capabilities = replace(remote.capabilities, batch_api=True)
        # Another server knows nothing of a batch: its jobs lie apart.
        place = content_hash([model_key(remote), remote.config.base_url])
        self.journal = BatchJournal((folder or cache_folder() / "batches") / place)

    def cost(self, usage: Usage) -> float | None:
        """What ``usage`` costs in a batch."""
        money = self.remote.cost(usage)
        return None if money is None else money * (1 - self.remote.batch_discount)

    def estimate(
        self, requests: Sequence[ChatRequest], likelihoods: Usage | None = None
    ) -> CostEstimate:
        total, direct = self.remote.estimate(requests), self.remote.estimate((), likelihoods)
        paid, more = 1 - self.remote.batch_discount, direct.money or 0.0
        return replace(
            total,
            input=total.input + direct.input,
            output=total.output + direct.output,
            money=None if total.money is None else total.money * paid + more,
            longer=None if total.longer is None else total.longer * paid + more,
        )

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Answers arrive a batch at a time; returns when the last batch has ended.

        Requests of a batch that expired, failed or was cancelled are failures with that reason; the
        next run asks them again. An answer that was cut is asked for once more, with twice the
        limit, in a second batch. Raises ConfigError when the server refuses the key or has no batch
        API, and CostLimitError where the next batch could pass the limit of cost.
        """
        require_no_prefill(requests)
        if requests:
            run(
                BatchRun(self.remote, self.cost, self.journal, self.limits, on_answer).all(requests)
            )
