"""transformers' Trainer for judges. JudgeTrainer adds the loss of the heads, the statistics of
validation rows and the calibration, and returns the trained judge. The Trainer does the rest."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from datasets import Dataset
from torch import Tensor
from transformers import Trainer, TrainerCallback

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.batching import pad_rows
from medal_judges.training.arguments import process_count
from medal_judges.training.calibration import fit_calibration
from medal_judges.training.validation import agreement, with_means

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_utils import EvalPrediction, PredictionOutput

    from medal_judges.models.base.sequence import SequenceJudge
    from medal_judges.training.rows import TrainingExample


# -- data ------------------------------------------------------------------------------------------


def tokenized_dataset(
    judge: SequenceJudge,
    examples: Sequence[TrainingExample],
    cache: Path | None = None,
) -> Dataset:
    """Returns a tokenised dataset for training ``judge``, with a row for each of ``examples``.

    Args:
        cache: The file in which token ids are cached, or None for no cache.

    Returns:
        A dataset with these columns:

        - ``input_ids``: the token ids
        - ``length``: the number of token ids
        - ``labels``: a list of numbers: the targets of all heads, the number of the data source (in
          alphabetical order, from 0), and people's mean rating in each dimension. NaN if missing
        - ``number``: the index of the dialogue in ``examples``
        - ``dropped``: the number of turns left out because the dialogue is too long
        - ``cut``: the number of turns shortened for the same reason

    Raises:
        ConfigError: There are no examples.
    """
    if not examples:
        raise ConfigError("give the dataset one example or more")
    names = [head.dimension.name for head in judge.heads]
    sources = sorted({example.source for example in examples})
    records: list[dict[str, Any]] = []
    for number, example in enumerate(examples):
        labels = example_targets(judge, example)
        labels.append(sources.index(example.source))
        labels += [example.human.get(name, math.nan) for name in names]
        records.append({"labels": labels, "number": number})

    def tokenised(batch: Mapping[str, list[int]]) -> dict[str, list[Any]]:
        rendered = judge.render(
            [examples[number].dialogue for number in batch["number"]]
        )
        return {
            "input_ids": [text.ids for text in rendered],
            "length": [len(text.ids) for text in rendered],
            "dropped": [text.dropped for text in rendered],
            "cut": [text.cut for text in rendered],
        }

    cached: dict[str, Any] = {"load_from_cache_file": False}
    if cache is not None:
        cached = {"cache_file_name": str(cache), "new_fingerprint": cache.stem}
        cached["load_from_cache_file"] = True
    return Dataset.from_list(records).map(tokenised, batched=True, **cached)


def count_truncated(dataset: Dataset) -> dict[str, int]:
    """Counts what the judge cannot read in a tokenised ``dataset``, because dialogues are too long.

    Returns:
        ``rows`` -> the number of dialogues that lose text, ``truncated_turns`` -> the number of
            turns left out, and ``cut_turns`` -> the number of turns shortened.
    """
    # An example of a generative judge has a row for each question.
    rows = dataset.select_columns(["number", "dropped", "cut"]).to_pandas()
    rows = rows.drop_duplicates("number")
    return {
        "rows": int((rows["dropped"] + rows["cut"] > 0).sum()),
        "truncated_turns": int(rows["dropped"].sum()),
        "cut_turns": int(rows["cut"].sum()),
    }


def example_targets(
    judge: SequenceJudge,
    example: TrainingExample,
) -> list[float]:
    """Returns the targets of ``example`` in one list, in the order of the heads of ``judge``. A
    missing label gives NaN.

    A regression head has one target on [0, 1]. A classifier can have several, the probability of
    each level (possible rating).
    """
    targets: list[float] = []
    for head in judge.heads:
        target = example.targets.get(head.dimension.name)
        if target is None:
            target = np.full(head.targets, math.nan)
        targets += np.atleast_1d(target).astype(float).tolist()
    return targets


class JudgeCollator:
    """A collator that pads the token ids of a batch and stacks the labels.

    It is called with B rows of the dataset, and returns ``input_ids`` and ``attention_mask`` [B, T]
    and ``labels`` [B, columns]. T is the length of the longest row in tokens.

    Args:
        pad: The id of the padding token.
    """

    def __init__(self, pad: int) -> None:
        self.pad = pad

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        ids, mask = pad_rows([row["input_ids"] for row in rows], self.pad)
        labels = torch.tensor([row["labels"] for row in rows], dtype=torch.float32)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


# -- the trainer -----------------------------------------------------------------------------------


class JudgeTrainer(Trainer):
    """A Trainer of transformers that trains the network of a judge in place.

    Validation computes the statistics of the method ``statistics``. A subclass can override it. The
    argument ``compute_metrics`` is refused.

    Args:
        model: The judge.
        args: The training arguments.
        compute_loss_func: A function ``(outputs, labels, num_items_in_batch=...)`` that returns the
            loss. It must divide the sum over rows by ``num_items_in_batch``. None means the method
            ``judge_loss``.
        callbacks: Further callbacks of transformers.
        options: Further arguments of Trainer, such as ``train_dataset``, except ``model_init``.

    Attributes:
        dataset: A function ``(judge, examples, cache)`` that returns the tokenised dataset.
        measures: Whether validation computes statistics beside the loss.

    Raises:
        ConfigError: ``compute_metrics`` or ``model_init`` is given, a dataset is empty, or several
            processes would each train alone.
    """

    dataset: Callable[..., Dataset] = staticmethod(tokenized_dataset)
    measures = True  # validation has statistics beside the loss

    def __init__(
        self,
        model: SequenceJudge,
        args: TrainingArguments | None = None,
        *,
        compute_loss_func: Callable[..., Tensor] | None = None,
        callbacks: Sequence[TrainerCallback] = (),
        **options: Any,
    ) -> None:
        for name in ("compute_metrics", "model_init"):
            if options.pop(name, None) is not None:
                raise ConfigError(
                    f"JudgeTrainer takes no {name}: it trains the judge that it is given, and its "
                    "statistics are of that judge's dimensions",
                    hint="To change the statistics, override JudgeTrainer.statistics",
                )
        for name in ("train_dataset", "eval_dataset"):
            dataset = options.get(name)
            if dataset is not None and not len(dataset):
                raise ConfigError(f"{name} is empty", hint="Leave it out")
        self.judge = model
        # The loss is divided by the number of examples, below. Without this the Trainer passes that
        # number on to the model, and multiplies by accumulation and processes what ignores it.
        model.net.accepts_loss_kwargs = False
        self.loss = compute_loss_func or self.judge_loss
        options.setdefault("data_collator", self.collator())
        super().__init__(
            model=model.net,
            args=args,
            compute_loss_func=self.loss_of_targets,
            compute_metrics=self.statistics if self.measures else None,
            callbacks=[StopAtNonFiniteLoss(), *callbacks],
            **options,
        )
        if process_count() > 1 and self.parallel_strategy() == "single":
            raise ConfigError(
                f"{process_count()} processes were launched, and each would train alone",
                hint="Leave args.use_cpu out, and see configs/accelerate/cpu.yaml",
            )

    def loss_of_targets(
        self,
        outputs: Any,
        labels: Tensor,
        **options: Any,
    ) -> Tensor:
        """Returns the loss of a batch, from ``compute_loss_func`` if it is given, otherwise from
        ``judge_loss``.

        Args:
            outputs: The outputs of the network, with ``logits``.
            labels: [B, columns] the column ``labels`` of the dataset. Only the targets in it enter
                the loss.
            options: Further arguments of the loss function.
        """
        return self.loss(outputs, self.targets_of(labels), **options)

    def targets_of(self, labels: Tensor) -> Tensor:
        """Returns the part of ``labels`` that enters the loss, [B, targets].

        Args:
            labels: [B, columns] the targets of all heads, then the number of the data source and
                people's ratings, which are only for statistics.
        """
        return labels[:, : sum(head.targets for head in self.judge.heads)]

    def collator(self) -> Any:
        """Returns the function that makes a batch of tensors out of rows of the dataset."""
        return JudgeCollator(self.judge.pad_id)

    def judge_loss(
        self,
        outputs: Any,
        labels: Tensor,
        num_items_in_batch: Any = None,
    ) -> Tensor:
        """Returns the summed loss of a batch, divided by the number of examples in the step.

        Args:
            outputs: The outputs of the network, with ``logits`` [B, outputs].
            labels: [B, targets] targets.
            num_items_in_batch: The number of examples in the step. None means the B of this batch.
        """
        total = self.row_losses(outputs.logits, labels).sum()
        if num_items_in_batch is None:
            num_items_in_batch = len(labels)
        loss: Tensor = total / num_items_in_batch
        return loss

    def row_losses(
        self,
        logits: Tensor,
        targets: Tensor,
    ) -> Tensor:
        """Returns the loss of each row, [B].

        Args:
            logits: [B, outputs] outputs of all heads.
            targets: [B, targets] targets of all heads, NaN if missing.
        """
        return self.judge.losses(logits, targets)

    def _get_num_items_in_batch(
        self,
        batch_samples: list[Any],
        device: torch.device,
    ) -> Any:
        # The Trainer counts labels, of which an example can have many; here an example is an item.
        items = []
        for batch in batch_samples:
            numbers = torch.zeros_like(batch["labels"][:, :1])
            items.append({"labels": numbers, "shift_labels": numbers})
        return super()._get_num_items_in_batch(items, device)

    def _init_training_state(
        self,
        *args: Any,
        **options: Any,
    ) -> Any:
        state = super()._init_training_state(*args, **options)
        # Of a resumed run that early stopping had ended: the Trainer would take further steps.
        self.has_stopped = self.control.should_training_stop
        return state

    def _run_epoch(
        self,
        *args: Any,
        **options: Any,
    ) -> None:
        if self.has_stopped:
            self.control.should_training_stop = True
            return
        super()._run_epoch(*args, **options)  # type: ignore[no-untyped-call]

    # -- statistics and calibration ----------------------------------------------------------------

    def statistics(
        self, predicted: EvalPrediction | PredictionOutput
    ) -> dict[str, float]:
        """Returns how well the judge agrees with people on evaluated rows.

        Args:
            predicted: The logits and labels of the rows, from the Trainer.

        Returns:
            Statistic -> value: ``spearman/DIMENSION`` (or ``auc/DIMENSION`` for a binary head), and
                the means over dimensions, ``spearman`` and ``auc``.
        """
        statistics: dict[str, float] = {}
        units = self.outputs_by_dimension(predicted)
        # The last columns are the number of the source and the rating in each dimension.
        table = np.asarray(predicted.label_ids)[:, -len(self.judge.heads) - 1 :]
        for head, human in zip(self.judge.heads, table.T[1:], strict=True):
            name = head.dimension.name
            scores = head.scores(units[name], 1.0).numpy()
            is_binary = head.config.kind == "binary"
            statistics |= agreement(name, human, scores, table[:, 0], is_binary)
        return with_means(statistics)

    def check_metric(self) -> None:
        """Raises ConfigError if ``metric_for_best_model`` names a metric that validation does not
        compute."""
        metric = self.args.metric_for_best_model
        names = {"loss"}
        for head in self.judge.heads if self.measures else ():
            kind = "auc" if head.config.kind == "binary" else "spearman"
            names |= {kind, f"{kind}/{head.dimension.name}"}
        if metric is not None and metric.removeprefix("eval_") not in names:
            raise ConfigError(
                f"args.metric_for_best_model: this run has no {metric!r}",
                hint=f"Use one of: {', '.join(sorted(names))}",
            )

    def step_of_weights(self) -> int:
        """Returns the training step whose weights the trained judge has. It is the best validated
        step with ``load_best_model_at_end``, otherwise the last step."""
        state = self.state
        if self.args.load_best_model_at_end and state.best_model_checkpoint:
            return int(Path(state.best_model_checkpoint).name.rpartition("-")[2])
        return state.global_step

    def outputs_by_dimension(
        self, predicted: EvalPrediction | PredictionOutput
    ) -> dict[str, Tensor]:
        """Returns dimension -> the logits [n, outputs] of its head for n rows. The outputs of a
        regression head are scores near [0, 1].

        Args:
            predicted: The predictions of the Trainer for these rows.
        """
        return self.judge.outputs_by_dimension(
            torch.from_numpy(np.asarray(predicted.predictions))
        )

    def calibrate(
        self,
        dataset: Dataset,
        method: str,
    ) -> None:
        """Fits the judge's calibration on the rows of ``dataset``, and stores it in the judge.
        Every process must call this method.

        Args:
            method: ``temperature`` fits the softmax temperature of classifiers. ``isotonic`` also
                fits a monotone map of the scores. ``none`` fits nothing.
        """
        predicted = self.predict(dataset, metric_key_prefix="final")
        units, column = self.outputs_by_dimension(predicted), 0
        self.judge.calibration = {}
        for head in self.judge.heads:
            name, end = head.dimension.name, column + head.targets
            targets = np.asarray(predicted.label_ids)[:, column:end]
            fitted = fit_calibration(head, targets, units[name].numpy(), method)
            if fitted is not None:
                self.judge.calibration[name] = fitted
            column = end

    # -- the judge at the end ----------------------------------------------------------------------

    def parallel_strategy(self) -> str:
        """Returns how processes share the work: ``single`` (one process), ``ddp``, ``zero2``,
        ``zero3`` or ``fsdp``."""
        plugin = self.accelerator.state.deepspeed_plugin
        if plugin is not None:
            return f"zero{plugin.zero_stage}"
        kind = str(self.accelerator.distributed_type.value).lower()
        if kind == "no":
            return "single"
        return "ddp" if kind.startswith("multi") else kind

    def trained_judge(self) -> SequenceJudge:
        """Returns the trained judge with all of its weights. Every process must call this method.
        Only the main process may use the result."""
        is_sharded = self.parallel_strategy() not in ("single", "ddp")
        if is_sharded:
            state = self.accelerator.get_state_dict(self.model_wrapped)
            if not self.is_world_process_zero():
                return self.judge
            # The other processes go on: none would take its part of this network.
            with unsharded_load():
                network = self.judge.network_with_weights(state)
        else:
            # Without the wrapper the network does not compute in autocast any more.
            wrapped = self.model_wrapped
            network = self.accelerator.unwrap_model(wrapped, keep_fp32_wrapper=False)
            if self.args.gradient_checkpointing:
                network.gradient_checkpointing_disable()
        in_bf16 = self.args.bf16 and is_large(network)
        if not is_sharded and is_unquantised_and_not_32bit(network) and not in_bf16:
            # It scores in fp32, and the base was rounded.
            network = self.judge.network_with_weights(copy_trainable_weights(network))
        dtype = "bf16" if in_bf16 else "fp32"
        return self.judge.replace_network(network, dtype)


@contextmanager
def unsharded_load() -> Iterator[None]:
    """Makes models load with all of their weights until the context ends. Under ZeRO-3,
    transformers would load only a shard on each process."""
    from transformers.integrations import deepspeed as integration

    config = integration._hf_deepspeed_config_weak_ref
    integration.unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        integration._hf_deepspeed_config_weak_ref = config


LARGE = 1_000_000_000  # parameters: in fp32 a CPU takes minutes for a dialogue


def is_large(network: torch.nn.Module) -> bool:
    """Returns whether ``network`` has a billion parameters or more."""
    return sum(parameter.numel() for parameter in network.parameters()) >= LARGE


def is_unquantised_and_not_32bit(network: torch.nn.Module) -> bool:
    """Returns whether ``network`` has weights of another type than float32 and is not quantised."""
    parameters = list(network.parameters())
    quantised = not all(parameter.is_floating_point() for parameter in parameters)
    return not quantised and any(weight.dtype != torch.float32 for weight in parameters)


def copy_trainable_weights(network: torch.nn.Module) -> dict[str, Tensor]:
    """Returns tensor name -> a copy on the CPU, for each weight of ``network`` that training
    changes."""
    weights = {}
    for name, parameter in network.named_parameters():
        if parameter.requires_grad:
            weights[name] = parameter.detach().cpu().clone()
    return weights


class StopAtNonFiniteLoss(TrainerCallback):
    """A callback that stops a run with an error if its loss is not finite."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Raises MedalError if a loss in ``logs`` is not finite. ``args``, ``state`` and
        ``control`` come from the Trainer."""
        for name in ("loss", "eval_loss"):
            value = (logs or {}).get(name)
            if value is not None and not math.isfinite(float(value)):
                raise MedalError(
                    f"{name} is {value} at step {state.global_step}: the run stopped",
                    hint="Lower args.learning_rate, or leave args.bf16 and args.fp16 out. The last "
                    f"checkpoint is in {args.output_dir}",
                )
