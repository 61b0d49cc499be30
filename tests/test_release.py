"""What is released: sdist and wheel hold every file, by whichever way they are built; version,
pins and workflows say what they promise."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

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
