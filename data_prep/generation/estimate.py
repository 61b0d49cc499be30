"""``medal generate --dry-run``: the requests, tokens and dollars of a run.

The protocol runs on stand-ins that answer with filler and send nothing, over a few of the contexts;
the counts are scaled up to all of them.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.run import GenerationRun
from medal_judges.data_prep.jobs import Agents
from medal_judges.models.llm.cost import CostEstimate, Usage
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Completion, LanguageModel, Message
from medal_judges.models.llm.truncation import prompt_tokens_above

SAMPLE = 6  # contexts that the stand-ins go through


class Assumed(NamedTuple):
    """The assumptions. ``acceptance``: chance that a try is accepted; five tries then pass nine
    times of ten, as MEDAL reports (appendix C.2): 1 - (1 - 0.37)^5 = 0.90. Words of a message are
    near MEDAL's Table 2. No dialogue ends early, so the figure is on the high side."""

    acceptance: float = 0.37
    user_words: int = 23
    chatbot_words: int = 38
    reason_words: int = 20


DEFAULTS = Assumed()


class StandIn(LanguageModel):
    """Takes the place of a user, judge or chatbot (``kind``) and answers with filler."""

    def __init__(self, kind: str, assumed: Assumed) -> None:
        self.kind, self.assumed = kind, assumed
        self.name, self.context = f"stand-in/{kind}", 1_000_000

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Filler of the assumed length; a verdict depends on the request's seed."""
        return [self._answer(request) for request in requests]

    def _answer(self, request: ChatRequest) -> Completion:
        assumed = self.assumed
        counts = {"user": assumed.user_words, "chatbot": assumed.chatbot_words}
        text = " ".join(["words"] * counts.get(self.kind, assumed.reason_words))
        if self.kind == "judge":
            # The seed is a hash of dialogue, turn and try: as good as a draw, and always the same.
            accepts = (request.seed or 0) % 1000 < 1000 * assumed.acceptance
            text = "Yes." if accepts else f"No. {text}"
        written = min(request.max_tokens, prompt_tokens_above([Message("user", text)]))
        return Completion(text, usage=Usage(self.count_tokens(request.messages), output=written))

    def count_tokens(self, messages: Sequence[Message]) -> int:
        """An upper bound for any model."""
        return prompt_tokens_above(messages)

    def loglikelihood(self, *_: object, **__: object) -> NoReturn:
        raise NotImplementedError

    def fingerprint(self) -> Mapping[str, str]:
        return {}


class StandIns(Agents):
    """Agents that are stand-ins."""

    def __init__(self, config: GenerateConfig, assumed: Assumed = DEFAULTS) -> None:
        super().__init__(config.agents())
        self.loaded = {name: StandIn(name.partition(":")[0], assumed) for name in self.settings}

    def get(self, agent: str) -> LanguageModel:
        """The stand-in of ``agent``."""
        return self.loaded[agent]


def estimate(
    config: GenerateConfig, assumed: Assumed = DEFAULTS, chatbots: Sequence[str] | None = None
) -> dict[str, CostEstimate]:
    """The most that each agent takes in the whole run, whatever of it is done already;
    ``chatbots``: only these speak. A local model costs 0 dollars."""
    shown = min(SAMPLE, config.contexts.n)
    contexts = config.contexts.model_copy(update={"n": shown})
    with tempfile.TemporaryDirectory() as folder:
        small = config.model_copy(update={"contexts": contexts, "out": Path(folder)})
        run = GenerationRun(small, chatbots=chatbots, agents=lambda c: StandIns(c, assumed))
        run.run()
    silent = {f"chatbot:{name}" for name in run.chatbots if name not in run.speaking}
    costs = {}
    for agent, llm in config.agents().items():
        if agent in silent:
            continue
        usage = run.counts.usage[agent]
        requests, read, written = (
            round(usage[name] * config.contexts.n / shown)
            for name in ("requests", "input_tokens", "output_tokens")
        )
        money: float | None = 0.0
        if llm.api:  # a local model is not loaded to find out that it has no price
            model = load_llm(llm)
            money = model.cost(Usage(read, output=written))
            money = 0.0 if money is None and model.capabilities.private else money
        costs[agent] = CostEstimate(requests, 0, read, written, money)
    return costs
