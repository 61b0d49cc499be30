"""The body of a request to /score: one row, or several rows under ``dialogues``, and options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from pydantic import Field, ValidationError

from medal_judges.config import Config
from medal_judges.errors import DataError, RecordError, did_you_mean
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.inference.serving.limits import RefusedError, ServeLimits
from medal_judges.models.base.judge import ScoreLevel, UnknownLanguage
from medal_judges.reading.dialogues import parse_dialogue
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.storage.jsonl import parse_line

LISTED = 20  # bad rows in an answer
_SHARED = {"level", "dimensions", "unknown_language", "dialogues"}


class ScoreBody(Config):
    """The JSON object of a request. Without ``dialogues`` its other fields are one row, which
    ``parse_dialogue`` checks."""

    level: ScoreLevel | None = None
    dimensions: tuple[str, ...] | None = Field(None, min_length=1)
    unknown_language: UnknownLanguage | None = None
    dialogues: list[Any] | None = Field(None, min_length=1)
    id: Any = None
    lang: Any = None
    messages: Any = None
    dialogue: Any = None
    source: Any = None
    models: Any = None
    context: Any = None
    meta: Any = None
    assistant: Any = None


def parse_body(
    body: bytes,
    dimensions: tuple[Dimension, ...],
    options: ScoreOptions,
    limits: ServeLimits,
    folded: Counter[str],
) -> tuple[list[Dialogue], ScoreOptions]:
    """Returns the dialogues of a request and its options; ``options`` are the defaults of the
    server. ``folded`` counts the parts of messages that are not judged, such as thoughts.

    Raises RefusedError: 400 for invalid JSON, 413 beyond the limits, 422 for malformed fields,
    which it names.
    """
    request = _validated(_parsed(body))
    changed = request.model_dump(
        include={"level", "dimensions", "unknown_language"}, exclude_none=True
    )
    names = [dimension.name for dimension in dimensions]
    for index, name in enumerate(request.dimensions or ()):
        if name not in names:
            raise RefusedError(
                422,
                f"this judge has no dimension {name!r:.80}",
                field=f"dimensions[{index}]",
                hint=f"it has: {', '.join(names)}",
            )
    options = options.model_copy(update=changed)
    row = {name: getattr(request, name) for name in request.model_fields_set - _SHARED}
    if request.dialogues is not None:
        if row:
            raise RefusedError(
                422, "expected dialogues or one row, not both", field=min(row)
            )
        return _dialogues(request.dialogues, limits, folded), options
    if not {"messages", "dialogue"} & row.keys():
        raise RefusedError(
            422, "expected messages, dialogue or dialogues", field="messages"
        )
    return [_dialogue(row, "", limits, folded)], options


def _parsed(body: bytes) -> object:
    """Returns the JSON value of the body."""
    try:
        return parse_line("(body)", 1, body.decode("utf-8"), lambda value: value)
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"the body is not UTF-8 (byte {error.start})") from None
    except DataError as error:
        cause = error.__cause__
        # half a surrogate pair
        if isinstance(cause, RecordError) and cause.field != "(line)":
            raise RefusedError(422, error.problem, field=cause.field) from None
        raise RefusedError(
            400, "the body is not valid JSON", hint=error.problem
        ) from None


def _validated(record: object) -> ScoreBody:
    """Returns the body of ``record``. The error names its first malformed field."""
    try:
        return ScoreBody.model_validate(record)
    except ValidationError as error:
        problem = error.errors()[0]
    field = "(body)"
    for step in problem["loc"]:
        if isinstance(step, int):
            field += f"[{step}]"
        else:
            field = f"{step:.80}"
    hint = None
    if problem["type"] == "extra_forbidden":
        names = list(ScoreBody.model_fields)
        hint = f"{did_you_mean(field, names)}known: {', '.join(names)}"
    raise RefusedError(422, problem["msg"], field=field, hint=hint)


def _dialogues(
    rows: list[Any], limits: ServeLimits, folded: Counter[str]
) -> list[Dialogue]:
    """Returns the dialogues of all rows; if some are malformed, the error lists the first ones."""
    if len(rows) > limits.max_dialogues:
        message = f"{len(rows)} dialogues in one request; at most {limits.max_dialogues} are taken"
        raise RefusedError(
            413, message, field="dialogues", hint="send them in several requests"
        )
    dialogues: list[Dialogue] = []
    malformed: list[dict[str, object]] = []
    for index, row in enumerate(rows):
        try:
            dialogues.append(_dialogue(row, f"dialogues[{index}]", limits, folded))
        except RefusedError as error:
            if error.status != 422:
                raise
            malformed.append(
                {"row": index, "field": error.field, "problem": error.message}
            )
    if malformed:
        message = f"{len(malformed)} of {len(rows)} dialogues are malformed; nothing was scored"
        field = str(malformed[0]["field"])
        raise RefusedError(422, message, field=field, rows=malformed[:LISTED])
    return dialogues


def _dialogue(
    row: object, location: str, limits: ServeLimits, folded: Counter[str]
) -> Dialogue:
    """Returns the dialogue of a row, which is at ``location`` in the body."""
    try:
        dialogue = parse_dialogue(row, folded=folded)
    except RecordError as error:
        field = location
        if error.field not in ("(line)", "(record)"):
            field = f"{location}.{error.field}".removeprefix(".")
        raise RefusedError(422, error.message, field=field or "(body)") from None
    count = len(dialogue.turns)
    if isinstance(row, Mapping):  # messages of one speaker in a row are one turn
        messages = row.get("messages", row.get("dialogue"))
        if isinstance(messages, list):
            count = max(count, len(messages))
    if count > limits.max_turns:
        message = f"a dialogue of {count} turns; at most {limits.max_turns} are taken"
        raise RefusedError(413, message, field=location or "messages")
    return dialogue
