"""Whether people's ``repetitive`` can be told from a few measures, on chatbots not learnt from.

    python benchmarks/repetitive_transfer.py           # print
    python benchmarks/repetitive_transfer.py --keep    # docs/results/data/repetitive.csv

A logistic regression on three means over the assistant's turns (how much of it its speaker said
before), learnt from Dialogue-Eval (the partner's answer below the middle of 0 to 100) and from
repetition injected into chitchat, each with the same weight. Then asked about Dialogue-Eval's
chatbots one by one, none of whose dialogues it has learnt from, and about ABC-Eval. About a
minute; needs dialogue_eval and abceval in the folder that $MEDAL_JUDGES_DATA names.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from into_docs import keep
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from medal_judges.data_prep.perturbation.injection import injected_set
from medal_judges.data_prep.sources.abceval import lift_to_dialogues, to_issues
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.eval.metaeval.classification import classification, classification_statistic
from medal_judges.models.base.turn_features import FEATURE_NAMES, turn_features
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats
from medal_judges.stats.intervals import choose_clusters, with_intervals

MEASURES = ("said_recently_2", "said_before_3", "near_copy")
ISSUE = "repetitive"


def table_of(rows: Sequence[LabelledDialogue]) -> Floats:
    """Means of MEASURES over the assistant's turns, shape (rows, measures)."""
    columns = [FEATURE_NAMES.index(name) for name in MEASURES]
    means = [
        turn_features(row.dialogue)[list(row.dialogue.assistant_turns)][:, columns].mean(axis=0)
        for row in rows
    ]
    return np.array(means, dtype=float)


def injected(seed: int = 0) -> list[LabelledDialogue]:
    """Chitchat with and without injected repetition."""
    rows = [row for row in load_spec("chitchat:train") if 6 <= len(row.dialogue.turns) <= 40]
    chosen = np.random.default_rng(seed).permutation(len(rows))[:700]
    return list(
        injected_set(
            [rows[i] for i in chosen],
            seed=seed,
            per_issue=240,
            clean_count=300,
            issues=(ISSUE,),
            split="train",
        )
    )


def fitted_chances(parts: Sequence[tuple[Floats, Floats]], asked: Floats) -> Floats:
    """Probabilities for ``asked`` of what (table, labels) of each part teach, parts alike in
    weight."""
    x, y = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    weights = np.concatenate([np.full(len(labels), 1000 / len(labels)) for _, labels in parts])
    model = make_pipeline(StandardScaler(), LogisticRegression(C=0.3, max_iter=800))
    model.fit(x, y, logisticregression__sample_weight=weights)
    return np.asarray(model.predict_proba(asked)[:, 1], dtype=float)


def line(
    learnt: str, asked: str, chances: Floats, labels: Floats, rows: Sequence[LabelledDialogue]
) -> str:
    """One line of the table. ``labels``: shape (rows, readers)."""
    clusters = choose_clusters([row.dialogue.chatbot for row in rows], [row.group for row in rows])
    figures = with_intervals(
        classification(chances, labels), classification_statistic(chances, labels), clusters
    )
    f1 = figures["f1_present"]
    span = "" if f1.low is None else f" [{f1.low:.2f}, {f1.high:.2f}]"
    share = float(np.nanmean(labels))
    marked = np.nanmax(labels, axis=1) >= 0.5
    cells = [
        learnt,
        f"{asked} (n {len(rows)})",
        f"{share:.2f}",
        f"{(chances >= 0.5).mean():.2f}",
        f"{f1.value:.2f}{span}",
        f"{2 * share / (1 + share):.2f}",
        f"{roc_auc_score(marked, chances):.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", action="store_true")
    names = ("Dialogue-Eval", "injected")
    rated = [row for row in load_spec("dialogue_eval") if row.dialogue.chatbot != "quality_control"]
    minded = np.array([row.extra["raw_labels"][ISSUE][0] < 50 for row in rated], dtype=float)
    made = injected()
    present = np.array([float(row.labels[ISSUE][0] or 0) for row in made if ISSUE in row.labels])
    made = [row for row in made if ISSUE in row.labels]
    of_rated, of_made = table_of(rated), table_of(made)
    bots = np.array([row.dialogue.chatbot for row in rated])
    left_out = np.zeros(len(rated))
    for bot in np.unique(bots):
        others = bots != bot
        parts = [(of_rated[others], minded[others]), (of_made, present)]
        left_out[~others] = fitted_chances(parts, of_rated[~others])
    lines = [
        "| learnt from | asked about | share of the issue | share it says | F1 of the issue"
        " | F1 of always yes | AUC |",
        "| --- | --- | --- | --- | --- | --- | --- |",
        line(
            "injected",
            "Dialogue-Eval",
            fitted_chances([(of_made, present)], of_rated),
            minded[:, None],
            rated,
        ),
        line(
            " + ".join(names),
            "Dialogue-Eval, the left-out chatbot",
            left_out,
            minded[:, None],
            rated,
        ),
    ]
    told = list(lift_to_dialogues(to_issues(row) for row in load_spec("abceval")))
    readers = np.array(
        [[np.nan if a is None else a for a in row.labels[ISSUE]] for row in told], dtype=float
    )
    learning = np.array([row.split != "test" for row in rated])
    parts = [(of_rated[learning], minded[learning]), (of_made, present)]
    lines.append(
        line(" + ".join(names), "ABC-Eval", fitted_chances(parts, table_of(told)), readers, told)
    )
    keep("repetitive" if parser.parse_args().keep else None, "\n".join(lines))


if __name__ == "__main__":
    main()
