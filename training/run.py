"""One training run from its config to a saved judge that a fresh process has checked.

In training by steps every process takes part; then the group is closed and the main one finishes.
Nothing slow happens while other processes wait (NCCL would give up after minutes): test sets and
golden scores are scored, and the judge is checked, after the group is closed.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from medal_judges.config import load_config
from medal_judges.errors import ConfigError
from medal_judges.models.base.golden import (
    GoldenSetting,
    check_in_fresh_process,
    setting_for,
    write_golden,
)
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import save_judge
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.judge import EncoderJudge
from medal_judges.models.feature.judge import FeatureConfig, FeatureJudge
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE, base_language
from medal_judges.records.dimension import Dimension, load_rubric
from medal_judges.records.signature import content_hash
from medal_judges.report.console import ProgressBar
from medal_judges.storage.files import atomic_write, only_run
from medal_judges.training.agreement import (
    AGREEMENT_NAME,
    ScoredExamples,
    agreement,
    baseline_scores,
    judge_scores,
    scores_of_logits,
)
from medal_judges.training.card.card import write_card
from medal_judges.training.config import TrainConfig
from medal_judges.training.families.encoder import EncoderTask, balance_heads, fit_turn_means
from medal_judges.training.loop.accelerator import (
    log_figures,
    make_accelerator,
    strategy,
    whole_weights,
)
from medal_judges.training.loop.calibration import fit_calibrations
from medal_judges.training.loop.loop import TrainingLoop
from medal_judges.training.loop.task import means_over_dimensions
from medal_judges.training.rows import Columns, RunRows, TrainingExample, load_rows, spread

if TYPE_CHECKING:
    from accelerate import Accelerator

# The settings that the weights do not depend on. A resumed run may move its folder or its log, and
# share its batches among another number of processes (see load_checkpoint).
_UNIMPORTANT = {
    *("output_dir", "log_with", "log_steps", "threads", "name", "calibration", "answered_rows"),
}

logger = logging.getLogger(__name__)


def train(config: str | Path, overrides: Sequence[str] = (), *, resume: bool = False) -> Path:
    """Train a judge and save it; returns its folder, the config's ``output_dir``.

    ``config`` is a YAML file or the name of one in configs/train/, ``overrides`` are
    ``field=value``; ``resume`` continues from the newest checkpoint. Raises ConfigError, and what
    ``train_judge`` raises.

    >>> from medal_judges import Judge, train
    >>> overrides = ["rubric=overall", "train=[{source: labelled.jsonl}]", "output_dir=judge"]
    >>> folder = train("baseline_length", overrides)
    >>> Judge.from_pretrained(folder).family
    'feature'
    """
    return train_judge(load_config(TrainConfig, config, overrides, folder="train"), resume=resume)


def train_judge(config: TrainConfig, *, resume: bool = False) -> Path:
    """Train, calibrate, save and check the judge of ``config``; returns its folder.

    With several processes, all take part in training by steps; the main one does everything else.
    Families without steps are fitted by the main process alone. Raises LeakError if training and
    held-out rows share a dialogue, JudgeLoadError if the saved judge does not score the same in a
    fresh process, and MedalError if another run writes to that folder.
    """
    folder = Path(config.output_dir)
    if not (config.by_steps or is_main()):
        return folder
    if config.threads:
        torch.set_num_threads(config.threads)
    with only_run(folder) if is_main() else nullcontext():
        dimensions = load_rubric(config.rubric)
        rows = load_rows(config, dimensions)
        learnt = learnable(dimensions, rows, config.only)
        if config.start and (known := Path(config.start) / "data.json").is_file():
            # The judge has learnt from these rows too: the card and medal benchmark say so.
            before = json.loads(known.read_text(encoding="utf-8"))
            rows.facts += [one | {"part": "start"} for one in before if one["part"] == "train"]
        if config.by_steps:
            train_by_steps(config, learnt, rows, resume)
        else:
            judge, figures = _fit(config, learnt, rows)
            finish(config, judge, rows, figures)
        if is_main():
            write_card(folder)
    return folder


def is_main() -> bool:
    """Whether this is the process that saves; launchers number theirs."""
    return int(os.environ.get("RANK", "0")) == 0


def learnable(
    dimensions: Sequence[Dimension], rows: RunRows, only: Sequence[str] | None = None
) -> list[Dimension]:
    """Dimensions (of ``only``) with at least one training label; a head without any would answer
    at random. Raises ConfigError for a name that the rubric does not have."""
    if unknown := set(only or ()) - {d.name for d in dimensions}:
        raise ConfigError(
            f"only: the rubric has no dimension {', '.join(sorted(unknown))}",
            hint=f"it has: {', '.join(d.name for d in dimensions)}",
        )
    dimensions = [d for d in dimensions if only is None or d.name in only]
    labelled = Columns.of(rows.train).targets
    if left := [d.name for d in dimensions if d.name not in labelled]:
        if len(left) == len(dimensions):
            hint = "an entry's columns: FILE maps columns, dimensions: {LABEL: DIMENSION} labels"
            raise ConfigError(f"no training row has a label of {', '.join(left)}", hint=hint)
        logger.warning("no training labels for %s: the judge will not have them", ", ".join(left))
    return [d for d in dimensions if d.name in labelled]


def _fit(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows
) -> tuple[Judge, dict[str, float]]:
    """The judge of a family that is fitted at once, and its figures on rows it did not learn."""
    model = config.model
    if model.family == "hybrid":
        from medal_judges.training.families.hybrid import fit_hybrid

        return fit_hybrid(config, rows.train, dimensions)
    if model.family == "embedding":
        from medal_judges.training.families.embedding import fit_embedding_judge

        return fit_embedding_judge(config, rows, dimensions)
    assert isinstance(model, FeatureConfig)
    return FeatureJudge.fit(model, rows.train, dimensions, name=config.name), {}


def finish(
    config: TrainConfig,
    judge: Judge,
    rows: RunRows,
    figures: Mapping[str, float],
    scored: Mapping[str, ScoredExamples] | None = None,
    setting: GoldenSetting | None = None,
) -> None:
    """Save the judge and the facts of its run, and check it in a fresh process.

    ``scored`` has the scores that are known, by part of the data; the judge scores the other
    held-out rows here, unless it is a hybrid (a member may cost money). ``setting``: device and
    precision of its golden scores.
    """
    if judge.languages is None:
        languages = {base_language(example.dialogue.lang) for example in rows.train}
        judge.languages = tuple(sorted(languages - {UNKNOWN_LANGUAGE})) or None
    folder = save_judge(judge, Path(config.output_dir))
    known = dict(scored or {})
    for part, examples in (("validation", rows.validation), ("test", rows.test)):
        if part in known or not examples:
            continue
        if judge.family == "hybrid":
            logger.warning("a hybrid does not score its %s rows: use medal benchmark", part)
            continue
        known[part] = score_examples(judge, examples, config)
    agreements = []
    for part, one in known.items():
        dimensions = [d for d in judge.dimensions if d.name in one.scores]
        plain = baseline_scores(one.examples, dimensions)
        agreements += [asdict(row) for row in agreement(one, plain, dimensions, part)]
    # The folder may be published: it says nothing about where it and its base are on this disk.
    public = config.model_dump(mode="json") | {"output_dir": folder.name}
    base = public["model"].get("base")
    if base and Path(base).is_dir():
        public["model"]["base"] = Path(base).resolve().name
    if config.start:
        public["start"] = Path(config.start).resolve().name
    written = {
        "train_config.json": public,
        "validation.json": dict(figures),
        AGREEMENT_NAME: agreements,
        "data.json": rows.facts,
    }
    for name, value in written.items():
        atomic_write(folder / name, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    setting = setting or GoldenSetting()
    judge.place(setting.device, setting.dtype)
    write_golden(judge, folder, setting)
    check_in_fresh_process(folder, judge.load_options())


def score_examples(
    judge: Judge, examples: Sequence[TrainingExample], config: TrainConfig
) -> ScoredExamples:
    """The judge's scores of ``examples``; of ``answered_rows`` of them, drawn, if it is generative,
    which takes seconds a dialogue."""
    from medal_judges.models.prompted.judge import PromptedJudge

    chosen, writes = examples, isinstance(judge, PromptedJudge)
    if writes and len(examples) > config.answered_rows:
        order = np.random.default_rng(config.seed).permutation(len(examples))
        chosen = [examples[i] for i in sorted(order[: config.answered_rows])]
    with ProgressBar("answering held-out rows", len(chosen), visible=writes) as bar:
        return ScoredExamples(chosen, judge_scores(judge, chosen, bar.advance))


# -- training by steps ----------------------------------------------------------------------------


@dataclass(slots=True)
class TrainingResult:
    """A judge after its steps, whole on the main process only: its validation figures, and its
    scores by part of the data (validation, test)."""

    judge: Any
    precision: str
    figures: dict[str, float] = field(default_factory=dict)
    scored: dict[str, ScoredExamples] = field(default_factory=dict)


def train_by_steps(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> None:
    """Train the judge of ``config``, or one a dimension; when this returns it is saved and
    checked."""
    if config.per_dimension:
        _train_per_dimension(config, dimensions, rows, resume)
        return
    accelerator = make_accelerator(config)
    trained = train_one(config, dimensions, rows, resume, accelerator)
    accelerator.wait_for_everyone()
    accelerator.end_training()
    if accelerator.is_main_process:
        judge = trained.judge
        writes = bool(judge.language_models())
        setting = setting_for(judge.net, judge.device.type, trained.precision, writes=writes)
        finish(config, judge, rows, trained.figures, trained.scored, setting)


def train_one(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    rows: RunRows,
    resume: bool,
    accelerator: Accelerator,
) -> TrainingResult:
    """Take the steps of one judge, on every process, and calibrate it."""
    torch.manual_seed(config.seed)
    with whole_weights():
        judge = new_judge(config, dimensions, rows.train, accelerator.device)
        if config.start:
            copy_start(judge, Path(config.start))
    torch.manual_seed(config.seed)
    settings = config.model_dump(exclude=_UNIMPORTANT)
    del settings["optim"]["gradient_accumulation"]
    run_hash = content_hash([settings, rows.facts])
    loop = start_loop(config, judge, rows.train, rows.validation, run_hash, accelerator)
    progress = loop.run(resume)
    trained = TrainingResult(judge, loop.precision)
    if rows.validation:
        trained.figures, logits = loop.validate()
        log_figures(accelerator, "final", trained.figures, progress.step)
        heads = loop.task.heads
        judge.calibration = fit_calibrations(rows.validation, logits, heads, config.calibration)
        if heads:  # a generative judge has none, and scores its rows later
            scores = scores_of_logits(heads, logits, judge.calibration)
            trained.scored["validation"] = ScoredExamples(rows.validation, scores)
    judge.facts = {
        "seed": config.seed,
        "steps": progress.step,
        "best_step": progress.best_step,
        "processes": accelerator.num_processes,
        "strategy": strategy(accelerator),
        **loop.facts,
        "data": content_hash(rows.facts),
    }
    loop.release()
    if accelerator.is_main_process:
        judge.net.to(accelerator.device).eval()
        judge.device = accelerator.device
        if isinstance(judge, EncoderJudge):
            # A thousand turns are enough for a mean.
            fit_turn_means(judge, [example.dialogue for example in spread(rows.train, 64)])
    return trained


def new_judge(
    config: TrainConfig,
    dimensions: Sequence[Dimension],
    train: Sequence[TrainingExample],
    device: torch.device,
) -> Any:
    """The judge that the loop trains, with new heads, on ``device``."""
    model, name = config.model, config.name
    if isinstance(model, EncoderConfig):
        heads = balance_heads(model, train)
        return EncoderJudge.create(heads, dimensions, name=name, device=device)
    from medal_judges.models.lora.adapters import LoraConfig
    from medal_judges.models.lora.generative import GenerativeLoraJudge
    from medal_judges.models.lora.judge import LoraJudge

    assert isinstance(model, LoraConfig)
    if model.head == "scoring":
        return LoraJudge.create(model, dimensions, name=name, device=device)
    return GenerativeLoraJudge.create(
        model, dimensions, name=name, rubric=config.rubric, device=device
    )


def copy_start(judge: Any, folder: Path) -> None:
    """Copies to ``judge`` the weights of the judge in ``folder`` that fit it by name and shape.
    Raises ConfigError if none does."""
    from safetensors.torch import load_file

    def plain(name: str) -> str:  # the files of a LoRA judge leave these parts out
        return name.replace(".default.", ".").removeprefix("body.").removeprefix("scorers.")

    files = [*folder.glob("*.safetensors"), *folder.glob("adapter/*.safetensors")]
    saved = {plain(name): value for file in files for name, value in load_file(file).items()}
    own = {plain(name): value for name, value in judge.net.state_dict().items()}
    fitting = [name for name in saved if name in own and own[name].shape == saved[name].shape]
    if not fitting:
        raise ConfigError(
            f"start: none of the {len(saved)} tensors in {folder} fits by name and shape",
            hint="start from a folder that medal train wrote with the same model settings",
        )
    for name in fitting:
        own[name].copy_(saved[name])
    logger.warning("start: copied %s of %s tensors of %s", len(fitting), len(saved), folder)


def start_loop(
    config: TrainConfig,
    judge: Any,
    train: Sequence[TrainingExample],
    validation: Sequence[TrainingExample],
    run_hash: str,
    accelerator: Accelerator | None = None,
) -> TrainingLoop:
    """The loop that trains ``judge``, with the data and the objective of its family."""
    accelerator = accelerator or make_accelerator(config)
    family: Any = EncoderTask
    if not isinstance(judge, EncoderJudge):
        from medal_judges.training.families.lora import LoraTask

        family = LoraTask
    task = family(config, judge, train, validation, accelerator.device)
    return TrainingLoop(config, task, run_hash, accelerator)


# -- one judge a dimension ------------------------------------------------------------------------


def _train_per_dimension(
    config: TrainConfig, dimensions: Sequence[Dimension], rows: RunRows, resume: bool
) -> None:
    """Train a judge for each dimension (ORALIS, sections 4.3 and 4.4), in one group of processes;
    then save all as one."""
    from medal_judges.models.hybrid.judge import HybridJudge, MemberSelection
    from medal_judges.models.hybrid.members import Member

    figures: dict[str, float] = {}
    scored: list[dict[str, ScoredExamples]] = []
    configs = {d.name: dimension_config(config, d.name) for d in dimensions}
    for dimension in dimensions:
        one = configs[dimension.name]
        accelerator = make_accelerator(one)
        trained = train_one(one, [dimension], rows, resume, accelerator)
        if accelerator.is_main_process:
            save_judge(trained.judge, Path(one.output_dir))
        figures |= {key: value for key, value in trained.figures.items() if "/" in key}
        scored.append(trained.scored)
        for tracker in accelerator.trackers:  # before the next judge starts its own
            tracker.finish()
        accelerator.trackers = []
        del trained  # one net at a time: they are loaded again when the group is closed
        accelerator.wait_for_everyone()
    accelerator.wait_for_everyone()
    accelerator.end_training()
    if not accelerator.is_main_process:
        return
    for one, known in zip(configs.values(), scored, strict=True):
        judge = Judge.from_pretrained(one.output_dir, device=accelerator.device)
        for part, examples in (("validation", rows.validation), ("test", rows.test)):
            if part not in known and examples:
                known[part] = score_examples(judge, examples, one)
    members = {n: Member(n, Judge.from_pretrained(c.output_dir), {}) for n, c in configs.items()}
    facts = {"seed": config.seed, "per_dimension": True}
    choices = MemberSelection({name: name for name in members})
    whole = HybridJudge(members, choices, dimensions, name=config.name, facts=facts)
    together = {
        part: ScoredExamples(
            first.examples, {k: v for known in scored for k, v in known[part].scores.items()}
        )
        for part, first in scored[0].items()
    }
    finish(config, whole, rows, figures | means_over_dimensions(figures), together)


def dimension_config(config: TrainConfig, dimension: str) -> TrainConfig:
    """The run of one dimension: the same data and settings in a folder of the whole judge's."""
    return config.model_copy(
        update={
            "name": f"{config.name}_{dimension}",
            "output_dir": str(Path(config.output_dir) / "members" / dimension),
            "per_dimension": False,
            "only": (dimension,),
        }
    )
