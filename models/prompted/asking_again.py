"""One more question after an answer in prose whose score cannot be told: for the number alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from medal_judges.models.llm.protocol import ChatRequest, Completion, LanguageModel, Message
from medal_judges.models.prompted.parsing.parser import Parsed, parse_answer
from medal_judges.models.prompted.parsing.thinking import after_thinking
from medal_judges.models.prompted.prompt import fill
from medal_judges.models.prompted.question import Asker, Question

PART = "again"  # the prompt's part with the question; a prompt without it asks once
_LONGEST = 40  # characters of a reply that is a number alone


def is_asked_again(
    asker: Asker, question: Question, completion: Completion, parsed: Mapping[str, Parsed]
) -> bool:
    """Whether ``completion`` was asked for as one number and gave none that can be told."""
    return (
        asker.chosen.answer.format == "number"
        and bool(asker.chosen.parts.get(PART))
        and len(question.wanted) == 1
        and completion.finish != "failed"
        and all(p.value is None for p in parsed.values())
    )


def second_request(
    llm: LanguageModel, asker: Asker, question: Question, request: ChatRequest, first: Completion
) -> ChatRequest:
    """The first question and its answer, and then the one for the number alone. An answer that
    does not fit the model's window with it is left out."""
    low, high = (f"{end:g}" for end in question.wanted[0].scale)
    again = fill(asker.chosen.parts[PART], {"low": low, "high": high})
    spoken = after_thinking(first.text)
    told = spoken[0].strip() if spoken is not None else ""
    messages = (*request.messages, Message("assistant", told), Message("user", again))
    if not told or llm.count_tokens(messages) + request.max_tokens > llm.context:
        last = request.messages[-1]
        messages = (*request.messages[:-1], replace(last, content=f"{last.content}\n\n{again}"))
    return replace(request, messages=messages, schema=None)


def read_again(
    asker: Asker, question: Question, second: Completion, first: Mapping[str, Parsed]
) -> dict[str, Parsed]:
    """The number that the second answer is; the first answer's reason where it is more than one
    short line, or none."""
    read = parse_answer(second, question.wanted, asker.chosen.answer)
    spoken = after_thinking(second.text)
    alone = spoken is not None and len(spoken[0].strip()) <= _LONGEST
    told: dict[str, Parsed] = {}
    for name, parsed in read.items():
        if parsed.value is not None and alone:
            told[name] = replace(parsed, step="again", comment=first[name].comment)
        else:
            reason = parsed.reason or "an answer that is more than a number"
            told[name] = replace(first[name], reason=f"{first[name].reason}; asked again: {reason}")
    return told
