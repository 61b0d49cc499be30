# Zendesk: tickets with their comments. The requester is the user; internal notes are left out.
# python zendesk.py TICKETS.jsonl > chats.jsonl  (a ticket a line, with its "comments")
import html
import json
import re
import sys


def plain(text: str) -> str:
    text = re.sub(r"<br\s*/?>|</(?:p|div|li)>", "\n", text)
    return html.unescape(re.sub(r"<[^<>]*>", "", text)).strip()


with open(sys.argv[1], encoding="utf-8") as file:
    for line in filter(str.strip, file):
        ticket = json.loads(line)
        messages = []
        for comment in ticket["comments"]:
            if comment.get("public") is False:
                continue
            is_user = comment["author_id"] == ticket["requester_id"]
            text = comment.get("plain_body") or plain(comment["body"])
            messages.append(
                {"role": "user" if is_user else "assistant", "content": text}
            )
        chat = {"id": str(ticket["id"]), "subject": ticket.get("subject")}
        print(json.dumps(chat | {"messages": messages}, ensure_ascii=False))
