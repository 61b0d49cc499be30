# OpenAssistant: the best ranked branch of each tree of messages.
# python oasst.py TREES.jsonl > chats.jsonl  (a tree a line: {"prompt": {"replies": [...]}})
import json
import sys

ROLES = {"prompter": "user", "assistant": "assistant"}

with open(sys.argv[1], encoding="utf-8") as file:
    for line in filter(str.strip, file):
        tree = json.loads(line)
        node, messages = tree["prompt"], []
        while node:
            messages.append({"role": ROLES[node["role"]], "content": node["text"]})
            replies = [reply for reply in node["replies"] if not reply.get("deleted")]
            node = min(replies, key=lambda reply: reply.get("rank") or 0, default=None)
        chat = {"id": tree["message_tree_id"], "lang": tree["prompt"].get("lang")}
        print(json.dumps(chat | {"messages": messages}, ensure_ascii=False))
