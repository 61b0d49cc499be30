"""SeedContext: what a simulated user is given before the first word (MEDAL, appendix C.1), and
files of them, as ``medal data seeds`` writes them or as written by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

from medal_judges.errors import ConfigError
from medal_judges.records.signature import content_hash
from medal_judges.records.validation import parse
from medal_judges.storage.jsonl import read_records

Gender = Literal["female", "male"]
GENDERS: tuple[Gender, ...] = ("female", "male")


@dataclass(frozen=True, slots=True)
class SeedContext:
    """Scene, persona, gender and affective state of a user, and the language and country they
    speak from.

    ``affect`` is None where the scene names a feeling itself. ``lang`` is ISO 639-1, ``country``
    a name in English.
    """

    scene: str
    persona: str
    gender: Gender
    affect: str | None
    lang: str
    country: str

    @property
    def group(self) -> str:
        """Name of what all languages of this context share: splits and clusters go by it."""
        return f"ctx-{content_hash([self.scene, self.persona, self.gender, self.affect])}"

    @property
    def id(self) -> str:
        """The same for the same content, in every run and for every user model and chatbot."""
        return f"{self.group}-{self.lang}"

    def to_record(self) -> dict[str, Any]:
        """One line of a file of contexts."""
        return {"id": self.id, **asdict(self)}

    def of_dialogue(self) -> dict[str, Any]:
        """What ``Dialogue.context`` says of it: all but the language, absent parts left out."""
        parts = {"id": self.id, **asdict(self)}
        del parts["lang"]
        return {name: value for name, value in parts.items() if value is not None}


def parse_context(record: object) -> SeedContext:
    """SeedContext of one JSON object. Raises RecordError that names the field."""
    if isinstance(record, Mapping):  # the id follows from the rest
        record = {name: value for name, value in record.items() if name != "id"}
    return parse(SeedContext, record)


def listed_contexts(path: str, n: int, languages: Sequence[str]) -> list[SeedContext]:
    """The first ``n`` contexts of the file in each of ``languages``, context by context.

    Raises DataError for a bad line, and ConfigError where there are fewer, or one is not there in
    a language.
    """
    groups: dict[str, dict[str, SeedContext]] = {}
    for context in read_records(path, parse_context):
        groups.setdefault(context.group, {})[context.lang] = context
    if len(groups) < n:
        raise ConfigError(
            f"contexts: {path} has {len(groups)} contexts, not {n}",
            hint=f"contexts.n={len(groups)}",
        )
    chosen = list(groups.items())[:n]
    for name, contexts in chosen:
        missing = [lang for lang in languages if lang not in contexts]
        if missing:
            raise ConfigError(
                f"contexts: {name} in {path} has no {missing[0]!r}",
                hint=f"it has: {', '.join(contexts)}; medal data seeds --lang writes what is named",
            )
    return [contexts[lang] for _, contexts in chosen for lang in languages]
