"""Fetching: checked, whole or not at all, and never a connection when offline."""

import hashlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from medal_judges.data_prep.sources.source import SourceFile, fetch_file
from medal_judges.errors import SourceError
from medal_judges.storage.files import CACHE_VARIABLE, DATA_VARIABLE

BODY = b'[{"text": "a public file"}]' * 1000


@dataclass
class Server:
    """A loopback server: /whole gives BODY, /half breaks off, anything else is not found."""

    port: int
    hits: list[str] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    hits: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            hits.append(self.path)
            known = self.path.startswith(("/whole", "/half"))
            self.send_response(200 if known else 404)
            self.send_header("Content-Length", str(len(BODY) if known else 0))
            self.end_headers()
            if known:
                self.wfile.write(
                    BODY if self.path.startswith("/whole") else BODY[:1000]
                )

        def log_message(self, format: str, *args: object) -> None:
            pass

    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    for name in (DATA_VARIABLE, "HF_HUB_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(
        target=httpd.serve_forever, kwargs={"poll_interval": 0.01}
    )
    thread.start()
    yield Server(httpd.server_port, hits)
    httpd.shutdown()
    httpd.server_close()
    thread.join()


def part(server: Server, path: str = "whole") -> SourceFile:
    return SourceFile(
        name="p",
        level="dialogue",
        line_file="p.jsonl.gz",
        url=server.url(path),
        public_file="p.json",
        sha256=hashlib.sha256(BODY).hexdigest(),
        read="fed_dialogues",
    )


def left(tmp_path: Path) -> list[str]:
    folder = tmp_path / "cache"
    return [p.name for p in folder.iterdir()] if folder.is_dir() else []


def test_a_file_is_fetched_once_and_then_taken_from_the_cache(
    server: Server, tmp_path: Path
):
    path = fetch_file(part(server))
    assert path.read_bytes() == BODY and left(tmp_path) == ["p.json"]
    assert fetch_file(part(server)) == path
    assert server.hits == ["/whole"]


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("half", "SHA-256 is"),
        ("none", "404"),
        ("whole", "SHA-256 is .*, expected 0000"),
    ],
)
def test_a_failed_fetch_leaves_nothing(
    path: str, problem: str, server: Server, tmp_path: Path
):
    wanted = part(server, path)
    if path == "whole":
        wanted = wanted.model_copy(update={"sha256": "0" * 64})
    with pytest.raises(SourceError, match=problem) as caught:
        fetch_file(wanted)
    assert server.url(path) in caught.value.message and caught.value.hint
    assert left(tmp_path) == [] and len(server.hits) == 1


def test_offline_never_connects(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(SourceError) as caught:
        fetch_file(part(server))
    message = str(caught.value)
    # what is missing, whence, and where each form of it goes
    assert "p.json is not here" in message
    assert "Put p.jsonl.gz" in message and "$MEDAL_JUDGES_DATA" in message
    assert server.hits == [] and left(tmp_path) == []


def test_a_wrong_file_put_there_by_hand_is_refused_and_kept(
    server: Server, tmp_path: Path
) -> None:
    target = tmp_path / "cache" / "p.json"
    target.parent.mkdir()
    target.write_text("[]")
    with pytest.raises(
        SourceError, match=r"p\.json: SHA-256 is .*\n.*another file or version"
    ):
        fetch_file(part(server))
    assert target.read_text() == "[]" and server.hits == []


# --- the set on the hub ---


# --- what may be asked for ---
