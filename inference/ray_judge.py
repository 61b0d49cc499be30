"""RayJudge: a judge that scores in several processes, of this machine or of a Ray cluster.

This process reads the chats and receives the judgements in input order, so reading, writing and
resuming use the same code as one process. It uses Ray Core and not Ray Data, whose tasks would read
the input in no order, and which supports neither standard input nor a resumed file.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from bisect import insort
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from medal_judges.errors import ConfigError, MedalError, MissingExtraError
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.models.base.judge import (
    Judge,
    ScoreLevel,
    ScoreRequest,
    UnknownLanguage,
    checked_dialogues,
    with_warnings,
)
from medal_judges.models.batching import windows
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature

logger = logging.getLogger(__name__)

LOCAL = "local"
# Windows for each process that may be read before the next one due is scored.
_AHEAD = 4
_AT_ONCE = 2  # windows of a process: the next one waits for it while it scores
_STARTS = 10  # how often a new process may die before it has loaded the judge
_TRIES = 2  # how often a window may lose its process


@contextmanager
def opened_on_ray(
    choice: JudgeChoice, workers: int, device: str | None, ray_address: str | None
) -> Iterator[Judge]:
    """Yields the judge of ``choice`` running in several processes; see ``opened``."""
    _refuse_server(choice.asks_server)
    shared_by = 1
    if choice.speaks:
        shared_by = choice.llm().get("tensor_parallel_size", 1)
    if shared_by > 1:
        raise ConfigError(
            "--workers and --ray start an engine with one GPU in each process, and "
            f"llm.tensor_parallel_size={shared_by} shares a model over {shared_by}",
            hint="leave --workers and --ray out: one engine uses all of these GPUs",
        )
    try:
        import ray
    except ImportError as error:
        option = "--ray"
        if ray_address is None:
            option = "--workers"
        raise MissingExtraError("ray", "ray", f"medal score {option}") from error
    with _connected(ray_address or LOCAL, workers):
        resources: Any = ray.cluster_resources
        room = resources()
        gpus = 0
        if device is None or device.startswith("cuda"):
            gpus = room.get("GPU", 0)
        count = workers
        if ray_address not in (None, LOCAL):
            count = max(1, int(gpus or room.get("CPU", 1)))
            if workers > 1:
                count = min(workers, count)
        with RayJudge(choice, count, gpus=gpu_share(gpus, count)) as judge:
            yield judge


def gpu_share(gpus: float, processes: int) -> float:
    """Returns the share of one GPU that each process gets, so that all of them find room: four
    processes on three GPUs get a half each, since only three shares of 3/4 fit."""
    if not gpus:
        return 0.0
    return 1 / math.ceil(processes / gpus)


def _refuse_server(uses_server: bool) -> None:
    if uses_server:
        raise ConfigError(
            "--workers and --ray are for local models; this judge sends requests to a server",
            hint="leave them out: one process sends llm.max_in_flight requests at a time and keeps "
            "one cost limit over all of them",
        )


@contextmanager
def _connected(address: str, workers: int) -> Iterator[None]:
    import ray
    from joblib import cpu_count
    from ray.exceptions import RayError

    options: dict[str, Any] = {
        "address": address,
        "log_to_driver": False,
        "logging_level": "ERROR",
    }
    if address == LOCAL:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # The processes inherit it; without it Ray gives each process one thread.
        threads = str(max(1, cpu_count() // workers))
        os.environ.setdefault("OMP_NUM_THREADS", threads)
        options |= {
            "num_cpus": workers,
            "object_store_memory": 1 << 28,
            "include_dashboard": False,
        }
    try:
        host, _, port = address.rpartition(":")
        if host and port.isdecimal():
            # Ray itself waits for minutes, then ends the process.
            socket.create_connection((host, int(port)), timeout=10).close()
        ray.init(**options)
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise MedalError(
            f"no Ray cluster at {address!r}: {reason}",
            hint="`ray status` shows the cluster of this machine; --workers N needs no cluster",
        ) from error
    try:
        yield
    except RayError as error:
        reason = (str(error).strip().splitlines() or [""])[-1]
        raise MedalError(
            f"the Ray cluster ended the run: {type(error).__name__}: {reason}",
            hint="finished judgements are written; the same command resumes",
        ) from error
    finally:
        ray.shutdown()


class _Process:
    """The Ray actor that holds a judge. It returns errors of loading and scoring: Ray wraps raised
    ones."""

    def __init__(self, folder: str) -> None:
        os.environ |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}
        if os.path.isdir(folder):  # paths of the command line are relative to it
            os.chdir(folder)

    def load(self, choice: JudgeChoice) -> dict[str, Any] | Exception:
        """Loads the judge and returns its facts for the reading process."""
        try:
            self.judge = judge = choice.load()
        except Exception as error:
            return error
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
    ) -> tuple[list[Judgement], Counter[str]] | Exception:
        try:
            return list(self.judge.score(window, **how)), self.judge.answer_counts()
        except Exception as error:
            return error


class RayJudge(Judge):
    """Runs the judge of ``choice`` in ``count`` processes and behaves like one judge.

    The windows of dialogues are the same as in one process, so the scores are equal too. If a
    process or its machine dies, another process scores its window.
    """

    family = "ray"
    resumes_windows = True

    def __init__(self, choice: JudgeChoice, count: int, *, gpus: float = 0) -> None:
        import ray

        self._actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0)(_Process)
        self._choice = ray.put(choice)
        self._answers: dict[Any, Counter[str]] = {}
        self._ready: list[Any] = []  # actors with a judge
        self._loading: dict[Any, Any] = {}  # the answer that comes -> its actor
        for _ in range(count):
            self._start()
        about = self._loaded(ray.wait(list(self._loading))[0][0])
        _refuse_server(about["uses_server"])
        self._signature: Signature = about["signature"]
        self.dimensions = about["dimensions"]
        self.languages, self.window = about["languages"], about["window"]
        self.token_budget = about["token_budget"]

    def __enter__(self) -> RayJudge:
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        for actor in (*self._ready, *self._loading.values()):
            ray.kill(actor)

    def signature(self) -> Signature:
        return self._signature

    def answer_counts(self) -> Counter[str]:
        return sum(self._answers.values(), Counter[str]())

    def score(
        self,
        dialogues: Iterable[Dialogue | Mapping[str, Any] | list[Any]],
        *,
        level: ScoreLevel = "dialogue",
        dimensions: Sequence[str] | None = None,
        token_budget: int | None = None,
        unknown_language: UnknownLanguage = "warn",
        detect_language: bool | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Iterator[Judgement]:
        """See ``Judge.score``. Wrong options, and one dialogue in place of several, are refused at
        the call; other errors come while the result is read."""
        how = {
            "level": level,
            "dimensions": self._check_dimensions(dimensions),
            "token_budget": token_budget,
            "unknown_language": unknown_language,
            "detect_language": detect_language,
        }
        dialogue_windows = windows(checked_dialogues(dialogues), self.window)
        handed_out = _HandedOut(self, dialogue_windows, how)
        judgements = handed_out.judgements(progress or (lambda count: None))
        return with_warnings(
            judgements, self.languages, outside=unknown_language == "warn"
        )

    def _start(self) -> None:
        actor: Any = self._actor.remote(os.getcwd())
        self._loading[actor.load.remote(self._choice)] = actor

    def _loaded(self, answer: Any) -> dict[str, Any]:
        """Gives work to an actor that has loaded its judge. Raises the error if loading failed."""
        import ray

        actor = self._loading.pop(answer)
        about: dict[str, Any] | Exception = ray.get(answer)
        if isinstance(about, Exception):
            raise about
        self._ready.append(actor)
        return about

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        raise NotImplementedError("the processes do this")

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        raise NotImplementedError("the processes do this")


class _HandedOut:
    """The windows of one call of ``RayJudge.score``: each is read, handed to a process, and
    returned in input order when it is scored.

    A window is known by its number. ``read`` is the number of the next window to read, ``due`` that
    of the next one to return. A window that lost its process is handed out again, before others.
    ``errors`` has what ended a window, and at the number after the last window the input's own
    error, or StopIteration.
    """

    def __init__(
        self,
        judge: RayJudge,
        unread: Iterator[Sequence[Dialogue]],
        how: dict[str, Any],
    ) -> None:
        from ray.exceptions import ActorDiedError, ActorUnavailableError, NodeDiedError

        self.judge, self.unread, self.how = judge, unread, how
        self.deaths = (ActorDiedError, ActorUnavailableError, NodeDiedError)
        self.read = self.due = 0
        self.unscored: dict[int, Sequence[Dialogue]] = {}
        self.under_way: dict[Any, tuple[int, Any]] = {}  # answer -> number, actor
        self.lost: list[int] = []
        self.losses: Counter[int] = Counter()
        self.failed_starts = 0
        self.scored: dict[int, list[Judgement]] = {}
        self.errors: dict[int, Exception] = {}

    def judgements(self, progress: Callable[[int], None]) -> Iterator[Judgement]:
        """Yields the judgements of all windows; raises the first error in the order of the input,
        after the judgements before it."""
        while True:
            self.hand_out()
            while self.due in self.scored:
                yield from self.scored.pop(self.due)
                self.due += 1
            error = self.errors.get(self.due)
            if isinstance(error, StopIteration):
                return
            if error is not None:
                raise error
            if self.under_way or self.judge._loading:  # else more can be handed out now
                self.receive(progress)

    def hand_out(self) -> None:
        """Gives windows to the processes that have room, first to those with the least to do."""
        while True:
            load = Counter(actor for _, actor in self.under_way.values())
            free = [actor for actor in self.judge._ready if load[actor] < _AT_ONCE]
            if not free:
                return
            number = self.next_window()
            if number is None:
                return
            actor = min(free, key=load.__getitem__)
            answer = actor.score.remote(self.unscored[number], self.how)
            self.under_way[answer] = number, actor

    def next_window(self) -> int | None:
        """Returns the number of the next window to hand out. None if enough are read, or if there
        is an error: nothing after it is of use."""
        if self.lost:
            return self.lost.pop(0)
        processes = len(self.judge._ready) + len(self.judge._loading)
        if self.errors or self.read - self.due >= _AHEAD * processes:
            return None
        try:
            window = next(self.unread)
        except Exception as error:  # of the input, or its end: StopIteration
            self.errors[self.read] = error
            return None
        number = self.read
        self.unscored[number] = window
        self.read += 1
        return number

    def receive(self, progress: Callable[[int], None]) -> None:
        """Waits for one process: it has loaded its judge, has scored a window, or has died."""
        import ray

        judge = self.judge
        answer = ray.wait([*self.under_way, *judge._loading])[0][0]
        if answer in judge._loading:
            try:
                judge._loaded(answer)
            except self.deaths:
                self.failed_starts += 1
                if self.failed_starts > _STARTS:
                    raise
                judge._start()
            return
        number, actor = self.under_way.pop(answer)
        try:
            result = ray.get(answer)
        except self.deaths as error:
            self.lose(number, actor, error)
            return
        if isinstance(result, Exception):
            self.errors[number] = result
            return
        self.scored[number], judge._answers[actor] = result
        progress(len(self.unscored.pop(number)))

    def lose(self, number: int, actor: Any, error: Exception) -> None:
        """Puts back a window whose process died, and starts another process; too many deaths over
        the same window are an error."""
        if actor in self.judge._ready:
            self.judge._ready.remove(actor)
            self.judge._start()
            logger.warning(
                "a process ended (%s); another one scores its dialogues", _reason(error)
            )
        self.losses[number] += 1
        if self.losses[number] <= _TRIES:
            insort(self.lost, number)
            return
        window = self.unscored[number]
        ids = f"{window[0].id!r} to {window[-1].id!r}"
        self.errors[number] = MedalError(
            f"{self.losses[number]} processes ended over dialogues {ids}: {_reason(error)}",
            hint="killed, probably out of memory: fewer --workers or a smaller --token-budget; the "
            "same command resumes",
        )


def _reason(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
