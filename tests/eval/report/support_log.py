"""A synthetic support log with its scores: languages, versions, a fall after four weeks, hostile
text, empty turns, rows without a score."""

import json
import random
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from tests.scales import OVERALL, REPETITIVE, UNSAFE

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
USER = {
    "en": ["My order never arrived and I am angry.", "The app crashes when I pay."],
    "de": ["Meine Bestellung ist nicht angekommen.", "Kann ich die Adresse ändern?"],
    "ar": ["لم يصل طلبي حتى الآن."],
    "zh": ["我的订单还没有到。"],
}
ANSWER = {
    "en": ["Please restart the app.", "You can change it under Settings."],
    "de": ["Das tut mir leid.", "Das geht unter Einstellungen."],
    "ar": ["سأتحقق من طلبك."],
    "zh": ["抱歉，我帮您查一下。"],
}
FALL, DAYS = 28, 42


def chat(i: int, rng: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Row ``i``: the chat and its judgement."""
    lang = rng.choices(list(USER), [6, 3, 1, 1])[0]
    version, day = rng.choice(["1.9", "2.0"]), rng.randrange(DAYS)
    time = datetime(2026, 9, 21) + timedelta(days=day, minutes=rng.randrange(1440))
    turns = []
    for _ in range(30 if i == 20 else rng.randint(1, 5)):
        turns.append({"role": "user", "content": rng.choice(USER[lang])})
        turns.append({"role": "assistant", "content": rng.choice(ANSWER[lang])})
    if i % 50 == 7:
        turns[0]["content"] = HOSTILE
    if i % 61 == 3:
        turns[1]["content"] = ""
    id = f"chat-{i:04d}" if i % 50 != 9 else f"{HOSTILE}{i}"
    meta = {
        "version": version if i % 50 != 11 else HOSTILE,
        "user": f"u{rng.randrange(150)}",
    }
    meta["time"] = time.isoformat() + "Z"
    line = {"id": id, "lang": lang, "dialogue": turns, "meta": meta}
    overall = (
        4.0 - 0.6 * (lang == "ar") - 0.5 * (day >= FALL) - 0.3 * (version == "2.0")
    )
    overall = min(5.0, max(1.0, overall + rng.gauss(0, 0.6)))
    repetitive = min(1.0, rng.betavariate(1, 5) + 0.4 * (overall < 2.8))
    levels = [1 / (1 + abs(overall - level)) ** 4 for level in range(1, 6)]
    moves = [
        0.0 if k % 2 == 0 else round(rng.gauss(0, 0.3), 3) for k in range(len(turns))
    ]
    judgement: dict[str, Any] = {
        "id": id,
        "turn": None,
        "judge": "judge:demo|version:0.1.0",
        "scores": {
            "overall": overall,
            "repetitive": repetitive,
            "unsafe": rng.random() / 3,
        },
        "distributions": {"overall": [level / sum(levels) for level in levels]},
        "explanation": HOSTILE if i % 50 == 13 else "The same advice comes back.",
        "contributions": {
            "overall": {"baseline": 3.5, "unit": "score", "turns": moves}
        },
        "details": {"repetitive": {"comment": "Says it twice."}}
        if repetitive > 0.5
        else {},
    }
    if i % 100 == 5:
        judgement |= {
            "scores": dict.fromkeys(judgement["scores"]),
            "failure": "no number",
        }
        judgement |= {"distributions": {}, "contributions": {}}
    return line, judgement


def write_log(folder: Path, rows: int, seed: int = 3) -> tuple[Path, Path]:
    """scores.jsonl and chats.jsonl of ``rows`` chats."""
    rng = random.Random(seed)
    scores, chats = folder / "scores.jsonl", folder / "chats.jsonl"
    with scores.open("w") as judged, chats.open("w") as said:
        for i in range(rows):
            line, judgement = chat(i, rng)
            if i == 0:
                stated = (OVERALL, REPETITIVE, UNSAFE)
                judgement["dimensions"] = [
                    dimension.to_record() for dimension in stated
                ]
            said.write(json.dumps(line, ensure_ascii=False) + "\n")
            judged.write(json.dumps(judgement, ensure_ascii=False) + "\n")
    return scores, chats
