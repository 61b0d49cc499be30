"""What runs on the machines of a cluster: a judge each."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pyarrow

from medal_judges.errors import MedalError
from medal_judges.inference.cluster.reading import CHAT
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.parallel.messages import JudgeLoaded
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.base.judge import requests_at
from medal_judges.records.dialogue import Dialogue, parse_dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.storage.jsonl import to_line
from medal_judges.storage.judgement_parts import ID, JUDGEMENTS, PROBLEM, ROW


class ClusterJudge:
    """One judge of a cluster: rows of chats in, rows of judgements out, in order. A bad row keeps
    its problem and has no judgement.

    Raises MedalError where it would not score as the first one, whose signature is ``signature``.
    """

    def __init__(self, choice: JudgeChoice, options: ScoreOptions, signature: str) -> None:
        self.judge, self.options = choice.load(), options
        self.names = self.judge._check_dimensions(options.dimensions)
        if (mine := str(self.judge.signature())) != signature:
            raise MedalError(
                f"two machines would score with other settings:\n    {signature}\n    {mine}",
                hint="give --dtype, and the same versions of packages and files everywhere",
            )

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        chats: list[Dialogue | None] = [
            None if one is None else parse_dialogue(json.loads(one))
            for one in batch.column(CHAT).to_pylist()
        ]
        judged = self.options.score(self.judge, iter([each for each in chats if each is not None]))
        rows = [
            [] if each is None else [next(judged) for _ in requests_at(each, self.options.level)]
            for each in chats
        ]
        return _table(batch, rows, self.names)


def described(choice: JudgeChoice, options: ScoreOptions) -> tuple[JudgeLoaded, list[str]]:
    """The judge as a machine of the cluster loads it, and the dimensions that are asked for."""
    judge = choice.load()
    return JudgeLoaded.of(judge), judge._check_dimensions(options.dimensions)


def _table(
    batch: pyarrow.Table, rows: Sequence[Sequence[Judgement]], names: Sequence[str]
) -> pyarrow.Table:
    """A row a chat; scores stand in columns where there is one judgement of it."""
    own = (ROW, ID, JUDGEMENTS, PROBLEM)
    columns = {ROW: batch.column(ROW)}
    columns[ID] = pyarrow.array([each[0].id if each else None for each in rows], pyarrow.string())
    for name in names:
        values = [each[0].scores.get(name) if len(each) == 1 else None for each in rows]
        column = f"scores.{name}" if name in own else name
        columns[column] = pyarrow.array(values, pyarrow.float64())
    lines = [[to_line(one).rstrip("\n") for one in each] for each in rows]
    columns[JUDGEMENTS] = pyarrow.array(lines, pyarrow.list_(pyarrow.string()))
    columns[PROBLEM] = batch.column(PROBLEM)
    return pyarrow.table(columns)
