"""medal_judges trains, benchmarks and runs judges of multilingual open-domain dialogue on your own
hardware."""

# ruff: noqa: I001  it would make a statement of each name that is exported under its own

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from medal_judges.errors import (
        ConfigError as ConfigError,
        CoverageError as CoverageError,
        DataError as DataError,
        HubError as HubError,
        JudgeLoadError as JudgeLoadError,
        LeakError as LeakError,
        MedalError as MedalError,
        MissingExtraError as MissingExtraError,
        NotAvailableError as NotAvailableError,
        RecordError as RecordError,
        SourceError as SourceError,
    )
    from medal_judges.eval.align.run import align as align
    from medal_judges.eval.benchmark.run import benchmark as benchmark
    from medal_judges.eval.comparison.compare import compare as compare
    from medal_judges.eval.comparison.systems import CompareOptions as CompareOptions
    from medal_judges.inference.scoring import (
        ScoreOptions as ScoreOptions,
        score_file as score_file,
    )
    from medal_judges.models.base.judge import Judge as Judge
    from medal_judges.reading.dialogues import (
        parse_dialogue as parse_dialogue,
        read_dialogues as read_dialogues,
    )
    from medal_judges.reading.messages import read_messages as read_messages
    from medal_judges.records.dialogue import (
        Dialogue as Dialogue,
        Turn as Turn,
    )
    from medal_judges.records.dimension import Dimension as Dimension
    from medal_judges.records.judgement import Judgement as Judgement
    from medal_judges.records.labelled import (
        LabelledDialogue as LabelledDialogue,
        Rating as Rating,
    )
    from medal_judges.records.signature import Signature as Signature
    from medal_judges.storage.judgements import (
        read_frame as read_frame,
        read_judgements as read_judgements,
        to_frame as to_frame,
        write_judgements as write_judgements,
    )
    from medal_judges.training.run import train as train

_MODULES = {
    "records.dialogue": ["Dialogue", "Turn"],
    "records.dimension": ["Dimension"],
    "errors": [
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
    ],
    "eval.align.run": ["align"],
    "eval.benchmark.run": ["benchmark"],
    "eval.comparison.compare": ["compare"],
    "eval.comparison.systems": ["CompareOptions"],
    "inference.scoring": ["ScoreOptions", "score_file"],
    "records.judgement": ["Judgement"],
    "storage.judgements": [
        "read_frame",
        "read_judgements",
        "to_frame",
        "write_judgements",
    ],
    "models.base.judge": ["Judge"],
    "records.labelled": ["LabelledDialogue", "Rating"],
    "reading.dialogues": ["parse_dialogue", "read_dialogues"],
    "reading.messages": ["read_messages"],
    "records.signature": ["Signature"],
    "training.run": ["train"],
}
_PUBLIC: dict[str, str] = {}
for _module, _names in _MODULES.items():
    _PUBLIC |= dict.fromkeys(_names, _module)
__all__ = sorted(_PUBLIC)


def __getattr__(name: str) -> object:
    # Lazy, so that `import medal_judges` and `medal --help` stay well under a second.
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
