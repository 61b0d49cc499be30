# Intercom: conversations with their parts. Users and leads are the user; notes are left out.
# python intercom.py CONVERSATIONS.jsonl > chats.jsonl
import html
import json
import re
import sys


def plain(text: str) -> str:
    text = re.sub(r"<br\s*/?>|</(?:p|div|li)>", "\n", text)
    return html.unescape(re.sub(r"<[^<>]*>", "", text)).strip()


with open(sys.argv[1], encoding="utf-8") as file:
    for line in filter(str.strip, file):
        conversation = json.loads(line)
        parts = [conversation["source"]]
        parts += conversation["conversation_parts"]["conversation_parts"]
        messages = []
        for part in parts:
            text = plain(part.get("body") or "")
            if text and part.get("part_type") != "note":
                is_user = part["author"]["type"] in ("user", "lead", "contact")
                role = "user" if is_user else "assistant"
                messages.append({"role": role, "content": text})
        chat = {"id": str(conversation["id"]), "messages": messages}
        print(json.dumps(chat, ensure_ascii=False))
