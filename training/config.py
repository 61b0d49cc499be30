"""The settings of a training run, in one typed object. An unknown key is an error."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union

from pydantic import Field, model_validator

from medal_judges.config import Config
from medal_judges.models.base.learned import LearnedJudge
from medal_judges.models.base.saving import FAMILIES as JUDGES
from medal_judges.models.base.trained import TrainedConfig
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.lora.adapters import LoraConfig
from medal_judges.reading.dialogues import ChatFileConfig
from medal_judges.training.arguments import check_arguments

# Family -> its settings. Each has a module of its name in training/families, or is in _FITS.
FAMILIES: dict[str, type[TrainedConfig]] = {
    "encoder": EncoderConfig,
    "linear": LinearConfig,
    "lora": LoraConfig,
}
Fit = Callable[..., Any]
_FITS: dict[str, Fit] = {}


def trains(
    kind: type[TrainedConfig], judge: type[LearnedJudge]
) -> Callable[[Fit], Fit]:
    """Returns a decorator that registers a training function for a new family of judges.

    The decorated ``fit(rows, trainer)`` gets a RunRows and a FamilyTrainer, and returns the trained
    judge.

    Args:
        kind: The class of the family's settings.
        judge: The class of the judges.
    """

    def register(fit: Fit) -> Fit:
        family = kind.model_fields["family"].default
        FAMILIES[family], _FITS[family] = kind, fit
        JUDGES[family] = f"{judge.__module__}:{judge.__name__}"
        TrainConfig.model_fields["model"].annotation = _union_of_settings()
        TrainConfig.model_rebuild(force=True)
        return fit

    return register


def training_function(family: str) -> Fit:
    """Returns the function ``fit(rows, trainer)`` that trains a judge of ``family``."""
    if family not in _FITS:
        module = import_module(f"medal_judges.training.families.{family}")
        _FITS[family] = module.fit
    return _FITS[family]


def _union_of_settings() -> Any:
    """Returns the union of the settings classes of all families, for pydantic."""
    return Union[tuple(FAMILIES.values())]  # noqa: UP007


if TYPE_CHECKING:
    ModelConfig = Any  # one of FAMILIES
else:
    ModelConfig = Annotated[_union_of_settings(), Field(discriminator="family")]


HeldOut = Literal["validation", "test"]
Rescale = Literal["standardise"] | tuple[float, float]


class DataEntry(ChatFileConfig):
    """One source of training, validation or test rows.

    ``source`` and the fields that say how to read it are those of ChatFileConfig. ``dimensions``
    maps the name of a label in the source to a dimension of the judge. It may be a list if the
    names are equal. None takes all names that the source and the judge share.

    ``rescale`` says how labels are mapped to the judge's scale. None maps the source's declared
    scale linearly. ``standardise`` maps the mean of the labels to the middle of the judge's scale,
    and their standard deviation to a fifth of that scale. It is for sources whose scale has no
    bounds, and for raters who use the scale in another way. A pair (low, high) replaces the
    declared scale. If low is the larger number, the scale is inverted. A mapping gives one of these
    values for each label.

    ``exclude_chatbots`` are chatbots whose rows are skipped. Dialogues with fewer turns than
    ``min_turns`` or more than ``max_turns`` are skipped too. ``limit`` is the number of rows to
    draw at random. None takes all. If a source is ``optional``, the run goes on without it when it
    cannot be read.

    ``plant`` injects issues into the dialogues (data_prep/perturbation). It has two keys.
    ``per_issue`` is the number of pairs of a changed dialogue and its matched control.
    ``clean_count`` is the number of unchanged dialogues. Training, validation and test rows get
    different injected sentences, so a judge is tested on sentences that it has not seen.
    """

    dimensions: dict[str, str] | tuple[str, ...] | None = None
    rescale: Rescale | dict[str, Rescale] | None = None
    exclude_chatbots: tuple[str, ...] = ()
    limit: int | None = Field(default=None, ge=1)
    min_turns: int = Field(default=2, ge=1)
    max_turns: int | None = Field(default=None, ge=1)
    plant: dict[Literal["per_issue", "clean_count"], int] | None = None
    optional: bool = False

    def rescale_of(self, label: str) -> Rescale | None:
        """Returns the ``rescale`` of ``label``, a label of the source. None maps its declared scale
        linearly."""
        if isinstance(self.rescale, dict):
            return self.rescale.get(label)
        return self.rescale


class TrainConfig(Config):
    """The settings of a training run.

    ``name`` is the name of the judge. ``output_dir`` is the folder of the judge and of the run's
    checkpoints. ``rubric`` is a file or a shipped name. ``only`` lists the dimensions of the rubric
    to learn. None means all that have labels. ``model`` holds the family and its settings. ``seed``
    seeds everything random. ``card_notes`` are sentences for the section "What it cannot do" of the
    judge's card.

    ``train`` are the sources of training rows. ``validation`` are the sources of the rows on which
    settings are chosen and the calibration is fitted. ``test`` are the sources of rows that are
    only scored after training. ``split`` can replace the last two: it gives the shares
    ``validation`` and ``test`` of the training rows that are held out. Rows of one group stay
    together. ``calibration`` is ``temperature`` (for heads with probabilities), ``isotonic`` (a
    monotone map of the score) or ``none``.

    The other fields are for families that are trained by steps. ``args`` are transformers'
    TrainingArguments under their own names. ``early_stopping_patience`` is the argument of
    transformers' EarlyStoppingCallback. ``start`` is the folder of a trained judge from whose
    weights training starts. A weight is copied if its name and shape are equal.
    """

    name: str
    output_dir: str
    rubric: str
    seed: int = 0
    only: tuple[str, ...] | None = None
    model: ModelConfig
    start: str | None = None
    train: tuple[DataEntry, ...]
    validation: tuple[DataEntry, ...] = ()
    test: tuple[DataEntry, ...] = ()
    split: dict[HeldOut, Annotated[float, Field(gt=0)]] = Field(default_factory=dict)
    args: dict[str, Any] = Field(default_factory=dict)
    early_stopping_patience: int | None = Field(default=None, ge=1)
    calibration: Literal["temperature", "isotonic", "none"] = "temperature"
    card_notes: tuple[str, ...] = ()

    @property
    def has_validation(self) -> bool:
        """Returns whether the run has validation rows."""
        return bool(self.validation or "validation" in self.split)

    @model_validator(mode="after")
    def _settings_fit(self) -> TrainConfig:
        twice = any(getattr(self, part) for part in self.split)
        if twice or sum(self.split.values()) >= 1:
            raise ValueError(
                "split: shares must add up to less than 1. Give a part entries or a share, not both"
            )
        if self.split and any(entry.plant is not None for entry in self.train):
            raise ValueError(
                "split divides labelled rows. For plant, give entries for each part"
            )
        if self.model.by_steps:
            patience = self.early_stopping_patience
            check_arguments(self.args, validated=self.has_validation, patience=patience)
            return self
        for name in ("args", "early_stopping_patience", "start"):
            if getattr(self, name):
                raise ValueError(
                    f"{name} is for judges trained by steps. Leave it out: one of family "
                    f"{self.model.family} is fitted at once, each dimension by itself"
                )
        return self
