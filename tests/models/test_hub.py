"""Judges to and from a hub on loopback: in processes of their own, as users run them."""

from pathlib import Path

from medal_judges import Judge

from ..hub_stub import Hub, Repo

ID = "org/judge"
PLAIN = {"config.json": b'{"model_type": "bert"}', "model.safetensors": b"0" * 1000}
LOAD = """
import sys
from medal_judges import Dialogue, Judge, Turn
from medal_judges.errors import HubError
for words in sys.argv[1:] or {pulls!r}:
    id, _, revision = words.partition("@")
    try:
        judge = Judge.from_pretrained(id, revision=revision or None)
        turns = Turn("user", "Hello"), Turn("assistant", "I like the sea.")
        (found,) = judge.score([Dialogue("a", turns)])
        print(words, judge.name, found.scores["overall"], sep="|")
    except HubError as error:
        print(words, "error", str(error).replace("\\n", " "), sep="|")
"""


def pulls(hub: Hub, home: Path, *wanted: str, **env: str) -> list[str]:
    """What each ``id@revision`` gives: ``name|score`` or ``error|message``."""
    done = hub.run(home, LOAD.replace("{pulls!r}", repr(wanted)), **env)
    assert done.returncode == 0, done.stderr
    return [line.split("|", 1)[1] for line in done.stdout.splitlines()]


def judge_folder(path: Path, kind: str) -> Path:
    judge = Judge.from_pretrained(f"configs/judges/{kind}.yaml")
    return judge.save_pretrained(path / kind)


def files_of(folder: Path) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in folder.iterdir()}


def test_pull_by_revision_and_from_the_cache_without_a_network(
    hub: Hub, tmp_path: Path
) -> None:
    repo = hub.repos[ID] = Repo()
    repo.tags["v1"] = repo.commit(files_of(judge_folder(tmp_path, "length")), "one")
    second = repo.commit(files_of(judge_folder(tmp_path, "repetition")), "two")
    home = tmp_path / "home"
    first, newest, by_commit = pulls(hub, home, f"{ID}@v1", ID, f"{ID}@{second}")
    assert first.startswith("length|") and newest.startswith("repetition|")
    assert by_commit == newest
    again = pulls(
        hub, home, f"{ID}@v1", ID, f"{ID}@v9", "org/other", HF_HUB_OFFLINE="1"
    )
    assert again[:2] == [first, newest]
    assert again[2].startswith(f"error|{ID}: ") and "org/other: " in again[3]
    hub.close()  # out of reach, and nobody said so
    assert pulls(hub, home, f"{ID}@v1", ID) == [first, newest]


def test_a_judge_is_pushed_from_python(hub: Hub, tmp_path: Path) -> None:
    code = """
from medal_judges import Judge
from medal_judges.errors import HubError
judge = Judge.from_pretrained("configs/judges/length.yaml")
print(judge.push_to_hub("org/judge", revision="v1"))
"""
    done = hub.run(tmp_path / "home", code)
    repo = hub.repos[ID]
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == f"{hub.address}/{ID}/commit/{repo.tags['v1']}"
    assert repo.private and repo.messages == ["Judge judge"]
    assert set(repo.files) == {"judge.json", "golden.json", "model.safetensors"}
    hub.close()
    for env in ({}, {"HF_HUB_OFFLINE": "1"}):
        done = hub.run(tmp_path / "home", code, **env)
        assert "HubError" in done.stderr and "org/judge: " in done.stderr


def test_each_trouble_is_one_line_that_names_the_repository(
    hub: Hub, tmp_path: Path
) -> None:
    hub.repos[ID] = Repo()
    hub.repos[ID].commit(files_of(judge_folder(tmp_path, "length")), "one")
    hub.repos["org/gated"] = Repo(gated=True)
    hub.repos["org/gated"].commit(dict(PLAIN), "one")
    hub.repos["org/plain"] = Repo()
    hub.repos["org/plain"].commit(dict(PLAIN), "one")
    ids = ("org/jugde", f"{ID}@v2", "org/gated", "org/plain")
    for id, answer in zip(ids, pulls(hub, tmp_path / "home", *ids), strict=True):
        assert answer.startswith(f"error|{id.partition('@')[0]}: "), answer
    of_plain = [path for path in hub.asked if "org/plain" in path]
    assert of_plain and not any("model.safetensors" in path for path in of_plain)
    (answer,) = pulls(hub, tmp_path / "home3", ID, HF_TOKEN="hf_wrong")
    assert answer.startswith("error|") and "hf_wrong" not in answer
    assert pulls(hub, tmp_path / "h", "runs/mine")[0].startswith("error|no judge")


def test_only_the_files_of_a_judge_are_downloaded(hub: Hub, tmp_path: Path) -> None:
    """Those of its members and of the parts in its subfolders too."""
    names = ["members/a/judge.json", "members/a/model.safetensors", "encoder/vocab.txt"]
    foreign = ["big0.bin", "members/big1.bin", "code.py", "encoder/x.pkl"]
    repo = hub.repos[ID] = Repo()
    judge = files_of(judge_folder(tmp_path, "length"))
    repo.commit(judge | dict.fromkeys([*names, *foreign], b"{}"), "one")
    home = tmp_path / "home"
    assert pulls(hub, home, ID)[0].startswith("length|")
    (snapshot,) = home.rglob("snapshots/*")
    downloaded = {
        path.relative_to(snapshot).as_posix() for path in snapshot.rglob("*.*")
    }
    assert downloaded == {*judge, *names}
