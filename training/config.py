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
    """Returns a decorator that registers the training function of a family (a kind of judge, such
    as ``linear``).

    The decorated function ``fit(rows, run)`` gets the labelled dialogues (RunRows) and the settings
    (TrainingRun). It returns the trained judge.

    Args:
        kind: The class of the family's settings, such as ``LinearConfig``.
        judge: The class of the trained judges, such as ``LinearJudge``.
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
    """Returns the function ``fit(rows, run)`` that trains a judge of ``family``, such as
    ``linear``. Raises ModuleNotFoundError for an unknown family."""
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
    """The settings of one data source: which labelled dialogues to read, and what their labels
    mean.

    Four more settings name the source (``source``), say how to read it (``format``, ``columns``)
    and select languages (``langs``).

    Attributes:
        dimensions: Label -> the judge's dimension that learns it, such as ``{helpful: overall}``.
            In a list such as ``[overall]``, labels and dimensions have the same names. None takes
            every label that has the name of a dimension.
        rescale: How labels are rescaled to the judge's scale, for all labels (``[1, 5]``) or for
            each (``{helpful: [1, 5]}``). ``[1, 5]`` maps 1 to the lowest and 5 to the highest
            value, linearly. ``[5, 1]`` maps 5 to the lowest and 1 to the highest. ``standardise``
            maps the mean of the labels to the middle of the judge's scale, and their standard
            deviation to a fifth of its width. None rescales linearly from the scale that the source
            declares.
        exclude_chatbots: The names of chatbots whose dialogues are skipped.
        limit: The number of dialogues to draw at random. None takes all.
        min_turns: The fewest turns of a dialogue. Shorter dialogues are skipped.
        max_turns: The most turns of a dialogue. Longer dialogues are skipped. None means no limit.
        plant: Replaces the dialogues by copies with injected issues (such as repetition) and
            controls, for example ``{per_issue: 40, clean_count: 80}``. ``per_issue`` is the number
            of pairs for each issue. A pair is a changed dialogue and its matched control.
            ``clean_count`` is the number of unchanged dialogues. The injected sentences differ
            between training, validation and test.
        optional: Whether the run goes on without the source if it cannot be read.
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
        """Returns how ``label``, one of the source's labels, is rescaled: ``(1.0, 5.0)`` or
        ``standardise``. None means linearly from the scale that the source declares."""
        if isinstance(self.rescale, dict):
            return self.rescale.get(label)
        return self.rescale


class TrainConfig(Config):
    """The settings of a training run.

    Attributes:
        name: The name of the judge.
        output_dir: The folder of the judge and of the run's checkpoints.
        rubric: A YAML file with the dimensions, or the name of a shipped rubric, such as
            ``overall``.
        seed: The seed of all random numbers.
        only: The names of the dimensions to learn. None means every dimension that has labels.
        model: The family (kind of judge) and its settings, such as ``{family: linear}``.
        start: The folder of a trained judge. Its weights are copied before training, wherever name
            and shape are equal. For families that are trained by steps (encoder, lora).
        train: The data sources of the training rows (labelled dialogues).
        validation: The data sources of the validation rows. The best weights or hyperparameters are
            chosen on them, and the calibration is fitted on them.
        test: The data sources of the test rows, which are only scored after training.
        split: Set (``validation`` or ``test``) -> the share of the training rows that are moved to
            it, such as ``{validation: 0.1, test: 0.1}``. Only for a set without data sources. Rows
            of one conversation stay together.
        args: Name of a field of transformers' TrainingArguments -> its value, such as
            ``{learning_rate: 1e-5}``. For families that are trained by steps.
        early_stopping_patience: The number of validations without improvement after which training
            stops. None never stops early. For families that are trained by steps.
        calibration: How scores are corrected on held-out rows. ``temperature`` fits the softmax
            temperature of classifiers. ``isotonic`` also fits a monotone map of the scores.
            ``none`` leaves scores unchanged.
        card_notes: Sentences for the section "What it cannot do" of the judge's model card.
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
        """Whether the run has validation rows, from a data source or from ``split``."""
        return bool(self.validation or "validation" in self.split)

    @model_validator(mode="after")
    def _require_consistent_settings(self) -> TrainConfig:
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
