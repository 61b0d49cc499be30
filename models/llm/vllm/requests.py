"""What vLLM is asked and what it answers, as plain values: nothing here needs vLLM.

Field names are those of vLLM 0.33 (SamplingParams, StructuredOutputsParams, RequestOutput).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.cost import Usage
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Likelihood,
    TokenChoice,
    failed,
)

MAX_ALTERNATIVES = 20  # vLLM's own limit (max_logprobs) unless the engine is told otherwise


def token_prompt(ids: Sequence[int]) -> dict[str, list[int]]:
    """A prompt of token ids: vLLM adds nothing to it, no second beginning-of-sequence token."""
    return {"prompt_token_ids": list(ids)}


def chat_settings(request: ChatRequest) -> dict[str, Any]:
    """SamplingParams' fields for a chat request; those of StructuredOutputsParams stand under
    ``structured_outputs``. A request without a seed gets 0: the same request, the same answer."""
    settings: dict[str, Any] = {
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": 0 if request.seed is None else request.seed,
    }
    if request.presence_penalty:
        settings["presence_penalty"] = request.presence_penalty
    if request.top_logprobs:
        settings["logprobs"] = min(request.top_logprobs, MAX_ALTERNATIVES)
    if request.schema is not None:
        settings["structured_outputs"] = {"json": dict(request.schema)}
    return settings


def thinking_settings(request: ChatRequest, stop: str) -> dict[str, Any]:
    """As ``chat_settings``, of a request whose answer ends with the text ``stop``, which may be a
    special token and is part of it."""
    ending = {"stop": [stop], "include_stop_str_in_output": True, "skip_special_tokens": False}
    return chat_settings(request) | ending


def score_settings(*, shared: bool) -> dict[str, Any]:
    """SamplingParams' fields that ask for the log-probabilities of a prompt's tokens.

    vLLM does not read its prefix cache for such a request, since tokens found there get no
    log-probability. ``shared`` lets it all the same: the tokens of a continuation stand behind the
    shared prefix, and ``likelihood_of`` checks that none of them was found in the cache.
    """
    settings = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0, "detokenize": False}
    return settings | ({"skip_reading_prefix_cache": False} if shared else {})


def sampling_params(settings: Mapping[str, Any]) -> Any:
    """vLLM's own object of ``chat_settings`` or ``score_settings``."""
    from vllm import SamplingParams
    from vllm.sampling_params import StructuredOutputsParams

    fields = dict(settings)
    if "structured_outputs" in fields:
        fields["structured_outputs"] = StructuredOutputsParams(**fields["structured_outputs"])
    return SamplingParams(**fields)


def completion_of(output: Any, request: ChatRequest) -> Completion:
    """The completion in a RequestOutput."""
    answer = output.outputs[0]
    usage = Usage(
        input=len(output.prompt_token_ids or ()),
        cached=output.num_cached_tokens or 0,
        output=len(answer.token_ids),
    )
    if answer.finish_reason not in ("stop", "length"):
        reason = f"vLLM ended the answer with {answer.finish_reason!r}"
        return failed(reason, usage)
    choices = zip(answer.token_ids, answer.logprobs or (), strict=bool(answer.logprobs))
    return Completion(
        answer.text,
        finish=answer.finish_reason,
        enforced=request.schema is not None,
        tokens=tuple(_choice(token, logprobs) for token, logprobs in choices),
        usage=usage,
    )


def _choice(token: int, logprobs: Mapping[int, Any]) -> TokenChoice:
    # Ascending: where two tokens are spelt alike, the likelier one stays. What a grammar forbids
    # (-inf) is no alternative.
    allowed = (each for each in logprobs.values() if each.logprob > float("-inf"))
    ordered = sorted(allowed, key=lambda each: each.logprob)
    alternatives = {each.decoded_token or "": each.logprob for each in ordered}
    return TokenChoice(logprobs[token].decoded_token or "", logprobs[token].logprob, alternatives)


def likelihood_of(output: Any, sequence: TokenSequence, *, joint: bool) -> Likelihood | None:
    """The likelihood of ``sequence.ids`` from ``sequence.start`` on; with ``joint`` also of what
    stands before. None where a token that is asked for was found in the prefix cache.

    Log-probabilities are read from the end: what vLLM's older model runner reports for cached
    tokens is leftover memory, and its newer one leaves them out.
    """
    first = 1 if joint else sequence.start
    if first <= (output.num_cached_tokens or 0):
        return None
    values = _tail(output.prompt_logprobs or (), sequence.ids[first:])
    if values is None:
        return None
    own = len(sequence.ids) - sequence.start
    before = sum(values[:-own]) if joint else None
    return Likelihood(tuple(values[-own:]), before, sequence.start - 1)


def _tail(
    logprobs: Sequence[Mapping[int, Any] | None], tokens: Sequence[int]
) -> list[float] | None:
    """Log-probabilities of ``tokens``, the last ones that ``logprobs`` has."""
    if len(logprobs) < len(tokens):
        return None
    values = []
    for entry, token in zip(logprobs[len(logprobs) - len(tokens) :], tokens, strict=True):
        if entry is None or token not in entry:
            return None
        values.append(float(entry[token].logprob))
    return values
