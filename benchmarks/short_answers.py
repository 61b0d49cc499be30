"""Whether boxed punishes an answer that is short because its question was, more than people do.

    python benchmarks/short_answers.py [--keep]

For each set of ratings: how far the score of people and of boxed moves, in standard deviations,
with the length of the questions and of the answers (one standard deviation of the logarithm of
their words), and for short answers to short questions (both in the lowest third) against all
others. At level turn it is the last question and the judged answer, else the mean of the dialogue.
Fits hold the number of turns and the chatbot fixed; intervals are from 1,000 draws of whole
conversations. Scores are in runs/short_answers, and taken from there. --keep writes
docs/results/data and the table of docs/results/boxed.md. Needs $MEDAL_JUDGES_DATA.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import into_docs
import numpy as np
from scipy.stats import spearmanr

from medal_judges import Judge
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.models.base.turn_features import words
from medal_judges.models.linear.judge import LinearJudge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.labelled import LabelledDialogue

SETS = ("fed", "fed:turn", "conture", "conture:turn", "dialogue_eval", "dstc9:test")
SCORES = Path("runs/short_answers")
DRAWS = 1000
EFFECTS = ("longer questions", "longer answers", "short answers to short questions")
DEGRADED = "quality_control"


def scored(
    name: str, rows: Sequence[LabelledDialogue], without: bool = False
) -> list[float]:
    """Scores of boxed, from the file of an earlier run if there is one; ``without`` the length of
    the user's turns, whose weight is then 0."""
    path = SCORES / f"{name.replace(':', '_')}{'_without' * without}.json"
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        judge = Judge.from_pretrained("boxed")
        if without:
            assert isinstance(judge, LinearJudge)
            weights = judge.heads["overall"].layers[0][0]
            weights[judge.reader.layout.index((0, "log_words"))] = 0
        judgements = judge.score([row.dialogue for row in rows])
        scores = {judgement.id: judgement.scores["overall"] for judgement in judgements}
        path.write_text(json.dumps(scores))
    by_id = json.loads(path.read_text())
    return [by_id[row.dialogue.id] for row in rows]


def lengths(dialogue: Dialogue, is_turn: bool) -> tuple[float, float]:
    """Mean words of the questions and of the answers to them; of the last pair at level turn."""
    pairs = []
    for before, turn in pairwise(dialogue.turns):
        if (before.role, turn.role) == ("user", "assistant"):
            pairs.append((len(words(before.content)), len(words(turn.content))))
    if is_turn:
        pairs = pairs[-1:]
    question, answer = np.mean(pairs, axis=0)
    return float(question), float(answer)


def standardised(values: np.ndarray) -> np.ndarray:
    return (values - values.mean()) / values.std()


def rated(name: str) -> tuple[list[LabelledDialogue], np.ndarray]:
    """The rows with a rated answer, and their mean ratings."""
    rows = []
    for row in load_spec(name):
        roles = [turn.role for turn in row.dialogue.turns]
        has_answer = ("user", "assistant") in pairwise(roles)
        if (
            has_answer
            and row.labels.get("overall")
            and row.dialogue.chatbot != DEGRADED
        ):
            rows.append(row)
    means = []
    for row in rows:
        means.append(np.mean([x for x in row.labels["overall"] if x is not None]))
    return rows, np.array(means)


def agreement(name: str) -> str:
    """A line of Spearman's ρ with people, with and without the length of the user's turns."""
    rows, people = rated(name)
    values = []
    for without in (False, True):
        values.append(spearmanr(scored(name, rows, without), people).statistic)
    return f"| {name} | {values[0]:.2f} | {values[1]:.2f} |"


def measure(name: str) -> list[str]:
    is_turn = name.endswith(":turn")
    rows, people = rated(name)
    scores = np.array(scored(name, rows))
    both = np.column_stack([standardised(people), standardised(scores)])
    question, answer = np.log1p([lengths(row.dialogue, is_turn) for row in rows]).T
    short = (question <= np.quantile(question, 1 / 3)) & (
        answer <= np.quantile(answer, 1 / 3)
    )
    bots = np.array([str(row.dialogue.chatbot) for row in rows])
    fixed = [np.ones(len(rows)), np.log1p([len(row.dialogue.turns) for row in rows])]
    fixed += [bots == bot for bot in np.unique(bots)[1:]]
    by_length = np.column_stack([standardised(question), standardised(answer), *fixed])
    by_kind = np.column_stack([short, *fixed]).astype(float)

    def effects(chosen: np.ndarray) -> np.ndarray:
        """Effects [3, people and boxed] in the chosen rows."""
        slopes = np.linalg.lstsq(by_length[chosen], both[chosen], rcond=None)[0][:2]
        step = np.linalg.lstsq(by_kind[chosen], both[chosen], rcond=None)[0][:1]
        return np.vstack([slopes, step])

    groups = np.unique([row.group for row in rows], return_inverse=True)[1]
    members = [np.flatnonzero(groups == group) for group in range(groups.max() + 1)]
    generator = np.random.default_rng(0)
    gaps = []
    for _ in range(DRAWS):
        drawn = generator.integers(0, len(members), len(members))
        draw = effects(np.concatenate([members[group] for group in drawn]))
        gaps.append(draw[:, 1] - draw[:, 0])
    low, high = np.quantile(gaps, [0.025, 0.975], axis=0)
    lines = []
    for i, (of_people, of_boxed) in enumerate(effects(np.arange(len(rows)))):
        gap = f"{of_boxed - of_people:+.2f} [{low[i]:+.2f}, {high[i]:+.2f}]"
        lines.append(
            f"| {name} | {len(rows)} | {EFFECTS[i]} | {of_people:+.2f} | {of_boxed:+.2f} | {gap} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    table = [
        "| set | n | effect of | people | boxed | boxed less people |",
        "|---|---|---|---|---|---|",
    ]
    for name in SETS:
        table += measure(name)
    table += [
        "",
        "| set | boxed | without the length of the user's turns |",
        "|---|---|---|",
    ]
    table += [
        agreement(name) for name in ("fed", "fed:turn", "conture", "conture:turn")
    ]
    kept = "short_answers" if options.keep else None
    into_docs.keep(kept, "\n".join(table))


if __name__ == "__main__":
    main()
