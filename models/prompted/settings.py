"""The settings of a prompted judge, as they stand in configs/judges/."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from medal_judges.config import Config
from medal_judges.models.prompted.context import Context
from medal_judges.models.prompted.prompt import AnswerFormat
from medal_judges.models.prompted.repeats import Pool


class PromptedConfig(Config):
    """What a prompted judge does.

    ``llm``: see load_llm. ``prompt``, ``variant``, ``layout``, ``answer``: see prompt.py; the
    file's defaults where not given. ``language``: the prompt's language, or ``auto`` for the
    dialogue's own where the file has it (English otherwise). ``role``: a name in the prompt's
    roles, ``none``, or not given for the file's choice by dimension.
    ``dimensions``: those of ``rubric`` that are asked (all, unless said).

    ``context``: how much of the dialogue is shown; ``summary_*`` shortens the assistant's turns of
    more than ``summary_from`` words in dialogues of more than ``summary_dialogue`` words, by the
    model itself (or by ``summary_llm``) with the prompt ``summary_prompt``.
    ``examples``: a file of scored dialogues for the variants that show some, each as its last
    ``excerpt_turns`` turns (0: its summary).

    ``max_tokens`` bounds an answer (at most half of the model's window is given to it);
    ``max_prompt_tokens`` bounds the prompt below the window: whole oldest turns go first.
    ``repeats`` answers are asked for, with the seeds ``seed``, ``seed`` + 1, ..., and become one
    score as ``pool`` says. ``enforce``: hold the answer to a JSON schema where the backend can;
    ``comment_chars`` bounds each comment in it.

    ``ask_again``: where one number was asked for in words and the answer gives none that can be
    told, the number alone is asked for once more (in the prompt's part ``again``).

    ``expected``: where the probability-weighted rating comes from: ``alternatives`` of the token
    that says the number, the ``likelihood`` of every rating in its place, or ``none``. ``score``:
    whether the judgement's number is the one ``said`` or the ``expected`` one.
    """

    family: Literal["prompted"] = "prompted"
    name: str
    llm: Any = "embedded:smollm2"
    prompt: str
    variant: str | None = None
    layout: str | None = None
    language: str = "en"
    answer: AnswerFormat | None = None
    role: str | None = None
    rubric: str
    dimensions: tuple[str, ...] = ()
    context: Context = "full"
    summary_from: int = Field(default=200, ge=1)
    summary_dialogue: int = Field(default=3000, ge=0)
    summary_prompt: str = "prompts/shorten"
    summary_llm: Any = None
    examples: str = "prompts/examples"
    excerpt_turns: int = Field(default=6, ge=0)
    max_tokens: int = Field(default=512, ge=1)
    max_prompt_tokens: int | None = Field(default=None, ge=64)
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seed: int = 0
    repeats: int = Field(default=1, ge=1)
    pool: Pool = "mean"
    enforce: bool = True
    ask_again: bool = True
    comment_chars: int | None = Field(default=None, ge=1)
    expected: Literal["alternatives", "likelihood", "none"] = "alternatives"
    score: Literal["said", "expected"] = "said"

    @model_validator(mode="after")
    def _expected_is_there(self) -> PromptedConfig:
        if self.score == "expected" and self.expected == "none":
            raise ValueError("score: expected needs expected: alternatives or likelihood")
        return self
