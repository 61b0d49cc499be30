"""The provider's batch API: about half the price, an answer within a day, and resumable.

A request's custom_id is its key in the cache of answers. A journal lists the running batches, so
that the same command, killed and started again, polls them instead of paying for new ones. A
request that a batch does not answer is a failure with a reason, and the next run sends it again.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError, SourceError
from medal_judges.models.batching import windows
from medal_judges.models.llm.cache import chat_key, model_key
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.protocol import ChatRequest, Completion, OnAnswer, Wrapper, failed
from medal_judges.models.llm.server.errors import TRANSIENT, RequestError, words
from medal_judges.models.llm.server.model import RemoteModel, require_no_prefill
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import cache_folder, one_at_a_time
from medal_judges.storage.journal import Journal

if TYPE_CHECKING:
    from openai import OpenAI

logger = logging.getLogger(__name__)
ENDED = ("completed", "failed", "expired", "cancelled")
UPLOAD = 600.0  # seconds for one file
DAYS_KEPT = 29  # providers delete a batch's files after 30 days


class BatchModel(Wrapper):
    """``remote`` through its provider's batch API. ``folder`` holds the journals (default:
    ``batches`` in MEDAL_JUDGES_CACHE), ``poll`` is in seconds; a batch has ``size`` requests, below
    a provider's 200 MB. Likelihoods are requested directly: no batch API has them."""

    def __init__(
        self,
        remote: RemoteModel,
        folder: Path | None = None,
        *,
        poll: float = 30.0,
        size: int = 5000,
    ) -> None:
        super().__init__(remote)
        self.remote, self.poll, self.size = remote, poll, size
        self.capabilities = replace(remote.capabilities, batch_api=True)
        place = content_hash([model_key(remote), remote.config.base_url])
        self.journal = Journal((folder or cache_folder() / "batches") / f"{place}.jsonl")

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Answers arrive a batch at a time. Raises ConfigError if the server refuses the key or has
        no batch API, and CostLimitError before it sends what could exceed the limit."""
        require_no_prefill(requests)
        if not requests:
            return
        from openai import DefaultHttpxClient, NotFoundError, OpenAI, OpenAIError

        places: dict[str, list[int]] = {}
        for index, request in enumerate(requests):
            places.setdefault(chat_key(model_key(self.remote), request), []).append(index)
        asked = {key: requests[indices[0]] for key, indices in places.items()}
        client = OpenAI(
            **self.remote.client_settings(),
            timeout=UPLOAD,
            max_retries=self.remote.config.attempts,
            http_client=DefaultHttpxClient(follow_redirects=False),
        )
        try:
            with client, one_at_a_time(self.journal.path):
                running = self._submitted(client, asked)
                while running:
                    for name, keys in list(running.items()):
                        try:
                            results, reason = self._results(client, name)
                        except NotFoundError:
                            results, reason = {}, "the server does not know the batch any more"
                        if results is None:
                            continue
                        for key in filter(asked.__contains__, keys):
                            completion = self._read(results.get(key), asked[key], reason)
                            self.remote.limiter.spent += completion.usage.money or 0.0
                            for index in places[key]:
                                on_answer(index, completion)
                        del running[name]
                        if asked.keys() >= set(keys):  # else other answers are still needed
                            self.journal.append([{"batch": name, "keys": [], "created": 0.0}])
                    if running:
                        time.sleep(self.poll)
        except OpenAIError as error:
            failure = self.remote.mapped(error)
            if not isinstance(failure, RequestError) or failure.transient:
                hint = "the same command resumes the batches"
                raise SourceError(f"{self.name}: {failure}", hint=hint) from None
            stopped = self.remote.stop_error(failure) if failure.status != 404 else None
            raise stopped or ConfigError(
                f"{self.name}: the server takes no batch: {failure}",
                hint="without batch: true the requests are sent one by one",
            ) from None

    def _submitted(self, client: OpenAI, asked: Mapping[str, ChatRequest]) -> dict[str, list[str]]:
        """{batch id: keys} of the batches that answer the requests: running ones and new ones."""
        entries = self.journal.by_key(_entry, lambda entry: entry["batch"]).values()
        oldest = time.time() - DAYS_KEPT * 86400
        running = {e["batch"]: e["keys"] for e in entries if e["created"] > oldest}
        running = {
            name: keys for name, keys in running.items() if not asked.keys().isdisjoint(keys)
        }
        known = {key for keys in running.values() for key in keys}
        new = [key for key in asked if key not in known]
        limiter, remote = self.remote.limiter, self.remote
        highest = sum(remote.cost(remote.highest(asked[key])) or 0.0 for key in new)
        if limiter.limit is not None and limiter.spent + highest > limiter.limit:
            raise limiter.error(0, len(asked))
        for keys in windows(new, self.size):
            url = "/v1/chat/completions"
            lines = [
                {"custom_id": key, "method": "POST", "url": url, "body": remote.body(asked[key])}
                for key in keys
            ]
            content = "".join(json.dumps(line) + "\n" for line in lines).encode()
            file = client.files.create(file=("requests.jsonl", content), purpose="batch")
            batch = client.batches.create(
                input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h"
            )
            self.journal.append([{"batch": batch.id, "keys": keys, "created": time.time()}])
            logger.info("batch %s: %d requests; the same command resumes it", batch.id, len(keys))
            running[batch.id] = keys
        return running

    def _results(self, client: OpenAI, name: str) -> tuple[dict[str, Any] | None, str]:
        """The result lines of a batch by custom_id (None while it runs), and the reason for a
        request without one."""
        batch = client.batches.retrieve(name)
        if batch.status not in ENDED:
            return None, ""
        errors = (batch.errors.data or []) if batch.errors else []
        about = "; ".join(str(error.message or error.code) for error in errors)
        reason = f"the batch {batch.status} without an answer to this request {about}".strip()
        results = {}
        for file in filter(None, (batch.output_file_id, batch.error_file_id)):
            for line in client.files.content(file).content.split(b"\n"):
                try:
                    record = json.loads(line)
                    results[record["custom_id"]] = record
                except (ValueError, KeyError, TypeError):
                    continue
        return results, words(reason, self.remote.clean)

    def _read(self, record: Any, request: ChatRequest, unanswered: str) -> Completion:
        """The completion in a result line; None: ``unanswered``."""
        free = Usage(money=self.cost(Usage()))
        if record is None:
            return failed(unanswered, free, transient=True)
        response = record.get("response") or {}
        status, body = response.get("status_code"), response.get("body")
        error = record.get("error") or (body.get("error") if isinstance(body, dict) else None)
        if error or status != 200:
            told = [str(error.get(k)) for k in ("code", "message") if isinstance(error, dict)]
            head = "in the batch" if status is None else f"HTTP {status}"
            reason = words(f"{head}: {': '.join(told) or error}", self.remote.clean)
            transient = status is None or status in TRANSIENT or status >= 500
            return failed(reason, free, transient=transient)
        try:
            return self.remote.read(body, request, self.remote.body(request))
        except RequestError as failure:
            return failed(str(failure), free, transient=failure.transient)


def _entry(record: Any) -> dict[str, Any]:
    return dict(record)
