"""Silences messages of libraries that a user cannot act on."""

from __future__ import annotations

import logging
import os
import sys
from functools import partial

# Logger -> beginning of its useless messages. DeepSpeed reports that there is no GPU, on standard
# output, between the rows that a script reads there; bitsandbytes misses a kernel that is not used.
_NOISE = {
    "DeepSpeed": "Setting accelerator to",
    "bitsandbytes.backends.cpu.ops": "Failed to load CPU gemm_4bit_forward",
}


def quiet_foreign_logs() -> None:
    """Silences the messages of _NOISE and, without a terminal, the progress bars of transformers
    and huggingface_hub. Call it before these libraries are imported."""
    for name, start in _NOISE.items():
        logging.getLogger(name).addFilter(partial(_is_useful, start))
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")


def _is_useful(start: str, record: logging.LogRecord) -> bool:
    return not record.getMessage().startswith(start)
