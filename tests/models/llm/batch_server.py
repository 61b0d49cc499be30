"""A server that speaks the batch part of OpenAI's protocol, in a process of its own.

    python batch_server.py [--end completed|failed|expired|cancelled] [--hold] [--busy N]

It prints its port, then serves until it is killed. ``--hold``: batches stay in progress until
POST /release. ``--busy``: the first N polls get a 500. GET /counts returns how often each thing was
requested. A request whose message begins with a word of ``ODD`` is answered in that way; all others
get "re: MESSAGE".
"""

from __future__ import annotations

import argparse
import json
import re
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ODD = ("cut", "error", "silence", "malformed", "refused")


class State:
    """What the server holds, and what it was asked."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.lock = threading.Lock()
        self.counts: Counter[str] = Counter()
        self.files: dict[str, bytes] = {}
        self.batches: dict[str, dict[str, Any]] = {}
        self.released = not options.hold

    def upload(self, content: bytes) -> dict[str, Any]:
        self.counts["uploads"] += 1
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return {
            "id": name,
            "object": "file",
            "bytes": len(content),
            "created_at": int(time.time()),
            "filename": "upload.jsonl",
            "purpose": "batch",
            "status": "processed",
        }

    def make(self, asked: dict[str, Any]) -> dict[str, Any]:
        self.counts["batches"] += 1
        self.counts["requests"] += self.files[asked["input_file_id"]].count(b"\n")
        name = f"batch_{len(self.batches)}"
        self.batches[name] = {
            "id": name,
            "object": "batch",
            "endpoint": asked["endpoint"],
            "input_file_id": asked["input_file_id"],
            "completion_window": asked["completion_window"],
            "created_at": int(time.time()),
            "status": "in_progress",
        }
        return self.batches[name]

    def poll(self, name: str) -> dict[str, Any]:
        self.counts["polls"] += 1
        batch = self.batches[name]
        if self.released and batch["status"] == "in_progress":
            self.end(batch)
        return batch

    def end(self, batch: dict[str, Any]) -> None:
        batch["status"] = self.options.end
        if batch["status"] == "failed":
            error = {"code": "invalid", "message": "no such model", "line": 1}
            batch["errors"] = {"object": "list", "data": [error]}
            return
        lines = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        if batch["status"] != "completed":
            lines = lines[:1]  # it came as far as the first
        found = [answer(line) for line in lines]
        for kind, good in (("output_file_id", True), ("error_file_id", False)):
            part = [a for a in found if a is not None and good == (status(a) == 200)]
            if part:
                name = f"{batch['id']}-{kind}"
                text = "".join(json.dumps(a) + "\n" for a in reversed(part))
                self.files[name] = text.encode()
                batch[kind] = name


def status(line: dict[str, Any]) -> int | None:
    return (line["response"] or {}).get("status_code")


def answer(line: dict[str, Any]) -> dict[str, Any] | None:
    """The line of a result for the line of a request."""
    body, key = line["body"], line["custom_id"]
    text = body["messages"][-1]["content"]
    kind = next((word for word in ODD if text.startswith(word)), "")
    if kind == "silence":
        return None
    if kind == "refused":
        return result(key, 400, {"error": {"message": "bad request", "code": "odd"}})
    if kind == "error":
        error = {"code": "server_error", "message": "it broke"}
        return {"id": f"r-{key}", "custom_id": key, "response": None, "error": error}
    if kind == "malformed":
        return result(key, 200, {"choices": []})
    return result(key, 200, completion(f"re: {text}", "length" if kind == "cut" else "stop"))


def result(key: str, code: int, body: dict[str, Any]) -> dict[str, Any]:
    response = {"status_code": code, "request_id": "x", "body": body}
    return {"id": f"r-{key}", "custom_id": key, "response": response, "error": None}


def completion(text: str, reason: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text, "refusal": None}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "stub",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


class Handler(BaseHTTPRequestHandler):
    """The routes."""

    protocol_version = "HTTP/1.1"
    state: State

    def log_message(self, *args: Any) -> None:
        return

    def do_GET(self) -> None:
        state = self.state
        with state.lock:
            if self.path == "/counts":
                self.send(200, dict(state.counts))
            elif self.path == "/v1/models":
                self.send(404, {"error": {"message": "no such page"}})
            elif match := re.fullmatch(r"/v1/files/([^/]+)/content", self.path):
                state.counts["downloads"] += 1
                self.send(200, state.files[match[1]])
            elif match := re.fullmatch(r"/v1/batches/([^/?]+)", self.path):
                if state.options.busy > 0:
                    state.options.busy -= 1
                    self.send(500, {"error": {"message": "busy"}})
                elif match[1] in state.batches:
                    self.send(200, state.poll(match[1]))
                else:
                    self.send(404, {"error": {"message": "no such batch"}})

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["Content-Length"]))
        state = self.state
        with state.lock:
            if self.path == "/release":
                state.released = True
                self.send(200, {})
            elif self.path == "/forget":
                state.batches.clear()
                self.send(200, {})
            elif self.path == "/v1/files":
                self.send(200, state.upload(self.uploaded(content)))
            else:
                self.send(200, state.make(json.loads(content)))

    def uploaded(self, content: bytes) -> bytes:
        """The file in a multipart form."""
        boundary = self.headers["Content-Type"].split("boundary=")[1].strip('"').encode()
        (part,) = (p for p in content.split(b"--" + boundary) if b'name="file"' in p)
        return part.split(b"\r\n\r\n", 1)[1].removesuffix(b"\r\n")

    def send(self, code: int, body: Any) -> None:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--end", default="completed")
    parser.add_argument("--hold", action="store_true")
    parser.add_argument("--busy", type=int, default=0)
    Handler.state = State(parser.parse_args())
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(server.server_address[1], flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
