"""tests/models/llm's server with scripted labels: ``python label_server.py SETTINGS``.

What is said of a dialogue stands in it: ``<<unsafe=1 overall=2,4>>`` makes ``unsafe`` 1 and
``overall`` 2 with the first seed, 4 with the second; a value ``x`` is no number. What is not named
is in order (0, overall 5). SETTINGS are server.py's.
"""

from __future__ import annotations

import importlib.util
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

FOLDER = Path(__file__).parents[1] / "models" / "llm"


def module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None and spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def answer(body: dict[str, Any]) -> str:
    """The JSON object asked for, with the values that the dialogue names."""
    said = body["messages"][-1]["content"]
    # a fenced prompt escapes the second bracket
    marked = re.findall(r"<(?:<|&lt;)(.*?)>>", said)
    told = dict(re.findall(r"(\w+)=([\w,.]+)", " ".join(marked)))
    keys = body["response_format"]["json_schema"]["schema"]["properties"]
    found = {}
    for key in keys:
        name = "overall" if key == "overall_quality_rating" else key
        values = told.get(name, "5" if name == "overall" else "0").split(",")
        value = values[body.get("seed", 0) % len(values)]
        label = None if value == "x" else int(value)
        found[key] = {
            "label": label,
            "comment": f"Because of {name}." if value != "0" else "",
        }
    return json.dumps(found)


def serve_chat(settings: dict[str, Any]) -> None:
    server = module("server")

    def scripted(body: dict[str, Any], *more: Any) -> dict[str, Any]:
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        return dict(server.chat(body, answer(body), "stop", usage, None))

    server.scripted = scripted
    running = server.Server(settings)
    print(running.server_address[1], flush=True)
    running.serve_forever()


if __name__ == "__main__":
    serve_chat(json.loads(sys.argv[1]))
