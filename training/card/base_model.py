"""What a judge is built on: the public name of its base model, and that model's licence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from medal_judges.models.embedded import PREFIX

# Embedded defaults are copies of models of the Hub, under these terms.
_EMBEDDED = {
    "minilm": ("sentence-transformers/all-MiniLM-L6-v2", "apache-2.0"),
    "smollm2": ("HuggingFaceTB/SmolLM2-135M-Instruct", "apache-2.0"),
}
UNKNOWN = "not stated here: see the model's page"


@dataclass(frozen=True, slots=True)
class BaseModel:
    """``hub_id`` is None for a base that is on no hub (a folder, or surface measures)."""

    name: str
    hub_id: str | None
    licence: str


def base_model(base: str) -> BaseModel:
    """The base model called ``base`` in a signature.

    The licence of one on the Hub is read from its card in the cache, or asked for; a base that
    cannot be asked is said to be unknown, never guessed.
    """
    if base.startswith(PREFIX):
        known = _EMBEDDED.get(base.removeprefix(PREFIX))
        return BaseModel(base, *known) if known else BaseModel(base, None, UNKNOWN)
    parts = base.split("/")
    if len(parts) == 2 and all(parts) and "+" not in base:
        return BaseModel(base, base, _asked(base) or UNKNOWN)
    return BaseModel(base.rsplit("/", 1)[-1], None, "of no model on the Hub")


def _asked(hub_id: str) -> str | None:
    from huggingface_hub import HfApi, ModelCard, try_to_load_from_cache

    try:
        cached = try_to_load_from_cache(hub_id, "README.md")
        if isinstance(cached, str):
            licence = ModelCard.load(cached).data.to_dict().get("license")
        else:
            card: Any = HfApi().model_info(hub_id, timeout=5).card_data
            licence = None if card is None else card.to_dict().get("license")
    except Exception:  # no network, no such model, no card: the card says that it is not known
        return None
    return licence if isinstance(licence, str) else None
