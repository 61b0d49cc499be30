"""False alarms and detection of ``medal label``'s language check on xDial-Eval's ten languages.

MEDAL_JUDGES_DATA=FOLDER python benchmarks/language_check.py [--set fed|conture]

The same dialogues stand there in all ten languages, which makes foreign turns to find: one user
turn of six words or more a dialogue and language is replaced by another language's (whole), gets
it added (appended), or has its second half from there (halves). The limits were chosen on conture.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path

from medal_judges.data_prep.labelling.language_check import LanguageChecker, scripts_of
from medal_judges.reading.dialogues import read_labelled
from medal_judges.records.dialogue import ROLES, Dialogue, Turn

WORDS = 6


def half(text: str, lang: str, second: bool) -> str:
    units = list(text) if lang in ("zh", "ja") else text.split()
    cut = len(units) // 2
    return ("" if lang in ("zh", "ja") else " ").join(units[cut:] if second else units[:cut])


def mixtures(
    parallel: Mapping[str, Mapping[str, Dialogue]], rng: random.Random
) -> Iterator[tuple[str, str, str, str]]:
    """(how, language, foreign language, text)."""
    for versions in parallel.values():
        count = min(len(d.turns) for d in versions.values())
        long = [
            i
            for i, turn in enumerate(versions["en"].turns[:count])
            if turn.role == "user" and len(turn.content.split()) >= WORDS
        ]
        if not long or len(versions) < 2:
            continue
        for lang in versions:
            place, other = rng.choice(long), rng.choice([v for v in versions if v != lang])
            own, foreign = (versions[v].turns[place].content for v in (lang, other))
            yield "whole", lang, other, foreign
            yield "appended", lang, other, f"{own.rstrip('.!?。')}. {foreign}"
            yield "halves", lang, other, f"{half(own, lang, False)} {half(foreign, other, True)}"


def false_alarms(rows: list[Dialogue], checker: LanguageChecker) -> None:
    found: dict[str, Counter[str]] = defaultdict(Counter)
    start = time.perf_counter()
    for dialogue in rows:
        seen, count = checker.check(dialogue), found[dialogue.lang]
        count["turns"] += len(seen["turns"])
        count["alarms"] += sum(t["mixed"] is True for t in seen["turns"])
        count["silent"] += sum(t["mixed"] is None for t in seen["turns"])
        count["sides"] += 2
        count["sides mixed"] += sum(seen[role]["mixed"] is True for role in ROLES)
    seconds = time.perf_counter() - start
    print(f"{sum(c['turns'] for c in found.values())} turns in {seconds:.1f} s")
    for lang, c in sorted(found.items()):
        print(
            f"{lang}: {c['alarms']} of {c['turns']} turns called mixed "
            f"({c['alarms'] / c['turns']:.2%}), no verdict on {c['silent'] / c['turns']:.1%}; "
            f"sides of a dialogue: {c['sides mixed'] / c['sides']:.1%}"
        )


def detection(rows: dict[str, dict[str, Dialogue]], checker: LanguageChecker) -> None:
    hits, totals = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for how, lang, other, text in mixtures(rows, random.Random(0)):
        script = "one" if scripts_of(lang) == scripts_of(other) else "another"
        key = (how, f"{script} script")
        seen = checker.check(Dialogue("d", (Turn("user", text),), lang))
        totals[key] += 1
        hits[key] += seen["user"]["mixed"] is True
    for how, script in sorted(totals):
        found, total = hits[how, script], totals[how, script]
        print(f"{how}, {script}: {found} of {total} found ({found / total:.1%})")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--set", default="fed", choices=["fed", "conture"])
    name = parser.parse_args().set
    path = Path(os.environ["MEDAL_JUDGES_DATA"]) / f"xdial_{name}_dialogue.jsonl.gz"
    parallel: dict[str, dict[str, Dialogue]] = defaultdict(dict)
    for row in read_labelled(path):
        parallel[str(row.extra["parallel_id"])][row.dialogue.lang] = row.dialogue
    rows = [d for versions in parallel.values() for d in versions.values()]
    checker = LanguageChecker(sorted({d.lang for d in rows}))
    false_alarms(rows, checker)
    detection(parallel, checker)


if __name__ == "__main__":
    main()
