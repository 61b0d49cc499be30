# OpenTelemetry: spans of GenAI calls, a chat for each gen_ai.conversation.id (or trace).
# python opentelemetry.py SPANS.jsonl > chats.jsonl  (a span or an OTLP export a line)
import json
import sys
from typing import Any


def attributes(span: dict[str, Any]) -> Any:
    entries = span.get("attributes") or {}
    if isinstance(entries, list):  # OTLP
        return {entry["key"]: next(iter(entry["value"].values())) for entry in entries}
    return entries


def messages(value: Any) -> list[dict[str, Any]]:
    said = []
    for message in json.loads(value) if isinstance(value, str) else value or []:
        parts = message.get("parts") or []
        texts = [part["content"] for part in parts if part.get("type") == "text"]
        if texts:
            said.append({"role": message["role"], "content": "\n".join(texts)})
    return said


chats: dict[str, list[dict[str, Any]]] = {}
with open(sys.argv[1], encoding="utf-8") as file:
    for row in map(json.loads, filter(str.strip, file)):
        spans = [row]
        for resource in row.get("resourceSpans", ()):
            for scope in resource["scopeSpans"]:
                spans += scope["spans"]
        for facts in map(attributes, spans):
            key = facts.get("gen_ai.conversation.id") or row.get("traceId")
            chat = messages(facts.get("gen_ai.input.messages"))
            chat += messages(facts.get("gen_ai.output.messages"))
            if len(chat) > len(chats.get(key, ())):  # each call repeats the history
                chats[key] = chat
for key, chat in chats.items():
    print(json.dumps({"id": key, "messages": chat}, ensure_ascii=False))
