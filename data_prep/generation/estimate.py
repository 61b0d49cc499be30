"""``medal generate --dry-run``: what a run would ask, in requests, tokens and dollars.

The protocol runs for real on stand-ins that answer with filler and send nothing, over a few of the
contexts; what they count is scaled up to all of them.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from medal_judges.config import Config
from medal_judges.data_prep.generation.agents import Agents, settings_of
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.run import prepare
from medal_judges.errors import ConfigError
from medal_judges.models.llm.cost import CostEstimate, Usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.models.llm.truncation import prompt_tokens_above

SAMPLE = 6  # contexts that the stand-ins go through


class Assumed(Config):
    """What the estimate assumes. ``acceptance``: chance that a try is accepted; five tries then
    pass nine times of ten, as MEDAL reports (appendix C.2): 1 - (1 - 0.37)^5 = 0.90. ``words``: of
    a message, near MEDAL's Table 2. No dialogue ends early, so the figure is on the high side."""

    acceptance: float = 0.37
    user_words: int = 23
    chatbot_words: int = 38
    reason_words: int = 20


class StandIn(LanguageModel):
    """Takes an agent's place: answers with filler at once, and counts what it was asked."""

    def __init__(self, kind: str, assumed: Assumed) -> None:
        self.kind, self.assumed = kind, assumed
        self.name, self.context = f"stand-in/{kind}", 1_000_000
        self.usage: Counter[str] = Counter()

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Filler of the assumed length; a verdict by the request's seed."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: ChatRequest) -> Completion:
        text = self._filler(request)
        # What is written is estimated as what is read is: from above.
        usage = Usage(
            input=self.count_tokens(request.messages),
            output=min(request.max_tokens, prompt_tokens_above([Message("user", text)])),
        )
        return Completion(text, usage=usage)

    def _filler(self, request: ChatRequest) -> str:
        if self.kind != "judge":
            words = self.assumed.user_words if self.kind == "user" else self.assumed.chatbot_words
            return " ".join(["words"] * words)
        # The seed is a hash of dialogue, turn and try: as good as a draw, and the same every time.
        if (request.seed or 0) % 1000 < 1000 * self.assumed.acceptance:
            return "Yes."
        return f"No. {' '.join(['words'] * self.assumed.reason_words)}"

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """An estimate from above, for any model."""
        return prompt_tokens_above(messages)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Not asked for here."""
        raise ConfigError("a stand-in has no likelihoods")

    def fingerprint(self) -> Mapping[str, str]:
        """Its kind."""
        return {"stand-in": self.kind}


@dataclass(slots=True)
class StandIns(Agents):
    """Agents that are stand-ins."""

    assumed: Assumed = field(default_factory=Assumed)

    def get(self, agent: str) -> LanguageModel:
        """The stand-in of ``agent``."""
        if agent not in self.loaded:
            self.loaded[agent] = StandIn(agent.partition(":")[0], self.assumed)
        return self.loaded[agent]


def estimate(
    config: GenerateConfig,
    assumed: Assumed | None = None,
    chatbots: Sequence[str] | None = None,
) -> dict[str, CostEstimate]:
    """For each agent what the whole run would ask, whatever of it is done already; ``chatbots``:
    only these speak, as in ``prepare``. Hardware of one's own costs 0 dollars."""
    shown = min(SAMPLE, config.contexts.n)
    contexts = config.contexts.model_copy(update={"n": shown})
    with tempfile.TemporaryDirectory() as folder:
        small = config.model_copy(update={"contexts": contexts, "out": Path(folder)})
        run = prepare(small, chatbots=chatbots)
        run.agents = StandIns(settings_of(config), assumed=assumed or Assumed())
        run.go()
    factor = config.contexts.n / shown
    silent = {f"chatbot:{name}" for name in set(run.plan.chatbots) - set(run.plan.speaking)}
    costs = {}
    for agent, llm in settings_of(config).items():
        if agent not in silent:
            counted = {name: round(n * factor) for name, n in run.counts.usage[agent].items()}
            usage = Usage(counted.get("input_tokens", 0), output=counted.get("output_tokens", 0))
            requests, money = counted.get("requests", 0), _price(llm, usage)
            costs[agent] = CostEstimate(requests, 0, usage.input, usage.output, money)
    return costs


def _price(llm: LLMConfig, usage: Usage) -> float | None:
    """US dollars; a local model is not loaded to find out that it has no price."""
    if not llm.api:
        return 0.0
    model = load_llm(llm)
    money = model.cost(usage)
    return 0.0 if money is None and model.capabilities.private else money
