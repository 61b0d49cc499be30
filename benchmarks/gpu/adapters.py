"""LoRA judges on a language model of four billion weights: steps, memory, and what is saved."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from medal_judges.models.base.golden import COARSE
from medal_judges.models.base.judge import Judge
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.training.steps import wait_and_close_process_group

from .encoder import largest, run_config, run_rows, scores, trained_judge
from .measure import (
    Agreement,
    Row,
    Setting,
    attempt,
    peak_gib,
    release,
    share_of_peak,
    step_times,
)
from .models import model_folder

BASE = "Qwen3-4B"
NEEDS = ("peft",)


def trained(
    setting: Setting, model: LoraConfig, allowed: float, **args: object
) -> Row | None:
    """A run of some steps: its speed and memory, and whether the judge that comes of it scores the
    same when it is saved and loaded. None on the processes that save nothing."""
    release()
    steps, size = setting.of(8, 3), setting.of(8, 2)
    with TemporaryDirectory() as folder, step_times() as times:
        rows = run_rows(setting, steps * size, setting.of((500, 600), (20, 40)))
        config = run_config(
            Path(folder), model, size, steps, learning_rate=1e-3, **args
        )
        judge = trained_judge(config, rows)
        used = peak_gib()
        wait_and_close_process_group()
        if judge is None:
            return None
        few = [example.dialogue for example in rows.train[:3]]
        ours = scores(judge, few)
        saved = judge.save_pretrained(Path(folder) / "judge")
        body = judge.net.config
        weight = (saved / "adapter_model.safetensors").stat().st_size / 2**20
        del judge
        release()
        again = scores(Judge.from_pretrained(saved, device=str(setting.device)), few)
    lengths = [n for each in times.lengths[times.warm_up :] for n in each]
    spent = sum(times.seconds[times.warm_up :])
    apart = Agreement(
        "saved and loaded",
        largest(ours, again),
        allowed,
        f", adapter of {weight:.0f} MiB",
    )
    return apart.row(
        tokens_per_s=times.speed,
        share=share_of_peak(
            body, lengths, spent, 2
        ),  # a frozen weight has no gradient of its own
        memory_gib=used,
    )


def config_of(setting: Setting, **settings: object) -> LoraConfig:
    """A LoRA judge on the 4B's shape."""
    body = model_folder(
        BASE, setting.folder, small=setting.small, device=setting.device
    )
    return LoraConfig(base=str(body), max_tokens=1024, **settings)  # type: ignore[arg-type]


def same_scores(setting: Setting) -> float:
    """Allowed difference between a judge in memory, whose base is in bf16 on a GPU, and the loaded
    one, which scores in fp32."""
    return 1e-4 if setting.device.type == "cpu" else COARSE


def _row(setting: Setting, model: LoraConfig, allowed: float, **args: object) -> Row:
    row = trained(setting, model, allowed, **args)
    assert row is not None, "the only process is the main one"
    return row


def adapters(setting: Setting) -> Iterator[Row]:
    """In one process: plain, with gradient checkpointing."""
    model, allowed = config_of(setting), same_scores(setting)
    yield attempt("plain", lambda: _row(setting, model, allowed), NEEDS)
    yield attempt(
        "gradient checkpointing",
        lambda: _row(setting, model, allowed, gradient_checkpointing=True),
        NEEDS,
    )


def sharded(setting: Setting) -> Iterator[Row]:
    """Under DeepSpeed, which ``accelerate launch`` started this process with."""
    model = config_of(setting)
    row: list[Row | None] = []

    def run() -> Row:
        allowed = same_scores(setting)
        row.append(trained(setting, model, allowed, gradient_checkpointing=True))
        return row[0] or Row("")

    found = attempt("gradient checkpointing", run, (*NEEDS, "deepspeed"))
    if not row or row[0] is not None:
        yield found


def quantised(setting: Setting) -> Iterator[Row]:
    """QLoRA: the base in four bits."""
    yield attempt(
        "nf4",
        lambda: _row(setting, config_of(setting, quantize="nf4"), COARSE),
        (*NEEDS, "bitsandbytes"),
    )
    yield attempt(
        "nf4, gradient checkpointing",
        lambda: _row(
            setting,
            config_of(setting, quantize="nf4"),
            COARSE,
            gradient_checkpointing=True,
        ),
        (*NEEDS, "bitsandbytes"),
    )
