"""How often the language of a chat, and of a single turn, is right, wrong or unknown.

python benchmarks/languages.py   # wants MEDAL_JUDGES_DATA and the extra lang; about 20 s
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict

from medal_judges import Dialogue, read_dialogues
from medal_judges.reading.language_detection import detected_language, text_language
from medal_judges.storage.files import data_folder

SETS = ("xdial_conture_dialogue.jsonl.gz", "xdial_fed_dialogue.jsonl.gz")


def verdict(found: str | None, lang: str) -> str:
    return "unknown" if found is None else "right" if found == lang else "wrong"


def show(counts: dict[str, Counter[str]]) -> None:
    for name, each in sorted(counts.items()):
        shares = ", ".join(
            f"{key} {n / each.total():.1%}" for key, n in each.most_common()
        )
        print(f"  {name} ({each.total()}): {shares}")


def mixed(rows: list[Dialogue], draw: random.Random) -> dict[str, Counter[str]]:
    """Chats of two languages: the user's turns of one and the chatbot's of the other, or the first
    half of one and the second half of the other."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    while sum(each.total() for each in counts.values()) < 400:
        one, other = draw.sample(rows, 2)
        if one.lang == other.lang:
            continue
        users = [turn for turn in one.turns if turn.role == "user"]
        chatbots = [turn for turn in other.turns if turn.role == "assistant"]
        sides = tuple(
            turn for pair in zip(users, chatbots, strict=False) for turn in pair
        )
        halves = one.turns[: len(one.turns) // 2] + other.turns[len(other.turns) // 2 :]
        for name, turns in (("two sides", sides), ("two halves", halves)):
            known = detected_language(Dialogue("mixed", turns)) is not None
            counts[name]["told" if known else "unknown"] += 1
    return counts


def main() -> None:
    folder = data_folder()
    assert folder is not None, "set MEDAL_JUDGES_DATA"
    rows = [row for name in SETS for row in read_dialogues(folder / name)]
    begin = time.process_time()
    dialogues: dict[str, Counter[str]] = defaultdict(Counter)
    for row in rows:
        dialogues[row.lang][verdict(detected_language(row), row.lang)] += 1
    print(f"{1000 * (time.process_time() - begin) / len(rows):.1f} ms a dialogue")
    show(dialogues)
    turns = [
        (row.lang, turn.content)
        for row in rows
        for turn in row.turns
        if turn.content.strip()
    ]
    draw = random.Random(0)
    by_language: dict[str, Counter[str]] = defaultdict(Counter)
    by_length: dict[str, Counter[str]] = defaultdict(Counter)
    for lang, text in draw.sample(turns, 6000):
        found = verdict(text_language(text), lang)
        letters = sum(map(str.isalpha, text))
        by_language[lang][found] += 1
        by_length[
            "under 40" if letters < 40 else "40 to 80" if letters < 80 else "from 80"
        ][found] += 1
    print("single turns")
    show(by_language)
    show(by_length)
    print("of two languages")
    show(mixed(rows, draw))


if __name__ == "__main__":
    main()
