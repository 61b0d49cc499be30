"""``medal score --ray``: chats judged by a Ray cluster into a folder of parquet parts.

Ray Data schedules, retries what a lost process or machine had, and keeps what is done: a part is
committed in two steps with the numbers of its rows beside it, so that a run that is started again
judges only what no part has.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from medal_judges import __version__
from medal_judges.errors import ConfigError, MedalError, MissingExtraError
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.parallel.messages import JudgeLoaded
from medal_judges.inference.scoring import ScoreOptions, ScoreReport
from medal_judges.reading.options import ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.storage.files import atomic_write
from medal_judges.storage.judgement_parts import MANIFEST, PARTS, ROW, finished_parts, read_manifest

if TYPE_CHECKING:
    from medal_judges.inference.cluster.reading import InputFile

T = TypeVar("T")
_DONE = ".checkpoint"
ROWS_A_PART = 10_000


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """``address``: of a cluster (``auto``, ``HOST:6379``), or ``local``. Each judge has ``cpus``
    and ``gpus`` of a machine for itself; there are as many as fit, at most ``judges``."""

    address: str
    judges: int | None = None
    cpus: float = 1
    gpus: float = 0
    rows_a_part: int = ROWS_A_PART


@dataclass(frozen=True, slots=True)
class ClusterRun:
    """What a run did: what was judged, what was read, and by which judge."""

    report: ScoreReport
    reading: ReadingReport
    judge: JudgeLoaded


def score_on_ray(
    source: str,
    choice: JudgeChoice,
    out: Path,
    cluster: ClusterOptions,
    options: ScoreOptions,
    chats: ReadOptions,
) -> ClusterRun:
    """Judge the chats of ``source`` (a file, or a folder of such, which all machines see under this
    name) into ``out``, see judgement_parts.py; bad rows are listed beside it.

    An unfinished run is resumed by part, a finished one only reported. Raises MedalError where
    ``out`` is of another judge, input or options, where a file is changed meanwhile, and what
    reading and judging raise; ConfigError where ``out`` is no folder, or one that is read.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray", "medal score --ray") from error
    from medal_judges.inference.cluster.actor import described
    from medal_judges.inference.cluster.finishing import finish, list_problems, report_of
    from medal_judges.inference.cluster.reading import input_files

    _require_own_folder(out, source)
    files = input_files(source, chats)
    options = replace(options, retry_failed=False)
    with _connected(cluster.address):
        task = ray.remote(num_cpus=cluster.cpus, num_gpus=cluster.gpus)(described)
        loaded, names = _own(lambda: ray.get(task.remote(choice, options)))
        signature = str(loaded.signature)
        manifest = _manifest(files, signature, names, options, chats)
        before, start = _settled(out, manifest, options.overwrite), time.perf_counter()
        if not before:
            _judge(files, (choice, options, signature), out, cluster, chats, loaded.window)
            finish(out, manifest, several=len(files) > 1)
            shutil.rmtree(out / _DONE, ignore_errors=True)
        seconds = time.perf_counter() - start
        counting = [ray.remote(report_of).remote(part) for part in finished_parts(out)]
        report = ScoreReport()
        for each in counting:
            report.merge(_own(partial(ray.get, each)))
    report.resumed = report.total if before else 0
    report.dialogues = 0 if before else report.total
    report.seconds = seconds
    return ClusterRun(report, list_problems(out, report.total), loaded)


def _require_own_folder(out: Path, source: str) -> None:
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file", hint="--ray writes a folder: give another --out")
    read, written = Path(source).resolve(), out.resolve()
    if read == written or read in written.parents:
        raise ConfigError(
            f"{out} lies in the folder that is read ({source})",
            hint="what is written there would be read as chats: give another --out",
        )


@contextmanager
def _connected(address: str) -> Iterator[None]:
    """A connection to the cluster. Raises MedalError where there is none, and where Ray itself
    gives up."""
    import ray
    from ray.exceptions import RayError

    try:
        ray.init(address=address, log_to_driver=False)
    except (ConnectionError, ValueError, RuntimeError) as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise MedalError(
            f"no Ray cluster at {address!r}: {said}",
            hint="`ray status` shows the one of this machine; --ray local starts one for this run",
        ) from error
    try:
        yield
    except RayError as error:
        said = (str(error).strip().splitlines() or [""])[-1]
        raise MedalError(
            f"the cluster ended the run: {type(error).__name__}: {said}",
            hint="what has been written is kept; the same command resumes",
        ) from error
    finally:
        ray.shutdown()


def _judge(
    files: Sequence[InputFile],
    judge: tuple[JudgeChoice, ScoreOptions, str],
    out: Path,
    cluster: ClusterOptions,
    chats: ReadOptions,
    window: int,
) -> None:
    from ray.data import ActorPoolStrategy, DataContext
    from ray.data.checkpoint import CheckpointConfig

    from medal_judges.inference.cluster.actor import ClusterJudge
    from medal_judges.inference.cluster.reading import chat_rows

    context = DataContext.get_current()
    context.checkpoint_config = CheckpointConfig(
        id_column=ROW,
        checkpoint_path=str((out / _DONE).absolute()),
        delete_checkpoint_on_success=False,
    )
    judged = chat_rows(files, chats).map_batches(
        ClusterJudge,
        fn_constructor_args=judge,
        batch_format="pyarrow",
        batch_size=window,
        # From one on: many at once would hold all cores, and Ray's filter of what is done, which a
        # resumed run begins with, would wait for one forever. Reading and writing wait for none.
        compute=ActorPoolStrategy(min_size=1, max_size=_most_judges(cluster)),
        num_cpus=cluster.cpus,
        num_gpus=cluster.gpus or None,
    )
    parts = str((out / PARTS).absolute())
    rows = cluster.rows_a_part
    _own(
        lambda: judged.write_parquet(parts, min_rows_per_file=rows, ray_remote_args={"num_cpus": 0})
    )


def _most_judges(cluster: ClusterOptions) -> int:
    """Judges that the machines of the cluster have room for now, at most those asked for."""
    import ray

    there = ray.cluster_resources()
    room = [there.get("CPU", 1) / cluster.cpus] if cluster.cpus else []
    room += [there.get("GPU", 0) / cluster.gpus] if cluster.gpus else []
    fitting = max(1, int(min(room)))
    return fitting if cluster.judges is None else min(fitting, cluster.judges)


def _own(run: Callable[[], T]) -> T:
    """``run()``; an error of ours that Ray carried from another machine is raised as it was."""
    from ray.exceptions import RayError

    try:
        return run()
    except Exception as error:
        waiting: list[BaseException | None] = [error]
        while waiting:
            each = waiting.pop(0)
            if isinstance(each, MedalError) and not isinstance(each, RayError):
                raise each from error
            if each is not None:  # ``cause`` is that of Ray's own errors
                waiting += [each.__cause__, getattr(each, "cause", None)]
        raise


def _manifest(
    files: Sequence[InputFile],
    signature: str,
    names: Sequence[str],
    options: ScoreOptions,
    chats: ReadOptions,
) -> dict[str, object]:
    asked = asdict(options) | {"dimensions": names, "reading": asdict(chats)}
    del asked["overwrite"], asked["retry_failed"]
    return {
        "input": [asdict(file) for file in files],
        "judge": signature,
        "asked": json.loads(json.dumps(asked, default=str)),
        "version": __version__,
    }


def _settled(out: Path, manifest: Mapping[str, object], overwrite: bool) -> bool:
    """Whether ``out`` is finished already; else it is made ready to begin, or to go on."""
    there = read_manifest(out) if out.exists() else None
    if overwrite and there is not None:
        shutil.rmtree(out)
        there = None
    if there is not None:
        for name in ("input", "judge", "asked"):
            if there[name] != manifest[name]:
                raise MedalError(
                    f"{out} was written with another {name}:\n    there: {there[name]}\n"
                    f"    now:   {manifest[name]}",
                    hint="give another --out, or --overwrite to start again from the beginning",
                )
        return "parts" in there
    if out.exists() and any(out.iterdir()):
        raise MedalError(
            f"{out} holds other files; it was left as it is", hint="give another --out"
        )
    atomic_write(out / MANIFEST, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return False
