"""Answers as they are kept on disk, and read back field by field: a kept line is foreign text."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import Field, StrictBool, StrictInt, StrictStr, ValidationError

from medal_judges.config import Config
from medal_judges.models.llm.protocol import Completion, Likelihood, TokenChoice, Usage

# Natural log; a sum may be rounded to a little above 0. NaN is not below anything.
_Logprob = Annotated[float, Field(strict=True, le=1e-3)]
_Count = Annotated[StrictInt, Field(ge=0)]
_Amount = Annotated[float, Field(strict=True, ge=0, allow_inf_nan=False)]


class _KeptUsage(Config):
    input: _Count
    cached: _Count
    output: _Count
    reasoning: _Count
    seconds: _Amount
    money: _Amount | None


class _KeptCompletion(Config):
    text: StrictStr
    finish: Literal["stop", "length"]  # failures are not kept
    failure: StrictStr | None
    enforced: StrictBool
    tokens: tuple[tuple[StrictStr, _Logprob, dict[StrictStr, _Logprob]], ...]
    usage: _KeptUsage


class _KeptLikelihood(Config):
    logprobs: tuple[_Logprob, ...]
    prefix_logprob: _Logprob | None
    prefix_tokens: _Count


def completion_record(completion: Completion) -> dict[str, Any]:
    """A completion as JSON has it; ``completion_of`` reads it."""
    usage = asdict(completion.usage)
    del usage["from_cache"]
    tokens = [[t.text, t.logprob, dict(t.alternatives)] for t in completion.tokens]
    return {
        "text": completion.text,
        "finish": completion.finish,
        "failure": completion.failure,
        "enforced": completion.enforced,
        "tokens": tokens,
        "usage": usage,
    }


def completion_of(record: object) -> Completion:
    """Inverse of ``completion_record``. Raises ValueError for what that cannot have written."""
    kept: _KeptCompletion = _checked(_KeptCompletion, record)
    return Completion(
        text=kept.text,
        finish=kept.finish,
        failure=kept.failure,
        enforced=kept.enforced,
        tokens=tuple(TokenChoice(*token) for token in kept.tokens),
        usage=Usage(**kept.usage.model_dump()),
    )


def likelihood_of(record: object) -> Likelihood:
    """A likelihood out of the record that ``dataclasses.asdict`` made of it. Raises ValueError."""
    kept: _KeptLikelihood = _checked(_KeptLikelihood, record)
    return Likelihood(kept.logprobs, kept.prefix_logprob, kept.prefix_tokens)


def _checked(kind: type[Any], record: object) -> Any:
    try:
        return kind.model_validate(record)
    except ValidationError as error:
        wrong = [".".join(map(str, each["loc"])) or "the record" for each in error.errors()]
        raise ValueError(f"its field {wrong[0]} is not what an answer has") from None
