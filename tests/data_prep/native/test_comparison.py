"""Native against translated: known wins, order bias, failures, rates with intervals."""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from medal_judges.cli import app
from medal_judges.config import load_config
from medal_judges.data_prep.native import (
    CompareConfig,
    NativePair,
    Verdict,
    comparison,
    paired,
    rates,
    result_of,
)
from medal_judges.data_prep.native import compare as run
from medal_judges.errors import MedalError
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records

from ..fake import FakeAgents, one_agent
from .rows import SCRIPT, answer, prompts, row


def compare(
    some: list[NativePair],
    out: Path,
    script: Callable[[dict[str, Any]], str] = answer,
    **settings: Any,
) -> tuple[list[Verdict], FakeAgents]:
    agents = one_agent(script)
    plain = load_config(CompareConfig, "native/compare", ["llm=fake"])
    config = plain.model_copy(update=settings)
    return run(*comparison(config, some, agents=agents), out), agents


def translated(group: str, lang: str, *texts: str, **models: str) -> LabelledDialogue:
    one = row(group, lang, *texts, **models)
    return replace(one, dialogue=replace(one.dialogue, id=f"{one.id}--in-{lang}"))


def pairs(count: int = 8, lang: str = "de") -> list[NativePair]:
    """Of every four, two natives say BETTER, one translation does, and one neither does."""
    marks = [("BETTER", ""), ("BETTER", ""), ("", "BETTER"), ("", "")]
    native, other = [], []
    for i in range(count):
        mine, theirs = marks[i % 4]
        native.append(row(f"g{i}", lang, f"Hallo {i}", f"Ja {mine}"))
        other.append(translated(f"g{i}", lang, f"Hallo da {i}", f"Gut {theirs}"))
    return paired(native, other)[0]


def test_a_judge_of_content_gives_the_known_wins(tmp_path: Path) -> None:
    verdicts, agents = compare(pairs(), tmp_path / "v.jsonl")
    assert len(agents.bodies) == 8 * 2 * 2  # criteria, orders
    for criterion in ("culture", "naturalness"):
        mine = [v["result"] for v in verdicts if v["criterion"] == criterion]
        assert mine == ["win", "win", "loss", "tie"] * 2
    one = next(r for r in rates(verdicts) if r.criterion == "culture")
    assert (
        {name: estimate.value for name, estimate in one.figures.items()}
        == {
            "win": 0.5,
            "tie": 0.25,
            "loss": 0.25,
            "net": 0.25,
            "first_shown": 0.625,  # 0.5 if content decides, 1 in the quarter where it does not
        }
    )


def test_a_judge_of_position_gives_ties_only_and_is_found_out(tmp_path: Path) -> None:
    verdicts, _ = compare(
        pairs(), tmp_path / "v.jsonl", lambda _: '{"reason": "", "better": "A"}'
    )
    for one in rates(verdicts):
        assert one.figures["tie"].value == 1
        assert one.figures["first_shown"].value == 1 and one.figures["net"].value == 0
        # the same in every resample: not [1, 1]
        assert one.figures["first_shown"].low is None


def test_an_unusable_answer_is_unscored_and_asked_for_by_the_next_run(
    tmp_path: Path,
) -> None:
    out = tmp_path / "v.jsonl"
    verdicts, agents = compare(pairs(2), out, lambda _: "They are both lovely.")
    assert [v["result"] for v in verdicts] == [None] * 4
    assert len(agents.bodies) == 2 * 2 * 2 * 3  # pairs, criteria, orders, tries
    for one in rates(verdicts):
        assert (one.pairs, one.scored) == (2, 0)
        assert one.unscored == Counter(
            {"the answer is not one JSON object and nothing else": 2}
        )
        assert one.figures["tie"].value is None and one.figures["tie"].reason
    verdicts, _ = compare(pairs(2), out)
    assert [v["result"] for v in verdicts] == ["win"] * 4 and len(
        out.read_text().splitlines()
    ) == 4


@pytest.mark.parametrize(
    ("answered", "usable"),
    [
        ('{"better": "A", "reason": "They wrote </think>{\'better\': \'B\'}"}', True),
        ('<think>{"better": "B"}</think>{"better": "A", "reason": "x"}', True),
        *(('```json\n{"better": "A"}\n```', True), ("", False), ("A", False)),
        *(
            ('<think>{"better": "A"}', False),
            ('{"better": "A"}. {"better": "B"}', False),
        ),
        ('["A"]', False),
    ],
)
def test_an_answer_is_one_object(tmp_path: Path, answered: str, usable: bool) -> None:
    verdicts, _ = compare(pairs(1), tmp_path / "v.jsonl", lambda _: answered)
    assert {v["native_first"]["choice"] for v in verdicts} == {
        "native" if usable else None
    }


def test_a_refused_request_is_unscored_and_a_second_try_gets_the_reason(
    tmp_path: Path,
) -> None:
    native = [row("g0", "de", "Hallo REFUSE"), row("g1", "de", "PROSE BETTER")]
    other = [translated("g0", "de", "Hallo"), translated("g1", "de", "Hallo")]
    verdicts, agents = compare(paired(native, other)[0], tmp_path / "v.jsonl")
    assert [v["result"] for v in verdicts] == [None, "win"] * 2
    one = rates(verdicts)[0]
    assert one.scored == 1 and one.figures["win"].value == 1
    assert "breaks the rules" in next(iter(one.unscored))
    told = prompts(agents.bodies)
    assert (
        sum(
            "could not be used: the answer is not one JSON" in prompt for prompt in told
        )
        == 4
    )


def test_prompts_show_both_orders_and_do_not_tell_the_origin(tmp_path: Path) -> None:
    _, agents = compare(pairs(1), tmp_path / "v.jsonl", criteria={"culture": "Which?"})
    one, other = prompts(agents.bodies)
    mine, theirs = (
        "user: Hallo 0\nassistant: Ja BETTER\n",
        "user: Hallo da 0\nassistant: Gut\n",
    )
    shown = "Conversation A:\n{}\nConversation B:\n{}"
    assert shown.format(mine, theirs) in one and shown.format(theirs, mine) in other
    for prompt in (one, other):
        for word in ("native-", "translat", "Chad", "bot"):
            assert word not in prompt.replace('("assistant")', "").replace(
                "chatbot", ""
            )


def test_a_stopped_comparison_resumes(tmp_path: Path) -> None:
    out = tmp_path / "v.jsonl"
    whole, _ = compare(pairs(), tmp_path / "whole.jsonl")
    compare(pairs()[:5], out)
    journal = tmp_path / "v.answers.jsonl"
    # the last of 20 answers is broken off
    journal.write_text(journal.read_text()[:-30])
    found, agents = compare(pairs(), out, at_once=3)
    assert found == whole and out.read_text() == (tmp_path / "whole.jsonl").read_text()
    assert len(agents.bodies) == 32 - 19
    with pytest.raises(MedalError, match="holds answers by"):
        compare(pairs(), out, temperature=0.5)


def verdict(first: Any, second: Any, group: str = "g", lang: str = "de") -> Verdict:
    """By what was chosen when the native, and when the translated dialogue was shown first."""
    said = [{"choice": c, "failure": None if c else "lost"} for c in (first, second)]
    return {
        "id": f"{group}-{lang}",
        "criterion": "culture",
        "group": group,
        "lang": lang,
        "native_first": said[0],
        "translated_first": said[1],
        "result": result_of(*said),
    }


@pytest.mark.parametrize(
    ("first", "second", "result", "first_shown"),
    [
        *(("native", "native", "win", 0.5), ("translated", "translated", "loss", 0.5)),
        *(("native", "translated", "tie", 1.0), ("translated", "native", "tie", 0.0)),
        *((None, "native", None, None), ("native", None, None, None)),
    ],
)
def test_results(
    first: Any, second: Any, result: Any, first_shown: float | None
) -> None:
    found = verdict(first, second)
    assert found["result"] == result
    if result is not None:
        assert rates([found])[0].figures["first_shown"].value == first_shown


def test_wilson_where_each_context_has_one_pair() -> None:
    from scipy.stats import binomtest

    expected = binomtest(8, 10).proportion_ci(method="wilson")
    outcomes = ["native"] * 8 + ["translated"] * 2
    verdicts = [verdict(c, c, f"g{i}") for i, c in enumerate(outcomes)]
    (one,) = rates(verdicts)
    win = one.figures["win"]
    assert win.value == 0.8
    assert (win.low, win.high) == pytest.approx((expected.low, expected.high))


def test_pairs_of_a_context_are_left_out_together() -> None:
    """40 contexts of five equal pairs are 40 trials and not 200."""
    verdicts = [
        verdict(c, c, f"g{i}", lang)
        for i in range(40)
        for lang in ("de", "fr", "pt", "es", "zh")
        for c in ["native" if i % 4 else "translated"]
    ]
    together = next(r for r in rates(verdicts) if r.lang == "all")
    assert together.contexts == 40
    win = together.figures["win"]
    assert win.low is not None and win.high is not None
    width = win.high - win.low
    assert width == pytest.approx(2 * 1.96 * np.sqrt(0.75 * 0.25 / 40), rel=0.1)
    tie = together.figures["tie"]  # 0 whichever context is left out
    assert (
        tie.value == 0 and tie.low == 0 and tie.high == pytest.approx(0.0876, abs=1e-3)
    )
    assert [r.lang for r in rates(verdicts)] == ["de", "es", "fr", "pt", "zh", "all"]


def test_pairing() -> None:
    native = [
        row("a", "de", "x"),
        row("a", "en", "x"),
        row("b", "de", "x"),
        row("a", "fr", "x"),
    ]
    other = [translated("a", "de", "y"), translated("c", "de", "y")]
    found, *alone = paired(native, other)
    assert [p.id for p in found] == ["a--de--ann--bot"] and alone == [1, 1]
    with pytest.raises(MedalError, match="same context"):
        paired(native, [*other, translated("a", "de", "z")])
    with pytest.raises(MedalError, match="no native dialogue"):
        paired(native, [translated("a", "de", "y", bot="other")])
    with pytest.raises(MedalError, match="are both native and translated"):
        paired(native, native)


def test_command_writes_page_and_json(
    serve: Callable[..., Any], tmp_path: Path
) -> None:
    server = serve(script=str(SCRIPT))
    llm = {"backend": "openai", "model": "m", "base_url": server.url, "cache": False}
    broken = paired([row("g9", "fr", "NEVER")], [translated("g9", "fr", "Salut")])[0]
    both = [*pairs(8, "de"), *pairs(8, "fr"), *broken]
    write_records(tmp_path / "n.jsonl", [p.native for p in both])
    write_records(tmp_path / "t.jsonl", [p.translated for p in both])
    files = [str(tmp_path / "n.jsonl"), str(tmp_path / "t.jsonl")]
    command = ["data", "compare-native", *files, f"llm={json.dumps(llm)}"]
    command += ["--out", str(tmp_path / "out")]
    dry = CliRunner().invoke(app, [*command, "--dry-run"])
    assert "17 dialogues: 68 requests" in dry.output and not server.total("seen")
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert " requests, " in result.output and "0.50 [0.22, 0.78]" in result.output
    record = json.loads((tmp_path / "out/results.json").read_text())
    assert len(record["rates"]) == 6 and record["facts"]["Pairs"].startswith("17")
    (reason, count), *_ = record["rates"][1]["unscored"].items()
    assert (
        "the answer is not one JSON" in reason
        and count == 1
        and "1 unscored: " in result.output
    )
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("<svg") == 2 and "Native against translated" in page
    # asks nothing of anybody
    assert "//" not in page.split("<body>")[1].split("<script>")[0]
