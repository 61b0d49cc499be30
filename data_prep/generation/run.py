"""A run: rounds of questions, in each of which every dialogue under way has its next one asked.

In a round each model gets one call with all that waits for it, whatever dialogues it belongs to:
that is what keeps a GPU or a server busy. Each answer goes to the journal when it arrives.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from medal_judges import __version__
from medal_judges.data_prep.generation.active_dialogues import ActiveDialogues, GenerationPlan
from medal_judges.data_prep.generation.agents import (
    Agents,
    Call,
    RunBudget,
    ask_all,
    identity,
    settings_of,
)
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.counts import GenerationCounts, Progress
from medal_judges.data_prep.generation.dialogue_state import DialogueState, Event, ProtocolLimits
from medal_judges.data_prep.generation.outputs import Outputs, RunRecord
from medal_judges.data_prep.generation.requests import RequestBuilder
from medal_judges.data_prep.seeds.context import SeedContext
from medal_judges.data_prep.seeds.sampling import contexts_for
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.protocol import Completion, LanguageModel
from medal_judges.records.signature import content_hash

# After the backend's own retries: a dialogue that fails so often in a row waits for the next run,
# and an agent that does ends this one.
DIALOGUE_FAILURES, AGENT_FAILURES = 3, 25


@dataclass(slots=True)
class GenerationRun:
    """One run of ``config`` into its folder. ``parked``: dialogues that could not continue, with
    the reason; the same command resumes them."""

    config: GenerateConfig
    plan: GenerationPlan
    dialogues: ActiveDialogues
    requests: RequestBuilder
    agents: Agents
    outputs: Outputs
    budget: RunBudget
    counts: GenerationCounts = field(default_factory=GenerationCounts)
    parked: dict[str, str] = field(default_factory=dict)
    _failures: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    def restore(self) -> None:
        """Apply what earlier runs left in the folder."""
        with self.outputs.rebuilding():
            for event in self.outputs.earlier():
                self._take(event)
        self.dialogues.begin()

    def go(self, progress: Progress | None = None) -> None:
        """Ask until nothing is left to ask.

        Raises MedalError when a model does not answer any more, or the limit of cost is met; all
        that was answered is in the folder, and the same command resumes.
        """
        try:
            self._require_prices()
            while self._round(progress):
                self.outputs.flush()
            self.outputs.flush()
            self.outputs.arrange(self.plan.order())
        finally:
            with self._lock:
                self._closed = True
                self.outputs.close()

    def _require_prices(self) -> None:
        """Raise ConfigError before anything is paid where a limit of cost could not be kept."""
        if self.budget.limit is None:
            return
        silent = {f"chatbot:{name}" for name in set(self.plan.chatbots) - set(self.plan.speaking)}
        served = [a for a, llm in self.agents.settings.items() if llm.api]
        self.budget.share([self.agents.get(agent) for agent in served if agent not in silent])

    def _round(self, progress: Progress | None) -> bool:
        self.dialogues.fill()
        calls = self._calls(progress)
        if not calls:
            return False
        before = self.counts.answers
        self.budget.share([call.model for call in calls])
        limits = ask_all(calls, self.config.per_call)
        if limits and self.counts.answers == before:
            raise self.budget.error(limits[0])
        return True

    def _calls(self, progress: Progress | None) -> list[Call]:
        """One call a model, of all dialogues that wait for it."""
        waiting: dict[int, tuple[LanguageModel, list[DialogueState]]] = {}
        for state in self.dialogues.active.values():
            model = self.agents.get(self.requests.agent(state, state.stage))
            waiting.setdefault(id(model), (model, []))[1].append(state)
        return [self._call(model, states, progress) for model, states in waiting.values()]

    def _call(
        self, model: LanguageModel, states: Sequence[DialogueState], progress: Progress | None
    ) -> Call:
        def on_answer(index: int, completion: Completion) -> None:
            with self._lock:
                if self._closed:  # a server's late answer, after the run was stopped
                    return
                self._answered(states[index], completion)
                if progress is not None:
                    progress(self.counts, len(self.dialogues.active))

        return Call(model, [self.requests.request(state) for state in states], on_answer)

    def _answered(self, state: DialogueState, completion: Completion) -> None:
        agent = self.requests.agent(state, state.stage)
        if completion.finish == "failed":
            self._failed(state, agent, completion)
            return
        self._failures[agent] = self._failures[state.id] = 0
        # Half a surrogate pair has no UTF-8: neither the journal nor another server could take it.
        text = completion.text.encode("utf-8", "replace").decode("utf-8")
        cut, usage = completion.finish == "length", completion.usage.to_record()
        event = Event(state.id, state.stage, text, cut, usage)
        self.outputs.journal.append([event], sync=False)
        self._take(event)
        if state.opened:
            self.dialogues.spread(state)

    def _failed(self, state: DialogueState, agent: str, completion: Completion) -> None:
        reason = completion.failure or "no reason given"
        self._failures[state.id] += 1
        # A server that refuses one dialogue (a filter, say) reads it and is not down for that.
        read = completion.usage.input or completion.usage.output
        self._failures[agent] = 0 if read else self._failures[agent] + 1
        if self._failures[state.id] >= DIALOGUE_FAILURES:
            self.parked[state.id] = f"{agent}: {reason}"
            self.dialogues.active.pop(state.id, None)
        if self._failures[agent] >= AGENT_FAILURES:
            raise MedalError(
                f"{agent} failed {AGENT_FAILURES} times in a row: {reason}",
                hint="run the same command again: it resumes from here",
            )

    def _take(self, event: Event) -> None:
        """Apply an event, live or read from the journal, and write and count what it led to."""
        state, rejection = self.dialogues.take(event)
        self.outputs.add(state, rejection)
        self.counts.add(self.requests.agent(state, event.stage), event, state, rejection)


def prepare(
    config: GenerateConfig,
    *,
    chatbots: Sequence[str] | None = None,
    overwrite: bool = False,
    max_cost: float | None = None,
) -> GenerationRun:
    """A run of ``config`` that resumes what its folder holds. ``chatbots``: only these speak.

    Raises ConfigError for settings that do not fit each other, and MedalError for a folder that
    was made with others.
    """
    known = [agent.name for agent in config.chatbots]
    if unknown := [name for name in chatbots or () if name not in known]:
        raise ConfigError(
            f"no chatbot {unknown[0]!r} in the config", hint=f"it has: {', '.join(known)}"
        )
    contexts = contexts_for(config.contexts, config.languages, config.seed)
    plan = GenerationPlan(contexts, [agent.name for agent in config.users], known, chatbots)
    limits = ProtocolLimits(config.first_turn.tries, config.later_turns.tries, config.max_turns)
    requests = RequestBuilder(config)
    outputs = Outputs(config.out, _record(config, requests, contexts), overwrite=overwrite)
    dialogues = ActiveDialogues(plan, limits, config.at_once)
    agents = Agents(settings_of(config))
    run = GenerationRun(config, plan, dialogues, requests, agents, outputs, RunBudget(max_cost))
    try:
        run.restore()
    except BaseException:
        outputs.close()
        raise
    return run


def _record(
    config: GenerateConfig, requests: RequestBuilder, contexts: Sequence[SeedContext]
) -> RunRecord:
    settings: dict[str, object] = {"seed": config.seed, "max_turns": config.max_turns}
    for name, prompt in requests.prompts().items():
        decoding = getattr(config, name).model_dump(exclude={"prompt"})
        settings[name] = {**decoding, "prompt": content_hash(prompt.model_dump())}
    return {
        "version": __version__,
        "settings": settings,
        "agents": {name: identity(llm) for name, llm in settings_of(config).items()},
        "languages": list(config.languages),
        "contexts": {context.id: context.country for context in contexts},
    }
