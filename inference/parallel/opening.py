"""The door to a judge that scores: in this process, or in several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from medal_judges.errors import ConfigError
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.parallel import launched
from medal_judges.inference.parallel.crew import JudgeCrew
from medal_judges.inference.parallel.places import worker_environments
from medal_judges.inference.parallel.pool import JudgePool, refuse_server
from medal_judges.models.base.judge import Judge


@contextmanager
def opened(choice: JudgeChoice, workers: int = 1, device: str | None = None) -> Iterator[Judge]:
    """The judge of ``choice``, by ``workers`` processes: one is this process itself. Under
    ``accelerate launch`` each process that was launched is one.

    Raises ConfigError for several processes and a judge that asks a server, and what loading it
    raises. The processes end with the block.
    """
    together = launched.meeting()
    if together is not None and workers > 1:
        raise ConfigError(
            "--workers starts processes, and accelerate launch has started some already",
            hint="leave --workers out: --num_processes says how many there are",
        )
    if together is None and workers == 1:
        yield choice.load()
        return
    refuse_server(choice.pays)
    if together is not None:
        crew = JudgeCrew(
            choice, [launched.own_environment(device)], together.others(choice, device)
        )
    else:
        crew = JudgeCrew(choice, worker_environments(workers, device))
    with JudgePool(crew) as pool:
        yield pool
