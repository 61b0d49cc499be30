"""``medal data followups``: language models propose a pool of follow-ups (DIET, section 3.1).

SELFMAP: the model that will judge proposes the pool. CRAFT: several other models do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import Field, model_validator

from medal_judges.config import Config
from medal_judges.data_prep.jobs import (
    Agents,
    Answer,
    JobRunner,
    answer_settings,
    path_beside,
)
from medal_judges.models.followup.pool import FollowUp, FollowUpPool, Sign, Strategy
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.llm.settings import LLMConfig, llm_config
from medal_judges.models.prompted.answers import without_thinking
from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.signature import content_hash
from medal_judges.storage.jsonl import Journal

# at the beginning of a stripped line
_MARK = re.compile(r"(?:\d{1,3}\s{0,3}[.):]|[-*•])")
_PROMPTS = "prompts/diet_generation"
_TEMPERATURE = 0.8
_MAX_TOKENS = 400
_MOST_WORDS = 20  # of an utterance; longer lines are the model explaining itself


class FollowUpsConfig(Config):
    """Settings of ``medal data followups`` (DIET, sections 3.1 and 4.1).

    A follow-up is a message with which a user might react to a reply.

    Attributes:
        llms: The models that are asked for follow-ups.
        strategy: Which model may judge with these follow-ups: ``selfmap`` (only the one in
            ``llms``), ``craft`` (only one that is not in ``llms``) or None (any).
        judge: Only for ``craft``: the name of the model that will judge. It must not be in
            ``llms``.
        signs: What the follow-ups express: ``negative`` (the user is dissatisfied), ``positive``
            (satisfied) or both.
        count: The number of follow-ups to ask for in one request.
        samples: The number of requests to each model for each sign.
    """

    llms: tuple[str | Mapping[str, Any], ...] = Field(
        default=("embedded:smollm2",), min_length=1
    )
    strategy: Strategy | None = None
    judge: str | None = None
    signs: tuple[Sign, ...] = Field(default=("negative",), min_length=1)
    count: int = Field(default=12, ge=1)
    samples: int = Field(default=4, ge=1)

    @model_validator(mode="after")
    def _check_judge(self) -> FollowUpsConfig:
        if self.strategy == "selfmap" and len(self.llms) != 1:
            raise ValueError("give llms one model for selfmap: the one that will judge")
        names = [
            llm if isinstance(llm, str) else str(llm.get("model")) for llm in self.llms
        ]
        if self.strategy == "craft" and self.judge in names:
            raise ValueError(f"craft: {self.judge} will judge. Leave it out of llms")
        return self


@dataclass(slots=True)
class FollowUpRequest:
    """One request to a model for follow-ups, which are messages that a user might send next.

    Attributes:
        id: A hash of the settings, ``sign`` and ``k``, such as ``3f2a:negative:0``.
        sign: What the follow-ups express: ``negative`` (the user is dissatisfied) or ``positive``
            (satisfied).
        k: The index of the request among those for this sign, from 0.
        text: The model's answer. None before it arrives.
        stage: Name of the step, for the file of answers. Always ``propose``.
    """

    id: str
    sign: Sign
    k: int
    text: str | None = None
    stage: str = "propose"


class FollowUpRunner(JobRunner[FollowUpRequest]):
    """Runner that asks one language model for follow-ups, which are messages that a user might
    send next.

    Attributes:
        config: The settings, such as the number of requests.
        prompt: The prompt that asks for a list of follow-ups.
        jobs: Id -> request, for all requests.

    Raises:
        DataError: The journal, the file of earlier answers, has a damaged line.
    """

    def __init__(
        self, config: FollowUpsConfig, llm: LLMConfig, journal: Journal
    ) -> None:
        super().__init__(journal, Agents({llm.model: llm}))
        self.config = config
        parts = ("context", "negative", "positive")
        self.prompt = load_prompt(_PROMPTS, ("count",), parts)
        # What decides an answer, by content: an edited prompt asks anew.
        settings = config.model_dump(mode="json", exclude={"llms"})
        made_by = content_hash([settings, self.prompt.hash, answer_settings(llm)])
        self.jobs: dict[str, FollowUpRequest] = {}
        for sign in config.signs:
            for k in range(config.samples):
                id = f"{made_by}:{sign}:{k}"
                self.jobs[id] = FollowUpRequest(id, sign, k)
        self.replay_journal()
        self.active = {id: job for id, job in self.jobs.items() if job.text is None}

    def begin_job(self, id: str) -> FollowUpRequest | None:
        return self.jobs[id]

    def belongs_to_run(self, answer: Answer) -> bool:
        return answer.id in self.jobs

    def make_request(self, job: FollowUpRequest) -> ChatRequest:
        values = {"count": self.config.count}
        context = self.prompt.render("context", values)
        text = f"{context} {self.prompt.render(job.sign, values)}"
        return ChatRequest(
            (Message("user", text),),
            _MAX_TOKENS,
            _TEMPERATURE,
            top_p=0.95,
            seed=job.k,
        )

    def apply_answer(self, job: FollowUpRequest, answer: Answer) -> None:
        job.text = answer.answer
        self.active.pop(job.id, None)


def generate_follow_ups(
    name: str, config: FollowUpsConfig, out: Path
) -> FollowUpPool | None:
    """Asks the models of ``config`` for follow-ups, which are messages with which a user might
    react to a reply.

    Args:
        name: The name of the returned pool.
        config: The models, and how many follow-ups to ask for.
        out: The file in which the caller will save the pool. This function only writes a journal of
            answers beside it, from which a second run resumes.

    Returns:
        A pool (collection) of the distinct follow-ups. Follow-ups that differ only in case or
        punctuation count once. None if no model lists any.

    Raises:
        ConfigError: A model cannot be loaded.
        DataError: The journal is damaged.
        MedalError: 25 requests to a model fail in a row.
    """
    journal = Journal(path_beside(out, "answers"))
    distinct: dict[tuple[str, str], FollowUp] = {}
    for setting in config.llms:
        runner = FollowUpRunner(config, llm_config(setting), journal)
        runner.run()
        llm = runner.agents.get(llm_config(setting).model)
        for job in runner.jobs.values():
            for text in parse_follow_ups(job.text or ""):
                key = (" ".join(re.findall(r"\w+", text.casefold())), job.sign)
                distinct.setdefault(
                    key,
                    FollowUp(text=text, sign=job.sign, by=llm.name),
                )
        llm.close()  # before the next model is loaded
    if not distinct:
        journal.path.unlink(missing_ok=True)
        return None
    return FollowUpPool(
        name=name,
        strategy=config.strategy,
        generators=tuple(dict.fromkeys(f.by for f in distinct.values() if f.by)),
        follow_ups=tuple(distinct.values()),
    )


def parse_follow_ups(answer: str) -> list[str]:
    """Returns the items of the numbered or bulleted list in ``answer``, without quotation marks.
    They are follow-ups, messages that a user might send next.

    Items of more than 20 words, in which models explain themselves, are left out. Lines outside the
    list are left out too.
    """
    utterances = []
    for line in without_thinking(answer).splitlines():  # lists are drafted there
        if (mark := _MARK.match(line.strip())) is None:
            continue
        text = line.strip()[mark.end() :].strip().strip("\"'“”‘’*").strip()
        if len(text.split()) <= _MOST_WORDS and re.search(r"\w", text):
            utterances.append(text)
    return utterances
