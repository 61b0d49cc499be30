"""The training loop, on Accelerate.

Not the Hugging Face Trainer: batches here are dialogues of many turns, cut by tokens, with each
distinct turn encoded once, and a resumed run must end at the same weights to 1e-5. Both are a page
of code with Accelerate and a dozen overridden methods with the Trainer; launchers, mixed precision,
DDP and DeepSpeed are the same.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from medal_judges.errors import MedalError
from medal_judges.report.progress import ProgressBar
from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.batches import (
    PredictedBatch,
    epoch_batches,
    in_row_order,
    prediction_batches,
)
from medal_judges.training.loop.body_settings import reset_body, set_body
from medal_judges.training.loop.checkpoint import (
    RunProgress,
    RunShape,
    checkpoints,
    clear_checkpoints,
    load_checkpoint,
    save_checkpoint,
    save_only_trained,
)
from medal_judges.training.loop.distributed import (
    chosen_precision,
    innermost,
    leave_deepspeed,
    set_leaves,
    strategy,
    uses_deepspeed,
    whole_state,
    write_state,
)
from medal_judges.training.loop.optimizer import build_optimizer, build_schedule, move_schedule
from medal_judges.training.loop.task import InputsT, Objective, TrainingData, TrainingTask
from medal_judges.training.loop.trackers import LossTracker, log_figures
from medal_judges.training.loop.validation import possible_figures, validation_figures, watched

if TYPE_CHECKING:
    from accelerate import Accelerator


class TrainingBar(ProgressBar):
    """The run's progress on standard error: steps, a running mean of the loss, the newest figures
    of validation. Silent on all processes but the main one."""

    def __init__(self, steps: int, done: int, visible: bool) -> None:
        super().__init__("training", steps, unit="steps", done=done, visible=visible)
        self.loss = math.nan

    def step_done(self, loss: float) -> None:
        """Count a step with this loss."""
        self.loss = loss if math.isnan(self.loss) else 0.95 * self.loss + 0.05 * loss
        self.advance(note=f"loss {self.loss:.4f}")

    def show(self, step: int, figures: Mapping[str, float]) -> None:
        """Print the first four figures of a validation, the means over dimensions before others."""
        ordered = sorted(figures.items(), key=lambda pair: "/" in pair[0])
        text = "  ".join(f"{name} {value:.4f}" for name, value in ordered[:4])
        self.console.print(f"step {step}: {text}", highlight=False)


class TrainingLoop:
    """Trains the net of ``task`` in place; ``run`` leaves the best (or last) weights in it.

    ``run_hash`` names the settings and data that a checkpoint belongs to.
    """

    def __init__(
        self, config: TrainConfig, task: TrainingTask, run_hash: str, accelerator: Accelerator
    ) -> None:
        self.config, self.task, self.accelerator = config, task, accelerator
        self.train, self.validation = task.train, task.validation
        self.folder = Path(config.output_dir) / "checkpoints"
        self.precision = chosen_precision(config)
        self.shape = RunShape(
            run_hash,
            config.optim.batch_size,
            config.optim.gradient_accumulation * accelerator.num_processes,
            accelerator.num_processes,
            strategy(accelerator),
        )
        kinds = {name: head.config.kind for name, head in task.heads.items()}
        self.binary = {name for name, kind in kinds.items() if kind == "binary"}
        self.levels = {
            name: task.heads[name].levels
            for name, kind in kinds.items()
            if kind in ("ordinal", "classification")
        }
        if config.optim.solver == "gradient" and self.validation.examples:
            # A wrong name is reported now, not after an epoch.
            possible = possible_figures(self.validation.examples, list(kinds), self.binary)
            watched(possible, config.stop.metric)
        self.losses = LossTracker(accelerator, config.log_steps)
        self.facts = set_body(task.body, config, accelerator, self.precision)
        self._prepare()

    def _prepare(self) -> None:
        optim, objective = self.config.optim, self.task.objective
        batches = epoch_batches(self.train.lengths, optim, seed=self.config.seed, epoch=0)
        self.steps_per_epoch = math.ceil(len(batches) / self.shape.batches)
        self.steps = max(1, round(optim.epochs * self.steps_per_epoch))
        set_leaves(objective, self.accelerator)
        optimizer = build_optimizer(objective, self.task.body, optim)
        self.model, self.optimizer = self.accelerator.prepare(objective, optimizer)
        self.schedule = build_schedule(innermost(self.optimizer), optim, self.steps)
        save_only_trained(self.accelerator, self._trained)

    def _trained(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Of the objective's state what training changes."""
        prefix = "net."
        net = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        kept = {prefix + name for name in self.task.trained(net)}
        return {k: v for k, v in state.items() if not k.startswith(prefix) or k in kept}

    @property
    def objective(self) -> Objective[Any]:
        """The objective without its distributed wrapper."""
        objective: Objective[Any] = self.accelerator.unwrap_model(self.model)
        return objective

    def run(self, resume: bool) -> RunProgress:
        """Train to the end or to early stopping; returns its progress. Saves checkpoints."""
        progress = RunProgress()
        if self.task.solve():
            return progress
        if resume:
            progress = load_checkpoint(self.folder, self.accelerator, self.shape)
            move_schedule(self.schedule, progress.step)
        else:
            clear_checkpoints(self.folder, self.accelerator)
        with TrainingBar(self.steps, progress.step, self.accelerator.is_main_process) as bar:
            while progress.step < self.steps and not progress.stopped:
                self._epoch(progress, bar)
        self._restore_best(progress)
        return progress

    def _epoch(self, progress: RunProgress, bar: TrainingBar) -> None:
        """From the step of ``progress`` to the end of its epoch."""
        epoch, done = divmod(progress.step, self.steps_per_epoch)
        accelerator, share = self.accelerator, self.shape.batches
        batches = epoch_batches(
            self.train.lengths,
            self.config.optim,
            seed=self.config.seed,
            epoch=epoch,
            count=self.steps_per_epoch * share,
        )
        self.model.train()
        for start in range(done * share, len(batches), share):
            numbers = range(start + accelerator.process_index, start + share)
            mine = numbers[:: accelerator.num_processes]
            loss = self._step([batches[n] for n in mine], [(epoch, n) for n in mine])
            progress.step += 1
            self._require_finite(loss, f"loss of step {progress.step}")
            bar.step_done(loss)
            rate = float(self.schedule.get_last_lr()[-1])
            self.losses.add(progress.step, loss, rate, last=progress.step == self.steps)
            self._after_step(progress, bar)
            if progress.step >= self.steps or progress.stopped:
                return

    def _step(
        self, batches: Sequence[Sequence[int]], numbers: Sequence[tuple[int, int]] | None = None
    ) -> float:
        """One optimiser step over ``batches``; returns the mean loss.

        ``numbers``: epoch and number of each batch. Its dropout is drawn by them, so that a batch
        is the same whichever process has it, and after a resume.
        """
        losses = []
        for rows, number in zip(batches, numbers or [(0, 0)] * len(batches), strict=True):
            seed = np.random.SeedSequence([self.config.seed, *number])
            torch.manual_seed(int(seed.generate_state(1, np.uint64)[0]))
            with self.accelerator.accumulate(self.model):
                loss, _ = self.model(*self._arguments(self.train, rows))
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(
                        self.model.parameters(), self.config.optim.clip
                    )
                self.optimizer.step()
                self.optimizer.zero_grad()
            losses.append(loss.detach())
        self.schedule.step()
        return float(torch.stack(losses).mean())  # read once a step: a GPU is waited for

    def _arguments(self, data: TrainingData[InputsT], rows: Sequence[int]) -> tuple[Any, ...]:
        """What the objective's ``forward`` reads of the examples ``rows``, on the device."""
        device, objective = self.accelerator.device, self.objective
        targets = {
            name: (target.to(device), mask.to(device))
            for name, (target, mask) in data.targets(
                rows, self.levels, objective.dimensions
            ).items()
        }
        sources = [objective.sources.get(data.examples[r].source, 0) for r in rows]
        weights = [data.weights[r] for r in rows]
        return (
            data.inputs(rows).to(device),
            targets,
            torch.tensor(sources, device=device),
            torch.tensor(weights, device=device),
        )

    def _after_step(self, progress: RunProgress, bar: TrainingBar) -> None:
        """Validate and save where it is time to."""
        every = self.config.checkpoint_steps or self.steps_per_epoch
        if progress.step % every and progress.step != self.steps:
            return
        if self.validation.examples:
            figures, _ = self.validate()
            self._require_finite(figures["loss"], f"validation loss at step {progress.step}")
            rate = self.schedule.get_last_lr()[-1]
            progress.history.append({"step": progress.step, "lr": rate} | figures)
            bar.show(progress.step, figures)
            log_figures(self.accelerator, "validation", figures, progress.step)
            self._compare_with_best(progress, figures)
        save_checkpoint(self.folder, progress, self.accelerator, self.shape)
        if self.accelerator.is_main_process:
            lines = "".join(json.dumps(entry) + "\n" for entry in progress.history)
            atomic_write(self.folder.parent / "history.jsonl", lines)
        self.model.train()

    def _require_finite(self, loss: float, what: str) -> None:
        """Raise MedalError before weights that are lost can take the place of a checkpoint."""
        if math.isfinite(loss):
            return
        kept = checkpoints(self.folder)
        raise MedalError(
            f"the {what} is {loss}: the run stopped, "
            + (f"its last checkpoint is kept in {kept[-1]}" if kept else "before a checkpoint"),
            hint="lower optim.lr or optim.body_lr, or set optim.mixed_precision: no",
        )

    def _compare_with_best(self, progress: RunProgress, figures: Mapping[str, float]) -> None:
        """Keep the best weights; stop when nothing got better for ``patience`` validations."""
        stop = self.config.stop
        value, sign = watched(figures, stop.metric), 1 if stop.higher_is_better else -1
        if progress.best is None or sign * value > sign * progress.best:
            progress.best, progress.best_step, progress.waited = value, progress.step, 0
            self._save_best()
        else:
            progress.waited += 1
            progress.stopped = stop.patience is not None and progress.waited >= stop.patience

    def _save_best(self) -> None:
        from safetensors.torch import save_file

        if self.config.stop.keep != "best":
            return
        net, main = self.objective.net, self.accelerator.is_main_process
        state = whole_state(net, self.task.trained(net.state_dict()), main)
        if main:
            with atomic_path(self.folder / "best.safetensors") as path:
                save_file(state, path)

    def _restore_best(self, progress: RunProgress) -> None:
        """The best weights into the net; those that training leaves alone are not in the file."""
        from safetensors.torch import load_file

        self.accelerator.wait_for_everyone()
        net = self.objective.net
        if self.config.stop.keep == "best" and progress.best is not None:
            state = load_file(self.folder / "best.safetensors")
            names = self.task.trained(net.state_dict())
            if wrong := sorted(set(names) ^ set(state)):
                raise MedalError(f"the best weights do not fit: {wrong}")
            write_state(net, state, names)
        net.eval()

    def release(self) -> None:
        """Give the judge's net back as a plain module, whole on the main process. All call it."""
        if uses_deepspeed(self.accelerator):
            leave_deepspeed(self.model, self.objective.net, self.accelerator.is_main_process)
        reset_body(self.task.body, self.config)

    def validate(self) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """(figures, logits per dimension) of the validation rows by the weights as they are, on
        every process alike."""
        logits, loss = self.predict(self.validation)
        heads = self.task.heads
        scores = {k: heads[k].scores(torch.from_numpy(z), 1.0).numpy() for k, z in logits.items()}
        figures = validation_figures(self.validation.examples, scores, self.binary)
        return {"loss": loss} | figures, logits

    @torch.no_grad()
    def predict(self, data: TrainingData[InputsT]) -> tuple[dict[str, np.ndarray], float]:
        """Logits [n, outputs] per dimension (mean over members) and the mean loss, in row order.

        The processes share the batches, all with as many passes: nothing else gathers ZeRO-3's
        weights, so all go through the wrapped model.
        """
        from accelerate.utils import gather_object

        self.model.eval()
        count = self.accelerator.num_processes
        batches = prediction_batches(data.lengths, self.config.optim, count)
        objective, predicted = self.objective, []
        for rows in batches[self.accelerator.process_index :: count]:
            loss, members = self.model(*self._arguments(data, rows))
            logits = {
                name: objective.combine(members, name).float().cpu().numpy()
                for name in objective.dimensions
            }
            predicted.append(PredictedBatch(rows, float(loss), logits))
        return in_row_order(gather_object(predicted), objective.dimensions)
