"""Train, benchmark and run judges of multilingual open-domain dialogue on your own hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from medal_judges.dialogue import Dialogue, Turn
    from medal_judges.dimension import Dimension
    from medal_judges.errors import (
        ConfigError,
        CoverageError,
        DataError,
        HubError,
        JudgeLoadError,
        LeakError,
        MedalError,
        MissingExtraError,
        NotAvailableError,
        RecordError,
        SourceError,
    )
    from medal_judges.eval.benchmark.benchmark import benchmark
    from medal_judges.inference.scoring import ScoreOptions, score_file
    from medal_judges.jsonl import read_dialogues
    from medal_judges.judgement import Judgement
    from medal_judges.labelled import LabelledDialogue
    from medal_judges.models.base.judge import Judge
    from medal_judges.rating import Rating
    from medal_judges.signature import Signature
    from medal_judges.training.run import train

_ERRORS = (
    "ConfigError",
    "CoverageError",
    "DataError",
    "HubError",
    "JudgeLoadError",
    "LeakError",
    "MedalError",
    "MissingExtraError",
    "NotAvailableError",
    "RecordError",
    "SourceError",
)
_PUBLIC = dict.fromkeys(_ERRORS, "errors") | {
    "Dialogue": "dialogue",
    "Turn": "dialogue",
    "Dimension": "dimension",
    "Judge": "models.base.judge",
    "Judgement": "judgement",
    "LabelledDialogue": "labelled",
    "Rating": "rating",
    "ScoreOptions": "inference.scoring",
    "Signature": "signature",
    "benchmark": "eval.benchmark.benchmark",
    "read_dialogues": "jsonl",
    "score_file": "inference.scoring",
    "train": "training.run",
}
__all__ = [
    "ConfigError",
    "CoverageError",
    "DataError",
    "Dialogue",
    "Dimension",
    "HubError",
    "Judge",
    "JudgeLoadError",
    "Judgement",
    "LabelledDialogue",
    "LeakError",
    "MedalError",
    "MissingExtraError",
    "NotAvailableError",
    "Rating",
    "RecordError",
    "ScoreOptions",
    "Signature",
    "SourceError",
    "Turn",
    "benchmark",
    "read_dialogues",
    "score_file",
    "train",
]


def __getattr__(name: str) -> object:
    # Lazy, so that `import medal_judges` and `medal --help` stay well under a second.
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
