"""How often `medal report --over day` finds a step in a log, within a day of where it is.

python benchmarks/change_point.py [--logs 200] [--days 14 28] > table.md

Each log has 20 chats a day. Bad chats score 1 to 1.6, the others about 3.8 of 5. On a random day
in the middle half of the log, bad chats rise from 6% to 28% (once with the mean of all scores kept
the same), or the scores of all chats fall by half a point. "steady" logs have no step: what is
found in them is false. A step counts as found if the report names it (p below 0.05 after Holm's
correction) within a day.
"""

from __future__ import annotations

import argparse
from collections import Counter
from datetime import datetime, timedelta

import numpy as np
import numpy.typing as npt

from medal_judges.eval.report.figures import compute_figures
from medal_judges.eval.report.options import ReportOptions
from medal_judges.eval.scores.scores import load_scores
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.stats.intervals import LEVEL
from medal_judges.storage.judgements import to_frame

CHATS = 20  # a day
FEW, MANY = 0.06, 0.28  # the shares of bad chats before and after the step
OVERALL = Dimension("overall", "continuous", 1, 5)
KINDS = ("steady", "more bad chats", "more bad chats, same mean", "half a point worse")
FIRST_DAY = datetime(2026, 3, 1)


def log_scores(
    kind: str, days: int, rng: np.random.Generator
) -> tuple[npt.NDArray[np.float64], int]:
    """Returns the scores, chat by chat, and the day of the step."""
    day = np.repeat(np.arange(days), CHATS)
    step = int(rng.integers(days // 4, days - days // 4 + 1))
    later = day >= step
    share = np.full(len(day), FEW)
    if kind.startswith("more bad chats"):
        share[later] = MANY
    is_bad = rng.random(len(day)) < share
    scores = np.clip(rng.normal(3.8, 0.6, len(day)), 1.7, 5)
    scores[is_bad] = rng.uniform(1, 1.6, int(is_bad.sum()))
    if kind.endswith("same mean"):
        # The good chats are better by what the additional bad ones take.
        scores[later & ~is_bad] += (MANY - FEW) * (3.8 - 1.3) / (1 - MANY)
    if kind == "half a point worse":
        scores[later] -= 0.5
    return np.clip(scores, 1, 5), step


def found_steps(
    scores: npt.NDArray[np.float64], bad: tuple[str, ...]
) -> dict[str, int]:
    """Returns the day of each step that the report names: of the ``mean``, and of the ``share`` of
    bad scores."""
    judgements = []
    for i, score in enumerate(scores.tolist()):
        moment = FIRST_DAY + timedelta(days=i // CHATS)
        judgements.append(
            Judgement(
                f"d{i}",
                "judge:simulated",
                {"overall": score},
                meta={"day": moment.isoformat()},
                dimensions=(OVERALL,),
            )
        )
    options = ReportOptions(scores="x", over="day:day", bad=bad)
    loaded = load_scores(to_frame(judgements), options)
    loaded.add_bad(options.bad, options)
    timeline = compute_figures(loaded, options).timeline
    assert timeline is not None
    steps = {}
    for name, change in timeline.changes.items():
        p_value = change.difference.p_value
        if p_value is not None and p_value < LEVEL and change.start is not None:
            figure = "mean" if name == "overall" else "share"
            steps[figure] = change.start
    return steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--logs", type=int, default=200)
    parser.add_argument("--days", type=int, nargs="+", default=[14, 28])
    options = parser.parse_args()
    print("| log | days | mean | share below 1.65 | share, default threshold |")
    print("| --- | --- | --- | --- | --- |")
    for kind in KINDS:
        for days in options.days:
            counts: Counter[str] = Counter()
            for seed in range(options.logs):
                scores, step = log_scores(kind, days, np.random.default_rng(seed))
                for threshold, bad in (("stated", ("overall=1.65",)), ("default", ())):
                    for figure, day in found_steps(scores, bad).items():
                        is_near = abs(day - step) <= 1 or kind == "steady"
                        counts[f"{figure} {threshold}"] += is_near
            columns = ("mean stated", "share stated", "share default")
            shares = [f"{counts[column] / options.logs:.1%}" for column in columns]
            print(f"| {kind} | {days} | {' | '.join(shares)} |", flush=True)


if __name__ == "__main__":
    main()
