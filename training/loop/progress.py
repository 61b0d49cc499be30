"""The progress bar of a training run: steps, loss, and the newest validation figures."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

_SHOWN = 4


class TrainingBar:
    """A rich progress bar on standard error; silent on all processes but the main one."""

    def __init__(self, steps: int, done: int, visible: bool) -> None:
        self.console = Console(stderr=True, quiet=not visible)
        columns = (
            TextColumn("training"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("loss {task.fields[loss]:.4f}"),
            TimeRemainingColumn(),
        )
        self.bar = Progress(*columns, console=self.console, disable=not visible)
        self.task = self.bar.add_task("training", total=steps, completed=done, loss=float("nan"))
        self.loss: float | None = None

    def __enter__(self) -> TrainingBar:
        self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.bar.stop()

    def advance(self, loss: float) -> None:
        """One step done; the loss shown is a running mean."""
        self.loss = loss if self.loss is None else 0.95 * self.loss + 0.05 * loss
        self.bar.update(self.task, advance=1, loss=self.loss)

    def figures(self, step: int, figures: Mapping[str, float]) -> None:
        """A line with the first figures of a validation."""
        means = {k: v for k, v in figures.items() if "/" not in k}
        shown = list((means | dict(figures)).items())[:_SHOWN]
        text = "  ".join(f"{name} {value:.4f}" for name, value in shown)
        self.console.print(f"step {step}: {text}", highlight=False)
