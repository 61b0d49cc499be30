"""``medal generate --dry-run``: the requests, tokens and dollars of a run.

The protocol runs on answers of filler over a few of the contexts; the counts are scaled up to all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.requests import RequestBuilder
from medal_judges.data_prep.generation.state import DialogueState
from medal_judges.data_prep.seeds.contexts import contexts_for
from medal_judges.models.llm.cost import CostEstimate, Usage
from medal_judges.models.llm.protocol import ChatRequest, Message, prompt_tokens_above
from medal_judges.models.llm.settings import load_llm

SAMPLE = 6  # contexts that are gone through


class Assumed(NamedTuple):
    """The assumptions. ``acceptance``: chance that a try is accepted; five tries then pass nine
    times of ten, as MEDAL reports (appendix C.2): 1 - (1 - 0.37)^5 = 0.90. Words of a message are
    near MEDAL's Table 2. No dialogue ends early, so the figure is on the high side."""

    acceptance: float = 0.37
    user_words: int = 23
    chatbot_words: int = 38
    reason_words: int = 20

    def answer(self, stage: str, request: ChatRequest) -> str:
        """Filler of the assumed length; a verdict depends on the request's seed, which is a hash of
        dialogue, turn and try: as good as a draw, and always the same."""
        counts = {"say": self.user_words, "reply": self.chatbot_words}
        text = " ".join(["words"] * counts.get(stage, self.reason_words))
        if stage != "check":
            return text
        accepts = (request.seed or 0) % 1000 < 1000 * self.acceptance
        return "Yes." if accepts else f"No. {text}"


def estimate(
    config: GenerateConfig, chatbots: Sequence[str] = (), assumed: Assumed | None = None
) -> dict[str, CostEstimate]:
    """Returns the maximum cost of each agent over the whole run, finished parts included.
    ``chatbots``: only these speak. A local model costs 0 dollars."""
    assumed, builder = assumed or Assumed(), RequestBuilder(config)
    speaking = config.speaking(chatbots)
    shown = min(SAMPLE, config.contexts.n)
    settings = config.contexts.model_copy(update={"n": shown})
    used: dict[str, Counter[str]] = defaultdict(Counter)

    def play(state: DialogueState) -> DialogueState:
        while not state.over:
            request = builder.request(state)
            text = assumed.answer(state.stage, request)
            written = min(request.max_tokens, prompt_tokens_above([Message("user", text)]))
            read = prompt_tokens_above(request.messages)
            used[state.agent].update(requests=1, read=read, written=written)
            state.take(text, False)
        return state

    for context in contexts_for(settings, config.languages, config.seed):
        for user in config.users:
            opener = play(DialogueState(f"{context.id}--{user.name}", context, user.name, config))
            for chatbot in speaking if opener.opened else ():
                play(opener.with_chatbot(chatbot))
    costs = {}
    for agent, llm in config.agents().items():
        if agent.startswith("chatbot:") and agent.removeprefix("chatbot:") not in speaking:
            continue
        requests, read, written = (
            round(used[agent][name] * config.contexts.n / shown)
            for name in ("requests", "read", "written")
        )
        money: float | None = 0.0
        if llm.api:  # a local model is not loaded to find out that it has no price
            model = load_llm(llm)
            money = model.cost(Usage(read, output=written))
            money = 0.0 if money is None and model.capabilities.private else money
        costs[agent] = CostEstimate(requests, 0, read, written, money)
    return costs
