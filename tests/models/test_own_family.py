"""A judge family of another package, known by its entry point: that of docs/howto/family.md."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path("docs/howto/family.md").read_text(encoding="utf-8")


def test_a_family_of_another_package_is_scored_by_its_name(tmp_path: Path) -> None:
    shown = PAGE.split("<<'END'\n")[1].split("> END")[0].splitlines()
    code = "\n".join(line[2:] for line in shown).split("\nif __name__")[0]
    (more,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    imports, methods = more.split("class SorryJudge(Judge):\n    ...\n")
    info = tmp_path / "sorry-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sorry\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[medal_judges.families]\nsorry = sorry:SorryJudge\n"
    )
    docstring, rest = code.split("\n", 1)
    (tmp_path / "sorry.py").write_text(
        f"{docstring}\n{imports}{rest.rstrip()}\n{methods}"
    )
    (tmp_path / "sorry.yaml").write_text("family: sorry\n")
    chat = [
        {"role": "user", "content": "?"},
        {"role": "assistant", "content": "I am sorry."},
    ]
    (tmp_path / "chats.jsonl").write_text(
        json.dumps({"id": "a", "messages": chat}) + "\n"
    )
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    save = "import sorry; sorry.SorryJudge().save_pretrained('mine')"
    for words in (
        ["-c", save],
        [
            "-m",
            "medal_judges",
            "score",
            "chats.jsonl",
            "--judge",
            "sorry.yaml",
            "--out",
            "a.jsonl",
        ],
        [
            "-m",
            "medal_judges",
            "score",
            "chats.jsonl",
            "--judge",
            "mine",
            "--out",
            "b.jsonl",
        ],
    ):
        subprocess.run(
            [sys.executable, *words],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": paths},
            check=True,
        )
    for name in ("a.jsonl", "b.jsonl"):
        scores = json.loads((tmp_path / name).read_text())["scores"]
        assert scores == pytest.approx({"sorry": 1.0}, abs=1e-9)
