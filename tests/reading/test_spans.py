"""OpenTelemetry: spans as exporters write them, and which of them make a chat."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.records.dialogue import Dialogue

from .written import chats, folded, in_csv, in_jsonl, in_parquet, save

CHATS = [chat for chat in chats() if chat["messages"][-1]["role"] == "assistant"]
NANO = 1_780_000_000_000_000_000


def parts(messages: list[dict[str, str]]) -> list[dict[str, Any]]:
    return [
        {"role": m["role"], "parts": [{"type": "text", "content": m["content"]}]}
        for m in messages
    ]


def calls(chat: dict[str, Any], key: str) -> list[dict[str, Any]]:
    """The spans of a chat, one for each answer, with the history so far."""
    system = [m["content"] for m in chat["messages"] if m["role"] == "system"]
    said = [m for m in chat["messages"] if m["role"] != "system"]
    spans = []
    for k, message in enumerate(said):
        if message["role"] != "assistant" or k == 0:
            continue
        asked = said[:k]
        answer = [{**parts([message])[0], "finish_reason": "stop"}]
        attributes = {
            "gen_ai.operation.name": "chat",
            "gen_ai.conversation.id": key,
            "gen_ai.response.model": chat["model"],
            "gen_ai.input.messages": json.dumps(parts(asked)),
            "gen_ai.output.messages": json.dumps(answer),
            "version": chat["version"],
        }
        if system:
            attributes["gen_ai.system_instructions"] = json.dumps(
                [{"type": "text", "content": text} for text in system]
            )
        spans.append(
            {"name": "chat", "start": NANO + 10**9 * k, "attributes": attributes}
        )
    return spans


def every_span() -> list[dict[str, Any]]:
    spans = [s for n, chat in enumerate(CHATS) for s in calls(chat, f"c{n}")]
    random.Random(0).shuffle(spans)
    return spans


def console(span: dict[str, Any]) -> dict[str, Any]:
    """As the console exporter of Python's SDK writes a span."""
    stamp = f"2026-06-01T10:00:{(span['start'] - NANO) // 10**9:02d}.000000Z"
    named = {"name": "chat", "context": {"trace_id": "0x1"}, "start_time": stamp}
    return named | {"attributes": span["attributes"], "events": []}


def otlp(spans: list[dict[str, Any]]) -> dict[str, Any]:
    """OTLP's JSON export of one batch."""
    listed = [
        {
            "traceId": "5b8e",
            "spanId": "eee1",
            "startTimeUnixNano": str(span["start"]),
            "attributes": [
                {"key": k, "value": {"stringValue": v}}
                for k, v in span["attributes"].items()
            ],
        }
        for span in spans
    ]
    scope = {"scope": {"name": "sdk"}, "spans": listed}
    return {"resourceSpans": [{"resource": {"attributes": []}, "scopeSpans": [scope]}]}


def as_columns(span: dict[str, Any]) -> dict[str, Any]:
    """A row of a table whose columns are attributes."""
    return {"start_time": span["start"], "trace_id": "1"} | span["attributes"]


def read(path: Path) -> tuple[dict[str, Dialogue], ReadingReport]:
    reading = ReadingReport()
    return {d.id: d for d in read_dialogues(path, reading=reading)}, reading


@pytest.mark.parametrize("form", ["console", "otlp", "csv", "parquet"])
def test_the_spans_of_a_conversation_are_its_chat(form: str, tmp_path: Path) -> None:
    spans = every_span()
    data = {
        "console": lambda: in_jsonl([console(s) for s in spans]),
        "otlp": lambda: in_jsonl([otlp(spans[:40]), otlp(spans[40:])]),
        "csv": lambda: in_csv([as_columns(s) for s in spans]),
        "parquet": lambda: in_parquet([as_columns(s) for s in spans]),
    }[form]()
    found, reading = read(save(tmp_path, "spans", data))
    assert reading.forms == {"OpenTelemetry spans": len(CHATS)} and reading.count == 0
    for n, chat in enumerate(CHATS):
        wanted, mine = folded(chat | {"id": f"c{n}", "lang": "und"}), found[f"c{n}"]
        assert mine.turns == wanted.turns
        assert (mine.context, mine.models) == (wanted.context, wanted.models)
        assert form == "csv" or mine.meta["time"]


def test_other_operations_agents_and_further_choices_are_no_turns(
    tmp_path: Path,
) -> None:
    said = [{"role": "user", "content": "Weather in Paris?"}]
    call = {
        "type": "tool_call",
        "id": "1",
        "name": "weather",
        "arguments": {"place": "Paris"},
    }
    answer = {"type": "tool_call_response", "id": "1", "response": "rainy"}
    history = [
        *parts(said),
        {"role": "assistant", "parts": [call]},
        {"role": "tool", "parts": [answer]},
    ]
    last = [
        parts([{"role": "assistant", "content": text}])[0]
        for text in ("Rainy.", "Wet.")
    ]

    def span(operation: str, asked: object, answered: object) -> dict[str, Any]:
        named = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": "c"}
        both = {"gen_ai.input.messages": asked, "gen_ai.output.messages": answered}
        return {"trace_id": "t", "attributes": named | both}

    spans = [
        span("chat", parts(said), [{"role": "assistant", "parts": [call]}]),
        span("execute_tool", [], [answer]),
        span("chat", history, last),
        span("invoke_agent", [*history, *history, *history], last),
        {"trace_id": "t", "attributes": {"gen_ai.operation.name": "embeddings"}},
        {"trace_id": "t", "attributes": {"http.method": "GET"}},
    ]
    found, _ = read(save(tmp_path, "spans", in_jsonl(spans)))
    assert [t.content for t in found["c"].turns] == ["Weather in Paris?", "Rainy."]
    call, result = found["c"].context["tools"]
    assert call["turn"] == result["turn"] == 1 and "rainy" in result["note"]


HELD = {
    "gen_ai.input.messages": parts([{"role": "user", "content": "hi"}]),
    "gen_ai.output.messages": parts([{"role": "assistant", "content": "hello"}]),
}


def test_spans_without_a_conversation_go_by_their_trace(tmp_path: Path) -> None:
    spans = [{"traceId": trace, "attributes": HELD} for trace in ("a", "b", "", "")]
    found, _ = read(save(tmp_path, "spans", in_jsonl(spans)))
    assert [*found][:2] == ["a", "b"] and [len(d.turns) for d in found.values()] == [
        2
    ] * 4


def test_messages_that_are_no_json_leave_the_chat_out(tmp_path: Path) -> None:
    bad = {"traceId": "a", "attributes": HELD | {"gen_ai.input.messages": "[{"}}
    found, reading = read(save(tmp_path, "spans", in_jsonl([bad])))
    assert not found and reading.count == 1 and "messages" in reading.messages[0]
