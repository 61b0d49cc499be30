"""A server that speaks OpenAI's protocol, a process of its own: ``python server.py SETTINGS``.

SETTINGS is a JSON object. Answers come at once, by the content of the request. ``script``: a
Python file whose ``answer(body) -> str`` gives the texts. ``fault`` and
``times``: that fault strikes the first ``times`` tries of every request (-1: all of them), a
request being known by its Idempotency-Key. ``every``: it strikes every n-th request only.
``delay``: seconds before an answer or a refusal. ``headers``: put on every answer.
``idempotent``: a request sent again is answered from the store. ``refuse``: fields of a request
that are refused with 400.
``alternatives``: [most, words]: more top_logprobs than ``most`` are refused in these words (with
{asked} and {most}). ``alone``: a token comes without alternatives. ``change``: fields put over
those of every answer, by path ("usage", "choices.0.message.content"). ``wait``: the Retry-After of
the fault "429". ``port``: 0 if it is left out, for a free one.

The port stands on the first line of its output. GET /counts tells, per key, how often it was
seen, answered (and so paid) and replayed; GET /requests what was sent, in order.
"""

import hashlib
import json
import runpy
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

# also loaded by its path, see label_server.py
sys.path.insert(0, str(Path(__file__).parent))
from server_answers import chat, scripted

__all__ = ["Server", "chat", "scripted"]
HANG = 30.0  # longer than any test's timeout


class Server(ThreadingHTTPServer):
    """What it has seen, and how it is to behave."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, settings: dict[str, Any]) -> None:
        super().__init__(("127.0.0.1", settings.get("port", 0)), Handler)
        self.settings = settings
        self.lock = threading.Lock()
        self.counts: dict[str, dict[str, int]] = {}
        self.requests: list[dict[str, Any]] = []
        self.store: dict[str, bytes] = {}
        self.order: dict[str, int] = {}
        self.script = (
            runpy.run_path(settings["script"])["answer"]
            if "script" in settings
            else None
        )

    def count(self, key: str, what: str) -> int:
        with self.lock:
            row = self.counts.setdefault(key, {"seen": 0, "answered": 0, "replayed": 0})
            row[what] += 1
            self.order.setdefault(key, len(self.order))
            return row[what]

    def fault(self, key: str, tries: int) -> str | None:
        """The fault that strikes this try of the request ``key``."""
        every, times = self.settings.get("every", 1), self.settings.get("times", 1)
        struck = self.order[key] % every == 0 and (times < 0 or tries <= times)
        return self.settings.get("fault") if struck else None


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Server

    def log_message(self, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        found = {"/counts": self.server.counts, "/requests": self.server.requests}
        if self.path in (*found, "/v1/models"):
            self._send(200, json.dumps(found.get(self.path)).encode())
        else:
            self._error(404, "no such page")

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        key = (
            self.headers.get("Idempotency-Key")
            or hashlib.sha256(repr(body).encode()).hexdigest()
        )
        with self.server.lock:
            self.server.requests.append({"path": self.path, "key": key, "body": body})
        self._answer(body, key)

    def _answer(self, body: dict[str, Any], key: str) -> None:
        tries = self.server.count(key, "seen")
        if refused := [f for f in self.server.settings.get("refuse", []) if f in body]:
            time.sleep(self.server.settings.get("delay", 0.0))
            self._error(400, f"Unsupported parameter: '{refused[0]}'", param=refused[0])
            return
        folded = self.server.settings.get("refuse_system")
        if folded and body["messages"][0]["role"] == "system":
            self._error(*folded)
            return
        most, words = self.server.settings.get("alternatives", [20, ""])
        if (asked := body.get("top_logprobs") or 0) > most:
            self._error(400, words.format(asked=asked, most=most))
            return
        fault = self.server.fault(key, tries)
        if fault in ERRORS:
            status, message, more = ERRORS[fault]
            wait = {"Retry-After": str(self.server.settings.get("wait", 1))}
            message = self.server.settings.get("says", {}).get(fault, message)
            message = message.format(key=self.headers["Authorization"])
            self._error(status, message, headers=wait if fault == "429" else {}, **more)
            return
        if fault in ("timeout", "dropped"):
            time.sleep(self.server.settings.get("hang", HANG) * (fault == "timeout"))
            self.close_connection = True
            return
        if self.server.settings.get("idempotent", True) and key in self.server.store:
            self.server.count(key, "replayed")
            self._send(200, self.server.store[key])
            return
        time.sleep(self.server.settings.get("delay", 0.0))
        answer = self._computed(body)
        if self.server.settings.get("alone") and body.get("logprobs"):
            for token in answer["choices"][0]["logprobs"]["content"]:
                token["top_logprobs"] = []
        changed = {
            **CHANGED.get(fault or "", {}),
            **self.server.settings.get("change", {}),
        }
        for path, value in changed.items():
            put(answer, path.split("."), value)
        self.server.count(key, "answered")
        data = json.dumps(answer).encode()
        if fault == "malformed":
            self._send(200, b'{"id": "x", "choices": [{"mess')
        elif fault == "truncated":
            self._send(200, data[: len(data) // 2], length=len(data))
            self.close_connection = True
        else:
            self.server.store[key] = data
            self._send(200, data)

    def _computed(self, body: dict[str, Any]) -> dict[str, Any]:
        if self.path.endswith("/chat/completions"):
            return scripted(body, self.server.script)
        raise ValueError(f"no such page: {self.path}")

    def _error(
        self,
        status: int,
        message: str,
        *,
        headers: dict[str, str] | None = None,
        **more: Any,
    ) -> None:
        error = {
            "message": message,
            "type": "error",
            "code": None,
            "param": None,
            **more,
        }
        self._send(status, json.dumps({"error": error}).encode(), headers=headers)

    def _send(
        self,
        status: int,
        data: bytes,
        *,
        length: int | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header(
                "Content-Length", str(len(data) if length is None else length)
            )
            for name, value in (
                self.server.settings.get("headers", {}) | (headers or {})
            ).items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client is gone; what was computed is paid all the same
            self.close_connection = True


# Faults that come instead of an answer: (status, message, more fields of the error).
ERRORS: dict[str, tuple[int, str, dict[str, Any]]] = {
    "429": (429, "Rate limit reached", {}),
    "quota": (429, "You exceeded your quota", {"code": "insufficient_quota"}),
    "500": (500, "The server had an error", {}),
    "401": (401, "Incorrect API key provided: {key}", {}),
    "402": (402, "Insufficient Balance", {}),
    "403": (403, "Country, region, or territory not supported", {}),
    "moderated": (
        403,
        "Your input was flagged",
        {"metadata": {"reasons": ["violence"], "flagged_input": "..."}},
    ),
    "404": (404, "The model does not exist", {}),
    "400": (400, "This request breaks the rules of the house", {"code": "bad_request"}),
}
# Faults inside an answer.
CONTENT = "choices.0.message.content"
CHANGED: dict[str, dict[str, Any]] = {
    "length": {"choices.0.finish_reason": "length", CONTENT: '{"overa'},
    "refusal": {CONTENT: None, "choices.0.message.refusal": "I would rather not."},
    "filter": {"choices.0.finish_reason": "content_filter", CONTENT: None},
    "no_choice": {"choices": []},
    "null_choice": {"choices": None},
    "error_inside": {"error": {"message": "upstream is overloaded", "code": 502}},
}


def put(answer: Any, path: list[str], value: Any) -> None:
    """``value`` in the place ``path`` of ``answer``."""
    for part in path[:-1]:
        answer = answer[int(part)] if part.isdigit() else answer[part]
    answer[int(path[-1]) if path[-1].isdigit() else path[-1]] = value


def main() -> None:
    server = Server(json.loads(sys.argv[1]))
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
