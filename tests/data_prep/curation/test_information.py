"""What judges tell of a dialogue: figures by hand, the expected influence by simulation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from medal_judges.data_prep.curation.candidate import label_reading
from medal_judges.data_prep.curation.information import (
    JudgeTable,
    JudgeView,
    _expected_square,
    disagreement,
    influence,
    judge_table,
    read_views,
    uncertainty,
)
from medal_judges.data_prep.curation.policy import Judges, select
from medal_judges.errors import ConfigError, DataError
from medal_judges.jsonl import write_records
from medal_judges.judgement import Judgement

from .rows import candidate

READING = label_reading()


def view(name: str, *scores: float | None, spreads: dict[str, float] | None = None) -> JudgeView:
    given = {f"d{i}": score for i, score in enumerate(scores) if score is not None}
    return JudgeView(name, given, spreads or {})


def table(*views: JudgeView, rows: int = 4, rescale: str = "ranks") -> JudgeTable:
    ids = [f"d{i}" for i in range(rows)]
    return judge_table(views, ids, READING.overall, rescale)  # type: ignore[arg-type]


def test_disagreement_on_the_scale_by_hand() -> None:
    """1 and 5 of 1 to 5 are 0 and 1: standard deviation 0.5; 3 and 4 are 0.5 and 0.75: 0.125."""
    found = table(view("a", 1, 3, 2, 2), view("b", 5, 4, 2, None), rescale="scale")
    assert disagreement(found)[:3] == pytest.approx([0.5, 0.125, 0])
    assert disagreement(found)[3] == pytest.approx((0.5 + 0.125) / 3)  # unknown: as the mean


def test_by_ranks_a_stricter_judge_does_not_disagree() -> None:
    found = table(view("mild", 2, 3, 4, 5), view("strict", 1, 1.1, 1.2, 1.3))
    assert found.units[0] == pytest.approx([0.125, 0.375, 0.625, 0.875])
    assert disagreement(found) == pytest.approx([0, 0, 0, 0])
    swapped = table(view("mild", 2, 3, 4, 5), view("strict", 1, 1.1, 1.3, 1.2))
    assert disagreement(swapped) == pytest.approx([0, 0, 0.125, 0.125])


def test_uncertainty_is_the_mean_spread_of_those_who_have_one() -> None:
    found = table(
        view("a", 1, 2, 3, 4, spreads={"d0": 0.5, "d1": 0.1}),
        view("b", 1, 2, 3, 4, spreads={"d0": 0.3}),
        view("c", 1, 2, 3, 4),
    )
    assert uncertainty(found) == pytest.approx([0.4, 0.1, 0.25, 0.25])


@pytest.mark.parametrize("correlation", [0.0, 0.4, 0.9])
def test_expected_squared_influence_against_simulation(correlation: float) -> None:
    rng = np.random.default_rng(0)
    x, m, v, r = 1.3, 0.7, 0.6, correlation / 2
    y = rng.normal(m, v**0.5, size=2_000_000)
    expected = ((x * y - r * x**2 - r * y**2) ** 2).mean()
    found = _expected_square(np.array(x), np.array(m), np.array(v), r)
    assert float(found) == pytest.approx(expected, rel=0.01)


def test_the_influence_is_what_a_little_more_weight_does_to_a_correlation() -> None:
    """With nothing in doubt, the square is that of the slope of Pearson's r in a row's weight."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=40)
    y = 0.6 * x + rng.normal(size=40)
    x, y = ((v - v.mean()) / v.std() for v in (x, y))
    r, more = float((x * y).mean()), 1e-5
    found = _expected_square(x, y, np.zeros(40), r / 2)
    for i in range(40):
        weights = np.ones(40)
        weights[i] += more * 40
        moved = np.cov(x, y, aweights=weights)
        slope = (moved[0, 1] / np.sqrt(moved[0, 0] * moved[1, 1]) - r) / more
        assert found[i] == pytest.approx(slope**2, rel=1e-2, abs=1e-3)


def test_the_middle_tells_less_than_the_ends() -> None:
    scores = [float(i) for i in range(21)]
    found = influence(table(view("a", *scores), rows=21), 0.4)
    assert found[0] > found[5] > found[10] < found[15] < found[20]


def test_doubt_adds_to_what_a_dialogue_tells() -> None:
    sure = dict.fromkeys([f"d{i}" for i in range(8)], 0.1)
    found = influence(table(view("a", *range(8), spreads={**sure, "d0": 0.5}), rows=8), 0.4)
    assert found[0] > found[7]  # they stand equally far from the middle


def test_sizes_need_the_judges_they_speak_of() -> None:
    with pytest.raises(ConfigError, match="no judge gives a distribution"):
        uncertainty(table(view("a", 1, 2, 3, 4)))
    with pytest.raises(ConfigError, match="one judge"):
        disagreement(table(view("a", 1, 2, 3, 4)))
    with pytest.raises(ConfigError, match="expected correlation"):
        influence(table(view("a", 1, 2, 3, 4)), 1.0)
    with pytest.raises(ConfigError, match="outside 1 to 5"):
        table(view("a", 1, 2, 3, 70), rescale="scale")
    pool = [candidate(f"d{i}") for i in range(4)]
    with pytest.raises(ConfigError, match="none were given"):
        select("uncertainty", pool, 2, READING)
    with pytest.raises(ConfigError, match="no judgement of any of the 4"):
        select("disagreement", pool, 2, READING, judges=Judges([JudgeView("a", {"z": 1.0})]))


def test_dialogues_nobody_judged_stay_and_are_counted() -> None:
    pool = [candidate(f"d{i}") for i in range(4)]
    judges = Judges([view("a", 1, 2, 3, None), view("b", 3, 2, 1, None)])
    taken = set()
    for seed in range(60):
        found = select("disagreement", pool, 2, READING, seed=seed, judges=judges)
        assert found.notes == {"without a judgement": 1}
        taken |= {c.candidate.id for c in found.chosen}
    assert taken == {"d0", "d1", "d2", "d3"}


def test_judges_who_all_say_the_same_of_everything() -> None:
    same = table(view("a", 3, 3, 3, 3), view("b", 3, 3, 3, 3))
    assert disagreement(same).tolist() == [0, 0, 0, 0]
    assert np.isfinite(influence(same)).all()


def test_reading_judgement_files(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    write_records(
        path,
        [
            Judgement("d0", "judge:mine|seed:0", {"overall": 4.0},
                      distributions={"overall": [0.5, 0, 0, 0, 0.5]}),
            Judgement("d1", "judge:mine|seed:0", {"overall": None}, failure="too long"),
        ],
    )  # fmt: skip
    first, second = read_views([path, path], "overall")
    assert (first.name, second.name) == ("mine", "mine (a.jsonl)")
    assert first.scores == {"d0": 4.0} and first.spreads == {"d0": 0.5}
    with pytest.raises(DataError, match="no score of 'fluent'"):
        read_views([path], "fluent")
    turns = tmp_path / "t.jsonl"
    write_records(turns, [Judgement("d0", "j", {"overall": 1.0}, turn=t) for t in (1, 3)])
    with pytest.raises(DataError, match="two judgements of 'd0'"):
        read_views([turns], "overall")
