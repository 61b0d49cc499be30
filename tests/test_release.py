"""What is released: sdist and wheel hold every file, by whichever way they are built; version,
pins and workflows say what they promise."""

import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from datetime import date
from pathlib import Path

import pytest
import yaml

import medal_judges

ROOT = Path(__file__).parent.parent
ROOMS = ("configs", "data_prep", "eval", "inference", "models", "training")
BUILD = "import setuptools.build_meta as b, sys; getattr(b, 'build_' + sys.argv[1])(sys.argv[2])"


def _build(kind: str, tree: Path, out: Path) -> Path:
    """The one file that building ``kind`` (wheel, sdist) of ``tree`` makes in ``out``."""
    out.mkdir()
    command = [sys.executable, "-c", BUILD, kind, str(out)]
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (made,) = out.iterdir()
    return made


def _contents(wheel: Path) -> dict[str, bytes]:
    """What a wheel installs, and its metadata but for the list of hashes."""
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if not name.endswith("/RECORD")]
        return {name: packed.read(name) for name in names}


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, with the links and without what earlier runs left."""
    copy = tmp_path_factory.mktemp("release") / "tree"
    copy.mkdir()
    left = shutil.ignore_patterns("__pycache__", "*.egg-info", "*.pyc")
    for room in (*ROOMS, "src"):
        shutil.copytree(ROOT / room, copy / room, symlinks=True, ignore=left)
    for file in ROOT.iterdir():
        if file.is_file():
            shutil.copy(file, copy)
    return copy


@pytest.fixture(scope="module")
def wheel(tree: Path) -> dict[str, bytes]:
    return _contents(_build("wheel", tree, tree.parent / "wheel"))


def test_every_file_of_the_rooms_is_in_the_wheel(
    tree: Path, wheel: dict[str, bytes]
) -> None:
    wanted = {
        (Path("medal_judges") / place.relative_to(start)).as_posix(): place.read_bytes()
        for start in (tree / "src" / "medal_judges", tree)
        for place in start.rglob("*")
        if place.is_file()
        and (start != tree or place.relative_to(tree).parts[0] in ROOMS)
        and ".egg-info" not in str(place)
    }
    assert len(wanted) > 400
    missing = {name for name, content in wanted.items() if wheel.get(name) != content}
    assert missing == set()
    others = {name for name in wheel if ".dist-info/" not in name} - wanted.keys()
    assert others == set()


@pytest.mark.slow  # seconds of packing; .ci/wheel goes that way too
def test_the_wheel_by_way_of_the_sdist_is_the_same(
    tree: Path, wheel: dict[str, bytes]
) -> None:
    sdist = _build("sdist", tree, tree.parent / "sdist")
    with tarfile.open(sdist) as packed:
        assert not [each.name for each in packed if each.issym() or each.islnk()]
        packed.extractall(tree.parent, filter="data")
    unpacked = tree.parent / sdist.name.removesuffix(".tar.gz")
    for beside in ("CHANGELOG.md", "CITATION.cff", "LICENSE", "SECURITY.md"):
        assert (unpacked / beside).read_bytes() == (ROOT / beside).read_bytes()
    assert _contents(_build("wheel", unpacked, tree.parent / "from-sdist")) == wheel


def test_who_cites_cites_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == medal_judges.__version__
    # an ISO date: YAML reads no other as one
    assert isinstance(cited["date-released"], date)
    page = (ROOT / "docs" / "howto" / "cite.md").read_text(encoding="utf-8")
    assert f"version      = {{{cited['version']}}}" in page
    assert f"year         = {{{cited['date-released'].year}}}" in page
    assert cited["title"] in page
    assert all(each["title"] in page for each in cited["references"])


def test_workflows_run_pinned_actions_without_secrets() -> None:
    files = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert files
    for file in files:
        text = file.read_text(encoding="utf-8")
        assert yaml.safe_load(text)["permissions"] == {"contents": "read"}
        assert "secrets." not in text and "pull_request_target" not in text
        used = re.findall(r"uses: (\S+)", text)
        assert used and all(
            re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", each) for each in used
        )
        for script in re.findall(r"\.ci/\w+", text):
            assert (ROOT / script).stat().st_mode & 0o111, script
