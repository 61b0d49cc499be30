"""Native against translated through a real server process: known wins, order bias, failures."""

from __future__ import annotations

import csv
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
from medal_judges.data_prep.native.comparison import CompareConfig, Comparer, compare_to_file
from medal_judges.data_prep.native.pairs import (
    NativePair,
    PairAnswer,
    PairVerdict,
    paired,
    parse_verdict,
)
from medal_judges.data_prep.native.rates import rates
from medal_judges.data_prep.native.report import write_report
from medal_judges.errors import MedalError, RecordError
from medal_judges.models.llm.loading import load_llm
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.storage.jsonl import write_records

from .conftest import Running, row

Serve = Callable[..., Running]


def comparer(running: Running, **settings: Any) -> Comparer:
    plain = load_config(CompareConfig, "native/compare")
    config = plain.model_copy(update={"llm": running.llm} | settings)
    return Comparer(config, load_llm(running.llm))


def translated(group: str, lang: str, *texts: str, **models: str) -> LabelledDialogue:
    one = row(group, lang, *texts, **models)
    return replace(one, dialogue=replace(one.dialogue, id=f"{one.id}--in-{lang}"))


def pairs(count: int = 8, lang: str = "de") -> tuple[NativePair, ...]:
    """Of every four, two natives say BETTER, one translation does, and one neither does."""
    marks = [("BETTER", ""), ("BETTER", ""), ("", "BETTER"), ("", "")]
    native, other = [], []
    for i in range(count):
        mine, theirs = marks[i % 4]
        native.append(row(f"g{i}", lang, f"Hallo {i}", f"Ja {mine}"))
        other.append(translated(f"g{i}", lang, f"Hallo da {i}", f"Gut {theirs}"))
    return paired(native, other).pairs


def test_a_judge_of_content_gives_the_known_wins(serve: Serve, tmp_path: Path) -> None:
    running = serve(judge="content")
    verdicts = compare_to_file(pairs(), comparer(running), tmp_path / "v.jsonl")
    assert len(running.requests()) == 8 * 2 * 2  # criteria, orders
    for criterion in ("culture", "naturalness"):
        mine = [v.result for v in verdicts if v.criterion == criterion]
        assert mine == ["win", "win", "loss", "tie"] * 2
    one = next(r for r in rates(verdicts) if r.criterion == "culture")
    values = {name: estimate.value for name, estimate in one.figures.items()}
    assert values == {
        "win": 0.5,
        "tie": 0.25,
        "loss": 0.25,
        "net": 0.25,
        "inconsistent": 0.25,
        "first_shown": 0.625,  # 0.5 where content decides, 1 in the quarter where it does not
    }


def test_a_judge_of_position_gives_ties_only_and_is_found_out(serve: Serve, tmp_path: Path) -> None:
    verdicts = compare_to_file(pairs(), comparer(serve(judge="first")), tmp_path / "v.jsonl")
    for one in rates(verdicts):
        assert one.figures["tie"].value == 1 and one.figures["inconsistent"].value == 1
        assert one.figures["first_shown"].value == 1 and one.figures["net"].value == 0
        assert one.figures["first_shown"].low is None  # the same in every resample: not [1, 1]


def test_an_unreadable_answer_is_unscored_and_no_tie(serve: Serve, tmp_path: Path) -> None:
    running = serve(judge="prose")
    verdicts = compare_to_file(pairs(2), comparer(running), tmp_path / "v.jsonl")
    assert [v.result for v in verdicts] == [None] * 4
    assert len(running.requests()) == 2 * 2 * 2 * 3  # pairs, criteria, orders, tries
    for one in rates(verdicts):
        assert (one.pairs, one.scored) == (2, 0)
        assert one.unscored == Counter({"the answer is not one JSON object and nothing else": 2})
        assert one.figures["tie"].value is None and one.figures["tie"].reason


def test_an_answer_that_the_server_refuses_is_unscored(serve: Serve, tmp_path: Path) -> None:
    native = [row("g0", "de", "Hallo REFUSE"), row("g1", "de", "Hallo BETTER")]
    other = [translated("g0", "de", "Hallo"), translated("g1", "de", "Hallo")]
    by = comparer(serve())
    verdicts = compare_to_file(paired(native, other).pairs, by, tmp_path / "v.jsonl")
    assert [v.result for v in verdicts] == [None, "win"] * 2
    one = rates(verdicts)[0]
    assert one.scored == 1 and one.figures["win"].value == 1
    assert "breaks the rules" in next(iter(one.unscored))


def test_a_second_try_is_told_the_reason(serve: Serve, tmp_path: Path) -> None:
    native, other = [row("g0", "de", "PROSE BETTER")], [translated("g0", "de", "Hallo")]
    running = serve()
    verdicts = compare_to_file(paired(native, other).pairs, comparer(running), tmp_path / "v.jsonl")
    assert [v.result for v in verdicts] == ["win", "win"]
    told = [r["messages"][-1]["content"] for r in running.requests()]
    assert sum("could not be used: no JSON object" in prompt for prompt in told) == 4


def test_prompts_show_both_orders_and_do_not_tell_where_a_dialogue_is_from(serve: Serve) -> None:
    running = serve()
    (pair,) = pairs(1)
    comparer(running).compare([(pair, "culture")])
    prompts = [r["messages"][-1]["content"] for r in running.requests()]
    one, other = sorted(prompts, key=lambda prompt: prompt.index("Hallo da 0"), reverse=True)
    mine, theirs = "user: Hallo 0\nassistant: Ja BETTER\n", "user: Hallo da 0\nassistant: Gut\n"
    shown = "Conversation A:\n{}\nConversation B:\n{}"
    assert shown.format(mine, theirs) in one and shown.format(theirs, mine) in other
    for prompt in (one, other):
        for word in ("native-", "translat", "Chad", "bot"):
            assert word not in prompt.replace('("assistant")', "").replace("chatbot", "")


def test_a_stopped_comparison_goes_on(serve: Serve, tmp_path: Path) -> None:
    running, out = serve(), tmp_path / "v.jsonl"
    whole = compare_to_file(pairs(), comparer(running), tmp_path / "whole.jsonl")
    compare_to_file(pairs()[:5], comparer(running), out)
    text = out.read_text()
    out.write_text(text[:-30])  # the last of ten verdicts is broken off
    before = len(running.requests())
    found = compare_to_file(pairs(), comparer(running, at_once=3), out)
    assert found == whole and out.read_text() == (tmp_path / "whole.jsonl").read_text()
    assert len(running.requests()) - before == (16 - 9) * 2
    with pytest.raises(MedalError, match="holds verdicts by"):
        compare_to_file(pairs(), comparer(running, ties=True), out)


def test_verdicts_without_a_result_are_asked_for_again(serve: Serve, tmp_path: Path) -> None:
    running, out = serve(judge="prose"), tmp_path / "v.jsonl"
    compare_to_file(pairs(2), comparer(running, tries=1), out)
    good = serve(judge="content")
    verdicts = compare_to_file(pairs(2), comparer(good, tries=1), out)
    assert [v.result for v in verdicts] == ["win"] * 4 and len(out.read_text().splitlines()) == 4


def verdict(first: Any, second: Any, group: str = "g", lang: str = "de") -> PairVerdict:
    """By what was chosen when the native, and when the translated dialogue was shown first."""
    said = [PairAnswer(c, failure=None if c else "lost") for c in (first, second)]
    return PairVerdict(f"{group}-{lang}", "culture", group, lang, "n", "t", *said, "judge:x")


@pytest.mark.parametrize(
    ("first", "second", "result", "inconsistent", "first_shown"),
    [
        ("native", "native", "win", False, 0.5),
        ("translated", "translated", "loss", False, 0.5),
        ("native", "translated", "tie", True, 1.0),
        ("translated", "native", "tie", True, 0.0),
        ("neither", "neither", "tie", False, 0.5),
        ("native", "neither", "tie", True, 0.75),
        ("neither", "native", "tie", True, 0.25),
        (None, "native", None, True, None),
        ("native", None, None, True, None),
    ],
)
def test_results(
    first: Any, second: Any, result: Any, inconsistent: bool, first_shown: float | None
) -> None:
    found = verdict(first, second)
    assert found.result == result and found.inconsistent is inconsistent
    if result is not None:
        assert found.first_shown == first_shown
    assert parse_verdict(json.loads(json.dumps(found.to_record()))) == found


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"group": None}, "group"),
        ({"native_first": "native"}, "native_first"),
        ({"native_first": {"choice": "A"}}, "native_first.choice"),
        ({"translated_first": {"choice": None}}, "translated_first.choice"),
    ],
)
def test_a_damaged_verdict_names_its_field(changed: dict[str, Any], field: str) -> None:
    with pytest.raises(RecordError) as caught:
        parse_verdict(verdict("native", "native").to_record() | changed)
    assert caught.value.field == field


def test_wilson_where_each_context_has_one_pair() -> None:
    from scipy.stats import binomtest

    expected = binomtest(8, 10).proportion_ci(method="wilson")
    outcomes = ["native"] * 8 + ["translated"] * 2
    verdicts = [verdict(c, c, f"g{i}") for i, c in enumerate(outcomes)]
    (one,) = rates(verdicts)
    win = one.figures["win"]
    assert one.method == "Wilson" and win.value == 0.8
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
    assert together.method == "jackknife of contexts" and together.contexts == 40
    win = together.figures["win"]
    assert win.low is not None and win.high is not None
    width = win.high - win.low
    assert width == pytest.approx(2 * 1.96 * np.sqrt(0.75 * 0.25 / 40), rel=0.1)
    tie = together.figures["tie"]  # 0 whichever context is left out
    assert tie.value == 0 and tie.low == 0 and tie.high == pytest.approx(0.0876, abs=1e-3)
    assert [r.lang for r in rates(verdicts)] == ["de", "es", "fr", "pt", "zh", "all"]


def test_each_figure_tells_how_its_own_interval_was_made(tmp_path: Path) -> None:
    def intervals(verdicts: list[PairVerdict]) -> dict[str, str]:
        write_report(rates(verdicts), {}, tmp_path)
        with (tmp_path / "results.csv").open(encoding="utf-8", newline="") as stream:
            lines = [line for line in csv.DictReader(stream) if line["lang"] == "all"]
        assert all(bool(line["low"]) == (line["interval"] != "none") for line in lines)
        return {line["figure"]: line["interval"] for line in lines}

    wins = {"native": 8, "translated": 4}
    outcomes = [c for c, count in wins.items() for _ in range(count)]
    both = [verdict(c, c, f"g{i}", lang) for i, c in enumerate(outcomes) for lang in ("de", "fr")]
    drawn = "jackknife of contexts"
    edges = {"tie": "Wilson", "inconsistent": "Wilson"}  # no pair was one
    shares = {"win": drawn, "loss": drawn} | edges
    assert intervals(both) == shares | {"net": drawn, "first_shown": "none"}
    none = dict.fromkeys(("win", "loss", "net", "first_shown"), "none")
    assert intervals(both[12:20]) == none | edges  # 8 pairs of 4 contexts are too few
    lost = [verdict(None, None, "g", lang) for lang in ("de", "fr")]
    assert set(intervals(lost).values()) == {"none"}


def test_rates_do_not_depend_on_the_order_of_the_verdicts() -> None:
    rng = np.random.default_rng(0)
    verdicts = [
        verdict(a, b, f"g{i % 30}", lang)
        for i, lang in enumerate(["de", "fr"] * 60)
        for a, b in [rng.choice(["native", "translated"], 2)]
    ]
    mixed = [verdicts[i] for i in rng.permutation(len(verdicts))]
    for one, other in zip(rates(verdicts), rates(mixed), strict=True):
        for name, estimate in one.figures.items():
            same = other.figures[name]
            assert estimate.value == pytest.approx(same.value)
            assert (estimate.low, estimate.high) == pytest.approx((same.low, same.high))


def test_pairing() -> None:
    native = [row("a", "de", "x"), row("a", "en", "x"), row("b", "de", "x"), row("a", "fr", "x")]
    other = [translated("a", "de", "y"), translated("c", "de", "y")]
    found = paired(native, other)
    assert [p.id for p in found.pairs] == ["a--de--ann--bot"]
    assert (found.native_only, found.translated_only) == (1, 1)
    with pytest.raises(MedalError, match="same context"):
        paired(native, [*other, translated("a", "de", "z")])
    with pytest.raises(MedalError, match="no native dialogue"):
        paired(native, [translated("a", "de", "y", bot="other")])
    with pytest.raises(MedalError, match="are both native and translated"):
        paired(native, native)


def test_command_writes_page_json_and_csv(serve: Serve, tmp_path: Path) -> None:
    running = serve()
    broken = paired([row("g9", "fr", "REFUSE")], [translated("g9", "fr", "Salut")]).pairs
    both = [*pairs(8, "de"), *pairs(8, "fr"), *broken]
    write_records(tmp_path / "n.jsonl", [p.native for p in both])
    write_records(tmp_path / "t.jsonl", [p.translated for p in both])
    files = [str(tmp_path / "n.jsonl"), str(tmp_path / "t.jsonl")]
    command = ["data", "compare-native", *files, f"llm={json.dumps(running.llm)}"]
    command += ["--out", str(tmp_path / "out")]
    dry = CliRunner().invoke(app, [*command, "--dry-run"])
    assert "17 dialogues: 68 requests" in dry.output and not running.requests()
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "68 requests" in result.output and "0.50 [0.22, 0.78]" in result.output
    record = json.loads((tmp_path / "out/results.json").read_text())
    assert len(record["rates"]) == 6 and record["facts"]["Pairs"].startswith("17")
    (reason, count), *_ = record["rates"][1]["unscored"].items()
    assert "breaks the rules" in reason and count == 1 and "1 unscored: " in result.output
    lines = (tmp_path / "out/results.csv").read_text().splitlines()
    assert len(lines) == 1 + 6 * 6 and lines[0].startswith("criterion,lang,pairs")
    page = (tmp_path / "out/report.html").read_text()
    assert page.count("<svg") == 2 and "Native against translated" in page
    assert "//" not in page.split("<body>")[1].split("<script>")[0]  # asks nothing of anybody
