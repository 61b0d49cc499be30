# LangSmith: exported runs, a chat for each session (its thread_id or session_id).
# python langsmith.py RUNS.jsonl > chats.jsonl
import json
import sys

ROLES = {"human": "user", "ai": "assistant"}


def texts(value: object, role: str) -> list[dict[str, object]]:
    """The messages in the inputs or the outputs of a run."""
    if isinstance(value, list):
        return [message for item in value for message in texts(item, role)]
    if isinstance(value, dict):
        value = value.get("kwargs") or value.get("data") or value
        speaker = value.get("role") or value.get("type")
        if speaker and "content" in value:
            return [{"role": ROLES.get(speaker, speaker), "content": value["content"]}]
        names = ("messages", "message", "generations", "choices", "input", "question")
        for name in (*names, "output", "answer", "text"):
            if value.get(name):
                return texts(value[name], role)
        return []
    return [{"role": role, "content": str(value)}] if value else []


sessions: dict[str, list[dict[str, object]]] = {}
with open(sys.argv[1], encoding="utf-8") as file:
    runs = [json.loads(line) for line in file if line.strip()]
for run in sorted(runs, key=lambda run: run["start_time"]):
    if run.get("parent_run_id"):
        continue  # a step inside of a run
    metadata = (run.get("extra") or {}).get("metadata") or {}
    key = metadata.get("thread_id") or metadata.get("session_id") or run["trace_id"]
    chat = sessions.setdefault(key, [])
    for message in texts(run["inputs"], "user") + texts(run["outputs"], "assistant"):
        if message not in chat:  # a run repeats the turns before
            chat.append(message)
for key, chat in sessions.items():
    print(json.dumps({"id": key, "messages": chat}, ensure_ascii=False))
