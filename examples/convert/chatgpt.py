# ChatGPT: the export's conversations.json, the current branch of each chat.
# python chatgpt.py conversations.json > chats.jsonl
import json
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    conversations = json.load(file)
for conversation in conversations:
    nodes, messages = conversation["mapping"], []
    key = conversation["current_node"]
    while key:
        message = nodes[key].get("message") or {}
        key = nodes[key].get("parent")
        hidden = (message.get("metadata") or {}).get(
            "is_visually_hidden_from_conversation"
        )
        if not message or hidden or message.get("recipient", "all") != "all":
            continue  # a root, custom instructions, a call of a tool
        parts = message["content"].get("parts") or []
        text = "\n".join(part if isinstance(part, str) else "[image]" for part in parts)
        role = message["author"]["role"]
        if role in ("user", "assistant") and text.strip():
            messages.append({"role": role, "content": text})
    chat = {"id": conversation.get("conversation_id") or conversation.get("id")}
    chat |= {"title": conversation.get("title"), "messages": messages[::-1]}
    print(json.dumps(chat, ensure_ascii=False))
