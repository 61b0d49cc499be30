"""Pools of follow-ups: what a user might say next, and what it says about the dialogue.

A pool is a file that a person has reviewed. Language models may propose its follow-ups (DIET,
section 3.1): the judging model itself (SELFMAP), or several others together (CRAFT)."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

import numpy as np
from pydantic import StringConstraints, model_validator

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError
from medal_judges.records.signature import content_hash

Sign = Literal["negative", "positive"]
Strategy = Literal["selfmap", "craft"]


class FollowUp(Config):
    """A possible next user turn, which tells how good the dialogue is.

    Attributes:
        text: The user turn, such as ``You already said that.``
        sign: ``positive`` if the user turn speaks for a good dialogue, ``negative`` if it speaks
            for a bad one.
        dimensions: The names of the dimensions about which the user turn tells something. Empty
            means all.
        by: The name of the language model that proposed the user turn. None if no model did.
    """

    text: Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]
    sign: Sign = "negative"
    dimensions: tuple[str, ...] = ()
    by: str | None = None


class FollowUpPool(Config):
    """The follow-ups (possible next user turns) of a file, and the models that proposed them.

    Attributes:
        name: The name of the pool.
        strategy: ``selfmap``: for judging with the same model that proposed the follow-ups.
            ``craft``: for judging with other models. None: for any model.
        generators: The names of the models that proposed the follow-ups.
        follow_ups: The follow-ups. No two have the same text and the same ``sign`` (``positive`` or
            ``negative``).
    """

    name: str
    strategy: Strategy | None = None
    generators: tuple[str, ...] = ()
    follow_ups: tuple[FollowUp, ...]

    @model_validator(mode="after")
    def _require_nonempty_and_unique(self) -> FollowUpPool:
        if not self.follow_ups:
            raise ValueError("write one follow-up or more into the pool")
        counts = Counter(
            (" ".join(follow_up.text.split()), follow_up.sign)
            for follow_up in self.follow_ups
        )
        (text, _), count = counts.most_common(1)[0]
        if count > 1:
            raise ValueError(f"the follow-up {text!r} is there twice. Delete one")
        return self

    @property
    def hash(self) -> str:
        """A hash of the texts, signs (``positive`` or ``negative``) and dimensions of
        the follow-ups."""
        return content_hash([(f.text, f.sign, f.dimensions) for f in self.follow_ups])

    def indices_for(self, dimension: str) -> tuple[int, ...]:
        """Returns the indices in ``follow_ups`` of those that tell something about
        ``dimension``. Empty if there are none."""
        applies = [
            not f.dimensions or dimension in f.dimensions for f in self.follow_ups
        ]
        return tuple(np.flatnonzero(applies).tolist())

    def draw_evenly(self, count: int, seed: int) -> FollowUpPool:
        """Returns a new pool of ``count`` follow-ups, drawn at random from this pool.

        Equally many are drawn from each model that proposed follow-ups (DIET, section 6.2).

        Args:
            count: The number of follow-ups of the new pool.
            seed: The seed of the draw.

        Raises:
            ConfigError: ``count`` is not a multiple of the number of models, or a model proposed
                too few follow-ups.
        """
        by_generator: dict[str | None, list[int]] = {}
        for index, follow_up in enumerate(self.follow_ups):
            by_generator.setdefault(follow_up.by, []).append(index)
        share, rest = divmod(count, len(by_generator))
        if rest or share > min(map(len, by_generator.values())):
            raise ConfigError(
                f"draw {count}: each generator gives as many, and {self.name} has "
                f"{len(self.follow_ups)} follow-ups of {len(by_generator)}"
            )
        random = np.random.default_rng(seed)
        drawn: list[int] = []
        for indices in by_generator.values():
            drawn += random.permutation(indices)[:share].tolist()
        follow_ups = tuple(self.follow_ups[index] for index in sorted(drawn))
        return self.model_copy(update={"follow_ups": follow_ups})


def load_pool(path: str) -> FollowUpPool:
    """Returns the pool of follow-ups (possible next user turns) in a file.

    Args:
        path: A YAML file, or the name of a shipped pool, such as ``followups/contrast``.

    Raises:
        ConfigError: The file is missing or a field is wrong.
    """
    return build_config(FollowUpPool, read_yaml(path), where=path)
