"""What libraries say of themselves while a command runs, and nobody can act on: left out."""

from __future__ import annotations

import logging
import os
import sys

# Logger -> what opens messages of it that tell a user nothing: that a machine without a GPU has
# none, and that an optional kernel of a quantization that is not asked for is not installed.
# DeepSpeed writes to standard output, between the rows that a script reads there.
_NOISE = {
    "DeepSpeed": "Setting accelerator to",
    "bitsandbytes.backends.cpu.ops": "Failed to load CPU gemm_4bit_forward",
}


class _Without(logging.Filter):
    """Passes all messages but those that begin so."""

    def __init__(self, opening: str) -> None:
        super().__init__()
        self.opening = opening

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.getMessage().startswith(self.opening)


def quiet_foreign_logs() -> None:
    """Leave out the messages of _NOISE, and the bars of transformers and huggingface_hub ("Loading
    weights") where standard error is no terminal: in a log each is a line of its own.

    To be called before these libraries are imported. HF_HUB_DISABLE_PROGRESS_BARS=0 keeps the bars.
    """
    for name, opening in _NOISE.items():
        logger = logging.getLogger(name)
        if not any(isinstance(each, _Without) for each in logger.filters):
            logger.addFilter(_Without(opening))
    if not sys.stderr.isatty():
        os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
