"""What runs on the machines of a cluster: a judge each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow

from medal_judges.dialogue import Dialogue
from medal_judges.errors import DataError, MedalError, RecordError
from medal_judges.inference.cluster.reading import LINE, ROW
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.jsonl import load_json, to_line
from medal_judges.judgement import Judgement, unscored
from medal_judges.models.base.judge import Judge, requests_at
from medal_judges.reading.dialogues import dialogues_of
from medal_judges.reading.options import ReadOptions

JUDGEMENTS = "judgements"  # the column of a chat's judgements, each a line of JSON


class ClusterJudge:
    """One judge of a cluster: batches of rows in, rows of judgements out, in order.

    A row that is no chat has a judgement without scores that says why: it is counted, as it is in
    one process, and not read again by a run that resumes.
    """

    def __init__(
        self,
        choice: JudgeChoice,
        options: ScoreOptions,
        chats: ReadOptions,
    ) -> None:
        self.judge, self.options, self.chats = choice.load(), options, chats
        self.signature = str(self.judge.signature())
        self.names = self.judge._check_dimensions(options.dimensions)

    def __call__(self, batch: pyarrow.Table) -> pyarrow.Table:
        numbers = batch.column(ROW)
        found = [_chat(row, self.chats) for row in _records(batch)]
        dialogues = [each for each in found if isinstance(each, Dialogue)]
        judged = self.options.score(self.judge, iter(dialogues))
        rows = [
            [next(judged) for _ in requests_at(each, self.options.level)]
            if isinstance(each, Dialogue)
            else [self._bad(number.as_py(), each)]
            for number, each in zip(numbers, found, strict=True)
        ]
        next(judged, None)  # its warnings, where it has some
        return _table(numbers, rows, self.names)

    def _bad(self, number: int, problem: str) -> Judgement:
        return unscored(f"row {number:016x}", self.signature, self.names, f"no chat: {problem}")


def described(choice: JudgeChoice, options: ScoreOptions) -> tuple[str, list[str], int]:
    """Signature, dimensions asked for and window of the judge, as a machine of the cluster loads
    it."""
    judge: Judge = choice.load()
    return str(judge.signature()), judge._check_dimensions(options.dimensions), judge.window


def _records(batch: pyarrow.Table) -> Iterator[object]:
    if LINE not in batch.column_names:
        yield from batch.drop_columns([ROW]).to_pylist()
        return
    for line in batch.column(LINE).to_pylist():
        try:
            yield load_json(line)
        except RecordError as error:
            yield error


def _chat(record: object, chats: ReadOptions) -> Dialogue | str:
    """The dialogue of one row, or what is wrong with it."""
    if isinstance(record, RecordError):
        return record.message
    try:
        return next(dialogues_of([_without_nulls(record)], chats))
    except (DataError, RecordError) as error:
        return error.problem if isinstance(error, DataError) else error.message
    except MedalError as error:
        return error.message
    except StopIteration:
        return "it holds no dialogue"


def _without_nulls(record: object) -> object:
    """A row of parquet has every field of every row; those that are null were not there."""
    if isinstance(record, Mapping):
        return {name: value for name, value in record.items() if value is not None}
    return record


def _table(
    numbers: pyarrow.ChunkedArray, rows: Sequence[Sequence[Judgement]], names: Sequence[str]
) -> Any:
    """A row a chat: its number, id, judgements, and the scores of its first."""
    columns: dict[str, Any] = {
        ROW: numbers,
        "id": pyarrow.array([each[0].id for each in rows], pyarrow.string()),
    }
    for name in names:
        values = [each[0].scores.get(name) if len(each) == 1 else None for each in rows]
        columns[name] = pyarrow.array(values, pyarrow.float64())
    lines = [[to_line(one).rstrip("\n") for one in each] for each in rows]
    columns[JUDGEMENTS] = pyarrow.array(lines, pyarrow.list_(pyarrow.string()))
    return pyarrow.table(columns)
