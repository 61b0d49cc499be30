"""A run: rounds of questions, in each of which every unit under way has its next one asked.

In a round each model gets one call with all that waits for it, whatever dialogues it belongs to:
that is what makes a GPU or a server busy. Each answer goes to the journal when it arrives.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from medal_judges.data_prep.generation.agents import (
    Agents,
    Call,
    ask_all,
    identity,
    is_served,
    settings_of,
)
from medal_judges.data_prep.generation.asking import Asker
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.counts import Counts
from medal_judges.data_prep.generation.journal import Event
from medal_judges.data_prep.generation.money import Budget
from medal_judges.data_prep.generation.outputs import Outputs, room_in
from medal_judges.data_prep.generation.plan import Plan
from medal_judges.data_prep.generation.pool import Pool
from medal_judges.data_prep.generation.unit import Rules, Unit
from medal_judges.data_prep.seeds.context import SeedContext
from medal_judges.data_prep.seeds.sampling import contexts_for
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.protocol import Completion

# After the backend's own retries: a unit that fails so often in a row waits for the next run, and
# an agent that does ends this one.
UNIT_FAILURES, AGENT_FAILURES = 3, 25
Progress = Callable[[Counts, int], None]


@dataclass(slots=True)
class Run:
    """One run of ``config`` into its folder. ``parked``: units that could not go on, with the
    reason; the same command goes on with them."""

    config: GenerateConfig
    plan: Plan
    pool: Pool
    asker: Asker
    agents: Agents
    outputs: Outputs
    budget: Budget
    counts: Counts = field(default_factory=Counts)
    parked: dict[str, str] = field(default_factory=dict)
    _failures: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False

    def restore(self) -> None:
        """Take up what an earlier run left in the folder."""
        self.outputs.rebuild()
        for event in self.outputs.journal.earlier():
            self._take(event)
        self.outputs.rebuilt()
        self.pool.begin()

    def go(self, progress: Progress | None = None) -> None:
        """Ask until nothing is left to ask.

        Raises MedalError when a model does not answer any more, or the limit of cost is met; all
        that was answered is in the folder, and the same command goes on.
        """
        with room_in(self.config.out):
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
        silent = {f"chatbot:{name}" for name in set(self.plan.chatbots) - set(self.plan.chosen)}
        served = [a for a, llm in self.agents.settings.items() if is_served(llm)]
        self.budget.share([self.agents.get(agent) for agent in served if agent not in silent])

    def _round(self, progress: Progress | None) -> bool:
        self.pool.fill()
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
        """One call a model, of all units that wait for it."""
        waiting: dict[int, list[Unit]] = {}
        models = {}
        for unit in self.pool.active.values():
            model = self.agents.get(self.asker.agent(unit))
            models[id(model)] = model
            waiting.setdefault(id(model), []).append(unit)
        return [self._call(models[key], units, progress) for key, units in waiting.items()]

    def _call(self, model: Any, units: Sequence[Unit], progress: Progress | None) -> Call:
        def on_answer(index: int, completion: Completion) -> None:
            with self._lock:
                if self._closed:  # a server's late answer, after the run was stopped
                    return
                self._answered(units[index], completion)
                if progress is not None:
                    progress(self.counts, len(self.pool.active))

        return Call(model, [self.asker.request(unit) for unit in units], on_answer)

    def _answered(self, unit: Unit, completion: Completion) -> None:
        agent = self.asker.agent(unit)
        if completion.finish == "failed":
            self._failed(unit, agent, completion)
            return
        self._failures[agent] = self._failures[unit.id] = 0
        cut = completion.finish == "length"
        usage = completion.usage.to_record()
        # Half a surrogate pair has no UTF-8: neither the journal nor another server could take it.
        text = completion.text.encode("utf-8", "replace").decode("utf-8")
        event = Event(unit.id, unit.stage, text, cut, usage)
        self.outputs.journal.append(event)
        opener = self._take(event)
        if opener.opened:
            self.pool.spread(opener)

    def _failed(self, unit: Unit, agent: str, completion: Completion) -> None:
        reason = completion.failure or "no reason given"
        self._failures[unit.id] += 1
        # A server that refuses one dialogue (a filter, say) reads it and is not down for that.
        read = completion.usage.input or completion.usage.output
        self._failures[agent] = 0 if read else self._failures[agent] + 1
        if self._failures[unit.id] >= UNIT_FAILURES:
            self.parked[unit.id] = f"{agent}: {reason}"
            self.pool.active.pop(unit.id, None)
        if self._failures[agent] >= AGENT_FAILURES:
            raise MedalError(
                f"{agent} failed {AGENT_FAILURES} times in a row: {reason}",
                hint="run the same command again: it goes on from here",
            )

    def _take(self, event: Event) -> Unit:
        """Go on by an event, live or out of the journal; the unit it belongs to."""
        unit = self.pool.unit(event)
        agent = self.asker.agent(unit)
        step = self.pool.take(unit, event)
        self.outputs.add(step)
        self.counts.add(agent, event, step)
        return step.unit


def prepare(
    config: GenerateConfig,
    *,
    chatbots: Sequence[str] | None = None,
    overwrite: bool = False,
    max_cost: float | None = None,
) -> Run:
    """A run of ``config`` that takes up what its folder holds. ``chatbots``: only these speak.

    Raises ConfigError for settings that do not fit each other, and MedalError for a folder that
    was made with others.
    """
    _require_known(config, chatbots)
    contexts = contexts_for(config.contexts, config.languages, config.seed)
    plan = plan_of(config, contexts, chatbots)
    asker = Asker(config)
    outputs = Outputs(config.out, record_of(config, asker, contexts), overwrite=overwrite)
    pool = Pool(plan, rules_of(config), config.at_once)
    run = Run(config, plan, pool, asker, Agents(settings_of(config)), outputs, Budget(max_cost))
    try:
        with room_in(config.out):
            run.restore()
    except BaseException:
        outputs.close()
        raise
    return run


def plan_of(
    config: GenerateConfig, contexts: Sequence[SeedContext], chatbots: Sequence[str] | None = None
) -> Plan:
    """The plan of ``config`` over ``contexts``."""
    users = [agent.name for agent in config.users]
    return Plan(contexts, users, [agent.name for agent in config.chatbots], chatbots)


def rules_of(config: GenerateConfig) -> Rules:
    """The protocol's numbers in ``config``."""
    return Rules(config.first_turn.tries, config.later_turns.tries, config.max_turns)


def record_of(
    config: GenerateConfig, asker: Asker, contexts: Sequence[SeedContext]
) -> dict[str, Any]:
    """What says whether two runs make the same dialogues; stands in run.json."""
    from medal_judges import __version__
    from medal_judges.signature import content_hash

    decodings = ("first_turn", "later_turns", "check", "reply")
    settings: dict[str, Any] = {"seed": config.seed, "max_turns": config.max_turns}
    for name in decodings:
        decoding = getattr(config, name).model_dump(exclude={"prompt"})
        settings[name] = {**decoding, "prompt": content_hash(asker.prompts()[name].model_dump())}
    return {
        "version": __version__,
        "settings": settings,
        "agents": {name: identity(llm) for name, llm in settings_of(config).items()},
        "languages": list(config.languages),
        "contexts": {context.id: context.country for context in contexts},
    }


def _require_known(config: GenerateConfig, chatbots: Sequence[str] | None) -> None:
    known = [agent.name for agent in config.chatbots]
    for name in chatbots or ():
        if name not in known:
            raise ConfigError(
                f"no chatbot {name!r} in the config", hint=f"it has: {', '.join(known)}"
            )
