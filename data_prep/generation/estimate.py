"""``medal generate --dry-run``: the requests, tokens and dollars of a run.

The protocol runs on stand-ins that answer with filler and send nothing, over a few of the contexts;
the counts are scaled up to all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from medal_judges.config import Config
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun
from medal_judges.data_prep.jobs import Agents
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
from medal_judges.models.llm.truncation import prompt_tokens_above

SAMPLE = 6  # contexts that the stand-ins go through


class Assumed(Config):
    """The assumptions. ``acceptance``: chance that a try is accepted; five tries then pass nine
    times of ten, as MEDAL reports (appendix C.2): 1 - (1 - 0.37)^5 = 0.90. ``words``: of a message,
    near MEDAL's Table 2. No dialogue ends early, so the figure is on the high side."""

    acceptance: float = 0.37
    user_words: int = 23
    chatbot_words: int = 38
    reason_words: int = 20


class StandIn(LanguageModel):
    """Takes an agent's place and answers with filler."""

    def __init__(self, kind: str, assumed: Assumed) -> None:
        self.kind, self.assumed = kind, assumed
        self.name, self.context = f"stand-in/{kind}", 1_000_000

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Filler of the assumed length; a verdict depends on the request's seed."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: ChatRequest) -> Completion:
        assumed = self.assumed
        if self.kind != "judge":
            count = assumed.user_words if self.kind == "user" else assumed.chatbot_words
            text = " ".join(["words"] * count)
        # The seed is a hash of dialogue, turn and try: as good as a draw, and always the same.
        elif (request.seed or 0) % 1000 < 1000 * assumed.acceptance:
            text = "Yes."
        else:
            text = f"No. {' '.join(['words'] * assumed.reason_words)}"
        written = min(request.max_tokens, prompt_tokens_above([Message("user", text)]))
        return Completion(text, usage=Usage(self.count_tokens(request.messages), output=written))

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """An upper bound for any model."""
        return prompt_tokens_above(messages)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Not supported."""
        raise ConfigError("a stand-in does not return log-probabilities")

    def fingerprint(self) -> Mapping[str, str]:
        """Its kind."""
        return {"stand-in": self.kind}


class StandIns(Agents):
    """Agents that are stand-ins."""

    def __init__(self, config: GenerateConfig, assumed: Assumed | None = None) -> None:
        super().__init__(config.agents())
        for name in self.settings:
            self.loaded[name] = StandIn(name.partition(":")[0], assumed or Assumed())

    def get(self, agent: str) -> LanguageModel:
        """The stand-in of ``agent``."""
        return self.loaded[agent]


def estimate(
    config: GenerateConfig,
    assumed: Assumed | None = None,
    chatbots: Sequence[str] | None = None,
) -> dict[str, CostEstimate]:
    """The most that each agent takes in the whole run, whatever of it is done already;
    ``chatbots``: only these speak. A local model costs 0 dollars."""
    shown = min(SAMPLE, config.contexts.n)
    contexts = config.contexts.model_copy(update={"n": shown})
    with tempfile.TemporaryDirectory() as folder:
        small = config.model_copy(update={"contexts": contexts, "out": Path(folder)})
        run = GenerationRun(small, chatbots=chatbots, agents=lambda c: StandIns(c, assumed))
        run.run()
    factor = config.contexts.n / shown
    costs = {}
    for agent, llm in config.agents().items():
        if agent.startswith("chatbot:") and agent.removeprefix("chatbot:") not in run.speaking:
            continue
        counted = {name: round(n * factor) for name, n in run.counts.usage[agent].items()}
        usage = Usage(counted.get("input_tokens", 0), output=counted.get("output_tokens", 0))
        money: float | None = 0.0
        if llm.api:  # a local model is not loaded to find out that it has no price
            model = load_llm(llm)
            money = model.cost(usage)
            money = 0.0 if money is None and model.capabilities.private else money
        costs[agent] = CostEstimate(counted.get("requests", 0), 0, usage.input, usage.output, money)
    return costs
