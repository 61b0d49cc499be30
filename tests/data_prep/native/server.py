"""A server of OpenAI's protocol that translates and compares by rule.

``python server.py SETTINGS``, a JSON object. ``judge``: "first" always prefers what is shown first;
"content" prefers the conversation that says BETTER (the first where both or none do); "prose"
answers without JSON. ``delay``: seconds before an answer. Translations put the language before each
turn; a turn that says one of the words of FAULTS spoils the answer, and HEALS beside it says: only
the first time.

The port stands on the first line of its output. GET /requests tells what was sent, in order.
"""

from __future__ import annotations

import json
import re
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSED = "could not be used"  # stands in every prompt of a second try


def dropped(found: dict[str, Any]) -> None:
    found.popitem()


def added(found: dict[str, Any]) -> None:
    found["9_user"] = "one more"


def emptied(found: dict[str, Any]) -> None:
    found[next(iter(found))] = " "


def dotted(found: dict[str, Any]) -> None:
    found[next(iter(found))] = "..."


def numbered(found: dict[str, Any]) -> None:
    found[next(iter(found))] = 7


def left(found: dict[str, Any]) -> None:
    for key, text in found.items():
        found[key] = text.partition("] ")[2]


def sorry(found: dict[str, Any]) -> None:
    found[next(iter(found))] = "I am sorry, but I cannot help you with this request."


def half(found: dict[str, Any]) -> None:
    german = "Das war heute leider gar nicht so einfach."
    found[next(iter(found))] = f"{german} I could not find the right words for the rest of it."


FAULTS = {
    "SORRY": sorry,
    "HALF": half,
    "DROP": dropped,
    "ADD": added,
    "EMPTY": emptied,
    "DOTS": dotted,
    "NUMBER": numbered,
    "LEAVE": left,
}


def translated(prompt: str) -> str:
    language = re.search(r"Translate (?:every|the next) turn into (\w+)", prompt)
    assert language is not None
    one = re.search(r"^The turn: (?:user|assistant): (.*)$", prompt, re.MULTILINE)
    if one is not None:
        found = {"translation": one[1]}
    else:
        found = json.loads(prompt[prompt.index('{\n "1_') :].partition("\n}")[0] + "\n}")
    said = " ".join(found.values())
    answer: dict[str, Any] = {
        key: f"[{language[1]}] {text}" if text else "" for key, text in found.items()
    }
    for word, spoil in FAULTS.items():
        if word in said and not ("HEALS" in said and REFUSED in prompt):
            spoil(answer)
    if "PROSE" in said:
        return "I would rather not."
    return f"```json\n{json.dumps(answer, ensure_ascii=False)}\n```"


def compared(prompt: str, judge: str) -> str:
    first, second = prompt.split("Conversation A:")[1].split("Conversation B:")
    if judge == "prose" or ("PROSE" in prompt and REFUSED not in prompt):
        return "They are both lovely."
    letter = "B" if judge == "content" and "BETTER" in second and "BETTER" not in first else "A"
    return json.dumps({"reason": "It reads well.", "better": letter})


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.settings = settings
        self.lock = threading.Lock()
        self.requests: list[dict[str, Any]] = []


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._send(200, self.server.requests)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        with self.server.lock:
            self.server.requests.append(body)
        time.sleep(self.server.settings.get("delay", 0.0))
        prompt = body["messages"][-1]["content"]
        if "REFUSE" in prompt:
            error = {"message": "breaks the rules", "type": "error", "code": "bad", "param": None}
            self._send(400, {"error": error})
            return
        judging = "Conversation A:" in prompt
        text = compared(prompt, self.server.settings["judge"]) if judging else translated(prompt)
        choice = {"index": 0, "message": {"role": "assistant", "content": text}}
        usage = {"prompt_tokens": 50, "completion_tokens": 20, "total_tokens": 70}
        self._send(
            200,
            {
                "id": "x",
                "object": "chat.completion",
                "created": 0,
                "model": body["model"],
                "choices": [choice | {"finish_reason": "stop", "logprobs": None}],
                "usage": usage,
            },
        )

    def _send(self, status: int, value: Any) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


if __name__ == "__main__":
    server = Server({"judge": "content"} | json.loads(sys.argv[1]))
    print(server.server_address[1], flush=True)
    server.serve_forever()
