"""Labelled rows of a few words, for the tests of this folder."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np

from medal_judges.data_prep.curation.pool import CLEAN, Candidate
from medal_judges.records.dimension import load_rubric
from medal_judges.records.labelled import LabelledDialogue, parse_labelled

ISSUES = tuple(d.name for d in load_rubric("medal") if d.is_issue and d.name != "other")


def labelled(
    id: str,
    *issues: str,
    overall: float | list[float | None] | None = 5,
    lang: str = "en",
    user: str = "u",
    chatbot: str = "A",
    group: str | None = None,
    **fields: Any,
) -> LabelledDialogue:
    """A row with the issues named, all others absent."""
    labels: dict[str, Any] = {
        name: [int(name in issues)] for name in (*ISSUES, "other")
    }
    if overall is not None:
        labels["overall"] = overall if isinstance(overall, list) else [overall]
    labels |= fields.pop("labels", {})
    record = {
        "id": id,
        "lang": lang,
        "dialogue": [
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": "Hello"},
        ],
        "models": {"user": user, "assistant": chatbot},
        "labels": labels,
        "scales": {**{name: [0, 1] for name in (*ISSUES, "other")}, "overall": [1, 5]},
        "group": group or id,
        **fields,
    }
    return parse_labelled(record)


def candidate(
    id: str,
    *issues: str,
    level: int | None = 5,
    user: str = "u",
    chatbot: str = "A",
    group: str | None = None,
) -> Candidate:
    """A candidate in English with the issues named, clean without any."""
    return Candidate(id, "en", group or id, user, chatbot, issues or (CLEAN,), level)


LANGUAGES = ("de", "en", "es", "fr", "pt", "zh")
# Share of an average chatbot's dialogues with the issue, in an average language.
RATES = {"uninterpretable": 0.02, "unsafe": 0.002, "lacks_empathy": 0.02}
RATES |= {"lacks_commonsense": 0.03, "repetitive": 0.035, "incoherent": 0.03}
RATES |= {"irrelevant": 0.02, "nonfactual": 0.025}
# Of a chatbot's share, strongest first.
STRENGTH = dict(
    zip("ABCDEFGH", (0.25, 0.35, 0.45, 0.6, 0.8, 1.2, 1.8, 2.6), strict=True)
)


def labelled_pool(count: int, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Rows as MEDAL's came out (section 4, appendix D.2): over 80% clean fives (fewer in German),
    issues of a few percent, unsafe a few in a thousand, weaker chatbots with more of them."""
    rng = np.random.default_rng(seed)
    cells = list(product(LANGUAGES, ("user-large", "user-small"), STRENGTH))
    for number in range(count):
        context, cell = divmod(number, len(cells))
        lang, user, bot = cells[cell]
        factor = STRENGTH[bot] * (2.0 if lang == "de" else 1.0)
        issues = [
            n for n, rate in RATES.items() if rng.random() < min(0.9, factor * rate)
        ]
        overall = 5 if not issues and rng.random() < 0.97 else 4
        if issues:
            overall = max(2, int(5 - len(issues) - rng.integers(0, 2)))
        comments = dict.fromkeys(ISSUES, "Nothing of the kind.")
        if "uninterpretable" in issues:
            is_foreign = lang == "de" and rng.random() < 0.6
            comments["uninterpretable"] = "It breaks off."
            if is_foreign:
                text = "One answer mixes Chinese characters into the text."
                comments["uninterpretable"] = text
        row = labelled(
            f"ctx-{context:05d}-{lang}--{user}--{bot}",
            *issues,
            overall=overall,
            lang=lang,
            user=user,
            chatbot=bot,
            group=f"ctx-{context:05d}",
            comments=comments,
            labels={"other": [0]},
        )
        yield row.to_record()
