"""A model on any server that speaks OpenAI's protocol: a provider's, vLLM's, llama.cpp's, ...

All requests of a process run on one event loop. For each model there is one client, which tries a
failed request again, and one semaphore. Answers are cached if they may cost money. Messages of a
server or a library are shown only through ``safe_line``, which removes secrets.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field, ValidationError, WrapValidator

from medal_judges.errors import ConfigError, MedalError, NotAvailableError
from medal_judges.models.llm.answer_cache import AnswerCache, answer_key
from medal_judges.models.llm.chat_template import with_folded_system
from medal_judges.models.llm.cost import (
    PROVIDER,
    BudgetExceeded,
    CostEstimate,
    CostLimiter,
    Count,
    Usage,
    load_prices,
)
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    Finish,
    LanguageModel,
    Likelihood,
    Message,
    OnAnswer,
    TokenChoice,
    failed_completion,
    prompt_token_bound,
)
from medal_judges.models.llm.settings import OpenAILLM
from medal_judges.records.signature import content_hash
from medal_judges.secrets import register_secret, without_secrets
from medal_judges.storage.files import PicklableLock, cache_folder

if TYPE_CHECKING:
    from openai import APIStatusError, AsyncOpenAI

T = TypeVar("T")
logger = logging.getLogger(__name__)

REASONING_TOKENS = 32_768  # MEDAL, section 5.3.1
# With a limit this small the judge reads the first tokens only and expects a truncated answer.
SHORT = 32
SHOWN = 300  # characters of a server's message in a failure
# Seconds; a longer Retry-After ends the run. The client waits for shorter ones.
LONGEST_WAIT = 120.0

# -- failures --------------------------------------------------------------------------------------

_QUOTA = re.compile(
    r"insufficient_(quota|balance|funds)|billing_(not_active|hard_limit)|payment_required"
    r"|per[ _-]?(day|week|month)|daily|monthly",
    re.IGNORECASE,
)
# A wrong key, an empty account, no permission, an unknown model: every request would fail.
STOPS = (401, 402, 403, 404)


class ServerStopError(ConfigError):
    """A failure of the server that ends the run, because every further request would fail too."""


class RequestError(Exception):
    """A request to a server failed. The message is the reason, without secrets.

    Attributes:
        stop: Whether the failure ends the run.
        transient: Whether the same request may succeed later.
        billed: Whether the server may have written an answer, which costs money.
        status: The HTTP status, or 0 if there is none, for example because the server did not
            respond.
        field: The field of the request that the server complains about, such as ``seed``, or an
            empty string.
    """

    def __init__(
        self,
        reason: str,
        *,
        stop: bool = False,
        transient: bool = False,
        billed: bool = False,
        status: int = 0,
        field: str = "",
    ) -> None:
        super().__init__(reason)
        self.stop, self.transient, self.billed = stop, transient, billed
        self.status, self.field = status, field


def safe_line(text: object) -> str:
    """Returns ``text``, such as an error message of a server, as one line of at most 300
    characters. API keys are removed."""
    # Removed first: a cut through the middle of a key would leave half of it.
    line = " ".join(without_secrets(str(text)).split())[:SHOWN]
    return line.encode("utf-8", "backslashreplace").decode()


def to_request_error(error: Exception) -> RequestError:
    """Returns the RequestError for an exception of the OpenAI client, ``error``. If the exception
    is of an unknown kind, raises it again."""
    import openai

    if isinstance(error, RequestError):
        return error
    if isinstance(error, openai.APITimeoutError | asyncio.TimeoutError):
        return RequestError("no answer in time", transient=True, billed=True)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__ or error
        is_sent = not type(cause).__name__.startswith("Connect")
        return RequestError(
            f"no connection: {safe_line(cause)}",
            stop=not is_sent,
            transient=True,
            billed=is_sent,
        )
    if isinstance(error, openai.APIStatusError):
        return _status_error(error)
    if isinstance(error, UnicodeEncodeError):  # an answer that is quoted in the request
        return RequestError("the request contains half a surrogate pair")
    if isinstance(error, openai.OpenAIError | ValueError | RecursionError):
        return RequestError(
            "the answer's body is not valid JSON", transient=True, billed=True
        )
    raise error


def _status_error(error: APIStatusError) -> RequestError:
    body = error.body if isinstance(error.body, dict) else {}
    status, response = error.status_code, error.response
    reason = f"HTTP {status}: {safe_line(body.get('message') or error.message)}"
    is_quotas = is_quota_refusal(status, response.text, response.headers)
    is_quotas |= status == 400 and bool(_QUOTA.search(f"{body.get('code')}"))
    stop = is_quotas or status in STOPS or 300 <= status < 400
    if 300 <= status < 400:
        target = safe_line(response.headers.get("location", "?")).partition("?")[0]
        reason = f"HTTP {status}: it redirects to {target}. Set llm.base_url to it if you trust it"
    elif "flagged_input" in str(body.get("metadata")):
        # A gateway's moderation is about the text of this request (OpenRouter).
        stop = False
    return RequestError(
        reason,
        stop=stop,
        transient=not stop and (status in (408, 409, 425, 429) or status >= 500),
        status=status,
        field=str(error.param or ""),
    )


def is_quota_refusal(status: int, body: str, headers: Mapping[str, str]) -> bool:
    """Returns whether a server refuses a request because the account is empty, or because a limit
    for a day or longer is reached.

    Args:
        status: The HTTP status, such as 429.
        body: The text of the response.
        headers: The HTTP headers of the response.
    """
    if status != 429:
        return False
    with suppress(ValueError):
        if float(headers.get("retry-after", "")) > LONGEST_WAIT:
            return True
    return bool(_QUOTA.search(body))


# -- the address and the client --------------------------------------------------------------------


def require_address(base_url: str) -> None:
    """Raises ConfigError if ``base_url`` is not a plain http or https address."""
    try:
        parts = urlsplit(base_url)
        is_address = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_address &= parts.port != 0 and not parts.query
    except ValueError:  # a port that is not a number
        is_address = False
    if not is_address or "@" in base_url:
        # Without the address, which may contain a password.
        raise ConfigError(
            "llm.base_url is not an address of a server",
            hint="Type llm.base_url=http://HOST:PORT/v1, without a user, a password and a query. "
            "llm.api_key_env=NAME names the variable with the key",
        )


def read_and_hide_key(variable: str) -> str:
    """Returns the API key in the environment variable ``variable``, or an empty string if the
    variable is not set. From then on the key is removed from all messages.

    Raises:
        ConfigError: The key cannot be sent in an HTTP header.
    """
    key = os.environ.get(variable, "").strip()
    register_secret(key)
    if not (key.isascii() and key.isprintable()):
        raise ConfigError(
            f"the key in {variable} has a control character or one outside ASCII",
            hint=f"Copy the key again, as one line. Type: export {variable}=...",
        )
    return key


def create_client(config: OpenAILLM, address: str, key: str) -> AsyncOpenAI:
    """Returns a new client for the server at ``address``. The client sends a failing request again.

    Args:
        config: The settings of the model, with the timeout and the number of attempts.
        address: The base URL of the server.
        key: The API key. Empty for a server that needs none.

    Raises:
        NotAvailableError: The server is OpenAI's and ``key`` is empty.
        ConfigError: The environment names a proxy that cannot be used.
    """
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    if not key and address == PROVIDER:
        variable = config.api_key_env
        raise NotAvailableError(
            f"no key in {variable}", hint=f"Type: export {variable}=..."
        )
    try:
        http_client = DefaultAsyncHttpxClient(
            # Dialogues and key go only to the address that the user gave.
            follow_redirects=False,
            event_hooks={"response": [_end_useless_retries]},
        )
    except Exception as error:
        raise ConfigError(
            f"a proxy of the environment cannot be used ({type(error).__name__})",
            hint="Set HTTP_PROXY, HTTPS_PROXY and ALL_PROXY to http://HOST:PORT, or unset them",
        ) from None
    return AsyncOpenAI(
        api_key=key or "none",  # own servers need no key, the client does
        base_url=address,
        timeout=config.timeout,
        max_retries=config.attempts - 1,
        http_client=http_client,
    )


async def _end_useless_retries(response: Any) -> None:
    """Stops the client from trying again if ``response`` says that a further attempt cannot
    succeed."""
    status = response.status_code
    if status in (429, 500):
        await response.aread()
        is_final = is_quota_refusal(status, response.text, response.headers)
        if is_final or _SYSTEM.search(response.text):
            response.headers["x-should-retry"] = "false"


# -- one event loop for all servers ----------------------------------------------------------------


_LOOPS: dict[int, asyncio.AbstractEventLoop] = {}  # process -> its loop
_STARTING = PicklableLock()


def _event_loop() -> asyncio.AbstractEventLoop:
    """Returns the event loop of this process, which runs in its own thread."""
    process = os.getpid()
    with _STARTING:
        if process not in _LOOPS:
            loop = _LOOPS[process] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, daemon=True).start()
    return _LOOPS[process]


def run_on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Runs the coroutine ``work`` on the event loop of this process, waits, and returns its result.
    It must not be called from the thread of the loop.

    An exception of ``work`` is raised here.
    """
    future = asyncio.run_coroutine_threadsafe(work, _event_loop())
    try:
        return future.result()
    finally:
        future.cancel()  # after Ctrl-C


class RemoteModel(LanguageModel):
    """A language model on a server with OpenAI's API.

    Args:
        config: The settings of the model, with its address, limits and cache.
        dry_run: Whether to send no requests. A request whose answer is not in the cache then fails.

    Raises:
        ConfigError: The address or the key is invalid. Or ``config`` has a ``max_cost`` but the
            model's price is unknown.
    """

    def __init__(self, config: OpenAILLM, *, dry_run: bool = False) -> None:
        base = config.base_url or os.environ.get("OPENAI_BASE_URL")
        self.config = config.model_copy(update={"base_url": base})
        model = name = config.model
        if model.startswith(("/", ".")):
            name = Path(model).name
        self.name = f"openai/{name}"
        self.context = config.context
        self.api, self.private = True, self.config.private
        self.at_once = config.max_in_flight
        self.price = load_prices(config.prices or "prices").find_price(model, base)
        if config.max_cost is not None and self.price is None:
            raise ConfigError(
                f"the price of {model} on this server is unknown, so max_cost cannot be kept",
                hint="Give llm.prices=FILE: models: {NAME: {input: 0.1, output: 0.4}} (USD per 1M)",
            )
        self.limiter: CostLimiter = CostLimiter(config.max_cost)
        self.address = (base or PROVIDER).rstrip("/")
        require_address(self.address)
        self.key = read_and_hide_key(config.api_key_env)
        self.cache = None
        if self.config.caches:
            # Another server gives other answers under the same model name.
            file = content_hash([self.name, self.address, self.identity()])
            self.cache = AnswerCache(cache_folder() / "answers" / f"{file}.sqlite")
        self.dry_run = dry_run
        self.unsent: list[ChatRequest] = []  # of a dry run
        self.counts: Counter[str] = Counter()
        self._counting = PicklableLock()
        # Fields that the server refused so far; "system" is the role of that name.
        self.dropped: frozenset[str] = frozenset()
        self._answered = False  # whether the server did once
        # Process -> its client and what bounds the requests under way.
        self._clients: dict[int, tuple[AsyncOpenAI, asyncio.Semaphore]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles the model without its API key. The process that loads it reads the key from its
        environment."""
        return type(self), (self.config,), {"limiter": self.limiter}

    def _client_and_slots(self) -> tuple[AsyncOpenAI, asyncio.Semaphore]:
        """Returns the client of this process, and the semaphore that limits how many requests run
        at a time."""
        process = os.getpid()
        if process not in self._clients:
            slots = asyncio.Semaphore(self.config.max_in_flight)
            client = create_client(self.config, self.address, self.key)
            self._clients[process] = client, slots
        return self._clients[process]

    def identity(self) -> Mapping[str, str]:
        return {"backend": "openai", "reasoning": str(self.config.reasoning_effort)}

    # -- limits and money --------------------------------------------------------------------------

    def cost(self, usage: Usage) -> float | None:
        return None if self.price is None else self.price.cost_of(usage)

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """Returns an upper bound on the number of tokens of a prompt with ``messages``."""
        return prompt_token_bound(messages)

    def max_output_tokens(self, request: ChatRequest) -> int:
        """Returns the maximum number of output tokens of the answer to ``request``, including
        reasoning."""
        if self.config.thinks:
            return max(request.max_tokens, REASONING_TOKENS)
        return request.max_tokens

    def cost_estimate(self) -> CostEstimate:
        """Returns an upper bound on the cost of the requests that a dry run recorded instead of
        sending them."""
        total = Usage()
        for request in self.unsent:
            read = self.count_tokens(request.messages)
            total += Usage(input=read, output=self.max_output_tokens(request))
        return CostEstimate(
            requests=len(self.unsent),
            kept=self.counts["kept"],
            input=total.input,
            output=total.output,
            money=self.cost(total),
            api=self.api,
        )

    # -- requests ----------------------------------------------------------------------------------

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        answers = [failed_completion("no answer")] * len(requests)
        self.chat_each(requests, answers.__setitem__)
        return answers

    def chat_each(self, requests: Sequence[ChatRequest], on_answer: OnAnswer) -> None:
        """Answers each of ``requests``, from the cache where possible and otherwise from the
        server.

        Args:
            on_answer: A function that is called with the index of a request in ``requests`` and its
                completion, as soon as the completion is known.

        Raises:
            ServerStopError: The server would refuse every request.
            NotAvailableError: The server is OpenAI's, and there is no API key.
            CostLimitError: The cost limit is reached.
            SourceError: The cache cannot be read or written.
        """
        keys: list[str] = []
        cached: dict[str, Completion] = {}
        if self.cache is not None:
            keys = [answer_key(self.name, request) for request in requests]
            if not self.renews:
                cached = self.cache.find(keys)
        missing: dict[int, ChatRequest] = {}
        for index, request in enumerate(requests):
            if keys and keys[index] in cached:
                answer = cached[keys[index]].with_usage(from_cache=True)
                on_answer(index, answer)
            else:
                missing[index] = request
        with self._counting:
            self.counts.update(kept=len(requests) - len(missing), asked=len(missing))
        if self.dry_run:
            for index, request in missing.items():
                self.unsent.append(request)
                on_answer(index, failed_completion("a dry run: nothing was sent"))
            return

        def save_and_report(index: int, answer: Completion) -> None:
            if self.cache is not None:
                self.cache.save_unfailed(keys[index], answer)
            on_answer(index, answer)

        run_on_loop(self._send_all(missing, save_and_report))

    async def _send_all(
        self, requests: Mapping[int, ChatRequest], on_answer: OnAnswer
    ) -> None:
        """Sends ``requests`` and hands over each answer as soon as it arrives.

        After an error no further request is started. The error is raised when the running requests
        are finished.

        Args:
            requests: Index -> request.
            on_answer: Called with the index of a request and its completion.

        Raises:
            ServerStopError: The server would refuse every request.
            CostLimitError: The cost limit is reached.
        """
        client, slots = self._client_and_slots()
        stopped: list[Exception] = []

        async def finish(index: int, request: ChatRequest) -> None:
            async with slots:
                if stopped:
                    return
                try:
                    answer = await self._get_answer(client, request)
                except (BudgetExceeded, MedalError) as error:
                    # The others' running requests are paid: finish them.
                    stopped.append(error)
                    return
            on_answer(index, answer)

        tasks = [asyncio.ensure_future(finish(i, r)) for i, r in requests.items()]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        if stopped and isinstance(stopped[0], BudgetExceeded):
            raise self.limiter.limit_error()
        if stopped:
            raise stopped[0]

    async def _get_answer(
        self, client: AsyncOpenAI, request: ChatRequest
    ) -> Completion:
        """Returns the answer to ``request`` or a failed completion. If the server refuses an
        optional field, sends the request again without it.

        Args:
            client: The client of the server.

        Raises:
            ServerStopError: The server would refuse every request.
            BudgetExceeded: The request does not fit under the cost limit.
        """
        start, limit = time.perf_counter(), self.max_output_tokens(request)
        highest = Usage(output=limit)
        if self.price is not None:
            highest = replace(highest, input=self.count_tokens(request.messages))
        while True:
            body = chat_body(self.config, request, limit, self.dropped)
            try:
                completion = await self._send_within_limit(
                    client, request, body, highest
                )
                self._answered = True
                break
            except RequestError as failure:
                refused = refused_field(failure, body)
                if refused and refused not in self.dropped:
                    self.dropped |= {refused}
                    logger.warning(
                        "%s refuses %s, which is left out from now on",
                        self.name,
                        refused,
                    )
                elif not refused:
                    # A server that has answered before may come back.
                    if failure.stop and (failure.status or not self._answered):
                        variable = self.config.api_key_env
                        raise ServerStopError(
                            f"{self.name} at {self.address}: {failure}",
                            hint="Check llm.base_url (it usually ends in /v1), llm.model, the key "
                            f"in {variable} and its quota. Type the same command again to resume",
                        ) from None
                    money = self.cost(highest if failure.billed else Usage())
                    usage, transient = Usage(money=money), failure.transient
                    completion = failed_completion(
                        str(failure), usage, transient=transient
                    )
                    break
        is_cut = completion.finish == "length" and not request.accept_truncated
        if is_cut and limit > SHORT:
            reason = f"the answer was truncated at its limit of {limit} tokens"
            if not completion.text.strip():
                reason += ", before its first word"
                completion = replace(completion, finish="failed")
            completion = replace(completion, failure=reason)
        return completion.with_usage(seconds=time.perf_counter() - start)

    async def _send_within_limit(
        self,
        client: AsyncOpenAI,
        request: ChatRequest,
        body: Mapping[str, Any],
        highest: Usage,
    ) -> Completion:
        """Sends a request once, returns the answer, and counts its price as spent.

        Args:
            client: The client of the server.
            request: The request to answer.
            body: The HTTP body of the request.
            highest: The highest possible usage. Its price is reserved before the request is sent.

        Raises:
            RequestError: There is no answer.
            BudgetExceeded: The highest price does not fit under the cost limit.
        """
        reserved = self.cost(highest) or 0.0
        await self.limiter.reserve(reserved)
        price: float | None = reserved  # until the real one is known
        try:
            # The client's timeout is about a silent server; this one about a slow one.
            longest = (self.config.timeout + LONGEST_WAIT) * self.config.attempts
            sending = client.chat.completions.with_raw_response.create(**body)
            raw = await asyncio.wait_for(sending, longest)
            answer = read_answer(raw.http_response.json(), request)
            price = self.cost(answer.usage)
            if not answer.usage.input:  # it reports none
                price = self.cost(highest)
            answer = replace(answer, enforced="response_format" in body)
            return answer.with_usage(money=price)
        except Exception as error:
            failure = to_request_error(error)
            price = reserved * failure.billed
            # Without its cause, which may quote the request's headers.
            raise failure from None
        finally:
            self.limiter.settle(reserved, price)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Raises ConfigError, because servers do not return the likelihood of a given text.

        There is one exception. The stand-in for a model on this machine in a dry run returns
        placeholders: the same likelihood for each continuation in ``groups``.
        """
        if self.dry_run and not self.api:
            return [[Likelihood((-1.0,), -1.0)] * len(group) for group in groups]
        raise ConfigError(
            f"{self.name} does not return log-probabilities of a text",
            hint="Use a model of this machine: llm=ORG/NAME, or llm=vllm:ORG/NAME",
        )


# -- the body of a request -------------------------------------------------------------------------

_LIMITS = ("max_tokens", "max_completion_tokens")
# Fields that a request can do without if a server refuses them; without response_format a schema is
# not enforced.
_OPTIONAL = (
    "response_format",
    "temperature",
    "top_p",
    "seed",
    "logprobs",
    "presence_penalty",
    "frequency_penalty",
    *_LIMITS,
)
_TOO_MUCH = re.compile(r"too large|at most|maximum|exceed|less than|context", re.I)
_SYSTEM = re.compile(
    r"system[ '\"]*(role|message|prompt|instruction)|role[^.]{0,40}\bsystem\b"
    r"|developer instruction|roles must alternate",
    re.I,
)


def chat_body(
    config: OpenAILLM, request: ChatRequest, limit: int, dropped: frozenset[str]
) -> dict[str, Any]:
    """Returns the HTTP body that sends ``request`` to a server.

    Args:
        config: The settings of the model.
        request: The chat to answer, with its sampling settings.
        limit: The maximum number of output tokens.
        dropped: The fields to leave out, because the server refuses them, such as ``{"seed"}``. The
            name ``system`` moves system messages into the first user turn.
    """
    # Newer models refuse max_tokens; older servers do not know max_completion_tokens.
    limits = list(_LIMITS)
    if config.thinks:
        limits.reverse()
    messages: Sequence[Message] = request.messages
    if "system" in dropped:
        messages = with_folded_system(messages)
    body: dict[str, Any] = {
        "model": config.model,
        "messages": [{"role": m.role, "content": m.content} for m in messages],
    }
    allowed = [name for name in limits if name not in dropped]
    if allowed:
        body[allowed[0]] = limit
    body |= {
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning_effort": config.reasoning_effort,
        "presence_penalty": request.presence_penalty or None,
        "frequency_penalty": request.frequency_penalty or None,
        "seed": request.seed,
    }
    if request.schema is not None:
        schema = {"name": "answer", "strict": True, "schema": dict(request.schema)}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.top_logprobs and "logprobs" not in dropped:
        body |= {"logprobs": True, "top_logprobs": request.top_logprobs}
    return {k: v for k, v in body.items() if k not in dropped and v is not None}


def refused_field(failure: RequestError, body: Mapping[str, Any]) -> str:
    """Returns the optional field of a request that a server refuses, such as ``seed``.

    Returns ``system`` if the server refuses system messages. Returns an empty string if it refuses
    none of these.

    Args:
        failure: The error response of the server.
        body: The HTTP body that was refused.
    """
    if failure.status not in (400, 422, 500):
        return ""
    reason = f"{failure.field} {failure}".replace("top_logprobs", "logprobs")
    reason = reason.replace("json_schema", "response_format")
    words: list[str] = re.findall(r"\w+", reason)
    if failure.status == 500:  # llama-server's status for an error of the chat template
        words = []
    for word in words:
        # A limit of tokens that is only too high stays: it bounds the cost.
        if word in _LIMITS and _TOO_MUCH.search(reason):
            continue
        if word in _OPTIONAL and word in body:
            return word
    if body["messages"][0]["role"] == "system" and _SYSTEM.search(reason):
        return "system"
    return ""


# -- answers ---------------------------------------------------------------------------------------

# Finish reasons of a complete answer, and of one that was cut.
COMPLETE = {"stop", "eos", "eos_token", "end_turn", "stop_sequence"}
CUT = {"length", "max_tokens", "model_length"}


def valid_or_none(value: object, handler: Callable[[object], Any]) -> Any:
    """Returns ``value`` as validated by pydantic, or None if it is not valid.

    Args:
        handler: Pydantic's validator of the field, a function that takes the value.
    """
    try:
        return handler(value)
    except ValidationError:
        return None


OrNone = WrapValidator(valid_or_none)  # an invalid field counts as absent
# A natural log may be slightly above 0 by rounding.
WireLogprob = Annotated[float, Field(strict=True, le=1e-3, allow_inf_nan=False)]


class _Alternative(BaseModel):
    token: str = Field(strict=True)
    logprob: WireLogprob


class _Token(_Alternative):
    top_logprobs: list[_Alternative] | None = None


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Message(BaseModel):
    content: Annotated[str, Field(strict=True)] | None = None
    refusal: Any = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: Annotated[str | None, OrNone] = None
    logprobs: Annotated[_Logprobs | None, OrNone] = None


class _Details(BaseModel):
    cached_tokens: Count | None = None
    reasoning_tokens: Count | None = None


class _Usage(BaseModel):
    """The token counts in a server's response."""

    prompt_tokens: Annotated[Count, Field(ge=1)]
    completion_tokens: Count
    total_tokens: Count = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _Answer(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: Annotated[_Usage | None, OrNone] = None


def read_answer(answer: Any, request: ChatRequest) -> Completion:
    """Returns the completion in a server's response to ``request``. A refused, empty or broken
    answer becomes a failed completion.

    Args:
        answer: The JSON body of the response, parsed.

    Raises:
        RequestError: The body is an error, or it is not a chat completion.
    """
    if isinstance(answer, dict) and answer.get("error"):
        reason = f"the answer's body is an error: {safe_line(answer['error'])}"
        raise RequestError(reason, transient=True, billed=True)
    try:
        checked = _Answer.model_validate(answer)
    except (ValidationError, RecursionError):
        reason = "the answer's body is not a chat completion"
        raise RequestError(reason, transient=True, billed=True) from None
    choice, usage = checked.choices[0], _read_usage(checked.usage)
    text, end = choice.message.content or "", (choice.finish_reason or "").lower()
    finish: Finish = "stop"
    if end in CUT:
        finish = "length"
    reason = _failure_reason(choice.message, text, end)
    if not (reason or text.strip() or end in CUT or request.accept_truncated):
        reason = "an empty answer"
    if reason:
        return failed_completion(reason, usage)
    tokens: tuple[TokenChoice, ...] = ()
    if request.top_logprobs:
        tokens = _token_choices(choice.logprobs or _Logprobs())
    return Completion(text, finish, tokens=tokens, usage=usage)


def _token_choices(logprobs: _Logprobs) -> tuple[TokenChoice, ...]:
    """Returns the tokens of an answer with their log-probabilities, from the ``logprobs`` of a
    server's response."""
    tokens = []
    for token in logprobs.content or ():
        alternatives = {}
        for alternative in (*(token.top_logprobs or ()), token):
            alternatives[alternative.token] = min(alternative.logprob, 0.0)
        logprob = alternatives[token.token]
        if len(alternatives) == 1:
            # A token that is its own only alternative would pass for certain.
            alternatives = {}
        tokens.append(TokenChoice(token.token, logprob, alternatives))
    return tuple(tokens)


def _failure_reason(message: _Message, text: str, end: str) -> str:
    """Returns why a server's answer cannot be used, such as a refusal by the model, or an empty
    string.

    Args:
        message: The message with the answer, as the server sent it.
        text: The content of ``message``, or an empty string.
        end: The finish reason in lower case, such as ``stop``.
    """
    if message.refusal:
        return f"the model refused: {safe_line(message.refusal)}"
    if without_secrets(text) != text:
        return "the answer contains the key or the password of the server"
    if end not in COMPLETE | CUT:
        return f"the server ended the answer with {safe_line(end or 'no reason')!r}"
    return ""


def _read_usage(usage: _Usage | None) -> Usage:
    """Returns the token counts that a server reports. All are 0 if the server reports none or
    impossible ones."""
    if usage is None:
        return Usage()
    cached = (usage.prompt_tokens_details or _Details()).cached_tokens or 0
    reasoning = (usage.completion_tokens_details or _Details()).reasoning_tokens or 0
    # Some servers count the reasoning in the total only; it is billed as output.
    beyond_prompt = usage.total_tokens - usage.prompt_tokens
    output = max(usage.completion_tokens, beyond_prompt, reasoning)
    if cached > usage.prompt_tokens:
        return Usage()
    return Usage(usage.prompt_tokens, cached, output, reasoning)
