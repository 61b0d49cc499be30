"""What the card says of a judge's folder in the hands of transformers, PEFT and
sentence-transformers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medal_judges.models.base.heads import OutputHead, output_heads
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.records.dimension import Dimension
from medal_judges.storage.files import read_json

LIBRARIES = {"encoder": "transformers", "lora": "peft"}


@dataclass(frozen=True, slots=True)
class PlainUse:
    """How to load a judge without this package: ``kind`` is ``encoder``, ``scoring`` or
    ``generative``, ``outputs`` the number of logits, ``separator`` the text between two turns,
    ``readings`` what the logits of each dimension say, ``speaks`` who would speak next."""

    kind: str
    outputs: int = 0
    separator: str = ""
    readings: tuple[str, ...] = ()
    speaks: str = ""


def plain_use(folder: Path, config: Mapping[str, Any]) -> PlainUse | None:
    """Returns the plain use of the judge in ``folder``; None for a family that is no model of
    transformers."""
    dimensions = [Dimension(**record) for record in config["dimensions"]]
    if config["family"] == "encoder":
        heads = output_heads(dimensions, EncoderConfig(**config["encoder"]).heads)
        readings = tuple(_reading(head, on_scale=True) for head in heads)
        tokenizer = read_json(folder / "tokenizer_config.json")
        separator = tokenizer.get("sep_token") or ""
        if isinstance(separator, dict):
            separator = separator["content"]
        return PlainUse("encoder", _outputs(heads), separator, readings)
    if config["family"] != "lora":
        return None
    settings = LoraConfig(**config["lora"])
    if settings.head == "generative":
        return PlainUse("generative")
    heads = output_heads(dimensions, settings.heads)
    readings = tuple(_reading(head, on_scale=False) for head in heads)
    return PlainUse(
        "scoring", _outputs(heads), readings=readings, speaks=settings.speaks
    )


def _outputs(heads: list[OutputHead]) -> int:
    return sum(head.outputs for head in heads)


def _reading(head: OutputHead, *, on_scale: bool) -> str:
    dimension = head.dimension
    name, low, high = dimension.name, dimension.low, dimension.high
    kind = head.config.kind
    if kind == "binary":
        return f"{name}: the sigmoid of the logit is the probability of label 1"
    if kind == "classification":
        return f"{name}: the softmax of its logits is the probability of each level"
    if kind == "ordinal":
        return f"{name}: the sigmoids are the chances of more than a level if it is reached (CORN)"
    if on_scale:
        return f"{name}: the logit is the raw score"
    return f"{name}: the raw score is {(low + high) / 2:g} + {high - low:g} x the logit"
