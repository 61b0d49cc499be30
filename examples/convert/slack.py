# Slack: the messages of a channel's export, a chat for each thread; bots are the assistant.
# python slack.py CHANNEL/DAY.json [DAY.json ...] > chats.jsonl
import html
import json
import sys

WRITTEN = (None, "bot_message", "file_share", "thread_broadcast")
threads: dict[str, list[dict[str, str]]] = {}
messages = []
for path in sys.argv[1:]:
    with open(path, encoding="utf-8") as file:
        messages += json.load(file)
for message in sorted(messages, key=lambda message: float(message["ts"])):
    if message.get("type") == "message" and message.get("subtype") in WRITTEN:
        role = "assistant" if message.get("bot_id") else "user"
        turn = {"role": role, "content": html.unescape(message["text"])}
        threads.setdefault(message.get("thread_ts") or message["ts"], []).append(turn)
for key, turns in threads.items():
    print(json.dumps({"id": key, "messages": turns}, ensure_ascii=False))
