"""Who is told what: from a unit to the request that its next answer comes from.

The user agent and the user judge see the seed context, the chatbot never does. The user agent is
shown every rejected attempt at its message with the reason; the user judge the dialogue, then the
message in question; the chatbot the dialogue, as a chat (MEDAL, section 3.1 and Tables 7 to 10).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from medal_judges.data_prep.generation.config import Decoding, GenerateConfig
from medal_judges.data_prep.generation.unit import Rejection, Stage, Unit
from medal_judges.data_prep.seeds.languages import language_name
from medal_judges.dialogue import Turn
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.prompted.prompt import Prompt, load_prompt, transcript

CONTEXT_PLACEHOLDERS = frozenset(("scene", "persona", "gender", "affect", "language", "country"))
USER_PLACEHOLDERS = CONTEXT_PLACEHOLDERS | {"dialogue", "rejected", "feedback"}
JUDGE_PLACEHOLDERS = CONTEXT_PLACEHOLDERS | {"dialogue", "message"}
_NO_DIALOGUE = "(nothing yet: it is the first message)"

VERDICT = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["Yes", "No"]},
        "reason": {"type": "string", "maxLength": 120},
    },
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}


class Asker:
    """Words the requests of a run. Raises ConfigError for a prompt file that does not fit: with a
    placeholder that is not known there, or without what its agent has to see."""

    def __init__(self, config: GenerateConfig) -> None:
        self.config = config
        self.first = load_prompt(config.first_turn.prompt, USER_PLACEHOLDERS - {"dialogue"})
        self.later = load_prompt(config.later_turns.prompt, USER_PLACEHOLDERS)
        self.check = load_prompt(config.check.prompt, JUDGE_PLACEHOLDERS)
        self.chatbot = load_prompt(config.reply.prompt, ())
        _require(self.first, "first_turn", "{scene}", "{persona}")
        _require(self.later, "later_turns", "{dialogue}")
        _require(self.check, "check", "{dialogue}")
        _require(self.check, "check", "{message}")
        if "user" in self.chatbot.parts:
            raise ConfigError(
                f"reply.prompt: {self.chatbot.name} has a part 'user', but a chatbot is given the "
                "dialogue as a chat",
                hint="put it into 'system'",
            )

    def prompts(self) -> dict[str, Prompt]:
        """Setting -> the prompt file it names."""
        return {
            "first_turn": self.first,
            "later_turns": self.later,
            "check": self.check,
            "reply": self.chatbot,
        }

    def agent(self, unit: Unit) -> str:
        """Name of the agent whose answer ``unit`` waits for: ``user:``, ``judge:`` or ``chatbot:``
        and its own name."""
        if unit.stage == "say":
            return f"user:{unit.user}"
        if unit.stage == "check":
            return f"judge:{self.config.user_judge.name}"
        return f"chatbot:{unit.chatbot}"

    def request(self, unit: Unit) -> ChatRequest:
        """The question whose answer ``unit`` waits for.

        Its seed depends on the run's seed, the unit, the turn and the try and on nothing else, so
        that a question asked again after a kill is the same question.
        """
        if unit.stage == "say":
            tried = self.config.later_turns if unit.turns else self.config.first_turn
            decoding: Decoding = tried
            messages = self._user(unit)
        elif unit.stage == "check":
            decoding, messages = self.config.check, self._judge(unit)
        else:
            decoding, messages = self.config.reply, self._chatbot(unit)
        request = _request(messages, decoding, self._seed(unit, unit.stage))
        if unit.stage == "check" and self.config.check.enforce:
            return replace(request, schema=VERDICT)
        return request

    def _user(self, unit: Unit) -> list[Message]:
        values = _context(unit)
        if unit.turns:
            values["dialogue"] = transcript(unit.turns)
        prompt = self.later if unit.turns else self.first
        return prompt.messages(values, again=[_attempt(r) for r in unit.rejections])

    def _judge(self, unit: Unit) -> list[Message]:
        values = _context(unit)
        values["dialogue"] = transcript(unit.turns) or _NO_DIALOGUE
        values["message"] = transcript([Turn("user", unit.candidate_text)])
        return self.check.messages(values)

    def _chatbot(self, unit: Unit) -> list[Message]:
        told = self.chatbot.messages({})
        system = [message for message in told if message.role == "system"]
        return [*system, *(Message(turn.role, turn.content) for turn in unit.turns)]

    def _seed(self, unit: Unit, stage: Stage) -> int:
        place = f"{self.config.seed}:{unit.id}:{len(unit.turns)}:{unit.attempt}:{stage}"
        return int.from_bytes(hashlib.sha256(place.encode()).digest()[:4], "big") >> 1


def _require(prompt: Prompt, role: str, *placeholders: str) -> None:
    """Raise ConfigError where ``prompt`` has none of ``placeholders``."""
    told = prompt.parts.get("system", "") + prompt.parts.get("user", "")
    if not any(placeholder in told for placeholder in placeholders):
        raise ConfigError(
            f"{role}.prompt: {prompt.name} shows no {' and no '.join(placeholders)}",
            hint=f"put {placeholders[0]} where it belongs, as the files of configs/prompts/ do",
        )


def _attempt(rejection: Rejection) -> dict[str, str | None]:
    return {
        "rejected": " ".join(rejection.text.split()) or "(an empty message)",
        "feedback": rejection.reason or "No reason was given.",
    }


def _context(unit: Unit) -> dict[str, str | None]:
    context = unit.context
    return {
        "scene": context.scene,
        "persona": context.persona,
        "gender": context.gender,
        "affect": context.affect,
        "language": language_name(context.lang),
        "country": context.country,
    }


def _request(messages: list[Message], decoding: Decoding, seed: int) -> ChatRequest:
    return ChatRequest(
        tuple(messages),
        max_tokens=decoding.max_tokens,
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        seed=seed,
        presence_penalty=decoding.presence_penalty,
        accept_truncated=True,
    )
