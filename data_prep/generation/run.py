"""A run of ``medal generate``: its folder, which dialogues it makes, in which order, which are
active, and the counts of its answers.

journal.jsonl holds every answer in the order of arrival and is all that a resume needs;
dialogues.jsonl and rejected.jsonl are made from it.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

from medal_judges import __version__
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.requests import RequestBuilder
from medal_judges.data_prep.generation.state import DialogueState
from medal_judges.data_prep.jobs import Agents, Answer, JobRunner
from medal_judges.data_prep.seeds.contexts import contexts_for
from medal_judges.errors import MedalError
from medal_judges.models.llm.protocol import ChatRequest
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_path, atomic_write, only_run
from medal_judges.storage.jsonl import Journal, to_line

RECORD, DIALOGUES, REJECTED = "run.json", "dialogues.jsonl", "rejected.jsonl"
# The record goes last: a kill before that leaves a folder that is still known as a run's.
_OWN = ("journal.jsonl", DIALOGUES, REJECTED, "summary.json", RECORD)
_PARTS = ("settings", "agents", "contexts")


class Outputs:
    """``folder`` of one run, held by one process until ``close``. ``record`` (see RECORD) says
    whether two runs make the same dialogues. ``overwrite`` removes the files of an earlier run.

    Raises MedalError for a folder that another process or another run holds.
    """

    def __init__(self, folder: Path, record: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.folder = folder
        self.journal = Journal(folder / "journal.jsonl")
        self._streams: dict[str, IO[str]] = {}
        path = folder / RECORD
        with ExitStack() as held:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(only_run(folder, folder=True))
            if overwrite and path.exists():
                _read_record(path)
                for name in _OWN:
                    (folder / name).unlink(missing_ok=True)
            if path.exists():
                _require_same(folder, _read_record(path), record)
            elif foreign := [name for name in _OWN if (folder / name).exists()]:
                raise MedalError(
                    f"{folder / foreign[0]} exists, but no {RECORD} that says what made it",
                    hint="give another folder with --out DIR, or remove the file yourself",
                )
            self.write_json(RECORD, record)
            self._held = held.pop_all()

    @contextmanager
    def rebuilding(self) -> Iterator[None]:
        """While the block runs, ``add`` writes dialogues and rejections beside the old files; then
        these are replaced, and later ones are appended."""
        with ExitStack() as replacing:
            for name in (DIALOGUES, REJECTED):
                partial = replacing.enter_context(atomic_path(self.folder / name))
                stream = partial.open("w", encoding="utf-8", newline="\n")
                self._streams[name] = self._held.enter_context(stream)
            yield
            self.flush()

    def add(self, line: Mapping[str, Any] | LabelledDialogue) -> None:
        """Write a rejected turn or a finished dialogue."""
        name = DIALOGUES if isinstance(line, LabelledDialogue) else REJECTED
        self._streams[name].write(to_line(line))

    def flush(self) -> None:
        """Make the journal durable and let readers see the files; called after each round."""
        self.journal.sync()
        for stream in self._streams.values():
            stream.flush()

    def close(self) -> None:
        """Close the files and release the folder."""
        self._held.close()

    def arrange(self, order: Iterable[str]) -> None:
        """Sort the finished dialogues into ``order`` (ids), so that the file does not depend on
        which server was faster. Memory holds offsets, not texts."""
        path = self.folder / DIALOGUES
        places = {json.loads(line)["id"]: start for start, line in Journal(path).lines()}
        with path.open("rb") as source, atomic_path(path) as partial, partial.open("wb") as target:
            for id in order:
                if id in places:
                    source.seek(places[id])
                    target.write(source.readline())

    def write_json(self, name: str, value: Mapping[str, object]) -> None:
        """Write run.json or summary.json."""
        text = json.dumps(value, indent=2, ensure_ascii=False, default=str) + "\n"
        atomic_write(self.folder / name, text)


def _read_record(path: Path) -> dict[str, Any]:
    """The record at ``path``. Raises MedalError if no run wrote it."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        record = None
    if not isinstance(record, dict) or not set(record) >= set(_PARTS):
        raise MedalError(
            f"{path} is no record of medal generate, so its folder is left unchanged",
            hint="give another folder with --out DIR, or remove the file yourself",
        )
    return record


def _require_same(folder: Path, there: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise MedalError if ``now`` makes other dialogues than ``there``. Chatbots, languages and
    contexts may be added. The country of a context is no part of its id, so it is compared too."""
    for part in _PARTS:
        for name, old in there[part].items():
            problem = f"{name}: {old!r} there, {now[part].get(name)!r} now"
            if name not in now[part]:
                problem = f"{name} is not in this run any more"
            elif now[part][name] == old:
                continue
            raise MedalError(
                f"{folder} was made with other settings: {part}: {problem}",
                hint="give another --out, or start again from the beginning with --overwrite",
            )


# Settings that say where a model is served and how fast, but change no dialogue.
_CONNECTION = {
    *("base_url", "api_key_env", "max_in_flight", "timeout", "attempts", "longest_wait"),
    *("max_cost", "prices", "cache", "device", "token_budget"),
    "tokenizer",
}


class GenerationCounts:
    """Counts of the answers of this run and of earlier ones in the same folder.

    ``ended``: finished dialogues by the way they ended. ``first`` and ``later``: at which try (from
    1) a user's turn was accepted, 0 if none was. ``user_turns``: accepted and rejected ones, of
    these ``by_rule`` without a judge, and ``unreadable`` verdicts that were neither yes nor no.
    ``turns`` and ``dialogues``: finished ones by language. ``usage``: by agent.
    """

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.first: Counter[int] = Counter()
        self.later: Counter[int] = Counter()
        self.user_turns: Counter[str] = Counter()
        self.replies = 0
        self.turns: Counter[str] = Counter()
        self.dialogues: Counter[str] = Counter()
        self.usage: dict[str, Counter[str]] = defaultdict(Counter)

    @property
    def finished(self) -> int:
        """The number of finished dialogues."""
        return self.ended.total()

    @property
    def failed_openers(self) -> int:
        """The number of first messages without an accepted try: their dialogues do not exist."""
        return self.first[0]

    def add(
        self, agent: str, answer: Answer, state: DialogueState, rejection: dict[str, Any] | None
    ) -> None:
        """Count an answer of ``agent`` and what it led to."""
        self.usage[agent].update({"requests": 1, **answer.usage})
        self.replies += answer.stage == "reply"
        tries = self.first if state.chatbot is None else self.later
        if rejection is not None:
            self.user_turns["rejected"] += 1
            self.user_turns["by_rule"] += rejection["by"] == "rule"
            self.user_turns["unreadable"] += not rejection["readable"]
            tries[0] += state.ended == "rejected"
        elif answer.stage == "check":
            self.user_turns["accepted"] += 1
            tries[state.tries[-1]] += 1
        if state.ended is not None and state.chatbot is not None:
            self.ended[state.ended] += 1
            self.turns[state.context.lang] += len(state.turns)
            self.dialogues[state.context.lang] += 1

    def to_record(self) -> dict[str, Any]:
        """summary.json; money only if a price is known."""

        def tries(counts: Counter[int]) -> dict[str, int]:
            accepted = {str(number): counts[number] for number in sorted(counts) if number}
            return accepted | {"never": counts[0]}

        return {
            "finished": self.finished,
            "ended": dict(self.ended),
            "first_messages_without_accepted_try": self.failed_openers,
            "user_turns": {
                "accepted": self.user_turns["accepted"],
                "rejected": self.user_turns["rejected"],
                "rejected_by_rule": self.user_turns["by_rule"],
                "unreadable_verdicts": self.user_turns["unreadable"],
                "accepted_at_try_first_turn": tries(self.first),
                "accepted_at_try_later_turns": tries(self.later),
            },
            "chatbot_turns": self.replies,
            "mean_turns": {
                lang: round(self.turns[lang] / count, 3)
                for lang, count in sorted(self.dialogues.items())
            },
            "usage": {agent: dict(usage) for agent, usage in sorted(self.usage.items())},
        }


class GenerationRun(JobRunner[DialogueState]):
    """One run of ``config``. It resumes what its folder holds. Dialogues are ordered by context,
    then user, then chatbot; at most ``config.at_once`` are active.

    ``chatbots``: only these speak; dialogues of other chatbots keep their positions. ``openers``
    maps the id of a first message to its context and user. ``accepted`` and ``failed`` are first
    messages, ``done`` are ids of dialogues.

    Raises ConfigError for settings that do not fit, and MedalError for a folder that was made with
    other settings.
    """

    def __init__(
        self,
        config: GenerateConfig,
        *,
        chatbots: Sequence[str] = (),
        overwrite: bool = False,
        max_cost: float | None = None,
        agents: Callable[[GenerateConfig], Agents] | None = None,
    ) -> None:
        self.config = config
        self.chatbots = [agent.name for agent in config.chatbots]
        self.speaking = config.speaking(chatbots)
        contexts = contexts_for(config.contexts, config.languages, config.seed)
        users = [agent.name for agent in config.users]
        self.openers = {f"{c.id}--{user}": (c, user) for c in contexts for user in users}
        self.requests_of = RequestBuilder(config)
        self.counts = GenerationCounts()
        self.accepted: dict[str, DialogueState] = {}
        self.failed: set[str] = set()
        self.done: set[str] = set()
        settings: dict[str, object] = {"seed": config.seed, "max_turns": config.max_turns}
        for name, prompt in self.requests_of.prompts.items():
            decoding = getattr(config, name).model_dump(exclude={"prompt"})
            settings[name] = {**decoding, "prompt": content_hash(prompt.model_dump())}
        record = {
            "version": __version__,
            "settings": settings,
            "agents": {
                name: llm.model_dump(mode="json", exclude=_CONNECTION, exclude_unset=True)
                for name, llm in config.agents().items()
            },
            "contexts": {context.id: context.country for context in contexts},
        }
        self.outputs = Outputs(config.out, record, overwrite=overwrite)
        silent = {f"chatbot:{name}" for name in set(self.chatbots) - set(self.speaking)}
        heard = {name: llm for name, llm in config.agents().items() if name not in silent}
        models = agents(config) if agents is not None else Agents(heard)
        super().__init__(self.outputs.journal, models, max_cost=max_cost, per_call=config.per_call)
        try:
            with self.outputs.rebuilding():
                self.replay()
        except BaseException:
            self.outputs.close()
            raise
        # Dialogues of chatbots that do not speak in this run stay as the journal left them.
        speaking = {*self.speaking, None}
        self.active = {id: state for id, state in self.active.items() if state.chatbot in speaking}
        self._next = iter(self.openers)

    @property
    def dialogues(self) -> int:
        """The number of dialogues that the folder holds at the end, if every first message is
        accepted."""
        others = sum(id.rpartition("--")[2] not in self.speaking for id in self.done)
        return len(self.openers) * len(self.speaking) + others

    def order(self) -> Iterator[str]:
        """Ids of all dialogues, those of silent chatbots too."""
        return (f"{opener}--{bot}" for opener in self.openers for bot in self.chatbots)

    def run(self, progress: Callable[[], None] | None = None) -> None:
        try:
            super().run(progress)
            self.outputs.flush()
            self.outputs.arrange(self.order())
        finally:
            self.outputs.close()

    # -- what the runner asks for ------------------------------------------------------------------

    def agent(self, job: DialogueState) -> str:
        return job.agent

    def request(self, job: DialogueState) -> ChatRequest:
        return self.requests_of.request(job)

    def flush(self) -> None:
        self.outputs.flush()

    def begin(self, id: str) -> DialogueState | None:
        if id in self.done or id in self.accepted or id in self.failed:
            return None
        opener, _, chatbot = id.rpartition("--")
        if opener in self.openers and chatbot in self.chatbots:
            accepted = self.accepted.get(opener)
            return None if accepted is None else accepted.with_chatbot(chatbot)
        seed = self.openers.get(id)
        return None if seed is None else DialogueState(id, *seed, self.config)

    def fill(self) -> None:
        """Admit dialogues while there is room. A first message counts as the dialogues that follow
        it, so that these have room when it is accepted."""
        share = len(self.speaking)
        load = sum(share if state.chatbot is None else 1 for state in self.active.values())
        while load < self.config.at_once and (id := next(self._next, None)) is not None:
            if id in self.accepted:
                load += self._spread(self.accepted[id])
            elif id not in self.failed and id not in self.active:
                self.active[id] = DialogueState(id, *self.openers[id], self.config)
                load += share

    def _spread(self, opener: DialogueState) -> int:
        """Admit the dialogues of an accepted first message that do not exist yet."""
        count = 0
        for chatbot in self.speaking:
            id = f"{opener.id}--{chatbot}"
            if id not in self.done and id not in self.active:
                self.active[id] = opener.with_chatbot(chatbot)
                count += 1
        return count

    def apply(self, job: DialogueState, answer: Answer) -> None:
        agent = job.agent
        rejection = job.take(answer.answer, answer.cut)
        if job.over:
            del self.active[job.id]
            if job.chatbot is not None:
                self.done.add(job.id)
            elif job.opened:
                self.accepted[job.id] = job
            else:
                self.failed.add(job.id)
        if rejection is not None:
            self.outputs.add(rejection)
        if job.id in self.done:
            self.outputs.add(job.row())
        self.counts.add(agent, answer, job, rejection)

    def answered(self, job: DialogueState) -> None:
        if job.opened:
            self._spread(job)
