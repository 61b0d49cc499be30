"""The settings of a training run, in one typed object; an unknown key is an error."""

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
from medal_judges.training.arguments import check_steps

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
    """Returns a decorator that registers a function ``fit(rows, trainer)`` as the training of a
    family of judges.

    ``kind`` is the class of the family's settings. ``judge`` is the class of the judge that ``fit``
    returns. ``fit`` is called with RunRows and a FamilyTrainer.
    """

    def register(fit: Fit) -> Fit:
        family = kind.model_fields["family"].default
        FAMILIES[family], _FITS[family] = kind, fit
        JUDGES[family] = f"{judge.__module__}:{judge.__name__}"
        TrainConfig.model_fields["model"].annotation = _any_family()
        TrainConfig.model_rebuild(force=True)
        return fit

    return register


def fit_of(family: str) -> Fit:
    """Returns the registered function ``fit(rows, trainer)`` of ``family``."""
    if family not in _FITS:
        module = import_module(f"medal_judges.training.families.{family}")
        _FITS[family] = module.fit
    return _FITS[family]


def _any_family() -> Any:
    """Returns the union of the settings classes of all families, for pydantic."""
    return Union[tuple(FAMILIES.values())]  # noqa: UP007


if TYPE_CHECKING:
    ModelConfig = Any  # one of FAMILIES
else:
    ModelConfig = Annotated[_any_family(), Field(discriminator="family")]


HeldOut = Literal["validation", "test"]
Rescale = Literal["standardise"] | tuple[float, float]


class DataEntry(ChatFileConfig):
    """One source of training, validation or test rows.

    ``source`` and the fields that say how to read it are those of ChatFileConfig. ``dimensions``
    maps a dimension of the source to one of the judge. It is a list if the names are equal. None
    takes all dimensions that both have.

    ``rescale`` says how labels are mapped to the judge's scale. None maps the scale that the source
    declares, linearly. ``standardise`` maps the source's mean to the middle of the judge's scale,
    and its standard deviation to a fifth of that scale. It is for sources without bounds, and for
    raters who use the scale in another way. (low, high) replaces the declared scale, and inverts it
    if low is the larger number. A mapping holds one of these for each dimension of the source.

    Rows of the chatbots ``exclude_chatbots`` are skipped, and so are dialogues with fewer turns
    than ``min_turns`` or more than ``max_turns``. ``limit`` draws that number of rows, by the seed
    of the run. An ``optional`` source may be missing.

    ``plant`` injects issues into the dialogues (data_prep/perturbation). ``per_issue`` is the
    number of pairs of a changed dialogue and its matched control. ``clean_count`` is the number of
    unchanged dialogues. Training, validation and test draw the injected sentences from different
    parts of the tables, so a judge is tested on sentences that it has not seen.
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
        """Returns the setting ``rescale`` for the source's dimension ``label``. None keeps the
        linear map of the declared scale."""
        if isinstance(self.rescale, dict):
            return self.rescale.get(label)
        return self.rescale


class TrainConfig(Config):
    """The settings of a training run.

    ``name`` is the name of the judge. ``output_dir`` is its folder, which also holds the
    checkpoints of the run. ``rubric`` is a file or a shipped name. ``only`` lists the dimensions of
    the rubric to learn. None means all that have labels. ``model`` holds the family and its
    settings. ``seed`` seeds everything random. ``card_notes`` are sentences for the section "What
    it cannot do" of the card.

    ``train`` are the sources of training rows. ``validation`` are the sources of the rows that
    choose settings and fit the calibration. ``test`` rows are never learnt from, and are scored
    after training. ``split`` holds the shares ``validation`` and ``test`` of the training rows that
    become held-out rows, by a hash of the row's group. ``calibration`` is ``temperature`` (of the
    logits of a head with probabilities), ``isotonic`` (a monotone map of the score) or ``none``.

    The other fields are for families that are trained by steps. ``args`` are transformers'
    TrainingArguments under their own names. ``early_stopping_patience`` is the argument of
    transformers' EarlyStoppingCallback. ``start`` is the folder of a trained judge. Training starts
    from its weights where name and shape are equal.
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
            check_steps(self.args, validated=self.has_validation, patience=patience)
            return self
        for name in ("args", "early_stopping_patience", "start"):
            if getattr(self, name):
                raise ValueError(
                    f"{name} is for judges trained by steps. Leave it out: one of family "
                    f"{self.model.family} is fitted at once, each dimension by itself"
                )
        return self
