"""Gradio: a page that scores a pasted chat."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from medal_judges.config import BOXED
from medal_judges.errors import MedalError, MissingExtraError, RecordError, visible
from medal_judges.integrations.chats import JudgeSource, load_judge, score_chats
from medal_judges.models.base.judge import Judge
from medal_judges.reading.messages import ROLE_WORDS

COLUMNS = ("dimension", "score", "scale", "better")
_SPEAKER = re.compile(r"\s*(?P<name>[A-Za-z]+)\s*[::]\s?(?P<text>.*)")
_EXAMPLE = "User: Hi! Any plans for the weekend?\nAssistant: Yes, I will plant tomatoes. And you?"


def make_app(judge: JudgeSource = BOXED) -> Any:
    """Returns a gradio.Blocks page that scores a pasted chat: messages as JSON, or lines that begin
    with ``User:`` and ``Assistant:``. Raises JudgeLoadError, and MissingExtraError without
    gradio."""
    try:
        import gradio
    except ImportError as error:
        raise MissingExtraError("gradio", "space", "the page of a judge") from error
    loaded = load_judge(judge)

    def shown(pasted: str) -> tuple[list[list[object]], str]:
        try:
            return scored_rows(loaded, pasted)
        except MedalError as error:
            return [], str(error)

    with gradio.Blocks(title="medal_judges", analytics_enabled=False) as app:
        chat = gradio.Textbox(_EXAMPLE, label="Chat", lines=10, max_lines=30)
        button = gradio.Button("Score", variant="primary")
        table = gradio.Dataframe(headers=list(COLUMNS), label="Scores", interactive=False)
        # A text box and not Markdown: text of a chat or an error is never rendered.
        note = gradio.Textbox(label="Judge", lines=2, interactive=False)
        button.click(shown, chat, [table, note], concurrency_limit=1)
    return app


def scored_rows(judge: Judge, pasted: str) -> tuple[list[list[object]], str]:
    """Returns rows of COLUMNS, and the judge's signature or the reason why there is no score.
    Raises MedalError for text that is not a chat."""
    scored = score_chats([_chat(pasted)], judge, place="chat")
    (judgement,) = scored.judgements
    rows: list[list[object]] = []
    for each in scored.dimensions:
        value = judgement.scores[each.name]
        shown = "not scored" if value is None else f"{value:.2f}"
        rows.append([each.name, shown, f"{each.low:g} to {each.high:g}", each.good])
    return rows, visible(judgement.failure or judgement.explanation or scored.signature)


def _chat(pasted: str) -> Any:
    if pasted.lstrip().startswith(("[", "{")):
        try:
            return json.loads(pasted)
        except (ValueError, RecursionError) as error:
            raise RecordError("chat", f"JSON that can be read ({error})", pasted[:80]) from error
    return list(_turns(pasted))


def _turns(pasted: str) -> Iterator[dict[str, str]]:
    """Yields a message for each line with a speaker; other lines belong to the message before."""
    role, lines = "", list[str]()
    for line in pasted.splitlines():
        found = _SPEAKER.match(line)
        if found and found["name"].lower() in ROLE_WORDS:
            if role:
                yield {"role": role, "content": "\n".join(lines).strip()}
            role, lines = found["name"].lower(), [found["text"]]
        elif role:
            lines.append(line)
        elif line.strip():
            raise RecordError("chat", "a first line that begins with User: or Assistant:", line)
    if role:
        yield {"role": role, "content": "\n".join(lines).strip()}
