"""Turns a dialogue into the text that an encoder reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from medal_judges.models.batching import SpecialTokens
from medal_judges.models.llm.protocol import first_fitting_start
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.rendered import RenderedDialogue

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class DialogueRenderer:
    """Turns dialogues into texts for an encoder. A text has one line for each turn, such as
    ``user: Hello``.

    The tokenizer's separator token ends each line but the last. Special tokens in a turn become
    plain text.

    Attributes:
        tokenizer: The encoder's tokenizer.
        max_tokens: The maximum length of a text in tokens. A longer dialogue loses its oldest
            turns.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, max_tokens: int) -> None:
        self.tokenizer, self.max_tokens = tokenizer, max_tokens
        self.marks = SpecialTokens(tokenizer)
        self.separator = f"{tokenizer.sep_token or ''}\n"

    def render(self, dialogues: Sequence[Dialogue]) -> list[RenderedDialogue]:
        """Returns the text and the token ids of each of ``dialogues``.

        A dialogue that is longer than ``max_tokens`` loses its oldest turns. If even its last turn
        is too long, the end of that turn is left out of the token ids.
        """
        lines_of_dialogues = [self.lines(dialogue) for dialogue in dialogues]
        texts = [self.separator.join(lines) for lines in lines_of_dialogues]
        tokens = self.tokenizer(texts, verbose=False).input_ids if texts else []
        rendered = []
        for lines, text, ids in zip(lines_of_dialogues, texts, tokens, strict=True):
            if len(ids) <= self.max_tokens:
                rendered.append(RenderedDialogue(text, ids))
            else:
                rendered.append(self._render_newest(lines))
        return rendered

    def lines(self, dialogue: Dialogue) -> list[str]:
        """Returns a line for each turn of ``dialogue``, such as ``user: Hello``."""
        return [
            f"{turn.role}: {self.marks.break_up(turn.content)}"
            for turn in dialogue.turns
        ]

    def _token_ids(self, text: str, **options: Any) -> list[int]:
        ids: list[int] = self.tokenizer(text, verbose=False, **options).input_ids
        return ids

    def _render_newest(self, lines: Sequence[str]) -> RenderedDialogue:
        """Returns the text and token ids of as many of the last ``lines`` as fit ``max_tokens``. If
        the last line alone is too long, its end is cut."""

        def fits(start: int) -> bool:
            return (
                len(self._token_ids(self.separator.join(lines[start:])))
                <= self.max_tokens
            )

        start = first_fitting_start(len(lines) - 1, fits)
        text = self.separator.join(lines[start:])
        ids = self._token_ids(text)
        if len(ids) <= self.max_tokens:
            return RenderedDialogue(text, ids, dropped=start)
        ids = self._token_ids(text, truncation=True, max_length=self.max_tokens)
        return RenderedDialogue(text, ids, dropped=start, cut=1)
