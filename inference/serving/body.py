"""Parses the body of a request to /score.

A body is one row with ``messages`` or ``dialogue``, or several rows under ``dialogues``, and beside
them ``level``, ``dimensions`` and ``unknown_language``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, get_args

from medal_judges.errors import DataError, RecordError, did_you_mean
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.inference.serving.limits import RefusedError, ServeLimits
from medal_judges.models.base.judge import POLICIES, ScoreLevel
from medal_judges.reading.dialogues import parse_dialogue
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.storage.jsonl import parse_line

OPTIONS = ("level", "dimensions", "unknown_language")
ROW = ("id", "lang", "messages", "dialogue", "source", "models", "context", "meta", "assistant")
LISTED = 20  # bad rows in an answer


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
    try:
        record = parse_line("(body)", 1, body.decode("utf-8"), lambda value: value)
    except UnicodeDecodeError as error:
        raise RefusedError(400, f"the body is not UTF-8 (byte {error.start})") from None
    except DataError as error:
        cause = error.__cause__
        if isinstance(cause, RecordError) and cause.field != "(line)":  # half a surrogate pair
            raise RefusedError(422, error.problem, field=cause.field) from None
        raise RefusedError(400, "the body is not valid JSON", hint=error.problem) from None
    if not isinstance(record, dict):
        raise RefusedError(422, "expected a JSON object", field="(body)")
    known = (*OPTIONS, "dialogues") if "dialogues" in record else (*OPTIONS, *ROW)
    for name in record:
        if name not in known:
            hint = f"{did_you_mean(name, known)}known: {', '.join(known)}"
            raise RefusedError(422, f"unknown field {name!r:.80}", field=f"{name:.80}", hint=hint)
    asked = _options(record, [dimension.name for dimension in dimensions], options)
    if not {"messages", "dialogue", "dialogues"} & record.keys():
        raise RefusedError(422, "expected messages, dialogue or dialogues", field="messages")
    if "dialogues" not in record:
        return [_checked(record, "", limits, folded)], asked
    rows = record["dialogues"]
    if not isinstance(rows, list) or not rows:
        raise RefusedError(422, "expected a non-empty list of dialogues", field="dialogues")
    if len(rows) > limits.max_dialogues:
        message = f"{len(rows)} dialogues in one request; at most {limits.max_dialogues} are taken"
        raise RefusedError(413, message, field="dialogues", hint="send them in several requests")
    dialogues: list[Dialogue] = []
    bad: list[dict[str, object]] = []
    for index, row in enumerate(rows):
        try:
            dialogues.append(_checked(row, f"dialogues[{index}]", limits, folded))
        except RefusedError as error:
            if error.status != 422:
                raise
            bad.append({"row": index, "field": error.field, "problem": error.message})
    if bad:
        message = f"{len(bad)} of {len(rows)} dialogues are malformed; nothing was scored"
        raise RefusedError(422, message, field=str(bad[0]["field"]), rows=bad[:LISTED])
    return dialogues, asked


def _options(record: Mapping[str, Any], known: list[str], options: ScoreOptions) -> ScoreOptions:
    level = record.get("level", options.level)
    if level not in get_args(ScoreLevel):
        raise RefusedError(422, "expected dialogue, turn or last", field="level")
    policy = record.get("unknown_language", options.unknown_language)
    if policy not in POLICIES:
        raise RefusedError(422, f"expected one of {', '.join(POLICIES)}", field="unknown_language")
    wanted = record.get("dimensions")
    if wanted is not None and (not isinstance(wanted, list) or not wanted):
        raise RefusedError(422, "expected a non-empty list of names", field="dimensions")
    for index, name in enumerate(wanted or ()):
        if name not in known:
            message = f"this judge has no dimension {name!r:.80}"
            hint = f"it has: {', '.join(known)}"
            raise RefusedError(422, message, field=f"dimensions[{index}]", hint=hint)
    names = options.dimensions if wanted is None else tuple(wanted)
    return options.model_copy(
        update={"level": level, "dimensions": names, "unknown_language": policy}
    )


def _checked(row: object, place: str, limits: ServeLimits, folded: Counter[str]) -> Dialogue:
    turns = row.get("messages", row.get("dialogue")) if isinstance(row, Mapping) else None
    if isinstance(turns, list):
        _require_few_turns(len(turns), place, limits)  # before they are parsed
    try:
        dialogue = parse_dialogue(row, folded=folded)
    except RecordError as error:
        field = place if error.field in ("(line)", "(record)") else f"{place}.{error.field}"
        raise RefusedError(422, error.message, field=field.lstrip(".") or "(body)") from None
    _require_few_turns(len(dialogue.turns), place, limits)
    return dialogue


def _require_few_turns(count: int, place: str, limits: ServeLimits) -> None:
    if count > limits.max_turns:
        message = f"a dialogue of {count} turns; at most {limits.max_turns} are taken"
        raise RefusedError(413, message, field=place or "messages")
