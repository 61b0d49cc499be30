"""What README.md and the walks in docs/tutorials show is what their commands print."""

import os
import re
from importlib.metadata import metadata
from pathlib import Path

import pytest

from medal_judges.config import load_config
from medal_judges.training.config import TrainConfig

from .walks import NEEDS_DATA, NUMBERS_VARY, ROOT, TOLD, rewritten, run_walk, steps

WALK = """Text.

```console
$ echo one; echo two >&2
old
$ (exit 3)
$ echo $?
$ cat > made.txt <<'END'
> some words
> END
$ cat made.txt
```

```python
not run
```

```console
$ echo "took $SECONDS.25 s"
took 99.1 s
```
"""


def test_commands_of_a_walk_share_a_shell_and_their_output_is_written_back(
    tmp_path: Path,
) -> None:
    file = tmp_path / "walk.md"
    file.write_text(WALK, encoding="utf-8")
    came = run_walk(file)
    assert [step.output for step in came[:5]] == [
        "one\ntwo\n",
        "",
        "3\n",
        "",
        "some words\n",
    ]
    assert came[5].lasting == steps(WALK)[5].lasting == "took # s"
    text = rewritten(WALK, came)
    assert "old" not in text and "> some words" in text and "not run" in text
    assert [step.lasting for step in steps(text)] == [step.lasting for step in came]
    # what a walk makes stays out of the documents
    assert list(tmp_path.iterdir()) == [file]


# README's in the suite, the others with the slow ones: a walk starts ten processes.
WALKED = [TOLD[0], *(pytest.param(walk, marks=pytest.mark.slow) for walk in TOLD[1:])]


@pytest.mark.parametrize("walk", WALKED, ids=lambda walk: walk.stem)
def test_the_walk_shows_what_its_commands_print(walk: Path) -> None:
    text = walk.read_text(encoding="utf-8")
    if NEEDS_DATA in text and not os.environ.get("MEDAL_JUDGES_DATA"):
        pytest.skip("set MEDAL_JUDGES_DATA to the folder of the sets")
    told = steps(text)
    assert told
    for before, now in zip(told, run_walk(walk), strict=True):
        if NUMBERS_VARY in text:
            assert now.words == before.words, before.command
        else:
            assert now.lasting == before.lasting, before.command


def test_readme_has_no_command_that_is_not_run() -> None:
    """All commands stand in blocks that are run, but for six. `make test` is this suite, which
    .ci/run runs as written; two are run below. The three that need eight GPUs and the Hub name
    what is there; test_shipped_configs.py and test_push.py of tests/training run them in small."""
    text = TOLD[0].read_text(encoding="utf-8")
    written = re.findall(r"^    (\S.*?)(?: +#.*)?$", text, re.MULTILINE)
    assert written[:3] == ["make quickstart", ". .venv/bin/activate", "make test"]
    install, launch, push = written[3:]
    extras = re.fullmatch(r"pip install '\.\[(.+)\]'", install)
    provided = metadata("medal-judges").get_all("Provides-Extra") or []
    assert extras and set(extras[1].split(",")) <= set(provided)
    words = re.fullmatch(
        r"accelerate launch --config_file (\S+) (\S+) --config (\S+)", launch
    )
    assert words and (ROOT / words[1]).is_file() and (ROOT / words[2]).is_file()
    config = load_config(TrainConfig, words[3], folder="train")
    assert push == f"medal push {config.output_dir} ORG/NAME"
    assert "\nmake test\n" in (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    run_here = "".join(step.shell + "\n" for step in steps(text))
    assert {"medal score", "medal report", "medal compare"} <= set(
        re.findall(r"^medal \w+", run_here, re.MULTILINE)
    )
