"""Where the processes of a pool run: cores and GPUs shared out."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

# What the libraries below a judge take their number of threads from when they are loaded.
_THREADS = ("OMP_NUM_THREADS", "RAYON_NUM_THREADS")
_VISIBLE = "CUDA_VISIBLE_DEVICES"
_QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "TQDM_DISABLE": "1"}


def worker_environments(workers: int, device: str | None = None) -> list[dict[str, str]]:
    """What to set in the environment of each of ``workers`` processes before it starts.

    Threads: cores by workers, or what the environment says where that is fewer. GPUs: one a
    process, in turn, and each process sees its own alone; with a ``device`` of its own number
    (``cuda:1``), or ``cpu``, that is left as it is. The bars of libraries are not shown.
    """
    threads = max(1, cores() // workers)
    shared = {name: str(min(threads, _stated(name) or threads)) for name in _THREADS}
    gpus = visible_gpus() if device in (None, "cuda") else []
    placed = [{_VISIBLE: gpus[i % len(gpus)]} if gpus else {} for i in range(workers)]
    return [{**_QUIET, **shared, **own} for own in placed]


def cores() -> int:
    """Cores that this process may use: of its affinity, and of its container."""
    from joblib import cpu_count

    return int(cpu_count())


def visible_gpus() -> list[str]:
    """GPUs as CUDA_VISIBLE_DEVICES names them; none where there is no driver for them, which is
    found out without loading torch."""
    stated = os.environ.get(_VISIBLE)
    if stated is not None:
        return [each.strip() for each in stated.split(",") if each.strip() not in ("", "-1")]
    if not _has_driver():
        return []
    import torch

    return [str(index) for index in range(torch.cuda.device_count())]


def _has_driver() -> bool:
    names = ["nvcuda.dll"] if sys.platform == "win32" else ["libcuda.so.1", "libamdhip64.so"]
    for name in names:
        try:
            ctypes.CDLL(name)
        except OSError:
            continue
        return True
    return False


def _stated(name: str) -> int | None:
    value = os.environ.get(name, "")
    return int(value) if value.isdigit() and int(value) else None


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """``changes`` stand in this process's environment, for a process that inherits it."""
    before = {name: os.environ.get(name) for name in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
