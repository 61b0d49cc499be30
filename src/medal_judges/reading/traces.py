"""Rows of traces: OpenTelemetry spans of GenAI calls (attributes under ``attributes``, as columns,
or in OTLP's JSON export), and the exports of Langfuse and LangSmith.

A step is a span, an observation or a run, with the fields of _STEP. Each call of a model repeats
the history, so one step of a trace holds all of its turns.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from medal_judges.errors import RecordError
from medal_judges.reading.branches import objects
from medal_judges.reading.columns import json_or_text, lookup
from medal_judges.reading.instants import instant, iso_time, nanoseconds
from medal_judges.reading.names import Fields, Names, Record, filled, plain_names
from medal_judges.reading.talks import EMPTY, SpokenTurn, Talk, spoken, talk_of

# (number of the row, step or row), in the order of the file
Steps = list[tuple[int, Fields]]

_MESSAGES = (
    "gen_ai.input.messages",
    "gen_ai.output.messages",
    "gen_ai.system_instructions",
)
_CONVERSATION = "gen_ai.conversation.id"
_MODELS = ("gen_ai.response.model", "gen_ai.request.model")
_OPERATION, _AGENT = "gen_ai.operation.name", "gen_ai.agent.name"
# Other operations (execute_tool, embeddings, ...) hold no turns of a chat.
_CHAT_OPERATIONS = ("chat", "generate_content", "text_completion", None)
# Field of a step -> its columns, in any spelling, or paths to nested values; the first one with a
# value counts. All spans of a conversation (else session, else trace) are one trace.
_SPAN: Mapping[str, Names] = {
    "trace": (_CONVERSATION, "session.id", "traceId", "trace_id", "context.trace_id"),
    "start": ("startTimeUnixNano", "start_time_unix_nano", "start_time", "timestamp"),
    "id": (),
    "session": (),
    "parent": (),
    "metadata": (),
}
_STEP: Mapping[str, Names] = {
    "id": ("id",),
    "trace": ("trace_id", "id"),
    "kind": ("type", "run_type"),
    "parent": ("parent_observation_id", "parent_run_id", "trace_id"),
    "start": ("start_time", "timestamp"),
    "input": ("input", "inputs"),
    "output": ("output", "outputs"),
    "metadata": ("metadata", "extra.metadata"),
    "model": ("provided_model_name", "model", "extra.metadata.ls_model_name"),
    "session": (
        "extra.metadata.session_id",
        "extra.metadata.thread_id",
        "extra.metadata.conversation_id",
        "thread_id",
        "session_id",
    ),
}
_TRACE = {"trace": ("traceId", "trace_id", "context.trace_id"), "session": ()}
_META = ("name", "trace_name", "user_id", "release", "version", "environment", "tags")


def is_span(row: Record) -> bool:
    return not row.keys().isdisjoint(("attributes", "context", "traceId", "trace_id"))


def steps_of(row: Record, form: str) -> Iterator[Fields]:
    """Yields the steps of a row: the fields of _STEP and ``meta``."""
    if form == "otel":
        return _spans(row)
    return _observations(row, form)


def _fields_of(record: Record, columns: Mapping[str, Names]) -> Fields:
    step: Fields = {}
    for field, paths in columns.items():
        values = [lookup(record, path) for path in paths]
        filled_values = [value for value in values if value not in EMPTY]
        step[field] = json_or_text(next(iter(filled_values), None))
    for field in ("trace", "session"):
        step[field] = step[field] and str(step[field])
    return step


# -- spans -----------------------------------------------------------------------------------------


def _spans(row: Record) -> Iterator[Fields]:
    """Yields the spans of a row that hold messages."""
    spans = [row]
    if "resourceSpans" in row:
        spans = []
        for resource in objects(row["resourceSpans"]):
            for scope in objects(resource.get("scopeSpans")):
                spans += objects(scope.get("spans"))
    for span in spans:
        attributes = _attributes(span)
        if attributes.keys().isdisjoint(_MESSAGES[:2]):
            continue
        step = _fields_of({**attributes, **span}, _SPAN)
        step["kind"] = None
        if attributes.get(_OPERATION) in _CHAT_OPERATIONS:
            step["kind"] = "llm"
        attributes.pop(_CONVERSATION, None)
        answering, requested = (attributes.pop(name, None) for name in _MODELS)
        step["model"] = answering or requested
        question, answer, system = (
            json_or_text(attributes.pop(name, None)) for name in _MESSAGES
        )
        step["input"] = question and {"messages": question, "system": system}
        step["output"] = answer and {"choices": answer}
        step["meta"] = attributes
        attributes["trace_id"] = _fields_of(span, _TRACE)["trace"]
        yield step


def _attributes(span: Record) -> Fields:
    """Returns the attributes of a span, which are an object, OTLP's list of {key, value}, or the
    fields of the row."""
    entries = span.get("attributes")
    if isinstance(entries, Mapping):
        return dict(entries)
    attributes: Fields = {}
    if not isinstance(entries, list):
        for name, value in span.items():
            if str(name).startswith(("gen_ai.", "session.id")):
                attributes[name] = value
        return attributes
    for entry in objects(entries):
        value = entry.get("value")
        if "key" not in entry or not value or not isinstance(value, Mapping):
            continue
        kind, content = next(iter(value.items()))
        # OTLP writes 64-bit integers as text.
        if kind == "intValue" and str(content).isdecimal() and len(str(content)) < 20:
            content = int(content)
        attributes[str(entry["key"])] = content
    return attributes


# -- Langfuse and LangSmith ------------------------------------------------------------------------


def _observations(row: Record, form: str) -> Iterator[Fields]:
    """Yields the steps of a row and of the observations in it.

    A downloaded trace is a list of its observations. In earlier versions it stands beside that
    list.
    """
    roots = objects([row.get("trace")]) or [row]
    for record in (*roots, *objects(row.get("observations"))):
        if record.keys() <= {"observations", "scores"}:
            continue
        values = {name: record[key] for name, key in plain_names(tuple(record)).items()}
        if form == "langsmith":
            values.pop("session_id", None)  # the project
        step = _fields_of(values, _STEP)
        step["meta"] = {
            name: values[name] for name in _META if values.get(name) not in EMPTY
        }
        yield step


# -- from steps to a chat --------------------------------------------------------------------------


class _Call(NamedTuple):
    """A step with text; ``talks`` has the messages of its ``input`` and ``output``."""

    number: int
    step: Fields
    talks: Mapping[str, Talk]
    # Whether it is the root of its trace, and whether it is a call of a model.
    kind: tuple[bool, bool]

    @property
    def rank(self) -> tuple[Any, ...]:
        """The step with the highest rank holds the turns of its trace.

        A step ranks higher if it has both input and output; among equals, if it is the root or
        calls a model; then if its history is longer; then if it is later.
        """
        history = len(self.talks.get("input", ()))
        return len(self.talks), self.kind, history, nanoseconds(self.step["start"])

    def turns(self, name: str) -> list[SpokenTurn]:
        return spoken(self.talks.get(name, []))

    @property
    def agent(self) -> tuple[object, list[Any]]:
        """The name and the prompts of the agent that made the call."""
        messages = [message for message, _ in self.talks.get("input", ())]
        prompts = [m for m in messages if m.get("role") in ("system", "developer")]
        return self.step["meta"].get(_AGENT), prompts


def chat_of_traces(key: str, steps: Steps) -> Fields:
    """Returns the chat of the traces of a session, in order of time. Raises RecordError."""
    traces: dict[str, Steps] = {}
    for number, step in steps:
        traces.setdefault(step["trace"], []).append((number, step))
    calls = [call for call in map(_call_of_trace, traces.values()) if call is not None]
    _require_order([call.step["start"] for call in calls])
    calls.sort(key=lambda call: nanoseconds(call.step["start"]))
    chat: Talk = []
    for call in calls:
        for name, talk in call.talks.items():
            chat = _continued(chat, talk, f"row {call.number}: {name}")
    by_time = [step for _, step in steps]
    by_time.sort(key=lambda step: nanoseconds(step["start"]))
    models = {}
    for step in by_time:
        if step["model"]:
            models = {"assistant": str(step["model"])}
    last = calls[-1].step
    time = iso_time(by_time[0]["start"])
    meta = last["meta"] | {"metadata": last["metadata"], "time": time}
    return {
        "id": key if last["session"] or last["trace"] else None,
        "messages": [message for message, _ in chat],
        "models": models,
        "meta": filled(meta),
    }


def _require_order(starts: Sequence[object]) -> None:
    """Raises RecordError if a trace has no start time, or if the start times of several cannot be
    compared.
    """
    if not starts:
        raise RecordError("input", "a text of the session", None)
    instants = [instant(start) for start in starts]
    if len(starts) > 1 and None in instants:
        raise RecordError("start time", "a time of each trace of the session", None)
    if len({moment.clock for moment in instants if moment}) > 1:
        expected = "times with a time zone in all traces or in none"
        raise RecordError("start time", expected, list(starts))


def _call_of_trace(steps: Steps) -> _Call | None:
    """Returns the step that holds the turns of a trace, None if no step has text.

    Raises RecordError if no step can be read, or if the trace holds several chats.
    """
    ids = {str(step["id"]) for _, step in steps}
    calls: list[_Call] = []
    problem = None
    is_lost = False  # whether turns are lost that no other step has
    for number, step in steps:
        is_root = step["parent"] == step["id"] or str(step["parent"]) not in ids
        is_model_call = str(step["kind"]).lower() in ("generation", "llm")
        try:
            talks = {}
            if is_root or is_model_call:
                talks = _talks(number, step)
        except RecordError as error:
            problem = problem or error
            is_lost |= is_root and is_model_call
            continue
        if talks:
            calls.append(_Call(number, step, talks, (is_root, is_model_call)))
    best = max(reversed(calls), key=lambda call: call.rank, default=None)
    is_whole = best is not None and len(best.talks) == 2 and not is_lost
    if problem and not is_whole:
        raise problem
    if best:
        _require_one_chat(best, calls)
    return best


def _talks(number: int, step: Fields) -> dict[str, Talk]:
    talks = {}
    for name, role in (("input", "user"), ("output", "assistant")):
        if step[name] is not None:
            talks[name] = talk_of(f"row {number}: {name}", step[name], role)
    return talks


def _require_one_chat(best: _Call, calls: Sequence[_Call]) -> None:
    """Raises RecordError if a call has turns that the ``best`` call lacks.

    A helper's call is allowed: one question to another agent.
    """
    history = best.turns("input") + best.turns("output")
    for call in calls:
        question = call.turns("input")
        answer = call.turns("output")
        history = history or question + answer
        if call.kind != best.kind:
            continue
        size = len(question)
        is_repeated = question == history[:size]
        if answer and not is_repeated:
            # A question can be stored without what was added to it.
            repeated = history[: size - 1] + history[size:][: len(answer)]
            is_repeated = question[:-1] + answer == repeated
        questions = [text for role, text in question if role == "user"]
        if not (is_repeated or (call.agent != best.agent and len(questions) < 2)):
            expected = (
                "one chat, whose longest call repeats the turns of all others (several chats need "
                f"a {_CONVERSATION} or a session each)"
            )
            texts = [text for _, text in question]
            raise RecordError(f"row {call.number}: input", expected, texts)


def _continued(chat: Talk, talk: Talk, field: str) -> Talk:
    """Returns ``chat`` and what ``talk`` adds to it; ``talk`` may repeat all of it or its last
    turns. Raises RecordError if ``talk`` is another history."""
    old = spoken(chat)
    new = spoken(talk)
    size, end = _overlap(old, new)
    roles = {role for role, _ in new}
    if old and not size and len(roles) > 1:
        expected = "new turns only, or a history that continues the traces before"
        raise RecordError(field, expected, [text for _, text in new])
    # The number of messages of ``talk`` up to each of its turns.
    counts = [0]
    for count, (_, turn) in enumerate(talk, 1):
        if turn:
            counts.append(count)
    cut = counts[end]
    if size == len(old) and (end, cut) > (size, len(chat)):
        chat = talk[:cut]
    # Messages without text, such as prompts, are added once.
    return chat + [entry for entry in talk[cut:] if entry[1] or entry not in chat]


def _overlap(old: list[SpokenTurn], new: list[SpokenTurn]) -> tuple[int, int]:
    """Finds the last turns of ``old`` in ``new``. Returns their number, and the place after them in
    ``new``.

    It looks for all turns of ``old``, as late in ``new`` as possible, and else for those that
    ``new`` begins with.
    """
    if not old:
        return 0, 0
    for end in range(len(new), len(old) - 1, -1):
        if new[end - len(old) : end] == old:
            return len(old), end
    for size in range(min(len(old) - 1, len(new)), 0, -1):
        if new[:size] == old[-size:]:
            return size, size
    return 0, 0
