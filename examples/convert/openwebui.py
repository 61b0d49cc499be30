# Open WebUI: exported chats, the current branch of each.
# python openwebui.py EXPORT.json > chats.jsonl
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    exported = json.load(file)
for chat in exported:
    history, messages = chat["chat"]["history"], []
    key = history["currentId"]
    while key:
        message = history["messages"][key]
        messages.append({"role": message["role"], "content": message["content"]})
        key = message.get("parentId")
    print(
        json.dumps({"id": chat["id"], "messages": messages[::-1]}, ensure_ascii=False)
    )
