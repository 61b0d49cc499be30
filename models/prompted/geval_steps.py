"""Evaluation steps of G-Eval: a reviewed file, first draft by the model itself (auto-CoT)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.dimension import Dimension
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import ChatRequest, LanguageModel, Message
from medal_judges.models.prompted.parsing.thinking import after_thinking
from medal_judges.models.prompted.prompt import fill

_MARK = re.compile(r"(?:\d{1,3}\s{0,3}[.):]|[-*•])")  # at the beginning of a stripped line


class Steps(Config):
    """Steps by dimension (``other`` for those not named), how they were made and by which models,
    and who read them over: steps that nobody has read (``reviewed`` empty) are not used."""

    name: str
    method: str
    generators: tuple[str, ...] = ()
    reviewed: str | None = None
    steps: Mapping[str, tuple[str, ...]]
    other: tuple[str, ...] = ()

    def of(self, dimension: str) -> tuple[str, ...]:
        """The steps for ``dimension``; none where the file has none."""
        return self.steps.get(dimension, self.other)


class StepsPrompt(Config):
    """``question`` has places ``{label}`` and ``{criteria}``."""

    question: str


def load_steps(path: str) -> Steps:
    """The steps file ``path`` (or the shipped one of that name).

    Raises ConfigError when the file is malformed or nobody has reviewed it.
    """
    found = build_config(Steps, read_yaml(path), where=path)
    if not found.reviewed:
        raise ConfigError(
            f"{path}: these evaluation steps have not been reviewed",
            hint="read them, mend them, and say who did: reviewed: NAME, DATE",
        )
    return found


def draft_steps(
    llm: LanguageModel,
    dimensions: Sequence[Dimension],
    *,
    name: str,
    criteria: Mapping[str, str] | None = None,
    prompt: str = "prompts/geval_steps_generation",
    max_tokens: int = 300,
) -> Steps:
    """Steps that ``llm`` proposes from each dimension's criteria (G-Eval's auto chain-of-thought),
    greedily. A dimension for which it lists none is left out. Not reviewed by anybody yet.

    ``criteria`` goes before the definitions of the rubric. To keep the draft:
    ``yaml.safe_dump(steps.model_dump(mode="json"))``.
    """
    text = build_config(StepsPrompt, read_yaml(prompt), where=prompt)
    requests = []
    for dimension in dimensions:
        known = (criteria or {}).get(dimension.name, dimension.definition)
        values = {"label": dimension.name.replace("_", " "), "criteria": known}
        messages = (Message("user", fill(text.question, values)),)
        requests.append(ChatRequest(messages, max_tokens=max_tokens))
    drafts = {
        dimension.name: tuple(_listed(answer.text))
        for dimension, answer in zip(dimensions, llm.chat(requests), strict=True)
    }
    return Steps(
        name=name,
        method="auto chain-of-thought",
        generators=(llm.name,),
        steps={key: steps for key, steps in drafts.items() if steps},
    )


def _listed(answer: str) -> list[str]:
    """Lines that are numbered or bulleted; the others are the model's own talk."""
    spoken = after_thinking(answer)
    lines = [line.strip() for line in spoken[0].splitlines()] if spoken is not None else []
    listed = [line[mark.end() :].strip() for line in lines if (mark := _MARK.match(line))]
    return [step for step in listed if step]
