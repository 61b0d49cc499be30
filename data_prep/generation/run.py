"""A run of ``medal generate``: its folder, its dialogues and their order, and the counts.

journal.jsonl has every answer, and a second run resumes from it alone. dialogues.jsonl and
rejected.jsonl are made from it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from medal_judges.data_prep.generation.protocol import (
    DialogueState,
    GenerateConfig,
    load_prompts,
    next_request,
)
from medal_judges.data_prep.jobs import Agents, Answer, JobRunner, answer_settings
from medal_judges.data_prep.seeds.contexts import SeedContext, make_contexts
from medal_judges.errors import MedalError
from medal_judges.models.llm.protocol import ChatRequest
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_path, output_lock, read_json, write_json
from medal_judges.storage.jsonl import Journal, json_line
from medal_judges.storage.runs import require_same_run

RECORD = "run.json"
DIALOGUES = "dialogues.jsonl"
REJECTED = "rejected.jsonl"
# The record is removed last: a kill before that leaves a folder that is still known as a run's.
_OWN = ("journal.jsonl", DIALOGUES, REJECTED, "summary.json", RECORD)
# Settings that say where a model is served and how fast, but change no dialogue.
_CONNECTION = {
    "base_url",
    "api_key_env",
    "max_in_flight",
    "timeout",
    "attempts",
    "longest_wait",
    "max_cost",
    "prices",
    "cache",
    "device",
    "token_budget",
    "tokenizer",
}


class RunFolder:
    """The output files of ``medal generate`` in ``folder``, locked against other processes
    until ``close``.

    Args:
        folder: The folder. It is made if it is missing.
        record: The settings that change dialogues. They are written to run.json and must equal
            those of an earlier run.
        overwrite: Whether to remove the files of an earlier run, whatever its settings.

    Raises:
        MedalError: Another process uses the folder, an earlier run in it had other settings, or it
            has files that ``medal generate`` did not write.
    """

    def __init__(
        self,
        folder: Path,
        record: Mapping[str, Any],
        *,
        overwrite: bool = False,
    ) -> None:
        self.folder = folder
        self.journal = Journal(folder / "journal.jsonl")
        self._streams: dict[str, IO[str]] = {}
        with ExitStack() as resources:
            folder.mkdir(parents=True, exist_ok=True)
            resources.enter_context(output_lock(folder, folder=True))
            earlier = self._read_earlier_record()
            if earlier and overwrite:
                for name in _OWN:
                    (folder / name).unlink(missing_ok=True)
            elif earlier:
                require_same_run(folder, earlier, record)
            write_json(folder / RECORD, record)
            self._resources = resources.pop_all()

    def _read_earlier_record(self) -> dict[str, Any]:
        """Returns the content of run.json from an earlier run, or an empty mapping in a new folder.
        Raises MedalError if the folder has files that ``medal generate`` did not write."""
        path = self.folder / RECORD
        record: Any = {}
        if path.exists():
            with suppress(OSError, ValueError, RecursionError):
                record = read_json(path)
            if not isinstance(record, dict) or "contexts" not in record:
                record = None
        elif any((self.folder / name).exists() for name in _OWN):
            record = None
        if record is None:
            raise MedalError(
                f"{self.folder} has files that medal generate did not write",
                hint="Type another folder: --out FOLDER",
            )
        return dict(record)

    @contextmanager
    def rebuild_files(self) -> Iterator[None]:
        """Opens new, empty versions of dialogues.jsonl and rejected.jsonl, as a context manager.
        They replace the old files when the context ends without an error."""
        with ExitStack() as replacing:
            for name in (DIALOGUES, REJECTED):
                partial = replacing.enter_context(atomic_path(self.folder / name))
                stream = partial.open("w", encoding="utf-8", newline="\n")
                self._streams[name] = self._resources.enter_context(stream)
            yield
            self.flush()

    def write_line(self, line: Mapping[str, Any] | LabelledDialogue) -> None:
        """Writes ``line`` to its file: a finished dialogue to dialogues.jsonl, or a rejected user
        message to rejected.jsonl. Works only after ``rebuild_files`` has opened the files."""
        name = DIALOGUES if isinstance(line, LabelledDialogue) else REJECTED
        self._streams[name].write(json_line(line))

    def flush(self) -> None:
        """Syncs the journal (the file of answers) to the disk, and makes all lines written so far
        visible to readers of the other files."""
        self.journal.sync()
        for stream in self._streams.values():
            stream.flush()

    def close(self) -> None:
        self._resources.close()


class GenerationCounts:
    """Counts over all answers in the folder of a run, including earlier runs.

    Attributes:
        ended: How a dialogue ended (``user``, ``cap`` or ``rejected``) -> number of dialogues.
        first: Number of attempts -> number of first user messages accepted at that attempt, such as
            ``{1: 90, 2: 8}``. The key 0 counts messages that were never accepted.
        later: Number of attempts -> number of later user messages accepted at that attempt. The key
            0 counts messages that were never accepted.
        user_turns: Numbers of ``accepted`` and ``rejected`` attempts at user messages. Among the
            rejected ones, it counts those rejected ``by_rule`` and those with an ``unreadable``
            verdict (neither yes nor no).
        usage: Agent, such as ``chatbot:NAME`` -> sums of its requests, tokens, seconds and costs.
    """

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.first: Counter[int] = Counter()
        self.later: Counter[int] = Counter()
        self.user_turns: Counter[str] = Counter()
        self.usage: dict[str, Counter[str]] = defaultdict(Counter)

    @property
    def finished_count(self) -> int:
        return self.ended.total()

    @property
    def failed_opener_count(self) -> int:
        """The number of first messages that were never accepted."""
        return self.first[0]

    def to_record(self) -> dict[str, Any]:
        """Returns the counts as the content of summary.json."""
        return {
            "finished": self.finished_count,
            "ended": dict(self.ended),
            "user_turns": dict(self.user_turns),
            "tries_of_first_messages": dict(sorted(self.first.items())),
            "tries_of_later_turns": dict(sorted(self.later.items())),
            "usage": {agent: dict(usage) for agent, usage in self.usage.items()},
        }


class GenerationRun(JobRunner[DialogueState]):
    """One run of ``medal generate``, which continues from earlier runs in the same folder.

    Args:
        config: The settings.
        chatbots: Names of the chatbots to run now (default: all).
        overwrite: Whether to remove the files of earlier runs.
        max_cost: Cost limit in US dollars, or None.
        agents: Takes ``config`` and returns the language models, for tests. None loads the models
            that ``config`` names.

    Attributes:
        openers: Id of each first message, written or not -> (seed context, user name). The seed
            context is what the simulated user is told about itself.
        accepted: Id of a first message -> the message that the user judge accepted.
        failed: Ids of first messages that were never accepted.
        done: Ids of finished dialogues.

    Raises:
        ConfigError: A prompt has an unknown placeholder, a chatbot or language is unknown, or there
            are too few seed contexts.
        DataError: A file of seed contexts is missing or malformed, or the journal is damaged.
        MedalError: The folder was made with other settings, or another process uses it.
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
        self.chatbots = [*config.chatbots]
        self.speaking = config.select_chatbots(chatbots)
        contexts = make_contexts(config.contexts, config.languages, config.seed)
        self.openers: dict[str, tuple[SeedContext, str]] = {}
        for context in contexts:
            for user in config.users:
                self.openers[f"{context.id}--{user}"] = (context, user)
        self.prompts = load_prompts(config)
        self.counts = GenerationCounts()
        self.accepted: dict[str, DialogueState] = {}
        self.failed: set[str] = set()
        self.done: set[str] = set()
        countries = {context.id: context.country for context in contexts}
        record = self._recorded_settings() | {"contexts": content_hash(countries)}
        for name, llm in config.agent_settings().items():
            record[name] = answer_settings(llm, _CONNECTION)
        self.outputs = RunFolder(config.out, record, overwrite=overwrite)
        models = (
            agents(config)
            if agents is not None
            else Agents(config.agent_settings(self.speaking))
        )
        super().__init__(
            self.outputs.journal, models, max_cost=max_cost, per_call=config.per_call
        )
        try:
            with self.outputs.rebuild_files():
                self.replay_journal()
        except BaseException:
            self.outputs.close()
            raise
        # Dialogues of chatbots that do not speak in this run stay as the journal left them.
        speaking = {*self.speaking, None}
        self.active = {
            id: state for id, state in self.active.items() if state.chatbot in speaking
        }
        self._next = iter(self.openers)

    def _recorded_settings(self) -> dict[str, object]:
        """Returns the settings for run.json, with which a later run must agree: the seed, the
        maximum number of turns, and the sampling settings and prompts. The caller adds models and
        seed contexts."""
        settings: dict[str, object] = {
            "seed": self.config.seed,
            "max_turns": self.config.max_turns,
        }
        for name, prompt in self.prompts.items():
            decoding = getattr(self.config, name).model_dump(exclude={"prompt"})
            settings[name] = {**decoding, "prompt": content_hash(prompt.model_dump())}
        return settings

    @property
    def expected_dialogue_count(self) -> int:
        """The number of dialogues that the folder has in the end, if every first message is
        accepted. Finished dialogues of chatbots that this run leaves out count too."""
        of_silent = sum(id.rpartition("--")[2] not in self.speaking for id in self.done)
        return len(self.openers) * len(self.speaking) + of_silent

    def ordered_ids(self) -> Iterator[str]:
        """Yields the ids of all dialogues of all chatbots in the settings, sorted by seed context,
        user and chatbot."""
        for opener in self.openers:
            for chatbot in self.chatbots:
                yield f"{opener}--{chatbot}"

    def run(self, progress: Callable[[], None] | None = None) -> None:
        try:
            super().run(progress)
            self.outputs.flush()
            # Sorted, so that the file does not depend on which server was faster. Memory holds
            # offsets, not texts.
            file = self.config.out / DIALOGUES
            starts = {
                json.loads(line)["id"]: start
                for start, line in Journal(file).offsets_and_lines()
            }
            with (
                file.open("rb") as old,
                atomic_path(file) as partial,
                partial.open("wb") as new,
            ):
                for id in self.ordered_ids():
                    if id in starts:
                        old.seek(starts[id])
                        new.write(old.readline())
        finally:
            self.outputs.close()

    def next_agent(self, job: DialogueState) -> str:
        return job.next_agent

    def make_request(self, job: DialogueState) -> ChatRequest:
        return next_request(job, self.prompts)

    def flush(self) -> None:
        self.outputs.flush()

    def begin_job(self, id: str) -> DialogueState | None:
        if id in self.done or id in self.accepted or id in self.failed:
            return None
        opener, _, chatbot = id.rpartition("--")
        if opener in self.accepted and chatbot in self.chatbots:
            return self.accepted[opener].with_chatbot(chatbot)
        if id in self.openers:
            return DialogueState(id, *self.openers[id], self.config)
        return None

    def activate_jobs(self) -> None:
        """Starts first messages and dialogues until ``config.at_once`` dialogues are in progress.

        A first message counts as one dialogue for each chatbot, because all chatbots will answer
        it.
        """
        share = len(self.speaking)
        load = 0
        for state in self.active.values():
            load += share if state.chatbot is None else 1
        while load < self.config.at_once and (id := next(self._next, None)) is not None:
            if id in self.accepted:
                load += self._start_dialogues(self.accepted[id])
            elif id not in self.failed and id not in self.active:
                self.active[id] = DialogueState(id, *self.openers[id], self.config)
                load += share

    def _start_dialogues(self, opener: DialogueState) -> int:
        """Starts the missing dialogues, one per chatbot, that begin with the first message
        ``opener``. Returns how many it started."""
        count = 0
        for chatbot in self.speaking:
            dialogue = opener.with_chatbot(chatbot)
            if dialogue.id not in self.done and dialogue.id not in self.active:
                self.active[dialogue.id] = dialogue
                count += 1
        return count

    def apply_answer(self, job: DialogueState, answer: Answer) -> None:
        """Adds ``answer`` to the dialogue ``job`` and to the counts. Writes a rejected message to
        rejected.jsonl, and a finished dialogue to dialogues.jsonl.
        """
        counts = self.counts
        agent = job.next_agent
        rejection = job.apply_answer(answer.answer, answer.cut)
        counts.usage[agent].update({"requests": 1, **answer.usage})
        tries = counts.first if job.chatbot is None else counts.later
        if rejection is not None:
            self.outputs.write_line(rejection)
            counts.user_turns["rejected"] += 1
            counts.user_turns["by_rule"] += rejection["by"] == "rule"
            counts.user_turns["unreadable"] += not rejection["readable"]
            tries[0] += job.ended == "rejected"
        elif answer.stage == "check":
            counts.user_turns["accepted"] += 1
            tries[job.tries[-1]] += 1
        if job.is_over:
            del self.active[job.id]
            if job.chatbot is not None:
                self.done.add(job.id)
                self.outputs.write_line(job.to_row())
                counts.ended[str(job.ended)] += 1
            elif job.is_accepted_opener:
                self.accepted[job.id] = job
            else:
                self.failed.add(job.id)

    def on_answer(self, job: DialogueState) -> None:
        if job.is_accepted_opener:
            self._start_dialogues(job)
