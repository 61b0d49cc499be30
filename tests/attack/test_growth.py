"""No text, however made, keeps a reader busy: every reader of foreign text on strings that made one
of them cubic, quadratic or exponential, or that are the kind which does.

A reader that is not linear takes minutes to years for one of these. The guard is a guard against
hanging, not a measurement.
"""

from __future__ import annotations

import gzip
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medal_judges.config import parse_yaml
from medal_judges.data_prep.followups import parse_follow_ups
from medal_judges.data_prep.generation.protocol import parse_utterance, parse_verdict
from medal_judges.errors import MedalError
from medal_judges.models.base.judge import Judge
from medal_judges.models.llm.protocol import Completion
from medal_judges.models.prompted.answers import (
    MOST_CHARACTERS,
    AnswerField,
    AnswerShape,
    read_answers,
    without_thinking,
)
from medal_judges.models.trained_metrics.turn_metric import split_sentences
from medal_judges.reading.dialogues import ReadingReport, read_dialogues
from medal_judges.records.dialogue import Dialogue
from medal_judges.storage.jsonl import json_line

from ..talks import spoken
from .test_bombs import HEAD, ROW, sheet, workbook

ONE = [AnswerField("overall", "overall", "overall", (1, 5))]
SEVERAL = [
    *ONE,
    AnswerField("lacks_empathy", "lacks_empathy", "lacks empathy", (0, 1), binary=True),
]
LABELS = AnswerShape(score="label", comment="comment")
IN_PROSE = AnswerShape(format="number", line="prose")


def _answer(
    wanted: list[AnswerField], shape: AnswerShape = LABELS
) -> Callable[[str], Any]:
    return lambda text: read_answers(Completion(text), wanted, shape)


# Readers of text of any length, and how much of it they are given here.
READERS: dict[str, tuple[Callable[[str], Any], int]] = {
    "one dimension": (_answer(ONE), MOST_CHARACTERS),
    "several dimensions": (_answer(SEVERAL), MOST_CHARACTERS),
    "prose": (_answer(ONE, IN_PROSE), MOST_CHARACTERS),
    "thinking": (without_thinking, 300_000),
    "utterance": (parse_utterance, 100_000),
    "verdict": (parse_verdict, 300_000),
    "follow-ups": (parse_follow_ups, 200_000),
    "sentences": (split_sentences, 100_000),
}
# What is repeated between a beginning and an end.
ATOMS = (
    *(" ", "\n", "```", "'", "\\'", "“", "[", ",", "(", "{'a':", "{}", '>"{} ', "//"),
    *("-", ">", "1", "1. ", "1/", "1:", "一", "。", "a", "a-", "@a", "END ", "\\_"),
    *("</think>", "score ", "overall", "i would ", "the user says ", "two thousand "),
)
WRAPS = [("", ""), ("Score: 4", "x"), ("{", "5"), ("4\n", "\n5"), ("```", "x")]


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def stop(*_: object) -> None:
        raise TimeoutError("this reader is not linear")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def _grown(atom: str, wrap: tuple[str, str], length: int) -> str:
    begin, end = wrap
    return (begin + atom * (length // len(atom)))[: length - len(end)] + end


@pytest.mark.parametrize("reader", READERS)
def test_no_text_keeps_a_reader_busy(reader: str) -> None:
    read, length = READERS[reader]
    for i, atom in enumerate(ATOMS):
        with no_longer_than(20):
            read(_grown(atom, WRAPS[i % len(WRAPS)], length // 4))


TURN = '{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}'
# A file's beginning, what is repeated (with the number in place of #), and its end.
FOREIGN = {
    "rule.txt": ("---", " ", "x\nUser: hi\nBot: yes\n"),
    "lines.txt": ("", "User: a\r\nBot: b\r\n", ""),
    "japanese.txt": ("User: a\nBot：", "あ\u2028\u200b", ""),
    "chats.txt": ("", "---\nUser: a\nBot: b\n", ""),
    "thoughts.txt": ("User: a\nBot: b", "<think>", ""),
    "rows.jsonl": ("", f'{{"id": "#", "dialogue": [{TURN}]}}\n', ""),
    "turns.jsonl": (f'{{"dialogue": [{TURN}', f", {TURN}", "]}"),
    "text.jsonl": ('{"dialogue": "', "User: a\\nBot: b\\n", '"}'),
    "keys.jsonl": (f'{{"dialogue": [{TURN}]', ', "k#": 1', "}"),
    "packed.jsonl.gz": (f'{{"dialogue": [{TURN}]}}\n', "\n", ""),
    "rows.csv": ("prompt,response\n", "words and words,b\n", ""),
    "columns.csv": ("prompt,response", ",c#", "\na,b\n"),
    "quotes.csv": ('prompt,response\na,"', '""\n', ""),
    "rows.xlsx": ("", ROW, ""),
    "columns.xlsx": ("<row>", '<c t="inlineStr"><is><t>c#</t></is></c>', "</row>"),
    "attributes.xlsx": ("<row><c ", 'r="A1" ', "/></row>"),
    "rows.parquet": ("", "word " * 9, ""),
    "keys.yaml": ("", f"k#{'x' * 40}: 1\n", ""),
    "times.yaml": ("a: 1", ":59", ""),
    "tag.yaml": ("a: !!int 1", ":59", ""),
    "merges.yaml": ("a: &a {b: 1}\n<<: [{}", ", *a", "]\n"),
}


def _seconds(kind: str, length: int, path: Path) -> float:
    """Returns how long reading a file of ``kind`` takes, the processor's time."""
    begin, atom, end = FOREIGN[kind]
    numbers = range(length // len(atom))
    again = "".join([atom.replace("#", str(number)) for number in numbers])
    if path.suffix == ".xlsx":
        workbook(path, sheet(begin + again + end, HEAD * (kind == "rows.xlsx")))
    elif path.suffix == ".parquet":
        texts = [atom] * len(numbers)
        pq.write_table(pa.table({"prompt": texts, "response": texts}), path)
    else:
        content = f"{begin}{again}{end}".encode()
        path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    start = time.process_time()
    with suppress(MedalError):
        if path.suffix == ".yaml":
            parse_yaml(path.read_text(), "it")
        else:
            list(read_dialogues(path, reading=ReadingReport()))
    return time.process_time() - start


@pytest.mark.parametrize("kind", FOREIGN)
def test_the_time_of_a_reader_grows_with_its_file(kind: str, tmp_path: Path) -> None:
    ratios = []
    for _ in range(3):
        sizes = (10_000, 20_000, 40_000, 80_000)
        short, *_, long = [_seconds(kind, size, tmp_path / kind) for size in sizes]
        ratios.append(long / max(short, 0.01))
    assert min(ratios) < 20  # 8 for a linear reader, 64 for a quadratic one


def _calls(turns: int) -> int:
    """Returns the number of calls that scoring each answer of a dialogue takes."""
    judge = Judge.from_pretrained("repetition")
    dialogue = Dialogue(
        "a", spoken(*(f"turn {number} of it" for number in range(turns)))
    )
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        lines = [
            json_line(judgement) for judgement in judge.score([dialogue], level="turn")
        ]
    finally:
        sys.setprofile(None)
    assert len(lines) == turns // 2
    return calls + sum(map(len, lines))


def test_scoring_each_answer_takes_twice_as_much_for_twice_the_turns() -> None:
    assert _calls(500) < 2.2 * _calls(250)
