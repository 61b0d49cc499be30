"""Wording: what an agent is told, as a YAML file with places such as ``{scene}``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.dialogue import Turn
from medal_judges.errors import ConfigError
from medal_judges.models.llm.protocol import Message

_PLACE = re.compile(r"\{([a-z_]+)\}")


class Wording(Config):
    """A prompt file of configs/prompts/ for an agent (not for a judge of numbers: those are
    models/prompted's). ``source`` says which paper and table it follows. ``again`` is added to
    ``user`` where an attempt is made once more, once for each earlier attempt."""

    name: str
    source: str = ""
    system: str = ""
    user: str = ""
    again: str = ""

    def messages(
        self,
        values: Mapping[str, str | None],
        *,
        again: Sequence[Mapping[str, str | None]] = (),
    ) -> list[Message]:
        """The system message, where there is one, and the user's, with their places filled.

        ``again`` holds values of each earlier attempt, the first one first.
        A line that holds a place whose value is None or empty is left out. What is filled in is
        not looked at again: a turn that says ``{scene}`` stays as it is.
        """
        attempts = again if self.again else ()
        parts = [
            _filled(self.user, values),
            *(_filled(self.again, {**values, **attempt}) for attempt in attempts),
        ]
        said = [Message("user", "\n\n".join(parts))]
        return [Message("system", _filled(self.system, values)), *said] if self.system else said


def load_wording(prompt: str | Wording, places: Collection[str]) -> Wording:
    """The file at a path, the shipped one of that name (``user_first``, ``prompts/chatbot``), or
    the wording that a config holds itself.

    Raises ConfigError that names the field, or a place that is none of ``places``.
    """
    if isinstance(prompt, Wording):
        where, wording = f"prompt {prompt.name}", prompt
    else:
        is_path = prompt.endswith((".yaml", ".yml")) or prompt.startswith("prompts/")
        where = prompt if is_path else f"prompts/{prompt}"
        wording = build_config(Wording, read_yaml(where), where=where)
    for field in ("system", "user", "again"):
        if unknown := set(_PLACE.findall(getattr(wording, field))) - set(places):
            raise ConfigError(
                f"{where}: {field}: no place {{{min(unknown)}}} here",
                hint=f"known: {', '.join(sorted(places))}",
            )
    return wording


def _filled(template: str, values: Mapping[str, str | None]) -> str:
    lines = []
    for line in template.strip().splitlines():
        places = _PLACE.findall(line)
        if not any(place in values and not values[place] for place in places):
            lines.append(_PLACE.sub(lambda m: values.get(m[1]) or m[0], line))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()


def transcript(turns: Iterable[Turn]) -> str:
    """``user: ...`` and ``assistant: ...``, one line a turn: line breaks inside a turn become
    blanks, so that none can pose as a turn."""
    return "\n".join(f"{turn.role}: {' '.join(turn.content.split())}" for turn in turns)
