"""What the checks measure with: seconds, memory, operations a token, the peak of the device."""

from __future__ import annotations

import gc
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

import torch

from medal_judges.models.batching import is_out_of_memory

State = Literal["done", "failed", "not run"]


@dataclass(frozen=True, slots=True)
class Setting:
    """Where models lie, and whether the small form is asked for, which also runs on a CPU."""

    folder: Path
    small: bool

    @property
    def device(self) -> torch.device:
        """The GPU where there is one."""
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")

    def of(self, full: Any, small: Any) -> Any:
        """The one of the two that the form has."""
        return small if self.small else full


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: ``what`` was measured. ``share`` is of the measured matrix peak;
    ``said`` is what else there is to say, or why it failed or was not run."""

    what: str
    state: State = "done"
    tokens_per_s: float | None = None
    share: float | None = None
    memory_gib: float | None = None
    said: str = ""


@dataclass(slots=True)
class Agreement:
    """How far numbers are from others that they should be; ``allowed`` is the largest difference
    that is no failure."""

    what: str
    difference: float
    allowed: float
    more: str = ""

    def row(self, **figures: float | None) -> Row:
        """A row that failed where the difference is larger, or no number."""
        held = self.difference <= self.allowed
        said = f"{self.what} {self.difference:.2g} ({self.allowed:.2g} is allowed){self.more}"
        return Row("", "done" if held else "failed", said=said, **figures)  # type: ignore[arg-type]


def attempt(
    what: str, run: Callable[[], Row], needs: Sequence[str] = (), *, gpu: bool = False
) -> Row:
    """``run()`` named ``what``; a row that says why not where a package of ``needs`` or a GPU is
    missing, where memory ran out, or with the error's last lines. The next attempt goes on."""
    if gpu and not torch.cuda.is_available():
        return Row(what, "not run", said="needs a GPU")
    if missing := [name for name in needs if find_spec(name) is None]:
        return Row(what, "not run", said=f"package missing: {', '.join(missing)}")
    try:
        return replace(run(), what=what)
    except Exception as error:
        # whatever a package says on this device is this row's, not the end
        if is_out_of_memory(error):
            row = Row(what, "not run", said="out of memory")
        else:
            told = " / ".join(traceback.format_exception_only(error)[-1].split("\n"))
            place = traceback.extract_tb(error.__traceback__)[-1]
            at = f"{Path(place.filename).name}:{place.lineno}"
            row = Row(what, "failed", said=f"{told.strip()[:300]} ({at})")
            traceback.print_exc()
    release()
    return row


def release() -> None:
    """Let go of what nothing refers to, on the device too; peaks of memory count from here."""
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def peak_gib() -> float | None:
    """Most memory of the device that tensors have had since ``release``; None on a CPU."""
    return (
        torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None
    )


def wait() -> None:
    """Until the device has done what it was given."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def seconds_of(work: Callable[[], object]) -> float:
    """Wall time of ``work``, the device idle before and after."""
    wait()
    start = time.perf_counter()
    work()
    wait()
    return time.perf_counter() - start


def matrix_peak(device: torch.device, dtype: torch.dtype = torch.bfloat16) -> float:
    """Operations a second of the best of several large matrix products of random numbers."""
    size, repeats = (8192, 20) if device.type == "cuda" else (512, 5)
    a = torch.randn(size, size, device=device, dtype=dtype)
    a @ a
    return 2 * size**3 / min(seconds_of(lambda: a @ a) for _ in range(repeats))


def forward_flops(config: Any, length: int) -> float:
    """Operations a token of one forward pass of a body over a sequence of ``length``: two a weight
    of its layers, and attention's two products. Embeddings are looked up, and cost none."""
    hidden, inner, layers = (
        config.hidden_size,
        config.intermediate_size,
        config.num_hidden_layers,
    )
    heads = config.num_attention_heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    size = getattr(config, "head_dim", None) or hidden // heads
    weights = hidden * size * 2 * (heads + keys) + 3 * hidden * inner
    kinds = getattr(config, "layer_types", None) or ["full_attention"] * layers
    near = min(length, getattr(config, "local_attention", None) or length)
    # A causal model's token sees half of the sequence on average.
    whole = length if config.model_type == "modernbert" else length / 2
    seen = sum(whole if kind == "full_attention" else near for kind in kinds)
    return float(layers * 2 * weights + 4 * heads * size * seen)


def share_of_peak(
    config: Any, lengths: Sequence[int], seconds: float, times: float = 1.0
) -> float:
    """Share of the matrix peak that ``times`` a forward pass over sequences of ``lengths`` in
    ``seconds`` is: 3 times with a backward pass, 2 where the weights are frozen."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    spent = times * sum(forward_flops(config, length) * length for length in lengths)
    return spent / seconds / matrix_peak(device)


@dataclass(slots=True)
class StepTimes:
    """Seconds, tokens and lengths of the steps of a training run, the warm-up left out."""

    warm_up: int = 2
    seconds: list[float] = field(default_factory=list)
    lengths: list[list[int]] = field(default_factory=list)

    @property
    def speed(self) -> float:
        """Tokens a second."""
        return sum(map(sum, self.lengths[self.warm_up :])) / sum(
            self.seconds[self.warm_up :]
        )


@contextmanager
def step_times() -> Iterator[StepTimes]:
    """The times of all passes and their gradients inside, by the package's trainer."""
    from medal_judges.training.trainer import JudgeTrainer

    times, inner = StepTimes(), JudgeTrainer.training_step

    def timed(trainer: JudgeTrainer, model: Any, inputs: Any, *more: Any) -> Any:
        times.lengths.append(inputs["attention_mask"].sum(dim=1).tolist())
        losses: list[Any] = []
        times.seconds.append(
            seconds_of(lambda: losses.append(inner(trainer, model, inputs, *more)))
        )
        return losses[0]

    JudgeTrainer.training_step = timed  # type: ignore[method-assign, assignment]
    try:
        yield times
    finally:
        JudgeTrainer.training_step = inner  # type: ignore[method-assign]
