"""``medal score --ray``: chats judged by a Ray cluster into a folder of parquet parts.

Ray Data reads, schedules, retries what a lost process or machine had, and keeps what is done: a
part is committed in two steps with the numbers of its rows beside it, so that a run that is started
again judges only what no part has.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from medal_judges import __version__
from medal_judges.errors import ConfigError, MedalError, MissingExtraError
from medal_judges.files import atomic_write
from medal_judges.inference.judge_choice import JudgeChoice
from medal_judges.inference.scoring import ScoreOptions, ScoreReport
from medal_judges.judgement import Judgement, parse_judgement
from medal_judges.reading.options import ReadOptions

T = TypeVar("T")
MANIFEST = "manifest.json"
_PARTS, _DONE = "parts", ".checkpoint"
ROWS_A_PART = 10_000


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """``address``: of a cluster (``auto``, ``HOST:6379``), or ``local``. Each judge has ``cpus``
    and ``gpus`` of a machine for itself; there are as many as fit, or ``judges``."""

    address: str
    judges: int | None = None
    cpus: float = 1
    gpus: float = 0
    rows_a_part: int = ROWS_A_PART


def score_on_ray(
    source: str,
    choice: JudgeChoice,
    out: Path,
    cluster: ClusterOptions,
    options: ScoreOptions,
    chats: ReadOptions,
) -> ScoreReport:
    """Judge the chats of ``source`` (parquet, JSONL or a folder of such, which all machines see
    under this name) into ``out``: parts/*.parquet and manifest.json.

    An unfinished run is resumed by part, a finished one only reported. Raises MedalError where
    ``out`` is of another judge, input or options, and what a judge raises; ConfigError where it is
    no folder.
    """
    try:
        import ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray", "medal score --ray") from error
    from medal_judges.inference.cluster.actor import described

    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file", hint="--ray writes a folder: give another --out")
    start = time.perf_counter()
    ray.init(address=cluster.address, log_to_driver=False, ignore_reinit_error=True)
    try:
        told = _own(lambda: ray.get(ray.remote(described).remote(choice, options)))
        signature, names, window = told
        manifest = _manifest(source, signature, names, options)
        before = _settled(out, manifest, options.overwrite)
        if not before:
            _judge(source, choice, out, cluster, options, chats, window)
            _finish(out, manifest)
    finally:
        ray.shutdown()
    report = ScoreReport()
    for judgement in read_parts(out):
        report.add(judgement)
    report.resumed = report.total if before else 0
    report.dialogues = 0 if before else report.total
    report.seconds = time.perf_counter() - start
    return report


def _judge(
    source: str,
    choice: JudgeChoice,
    out: Path,
    cluster: ClusterOptions,
    options: ScoreOptions,
    chats: ReadOptions,
    window: int,
) -> None:
    from ray.data import ActorPoolStrategy, DataContext
    from ray.data.checkpoint import CheckpointConfig

    from medal_judges.inference.cluster.actor import ClusterJudge
    from medal_judges.inference.cluster.reading import ROW, chat_rows

    context = DataContext.get_current()
    context.checkpoint_config = CheckpointConfig(
        id_column=ROW,
        checkpoint_path=str((out / _DONE).absolute()),
        delete_checkpoint_on_success=False,
    )
    pool = (
        ActorPoolStrategy(size=cluster.judges)
        if cluster.judges
        else ActorPoolStrategy(min_size=1, max_size=_fitting(cluster))
    )
    judged = chat_rows(source).map_batches(
        ClusterJudge,
        fn_constructor_args=(choice, options, chats),
        batch_format="pyarrow",
        batch_size=window,
        compute=pool,
        num_cpus=cluster.cpus,
        num_gpus=cluster.gpus or None,
    )
    parts = str((out / _PARTS).absolute())
    _own(lambda: judged.write_parquet(parts, min_rows_per_file=cluster.rows_a_part))


def _fitting(cluster: ClusterOptions) -> int:
    """Judges that the machines of the cluster have room for now."""
    import ray

    there = ray.cluster_resources()
    room = [there.get("CPU", 1) / cluster.cpus] if cluster.cpus else []
    room += [there.get("GPU", 0) / cluster.gpus] if cluster.gpus else []
    return max(1, int(min(room)))


def _own(run: Callable[[], T]) -> T:
    """``run()``; an error of ours that Ray carried from another machine is raised as it was."""
    try:
        return run()
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None:
            inner = getattr(cause, "cause", None)
            for each in (cause, inner):
                if isinstance(each, MedalError) and hasattr(each, "message"):
                    fresh = MedalError(each.message, hint=each.hint)
                    vars(fresh).update({"exit_code": getattr(each, "exit_code", 2)})
                    raise fresh from error
            cause = cause.__cause__ or (inner if isinstance(inner, BaseException) else None)
        raise


def _manifest(
    source: str, signature: str, names: list[str], options: ScoreOptions
) -> dict[str, object]:
    asked = asdict(options)
    asked.pop("overwrite")
    asked.pop("retry_failed")
    asked["dimensions"] = names
    return {
        "input": source,
        "judge": signature,
        "asked": json.loads(json.dumps(asked)),
        "version": __version__,
    }


def _settled(out: Path, manifest: Mapping[str, object], overwrite: bool) -> bool:
    """Whether ``out`` is finished already; else it is made ready to begin, or to go on."""
    path = out / MANIFEST
    if overwrite and path.exists():
        shutil.rmtree(out)
    if path.exists():
        there = json.loads(path.read_text(encoding="utf-8"))
        for name in ("input", "judge", "asked"):
            if there.get(name) != manifest[name]:
                raise MedalError(
                    f"{out} was written with another {name}:\n    there: {there.get(name)}\n"
                    f"    now:   {manifest[name]}",
                    hint="give another --out, or --overwrite to start again from the beginning",
                )
        return "parts" in there
    if out.exists() and any(out.iterdir()):
        raise MedalError(
            f"{out} holds other files; it was left as it is", hint="give another --out"
        )
    atomic_write(path, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return False


def _finish(out: Path, manifest: Mapping[str, object]) -> None:
    """Name the parts and their rows in the manifest: a run with such is finished."""
    from pyarrow.parquet import ParquetFile

    parts = []
    for part in _parts(out):
        with ParquetFile(part) as file:
            parts.append({"file": f"{_PARTS}/{part.name}", "rows": file.metadata.num_rows})
    whole = {**manifest, "rows": sum(part["rows"] for part in parts), "parts": parts}
    atomic_write(out / MANIFEST, json.dumps(whole, indent=2, ensure_ascii=False) + "\n")
    shutil.rmtree(out / _DONE, ignore_errors=True)


def _parts(out: Path) -> list[Path]:
    return sorted((out / _PARTS).glob("*.parquet"))


def read_parts(out: Path) -> Iterator[Judgement]:
    """The judgements of a folder that ``score_on_ray`` wrote, part by part."""
    from pyarrow.parquet import ParquetFile

    for part in _parts(out):
        with ParquetFile(part) as file:
            for batch in file.iter_batches(4096, columns=["judgements"]):
                for lines in batch.column(0).to_pylist():
                    yield from (parse_judgement(json.loads(line)) for line in lines)
