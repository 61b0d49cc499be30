"""The training loop, on Accelerate.

Not the Hugging Face Trainer: batches here are dialogues of many turns, cut by tokens, with each
distinct turn encoded once, and a resumed run must end at the same weights to 1e-5. Both are a page
of code with Accelerate and a dozen overridden methods with the Trainer; launchers, mixed precision,
DDP and DeepSpeed are the same.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from medal_judges.errors import MedalError
from medal_judges.models.base.judge import Judge
from medal_judges.training.config import TrainConfig
from medal_judges.training.loop.accelerator import chosen_precision, make_accelerator
from medal_judges.training.loop.batches import epoch_batches, prediction_batches
from medal_judges.training.loop.body_settings import reset_body, set_body
from medal_judges.training.loop.checkpoint import (
    Progress,
    RunShape,
    checkpoints,
    clear_checkpoints,
    keep_what_learns,
    load_checkpoint,
    save_checkpoint,
)
from medal_judges.training.loop.distributed import (
    gathered_objects,
    innermost,
    leave_deepspeed,
    set_leaves,
    strategy,
    uses_deepspeed,
    whole_state,
    write_state,
)
from medal_judges.training.loop.objective import Data, Objective
from medal_judges.training.loop.optimizer import build_optimizer, build_schedule, move_schedule
from medal_judges.training.loop.predicted import Predicted, in_row_order
from medal_judges.training.loop.progress import TrainingBar
from medal_judges.training.loop.task import make_task
from medal_judges.training.loop.validation import possible_figures, validation_figures, watched
from medal_judges.training.rows.examples import Example

logger = logging.getLogger(__name__)


class TrainingLoop:
    """Trains ``judge.net`` in place; ``run`` leaves the best (or last) weights in it."""

    def __init__(
        self,
        config: TrainConfig,
        judge: Judge,
        train: Sequence[Example],
        validation: Sequence[Example],
        levels: Mapping[str, int],
        run_hash: str,
        accelerator: Any = None,
    ) -> None:
        self.config, self.levels = config, dict(levels)
        self.folder = Path(config.output_dir) / "checkpoints"
        self.accelerator = accelerator or make_accelerator(config)
        self.precision = chosen_precision(config)
        processes = self.accelerator.num_processes
        self.shape = RunShape(
            run_hash,
            config.optim.batch_size,
            config.optim.gradient_accumulation * processes,
            processes,
            strategy(self.accelerator),
        )
        self.task = make_task(config, judge, train, validation, self.accelerator.device)
        self.train, self.validation = self.task.train, self.task.validation
        if config.optim.solver == "gradient" and validation:
            # A wrong name is told now, not after an epoch.
            names = self.task.objective.dimensions
            watched(possible_figures(validation, names, self._binary), config.stop.metric)
        self.facts = set_body(self.task.body, config, self.accelerator, self.precision)
        self._build(self.task.objective)

    def _build(self, objective: Objective) -> None:
        optim = self.config.optim
        batches = epoch_batches(self.train.lengths, optim, seed=self.config.seed, epoch=0)
        self.steps_per_epoch = math.ceil(len(batches) / self.shape.batches)
        self.steps = max(1, round(optim.epochs * self.steps_per_epoch))
        set_leaves(objective, self.accelerator)
        optimizer = build_optimizer(objective, self.task.body, optim)
        self.model, self.optimizer = self.accelerator.prepare(objective, optimizer)
        self.schedule = build_schedule(innermost(self.optimizer), optim, self.steps)
        keep_what_learns(self.accelerator, self._kept)

    def _kept(self, state: Mapping[str, Any]) -> dict[str, Any]:
        """Of the objective's state what training changes."""
        inner = "net."
        net = self.task.kept({k[len(inner) :]: v for k, v in state.items() if k.startswith(inner)})
        return {k: v for k, v in state.items() if not k.startswith(inner) or k[len(inner) :] in net}

    @property
    def bare(self) -> Objective:
        """The objective without its distributed wrapper."""
        model: Objective = self.accelerator.unwrap_model(self.model)
        return model

    @property
    def _binary(self) -> set[str]:
        """Dimensions whose head answers yes or no."""
        return {n for n, h in self.task.heads.items() if h.config.kind == "binary"}

    def run(self, resume: bool) -> Progress:
        """Train to the end or to early stopping; returns where it stands. Saves checkpoints."""
        progress = Progress()
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

    def _epoch(self, progress: Progress, bar: TrainingBar) -> None:
        """From the step that ``progress`` stands at to the end of that epoch."""
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
            bar.advance(loss)
            self._after_step(progress, bar)
            if progress.step >= self.steps or progress.stopped:
                return

    def _step(
        self, batches: Sequence[Sequence[int]], places: Sequence[tuple[int, int]] | None = None
    ) -> float:
        """One optimiser step over ``batches``; returns the mean loss.

        ``places``: epoch and number of each. Its dropout is drawn by them, so that a batch is the
        same whichever process has it, and after whatever stop.
        """
        total = 0.0
        for rows, place in zip(batches, places or [(0, 0)] * len(batches), strict=True):
            torch.manual_seed(_seed_of(self.config.seed, *place))
            with self.accelerator.accumulate(self.model):
                loss, _ = self.model(*self._arguments(self.train, rows))
                self.accelerator.backward(loss)
                if self.accelerator.sync_gradients:
                    self.accelerator.clip_grad_norm_(
                        self.model.parameters(), self.config.optim.clip
                    )
                self.optimizer.step()
                self.optimizer.zero_grad()
            total += float(loss.detach())
        self.schedule.step()
        return total / len(batches)

    def _arguments(self, data: Data, rows: Sequence[int]) -> tuple[Any, ...]:
        device = self.accelerator.device
        bare = self.bare
        targets = {
            name: (t.to(device), m.to(device))
            for name, (t, m) in data.targets(rows, self.levels, bare.dimensions).items()
        }
        sources = [bare.sources.get(data.examples[r].source, 0) for r in rows]
        weights = [data.weights[r] for r in rows]
        return (
            data.inputs(rows).to(device),
            targets,
            torch.tensor(sources, device=device),
            torch.tensor(weights, device=device),
        )

    def _after_step(self, progress: Progress, bar: TrainingBar) -> None:
        every = self.config.checkpoint_steps or self.steps_per_epoch
        if progress.step % every and progress.step != self.steps:
            return
        if self.validation.examples:
            figures, _ = self.validate()
            self._require_finite(figures["loss"], f"validation loss at step {progress.step}")
            progress.history.append(
                {"step": progress.step, "lr": self.schedule.get_last_lr()[-1]} | figures
            )
            bar.figures(progress.step, figures)
            self.accelerator.log(figures, step=progress.step)
            self._judge_progress(progress, figures)
        save_checkpoint(self.folder, progress, self.accelerator, self.shape)
        self._write_history(progress)
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

    def _judge_progress(self, progress: Progress, figures: Mapping[str, float]) -> None:
        """Keep the best weights; stop when nothing got better for ``patience`` validations."""
        stop = self.config.stop
        value = watched(figures, stop.metric)
        signed = value if stop.higher_is_better else -value
        best = (
            None
            if progress.best is None
            else (progress.best if stop.higher_is_better else -progress.best)
        )
        if best is None or signed > best:
            progress.best, progress.best_step, progress.waited = value, progress.step, 0
            self._save_best()
        else:
            progress.waited += 1
            progress.stopped = stop.patience is not None and progress.waited >= stop.patience

    def _save_best(self) -> None:
        from safetensors.torch import save_file

        if self.config.stop.keep != "best":
            return
        net, main = self.bare.net, self.accelerator.is_main_process
        state = whole_state(net, self.task.kept(net.state_dict()), main)
        if main:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_file(state, self.folder / "best.partial")
            (self.folder / "best.partial").replace(self.folder / "best.safetensors")

    def _restore_best(self, progress: Progress) -> None:
        from safetensors.torch import load_file

        self.accelerator.wait_for_everyone()
        if self.config.stop.keep == "best" and progress.best is not None:
            self._load(load_file(self.folder / "best.safetensors"))
        self.bare.net.eval()

    def _load(self, state: dict[str, torch.Tensor]) -> None:
        """``state`` into the net; weights that training leaves alone need not be in it."""
        net = self.bare.net
        kept = self.task.kept(net.state_dict())
        if wrong := sorted(set(kept) ^ set(state)):
            raise MedalError(f"the best weights do not fit: {wrong}")
        write_state(net, state, kept)

    def release(self) -> None:
        """Give the judge's net back as a plain module, whole on the main process. All call it."""
        if uses_deepspeed(self.accelerator):
            leave_deepspeed(self.model, self.bare.net, self.accelerator.is_main_process)
        reset_body(self.task.body, self.config)

    def validate(self) -> tuple[dict[str, float], dict[str, np.ndarray]]:
        """(figures, logits per dimension) of the validation rows by the weights as they are, on
        every process alike."""
        logits, loss = self.predict(self.validation)
        heads = self.task.heads
        scores = {k: heads[k].scores(torch.from_numpy(z), 1.0).numpy() for k, z in logits.items()}
        figures = validation_figures(self.validation.examples, scores, self._binary)
        return {"loss": loss} | figures, logits

    @torch.no_grad()
    def predict(self, data: Data) -> tuple[dict[str, np.ndarray], float]:
        """Logits [n, outputs] per dimension (mean over members) and the mean loss, in row order.

        The processes share the batches, all with as many passes: nothing else gathers ZeRO-3's
        weights, so all go through the wrapped model.
        """
        self.model.eval()
        count = self.accelerator.num_processes
        batches = prediction_batches(data.lengths, self.config.optim, count)
        names = self.bare.dimensions
        parts = []
        for rows in batches[self.accelerator.process_index :: count]:
            loss, members = self.model(*self._arguments(data, rows))
            logits = {n: self.task.combine(members, n).float().cpu().numpy() for n in names}
            parts.append(Predicted(rows, float(loss), logits))
        return in_row_order(gathered_objects(parts, self.accelerator), names)

    def _write_history(self, progress: Progress) -> None:
        if self.accelerator.is_main_process:
            path = self.folder.parent / "history.jsonl"
            path.write_text(
                "".join(json.dumps(h) + "\n" for h in progress.history), encoding="utf-8"
            )


def _seed_of(seed: int, epoch: int, number: int) -> int:
    """A seed for one batch, far from its neighbours'."""
    return int(np.random.SeedSequence([seed, epoch, number]).generate_state(1, np.uint64)[0])
