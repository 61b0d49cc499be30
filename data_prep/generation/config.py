"""The settings of ``medal generate``, see configs/generate/."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path

from pydantic import Field, field_validator, model_validator

from medal_judges.config import Config
from medal_judges.data_prep.seeds.contexts import SeedsConfig
from medal_judges.errors import ConfigError
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.models.prompted.prompt import Prompt

# Ids are names with "--" between them, so a name neither holds that nor ends with "-".
_NAME = re.compile(r"\A[\w.+]+(?:-[\w.+]+)*\Z")


class AgentConfig(Config):
    """A language model (see load_llm) and its name in ids and tables."""

    name: str
    llm: LLMConfig

    @field_validator("name")
    @classmethod
    def _usable(cls, name: str) -> str:
        if not _NAME.match(name):
            raise ValueError(
                f"a name is letters, digits, '.', '_', '+' and single '-' between them: {name!r}"
            )
        return name


class Decoding(Config):
    """How one kind of message is sampled. ``prompt``: a prompt file (models/prompted/prompt.py), or
    the fields of one."""

    prompt: str | Prompt
    temperature: float = Field(ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    max_tokens: int = Field(default=512, ge=1)


class RetriedDecoding(Decoding):
    """Decoding of a user's message. ``tries``: the most attempts if the user judge rejects it."""

    tries: int = Field(ge=1)


class VerdictDecoding(Decoding):
    """Decoding of the user judge's verdict. ``enforce``: require a JSON answer if the backend can,
    for models that do not keep to "Yes." and "No."."""

    enforce: bool = False


class GenerateConfig(Config):
    """Settings of a run; the defaults are MEDAL's (appendix C.2).

    Each user model writes one first message for each seed context and language, and every chatbot
    gets it. ``max_turns`` counts messages of both sides. ``at_once``: dialogues that run together
    (bounds memory). ``per_call``: requests to a local model at a time (a kill loses at most these).
    """

    name: str
    out: Path
    seed: int = 0
    languages: tuple[str, ...] = Field(min_length=1)
    contexts: SeedsConfig
    users: tuple[AgentConfig, ...] = Field(min_length=1)
    user_judge: AgentConfig
    chatbots: tuple[AgentConfig, ...] = Field(min_length=1)
    first_turn: RetriedDecoding = RetriedDecoding(
        prompt="user_first", temperature=1.5, presence_penalty=0.6, max_tokens=512, tries=10
    )
    later_turns: RetriedDecoding = RetriedDecoding(
        prompt="user_later", temperature=0.9, top_p=0.95, tries=5
    )
    check: VerdictDecoding = VerdictDecoding(prompt="user_check", temperature=0.1, max_tokens=64)
    reply: Decoding = Decoding(prompt="chatbot", temperature=0.9, top_p=0.95)
    max_turns: int = Field(default=10, ge=2)
    at_once: int = Field(default=512, ge=1)
    per_call: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _distinct(self) -> GenerateConfig:
        for what in ("users", "chatbots"):
            counts = Counter(agent.name for agent in getattr(self, what))
            if twice := [name for name, count in counts.items() if count > 1]:
                raise ValueError(f"{what}: the name {twice[0]!r} is given twice")
        if len(set(self.languages)) < len(self.languages):
            raise ValueError("languages: a language is given twice")
        return self

    def agents(self, speaking: Collection[str] | None = None) -> dict[str, LLMConfig]:
        """The ``llm`` setting of each agent (``user:``, ``judge:`` or ``chatbot:`` and its name);
        of the chatbots only those that are ``speaking``."""
        named = [("user", agent) for agent in self.users] + [("judge", self.user_judge)]
        named += [
            ("chatbot", bot) for bot in self.chatbots if speaking is None or bot.name in speaking
        ]
        return {f"{role}:{agent.name}": agent.llm for role, agent in named}

    def speaking(self, chatbots: Sequence[str] = ()) -> list[str]:
        """The names in ``chatbots``, or of all chatbots if it is empty. Raises ConfigError for an
        unknown name."""
        known = [agent.name for agent in self.chatbots]
        if unknown := [name for name in chatbots if name not in known]:
            hint = f"it has: {', '.join(known)}"
            raise ConfigError(f"no chatbot {unknown[0]!r} in the config", hint=hint)
        return list(chatbots) or known
