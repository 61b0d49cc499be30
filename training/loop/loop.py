"""The training loop, on Accelerate.

Not the Hugging Face Trainer: batches here are dialogues of many turns, cut by tokens, with each
distinct turn encoded once, and a resumed run must end with the same weights to 1e-5. Both are a
page of code with Accelerate and a dozen overridden methods with the Trainer; launchers, mixed
precision, DDP and DeepSpeed are the same. The losses here also do not need the Trainer's scaling by
accumulation and number of processes.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import load_file, save_file

from medal_judges.errors import MedalError
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.training.config import OptimConfig, TrainConfig
from medal_judges.training.loop.accelerator import (
    chosen_precision,
    leave_deepspeed,
    log_figures,
    set_leaves,
    strategy,
    uses_deepspeed,
    whole_state,
    write_state,
)
from medal_judges.training.loop.body import (
    build_optimizer,
    build_schedule,
    move_schedule,
    reset_body,
    set_body,
)
from medal_judges.training.loop.checkpoint import (
    RunProgress,
    RunShape,
    checkpoints,
    clear_checkpoints,
    load_checkpoint,
    save_checkpoint,
    save_only_trained,
)
from medal_judges.training.loop.task import Objective, TrainingData, TrainingTask
from medal_judges.training.validation import validation_figures, watched

if TYPE_CHECKING:
    from accelerate import Accelerator

_POOL = 50  # batches that are sorted together: near-equal lengths, yet a shuffled order


class TrainingLoop:
    """Trains the net of ``task`` in place; ``run`` leaves the best (or last) weights in it.

    ``run_hash`` identifies the settings and data that a checkpoint belongs to.
    """

    def __init__(
        self, config: TrainConfig, task: TrainingTask, run_hash: str, accelerator: Accelerator
    ) -> None:
        self.config, self.task, self.accelerator = config, task, accelerator
        self.train, self.validation = task.train, task.validation
        self.folder = Path(config.output_dir) / "checkpoints"
        self.precision = chosen_precision(config)
        optim, processes = config.optim, accelerator.num_processes
        self.shape = RunShape(
            run_hash,
            optim.batch_size,
            optim.gradient_accumulation * processes,
            processes,
            strategy(accelerator),
        )
        kinds = {name: head.config.kind for name, head in task.heads.items()}
        self.binary = {name for name, kind in kinds.items() if kind == "binary"}
        by_level = [n for n, kind in kinds.items() if kind in ("ordinal", "classification")]
        self.levels = {name: task.heads[name].levels for name in by_level}
        if optim.solver == "gradient" and self.validation.examples:
            # A wrong name is reported now, not after an epoch: rising scores have every figure.
            rising = np.arange(len(self.validation.examples), dtype=float)
            scores = dict.fromkeys(kinds, rising)
            possible = validation_figures(self.validation.examples, scores, self.binary)
            watched({"loss": 0.0} | possible, config.stop.metric)
        self.losses: list[float] = []  # since the last line of the trackers
        self.facts = set_body(task.body, config, accelerator, self.precision)

        batches = epoch_batches(self.train.lengths, optim, seed=config.seed, epoch=0)
        self.steps_per_epoch = math.ceil(len(batches) / self.shape.batches)
        self.steps = max(1, round(optim.epochs * self.steps_per_epoch))
        set_leaves(task.objective, accelerator)
        optimizer = build_optimizer(task.objective, task.body, optim)
        self.model, self.optimizer = accelerator.prepare(task.objective, optimizer)
        self.objective: Objective = accelerator.unwrap_model(self.model)
        inner = self.optimizer
        while hasattr(inner, "optimizer"):  # Accelerate's and DeepSpeed's wrappers
            inner = inner.optimizer
        self.schedule = build_schedule(inner, optim, self.steps)
        save_only_trained(accelerator, self._trained)

    def _trained(self, state: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The entries of the objective's state that training changes."""
        prefix = "net."
        net = {k.removeprefix(prefix): v for k, v in state.items() if k.startswith(prefix)}
        changed = {prefix + name for name in self.task.trained(net)}
        return {k: v for k, v in state.items() if not k.startswith(prefix) or k in changed}

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
        visible = self.accelerator.is_main_process
        with ProgressBar(
            "training", self.steps, unit="steps", done=progress.step, visible=visible
        ) as bar:
            while progress.step < self.steps and not progress.stopped:
                self._epoch(progress, bar)
        # The best weights; the file has only those that training changes.
        self.accelerator.wait_for_everyone()
        net = self.objective.net
        if self.config.stop.keep == "best" and progress.best is not None:
            state = load_file(self.folder / "best.safetensors")
            names = self.task.trained(net.state_dict())
            if wrong := sorted(set(names) ^ set(state)):
                raise MedalError(f"the best weights do not fit: {wrong}")
            write_state(net, state, names)
        net.eval()
        return progress

    def _epoch(self, progress: RunProgress, bar: ProgressBar) -> None:
        """From the step of ``progress`` to the end of its epoch."""
        epoch, done = divmod(progress.step, self.steps_per_epoch)
        config, accelerator, share = self.config, self.accelerator, self.shape.batches
        batches = epoch_batches(
            self.train.lengths,
            config.optim,
            seed=config.seed,
            epoch=epoch,
            count=self.steps_per_epoch * share,
        )
        shown = math.nan
        self.model.train()
        for start in range(done * share, len(batches), share):
            numbers = range(start + accelerator.process_index, start + share)
            mine = numbers[:: accelerator.num_processes]
            loss = self._step([batches[n] for n in mine], [(epoch, n) for n in mine])
            progress.step += 1
            self._require_finite(loss, f"loss of step {progress.step}")
            shown = loss if math.isnan(shown) else 0.95 * shown + 0.05 * loss
            bar.advance(note=f"loss {shown:.4f}")
            self.losses.append(loss)
            if progress.step % config.log_steps == 0 or progress.step == self.steps:
                rate = float(self.schedule.get_last_lr()[-1])
                logged = {"train/loss": sum(self.losses) / len(self.losses), "train/lr": rate}
                accelerator.log(logged, step=progress.step)
                self.losses.clear()
            every = config.checkpoint_steps or self.steps_per_epoch
            if progress.step % every == 0 or progress.step == self.steps:
                self._validate_and_save(progress, bar)
            if progress.step >= self.steps or progress.stopped:
                return

    def _step(
        self, batches: Sequence[Sequence[int]], numbers: Sequence[tuple[int, int]] | None = None
    ) -> float:
        """One optimiser step over ``batches``; returns the mean loss.

        ``numbers``: epoch and number of each batch. They seed its dropout, so that a batch is the
        same on any process and after a resume.
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
        return float(torch.stack(losses).mean())  # read once a step: it waits for the GPU

    def _arguments(self, data: TrainingData, rows: Sequence[int]) -> Any:
        """The arguments of the objective's ``forward`` for the examples ``rows``, on the device."""
        from accelerate.utils import send_to_device

        sources = [self.objective.sources.get(data.examples[r].source, 0) for r in rows]
        arguments = (
            data.inputs(rows),
            data.targets(rows, self.levels, self.objective.dimensions),
            torch.tensor(sources),
            torch.tensor([data.weights[r] for r in rows]),
        )
        return send_to_device(arguments, self.accelerator.device)

    def _validate_and_save(self, progress: RunProgress, bar: ProgressBar) -> None:
        """Validate, save the best weights and a checkpoint; stop if no validation has been better
        for ``patience`` of them."""
        stop = self.config.stop
        if self.validation.examples:
            figures, _ = self.validate()
            self._require_finite(figures["loss"], f"validation loss at step {progress.step}")
            rate = self.schedule.get_last_lr()[-1]
            progress.history.append({"step": progress.step, "lr": rate} | figures)
            # The means over dimensions first.
            ordered = sorted(figures.items(), key=lambda pair: "/" in pair[0])
            shown = "  ".join(f"{name} {value:.4f}" for name, value in ordered[:4])
            bar.console.print(f"step {progress.step}: {shown}", highlight=False)
            log_figures(self.accelerator, "validation", figures, progress.step)
            value, sign = watched(figures, stop.metric), -1 if stop.metric == "loss" else 1
            if progress.best is None or sign * value > sign * progress.best:
                progress.best, progress.best_step, progress.waited = value, progress.step, 0
                if stop.keep == "best":
                    net, main = self.objective.net, self.accelerator.is_main_process
                    state = whole_state(net, self.task.trained(net.state_dict()), main)
                    if main:
                        with atomic_path(self.folder / "best.safetensors") as path:
                            save_file(state, path)
            else:
                progress.waited += 1
                progress.stopped = stop.patience is not None and progress.waited >= stop.patience
        save_checkpoint(self.folder, progress, self.accelerator, self.shape)
        if self.accelerator.is_main_process:
            lines = "".join(json.dumps(entry) + "\n" for entry in progress.history)
            atomic_write(self.folder.parent / "history.jsonl", lines)
        self.model.train()

    def _require_finite(self, loss: float, what: str) -> None:
        """Raise MedalError before useless weights replace a checkpoint."""
        if math.isfinite(loss):
            return
        saved = checkpoints(self.folder)
        raise MedalError(
            f"the {what} is {loss}: the run stopped, "
            + (f"its last checkpoint is {saved[-1]}" if saved else "before a checkpoint"),
            hint="lower optim.lr or optim.body_lr, or set optim.mixed_precision: no",
        )

    def release(self) -> None:
        """Make the judge's net a plain module again, whole on the main process. All call it."""
        if uses_deepspeed(self.accelerator):
            leave_deepspeed(self.model, self.objective.net, self.accelerator.is_main_process)
        reset_body(self.task.body, self.config)

    def validate(self) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """(figures, logits per dimension) of the validation rows, the same on every process."""
        logits, loss = self.predict(self.validation)
        heads = self.task.heads
        scores = {k: heads[k].scores(torch.from_numpy(z), 1.0).numpy() for k, z in logits.items()}
        figures = validation_figures(self.validation.examples, scores, self.binary)
        return {"loss": loss} | figures, logits

    @torch.no_grad()
    def predict(self, data: TrainingData) -> tuple[dict[str, np.ndarray], float]:
        """Logits [n, outputs] per dimension (mean over members) and the mean loss, in row order.

        The processes share the batches and take the same number of passes through the wrapped
        model: nothing else gathers ZeRO-3's weights.
        """
        from accelerate.utils import gather_object

        self.model.eval()
        count, objective = self.accelerator.num_processes, self.objective
        order = sorted(range(len(data.lengths)), key=lambda row: data.lengths[row])
        batches = _cut(order, data.lengths, self.config.optim)
        # A multiple of the processes: the first batches come again.
        batches += [batches[i % len(batches)] for i in range(-len(batches) % count)]
        predicted = []
        for rows in batches[self.accelerator.process_index :: count]:
            loss, members = self.model(*self._arguments(data, rows))
            logits = [
                objective.net.combine(members, name).float().cpu().numpy()
                for name in objective.dimensions
            ]
            predicted.append((rows, np.full(len(rows), float(loss)), *logits))
        columns = [np.concatenate(c) for c in zip(*gather_object(predicted), strict=True)]
        _, first = np.unique(columns[0], return_index=True)  # a repeated row counts once
        losses, *by_name = (column[first] for column in columns[1:])
        return dict(zip(objective.dimensions, by_name, strict=True)), float(losses.mean())


def epoch_batches(
    lengths: Sequence[int], optim: OptimConfig, *, seed: int, epoch: int, count: int | None = None
) -> list[list[int]]:
    """Row numbers of each batch of one epoch, shuffled, the same on every process.

    With ``length_grouped`` rows are shuffled, sorted by length within pools, cut by ``batch_size``
    and ``batch_tokens``, and the batches shuffled again. ``count`` repeats the first batches or
    leaves out the last, so that every epoch and process has the same number of steps.
    """
    generator = np.random.default_rng([seed, epoch])
    order = generator.permutation(len(lengths))
    size = optim.batch_size * _POOL if optim.length_grouped else len(lengths)
    batches: list[list[int]] = []
    for start in range(0, len(order), size):
        pool = order[start : start + size].tolist()
        if optim.length_grouped:
            pool.sort(key=lambda row: lengths[row])
        batches += _cut(pool, lengths, optim)
    batches = [batches[i] for i in generator.permutation(len(batches))]
    return [batches[i % len(batches)] for i in range(count or len(batches))]


def _cut(pool: Sequence[int], lengths: Sequence[int], optim: OptimConfig) -> list[list[int]]:
    batches: list[list[int]] = [[]]
    longest = 0
    for row in pool:
        longest = max(longest, lengths[row])
        full = len(batches[-1]) == optim.batch_size
        if batches[-1] and (full or longest * (len(batches[-1]) + 1) > optim.batch_tokens):
            batches.append([])
            longest = lengths[row]
        batches[-1].append(row)
    return batches
