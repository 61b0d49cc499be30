"""What must not change while the project gets smaller.

    python tests/mission.py record tests/mission.json    # before
    python tests/mission.py compare tests/mission.json   # after: prints what differs

Recorded are the scores of the shipped judges on 40 dialogues (8 for judges that ask a language
model, those over a server against a stub), the correlations of ``medal benchmark --config human``
for judges without a language model (with MEDAL_JUDGES_DATA), the files that each command writes,
and the rows of the papers' pages. It takes about ten minutes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import yaml

MEDAL = [str(Path(sys.executable).parent / "medal")]
ROOT = Path(__file__).resolve().parents[1]
DIALOGUES = 40
ASKED_DIALOGUES = 8
TOLERANCE = 1e-3
# Judges that need downloads (unieval, endex, hybrids of ORALIS) are not run.
LOCAL_JUDGES = ("boxed", "multilingual", "length", "repetition", "hybrid_example")
TURN_JUDGES = ("issues",)
EMBEDDED_JUDGES = ("contrast", "fed", "full", "geval", "gptscore")
SERVER_JUDGES = (
    *("medal", "medal_gpt41", "malformed", "meep", "paper_meep", "oralis"),
    *("dstc12_baseline", "m_prometheus", "geval"),
)
MORE_TEXTS = {
    "de": ["Hallo, wie geht es dir?", "Gut, danke! Was machst du heute?", "Ich koche."],
    "ja": [
        "こんにちは、元気ですか。",
        "元気です。週末は何をしますか。",
        "映画を見ます。",
    ],
    "es": ["Hola, ¿qué tal?", "Muy bien, gracias. ¿Y tú?", "Bien, voy a la playa."],
    "zh": ["你好，你喜欢音乐吗？", "喜欢，我常听钢琴曲。", "我也是。"],
}


class Stub(BaseHTTPRequestHandler):
    """Answers each chat request by the hash of its messages, in the form that is asked for."""

    def log_message(self, *words: object) -> None:
        pass

    def do_GET(self) -> None:
        self._send({"object": "list", "data": [{"id": "stub", "object": "model"}]})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        text = json.dumps(body["messages"], sort_keys=True)
        seed = int(hashlib.sha256(text.encode()).hexdigest(), 16)
        form = body.get("response_format") or {}
        answer = str(1 + seed % 5)
        if form.get("type") == "json_schema":
            answer = json.dumps(_filled(form["json_schema"]["schema"], seed))
        logprobs = None
        if body.get("logprobs"):
            top = [{"token": str(n), "logprob": -n / 2, "bytes": None} for n in (1, 3)]
            token = {"token": "1", "logprob": -0.5, "bytes": None, "top_logprobs": top}
            logprobs = {"content": [token]}
        message = {"role": "assistant", "content": answer}
        choice = {"index": 0, "message": message, "logprobs": logprobs}
        choice["finish_reason"] = "stop"
        usage = {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}
        answer_of_api = {"id": "1", "object": "chat.completion", "created": 0}
        answer_of_api |= {"model": "stub", "choices": [choice], "usage": usage}
        self._send(answer_of_api)

    def _send(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _filled(schema: dict[str, Any], seed: int) -> Any:
    if "enum" in schema:
        return schema["enum"][seed % len(schema["enum"])]
    kind = schema.get("type")
    if kind == "object":
        names = sorted(schema["properties"])
        return {
            name: _filled(schema["properties"][name], seed // (i + 2))
            for i, name in enumerate(names)
        }
    if kind in ("integer", "number"):
        low, high = int(schema.get("minimum", 0)), int(schema.get("maximum", 5))
        return low + seed % (high - low + 1)
    if kind == "boolean":
        return seed % 2 == 0
    return [] if kind == "array" else "as asked"


def write_dialogues(folder: Path) -> Path:
    """Writes 36 dialogues of chitchat-dataset and four short ones in other languages."""
    import chitchat_dataset

    conversations = chitchat_dataset.Dataset()
    lines = []
    for key in sorted(conversations, key=str)[: DIALOGUES - len(MORE_TEXTS)]:
        texts = [m["text"] for turn in conversations[key]["messages"] for m in turn]
        lines.append(_line(f"en-{len(lines)}", "en", texts[:7]))
    for lang, texts in MORE_TEXTS.items():
        lines.append(_line(f"{lang}-0", lang, texts))
    # every fifth comes first, so that the first eight are of several languages
    lines = [line for start in range(5) for line in lines[4 - start :: 5]]
    path = folder / "dialogues.jsonl"
    path.write_text("".join(lines), encoding="utf-8")
    (folder / "few.jsonl").write_text("".join(lines[:ASKED_DIALOGUES]), "utf-8")
    return path


def _line(name: str, lang: str, texts: list[str]) -> str:
    roles = ("user", "assistant")
    turns = [
        {"role": roles[i % 2], "content": text or "."} for i, text in enumerate(texts)
    ]
    row = {"id": name, "lang": lang, "dialogue": turns}
    row["models"] = {"assistant": f"bot-{len(texts) % 2}"}
    return json.dumps(row, ensure_ascii=False) + "\n"


def medal(folder: Path, *words: str) -> str | None:
    """Runs a command in ``folder``; None, or the end of what it said if it failed."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OPENAI_API_KEY": "none"}
    done = subprocess.run(
        [*MEDAL, *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=3000,
    )
    print("  ", " ".join(words)[:100], done.returncode, file=sys.stderr, flush=True)
    return None if done.returncode in (0, 1, 3, 4) else done.stderr[-400:]


def scores(folder: Path, url: str) -> dict[str, Any]:
    """Judge -> "dialogue dimension" -> its score, rounded to 1e-6, or why there is none."""
    write_dialogues(folder)
    server = ["llm=openai:stub", f"llm.base_url={url}", "llm.cache=false"]
    runs = [(name, "dialogues.jsonl", []) for name in LOCAL_JUDGES]
    runs += [(name, "dialogues.jsonl", ["--level", "turn"]) for name in TURN_JUDGES]
    runs += [(name, "few.jsonl", []) for name in EMBEDDED_JUDGES]
    # DIET's selection writes answers, which takes a minute a dialogue
    runs.append(("diet", "few.jsonl", ["select=false"]))
    results = {}
    for name, file, more in runs:
        results[name] = _scores_of(folder, name, file, more)
    for name in SERVER_JUDGES:
        results[f"{name}, server"] = _scores_of(folder, name, "few.jsonl", server)
    return results


def _scores_of(folder: Path, name: str, file: str, more: list[str]) -> Any:
    out = folder / f"{name}.scores.jsonl"
    failure = medal(
        folder, "score", file, "--judge", name, "--out", out.name, "--overwrite", *more
    )
    if failure:
        return failure
    found: dict[str, float | None] = {}
    for line in out.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        place = f"{row['id']} {row.get('turn', '')}".strip()
        for dimension, score in (row.get("scores") or {}).items():
            found[f"{place} {dimension}"] = None if score is None else round(score, 6)
    return found


def benchmark(folder: Path) -> dict[str, Any]:
    """Set and judge -> correlations of ``--config human`` without language models."""
    settings = yaml.safe_load((ROOT / "configs/benchmark/human.yaml").read_text())
    settings["judges"] = [
        {"name": name, "path": name} for name in ("length", "repetition", "boxed")
    ]
    settings["output_dir"] = "benchmark"
    (folder / "human.yaml").write_text(yaml.safe_dump(settings), "utf-8")
    failure = medal(folder, "benchmark", "--config", "human.yaml")
    if failure:
        return {"failure": failure}
    rows: dict[str, Any] = {}
    for path in sorted((folder / "benchmark").rglob("*.csv")):
        text = path.read_text(encoding="utf-8")
        rows[path.name] = text.splitlines()[:60]
    return rows


def files(folder: Path) -> dict[str, Any]:
    """Command -> the files that it writes."""
    tutorials = ROOT / "docs/tutorials"
    for name in ("v1.jsonl", "v2.jsonl", "labelled.jsonl"):
        (folder / name).write_bytes((tutorials / name).read_bytes())
    commands = {
        "score": "score v1.jsonl --out s/v1.jsonl",
        "report": "report s/v1.jsonl --chats v1.jsonl --out report",
        "compare": "compare v1.jsonl v2.jsonl --dimension overall --out compared",
        "align": "align boxed --labels labelled.jsonl --label helpful=overall --out aligned",
        "trial": "trial length --out trial",
        "plant": "data plant v1.jsonl --out planted.jsonl",
        "stats": "data stats labelled.jsonl --out stats",
        "curate": "curate labelled.jsonl --n 10 --out curated",
        "annotate": "annotate export v1.jsonl --out annotation",
        "train": "train --config quickstart --out trained",
    }
    written: dict[str, Any] = {}
    (folder / "s").mkdir(exist_ok=True)
    for name, words in commands.items():
        earlier = _listing(folder)
        failure = medal(folder, *words.split())
        written[name] = failure or sorted(_listing(folder) - earlier)
    return written


def _listing(folder: Path) -> set[str]:
    return {
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()
    }


def papers() -> dict[str, int]:
    """Paper and table -> its rows in configs/published.yaml."""
    counts: Counter[str] = Counter()
    published = yaml.safe_load((ROOT / "configs/published.yaml").read_text("utf-8"))
    _count_rows(published, "", counts)
    return dict(counts)


def _count_rows(value: Any, place: str, counts: Counter[str]) -> None:
    if isinstance(value, dict):
        for key, inner in value.items():
            _count_rows(inner, f"{place}/{key}", counts)
    elif isinstance(value, list):
        counts[place] += len(value)


def record() -> dict[str, Any]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found = {
            "scores": scores(folder, f"http://127.0.0.1:{server.server_port}/v1"),
            "benchmark": benchmark(folder),
            "files": files(folder),
            "papers": papers(),
        }
    server.shutdown()
    return found


def differences(before: Any, after: Any, place: str = "") -> list[str]:
    """Returns a line for each value that differs, numbers by more than TOLERANCE."""
    if isinstance(before, dict) and isinstance(after, dict):
        lines = []
        for key in [*before, *(k for k in after if k not in before)]:
            lines += differences(before.get(key), after.get(key), f"{place}/{key}")
        return lines
    are_numbers = isinstance(before, float) and isinstance(after, float)
    if before == after or (are_numbers and abs(before - after) <= TOLERANCE):
        return []
    return [f"{place}: {before} -> {after}"]


def main() -> None:
    what, path = sys.argv[1], Path(sys.argv[2])
    found = record()
    if what == "record":
        text = json.dumps(found, indent=1, ensure_ascii=False)
        path.write_text(text + "\n", "utf-8")
        return
    lines = differences(json.loads(path.read_text("utf-8")), found)
    print("\n".join(lines) or "nothing differs")


if __name__ == "__main__":
    main()
