"""scripts/one_evening.sh as a whole, with tiny weights and with stub servers for all models."""

import os
import re
import subprocess
import sys
from collections import ChainMap
from pathlib import Path

import numpy as np
import pytest
import yaml

from medal_judges.config import read_yaml
from medal_judges.records.dimension import load_rubric

from .conftest import WORDS
from .hub_stub import TOKEN, Hub, Repo
from .talks import write_rated

ROOT = Path(__file__).parent.parent
SCRIPT = ROOT / "scripts/one_evening.sh"
SERVER = ROOT / "tests/models/llm/server.py"
# Words by the request, the labels that the schema asks for, and Yes from the user judge.
ANSWERS = """
import hashlib, json, random
from server_answers import filled
WORDS = [a + b + c for a in "bdfgklmnprst" for b in ("a", "ei", "o") for c in ("l", "n", "st")]

def answer(body):
    told = json.dumps([body["model"], body["messages"]])
    seed = int(hashlib.sha256(told.encode()).hexdigest(), 16)
    if form := body.get("response_format"):
        found = filled(form["json_schema"]["schema"], seed)
        if len(found) == 2:  # the check of users
            found = {name: entry | {"label": 0} for name, entry in found.items()}
        return json.dumps(found)
    if body["model"].startswith("gemini"):
        return "Yes."
    if "[RESULT]" in told:
        return f"Feedback: as one would expect. [RESULT] {1 + seed % 5}"
    return " ".join(random.Random(seed).choices(WORDS, k=12))
"""
SETTINGS = """
BIN={bin}
PORT={port}
GENERATE={folder}/generate.yaml
LABELLER={folder}/medal_gpt41.yaml
USER_CHECK={folder}/malformed.yaml
CURATED=2
LAUNCH=("{python}" training/train.py)
serve() {{
    local settings='"script": "{folder}/answers.py"'
    exec "{python}" {server} "{{\\"port\\": $2, $settings}}"
}}
flags() {{
    printf '%s\\n' args.num_train_epochs=1
    case $1 in
        lora*) printf '%s\\n' model.base={llama} model.layout=each model.answer_tokens=40 \\
            model.comment_chars=1 'only=[overall]' ;;
        *) printf '%s\\n' model.base={modernbert} ;;
    esac
    if [[ $1 = *soda* ]]; then
        printf '%s\\n' 'train=[{{source: {folder}/soda.jsonl}}]' 'split={{validation: 0.3}}' \\
            'validation=[]' 'test=[]'
    fi
}}
"""


def test_the_script_serves_the_models_of_the_config() -> None:
    run, script = read_yaml("generate/medal"), SCRIPT.read_text()
    served = {"-": run["users"]["gemma-3-27b-it"], **run["chatbots"]}
    for bot, llm in served.items():
        place, model = llm["base_url"][-4], re.escape(llm["model"])
        assert re.search(
            rf"^\w+ +{place} +[\d,]+ +{model} +{bot}$", script, re.MULTILINE
        )


@pytest.mark.slow
def test_one_evening_at_tiny_scale(
    tmp_path: Path, hub: Hub, tiny_llama: Path, tiny_modernbert: Path
) -> None:
    folder, port = tmp_path / "tiny", 20000 + os.getpid() % 1000 * 11
    folder.mkdir()
    (folder / "answers.py").write_text(ANSWERS)
    prices = {"models": dict(ChainMap(*read_yaml("prices")["servers"].values()))}
    (folder / "prices.yaml").write_text(yaml.safe_dump(prices))
    paid = {
        "base_url": f"http://localhost:{port + 10}/v1",
        "prices": f"{folder}/prices.yaml",
    }
    run = read_yaml("generate/medal")
    for llm in (*run["users"].values(), run["user_judge"], *run["chatbots"].values()):
        own = llm.get("base_url", "")
        near = own.startswith("http://localhost:80")
        llm |= (
            {"base_url": f"http://localhost:{port + int(own[-4])}/v1"} if near else paid
        )
    run |= {"contexts": {"n": 12}, "seed": 1, "languages": ["en", "de"], "max_turns": 4}
    (folder / "generate.yaml").write_text(yaml.safe_dump(run))
    for name in ("medal_gpt41", "malformed"):
        judge = read_yaml(f"judges/{name}")
        judge |= {"llm": judge["llm"] | paid}
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(judge))
    (overall,), rng = load_rubric("overall"), np.random.default_rng(0)
    words = [[" ".join(rng.choice(WORDS, 5)) for _ in range(8)] for _ in range(24)]
    scale = overall.low, overall.high
    rated = [
        (texts, {"overall": float(rng.integers(scale[0], scale[1] + 1))})
        for texts in words
    ]
    write_rated(folder / "soda.jsonl", rated, scales={"overall": scale})
    hub.repos["org/tiny"] = Repo()
    files = {path.name: path.read_bytes() for path in tiny_llama.iterdir()}
    hub.repos["org/tiny"].commit(files, "base")
    python = sys.executable
    named = {"bin": Path(python).parent, "python": python, "folder": folder}
    named |= {"server": SERVER, "port": port}
    named |= {"llama": "org/tiny", "modernbert": tiny_modernbert}
    (folder / "settings.sh").write_text(SETTINGS.format(**named))
    left_out = ("HF_", "MEDAL_JUDGES_DATA")
    env = {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
    env |= {"HF_ENDPOINT": hub.address, "HF_HUB_DISABLE_XET": "1", "HF_TOKEN": TOKEN}
    env |= {"HF_HOME": str(tmp_path / "home"), "OMP_NUM_THREADS": "1"}
    env |= {"GEMINI_API_KEY": "dummy", "OPENAI_API_KEY": "dummy"}
    env |= {"ONE_EVENING_SETTINGS": str(folder / "settings.sh")}
    out = tmp_path / "out"
    env |= {"ONE_EVENING_OUT": str(out), "ONE_EVENING_HUB": "org"}

    def evening(**more: str) -> str:
        done = subprocess.run([SCRIPT], env=env | more, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr[-4000:]
        return done.stdout

    shown = evening()
    assert "To go on: ONE_EVENING_MAX_COST=DOLLARS" in shown and "dollars" in shown
    settings = f'{{"port": {port + 10}, "script": "{folder}/answers.py"}}'
    command = [python, SERVER, settings]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as apis:
        try:
            evening(ONE_EVENING_MAX_COST="50")
            again = evening(ONE_EVENING_MAX_COST="50")
        finally:
            apis.terminate()
    steps = [path.name for path in (out / "done").iterdir()]
    assert len(steps) == 16 == again.count("done before")
    judges = ("modernbert_medal_regression", "mmbert_medal", "lora_medal_8b")
    assert {f"org/{name}" for name in judges} < {*hub.repos}
    page = (out / "benchmark" / "report.html").read_text()
    assert all(
        name in page for name in ("M-Prometheus", "lora_medal_8b", "boxed", "length")
    )
    assert (out / "annotation").is_dir() and (
        out / "curated" / "selection.jsonl"
    ).is_file()
    assert b"dummy" not in b"".join(
        p.read_bytes() for p in out.rglob("*") if p.is_file()
    )
