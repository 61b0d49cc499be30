"""The settings of a training run, as one typed object; unknown keys are refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from medal_judges.config import Config
from medal_judges.models.embedding.config import EmbeddingConfig
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.feature.judge import FeatureConfig
from medal_judges.models.hybrid.config import HybridConfig
from medal_judges.models.lora.config import LoraConfig
from medal_judges.reading.options import ChatFileConfig


def _no_is_text(value: object) -> object:
    """YAML reads a bare ``no`` as false."""
    return "no" if value is False else value


def _one_is_a_list(value: object) -> object:
    return () if value in (None, "none") else [value] if isinstance(value, str) else value


Precision = Annotated[Literal["auto", "no", "bf16", "fp16"], BeforeValidator(_no_is_text)]


Rescale = Literal["standardise"] | tuple[float, float]


class PlantConfig(Config):
    """Inject issues into the dialogues of a source (data_prep/perturbation): ``per_issue`` pairs of
    an injected dialogue and its matched control, and ``clean_count`` untouched ones. ``split`` says
    which part of the sentence tables is used, so that a judge is tested on others."""

    issues: tuple[str, ...] | None = None
    strengths: tuple[int, ...] = (1, 2, 3)
    split: Literal["train", "val", "test"] = "train"
    per_issue: int | None = Field(default=None, ge=1)
    clean_count: int | None = Field(default=None, ge=0)


class DataEntry(ChatFileConfig):
    """One source of training, validation or test rows.

    ``source`` and how it is read: see ChatFileConfig. ``dimensions`` maps the source's
    dimension to the judge's (a list keeps the names; None takes all that both have). ``rescale``:
    None maps the source's declared scale to the judge's, linearly; ``standardise`` sets the
    source's mean to the middle of the judge's scale and its standard deviation to a fifth of it
    (for sources without bounds, or rated in another spirit); (low, high) overrides the declared
    scale, and turns it where low is the higher. A mapping says it for each of the source's
    dimensions. Dialogues with fewer turns than ``min_turns`` or more than ``max_turns`` are left
    out.
    ``limit`` takes that many rows, drawn by the run's seed, after the first ``skip`` of them.
    ``plant`` replaces the rows by injected ones. An ``optional`` source may be missing.
    """

    dimensions: dict[str, str] | tuple[str, ...] | None = None
    rescale: Rescale | dict[str, Rescale] | None = None
    exclude_chatbots: tuple[str, ...] = ()
    weight: float = Field(default=1.0, gt=0)
    limit: int | None = Field(default=None, ge=1)
    skip: int = Field(default=0, ge=0)
    min_turns: int = Field(default=2, ge=1)
    max_turns: int | None = Field(default=None, ge=1)
    plant: PlantConfig | None = None
    optional: bool = False


class OptimConfig(Config):
    """Optimisation, by gradient steps or (linear net, frozen body) in closed form.

    ``batch_size`` counts dialogues a step and process; a batch of long ones is
    cut so that it holds at most ``batch_tokens`` padded tokens. ``gradient_checkpointing`` keeps
    one layer's activations at a time, for about a third more time; ``liger`` uses Liger's kernels
    for the body's norms and gated layers (a GPU, and the extra of that name). ``mixed_precision``
    is that of all passes of training; ``auto`` is bf16 on a GPU that has it, and of a frozen body
    also on a CPU that has it; ``no`` is fp32 throughout."""

    solver: Literal["gradient", "ridge"] = "gradient"
    embedding_share: float = Field(default=0.2, ge=0)  # ridge only, see training/encoder/ridge.py
    epochs: float = Field(default=3, gt=0)
    batch_size: int = Field(default=16, ge=1)
    batch_tokens: int = Field(default=16384, ge=64)
    gradient_accumulation: int = Field(default=1, ge=1)
    lr: float = Field(default=1e-3, gt=0)
    body_lr: float = Field(default=2e-5, gt=0)
    layer_decay: float = Field(default=1.0, gt=0, le=1)
    weight_decay: float = Field(default=0.01, ge=0)
    warmup: float = Field(default=0.1, ge=0, lt=1)
    schedule: Literal["linear", "cosine", "constant"] = "linear"
    clip: float = Field(default=1.0, gt=0)
    mixed_precision: Precision = "auto"
    length_grouped: bool = True
    gradient_checkpointing: bool = False
    liger: bool = False


class StopConfig(Config):
    """Early stopping on a figure of validation: ``loss``, or ``spearman/DIM``, ``auc/DIM``,
    ``spearman`` or ``auc`` for the mean over dimensions. ``patience`` None never stops early, and
    ``keep`` says whether the best or the last weights are saved."""

    metric: str = "loss"
    patience: int | None = Field(default=None, ge=1)
    keep: Literal["best", "last"] = "best"

    @property
    def higher_is_better(self) -> bool:
        return self.metric != "loss"


class TrainConfig(Config):
    """A training run. ``trainable_layers``: how many top layers of the body learn (None = the
    whole body, 0 = none: then each distinct turn is encoded once for the whole run). ``only`` of
    the rubric's dimensions are learnt (None: all that have labels). ``per_dimension`` trains a
    judge for each of them alone and saves them as one, instead of one body with many heads. A
    judge that writes its answers is asked for ``answered_rows`` of the validation and of the test
    rows. ``card_notes`` are sentences for the card's "What it cannot do": what the maker knows and
    the run does not. ``log_with``: any trackers that Accelerate knows (tensorboard, wandb, mlflow,
    trackio, ..., or all), told the settings, the training loss every ``log_steps`` steps, and the
    figures of validation."""

    name: str
    output_dir: str
    rubric: str
    seed: int = 0
    only: tuple[str, ...] | None = None
    per_dimension: bool = False
    model: EmbeddingConfig | EncoderConfig | FeatureConfig | HybridConfig | LoraConfig = Field(
        discriminator="family"
    )
    trainable_layers: int | None = Field(default=None, ge=0)
    train: tuple[DataEntry, ...]
    validation: tuple[DataEntry, ...] = ()
    test: tuple[DataEntry, ...] = ()  # never learnt from; scored when the judge is done
    optim: OptimConfig = Field(default_factory=OptimConfig)
    stop: StopConfig = Field(default_factory=StopConfig)
    soft_labels: bool = False  # several annotators as a distribution instead of their mean
    source_offsets: bool = False  # an offset a source and dimension, learnt and left out at scoring
    calibration: Literal["temperature", "isotonic", "none"] = "temperature"
    answered_rows: int = Field(default=200, ge=1)
    checkpoint_steps: int | None = Field(default=None, ge=1)  # None: at each end of epoch
    threads: int | None = Field(default=None, ge=1)
    log_with: Annotated[tuple[str, ...], BeforeValidator(_one_is_a_list)] = ()
    log_steps: int = Field(default=10, ge=1)
    card_notes: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _early_stopping_needs_validation(self) -> TrainConfig:
        if not self.validation and (self.stop.patience or self.stop.keep == "best"):
            raise ValueError(
                "stop.patience and stop.keep=best (the default) need validation rows; "
                "give validation entries or set stop.keep=last and stop.patience=null"
            )
        return self

    @model_validator(mode="after")
    def _only_steps_are_logged(self) -> TrainConfig:
        if self.log_with and not isinstance(self.model, EncoderConfig | LoraConfig):
            raise ValueError(
                f"log_with is for judges trained by steps; one of family {self.model.family} is "
                "fitted at once: leave it out"
            )
        return self

    @model_validator(mode="after")
    def _others_are_apart_already(self) -> TrainConfig:
        if self.per_dimension and not isinstance(self.model, EncoderConfig | LoraConfig):
            raise ValueError(
                f"per_dimension is for judges trained by steps; a judge of family "
                f"{self.model.family} fits each dimension by itself: leave it out"
            )
        return self

    @model_validator(mode="after")
    def _a_body_that_learns_is_saved(self) -> TrainConfig:
        model = self.model
        if isinstance(model, EncoderConfig) and not model.save_body and self.trainable_layers != 0:
            raise ValueError("model.save_body: false needs a frozen body: trainable_layers: 0")
        return self

    @model_validator(mode="after")
    def _closed_forms_need_a_frozen_body(self) -> TrainConfig:
        model = self.model
        if not isinstance(model, EncoderConfig):
            return self
        needs = "optim.solver: ridge" if self.optim.solver == "ridge" else "model.reply"
        if needs == "model.reply" and model.reply is None:
            return self
        if model.shape != "hierarchical" or self.trainable_layers != 0:
            raise ValueError(
                f"{needs} reads each turn's embedding once: "
                "set model.shape: hierarchical and trainable_layers: 0"
            )
        if self.optim.solver == "ridge" and model.pooling != "role":
            raise ValueError(
                "optim.solver: ridge solves the mean over a role's turns, so that "
                f"model.pooling: {model.pooling} would score with other numbers than were solved: "
                "set model.pooling: role, or optim.solver: gradient"
            )
        return self
