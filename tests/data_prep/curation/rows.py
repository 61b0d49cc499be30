"""Labelled rows of a few words, for the tests of this folder."""

import runpy
from pathlib import Path
from typing import Any

from medal_judges.data_prep.curation.pool import CLEAN, Candidate
from medal_judges.records.dimension import load_rubric
from medal_judges.records.labelled import LabelledDialogue, parse_labelled

_BENCHMARK = Path(__file__).parents[3] / "benchmarks" / "curation.py"
labelled_pool = runpy.run_path(str(_BENCHMARK))["labelled_pool"]
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
