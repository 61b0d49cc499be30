# Claude: the export's conversations.json.
# python claude.py conversations.json > chats.jsonl
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    conversations = json.load(file)
for conversation in conversations:
    messages = []
    for message in conversation["chat_messages"]:
        role = "user" if message["sender"] == "human" else "assistant"
        parts = [
            part for part in message.get("content") or () if part["type"] == "text"
        ]
        text = "\n".join(part["text"] for part in parts) or message.get("text", "")
        messages.append({"role": role, "content": text})
    chat = {"id": conversation["uuid"], "title": conversation.get("name")}
    print(json.dumps(chat | {"messages": messages}, ensure_ascii=False))
