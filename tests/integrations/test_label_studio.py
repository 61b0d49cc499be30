"""A real Label Studio server on loopback: projects pushed, annotated by its API, answers pulled.

LABEL_STUDIO names the server's command, which lives in an environment of its own (its numpy, openai
and pyarrow are older than ours): `pip install label-studio` in a new one.
"""

import json
import os
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from medal_judges.cli import app
from medal_judges.data_prep.annotation.questions import dimensions_to_ask
from medal_judges.errors import MedalError
from medal_judges.integrations.label_studio import KEY_VARIABLE, pull_answers, push_project

pytestmark = [pytest.mark.integrations("label_studio_sdk")]
ROWS = Path(__file__).parent.parent / "data_prep" / "annotation" / "label_studio" / "rows.jsonl"
# Seconds: a first start makes the whole database, which is slow on a busy machine.
START = 1500
TOKEN = "0123456789abcdef" * 2 + "01234567"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    command = os.environ.get("LABEL_STUDIO")
    assert command, "LABEL_STUDIO is the path of the command label-studio (make test-integrations)"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = tmp_path_factory.mktemp("label_studio")
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
        "LABEL_STUDIO_BASE_DATA_DIR": str(folder),
        "LABEL_STUDIO_ENABLE_LEGACY_API_TOKEN": "true",
        "COLLECT_ANALYTICS": "false",
        "SENTRY_DSN": "",
        "FRONTEND_SENTRY_DSN": "",
    }
    words = ["start", "--no-browser", "--internal-host", "127.0.0.1", "--port", str(port)]
    words += ["--username", "ana@example.org", "--password", "only-here", "--user-token", TOKEN]
    with open(folder / "log", "w") as log:
        process = subprocess.Popen([command, *words], env=env, cwd=folder, stdout=log, stderr=log)
    url, end = f"http://127.0.0.1:{port}", time.monotonic() + START
    try:
        while True:
            try:
                urlopen(f"{url}/health", timeout=5).close()
                break
            except (URLError, OSError):
                assert process.poll() is None and time.monotonic() < end, (
                    folder / "log"
                ).read_text()
                time.sleep(1)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def test_pushed_annotated_and_pulled(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from label_studio_sdk import LabelStudio
    from typer.testing import CliRunner

    folder, url = tmp_path / "project", server
    monkeypatch.setenv(KEY_VARIABLE, TOKEN)

    def medal(*words: str) -> str:
        done = CliRunner().invoke(app, ["annotate", *words])
        assert done.exit_code == 0, done.output
        return done.output

    people = ("--annotator", "ana", "--annotator", "ben", "--form", "label-studio")
    medal("export", str(ROWS), "--out", str(folder), *people)
    assert f"{url}/projects/" in medal("push", str(folder), "--url", url)
    again = push_project(folder, url)
    client = LabelStudio(base_url=url, api_key=TOKEN, timeout=600)
    there = {each.id: each for each in client.projects.list()}
    assert sorted(again.values()) == sorted(there) and len(there) == 2
    tasks = json.loads((folder / "package/label_studio/tasks-ana.json").read_text())
    assert there[again["tasks-ana.json"]].task_number == len(tasks)
    chosen = {name.name: "no" for name in dimensions_to_ask()} | {"overall": "4"}
    answers = [
        {"from_name": name, "to_name": "dialogue", "type": "choices", "value": {"choices": [said]}}
        for name, said in chosen.items()
    ]
    for task in client.tasks.list(project=again["tasks-ana.json"]):
        client.annotations.create(id=task.id, result=answers)
    said = medal("pull", str(folder))
    files = [str(folder / "answers" / f"answers-{name}.json") for name in ("ana", "ben")]
    assert all(file in said for file in files)
    medal("import", str(folder), *files, "--out", str(tmp_path / "annotated.jsonl"))
    rows = [json.loads(line) for line in (tmp_path / "annotated.jsonl").read_text().splitlines()]
    assert len(rows) == len(tasks)
    assert all(row["labels"]["overall"] == [4] for row in rows)
    assert all(row["labels"]["unsafe"] == [0] for row in rows)


def test_what_goes_wrong_is_told_without_the_key(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from medal_judges.data_prep.annotation.project import export, new_project
    from medal_judges.data_prep.annotation.questions import load_guidelines
    from medal_judges.reading.dialogues import read_labelled

    monkeypatch.delenv(KEY_VARIABLE, raising=False)
    project = new_project(list(read_labelled(ROWS)), dimensions_to_ask())
    export(project, load_guidelines(), tmp_path, ["label-studio"])
    with pytest.raises(MedalError, match=f"{KEY_VARIABLE} is not set"):
        push_project(tmp_path, server)
    with pytest.raises(MedalError, match="answered 401") as refused:
        push_project(tmp_path, server, key="f" * 40)
    assert "f" * 40 not in str(refused.value) and "is LABEL_STUDIO_API_KEY of" in str(refused.value)
    with pytest.raises(MedalError, match="cannot be reached"):
        push_project(tmp_path, "http://127.0.0.1:9", key=TOKEN)
    with pytest.raises(MedalError, match="push the project first"):
        pull_answers(tmp_path, key=TOKEN)
