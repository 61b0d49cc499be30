"""A server on loopback that speaks the part of the Hub's protocol that judges need.

Repositories, commits, LFS objects, tags, private and gated repositories, tokens. What it does not
do: xet, pull requests, redirects, size limits.
"""

import base64
import hashlib
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from subprocess import CompletedProcess
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from .forked import Forked

TOKEN = "dummy"


@dataclass
class Repo:
    private: bool = False
    gated: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=lambda: {"0" * 40: {}})
    messages: list[str] = field(default_factory=list)
    branches: dict[str, str] = field(default_factory=lambda: {"main": "0" * 40})
    tags: dict[str, str] = field(default_factory=dict)

    def commit(self, files: dict[str, bytes], message: str) -> str:
        text = repr([(k, v) for k, v in sorted(files.items())]) + str(len(self.commits))
        sha = hashlib.sha1(text.encode()).hexdigest()
        self.commits[sha], self.branches["main"] = files, sha
        self.messages.append(message)
        return sha

    def sha(self, revision: str) -> str | None:
        named = self.branches | self.tags
        return named.get(revision, revision if revision in self.commits else None)

    @property
    def files(self) -> dict[str, bytes]:
        return self.commits[self.branches["main"]]


class Failure(Exception):
    """An answer that is no success: status, X-Error-Code, X-Error-Message."""


class Hub:
    """``repos`` by id; ``address`` for HF_ENDPOINT; ``broken``: a status for every request."""

    def __init__(self) -> None:
        self.repos: dict[str, Repo] = {}
        self.objects: dict[str, bytes] = {}
        self.broken: int | None = None
        self.asked: list[str] = []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"
        Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()

    def medal(self, home: Path, *words: str, **env: str) -> CompletedProcess[str]:
        """The command ``medal`` in such a process."""
        return self.run(
            home, "from medal_judges.cli import main; main()", *words, **env
        )

    def run(
        self, home: Path, code: str, *words: str, **env: str
    ) -> CompletedProcess[str]:
        """``code`` in a new process whose Hub is this one and whose cache is ``home``."""
        own = {
            "HF_ENDPOINT": self.address,
            "HF_HUB_DISABLE_XET": "1",
            "HF_TOKEN": TOKEN,
        }
        own |= {"HF_HOME": str(home), "HF_HUB_DISABLE_TELEMETRY": "1"} | env

        def work() -> None:
            for name in os.environ.keys() - own.keys():
                if name.startswith(("HF_", "HUGGING")):
                    del os.environ[name]
            read_once = ("huggingface_hub", "medal_judges", "peft", "transformers")
            for name in list(sys.modules):
                if name.split(".")[0] in read_once:  # the environment
                    del sys.modules[name]
            sys.argv = ["medal", *words]
            exec(code, {"__name__": "__main__"})

        process = Forked(work, own)
        out, err = process.communicate(300)
        assert process.returncode is not None
        return CompletedProcess(code, process.returncode, out, err)

    # -- what is answered ------------------------------------------------------------------------

    def repo(self, id: str, token: str | None) -> Repo:
        found = self.repos.get(id)
        if token not in (None, TOKEN):
            raise Failure(401, "", "Invalid credentials in Authorization header")
        if found is None or (found.private and token is None):
            raise Failure(404 if token else 401, "RepoNotFound", "Repository not found")
        return found

    def create(self, body: dict[str, Any], token: str | None) -> dict[str, Any]:
        id = (
            f"{body['organization']}/{body['name']}"
            if body.get("organization")
            else body["name"]
        )
        if token is None:
            raise Failure(401, "", "Invalid username or password.")
        if id.startswith("closed/"):
            raise Failure(403, "", "You don't have the rights to create a model there")
        url = f"{self.address}/{id}"
        if id in self.repos:
            raise Failure(409, "", "You already created this model repo", url)
        private = body.get("visibility") == "private" or bool(body.get("private"))
        self.repos[id] = Repo(private=private)
        return {"url": url, "name": id}

    def info(self, id: str, revision: str, token: str | None) -> dict[str, Any]:
        repo = self.repo(id, token)
        sha = self.sha(repo, revision)
        files = [{"rfilename": name} for name in repo.commits[sha]]
        about = {"id": id, "modelId": id, "private": repo.private, "gated": repo.gated}
        return about | {"sha": sha, "siblings": files, "tags": []}

    def sha(self, repo: Repo, revision: str) -> str:
        found = repo.sha(revision)
        if found is None:
            raise Failure(404, "RevisionNotFound", "Invalid rev id")
        return found

    def tree(self, id: str, revision: str, token: str | None) -> list[dict[str, Any]]:
        repo = self.repo(id, token)
        files = repo.commits[self.sha(repo, revision)]
        return [
            {
                "type": "file",
                "path": k,
                "size": len(v),
                "oid": hashlib.sha1(v).hexdigest(),
            }
            for k, v in files.items()
        ]

    def refs(self, id: str, token: str | None) -> dict[str, Any]:
        repo = self.repo(id, token)

        def listed(refs: dict[str, str], kind: str) -> list[dict[str, str]]:
            return [
                {"name": k, "ref": f"refs/{kind}/{k}", "targetCommit": v}
                for k, v in refs.items()
            ]

        tags = listed(repo.tags, "tags")
        return {
            "branches": listed(repo.branches, "heads"),
            "tags": tags,
            "converts": [],
        }

    def commit(
        self, id: str, lines: list[dict[str, Any]], token: str | None
    ) -> dict[str, Any]:
        repo = self.repo(id, token)
        files = dict(repo.files)
        message = ""
        for line in lines:
            value = line["value"]
            if line["key"] == "header":
                message = value["summary"]
            elif line["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif line["key"] == "lfsFile":
                files[value["path"]] = self.objects[value["oid"]]
            elif line["key"] == "deletedFile":
                files.pop(value["path"])
        head = files.get("README.md", b"").decode().partition("\n---")[0]
        # as the Hub does
        for base in re.findall(r"^base_model: *(\S+)", head, re.MULTILINE):
            if not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", base):
                raise Failure(400, "", f'"base_model" {base} is not a valid model id')
        sha = repo.commit(files, message)
        url = f"{self.address}/{id}/commit/{sha}"
        return {"success": True, "commitOid": sha, "commitUrl": url, "hookOutput": ""}

    def file(
        self, id: str, revision: str, path: str, token: str | None
    ) -> tuple[str, bytes]:
        repo = self.repo(id, token)
        sha = self.sha(repo, revision)
        if repo.gated:
            raise Failure(
                403 if token else 401, "GatedRepo", "Access to it is restricted"
            )
        if path not in repo.commits[sha]:
            raise Failure(404, "EntryNotFound", "Entry not found")
        return sha, repo.commits[sha][path]

    def preupload(
        self, id: str, body: dict[str, Any], token: str | None
    ) -> dict[str, Any]:
        self.repo(id, token)
        modes = [
            (f["path"], "lfs" if f["path"].endswith(".safetensors") else "regular")
            for f in body["files"]
        ]
        return {
            "files": [
                {"path": p, "uploadMode": m, "shouldIgnore": False} for p, m in modes
            ],
            "shouldIgnore": False,
        }

    def batch(self, body: dict[str, Any]) -> dict[str, Any]:
        upload = [
            {**o, "actions": {"upload": {"href": f"{self.address}/objects/{o['oid']}"}}}
            for o in body["objects"]
        ]
        return {"transfer": "basic", "objects": upload}

    def tag(
        self, id: str, target: str, body: dict[str, Any], token: str | None
    ) -> dict[str, Any]:
        repo = self.repo(id, token)
        if body["tag"] in repo.tags:
            raise Failure(409, "", "Reference already exists")
        repo.tags[body["tag"]] = self.sha(repo, target)
        return {}

    def listed(self, query: dict[str, list[str]]) -> list[dict[str, Any]]:
        author = query.get("author", [""])[0]
        public = [k for k, v in self.repos.items() if not v.private]
        return [{"id": k, "modelId": k} for k in public if k.startswith(f"{author}/")]


_ID = r"(?P<id>[\w.-]+/[\w.-]+?)"
Answer = Callable[..., Any]


def _handler(hub: Hub) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            self._answer(self._get)

        do_HEAD = do_GET

        def do_POST(self) -> None:
            self._answer(self._post)

        def do_PUT(self) -> None:
            self._answer(self._put)

        def _answer(
            self, make: Callable[[str, dict[str, list[str]], bytes], Any]
        ) -> None:
            parts = urlsplit(self.path)
            path = unquote(parts.path)
            hub.asked.append(f"{self.command} {path}")
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            try:
                if hub.broken:
                    raise Failure(hub.broken, "", "broken")
                found = make(path, parse_qs(parts.query), body)
            except Failure as failure:
                status, code, message, *url = failure.args
                told = {"error": message} | ({"url": url[0]} if url else {})
                headers = {"X-Error-Code": code, "X-Error-Message": message}
                self._send(status, json.dumps(told).encode(), headers)
                return
            if isinstance(found, tuple):
                sha, content = found
                etag = f'"{hashlib.sha256(content).hexdigest()}"'
                self._send(200, content, {"X-Repo-Commit": sha, "ETag": etag})
            else:
                self._send(200, json.dumps(found).encode(), {})

        def _send(self, status: int, content: bytes, headers: dict[str, str]) -> None:
            self.send_response(status)
            for name, value in headers.items():
                if value:
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)

        @property
        def _token(self) -> str | None:
            given = self.headers.get("Authorization")
            return given.removeprefix("Bearer ") if given else None

        def _get(self, path: str, query: dict[str, list[str]], body: bytes) -> Any:
            if path == "/api/models":
                return hub.listed(query)
            if m := re.fullmatch(rf"/api/models/{_ID}/refs", path):
                return hub.refs(m["id"], self._token)
            if m := re.fullmatch(rf"/api/models/{_ID}/tree/(?P<rev>[^/]+)/?.*", path):
                return hub.tree(m["id"], m["rev"], self._token)
            if m := re.fullmatch(rf"/api/models/{_ID}(/revision/(?P<rev>.+))?", path):
                return hub.info(m["id"], m["rev"] or "main", self._token)
            if m := re.fullmatch(rf"/{_ID}/resolve/(?P<rev>[^/]+)/(?P<path>.+)", path):
                return hub.file(m["id"], m["rev"], m["path"], self._token)
            raise Failure(404, "", f"the stub knows no GET {path}")

        def _post(self, path: str, query: dict[str, list[str]], body: bytes) -> Any:
            if m := re.fullmatch(rf"/api/models/{_ID}/commit/.+", path):
                lines = [json.loads(line) for line in body.splitlines()]
                return hub.commit(m["id"], lines, self._token)
            read = json.loads(body) if body else {}
            if path == "/api/repos/create":
                return hub.create(read, self._token)
            if path == "/api/validate-yaml":
                return {"errors": [], "warnings": []}
            if m := re.fullmatch(rf"/api/models/{_ID}/preupload/.+", path):
                return hub.preupload(m["id"], read, self._token)
            if re.fullmatch(rf"/{_ID}\.git/info/lfs/objects/batch", path):
                return hub.batch(read)
            if m := re.fullmatch(rf"/api/models/{_ID}/tag/(?P<rev>.+)", path):
                return hub.tag(m["id"], m["rev"], read, self._token)
            raise Failure(404, "", f"the stub knows no POST {path}")

        def _put(self, path: str, query: dict[str, list[str]], body: bytes) -> Any:
            oid = path.removeprefix("/objects/")
            if hashlib.sha256(body).hexdigest() != oid:
                raise Failure(400, "", "the object is not what its name says")
            hub.objects[oid] = body
            return {}

    return Handler
