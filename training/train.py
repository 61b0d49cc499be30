"""``accelerate launch training/train.py --config ...``: the same run by path."""

from __future__ import annotations

import runpy

if __name__ == "__main__":
    runpy.run_module("medal_judges.training", run_name="__main__")
