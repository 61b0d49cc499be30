"""Turn and Dialogue: a conversation whose assistant is judged; codes and names of languages."""

from __future__ import annotations

import hashlib
import re
import sys
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BeforeValidator, ConfigDict, Field

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError, RecordError
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import number_as_text, parse, parse_text

UNKNOWN_LANGUAGE = "und"  # ISO 639-2 for undetermined
_CODE = re.compile(r"[a-z]{2,3}(?:[-_][a-z0-9]{1,8})*\Z")  # zh, yue, zh-hant, pt_br
# of zh-cn, ja_jp, es-419
_REGION = re.compile(r"[-_](?:[a-z]{2}|[0-9]{3})(?![a-z0-9])")
_EXPECTED = "an ISO 639-1 code such as 'en', or a language's English name"


def language_code(value: object, field: str = "lang") -> str:
    """Returns the code of a language: ``zh`` for ``ZH``, ``zh-CN`` and ``Chinese``.

    A country is dropped (``en`` for ``en_US``), but not a script (``zh-hant``).

    Args:
        value: Code or English name. None and blank text give ``und`` (unknown).
        field: What an error calls the value.

    Raises:
        RecordError: The language is unknown.
    """
    if value is None:
        return UNKNOWN_LANGUAGE
    word = parse_text(field, value, _EXPECTED).strip().lower()
    if not word:
        return UNKNOWN_LANGUAGE
    if _CODE.match(word):
        return _REGION.sub("", word).replace("_", "-")
    code = _codes_by_name().get(word)
    if code is None:
        raise RecordError(field, _EXPECTED, value)
    return code


@cache
def _codes_by_name() -> Mapping[str, str]:
    """Returns English name of a language in lower case -> its code: ``{"chinese": "zh", ...}``."""
    codes = {}
    for code, names in read_yaml("language_names").items():
        codes.update(dict.fromkeys(map(str.lower, names), code))
    return codes


def base_language(lang: str) -> str:
    """Returns the code ``lang`` without script and country: ``zh`` for ``zh-Hant``."""
    return lang.replace("_", "-").split("-")[0].lower()


class Language(NamedTuple):
    """A language in which dialogues are generated.

    Attributes:
        name: English name, such as ``German``.
        countries: English names of the countries where its simulated users live.
    """

    name: str
    countries: Sequence[str]


@cache
def load_languages() -> Mapping[str, Language]:
    """Returns language code (ISO 639-1, such as ``de``) -> the language's name and countries, for
    the languages in configs/seeds/languages.yaml."""
    entries = read_yaml("seeds/languages").items()
    return {code: Language(**entry) for code, entry in entries}


def language(code: str) -> Language:
    """Returns the language with the ISO 639-1 ``code``. Raises ConfigError if
    configs/seeds/languages.yaml does not list the code."""
    languages = load_languages()
    if code not in languages:
        raise ConfigError(
            f"no language {code!r} in seeds/languages.yaml",
            hint=f"Use one of: {' '.join(languages)}",
        )
    return languages[code]


def language_name(code: str) -> str:
    """Returns the English name of the language ``code``: ``German`` for ``de``. Returns ``code``
    itself if configs/seeds/languages.yaml does not list it."""
    return load_languages().get(code, Language(code, ())).name


Role = Literal["user", "assistant"]
ROLES: tuple[Role, ...] = ("user", "assistant")
SYSTEM_PROMPT = "system_prompt"  # key of Dialogue.context
Lang = Annotated[str, BeforeValidator(lambda lang: sys.intern(language_code(lang)))]


def parse_id(value: object) -> str:
    """Returns the id ``value``, a text or a number, as text. Raises RecordError for blank text and
    for any other type."""
    name = number_as_text(value)
    if isinstance(value, bool) or not isinstance(name, str) or not name.strip():
        raise RecordError("id", "a non-empty text", value)
    return parse_text("id", name)


@dataclass(frozen=True, slots=True)
class Turn:
    """One message of a dialogue.

    Attributes:
        role: ``user`` or ``assistant``.
        content: The text. It may be empty, because some chatbots answer with nothing.

    >>> Turn("user", "Hi!")
    Turn(role='user', content='Hi!')
    """

    __pydantic_config__ = ConfigDict(extra="ignore", str_max_length=1 << 40)
    role: Role
    content: Annotated[str, BeforeValidator(number_as_text)]


@dataclass(frozen=True, slots=True)
class Dialogue:
    """An immutable conversation between a user and an assistant.

    Roles need not alternate, and the last turn may be the user's.

    Attributes:
        id: Name of the dialogue, unique in its file.
        turns: The messages, in order.
        lang: Language code, ``und`` if unknown.
        source: Name of the data set or system that the dialogue is from.
        models: Role -> name of the speaker: ``{"assistant": "gpt-4.1"}``.
        context: Texts from which the dialogue started: ``system_prompt``, ``scene`` or ``persona``
            -> text.
        meta: Any other data of the user's file.

    >>> dialogue = Dialogue("d1", (Turn("user", "Hi!"), Turn("assistant", "Hello!")), lang="en")
    >>> dialogue.assistant_turns
    (1,)
    """

    id: Annotated[str, BeforeValidator(parse_id)]
    turns: Annotated[tuple[Turn, ...], Field(validation_alias="dialogue")]
    lang: Lang = UNKNOWN_LANGUAGE
    source: str | None = None
    models: Mapping[str, str | None] = field(default_factory=dict)
    context: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def assistant_turns(self) -> tuple[int, ...]:
        """Indices (from 0) of the assistant's turns."""
        return tuple(i for i, turn in enumerate(self.turns) if turn.role == "assistant")

    @property
    def chatbot(self) -> str | None:
        """Name of the assistant, which is the judged system. None if unknown."""
        return self.models.get("assistant")

    @property
    def chat_hash(self) -> str:
        """Hash of the roles and words of all turns. A label and a score with equal hashes are about
        the same chat.

        It ignores what differs between file formats, such as white space and empty turns.
        """
        return self.prefix_hashes()[-1]

    def prefix_hashes(self) -> list[str]:
        """Returns a list of hashes. Element i is the ``chat_hash`` of the first i turns.

        The list starts with 0 turns and ends with all. So it has one element more than the dialogue
        has turns.
        """
        before = hashlib.sha256()  # of the speakers before the one who speaks
        hashes = [before.hexdigest()[:12]]
        role, words, line = "", list[str](), b""
        for turn in self.turns:
            spoken = turn.content.split()
            if spoken and turn.role != role:
                before.update(line)
                role, words = turn.role, []
            words += spoken
            text = unicodedata.normalize("NFC", f"{role}: {' '.join(words)}\n")
            line = text.encode("utf-8", "surrogatepass") if words else b""
            digest = before.copy()
            digest.update(line)
            hashes.append(digest.hexdigest()[:12])
        return hashes

    @property
    def text_hash(self) -> str:
        """Hash of the roles and contents of all turns. Unlike ``chat_hash``, it changes with white
        space and empty turns."""
        return content_hash([[turn.role, turn.content] for turn in self.turns])

    def upto(self, turn: int | None) -> Dialogue:
        """Returns the dialogue without the turns after ``turn``.

        Args:
            turn: Index of the last turn to keep, from 0. None keeps all.
        """
        if turn is None:
            return self
        return replace(self, turns=self.turns[: turn + 1])

    def to_record(self) -> dict[str, Any]:
        """Returns the dialogue as a JSON object, such as ``{"id": "d1", "lang": "en", "dialogue":
        [{"role": "user", "content": "Hi!"}]}``. Empty optional fields are left out."""
        record: dict[str, Any] = {
            "id": self.id,
            "lang": self.lang,
            "dialogue": [{"role": t.role, "content": t.content} for t in self.turns],
        }
        if self.source:
            record["source"] = self.source
        for name in ("models", "context", "meta"):
            if value := getattr(self, name):
                record[name] = dict(value)
        return record


def parse_dialogue_line(record: object) -> Dialogue:
    """Returns the dialogue in ``record``, a JSON object such as ``{"id": "d1", "dialogue":
    [{"role": "user", "content": "Hi!"}]}``.

    For chats in any other format, use ``medal_judges.parse_dialogue``.

    Raises:
        RecordError: A field is missing or malformed. The error names it.
    """
    if not isinstance(record, dict):
        raise RecordError("(line)", "a JSON object", record)
    turns = record.get("dialogue", record.get("turns"))
    if not isinstance(turns, list) or not turns:
        raise RecordError("dialogue", "a non-empty list of {role, content}", turns)
    names = ("id", "lang", "source", "models", "context", "meta")
    return parse(
        Dialogue, {name: record.get(name) for name in names} | {"dialogue": turns}
    )
