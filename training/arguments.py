"""The settings ``args`` of a run: transformers' TrainingArguments under their own names.

A run passes them on unchanged. Those in ``REFUSED``, such as ``seed``, are errors.
"""

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

if TYPE_CHECKING:
    from transformers import TrainingArguments

CHECKPOINTS = "checkpoints"
_STATISTICS = "the statistics of validation rows need all of them, and their labels"
# Names that begin so, and what to do instead.
REFUSED = {
    "output_dir": "set output_dir beside args. Checkpoints are in its folder checkpoints/",
    "seed": "set seed beside args",
    "data_seed": "set seed beside args: it orders the rows too",
    "resume_from_checkpoint": "leave it out: a run that is typed again resumes",
    "restore_callback_states_from_checkpoint": "leave it out: a run resumes with them",
    "save_only_model": "for fewer checkpoints set args.save_total_limit",
    "push_to_hub": "type medal push FOLDER ORG/NAME",
    "hub_": "type medal push FOLDER ORG/NAME",
    "label_smoothing_factor": "set model.heads.DIMENSION.label_smoothing",
    "auto_find_batch_size": "set per_device_train_batch_size: with others a step has other rows",
    "remove_unused_columns": "leave it out: the collator takes what the loss needs",
    "label_names": "leave it out: the collator names them",
    "do_": "leave it out: a run trains, validates if it has validation rows, and scores test rows",
    "prediction_loss_only": _STATISTICS,
    "batch_eval_metrics": _STATISTICS,
    "eval_do_concat_batches": _STATISTICS,
    "dataloader_drop_last": _STATISTICS,
}
_POSITIVE = (
    "learning_rate",
    "num_train_epochs",
    "per_device_train_batch_size",
    "per_device_eval_batch_size",
    "gradient_accumulation_steps",
    "eval_steps",
    "logging_steps",
    "save_steps",
)
# Best weights are saved where they are measured.
_SAVING = ("save_strategy", "save_steps")


def check_arguments(
    args: Mapping[str, Any],
    *,
    validated: bool,
    patience: int | None,
) -> None:
    """Checks the setting ``args`` of a run, before anything is loaded.

    Args:
        args: Name of a field of transformers' TrainingArguments -> its value, such as
            ``{"learning_rate": 1e-5}``.
        validated: Whether the run has validation rows.
        patience: The number of validations without improvement after which training stops. None if
            it never stops early.

    Raises:
        ValueError: A name is unknown or may not be set in ``args`` (such as ``seed``), a value is
            wrong, or a setting needs validation rows and there are none.
    """
    for name, value in args.items():
        _check_argument(name, value)
    measures = validated and args.get("eval_strategy") != "no"
    if measures and args.get("load_best_model_at_end", True):
        for name in _SAVING:
            if name in args:
                raise ValueError(
                    f"args.{name}: the best weights are saved where they are measured. Set "
                    f"args.{name.replace('save', 'eval')}"
                )
    needs = {
        "early_stopping_patience": patience,
        "args.load_best_model_at_end": args.get("load_best_model_at_end"),
        "args.metric_for_best_model": args.get("metric_for_best_model"),
        "args.eval_strategy": args.get("eval_strategy", "no") != "no",
    }
    for name, value in needs.items():
        if value and not measures:
            raise ValueError(
                f"{name} needs validation rows, and args.eval_strategy: epoch or steps"
            )


def _check_argument(
    name: str,
    value: Any,
) -> None:
    """Raises ValueError if TrainingArguments has no field ``name``, a run refuses it, or ``value``
    does not fit it."""
    for start, reason in REFUSED.items():
        if name == start or (start.endswith("_") and name.startswith(start)):
            raise ValueError(f"args.{name}: {reason}")
    kinds = _argument_types()
    if name not in kinds:
        guess = did_you_mean(name, sorted(kinds))
        raise ValueError(
            f"args.{name}: TrainingArguments has no such field. {guess}Leave it out"
        )
    value = cast_argument(name, value)
    if name in _POSITIVE and value is not None and value <= 0:
        raise ValueError(f"args.{name}: type a number above 0 (got {value})")


def cast_argument(
    name: str,
    value: Any,
) -> Any:
    """Converts ``value``, read from YAML, to the type of one field of TrainingArguments.

    Args:
        name: The name of the field, such as ``learning_rate``.

    Raises:
        ValueError: The value does not have that type.
    """
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(_argument_types()[name])
    except Exception:  # a type of transformers that pydantic does not know
        return value
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ValueError(f"args.{name}: {reason} (got {value!r:.80})") from error


@cache
def _argument_types() -> dict[str, Any]:
    """Returns the name of each field of TrainingArguments -> its type."""
    from transformers import TrainingArguments

    hints = get_type_hints(TrainingArguments)
    names = [field.name for field in fields(TrainingArguments) if field.init]
    return {name: hints[name] for name in names}


def process_count() -> int:
    """Returns the number of processes that the launcher has started. It is 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def is_main_process() -> bool:
    """Returns whether this is the launcher's process 0, which saves the judge. True without a
    launcher."""
    return os.environ.get("RANK", "0") == "0"


def training_arguments(
    values: Mapping[str, Any],
    output_dir: Path,
    *,
    seed: int,
    validated: bool,
) -> TrainingArguments:
    """Returns the TrainingArguments of a run.

    Args:
        values: The setting ``args`` of the run, such as ``{"learning_rate": 1e-5}``.
        output_dir: The judge's folder. Checkpoints go to its subfolder ``checkpoints``.
        seed: The seed of the run.
        validated: Whether the run has validation rows.

    Raises:
        ConfigError: Two of ``values`` contradict each other, or this machine does not support one.
    """
    from transformers import TrainingArguments, get_scheduler

    chosen = {name: cast_argument(name, value) for name, value in values.items()}
    settings = argument_defaults(chosen, validated=validated) | chosen
    settings |= {"output_dir": str(output_dir / CHECKPOINTS), "seed": seed}
    settings |= {"remove_unused_columns": False, "label_names": ["labels"]}
    settings["restore_callback_states_from_checkpoint"] = True
    if not torch.cuda.is_available():
        if settings.get("fp16"):
            raise ConfigError(
                "args.fp16 needs a GPU: on a CPU the Trainer would compute in fp32",
                hint="Set args.bf16: true, or leave fp16 out",
            )
        # DeepSpeed has a CPU accelerator of its own, which the Trainer calls not a CPU.
        deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED", "false").lower()
        settings = {"use_cpu": deepspeed != "true"} | settings
        if process_count() > 1:
            settings = {"ddp_backend": "gloo"} | settings
    try:
        args = TrainingArguments(**settings)
        # Its settings are used after the first steps were prepared: this finds what is wrong now.
        get_scheduler(
            args.lr_scheduler_type,
            torch.optim.SGD([torch.zeros(1)], lr=1.0),
            *(1, 2),
            scheduler_specific_kwargs=settings.get("lr_scheduler_kwargs"),
        )
    except (ValueError, TypeError, ImportError, RuntimeError) as error:
        raise ConfigError(f"args: {error}") from error
    return args


def argument_defaults(
    chosen: Mapping[str, Any],
    *,
    validated: bool,
) -> dict[str, Any]:
    """Returns the default arguments of a run that differ from those of transformers, such as
    ``{"logging_steps": 10}``.

    With validation rows, a run validates and saves after each epoch and keeps the best weights. If
    the user sets ``eval_steps``, it does so after that many steps instead.

    Args:
        chosen: The arguments that the user has set: name -> value.
        validated: Whether the run has validation rows.
    """
    has_bf16 = torch.cuda.is_available() and torch.cuda.is_bf16_supported()
    defaults: dict[str, Any] = {
        "save_strategy": _steps_or_epoch(chosen, "save_steps"),
        "save_total_limit": 2,
        "logging_steps": 10,
        "logging_nan_inf_filter": False,  # it would hide that a run has failed
        "train_sampling_strategy": "group_by_length",
        "report_to": "none",
        "disable_tqdm": not sys.stderr.isatty(),
        "bf16": has_bf16 and not chosen.get("fp16"),
        "ddp_find_unused_parameters": False,
    }
    strategy = chosen.get("eval_strategy", _steps_or_epoch(chosen, "eval_steps"))
    if validated and strategy != "no":
        steps = chosen.get("eval_steps") or chosen.get("logging_steps") or 10
        defaults |= {
            "eval_strategy": strategy,
            "save_strategy": strategy,
            "save_steps": steps,
            "eval_steps": steps,
            "load_best_model_at_end": True,
            "metric_for_best_model": "loss",
        }
    return defaults


def _steps_or_epoch(chosen: Mapping[str, Any], steps: str) -> str:
    """Returns ``"steps"`` if ``chosen`` has the argument that ``steps`` names (such as
    ``save_steps``), otherwise ``"epoch"``."""
    # With "epoch" the Trainer would ignore the argument.
    return "steps" if steps in chosen else "epoch"
