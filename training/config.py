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
    """Returns a decorator of the function ``fit(rows, trainer)`` that trains a family of judges.

    ``kind`` are the family's settings, and ``judge`` is the class of the trained judge, which the
    function returns. ``rows`` are RunRows and ``trainer`` is a FamilyTrainer.
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
    """Returns the function ``fit(rows, trainer)`` of ``family``."""
    if family not in _FITS:
        module = import_module(f"medal_judges.training.families.{family}")
        _FITS[family] = module.fit
    return _FITS[family]


def _any_family() -> Any:
    """Returns the type of the settings of any family."""
    return Union[tuple(FAMILIES.values())]  # noqa: UP007


if TYPE_CHECKING:
    ModelConfig = Any  # one of FAMILIES
else:
    ModelConfig = Annotated[_any_family(), Field(discriminator="family")]


HeldOut = Literal["validation", "test"]
Rescale = Literal["standardise"] | tuple[float, float]


class DataEntry(ChatFileConfig):
    """One source of training, validation or test rows.

    ``source`` and how to read it: see ChatFileConfig. ``dimensions`` maps the source's dimension to
    the judge's (a list if the names are the same; None: all that both have). ``rescale``: None maps
    the source's declared scale to the judge's, linearly; ``standardise`` maps the source's mean to
    the middle of the judge's scale and its standard deviation to a fifth of it (for sources without
    bounds, or whose raters use the scale differently); (low, high) overrides the declared scale,
    and inverts it if low is the higher. A mapping sets it for each of the source's dimensions. Rows
    of the chatbots ``exclude_chatbots`` are skipped. Dialogues with fewer turns than ``min_turns``
    or more than ``max_turns`` are skipped. ``limit`` draws that many rows by the run's seed. An
    ``optional`` source may be missing.

    ``plant`` injects issues into the dialogues (data_prep/perturbation): ``per_issue`` pairs of an
    injected dialogue and its matched control, and ``clean_count`` unchanged ones. A judge is tested
    on sentences that it has not seen: each part of the data has its part of the sentence tables.
    """

    dimensions: dict[str, str] | tuple[str, ...] | None = None
    rescale: Rescale | dict[str, Rescale] | None = None
    exclude_chatbots: tuple[str, ...] = ()
    limit: int | None = Field(default=None, ge=1)
    min_turns: int = Field(default=2, ge=1)
    max_turns: int | None = Field(default=None, ge=1)
    plant: dict[Literal["per_issue", "clean_count"], int] | None = None
    optional: bool = False

    def bounds(self, label: str) -> Rescale | None:
        """Returns the rescaling of the source's dimension ``label``: ``rescale``, or its entry for
        ``label`` if it is a mapping. None keeps the linear map from the declared scale."""
        if isinstance(self.rescale, dict):
            return self.rescale.get(label)
        return self.rescale


class TrainConfig(Config):
    """A training run.

    ``name``: the judge's name. ``output_dir``: its folder, with the checkpoints of the run in it.
    ``rubric``: a file or a shipped name. ``model``: the family and its settings. ``train``: the
    sources of training rows. ``validation``: those of the rows that decide about settings and
    calibration. ``split``: the shares ``validation`` and ``test`` of the training rows, by a hash
    of their group, become validation and test rows. ``seed``: for everything random.
    ``calibration``: by validation rows, a ``temperature`` for the logits of a head with
    probabilities, an ``isotonic`` map of the score, or ``none``.

    ``only`` lists the dimensions of the rubric to learn (None: all with labels). ``test`` rows are
    never learnt from; they are scored when the judge is trained. ``card_notes`` are sentences for
    the card's "What it cannot do".

    These are for judges trained by steps. ``args``: transformers' TrainingArguments under their own
    names. ``early_stopping_patience``: that of transformers' EarlyStoppingCallback.
    ``start``: the folder of a judge that was trained on other data; its weights of equal name and
    shape are where this training starts.
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
                    f"{name} is for judges trained by steps; one of family {self.model.family} is "
                    "fitted at once, each dimension by itself: leave it out"
                )
        return self
