"""The settings ``args`` of a run: transformers' TrainingArguments under its own names."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import torch
from pydantic import TypeAdapter, ValidationError

from medal_judges.errors import ConfigError, did_you_mean
from medal_judges.training.config import TrainConfig

if TYPE_CHECKING:
    from transformers import TrainingArguments

CHECKPOINTS = "checkpoints"
# Settings of the Trainer that a run has under another name, or cannot follow.
_ELSEWHERE = {
    "output_dir": "set output_dir beside args; checkpoints are in its folder checkpoints/",
    "seed": "set seed beside args",
    "resume_from_checkpoint": "a run that is typed again resumes; --overwrite starts it again",
    "push_to_hub": "medal push FOLDER ORG/NAME",
    "remove_unused_columns": "the collator takes what the loss needs",
    "label_names": "the collator names them",
    "do_train": "a run always trains",
    "do_eval": "validation rows decide: args.eval_strategy",
    "do_predict": "test entries decide",
}


def check_steps(config: TrainConfig) -> None:
    """Raises ValueError for ``args`` that check_arguments refuses, and for settings that need
    validation rows in a run without."""
    check_arguments(config.args)
    needs = {
        "early_stopping_patience": config.early_stopping_patience,
        "args.load_best_model_at_end": config.args.get("load_best_model_at_end"),
        "args.metric_for_best_model": config.args.get("metric_for_best_model"),
    }
    for name, value in needs.items():
        if value and not config.validated:
            raise ValueError(
                f"{name} needs validation rows: give validation entries or a split"
            )


def check_arguments(values: Mapping[str, Any]) -> None:
    """Raises ValueError for a name that TrainingArguments does not have (with the nearest one), for
    a value of another type, and for a setting that a run has under another name."""
    for name, value in values.items():
        if name in _ELSEWHERE:
            raise ValueError(f"args.{name}: {_ELSEWHERE[name]}")
        kinds = _kinds()
        if name not in kinds:
            guess = did_you_mean(name, sorted(kinds))
            raise ValueError(
                f"args.{name}: TrainingArguments has no such field; {guess}".rstrip()
            )
        typed(name, value)


def typed(name: str, value: Any) -> Any:
    """Returns a YAML value as the type of the argument ``name``: YAML reads 2e-5 as text. Raises
    ValueError for a value of another type."""
    kind = _kinds()[name]
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(kind)
    except Exception:  # a type of transformers that pydantic does not know
        return value
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ValueError(f"args.{name}: {reason} (got {value!r:.80})") from error


def launched_processes() -> int:
    """Returns how many processes the launcher has started."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main() -> bool:
    """Returns whether this is the process that saves; launchers number theirs."""
    return os.environ.get("RANK", "0") == "0"


@cache
def _kinds() -> dict[str, Any]:
    from transformers import TrainingArguments

    hints = get_type_hints(TrainingArguments)
    return {
        field.name: hints[field.name]
        for field in fields(TrainingArguments)
        if field.init
    }


def training_arguments(
    values: Mapping[str, Any], output_dir: Path, *, seed: int, validated: bool
) -> TrainingArguments:
    """Returns the arguments of a run whose checkpoints go to ``output_dir``/checkpoints.

    The defaults that differ from the Trainer's: with validation rows (``validated``) the run
    validates and saves after each epoch and ends with the best weights; without, it saves after
    each epoch. Two checkpoints are kept. Batches have dialogues of similar length. bf16 is on if
    the GPU has it. Raises ConfigError for settings that do not go together or that this machine
    cannot follow.
    """
    from transformers import TrainingArguments

    chosen = {name: typed(name, value) for name, value in values.items()}
    settings = argument_defaults(chosen, validated=validated) | chosen
    settings |= {"output_dir": str(output_dir / CHECKPOINTS), "seed": seed}
    settings |= {"remove_unused_columns": False, "label_names": ["labels"]}
    if not torch.cuda.is_available():
        if settings.get("fp16"):
            raise ConfigError(
                "args.fp16 needs a GPU: on a CPU the Trainer would compute in fp32",
                hint="set args.bf16: true, or leave fp16 out",
            )
        # DeepSpeed has a CPU accelerator of its own, which the Trainer calls not a CPU.
        is_deepspeed = (
            os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower() == "true"
        )
        settings = {"use_cpu": not is_deepspeed} | settings
        if launched_processes() > 1:
            settings = {"ddp_backend": "gloo"} | settings
    try:
        return TrainingArguments(**settings)
    except (ValueError, TypeError) as error:
        raise ConfigError(f"args: {error}") from error


def argument_defaults(chosen: Mapping[str, Any], *, validated: bool) -> dict[str, Any]:
    """Returns the defaults that differ from the Trainer's, see training_arguments."""
    defaults: dict[str, Any] = {
        "save_strategy": "epoch",
        "save_total_limit": 2,
        "logging_steps": 10,
        "logging_nan_inf_filter": False,  # it would hide that a run has failed
        "train_sampling_strategy": "group_by_length",
        "report_to": "none",
        "disable_tqdm": not sys.stderr.isatty(),
        "bf16": torch.cuda.is_available() and torch.cuda.is_bf16_supported(),
        "ddp_find_unused_parameters": False,
    }
    if chosen.get("fp16"):
        defaults["bf16"] = False
    strategy = chosen.get("eval_strategy", "epoch")
    if validated and strategy != "no":
        defaults |= {
            "eval_strategy": strategy,
            "save_strategy": strategy,
            "save_steps": chosen.get("eval_steps")
            or chosen.get("logging_steps")
            or 500,
            "load_best_model_at_end": True,
            "metric_for_best_model": "loss",
        }
    return defaults
