"""Train, benchmark and run judges of multilingual open-domain dialogue on your own hardware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from medal_judges.dialogue import Dialogue, Turn
    from medal_judges.dimension import Dimension
    from medal_judges.judgement import Judgement
    from medal_judges.labelled import LabelledDialogue
    from medal_judges.models.base.judge import Judge
    from medal_judges.rating import Rating
    from medal_judges.signature import Signature

_PUBLIC = {
    "Dialogue": "dialogue",
    "Turn": "dialogue",
    "Dimension": "dimension",
    "Judge": "models.base.judge",
    "Judgement": "judgement",
    "LabelledDialogue": "labelled",
    "Rating": "rating",
    "Signature": "signature",
}
__all__ = [
    "Dialogue",
    "Dimension",
    "Judge",
    "Judgement",
    "LabelledDialogue",
    "Rating",
    "Signature",
    "Turn",
]


def __getattr__(name: str) -> Any:
    # Lazy, so that `import medal_judges` and `medal --help` stay well under a second.
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_PUBLIC[name]}"), name)
