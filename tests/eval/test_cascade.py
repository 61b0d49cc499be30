"""The curve of a cascade: its ends are the judges, and what is not deferred costs nothing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medal_judges.errors import MedalError
from medal_judges.eval.benchmark.figures import Benchmark
from medal_judges.eval.benchmark.page import write_report
from medal_judges.eval.metaeval.comparison import CascadeCurve, cascade_curve
from medal_judges.eval.metaeval.metaeval import JudgedRows, evaluate
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue

TURNS = (Turn("user", "hello"), Turn("assistant", "hi"))


def rows_and_judges(
    count: int = 60,
) -> tuple[list[LabelledDialogue], list[Judgement], list[Judgement]]:
    """A weak judge that is wrong where it is unsure, and a strong one that is always nearly right.
    The strong one has not scored the first row."""
    rng = np.random.default_rng(0)
    rows, weak, strong = [], [], []
    for i in range(count):
        human = float(rng.integers(1, 6))
        dialogue = Dialogue(f"d{i}", TURNS, models={"assistant": f"bot-{i % 6}"})
        rows.append(LabelledDialogue(dialogue, {"overall": (human,)}, {"overall": (1, 5)}))
        doubt = float(rng.uniform())
        guess = human if doubt < 0.5 else float(rng.uniform(1, 5))
        chances = {"overall": (1 - doubt / 2, 0.0, doubt / 2)}
        weak.append(
            Judgement(f"d{i}", "judge:c", {"overall": guess}, None, chances, usage={"tokens": 10})
        )
        good = None if i == 0 else human + float(rng.normal(0, 0.3))
        spent = {"tokens": 100, "money": 0.5}
        strong.append(
            Judgement(f"d{i}", "judge:d", {"overall": good}, failure="-" if i == 0 else None)
            if i == 0
            else Judgement(f"d{i}", "judge:d", {"overall": good}, usage=spent)
        )
    return rows, weak, strong


def judged(
    rows: list[LabelledDialogue], judgements: list[Judgement], judge: str = "x"
) -> JudgedRows:
    return evaluate(rows, judgements, "overall", judge=judge, signature=f"judge:{judge}")


def curve() -> CascadeCurve:
    rows, weak, strong = rows_and_judges()
    return cascade_curve(judged(rows, weak, "weak"), judged(rows, strong, "strong"), "overall")


def test_the_ends_are_the_judges_own_figures() -> None:
    found = curve()
    rows, *judges = rows_and_judges()
    assert found.n == 59
    for point, judgements in zip((found.points[0], found.points[-1]), judges, strict=True):
        own = judged(rows[1:], judgements[1:]).row.metrics["spearman"]
        assert (point.spearman.value, point.spearman.low, point.spearman.high) == pytest.approx(
            (own.value, own.low, own.high)
        )
        assert point.at_random == pytest.approx(own.value)


def test_cost_is_the_cheap_judges_and_that_of_what_is_deferred() -> None:
    found = curve()
    for point in found.points:
        assert point.deferred == round(point.share * 59)
        assert point.cost["tokens"] == pytest.approx(10 + 100 * point.deferred / 59)
        assert point.cost["money"] == pytest.approx(0.5 * point.deferred / 59)
        assert "seconds" not in point.cost


def test_deferring_the_unsure_beats_deferring_at_random() -> None:
    half = curve().points[5]
    assert half.spearman.value is not None and half.at_random is not None
    assert half.spearman.value > half.at_random + 0.05


def test_a_cheap_judge_without_distributions_is_refused() -> None:
    rows, weak, strong = rows_and_judges()
    bare = [replace(j, distributions={}) for j in weak]
    with pytest.raises(MedalError, match="no distribution of 'overall'"):
        cascade_curve(judged(rows, bare), judged(rows, strong), "overall")


def test_the_curve_stands_on_the_page(tmp_path: Path) -> None:
    page = write_report(Benchmark("t", [], cascades=[curve()]), tmp_path).read_text("utf-8")
    assert "weak, then strong: , overall" in page
    assert (tmp_path / "figures/cascades.svg").is_file()
