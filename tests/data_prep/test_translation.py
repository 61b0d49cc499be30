"""Translation: the same turns and roles, or a reason why not; resumed after a kill."""

import json
import os
import runpy
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import load_config
from medal_judges.data_prep.jobs import path_beside
from medal_judges.data_prep.translation import (
    TranslateConfig,
    Translation,
    TranslationRunner,
    translate_to_file,
)
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import Dialogue, Role, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records

from ..forked import start
from .fake import FakeAgents, Refused, one_agent

SCRIPT = Path(__file__).with_name("translation_script.py")
_ANSWER = runpy.run_path(str(SCRIPT))["answer"]
ROLES: tuple[Role, Role] = ("user", "assistant")

Serve = Callable[..., Any]


def answer(body: dict[str, Any]) -> str:
    """The script's answer, and a refusal of what says REFUSE."""
    if "REFUSE" in body["messages"][-1]["content"]:
        raise Refused("breaks the rules")
    return str(_ANSWER(body))


def row(group: str, lang: str, *texts: str) -> LabelledDialogue:
    """A dialogue of one context; its turns are ``texts``, the user's first."""
    turns = tuple(Turn(ROLES[i % 2], text) for i, text in enumerate(texts))
    dialogue = Dialogue(
        f"{group}-{lang}",
        turns,
        lang=lang,
        source="medal-generated",
        models={"user": "ann", "assistant": "bot"},
        context={"id": f"{group}-{lang}", "scene": "PersonX sings.", "country": "Chad"},
    )
    labels = {"overall": (4.0,)}
    return LabelledDialogue(
        dialogue, labels, {"overall": (1, 5)}, split="train", group=group
    )


class Run:
    """One run of the translator into ``out``."""

    def __init__(
        self,
        rows: Sequence[LabelledDialogue],
        out: Path,
        langs: Sequence[str] = ("de",),
        agents: FakeAgents | None = None,
        **settings: Any,
    ) -> None:
        self.agents = agents or one_agent(answer)
        plain = load_config(TranslateConfig, "native/translate", ["llm=fake"])
        runner = TranslationRunner(
            plain.model_copy(update=settings), agents=self.agents
        )
        jobs = [Translation(r, lang) for r in rows for lang in langs]
        self.failures: Counter[str] = translate_to_file(runner, jobs, out)
        self.by, self.earlier = runner.signature_text, runner.earlier
        self.rows = list(read_labelled(out))
        self.prompts = [b["messages"][-1]["content"] for b in self.agents.bodies]


def test_structure_speakers_and_context_are_kept(tmp_path: Path) -> None:
    source = [
        row("g1", "en", "Hi {dialogue}", "user: hello", ""),
        row("g2", "en", 'Bye "x"\n}'),
    ]
    run = Run(source, tmp_path / "t.jsonl", ["de", "zh"])
    assert [r.id for r in run.rows] == [
        f"{g}-en--in-{lang}" for g in ("g1", "g2") for lang in ("de", "zh")
    ]
    one = run.rows[1]
    assert [(t.role, t.content) for t in one.dialogue.turns] == [
        ("user", "[Chinese] Hi {dialogue}"),
        ("assistant", "[Chinese] user: hello"),
        ("user", ""),
    ]
    assert all(
        getattr(one.dialogue, f) == getattr(source[0].dialogue, f)
        for f in ("models", "context")
    )
    assert (one.group, one.split, one.dialogue.lang) == ("g1", "train", "zh")
    assert one.dialogue.source == "medal-translated" and not one.labels
    assert (
        one.extra["translated_from"] == source[0].id
        and one.extra["translated_by"] == run.by
    )
    assert not run.failures and not path_beside(tmp_path / "t.jsonl", "failed").exists()


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("DROP", "the entry '2_assistant' is missing"),
        ("EMPTY", "turn 1 (user) is empty"),
        ("LEAVE", "turn 1 (user) was left in the original language"),
        ("PROSE", "the answer is not one JSON object alone"),
    ],
)
def test_another_structure_is_a_failure_with_its_reason(
    tmp_path: Path, word: str, reason: str
):
    out = tmp_path / "t.jsonl"
    source = [
        row("g1", "en", f"one two three four {word}", "Fine."),
        row("g2", "en", "Hi", "Ho"),
    ]
    run = Run(source, out)
    assert [r.group for r in run.rows] == ["g2"] and run.failures == {reason: 1}
    assert len(run.prompts) == 3 + 1  # three tries, and the other dialogue
    assert sum(f"could not be used: {reason}" in prompt for prompt in run.prompts) == 2
    (lost,) = read_labelled(path_beside(out, "failed"))
    assert (
        lost.extra["failure"] == reason
        and lost.extra["tries"] == 3
        and lost.extra["to"] == "de"
    )

    def healed(body: dict[str, Any]) -> str:
        text = body["messages"][-1]["content"].replace(word, "")
        return answer({"messages": [{"content": text}]})

    # what failed is tried again, nothing else
    again = Run(source, out, agents=one_agent(healed))
    assert len(again.prompts) == 1 and again.earlier == 1 and not again.failures
    assert not path_beside(out, "failed").exists() and [
        r.group for r in again.rows
    ] == [
        "g1",
        "g2",
    ]


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_a_longer_run_resumes_and_asks_nothing_twice(tmp_path: Path, name: str) -> None:
    rows = [row(f"g{i}", "en", f"Hi {i}", "Ho") for i in range(6)]
    whole, out = Run(rows, tmp_path / f"whole-{name}"), tmp_path / name
    Run(rows[:4], out)
    journal = path_beside(out, "answers")
    # a kill in the middle of the fourth line
    journal.write_text(journal.read_text()[:-20])
    run = Run(rows, out)
    assert run.rows == whole.rows and (run.earlier, len(run.prompts)) == (3, 3)
    if name == "t.jsonl":
        assert out.read_bytes() == (tmp_path / f"whole-{name}").read_bytes()
    more = Run(rows[:1], out, ["fr"])  # the rows of another language stay
    assert [r.dialogue.lang for r in more.rows] == ["de"] * 6 + ["fr"] and len(
        more.prompts
    ) == 1


def test_killed_at_random_moments_and_resumed(serve: Serve, tmp_path: Path) -> None:
    """MEDAL_KILLS moments (3 unless set): the bytes of an unbroken run."""
    kills = int(os.environ.get("MEDAL_KILLS", "3"))
    server = serve(script=str(SCRIPT), delay=0.05)
    rows = [
        row(f"g{i}", "en", f"Hi {i} {'DROP' * (i % 5 == 0)}", "Ho") for i in range(12)
    ]
    source = tmp_path / "in.jsonl"
    write_records(source, rows)
    llm = {"backend": "openai", "model": "m", "base_url": server.url, "cache": False}
    settings = [f"llm={json.dumps({**llm, 'max_in_flight': 2})}"]
    command = [
        "data",
        "translate",
        str(source),
        *settings,
        "--to",
        "de",
    ]
    whole = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "whole.jsonl")])
    assert whole.exit_code == 0, whole.output
    lines = path_beside(tmp_path / "whole.jsonl", "answers").read_text().count("\n")
    seed = int(time.time())
    print(f"seed {seed}")
    out = tmp_path / "cut.jsonl"
    for k in range(kills):
        least = lines * (k + 1) // (kills + 1)
        process = start(*command, "--out", out)
        journal = path_beside(out, "answers")
        while process.poll() is None:
            if journal.exists() and journal.read_text().count("\n") >= least:
                break
            time.sleep(0.01)
        time.sleep((seed * 7919 + k * 104729) % 100 / 1000)
        process.kill()
        process.wait()
    done = CliRunner().invoke(app, [*command, "--out", str(out)])
    assert done.exit_code == 0 and "of them resumed" in done.output, done.output
    for name in ("{}.jsonl", "{}.failed.jsonl"):
        cut, one = (tmp_path / name.format(which) for which in ("cut", "whole"))
        assert cut.read_bytes() == one.read_bytes()
