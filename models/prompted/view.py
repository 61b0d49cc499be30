"""The part of a dialogue that a prompt shows: all, a share, or with long answers shortened.

ORALIS, section 4.2. Shares are of turns, rounded up, so at least one turn remains.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from medal_judges.models.base.turn_features import words
from medal_judges.models.llm.cost import add_usage
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message, usage_of
from medal_judges.models.prompted.prompt import ResolvedPrompt, fenced
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.languages import UNKNOWN_LANGUAGE

Context = Literal["full", "last_40", "first_40", "first_20_last_20", "summary_50", "summary_150"]
_SHARES: dict[str, tuple[float, float]] = {
    "last_40": (0.0, 0.4),
    "first_40": (0.4, 0.0),
    "first_20_last_20": (0.2, 0.2),
}


@dataclass(slots=True)
class PromptView:
    """The turns that a prompt shows (None marks a gap). A judged turn is in ``response`` or, with
    ``last_judged``, the last of them; neither if the whole dialogue is judged.

    ``id`` and ``lang`` are the dialogue's. ``start``: the number of turns that did not fit;
    ``left_out``: turns that ``context`` left out; ``shortened``: turns that the model shortened,
    at the cost of ``usage``. With a ``failure`` no question is sent.
    """

    turns: list[Turn | None]
    response: Turn | None = None
    id: str | None = None
    lang: str = UNKNOWN_LANGUAGE
    last_judged: bool = False
    start: int = 0
    left_out: int = 0
    shortened: int = 0
    usage: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    transient: bool = False

    @property
    def turn(self) -> bool:
        """Whether one turn is judged."""
        return self.last_judged or self.response is not None


def view_of(dialogue: Dialogue, turn: int | None, context: Context, *, apart: bool) -> PromptView:
    """The view of ``dialogue`` for ``context``. The judged ``turn`` is ``apart``, or the last of
    the shown turns."""
    response = dialogue.turns[turn] if turn is not None and apart else None
    before = dialogue.turns if turn is None else dialogue.turns[: turn + (response is None)]
    chosen = shown_turns(before, context)
    shown: list[Turn | None] = []
    for i, index in enumerate(chosen):
        if i and index != chosen[i - 1] + 1:
            shown.append(None)
        shown.append(before[index])
    return PromptView(
        shown,
        response,
        dialogue.id,
        dialogue.lang,
        last_judged=turn is not None and not apart,
        left_out=len(before) - len(chosen),
    )


def shown_turns(turns: Sequence[Turn], context: Context) -> list[int]:
    """Indices of the turns that ``context`` shows, at least one of the assistant's if there is one
    (the share then grows towards the middle)."""
    if context not in _SHARES:
        return list(range(len(turns)))
    first, last = (math.ceil(share * len(turns)) for share in _SHARES[context])
    assistant = [i for i, turn in enumerate(turns) if turn.role == "assistant"]
    begin = max(first, len(turns) - last)
    if assistant and not any(i < first or i >= begin for i in assistant):
        if last:
            begin = max(i for i in assistant if i < begin)
        else:
            first = min(i for i in assistant if i >= first) + 1
    return [i for i in range(len(turns)) if i < first or i >= begin]


def shorten(
    views: Sequence[PromptView],
    llm: LanguageModel,
    prompt: ResolvedPrompt,
    context: Context,
    *,
    longest: int,
    dialogue: int,
    fence: bool,
) -> None:
    """Replaces the assistant's turns of more than ``longest`` words, in dialogues of more than
    ``dialogue`` words (ORALIS: 200 and 3,000), by the model's summaries of as many words as
    ``context`` says. In scripts without spaces two ideographs are a word. ``fence`` puts the answer
    between marks."""
    summary_words = int(context.removeprefix("summary_"))
    long: list[tuple[PromptView, int, ChatRequest]] = []
    for view in views:
        turns = [turn for turn in view.turns if turn is not None]
        counts = [len(words(turn.content)) for turn in turns]
        for i, turn in enumerate(turns if sum(counts) > dialogue else ()):
            if turn.role != "assistant" or counts[i] <= longest:
                continue
            text = turn.content
            response = fenced("response", text) if fence else " ".join(text.split())
            values = {"words": str(summary_words), "response": response}
            message = Message("user", prompt.text(prompt.layout.dialogue, values))
            long.append((view, i, ChatRequest((message,), max_tokens=6 * summary_words)))
    answers = llm.chat([request for _, _, request in long]) if long else []
    for (view, i, request), done in zip(long, answers, strict=True):
        add_usage(view.usage, usage_of(llm, request, done))
        view.shortened += 1
        if done.finish == "stop" and done.text.strip():
            view.turns[i] = Turn("assistant", done.text.strip())
        else:
            reason = done.failure or f"an answer that ended by {done.finish!r}"
            view.failure = f"a turn could not be shortened: {reason}"
            view.transient = view.transient or done.transient
