"""MEDAL's protocol (section 3.1, Tables 7 to 10): the settings of ``medal generate``, how answers
are read, and the state of a dialogue.

The user agent and the user judge see the seed context, the chatbot never does. The user agent also
sees its rejected attempts at the current message."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints, model_validator

from medal_judges.config import Config
from medal_judges.data_prep.seeds.contexts import SeedContext, SeedsConfig
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import ChatRequest, Message, strict_object_schema
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.models.prompted.answers import without_thinking
from medal_judges.models.prompted.prompt import Prompt, load_prompt, transcript
from medal_judges.records.dialogue import Dialogue, Turn, language
from medal_judges.records.labelled import LabelledDialogue, choose_split

# Ids are names with "--" between them, so a name neither holds that nor ends with "-".
_NAME = r"^[\w.+]+(?:-[\w.+]+)*$"
END_OF_DIALOGUE = "END_OF_DIALOGUE"
# Anywhere as the prompt writes it, also with its underscores escaped or left out; in small letters
# and without them only if it is the whole answer, since people do speak of the end of dialogue.
_MARK = (
    r"(?:END(?:\\?[\s_-]){1,9}OF(?:\\?[\s_-]){1,9}DIALOGUE"
    r"|(?i:end(?:\\?_){1,9}of(?:\\?_){1,9}dialogue))"
)
_ALONE = r"\A\W{0,20}(?i:end\s{1,9}of\s{1,9}dialogue)\W{0,20}\Z"
# What encloses the mark is removed with it.
_END = re.compile(
    rf"{_ALONE}|\s{{0,20}}[*_`\"'(\[{{<]{{0,9}}(?<![A-Za-z]){_MARK}(?![A-Za-z])[*_`\"')\]}}>]*[.!]?\s*"
)
_LABEL = re.compile(
    r"\A(?:\*\*)?(?:user|human)(?:\*\*)?\s*[:\uff1a]\s*(?:\*\*)?\s*", re.IGNORECASE
)
_QUOTES = {
    '"': '"',
    "“": "”",
    "«": "»",
    "„": "“",
    "「": "」",
}
_VERDICT = re.compile(
    r"\A[\s*_`\"'([]*(yes|no)\b[\s*_`\"')\]]*[.,:;!\-–—\u3002\uff0c\uff1a\uff01]*\s*",
    re.IGNORECASE,
)
_FIELDS = re.compile(
    r'\A\{\s*"verdict"\s*:\s*"(Yes|No)"\s*(?:,\s*"reason"\s*:\s*"([^"]*))?'
)

_CONTEXT = {"scene", "persona", "gender", "affect", "language", "country"}
_USER = _CONTEXT | {"rejected", "feedback"}
# The values that the prompt of each setting may show.
_PROMPTS: dict[str, set[str]] = {
    "first_turn": _USER,
    "later_turns": _USER | {"dialogue"},
    "check": _CONTEXT | {"dialogue", "message"},
    "reply": set(),
}
_VERDICT_SCHEMA = strict_object_schema(
    {"verdict": {"enum": ["Yes", "No"]}, "reason": {"type": "string", "maxLength": 120}}
)


class RequestSettings(Config):
    """How one kind of message is requested from a model: its prompt, its sampling and its attempts.

    Attributes:
        prompt: The name or path of a prompt file, such as ``user_first``, or a mapping with its
            content.
        temperature: The sampling temperature.
        top_p: Sample only from the most likely tokens with this total probability.
        presence_penalty: Lowers the probability of tokens that already occurred.
        frequency_penalty: Lowers the probability of a token with each time that it occurred.
        max_tokens: The maximum length of a message, in tokens.
        tries: The maximum number of attempts at a message of the simulated user. Not used for
            replies and verdicts.
        enforce: Only for verdicts: whether the user judge must answer with a JSON object. This
            helps models that do not answer "Yes." or "No." by themselves.
    """

    prompt: str | Prompt
    temperature: float = Field(ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    presence_penalty: float = Field(default=0.0, ge=-2, le=2)
    frequency_penalty: float = Field(default=0.0, ge=-2, le=2)
    max_tokens: int = Field(default=512, ge=1)
    tries: int = Field(default=1, ge=1)
    enforce: bool = False


AgentName = Annotated[str, StringConstraints(pattern=_NAME)]
AgentConfigs = Annotated[dict[AgentName, LLMConfig], Field(min_length=1)]


class GenerateConfig(Config):
    """Settings of a generation run. The defaults are MEDAL's (appendix C.2).

    Each user model writes one first message for each seed context and language, and every chatbot
    answers the same message.

    Attributes:
        name: The name of the run, such as ``medal``, for readers of the file.
        out: The folder to write.
        seed: Determines the seed contexts and the seeds of requests.
        languages: The languages of the dialogues, such as ``en``.
        contexts: The seed contexts (what simulated users are told about themselves): how many, and
            from which files.
        users: Name -> model that plays a user, such as ``gemma: {backend: openai, model:
            ORG/NAME}``.
        user_judge: The model that accepts or rejects user messages.
        chatbots: Name -> model that answers the users.
        first_turn: How first user messages are requested and sampled.
        later_turns: How later user messages are requested and sampled.
        check: How verdicts of the user judge are requested and sampled.
        reply: How replies of chatbots are requested and sampled.
        max_turns: The maximum number of messages in a dialogue, of both sides.
        at_once: The number of dialogues in progress at a time. Lower it to need less memory.
        per_call: The number of requests sent to a local model at a time. If the run is killed, at
            most their answers are lost.
    """

    name: str
    out: Path
    seed: int = 0
    languages: tuple[str, ...] = Field(min_length=1)
    contexts: SeedsConfig
    users: AgentConfigs
    user_judge: LLMConfig
    chatbots: AgentConfigs
    first_turn: RequestSettings = RequestSettings(
        prompt="user_first",
        temperature=1.5,
        presence_penalty=0.6,
        max_tokens=512,
        tries=10,
    )
    later_turns: RequestSettings = RequestSettings(
        prompt="user_later", temperature=0.9, top_p=0.95, tries=5
    )
    check: RequestSettings = RequestSettings(
        prompt="user_check",
        temperature=0.1,
        max_tokens=64,
    )
    reply: RequestSettings = RequestSettings(
        prompt="chatbot",
        temperature=0.9,
        top_p=0.95,
    )
    max_turns: int = Field(default=10, ge=2)
    at_once: int = Field(default=512, ge=1)
    per_call: int = Field(default=256, ge=1)

    @model_validator(mode="after")
    def _check_languages(self) -> GenerateConfig:
        if len(set(self.languages)) < len(self.languages):
            raise ValueError("languages: give each language once")
        return self

    def agent_settings(
        self, speaking: Sequence[str] | None = None
    ) -> dict[str, LLMConfig]:
        """Returns the settings of the language models, as agent -> settings. The agents are
        ``judge``, ``user:NAME`` and ``chatbot:NAME``.

        Args:
            speaking: Names of the chatbots to include (default: all).
        """
        llms = {f"user:{name}": llm for name, llm in self.users.items()}
        llms["judge"] = self.user_judge
        for name in self.select_chatbots() if speaking is None else speaking:
            llms[f"chatbot:{name}"] = self.chatbots[name]
        return llms

    def select_chatbots(self, chatbots: Sequence[str] = ()) -> list[str]:
        """Returns ``chatbots`` as a list. If it is empty, returns the names of all chatbots in the
        settings. Raises ConfigError if a name is unknown."""
        if unknown := [name for name in chatbots if name not in self.chatbots]:
            hint = f"Use one of: {', '.join(self.chatbots)}"
            raise ConfigError(f"no chatbot {unknown[0]!r} in the config", hint=hint)
        return list(chatbots) or [*self.chatbots]


def parse_utterance(answer: str) -> tuple[str, bool]:
    """Returns the message that a user model wrote, and whether it ends the dialogue.

    A message ends the dialogue if it has END_OF_DIALOGUE. This mark, quotation marks and a label
    such as ``user:`` are removed from the message.

    Args:
        answer: The text that the model returned.
    """

    text = _strip_label_and_quotes(without_thinking(answer))
    if _END.search(text) is None:
        return text, False
    return _strip_label_and_quotes(_END.sub(" ", text).strip()), True


def _strip_label_and_quotes(text: str) -> str:
    """Returns ``text`` without a label such as ``user:`` and quotation marks around it."""
    text = _LABEL.sub("", text, count=1)
    if len(text) > 1 and _QUOTES.get(text[0]) == text[-1] and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    return text


def parse_verdict(answer: str) -> tuple[bool | None, str]:
    """Returns the verdict of the user judge, and its reason. The user judge is the model that
    checks messages of simulated users.

    Args:
        answer: ``Yes.``, ``No. REASON``, or a JSON object with ``verdict`` and ``reason``.

    Returns:
        The verdict is True (message accepted), False (rejected) or None (the answer has none). The
        reason is a text, empty for an accepted message. Without a verdict, it is the whole answer.
    """
    text = without_thinking(answer)
    if (fields := _FIELDS.match(text)) is not None:
        text = f"{fields[1]}. {fields[2] or ''}"
    verdict = _VERDICT.match(text)
    if verdict is None:
        return None, " ".join(text.split())
    if verdict[1].lower() == "yes":
        return True, ""
    return False, " ".join(text[verdict.end() :].split())


@dataclass(slots=True)
class DialogueState:
    """A dialogue in progress, or a first message that has no chatbot yet.

    The caller gives ``id``, ``context``, ``user`` and ``config``, and ``chatbot`` for a dialogue.
    The answers of the models fill the other fields.

    Attributes:
        id: ``CONTEXT--USER--CHATBOT`` for a dialogue, ``CONTEXT--USER`` for a first message.
        context: What the simulated user is told about itself.
        user: The name of the user model.
        config: The settings of the run.
        chatbot: The name of the chatbot, None for a first message.
        turns: The accepted user messages and the replies so far.
        tries: For each accepted user message, the number of attempts up to and including it.
        cut: The indices in ``turns`` of messages that were truncated at their token limit.
        rejections: A mapping for each rejected attempt at the current user message, with its
            ``text``, ``reason`` and ``by`` (who rejected it).
        candidate: The user message that waits for a verdict, and whether it ends the dialogue. None
            if no message waits.
        candidate_cut: Whether the message in ``candidate`` was truncated at its token limit.
        ended: How the dialogue ended: ``user`` (the user ended it), ``cap`` (maximum number of
            turns), ``rejected`` (all attempts at a message were rejected), or None (not ended).
    """

    id: str
    context: SeedContext
    user: str
    config: GenerateConfig
    chatbot: str | None = None
    turns: list[Turn] = field(default_factory=list)
    tries: list[int] = field(default_factory=list)
    cut: list[int] = field(default_factory=list)
    rejections: list[dict[str, Any]] = field(default_factory=list)
    candidate: tuple[str, bool] | None = None
    candidate_cut: bool = False
    ended: Literal["user", "cap", "rejected"] | None = None

    @property
    def stage(self) -> Literal["say", "check", "reply"]:
        """The next step: ``say`` (the user model writes), ``check`` (the user judge gives a
        verdict) or ``reply`` (the chatbot answers)."""
        if self.candidate is not None:
            return "check"
        if self.chatbot is not None and self.turns[-1].role == "user":
            return "reply"
        return "say"

    @property
    def next_agent(self) -> str:
        """The agent whose model is asked next: ``judge``, ``user:NAME`` or ``chatbot:NAME``."""
        if self.stage == "say":
            return f"user:{self.user}"
        if self.stage == "check":
            return "judge"
        return f"chatbot:{self.chatbot}"

    @property
    def candidate_text(self) -> str:
        """The user message that waits for a verdict, followed by END_OF_DIALOGUE if it ends the
        dialogue. Empty if no message waits."""
        text, ends = self.candidate or ("", False)
        return f"{text} {END_OF_DIALOGUE * ends}".strip()

    @property
    def is_accepted_opener(self) -> bool:
        """Whether this is a first message, without a chatbot, that the user judge accepted."""
        return self.chatbot is None and bool(self.turns)

    @property
    def is_over(self) -> bool:
        """Whether the dialogue or first message is finished, so that no model is asked again."""
        return self.ended is not None or self.is_accepted_opener

    def apply_answer(self, answer: str, cut: bool) -> dict[str, Any] | None:
        """Updates the dialogue with a model's answer.

        Args:
            answer: A user message, a verdict on it or a chatbot's reply, depending on ``stage``.
            cut: Whether the answer was truncated at its token limit.

        Returns:
            If a user message is rejected, a mapping for rejected.jsonl, with ``text`` and
            ``reason``. Otherwise None.
        """
        if self.stage == "reply":
            self._add_turn(Turn("assistant", without_thinking(answer)), cut)
            return None
        if self.stage == "say":
            text, ends = self.candidate = parse_utterance(answer)
            self.candidate_cut = cut
            if not text and not ends:
                return self._reject("The message is empty.", "rule")
            if not self.turns and ends:
                return self._reject("A first message cannot end the dialogue.", "rule")
            return None
        accepted, reason = parse_verdict(answer)
        if not accepted:
            return self._reject(reason, "judge", readable=accepted is not None)
        assert self.candidate is not None
        (text, ends) = self.candidate
        self.candidate = None
        self.tries.append(len(self.rejections) + 1)
        self.rejections = []
        if text:
            self._add_turn(Turn("user", text), self.candidate_cut)
        if ends:
            self.ended = "user"
        return None

    def _reject(
        self,
        reason: str,
        by: str,
        readable: bool = True,
    ) -> dict[str, Any]:
        """Rejects the candidate message, and ends the dialogue if no attempt is left.

        Args:
            reason: Why the message is rejected.
            by: Who rejects the message: ``judge``, or ``rule`` if the message is empty or a first
                message that would end the dialogue.
            readable: False if the judge answered neither yes nor no.

        Returns:
            The line of rejected.jsonl.
        """
        rejection = {
            "id": self.id,
            "turn": len(self.turns),
            "attempt": len(self.rejections) + 1,
            "text": self.candidate_text,
            "reason": reason,
            "by": by,
            "readable": readable,
        }
        self.candidate = None
        self.rejections.append(rejection)
        decoding = self.config.later_turns if self.turns else self.config.first_turn
        if len(self.rejections) == decoding.tries:
            self.ended = "rejected"
        return rejection

    def _add_turn(self, turn: Turn, cut: bool) -> None:
        """Adds ``turn``, and ends the dialogue at the maximum number of turns.

        Args:
            cut: Whether the turn was truncated at its token limit.
        """
        if cut:
            self.cut.append(len(self.turns))
        self.turns.append(turn)
        if len(self.turns) >= self.config.max_turns:
            self.ended = "cap"

    def with_chatbot(self, chatbot: str) -> DialogueState:
        """Returns a new dialogue of the same user with ``chatbot``, which begins with the first
        message of this one. Works only if ``is_accepted_opener`` is True."""
        shared = (list(self.turns), list(self.tries), list(self.cut))
        id = f"{self.id}--{chatbot}"
        return DialogueState(id, self.context, self.user, self.config, chatbot, *shared)

    def to_row(self) -> LabelledDialogue:
        """Returns the finished dialogue as a row of dialogues.jsonl, without labels."""
        extra: dict[str, Any] = {"ended": self.ended, "tries": list(self.tries)}
        if self.cut:
            extra["cut_turns"] = list(self.cut)
        group = self.context.group
        context = {}
        for name, value in self.context.to_record().items():
            if value is not None and name != "lang":
                context[name] = value
        dialogue = Dialogue(
            id=self.id,
            turns=tuple(self.turns),
            lang=self.context.lang,
            source="medal-generated",
            models={"user": self.user, "assistant": self.chatbot},
            context=context,
        )
        split = choose_split(group, seed=0)
        return LabelledDialogue(
            dialogue,
            {},
            {},
            split=split,
            group=group,
            extra=extra,
        )


def load_prompts(config: GenerateConfig) -> dict[str, Prompt]:
    """Returns the prompts that ``config`` names.

    Returns:
        Field of ``config`` -> its prompt, for ``first_turn``, ``later_turns``, ``check`` and
        ``reply``.

    Raises:
        ConfigError: A prompt has an unknown placeholder, or the prompt of ``reply`` has a user
            message. A chatbot gets the dialogue itself as its messages.
    """
    prompts = {}
    for name, values in _PROMPTS.items():
        prompts[name] = load_prompt(getattr(config, name).prompt, values)
    if "user" in prompts["reply"].parts:
        raise ConfigError(
            f"reply.prompt: {prompts['reply'].name} has a part 'user', but a chatbot gets the "
            "dialogue as a chat",
            hint="Put its text into 'system'",
        )
    return prompts


def next_request(state: DialogueState, prompts: dict[str, Prompt]) -> ChatRequest:
    """Returns the request to the model that is asked next in ``state``. It asks for a user message,
    a verdict on one, or a reply.

    Args:
        state: The dialogue so far.
        prompts: Field of the settings (``first_turn``, ``later_turns``, ``check`` or ``reply``) ->
            its prompt.
    """
    config = state.config
    schema = None
    values: dict[str, str | None] = asdict(state.context)
    values["language"] = language(state.context.lang).name
    decoding = config.reply
    if state.stage == "say":
        name = "first_turn"
        decoding = config.first_turn
        if state.turns:
            values["dialogue"] = transcript(state.turns)
            name = "later_turns"
            decoding = config.later_turns
        messages = prompts[name].messages(values, again=_rejected_attempts(state))
    elif state.stage == "check":
        decoding = config.check
        values["dialogue"] = (
            transcript(state.turns) or "(nothing yet: it is the first message)"
        )
        values["message"] = transcript([Turn("user", state.candidate_text)])
        check = prompts["check"]
        if not state.turns and "system_first" in check.parts:
            parts = {**check.parts, "system": check.parts["system_first"]}
            check = check.model_copy(update={"parts": parts})
        messages = check.messages(values)
        if config.check.enforce:
            schema = _VERDICT_SCHEMA
    else:
        filled = prompts["reply"].messages({})
        messages = [message for message in filled if message.role == "system"]
        messages += [Message(turn.role, turn.content) for turn in state.turns]
    position = f"{len(state.turns)}:{len(state.rejections)}:{state.stage}"
    seed = hashlib.sha256(f"{config.seed}:{state.id}:{position}".encode()).digest()[:4]
    return ChatRequest(
        tuple(messages),
        max_tokens=decoding.max_tokens,
        temperature=decoding.temperature,
        top_p=decoding.top_p,
        seed=int.from_bytes(seed, "big") >> 1,
        schema=schema,
        presence_penalty=decoding.presence_penalty,
        frequency_penalty=decoding.frequency_penalty,
        accept_truncated=True,
    )


def _rejected_attempts(state: DialogueState) -> list[dict[str, str | None]]:
    """Returns the rejected attempts at the current user message for the prompt, each as
    ``{"rejected": TEXT, "feedback": REASON}``."""
    attempts: list[dict[str, str | None]] = []
    for rejection in state.rejections:
        text = " ".join(rejection["text"].split()) or "(an empty message)"
        reason = rejection["reason"] or "No reason was given."
        attempts.append({"rejected": text, "feedback": reason})
    return attempts
