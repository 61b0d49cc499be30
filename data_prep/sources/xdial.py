"""xDial-Eval: FED and ConTurE dialogues machine-translated into nine languages, scores copied."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from medal_judges.data_prep.sources.public_form import (
    alternating,
    lines_of,
    rated,
    read_csv,
    text_defects,
)
from medal_judges.data_prep.sources.source import Source, SourceFile
from medal_judges.records.dialogue import Role, Turn
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.rating import Scale

_LANGUAGES = {
    "ar": "arabic",
    "de": "german",
    "en": "english",
    "es": "spanish",
    "fr": "french",
    "hi": "hindi",
    "ja": "japanese",
    "ko": "korean",
    "ru": "russian",
    "zh": "chinese",
}
# ConTurE's empty messages are one of these in English, and its translation elsewhere.
_EMPTY = ("<EMPTY>", "Chatbot:")


def read_xdial_dialogues(
    path: Path, *, set_name: str, scale: Scale, last: Role
) -> Iterator[LabelledDialogue]:
    """Yields the rows of data/dial/*.csv by language: one column a language, one line a turn,
    ``ratings`` the mean rating of the English dialogue.

    Speakers alternate and end with ``last``. ``parallel_id`` is shared by the ten versions of a
    dialogue, ``overlaps`` is the id in the original set. A translation that repeats although the
    English texts differ is marked ``not_parallel``. The file names no chatbots.
    """
    rows = read_csv(path)
    for lang in _LANGUAGES:
        seen: dict[tuple[Turn, ...], str] = {}
        for number, row in enumerate(rows):
            turns = alternating(_lines(row, lang), last)
            english = row["english_dial"]
            copied = seen.setdefault(turns, english) != english
            defects = text_defects(turns, "dialogue").get("defects", [])
            defects += ["not_parallel"] if copied else []
            yield rated(
                f"xdial-{set_name}-{lang}-{number:04d}",
                turns,
                {"overall": [float(row["ratings"])]},
                {"overall": scale},
                source=f"xdial-{set_name}",
                group=f"{set_name}-{number:04d}",
                lang=lang,
                split="test",
                aggregated=True,
                extra={
                    "parallel_id": f"xdial-{set_name}-{number:04d}",
                    "overlaps": f"{set_name}-dial-{number:04d}",
                }
                | ({"defects": defects} if defects else {}),
            )


def _lines(row: dict[str, str], lang: str) -> list[str]:
    """The turns' texts in one language; "" if the English text marks an empty message."""
    lines, english = (lines_of(row[f"{_LANGUAGES[code]}_dial"]) for code in (lang, "en"))
    if len(lines) != len(english):  # not line by line: check the translation itself
        english = lines
    return ["" if mark in _EMPTY else line for line, mark in zip(lines, english, strict=True)]


_BASE = "https://raw.githubusercontent.com/e0397123/xDial-Eval/main/data/dial"

XDIAL = Source(
    name="xdial",
    title="xDial-Eval: FED and ConTurE dialogues in ten languages (nine machine-translated)",
    licence="GPL-3.0; the original sets may carry other terms",
    citation="Zhang et al., Findings of EMNLP 2023: xDial-Eval: A Multilingual Open-Domain "
    "Dialogue Evaluation Benchmark",
    languages=tuple(_LANGUAGES),
    parts=(
        SourceFile(
            "fed",
            "dialogue",
            "xdial_fed_dialogue.jsonl.gz",
            "e495574ac28a2a18eb15d65e6825393ea8c21d6e79834b18ba08d1bc636f5584",
            f"{_BASE}/fed-dial.csv",
            "xdial_fed-dial.csv",
            "3bed4c22f891915292d0e1713aad8023abf4ce2a5317cb9f5fccc3c482a138d8",
            partial(read_xdial_dialogues, set_name="fed", scale=(0.0, 4.0), last="user"),
        ),
        SourceFile(
            "conture",
            "dialogue",
            "xdial_conture_dialogue.jsonl.gz",
            "ad378ebc434ca64fdb327abe77a8b1f8aed352ccd05b14b99fc4103c3059ae65",
            f"{_BASE}/conture-dial.csv",
            "xdial_conture-dial.csv",
            None,
            partial(read_xdial_dialogues, set_name="conture", scale=(1.0, 5.0), last="assistant"),
        ),
    ),
    notes=("Human scores were given to the English dialogue and copied to every language.",),
)
