"""The adapter of a generative LoRA judge as vLLM takes it (LoRARequest)."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError
from medal_judges.models.model_files import files_hash

WEIGHTS = "adapter_model.safetensors"
# What vLLM's max_lora_rank may be.
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)


@dataclass(frozen=True, slots=True)
class Adapter:
    """A PEFT adapter: its folder, the rank that the engine has to make room for, and a hash."""

    folder: Path
    rank: int
    hash: str

    def engine_settings(self) -> dict[str, Any]:
        """What ``vllm.LLM`` has to be told before it can take the adapter."""
        return {"enable_lora": True, "max_loras": 1, "max_lora_rank": self.rank}

    def request(self) -> Any:
        """vLLM's own object."""
        from vllm.lora.request import LoRARequest

        return LoRARequest(f"judge-{self.hash}", 1, str(self.folder.resolve()))


def read_adapter(setting: str) -> Adapter:
    """The adapter in a folder: PEFT's own, or that of a saved generative LoRA judge.

    Raises ConfigError for one that vLLM cannot compute with, which would else be another judge.
    """
    given = Path(setting)
    folder = _of_judge(given) if (given / "config.json").is_file() else given
    try:
        config = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        (folder / WEIGHTS).stat()
        digest = files_hash(folder, (WEIGHTS, "adapter_config.json"))
        rank = int(config["r"])
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(
            f"llm.adapter: {setting} holds no PEFT adapter ({error})",
            hint=f"a folder with adapter_config.json and {WEIGHTS}, or a saved generative judge",
        ) from error
    if config.get("use_dora"):
        raise ConfigError(
            f"llm.adapter: {setting} is a DoRA adapter, which vLLM does not compute",
            hint="medal score --judge FOLDER, which runs through transformers",
        )
    if rank > _RANKS[-1]:
        raise ConfigError(f"llm.adapter: vLLM takes ranks up to {_RANKS[-1]}, this is {rank}")
    return Adapter(folder, next(r for r in _RANKS if r >= rank), digest)


def _of_judge(folder: Path) -> Path:
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    lora = config.get("lora", {})
    if lora.get("head") == "scoring":
        raise ConfigError(
            f"llm.adapter: {folder} is a LoRA judge with scoring heads, which read hidden states: "
            "vLLM gives tokens only",
            hint="medal score --judge FOLDER, which runs through transformers",
        )
    if lora.get("merge"):
        raise ConfigError(
            f"llm.adapter: {folder} was saved merged and has no adapter",
            hint=f"llm: {{backend: vllm, model: {folder / 'model'}}}",
        )
    return folder / "adapter"
