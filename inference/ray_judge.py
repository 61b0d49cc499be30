"""A judge that scores in several processes, on this machine or on a Ray cluster. The main process
reads the dialogues and receives the judgements in input order. So reading, writing and resuming use
the code of a single process. If a process dies, Ray starts it again, and the process repeats the
dialogues that it was scoring."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from medal_judges.errors import ConfigError, MedalError, MissingExtraError
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.models.base.judge import (
    Judge,
    ScoreLevel,
    ScoreRequest,
    as_dialogues,
    warn_at_end,
)
from medal_judges.models.batching import chunks
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature

_AHEAD = (
    4  # windows for each process that may be read before the next one due is scored
)
_TRIES = 2  # how often a window may lose its process


@contextmanager
def open_on_ray(
    choice: JudgeChoice, workers: int, device: str | None
) -> Iterator[Judge]:
    """Opens a context with a judge that scores in several processes. The processes end with the
    context.

    Args:
        choice: The judge that each process loads.
        workers: The number of processes.
        device: Where the judge runs, such as ``cpu``. With None or a CUDA device, the processes
            share the GPUs.

    Raises:
        ConfigError: The judge sends requests to a server, or its settings divide one model over
            several GPUs.
        MissingExtraError: Ray is not installed.
        MedalError: Ray cannot be reached, or fails during the run.
    """
    _refuse_if_server(choice.asks_server)
    if (
        choice.uses_llm
        and choice.llm_settings().get("engine", {}).get("tensor_parallel_size", 1) > 1
    ):
        raise ConfigError(
            "--workers starts an engine with one GPU in each process, and "
            "llm.engine.tensor_parallel_size shares a model over several",
            hint="Leave --workers out: one engine uses all of these GPUs",
        )
    try:
        import ray
        from ray.exceptions import RayError
    except ImportError as error:
        raise MissingExtraError("ray", "ray", "medal score --workers") from error
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
    if not os.environ.get("RAY_ADDRESS"):
        # The processes inherit it; without it Ray gives each process one thread.
        threads = max(1, (os.cpu_count() or 1) // workers)
        os.environ.setdefault("OMP_NUM_THREADS", str(threads))
        options |= {"address": "local", "num_cpus": workers, "include_dashboard": False}
    try:
        ray.init(**options)
        gpus = 0.0
        if device is None or device.startswith("cuda"):
            gpus = ray.cluster_resources().get("GPU", 0.0)
        yield RayJudge(choice, workers, gpus=gpu_share(gpus, workers))
    except (RayError, ConnectionError) as error:
        reason = (str(error).strip().splitlines() or [""])[-1]
        raise MedalError(
            f"the Ray cluster ended the run: {type(error).__name__}: {reason}",
            hint="Type the same command again: finished judgements are kept. If processes were "
            "killed, type fewer --workers",
        ) from error
    finally:
        ray.shutdown()


def gpu_share(gpus: float, processes: int) -> float:
    """Returns the share of one GPU that each process gets, from 0 to 1.

    It is 1/2 for four processes on three GPUs, because no process spans two GPUs.

    Args:
        gpus: The number of GPUs. Without GPUs the share is 0.
        processes: The number of processes.
    """
    if not gpus:
        return 0.0
    return 1 / math.ceil(processes / gpus)


def _refuse_if_server(uses_server: bool) -> None:
    if uses_server:
        raise ConfigError(
            "--workers is for local models, and this judge sends requests to a server",
            hint="Leave it out: one process sends llm.max_in_flight requests at a time and keeps "
            "one cost limit over all of them",
        )


class _JudgeActor:
    """A process of Ray that holds a judge. Its methods return errors instead of raising them.

    Args:
        folder: Working folder of the main process, to which paths are relative.
        choice: The judge to load.

    Attributes:
        judge: The judge, or the error with which loading it failed.
    """

    def __init__(self, folder: str, choice: JudgeChoice) -> None:
        os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
        if os.path.isdir(folder):  # paths of the command line are relative to it
            os.chdir(folder)
        self.judge: Judge | Exception
        try:
            self.judge = choice.load()
        except Exception as error:
            self.judge = error

    def facts(self) -> dict[str, Any] | Exception:
        """Returns what the main process must know of the judge: ``{"signature": ..., "dimensions":
        ..., "window": 32, ...}``. If the judge could not be loaded, returns the error."""
        judge = self.judge
        if isinstance(judge, Exception):
            return judge
        return {
            "signature": judge.signature(),
            "dimensions": judge.dimensions,
            "languages": judge.languages,
            "window": judge.window,
            "token_budget": judge.token_budget,
            "uses_server": any(m.limiter is not None for m in judge.language_models()),
        }

    def score(
        self, window: Sequence[Dialogue], how: dict[str, Any]
    ) -> list[Judgement] | Exception:
        """Returns the judgements of the dialogues in ``window``, or the error that stopped the
        judge.

        Args:
            how: Arguments of ``Judge.score``, such as ``{"level": "turn"}``.
        """
        try:
            assert isinstance(self.judge, Judge)
            return list(self.judge.score(window, **how))
        except Exception as error:  # raised, Ray would wrap it in an error of its own
            return error


class RayJudge(Judge):
    """A judge that scores in several processes. Its scores are the same as in a single process.

    Args:
        choice: The judge that each process loads.
        count: The number of processes.
        gpus: The share of one GPU that each process gets, from 0 (no GPU) to 1.

    Raises:
        ConfigError: The judge sends requests to a server.
        JudgeLoadError: A process cannot load the judge.
    """

    family = "ray"
    resumes_windows = True

    def __init__(self, choice: JudgeChoice, count: int, *, gpus: float = 0) -> None:
        import ray

        actor: Any = ray.remote(
            num_cpus=1, num_gpus=gpus, max_restarts=-1, max_task_retries=_TRIES
        )(_JudgeActor)
        self._actors = [actor.remote(os.getcwd(), choice) for _ in range(count)]
        about: Any = ray.get(self._actors[0].facts.remote())
        if isinstance(about, Exception):
            raise about
        _refuse_if_server(about["uses_server"])
        self._signature: Signature = about["signature"]
        self.dimensions = about["dimensions"]
        self.languages, self.window = about["languages"], about["window"]
        self.token_budget = about["token_budget"]

    def signature(self) -> Signature:
        return self._signature

    def score(
        self,
        dialogues: Iterable[Dialogue | Mapping[str, Any] | list[Any]],
        *,
        level: ScoreLevel = "dialogue",
        dimensions: Sequence[str] | None = None,
        progress: Callable[[int], None] | None = None,
        warn: bool = True,
    ) -> Iterator[Judgement]:
        """Yields the judgements of ``dialogues`` in input order.

        Args:
            dialogues: Dialogues, or chats such as lists of messages.
            level: What gets a score: ``dialogue``, ``turn`` (each assistant turn) or ``last`` (the
                last assistant turn).
            dimensions: The names of the dimensions to score. None means all.
            progress: Called with the number of dialogues finished since its last call.
            warn: Whether to log two warnings at the end: about dialogues that are too long for the
                judge, and about languages that it does not support.

        Raises:
            ConfigError: A dimension is unknown, or ``dialogues`` is a single dialogue.
        """
        how = {
            "level": level,
            "dimensions": self._checked_names(dimensions),
            "warn": False,
        }
        judgements = self._score_windows(
            chunks(as_dialogues(dialogues), self.window),
            how,
            progress or (lambda count: None),
        )
        return warn_at_end(judgements, self.languages) if warn else judgements

    def _score_windows(
        self,
        unread: Iterator[Sequence[Dialogue]],
        how: dict[str, Any],
        progress: Callable[[int], None],
    ) -> Iterator[Judgement]:
        """Yields the judgements of all dialogues in input order.

        Args:
            unread: Lists of dialogues, each for one process to score at once.
            how: Arguments of ``Judge.score``, such as ``{"level": "turn"}``.
            progress: Called with the number of dialogues in each finished list.
        """
        from ray.util import ActorPool

        pool = ActorPool(self._actors)
        sizes: list[int] = []
        input_error: Exception | None = None
        while input_error is None or pool.has_next():
            while input_error is None and len(sizes) < _AHEAD * len(self._actors):
                try:
                    window = next(unread)
                except Exception as error:  # of the input, or its end: StopIteration
                    input_error = error
                    break
                pool.submit(
                    lambda actor, window: actor.score.remote(window, how), window
                )
                sizes.append(len(window))
            if not pool.has_next():
                break
            judgements = pool.get_next()
            if isinstance(judgements, Exception):
                raise judgements
            progress(sizes.pop(0))
            yield from judgements
        if input_error is not None and not isinstance(input_error, StopIteration):
            raise input_error

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        raise NotImplementedError("the processes do this")

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        raise NotImplementedError("the processes do this")
