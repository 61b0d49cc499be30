"""The Dockerfile's steps make an installation that serves.

Left out are the steps under "# system:" (they need the image), and docker itself: FROM, USER,
EXPOSE and HEALTHCHECK's timing are docker's to keep.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from medal_judges.models.base.judge import Judge

from .conftest import talk

ROOT = Path(__file__).parents[3]
TOKEN = "a-token-of-the-docker-test"
STEPS = (
    "ARG",
    "FROM",
    "ENV",
    "RUN",
    "WORKDIR",
    "COPY",
    "USER",
    "EXPOSE",
    "HEALTHCHECK",
)


def instructions() -> list[tuple[str, str, bool]]:
    """(instruction, what follows, whether it stands under "# system:") of the Dockerfile."""
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    found, system = [], False
    for line in text.splitlines():
        if line.startswith("#"):
            system = line.startswith("# system:")
        elif line.strip():
            name, _, rest = line.partition(" ")
            found.append((name, rest.strip(), system))
    return found


def ignored(folder: str, names: list[str]) -> set[str]:
    """What .dockerignore keeps out of the image."""
    if Path(folder) != ROOT:
        return {name for name in names if name == "__pycache__"}
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    return set(names) - {line[1:] for line in lines if line.startswith("!")}


def test_every_instruction_is_known_here_and_the_image_drops_root() -> None:
    names = [name for name, *_ in instructions()]
    assert set(names) - set(STEPS) == {"ENTRYPOINT"}
    assert "USER" in names and names.index("USER") < names.index("ENTRYPOINT")
    kept = (ROOT / ".dockerignore").read_text().splitlines()
    assert kept[0] == "*"  # only what is named travels: no data, no key, no history
    assert all((ROOT / line[1:]).exists() for line in kept if line.startswith("!"))


@pytest.mark.slow
def test_the_steps_make_an_installation_that_serves(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "venv")], check=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["PATH"] = f"{tmp_path / 'venv' / 'bin'}:/usr/bin:/bin"
    environment["HOME"] = str(tmp_path)
    place, entry, health = tmp_path, [], []
    for name, rest, system in instructions():
        if name in ("ARG", "ENV"):
            for key, value in re.findall(r"(\w+)=(\S*)", rest):
                environment[key] = value
        elif name == "WORKDIR":
            place = tmp_path / rest.lstrip("/")
            place.mkdir(parents=True, exist_ok=True)
        elif name == "COPY":
            assert rest == ". ."
            shutil.copytree(
                ROOT, place, symlinks=True, ignore=ignored, dirs_exist_ok=True
            )
        elif name == "RUN" and not system:
            subprocess.run(
                ["bash", "-euc", rest], cwd=place, env=environment, check=True
            )
        elif name == "ENTRYPOINT":
            entry = json.loads(rest)
        elif name == "HEALTHCHECK":
            health = json.loads(rest.partition("CMD ")[2])
    environment["MEDAL_JUDGES_TOKEN"] = TOKEN
    words = [*entry, "--port", "0"]  # without a name: the judge in the package
    log = (tmp_path / "log").open("w+")
    process = subprocess.Popen(words, cwd=place, env=environment, stderr=log)
    try:
        while not (
            found := re.findall(r" on http://\S+:(\d+)", (tmp_path / "log").read_text())
        ):
            assert process.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        asked = [word.replace(":8000/", f":{found[0]}/") for word in health]
        assert asked != health
        subprocess.run(asked, env=environment, check=True, timeout=60)
        answer = httpx.post(
            f"http://127.0.0.1:{found[0]}/score",
            json=talk(1).to_record(),
            headers={"Authorization": f"Bearer {TOKEN}"},
        )
        (judgement,) = answer.json()["judgements"]
        (expected,) = Judge.from_pretrained("boxed").score([talk(1)])
        # another torch, perhaps
        assert judgement["scores"] == pytest.approx(expected.scores, abs=1e-3)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=60) == 0
    finally:
        process.kill()
        process.wait()
        log.close()
