# Logged calls of a model: request and response a line, a chat for each conversation.
# python calls.py LOG.jsonl > chats.jsonl  (OpenAI's or Anthropic's API, oldest first)
import json
import sys

chats: list[list[dict[str, object]]] = []
with open(sys.argv[1], encoding="utf-8") as file:
    for line in filter(str.strip, file):
        row = json.loads(line)
        request, response = row.get("request", row), row.get("response", row)
        request, response = request.get("body", request), response.get("body", response)
        messages = request["messages"]
        if response.get("choices"):
            messages = [*messages, response["choices"][0]["message"]]
        elif isinstance(response.get("content"), list):
            messages = [
                *messages,
                {"role": "assistant", "content": response["content"]},
            ]
        # A call repeats the history: it takes the place of the call that it continues.
        for number, chat in enumerate(chats):
            if messages[: len(chat)] == chat:
                chats[number] = messages
                break
        else:
            chats.append(messages)
for chat in chats:
    print(json.dumps({"messages": chat}, ensure_ascii=False))
