"""The public names: each is there, says what it is, and its example runs."""

import doctest
import json
import sys
from pathlib import Path

import pytest

import medal_judges
from medal_judges import ConfigError, JudgeLoadError, MedalError

PUBLIC = {name: getattr(medal_judges, name) for name in medal_judges.__all__}
KINDS_OF_ERROR = [*MedalError.__subclasses__(), *ConfigError.__subclasses__()]
KINDS_OF_ERROR += JudgeLoadError.__subclasses__()


@pytest.fixture
def _files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """dialogues.jsonl and labelled.jsonl in the folder in which the examples run."""
    roles = ("user", "assistant")
    said = [{"role": roles[k % 2], "content": "Hello there! " * k} for k in range(4)]
    rows = [
        {"id": f"d{n}", "lang": "en", "dialogue": said[: 2 + 2 * (n % 2)]}
        | {"labels": {"overall": [1 + n % 5]}, "scales": {"overall": [1, 5]}}
        for n in range(12)
    ]
    longer = [row | {"dialogue": said} for row in rows[:3]]
    files = {"labelled.jsonl": rows, "dialogues.jsonl": longer}
    files["old.jsonl"] = [
        row | {"dialogue": _answered(n)} for n, row in enumerate(rows)
    ]
    files["new.jsonl"] = [
        row | {"dialogue": _answered(3 * n + 9)} for n, row in enumerate(rows)
    ]
    for name, written in files.items():
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in written))
    monkeypatch.chdir(tmp_path)


def _answered(words: int) -> list[dict[str, str]]:
    answer = "so " * words + "yes"
    return [
        {"role": "user", "content": "Hi!"},
        {"role": "assistant", "content": answer},
    ]


@pytest.mark.parametrize("name", sorted(PUBLIC))
def test_the_example_of_a_public_name_runs(name: str, _files: None) -> None:
    public = PUBLIC[name]
    module = dict(vars(sys.modules[public.__module__]))
    (test,) = doctest.DocTestFinder(recurse=False).find(public, name, globs=module)
    assert test.docstring and (test.examples or public in KINDS_OF_ERROR)
    assert doctest.DocTestRunner().run(test).failed == 0


def test_every_public_name_is_listed_once() -> None:
    assert sorted(medal_judges._PUBLIC) == sorted(medal_judges.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        medal_judges.nothing  # noqa: B018
