"""A judge family of another package, known by its entry point."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

CODE = """
from medal_judges import Dimension, Judge, Judgement, Signature

class SorryJudge(Judge):
    family, name = "sorry", "sorry"
    dimensions = (Dimension("sorry", "continuous", 0, 1, good="low", definition="Share."),)

    @classmethod
    def from_settings(cls, settings):
        return cls()

    def signature(self):
        return Signature(judge=self.name, revision="1", base="none", rubric="sorry")

    def _prepare(self, requests):
        for request in requests:
            answers = [t.content for t in request.dialogue.turns if t.role == "assistant"]
            request.tokens, request.payload = sum(map(len, answers)), answers

    def _score_batch(self, requests, dimensions):
        shares = [sum("sorry" in a for a in r.payload) / len(r.payload) for r in requests]
        return [Judgement(scores={name: share for name in dimensions}) for share in shares]
"""


def test_a_family_of_another_package_is_scored_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "sorry.py").write_text(CODE)
    info = tmp_path / "sorry-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sorry\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[medal_judges.families]\nsorry = sorry:SorryJudge\n")
    (tmp_path / "sorry.yaml").write_text("family: sorry\n")
    chat = [{"role": "user", "content": "?"}, {"role": "assistant", "content": "I am sorry."}]
    (tmp_path / "chats.jsonl").write_text(json.dumps({"id": "a", "messages": chat}) + "\n")
    words = ["score", "chats.jsonl", "--judge", "sorry.yaml", "--out", "scores.jsonl"]
    places = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    done = subprocess.run(
        [sys.executable, "-m", "medal_judges", *words],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(places)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((tmp_path / "scores.jsonl").read_text())["scores"] == {"sorry": 1.0}
