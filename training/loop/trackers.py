"""What a run tells the trackers of Accelerate: its settings, its losses, its figures."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from medal_judges.errors import ConfigError, NotAvailableError, did_you_mean
from medal_judges.training.config import TrainConfig

if TYPE_CHECKING:
    from accelerate import Accelerator

Setting = str | int | float | bool
LOGS = "logs"  # in the run's folder; what lies there is never pushed


def require_trackers(names: Sequence[str]) -> None:
    """Raise ConfigError for a tracker that Accelerate does not know, and NotAvailableError for one
    whose package is not installed: Accelerate would leave it out without a word."""
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS, get_available_trackers
    from accelerate.utils import LoggerType

    known = sorted(LOGGER_TYPE_TO_CLASS)
    here = {str(each) for each in get_available_trackers()}
    built_in = {str(each) for each in LoggerType}
    for name in names:
        if name == "all":
            continue
        if name not in known:
            raise ConfigError(
                f"log_with: Accelerate has no tracker {name!r}",
                hint=f"{did_you_mean(name, known)}it has: {', '.join(known)}, and all",
            )
        if name in built_in and name not in here:
            raise NotAvailableError(
                f"log_with: the package of the tracker {name!r} is not installed",
                hint=f"pip install {name}; trackers that are here: {', '.join(sorted(here))}",
            )


def start_trackers(accelerator: Accelerator, config: TrainConfig) -> None:
    """Begin a run of each tracker, with the settings as its hyperparameters."""
    if config.log_with:
        accelerator.init_trackers(config.name, config=dict(_settings(config)))


def finish_trackers(accelerator: Accelerator) -> None:
    """End the runs of all trackers, before another judge of the same process begins its own."""
    for tracker in accelerator.trackers:
        tracker.finish()
    accelerator.trackers = []


def _settings(config: TrainConfig) -> Iterator[tuple[str, Setting]]:
    """``optim.lr`` and so on; a list is JSON, which every tracker takes, and null is left out."""
    yield from _flat(config.model_dump(mode="json"), "")


def _flat(settings: Mapping[str, object], before: str) -> Iterator[tuple[str, Setting]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{before}{name}.")
        elif isinstance(value, Setting):
            yield f"{before}{name}", value
        elif value is not None:
            yield f"{before}{name}", json.dumps(value, ensure_ascii=False)


class LossTracker:
    """Tells the trackers the mean training loss over every ``log_steps`` steps, and the learning
    rate; of several processes the main one's share of the batch."""

    def __init__(self, accelerator: Accelerator, every: int) -> None:
        self.accelerator, self.every = accelerator, every
        self.total, self.count = 0.0, 0

    def add(self, step: int, loss: float, rate: float, *, last: bool) -> None:
        """Count the loss of ``step``; told where its number says so, and at the ``last``."""
        self.total, self.count = self.total + loss, self.count + 1
        if step % self.every and not last:
            return
        values = {"train/loss": self.total / self.count, "train/lr": rate}
        self.accelerator.log(values, step=step)
        self.total, self.count = 0.0, 0


def log_figures(
    accelerator: Accelerator, part: str, figures: Mapping[str, float], step: int
) -> None:
    """Figures as ``part/NAME``, such as ``validation/spearman_overall``: a store of files cannot
    hold ``spearman`` beside ``spearman/overall``."""
    named = {f"{part}/{name.replace('/', '_')}": value for name, value in figures.items()}
    accelerator.log(named, step=step)
