# Langfuse: exported traces or observations, a chat for each session.
# python langfuse.py EXPORT > chats.jsonl  (JSON lines, or a downloaded trace)
import json
import sys


def texts(value: object, role: str) -> list[dict[str, object]]:
    """The messages of an input or an output: a text, messages, or an object with one of them."""
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and "role" in value:
        return [value]
    if isinstance(value, dict):
        for name in ("messages", "input", "question", "output", "answer"):
            if value.get(name):
                return texts(value[name], role)
        return []
    return [{"role": role, "content": str(value)}] if value else []


with open(sys.argv[1], encoding="utf-8") as file:
    text = file.read().strip()
if '"observations"' in text:
    rows = json.loads(text)["observations"]
else:
    rows = [json.loads(line) for line in text.splitlines()]
sessions: dict[str, list[dict[str, object]]] = {}
rows.sort(key=lambda row: str(row.get("timestamp") or row.get("startTime")))
for row in rows:
    if row.get("parentObservationId"):
        continue  # a step inside of a trace
    key = row.get("sessionId") or row.get("traceId") or row["id"]
    chat = sessions.setdefault(key, [])
    said = texts(row.get("input"), "user") + texts(row.get("output"), "assistant")
    for message in said:
        if message not in chat:  # a trace repeats the turns before
            chat.append(message)
for key, chat in sessions.items():
    print(json.dumps({"id": key, "messages": chat}, ensure_ascii=False))
