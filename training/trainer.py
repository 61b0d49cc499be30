"""transformers' Trainer for judges.

JudgeTrainer adds what is about judges: the loss of their heads, the figures of validation rows,
calibration, and the judge at the end. Everything else is the Trainer's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import SequentialSampler
from transformers import Trainer, TrainerCallback

from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.base.golden import LARGE
from medal_judges.models.batching import pad_rows
from medal_judges.training.arguments import launched_processes
from medal_judges.training.calibration import fit_calibrations
from medal_judges.training.validation import validation_figures

if TYPE_CHECKING:
    from datasets import Dataset
    from transformers import TrainerControl, TrainerState, TrainingArguments
    from transformers.trainer_utils import EvalPrediction, PredictionOutput

    from medal_judges.models.base.sequence import SequenceJudge
    from medal_judges.training.rows import TrainingExample


class EvaluationRow(NamedTuple):
    """A row of a validation set: its source, and the mean rating of people by dimension."""

    source: str
    human: dict[str, float]


# -- data ------------------------------------------------------------------------------------------


def judge_dataset(
    judge: SequenceJudge, examples: Sequence[TrainingExample], cache: Path | None = None
) -> Dataset:
    """Returns the examples as a dataset of the ``judge``: token ids, labels and what figures need.

    ``labels`` are the weight of the example and then the targets of all heads side by side (NaN: no
    label); ``number`` counts the examples, and ``dropped`` and ``cut`` are the turns that do not
    fit. Tokens are cached in the file ``cache``.
    """
    from datasets import Dataset

    weights = np.array([example.weight for example in examples], dtype=float)
    # Of mean 1, so that the learning rate does not depend on the unit of the weights.
    weights = weights * len(weights) / weights.sum()
    names = [head.dimension.name for head in judge.heads]
    records: dict[str, list[Any]] = {"id": [], "source": [], "human": [], "labels": []}
    for example, weight in zip(examples, weights, strict=True):
        records["id"].append(example.dialogue.id)
        records["source"].append(example.source)
        records["human"].append([example.human.get(name, math.nan) for name in names])
        records["labels"].append([float(weight), *example_targets(judge, example)])
    dialogues = [example.dialogue for example in examples]

    def tokenised(batch: Mapping[str, list[int]]) -> dict[str, list[Any]]:
        rendered = judge.render([dialogues[number] for number in batch["number"]])
        ids = [text.ids for text in rendered]
        return {
            "input_ids": ids,
            "length": [len(row) for row in ids],
            "dropped": [text.dropped for text in rendered],
            "cut": [text.cut for text in rendered],
        }

    dataset = Dataset.from_dict({**records, "number": list(range(len(dialogues)))})
    return dataset.map(
        tokenised,
        batched=True,
        cache_file_name=None if cache is None else str(cache),
        new_fingerprint=None if cache is None else cache.stem,
        load_from_cache_file=cache is not None,
    )


def beyond_window(
    dataset: Dataset, examples: Sequence[TrainingExample], dimensions: Collection[str]
) -> dict[str, int]:
    """Returns how many of the ``examples`` in a ``dataset`` of a judge lost text to its window, of
    how many turns all or a part, and how many with a label of ``dimensions`` have no row."""
    turns = zip(dataset["dropped"], dataset["cut"], strict=True)
    lost = dict(zip(dataset["number"], turns, strict=True))
    names = set(dimensions)
    labelled = {number for number, row in enumerate(examples) if names & row.targets.keys()}
    return {
        "rows": sum(dropped + cut > 0 for dropped, cut in lost.values()),
        "truncated_turns": sum(dropped for dropped, _ in lost.values()),
        "cut_turns": sum(cut for _, cut in lost.values()),
        "unread_rows": len(labelled - lost.keys()),
    }


def example_targets(judge: SequenceJudge, example: TrainingExample) -> list[float]:
    """Returns the targets of all heads for one example, NaN for a missing label."""
    targets: list[float] = []
    for head in judge.heads:
        target = example.targets.get(head.dimension.name)
        if target is None:
            targets += [math.nan] * head.targets
        else:
            targets += np.atleast_1d(np.asarray(target, dtype=float)).tolist()
    return targets


class JudgeCollator:
    """Pads token ids and stacks labels."""

    def __init__(self, pad: int) -> None:
        self.pad = pad

    def __call__(self, rows: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
        ids, mask = pad_rows([row["input_ids"] for row in rows], self.pad)
        labels = torch.tensor([row["labels"] for row in rows], dtype=torch.float32)
        return {"input_ids": ids, "attention_mask": mask, "labels": labels}


# -- the trainer -----------------------------------------------------------------------------------


class JudgeTrainer(Trainer):
    """Trains the network of a judge (``model``) in place.

    Arguments are the Trainer's. Without ``compute_loss_func`` the loss is that of the judge's
    heads; one of your own is called with (outputs, labels, num_items_in_batch): ``labels``
    [B, 1 + targets] are the examples' weights and then their targets, ``num_items_in_batch`` is the
    number of examples of the whole step, by which a loss summed over rows is divided. So an example
    weighs the same in any cut of a step into batches and processes.
    """

    def __init__(
        self,
        model: SequenceJudge,
        args: TrainingArguments | None = None,
        data_collator: Any = None,
        train_dataset: Any = None,
        eval_dataset: Any = None,
        compute_loss_func: Callable[..., Tensor] | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[Any, Any] = (None, None),
        **options: Any,
    ) -> None:
        self.judge = model
        # The loss is divided by the number of examples, below. Without this the Trainer passes that
        # number on to the model, and multiplies by accumulation and processes what ignores it.
        model.net.accepts_loss_kwargs = False
        super().__init__(
            model=model.net,
            args=args,
            data_collator=data_collator or self.collator(),
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            compute_loss_func=compute_loss_func or self.judge_loss,
            compute_metrics=self.figures if self.measures() else None,
            callbacks=[StopAtNaN(), *(callbacks or [])],
            optimizers=optimizers,
            **options,
        )
        if launched_processes() > 1 and self.strategy() == "single":
            raise ConfigError(
                f"{launched_processes()} processes were launched, and each would train alone",
                hint="leave args.use_cpu out, and see configs/accelerate/cpu.yaml",
            )

    def collator(self) -> Any:
        """Returns what makes a batch of the rows of the judge's datasets."""
        return JudgeCollator(self.judge.pad)

    def measures(self) -> bool:
        """Returns whether validation has figures beside the loss."""
        return True

    def judge_loss(self, outputs: Any, labels: Tensor, num_items_in_batch: Any = None) -> Tensor:
        """Returns the weighted loss of the rows of a batch, their sum over the number of examples
        of the step."""
        losses = self.judge.losses(outputs.logits, labels[:, 1:])
        total = (losses * labels[:, 0]).sum()
        return total / (len(labels) if num_items_in_batch is None else num_items_in_batch)

    def _get_num_items_in_batch(self, batch_samples: list[Any], device: torch.device) -> Any:
        # The Trainer counts labels, of which an example can have many; here an example is an item.
        weights = [batch["labels"][:, :1] for batch in batch_samples]
        items = [{"labels": weight, "shift_labels": weight} for weight in weights]
        return super()._get_num_items_in_batch(items, device)

    def _get_eval_sampler(self, eval_dataset: Any) -> Any:
        # Grouped by length, the Trainer shuffles validation rows too, and their figures by source
        # would compare one row's score with another's label.
        return SequentialSampler(eval_dataset)

    # -- figures and calibration -------------------------------------------------------------------

    def figures(self, predicted: EvalPrediction | PredictionOutput) -> dict[str, float]:
        """Returns the figures of the eval_dataset by the predicted logits of its rows."""
        units = self.unit_logits(predicted)
        scores = {
            head.dimension.name: head.scores(units[head.dimension.name], 1.0).numpy()
            for head in self.judge.heads
        }
        return validation_figures(self.evaluation_rows(), scores, self.binary())

    def unit_logits(self, predicted: EvalPrediction | PredictionOutput) -> dict[str, Tensor]:
        """Returns the logits [n, outputs] of each dimension, those of a regression on [0, 1]."""
        return self.judge.unit_logits(torch.from_numpy(np.asarray(predicted.predictions)))

    def binary(self) -> set[str]:
        """Returns the dimensions whose figure is an AUC."""
        return {h.dimension.name for h in self.judge.heads if h.config.kind == "binary"}

    def evaluation_rows(self) -> list[EvaluationRow]:
        """Returns sources and ratings of the eval_dataset."""
        names = [head.dimension.name for head in self.judge.heads]
        dataset: Any = self.eval_dataset
        rows = []
        for source, ratings in zip(dataset["source"], dataset["human"], strict=True):
            human = dict(zip(names, ratings, strict=True))
            rows.append(EvaluationRow(source, {k: v for k, v in human.items() if v == v}))
        return rows

    def calibrate(
        self, examples: Sequence[TrainingExample], method: str
    ) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """Fits the judge's calibration on ``examples``, whose dataset is the eval_dataset.

        Returns the figures and the logits by dimension. Every process must call it.
        """
        dataset: Any = self.eval_dataset
        predicted = self.predict(dataset, metric_key_prefix="final")
        heads = {head.dimension.name: head for head in self.judge.heads}
        units = {name: logits.numpy() for name, logits in self.unit_logits(predicted).items()}
        self.judge.calibration = fit_calibrations(examples, units, heads, method)
        metrics = predicted.metrics or {}
        return {"loss": float(metrics["final_loss"]), **self.figures(predicted)}, units

    # -- the judge at the end ----------------------------------------------------------------------

    def strategy(self) -> str:
        """Returns how the processes share the work: ``single``, ``ddp``, ``zero2``, ``fsdp``."""
        plugin = self.accelerator.state.deepspeed_plugin
        if plugin is not None:
            return f"zero{plugin.zero_stage}"
        kind = str(self.accelerator.distributed_type.value).lower()
        if kind == "no":
            return "single"
        return "ddp" if kind.startswith("multi") else kind

    def finished_judge(self) -> SequenceJudge:
        """Returns the trained judge with whole weights, outside of any process group. Every process
        must call it; only the main one may use the result."""
        if self.strategy() in ("single", "ddp"):
            # Without the wrapper the network does not compute in autocast any more.
            wrapped = self.model_wrapped
            network: Any = self.accelerator.unwrap_model(wrapped, keep_fp32_wrapper=False)
            if self.args.gradient_checkpointing:
                network.gradient_checkpointing_disable()
            in_bf16 = self.args.bf16 and is_large(network)
            if is_narrow(network) and not in_bf16:  # it scores in fp32, and the base was rounded
                network = self.judge.network_with(learned_weights(network))
        else:
            state = self.accelerator.get_state_dict(self.model_wrapped)
            if not self.is_world_process_zero():
                return self.judge
            # The other processes go on: none would take its part of this network.
            with whole_weights():
                network = self.judge.network_with(state)
            in_bf16 = self.args.bf16 and is_large(network)
        return self.judge.with_network(network, "bf16" if in_bf16 else "fp32")


@contextmanager
def whole_weights() -> Iterator[None]:
    """Loads models whole on every process: with a ZeRO-3 plugin transformers partitions them, and
    a new head is drawn whole."""
    from transformers.integrations import deepspeed as integration

    config = integration._hf_deepspeed_config_weak_ref
    integration.unset_hf_deepspeed_config()  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        integration._hf_deepspeed_config_weak_ref = config


def is_large(network: torch.nn.Module) -> bool:
    """Returns whether fp32 on a CPU would take minutes a dialogue."""
    return sum(parameter.numel() for parameter in network.parameters()) >= LARGE


def is_narrow(network: torch.nn.Module) -> bool:
    """Returns whether weights that are not quantised are in 16 bits."""
    parameters = list(network.parameters())
    quantised = not all(parameter.is_floating_point() for parameter in parameters)
    return not quantised and any(p.dtype != torch.float32 for p in parameters)


def learned_weights(network: torch.nn.Module) -> dict[str, Tensor]:
    """Returns copies of the weights that training changed."""
    learned = [(name, p) for name, p in network.named_parameters() if p.requires_grad]
    return {name: parameter.detach().cpu().clone() for name, parameter in learned}


class StopAtNaN(TrainerCallback):
    """Stops a run whose loss is not a number, before useless weights replace a checkpoint."""

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Raises MedalError for a loss that is not finite."""
        for name in ("loss", "eval_loss"):
            value = (logs or {}).get(name)
            if value is not None and not math.isfinite(float(value)):
                raise MedalError(
                    f"{name} is {value} at step {state.global_step}: the run stopped",
                    hint="lower args.learning_rate, or leave out args.bf16 and args.fp16; its last "
                    f"checkpoint is in {args.output_dir}",
                )
