"""Figures of scores: the numbers of outside libraries, groups, clusters, and clear words where
there is nothing to say."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.proportion import proportion_confint
from statsmodels.stats.weightstats import CompareMeans, DescrStatsW
from tests.eval.report.support_log import FALL
from tests.scales import SCALES

from medal_judges.errors import ConfigError, DataError
from medal_judges.eval.report.figures import ReportFigures, compute_figures
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.report.report import Report
from medal_judges.eval.report.tables import findings
from medal_judges.eval.scores.scores import Scores, load_scores
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.storage.judgements import to_frame

SIGNATURE = "judge:demo|version:0.1.0"


def judgements(
    scores: Mapping[str, Sequence[float | None]],
    turns: Sequence[int | None] | None = None,
) -> list[Judgement]:
    rows = len(next(iter(scores.values())))
    return [
        Judgement(
            f"d{i if turns is None else i // 3}",
            SIGNATURE,
            {name: column[i] for name, column in scores.items()},
            turn=None if turns is None else turns[i],
            failure=None
            if all(c[i] is not None for c in scores.values())
            else "no answer",
            dimensions=SCALES,
        )
        for i in range(rows)
    ]


def dialogues(columns: Mapping[str, Sequence[object]]) -> list[Dialogue]:
    rows = len(next(iter(columns.values())))
    turns = (Turn("user", "Hi!"), Turn("assistant", "Hello!"))
    return [
        Dialogue(
            f"d{i}", turns, meta={name: column[i] for name, column in columns.items()}
        )
        for i in range(rows)
    ]


def figures(
    given: list[Judgement], chats: list[Dialogue] | None = None, **asked: Any
) -> tuple[Scores, ReportFigures]:
    options = ReportOptions(scores="scores.jsonl", **asked)
    scores = load_scores(to_frame(given), options, chats)
    return scores, compute_figures(scores, options)


def test_mean_and_share_are_those_of_other_libraries() -> None:
    rng = np.random.default_rng(0)
    overall, unsafe = rng.uniform(1, 5, 400), rng.random(400)
    _, found = figures(
        judgements({"overall": overall.tolist(), "unsafe": unsafe.tolist()})
    )
    low, high = DescrStatsW(overall).tconfint_mean()
    mean, share = found.overall["overall"], found.overall["unsafe"]
    assert mean.value == pytest.approx(overall.mean())
    assert (mean.low, mean.high) == pytest.approx((low, high), abs=1e-3)
    flagged = int((unsafe >= 0.5).sum())
    assert share.value == pytest.approx(flagged / 400)
    wilson = proportion_confint(flagged, 400, method="wilson")
    assert (share.low, share.high) == pytest.approx(wilson, abs=1e-3)


def test_groups_are_tested_against_the_others_and_corrected() -> None:
    rng = np.random.default_rng(1)
    version = ["a", "b", "c"] * 100
    overall = [3 + 0.4 * (v == "c") + rng.normal(0, 0.6) for v in version]
    _, found = figures(
        judgements({"overall": overall}),
        dialogues({"version": version}),
        by=("version",),
    )
    groups = {group.name: group for group in found.groups["version"]}
    assert {name: group.rows for name, group in groups.items()} == dict.fromkeys(
        "abc", 100
    )
    column, values = np.array(version), np.array(overall)
    sides = {
        name: CompareMeans(
            DescrStatsW(values[column == name]), DescrStatsW(values[column != name])
        )
        for name in groups
    }
    raw = [compared.ttest_ind(usevar="unequal")[1] for compared in sides.values()]
    corrected = multipletests(raw, method="holm")[1]
    ours = [group.differences["overall"].p_value for group in groups.values()]
    assert ours == pytest.approx(corrected, rel=0.15)
    for (name, group), p, p_holm in zip(groups.items(), raw, corrected, strict=True):
        difference = group.differences["overall"]
        assert difference.value == pytest.approx(
            sides[name].d1.mean - sides[name].d2.mean
        )
        ends = sides[name].tconfint_diff(alpha=0.05 * p / p_holm, usevar="unequal")
        assert (difference.low, difference.high) == pytest.approx(ends, abs=8e-3)


def test_turns_of_a_dialogue_are_one_cluster() -> None:
    rng = np.random.default_rng(2)
    # three judged turns a dialogue, nearly equal
    own = np.repeat(rng.normal(3, 0.7, 60), 3)
    given = judgements(
        {"overall": (own + rng.normal(0, 0.05, 180)).tolist()}, [1, 3, 5] * 60
    )
    scores, found = figures(given)
    estimate = found.overall["overall"]
    assert scores.unit == "judged turn" and scores.frame["id"].nunique() == 60
    assert estimate.low is not None and estimate.high is not None
    by_dialogue = DescrStatsW(own[::3]).tconfint_mean()
    width = by_dialogue[1] - by_dialogue[0]
    assert estimate.high - estimate.low == pytest.approx(width, rel=0.1)


def test_a_cluster_column_widens_the_interval() -> None:
    rng = np.random.default_rng(3)
    user = np.repeat(np.arange(30), 10)
    overall = (rng.normal(3, 0.5, 30)[user] + rng.normal(0, 0.2, 300)).tolist()
    chats = dialogues({"user": [f"u{k}" for k in user]})
    (_, plain), (_, by_user) = (
        figures(judgements({"overall": overall}), chats, cluster=c)
        for c in (None, "user")
    )

    def width(found: ReportFigures) -> float:
        estimate = found.overall["overall"]
        assert estimate.low is not None and estimate.high is not None
        return estimate.high - estimate.low

    assert width(by_user) > 2 * width(plain)


def test_unscored_rows_are_left_out_and_counted() -> None:
    given = judgements(
        {"overall": [4.0, None, 2.0, 3.0] * 5, "unsafe": [0.1, None, None, 0.9] * 5}
    )
    scores, found = figures(given)
    assert scores.rows == 20 and scores.coverage == 0.5
    assert found.counts == {"overall": 15, "unsafe": 10}
    assert found.overall["overall"].value == pytest.approx(3.0)
    assert found.overall["unsafe"].value == pytest.approx(0.5)
    told = [text for _, text in findings(scores, found)]
    assert told == ["10 of 20 are not scored in full: 10 × no answer."]


def test_all_equal_scores_have_an_interval_on_a_known_scale() -> None:
    _, found = figures(judgements({"overall": [5.0] * 40, "unsafe": [0.0] * 40}))
    top = found.overall["overall"]
    ends = proportion_confint(40, 40, method="wilson")
    assert (top.value, top.low, top.high) == pytest.approx((5.0, 1 + 4 * ends[0], 5.0))
    assert found.overall["unsafe"].value == pytest.approx(0)
    assert (found.overall["unsafe"].high or 0) > 0.05


@pytest.mark.parametrize("rows", [1, 4])
def test_few_rows_have_a_figure_and_a_reason(rows: int) -> None:
    _, found = figures(judgements({"overall": [3.0, 4.0, 2.0, 3.0][:rows]}))
    estimate = found.overall["overall"]
    assert estimate.value == pytest.approx(3.0) and estimate.low is None
    assert estimate.reason is not None and "fewer than 5" in estimate.reason


def test_nothing_scored_is_no_number() -> None:
    scores, found = figures(judgements({"overall": [None] * 30}))
    assert scores.coverage == 0 and found.overall == {}
    assert (
        findings(scores, found)[0][1]
        == "30 of 30 are not scored in full: 30 × no answer."
    )


def test_scores_of_two_judges_are_refused_but_not_of_two_versions() -> None:
    given = judgements({"overall": [3.0] * 6})
    newer = Judgement("x", "judge:demo|version:0.2.0", {"overall": 3.0})
    assert figures([*given, newer])[0].rows == 7
    with pytest.raises(DataError, match="several judges made them"):
        figures([*given, Judgement("x", "judge:other|version:0.1.0", {"overall": 3.0})])


def test_wrong_names_are_errors_with_the_nearest_one() -> None:
    given, chats = judgements({"overall": [3.0] * 6}), dialogues({"version": ["1"] * 6})
    with pytest.raises(ConfigError, match="did you mean 'version'"):
        figures(given, chats, by=("versoin",))
    with pytest.raises(ConfigError, match="no dimension 'overal'"):
        figures(given, chats, dimensions=("overal",))
    with pytest.raises(ConfigError, match="no column 'time'"):
        figures(given, chats, over="time:day")
    with pytest.raises(
        ConfigError, match="no row has a readable time; the first is '1'"
    ):
        figures(given, chats, over="version:day")
    stranger = [Dialogue("nobody", chats[0].turns)]
    with pytest.raises(ConfigError, match="no chat of the scores is among the chats"):
        figures(given, stranger)


def test_200_groups_and_more(outcome: Report) -> None:
    rng = np.random.default_rng(4)
    names = [f"g{i % 230:03d}" for i in range(2300)] + ["g000"] * 5
    given = judgements({"overall": rng.uniform(1, 5, 2305).tolist()})
    _, found = figures(given, dialogues({"group": names}), by=("group",))
    groups = found.groups["group"]
    assert (
        len(groups) == 201
        and groups[0].name == "g000"
        and groups[-1].name == "30 others"
    )
    assert sum(group.rows for group in groups) == 2305
    corrected = [g.differences["overall"].p_value for g in groups]
    assert sum(p is not None and p < 0.05 for p in corrected) <= 1


def test_the_log_is_worse_since_the_day_it_fell(outcome: Report) -> None:
    timeline = outcome.figures.timeline
    assert timeline is not None
    step = timeline.changes["overall"]
    assert step.start is not None and abs(step.start - FALL) <= 2 and step.searched
    text = [text for _, text in findings(outcome.scores, outcome.figures)]
    since = timeline.periods[step.start]
    assert text[0].startswith(f"overall is worse since {since}: ")
    assert any(line.startswith("lang ar: overall ") for line in text)
    assert not any("version 1.9" in line for line in text)  # better ones are no finding
    assert sum(timeline.counts) == outcome.scores.rows


def test_uncertainty_comes_from_distributions_or_from_probabilities() -> None:
    def one(scores: dict[str, float], **more: Any) -> Judgement:
        return Judgement("a", SIGNATURE, scores, dimensions=SCALES, **more)

    chances = {"overall": [0.5, 0, 0, 0, 0.5]}
    scores, _ = figures([one({"overall": 3.0}, distributions=chances)])
    assert scores.uncertainty.tolist() == [0.5]
    scores, _ = figures([one({"unsafe": 0.5, "overall": 3.0})])
    assert scores.uncertainty.tolist() == [0.5]
    scores, _ = figures([one({"overall": 3.0})])
    assert math.isnan(scores.uncertainty[0])


def test_a_ninety_five_percent_interval_of_a_share_holds_with_users() -> None:
    """150 draws with users that differ; the share of hits lies within 4 standard errors."""
    rng = np.random.default_rng(6)
    user = np.repeat(np.arange(60), 5)
    chats = dialogues({"user": [f"u{k}" for k in user]})
    threshold = stats.norm.ppf(0.9)
    hits = 0
    for _ in range(150):
        latent = rng.normal(0, math.sqrt(0.3), 60)[user] + rng.normal(
            0, math.sqrt(0.7), 300
        )
        given = judgements({"unsafe": (latent > threshold).astype(float).tolist()})
        estimate = figures(given, chats, cluster="user")[1].overall["unsafe"]
        assert estimate.low is not None and estimate.high is not None
        hits += estimate.low <= 0.1 <= estimate.high
    assert 0.9 <= hits / 150 <= 1


def test_large_files_have_the_differences_of_small_ones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = np.random.default_rng(7)
    version = ["a", "b", "c"] * 200
    overall = [3 + 0.2 * (v == "c") + rng.normal(0, 0.6) for v in version]
    given, chats = judgements({"overall": overall}), dialogues({"version": version})
    small = figures(given, chats, by=("version",))[1].groups["version"]
    monkeypatch.setattr("medal_judges.eval.report.figures.LARGE", 1)
    large = figures(given, chats, by=("version",))[1].groups["version"]
    for one, two in zip(small, large, strict=True):
        first, second = one.differences["overall"], two.differences["overall"]
        ends = (second.value, second.low, second.high)
        assert (first.value, first.low, first.high) == pytest.approx(ends, abs=2e-3)
        assert first.p_value == pytest.approx(second.p_value, rel=0.1)


def test_a_language_that_was_detected_is_a_group() -> None:
    given = [
        Judgement(
            f"d{i}",
            SIGNATURE,
            {"overall": 3.0},
            detected_language=lang,
            meta=meta,
            dimensions=SCALES,
        )
        for i, (lang, meta) in enumerate(
            [
                ("de", {}),
                (None, {"lang": "en"}),
                ("de", {"lang": None}),
                (None, {"lang": "und"}),
            ]
        )
    ]
    scores, found = figures(given)
    assert {group.name: group.rows for group in found.groups["lang"]} == {
        "de": 2,
        "en": 1,
    }
    assert scores.columns["lang"].codes[3] == -1
