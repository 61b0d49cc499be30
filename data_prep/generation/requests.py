"""Who is shown what: from the state of a dialogue to the request for its next answer.

The user agent and the user judge see the seed context, the chatbot never does. The user agent is
shown every rejected attempt at its message with the reason; the user judge the dialogue, then the
message in question; the chatbot the dialogue, as a chat (MEDAL, section 3.1 and Tables 7 to 10).
"""

from __future__ import annotations

import hashlib
from dataclasses import asdict

from medal_judges.data_prep.generation.config import Decoding, GenerateConfig
from medal_judges.data_prep.generation.dialogue_state import DialogueState, Rejection, Stage
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.prompted.prompt import Prompt, load_prompt, transcript
from medal_judges.records.dialogue import Turn
from medal_judges.records.languages import language

CONTEXT_PLACEHOLDERS = frozenset(("scene", "persona", "gender", "affect", "language", "country"))
USER_PLACEHOLDERS = CONTEXT_PLACEHOLDERS | {"dialogue", "rejected", "feedback"}
JUDGE_PLACEHOLDERS = CONTEXT_PLACEHOLDERS | {"dialogue", "message"}
_NO_DIALOGUE = "(nothing yet: it is the first message)"

VERDICT_SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["Yes", "No"]},
        "reason": {"type": "string", "maxLength": 120},
    },
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}


class RequestBuilder:
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

    def agent(self, state: DialogueState, stage: Stage) -> str:
        """Name of the agent that answers in ``stage``: ``user:``, ``judge:`` or ``chatbot:`` and
        its own name."""
        if stage == "say":
            return f"user:{state.user}"
        if stage == "check":
            return f"judge:{self.config.user_judge.name}"
        return f"chatbot:{state.chatbot}"

    def request(self, state: DialogueState) -> ChatRequest:
        """The question whose answer ``state`` waits for.

        Its seed depends on the run's seed, the dialogue, the turn and the attempt and on nothing
        else, so that a question asked again after a kill is the same question.
        """
        decoding: Decoding = self.config.reply
        schema = None
        if state.stage == "say":
            decoding = self.config.later_turns if state.turns else self.config.first_turn
            messages = self._user(state)
        elif state.stage == "check":
            decoding, messages = self.config.check, self._judge(state)
            schema = VERDICT_SCHEMA if self.config.check.enforce else None
        else:
            messages = self._chatbot(state)
        return ChatRequest(
            tuple(messages),
            max_tokens=decoding.max_tokens,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            seed=self._seed(state),
            schema=schema,
            presence_penalty=decoding.presence_penalty,
            accept_truncated=True,
        )

    def _user(self, state: DialogueState) -> list[Message]:
        values = _context(state)
        if state.turns:
            values["dialogue"] = transcript(state.turns)
        prompt = self.later if state.turns else self.first
        return prompt.messages(values, again=[_attempt(r) for r in state.rejections])

    def _judge(self, state: DialogueState) -> list[Message]:
        values = _context(state)
        values["dialogue"] = transcript(state.turns) or _NO_DIALOGUE
        values["message"] = transcript([Turn("user", state.candidate_text)])
        return self.check.messages(values)

    def _chatbot(self, state: DialogueState) -> list[Message]:
        system = [message for message in self.chatbot.messages({}) if message.role == "system"]
        return [*system, *(Message(turn.role, turn.content) for turn in state.turns)]

    def _seed(self, state: DialogueState) -> int:
        attempt = f"{len(state.turns)}:{len(state.rejections)}:{state.stage}"
        key = f"{self.config.seed}:{state.id}:{attempt}"
        return int.from_bytes(hashlib.sha256(key.encode()).digest()[:4], "big") >> 1


def _require(prompt: Prompt, role: str, *placeholders: str) -> None:
    """Raise ConfigError where ``prompt`` has none of ``placeholders``."""
    shown = prompt.parts.get("system", "") + prompt.parts.get("user", "")
    if not any(placeholder in shown for placeholder in placeholders):
        raise ConfigError(
            f"{role}.prompt: {prompt.name} shows no {' and no '.join(placeholders)}",
            hint=f"put {placeholders[0]} where it belongs, as the files of configs/prompts/ do",
        )


def _attempt(rejection: Rejection) -> dict[str, str | None]:
    return {
        "rejected": " ".join(rejection.text.split()) or "(an empty message)",
        "feedback": rejection.reason or "No reason was given.",
    }


def _context(state: DialogueState) -> dict[str, str | None]:
    return asdict(state.context) | {"language": language(state.context.lang).name}
