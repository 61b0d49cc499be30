"""Who is shown what: from the state of a dialogue to the request for its next answer.

The user agent and the user judge see the seed context, the chatbot never does. The user agent sees
every rejected attempt at its message with the reason; the user judge sees the dialogue and the
message to check; the chatbot sees the dialogue as a chat (MEDAL, section 3.1, Tables 7 to 10).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict

from medal_judges.data_prep.generation.config import Decoding, GenerateConfig
from medal_judges.data_prep.generation.state import DialogueState
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.prompted.prompt import Prompt, load_prompt, transcript
from medal_judges.records.dialogue import Turn
from medal_judges.records.languages import language

_CONTEXT = {"scene", "persona", "gender", "affect", "language", "country"}
_USER = _CONTEXT | {"rejected", "feedback"}
# Setting -> its placeholders, and those of which a prompt has to show one each.
_PROMPTS: dict[str, tuple[set[str], Sequence[tuple[str, ...]]]] = {
    "first_turn": (_USER, [("{scene}", "{persona}")]),
    "later_turns": (_USER | {"dialogue"}, [("{dialogue}",)]),
    "check": (_CONTEXT | {"dialogue", "message"}, [("{dialogue}",), ("{message}",)]),
    "reply": (set(), []),
}
_VERDICT_SCHEMA = {
    "type": "object",
    "properties": {
        "verdict": {"enum": ["Yes", "No"]},
        "reason": {"type": "string", "maxLength": 120},
    },
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}


class RequestBuilder:
    """Makes the requests of a run by its ``prompts`` (setting -> file). Raises ConfigError for a
    prompt with an unknown placeholder, or without what its agent has to see."""

    def __init__(self, config: GenerateConfig) -> None:
        self.config = config
        self.prompts: dict[str, Prompt] = {}
        for name, (placeholders, required) in _PROMPTS.items():
            prompt = self.prompts[name] = load_prompt(getattr(config, name).prompt, placeholders)
            shown = prompt.parts.get("system", "") + prompt.parts.get("user", "")
            for each in required:
                if not any(placeholder in shown for placeholder in each):
                    raise ConfigError(
                        f"{name}.prompt: {prompt.name} shows no {' and no '.join(each)}",
                        hint=f"put {each[0]} where it belongs, as the files of configs/prompts/ do",
                    )
        if "user" in self.prompts["reply"].parts:
            raise ConfigError(
                f"reply.prompt: {self.prompts['reply'].name} has a part 'user', but a chatbot gets "
                "the dialogue as a chat",
                hint="put it into 'system'",
            )

    def request(self, state: DialogueState) -> ChatRequest:
        """The question that ``state`` waits at. Its seed depends on the run's seed, the dialogue,
        the turn and the attempt only."""
        config, schema = self.config, None
        values: dict[str, str | None] = asdict(state.context)
        values["language"] = language(state.context.lang).name
        decoding: Decoding = config.reply
        if state.stage == "say":
            if state.turns:
                values["dialogue"] = transcript(state.turns)
            name = "later_turns" if state.turns else "first_turn"
            decoding = config.later_turns if state.turns else config.first_turn
            attempts = [
                {
                    "rejected": " ".join(each["text"].split()) or "(an empty message)",
                    "feedback": each["reason"] or "No reason was given.",
                }
                for each in state.rejections
            ]
            messages = self.prompts[name].messages(values, again=attempts)
        elif state.stage == "check":
            decoding = config.check
            nothing = "(nothing yet: it is the first message)"
            values["dialogue"] = transcript(state.turns) or nothing
            values["message"] = transcript([Turn("user", state.candidate_text)])
            messages = self.prompts["check"].messages(values)
            schema = _VERDICT_SCHEMA if config.check.enforce else None
        else:
            filled = self.prompts["reply"].messages({})
            messages = [message for message in filled if message.role == "system"]
            messages += [Message(turn.role, turn.content) for turn in state.turns]
        place = f"{len(state.turns)}:{len(state.rejections)}:{state.stage}"
        seed = hashlib.sha256(f"{config.seed}:{state.id}:{place}".encode()).digest()[:4]
        return ChatRequest(
            tuple(messages),
            max_tokens=decoding.max_tokens,
            temperature=decoding.temperature,
            top_p=decoding.top_p,
            seed=int.from_bytes(seed, "big") >> 1,
            schema=schema,
            presence_penalty=decoding.presence_penalty,
            accept_truncated=True,
        )
