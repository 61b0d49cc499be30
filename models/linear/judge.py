"""The linear judge: a pretrained encoder that is not trained, features of turns, and a fitted head
for each dimension.

ORALIS's classifier (sections 4.4 and 4.5) and the plain baselines are of this family."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.heads import rating_probabilities, squash_to_unit
from medal_judges.models.base.judge import (
    EXPLAINED_TURNS,
    DimensionScore,
    ScoreRequest,
    as_judgement,
)
from medal_judges.models.base.learned import LearnedJudge, constructor_arguments
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    read_config,
    read_weights,
    require_matching_tensors,
    require_no_differences,
    write_weights,
)
from medal_judges.models.device import Device, torch_device
from medal_judges.models.linear.config import MAX_TURNS, LinearConfig
from medal_judges.models.linear.encoder import TextEncoder
from medal_judges.models.linear.heads import FittedHead, Floats, spread_over_levels
from medal_judges.models.linear.reader import (
    DialogueReader,
    DialogueReading,
    answer_weights,
    concat_field,
)
from medal_judges.models.linear.reply import Reactions
from medal_judges.models.model_files import PREFIX, base_hash
from medal_judges.records.dialogue import base_language
from medal_judges.records.dimension import EQUAL, Dimension, load_rubric
from medal_judges.records.judgement import Cause, Contributions, Judgement, Unit
from medal_judges.records.signature import Signature, content_hash

_MOST_CAUSES = 2
ENCODER_FOLDER = "encoder"
# Of the contributions to a linear head's output: as it is, and before an isotonic map.
_UNITS: dict[str, tuple[Unit, Unit]] = {
    "ridge": ("score", "uncalibrated score"),
    "logistic": ("logit", "uncalibrated logit"),
}


class LinearJudge(LearnedJudge):
    """A judge with a linear model or an MLP for each dimension. Their inputs are embeddings and
    features of turns.

    A linear model that reads turns also says what each turn adds to the score (the contributions).

    Args:
        config: The settings.
        dimensions: The dimensions to score.
        encoder: The model that turns texts into embeddings. None if the judge reads only features.
        heads: Dimension -> its trained model. None is for a judge that is not trained yet.
        device: Where the encoder runs, such as ``cuda``. None is the GPU if there is one, otherwise
            the CPU.
        dtype: The encoder's precision: ``fp32``, ``bf16`` or ``fp16``.
        state: Optional arguments: the judge's ``name``, its ``calibration`` (dimension ->
            Calibration), and ``facts`` about the training run, such as ``{"seed": 0}``.
    """

    family = "linear"
    config: LinearConfig

    def __init__(
        self,
        config: LinearConfig,
        dimensions: Sequence[Dimension],
        *,
        encoder: TextEncoder | None = None,
        heads: Mapping[str, FittedHead] | None = None,
        device: Device = None,
        dtype: str = "fp32",
        **state: Any,
    ) -> None:
        self.set_state(dimensions, **state)
        self.config, self.heads = config, dict(heads or {})
        self.languages = tuple(sorted(set().union(*config.offsets.values()))) or None
        self.reader = DialogueReader(config, encoder)
        if encoder is not None:
            self.truncation = f"oldest turns beyond {MAX_TURNS} turns"
        self.move_to(device, dtype)

    @classmethod
    def create(
        cls,
        config: LinearConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str = "linear",
        device: Device = None,
    ) -> LinearJudge:
        """Returns an untrained judge, without heads.

        Args:
            config: The settings, which name the encoder.
            dimensions: The dimensions to score.
            name: The judge's name.
            device: Where the encoder runs. None is the GPU if there is one.

        Raises:
            JudgeLoadError: The encoder cannot be loaded.
            ConfigError: The encoder does not fit the settings.
        """
        encoder = None
        if config.needs_base:
            encoder = TextEncoder.load_base(config)
        return cls(config, dimensions, encoder=encoder, name=name, device=device)

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, Any], dimensions: Sequence[Dimension] | None = None
    ) -> LinearJudge:
        """Returns a judge that needs no training. Its score is the sigmoid of a sum of features,
        which are means over the assistant turns and standardised.

        Args:
            settings: The ``name``, the ``rubric`` and the ``features``, such as ``{"copy": {"mean":
                0.1, "std": 0.1, "good": -1}}``. ``mean`` and ``std`` standardise the feature.
                ``good`` is 1 if high values of the feature are good, otherwise -1.
            dimensions: The dimensions to score. None takes all of the rubric.

        Raises:
            ValueError: A setting or a feature is unknown, or a feature needs the encoder.
            ConfigError: The rubric is unknown or malformed.
        """
        features = settings["features"]
        unknown = settings.keys() - {"name", "rubric", "features"}
        slopes, middle = {}, 0.0
        for name, feature in features.items():
            unknown |= feature.keys() - {"mean", "std", "good"}
            slopes[f"assistant.{name}"] = feature["good"] / feature["std"]
            middle -= feature["mean"] * feature["good"] / feature["std"]
        if unknown:
            raise ValueError(f"there is no setting {min(unknown)!r}. Leave it out")
        config = LinearConfig(features=tuple(slopes), vectors=False)
        if config.needs_base:
            raise ValueError(
                "features that compare vectors need a trained judge. Leave them out"
            )
        dimensions = dimensions or load_rubric(settings["rubric"])
        judge = cls(config, dimensions, name=settings["name"])
        weights = judge.reader.feature_row(slopes)
        for dimension in dimensions:
            sign = 1 if dimension.good == "high" else -1
            judge.heads[dimension.name] = FittedHead.linear(
                "logistic", sign * weights, sign * middle, (0.0, -sign * middle)
            )
        judge.revision = content_hash(
            [features, [head.to_record() for head in judge.heads.values()]]
        )
        return judge

    # -- saving and loading ----------------------------------------------------------------------

    def _save(self, folder: Path) -> None:
        arrays = self.reader.scale.named_arrays()
        for name, head in self.heads.items():
            arrays |= head.named_arrays(name)
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        if self.reader.reactions is not None:
            tensors |= self.reader.reactions.tensors_to_save()
        write_weights(tensors, folder / WEIGHTS_NAME)
        hashed = None
        encoder, base = self.reader.encoder, self.config.base
        if encoder is not None:
            if not base.startswith(PREFIX):
                encoder.save(folder / ENCODER_FOLDER)
            hashed = base_hash(base, folder / ENCODER_FOLDER)
        records = {name: head.to_record() for name, head in self.heads.items()}
        self.write_state(folder, heads=records, base_hash=hashed)

    @classmethod
    def load(
        cls, folder: Path, *, device: Device = None, dtype: str = "fp32"
    ) -> LinearJudge:
        """Loads the judge saved in ``folder``.

        The encoder is in the folder too, unless it is shipped with the package, such as
        ``embedded:minilm``.

        Args:
            device: Where the encoder runs. None is the GPU if there is one.
            dtype: The encoder's precision: ``fp32``, ``bf16`` or ``fp16``. A judge without an
                encoder supports ``fp32`` only.

        Raises:
            JudgeLoadError: Weights are missing or do not fit the settings, the encoder has other
                weights than in training, or ``dtype`` is not supported.
        """
        saved = read_config(folder)
        config = LinearConfig(**saved["linear"])
        if not config.needs_base and dtype != "fp32":
            raise JudgeLoadError(
                f"a judge of features alone has no weights. Leave --dtype {dtype} out"
            )
        encoder = None
        if config.needs_base:
            now = base_hash(config.base, folder / ENCODER_FOLDER)
            if now != saved["base_hash"]:
                raise JudgeLoadError(
                    f"{folder}: the judge was trained on other weights of {config.base} than are "
                    f"here (hash {saved['base_hash']} then, {now} now)",
                    hint="Install the package version of its training, or copy the whole folder",
                )
            if config.base.startswith(PREFIX):
                encoder = TextEncoder.load_base(config)
            else:
                encoder = TextEncoder(folder / ENCODER_FOLDER, config)
        state = constructor_arguments(saved)
        judge = cls(config, encoder=encoder, device=device, dtype=dtype, **state)
        judge._load_weights(folder / WEIGHTS_NAME, saved["heads"])
        return judge

    def _load_weights(self, path: Path, records: Mapping[str, Any]) -> None:
        """Loads the heads, the means and standard deviations of their inputs, and the reply models
        if any, from the safetensors file ``path``.

        Args:
            records: Dimension -> what judge.json stores about its head, such as its number of
                layers.

        Raises:
            JudgeLoadError: Weights are missing, unexpected, or of a wrong shape.
        """
        reader = self.reader
        # The first part of a name says whose tensor it is.
        groups: dict[str, dict[str, Tensor]] = {"scale": {}, "reply": {}, "heads": {}}
        for name, tensor in read_weights(path).items():
            groups.setdefault(name.partition(".")[0], {})[name] = tensor
        if self.config.reply is not None and reader.encoder is not None:
            sizes = reader.encoder.width, len(self.config.bare_names_without_reply)
            reader.reactions = Reactions.from_tensors(
                self.config.reply, *sizes, groups.pop("reply"), path
            )
        scale = groups.pop("scale")
        require_matching_tensors(reader.scale.named_arrays(), scale, path)
        for name, tensor in scale.items():
            array = tensor.double().numpy()
            setattr(reader.scale, name.removeprefix("scale."), array)
        for dimension in self.dimensions:
            name = dimension.name
            self.heads[name] = FittedHead.pop_from_tensors(
                name, records[name], groups["heads"], len(reader.vector_mask)
            )
        unused = chain.from_iterable(groups.values())
        require_no_differences(path, {"unexpected": unused})

    def move_to(self, device: Device, dtype: str) -> None:
        self.device, self.dtype = torch_device(device), dtype
        self.set_batch_sizes(self.device)
        if self.reader.encoder is not None:
            self.reader.encoder.move_to(self.device, dtype)

    def signature(self) -> Signature:
        if self.reader.encoder is not None:
            return super().signature()
        features = "+".join(
            feature.removeprefix("assistant.") for feature in self.config.features
        )
        return self.make_signature(revision=self.revision, base=features)

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        dialogues = [request.dialogue for request in requests]
        readings = self.reader.read(dialogues, self.token_budget)
        for request, reading in zip(requests, readings, strict=True):
            request.payload, request.tokens = reading, reading.tokens
            request.truncated_turns = reading.skipped

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        readings = [request.payload for request in requests]
        self.reader.add_reply_features(readings)
        rows = self.reader.turn_columns(readings)
        results: list[dict[str, DimensionScore]] = [{} for _ in requests]
        for name in dimensions:
            scores = self._dimension_scores(self.dimension(name), requests, rows)
            for result, score in zip(results, scores, strict=True):
                result[name] = score
        return list(map(as_judgement, results))

    def _dimension_scores(
        self, dimension: Dimension, requests: Sequence[ScoreRequest], rows: Floats
    ) -> Iterator[DimensionScore]:
        """Yields the score on ``dimension`` of each of ``requests``, the dialogues to score.

        Args:
            rows: The F features and the embedding (W numbers) of each turn of all requests, [T, F +
                W].
        """
        name, span = dimension.name, dimension.high - dimension.low
        head, fitted = self.heads[name], self.calibration_of(name)
        readings = [request.payload for request in requests]
        weights = self._turn_weights(requests, dimension, rows)
        columns = self.reader.pool_turns(readings, rows, weights)
        units, outputs = self.unit_scores(name, columns), head.outputs(columns)[:, 0]
        raw: list[float | None] = [None] * len(requests)
        if head.kind == "ridge":
            offsets = self.config.offsets.get(name, {})
            for row, request in enumerate(requests if offsets else ()):
                language = base_language(request.dialogue.lang)
                outputs[row] += offsets.get(language, 0.0)
            units = squash_to_unit(outputs)
            raw = (dimension.low + span * outputs).tolist()
        chances = fitted.apply_isotonic(units)
        scores = (dimension.low + span * fitted.center_on_threshold(chances)).tolist()
        distributions = self._distributions(dimension, columns, chances).tolist()
        contributions: Iterable[Contributions | None] = [None] * len(requests)
        if head.kind != "mlp_classifier" and self.config.reading != "dialogue":
            contributions = self._contributions(
                dimension, requests, weights, rows, outputs
            )
        answers = zip(scores, raw, distributions, contributions, strict=True)
        for score, raw_score, distribution, moves in answers:
            details = self.details_of(dimension, score, raw_score)
            yield DimensionScore(score, distribution, details, moves)

    def unit_scores(self, name: str, columns: Floats) -> Floats:
        """Returns a score on [0, 1] for each of n dialogues, [n], before isotonic calibration and
        before the decision threshold.

        Args:
            name: The dimension to score.
            columns: The inputs of the dimension's head, [n, C].
        """
        return self.heads[name].unit_scores(
            columns, self.config.decode, self.calibration_of(name).temperature
        )

    def _turn_weights(
        self, requests: Sequence[ScoreRequest], dimension: Dimension, rows: Floats
    ) -> Floats:
        """Returns how much each turn of all ``requests`` counts in the input of a head, [T].

        With ``reading: answers``, a dialogue is read as the mean of its assistant turns, or as the
        worst of them if low scores are good.

        Args:
            dimension: The head's dimension.
            rows: The F features and the embedding (W numbers) of each turn, [T, F + W].
        """
        readings = [request.payload for request in requests]
        if self.config.reading != "answers" or requests[0].turn is not None:
            return concat_field(readings, "weights")
        weights = []
        for reading in readings:
            turns, rows = np.split(rows, [len(reading.roles)])
            answers = np.flatnonzero(reading.roles == 1).tolist()
            if dimension.good == "low":
                columns = []
                for answer in answers:
                    alone = answer_weights(reading.roles, [answer])
                    columns.append(self.reader.pool_turns([reading], turns, alone)[0])
                units = self.unit_scores(dimension.name, np.stack(columns))
                worst = int(
                    np.argmax(units >= units.max() - EQUAL)
                )  # the first of equals
                answers = [answers[worst]]
            weights.append(answer_weights(reading.roles, answers))
        return np.concatenate(weights)

    def _distributions(
        self, dimension: Dimension, columns: Floats, chances: Floats
    ) -> npt.NDArray[Any]:
        """Returns the probability of each level (possible rating) of ``dimension``, [n, levels].

        It is [n, 0] if the dimension has no levels or the head gives no distribution.

        Args:
            columns: The head's inputs, [n, C].
            chances: The scores on [0, 1] after isotonic calibration, [n].
        """
        head, levels = self.heads[dimension.name], len(dimension.levels)
        spread = self.calibration_of(dimension.name).spread
        distributions: npt.NDArray[Any] = np.zeros((len(columns), 0))
        if dimension.kind == "binary":  # the calibrated probability of label 1
            distributions = np.stack([1 - chances, chances], axis=1)
        elif head.kind == "mlp_classifier" and levels > 1:
            distributions = spread_over_levels(head.mlp_probabilities(columns), levels)
        elif levels > 1 and spread:
            bins = rating_probabilities(torch.from_numpy(chances), spread, levels)
            distributions = bins.double().numpy()
        return distributions

    def _contributions(
        self,
        dimension: Dimension,
        requests: Sequence[ScoreRequest],
        weights: Floats,
        rows: Floats,
        outputs: Floats,
    ) -> Iterator[Contributions | None]:
        """Yields, for each request, what each turn adds to the output of a linear head, compared
        with an average turn.

        Args:
            dimension: The head's dimension.
            requests: The n dialogues.
            weights: How much each turn of all requests counts in the head's input, [T].
            rows: The F features and the embedding (W numbers) of these turns, [T, F + W].
            outputs: The head's output for each request, [n].

        Yields:
            The contributions of a request. None if it judges a single turn whose index is
                EXPLAINED_TURNS or more.
        """
        head, fitted = self.heads[dimension.name], self.calibration_of(dimension.name)
        factor, values = 1 / fitted.temperature, outputs / fitted.temperature
        if head.kind == "ridge":
            factor = dimension.high - dimension.low
            values = dimension.low + factor * outputs
        # Of user turns, then of assistant turns.
        slopes = head.layers[0][0][:, 0].reshape(2, -1)
        roles = concat_field([request.payload for request in requests], "roles")
        parts = rows * slopes[roles]
        means = np.array(head.averages)[roles]
        moves = factor * weights * (parts.sum(axis=1) - means)
        unit = _UNITS[head.kind][fitted.isotonic is not None]
        start = 0
        for request, value in zip(requests, values.tolist(), strict=True):
            reading: DialogueReading = request.payload
            span = slice(start, start + len(reading.roles))
            start = span.stop
            if request.turn is not None and request.turn >= EXPLAINED_TURNS:
                yield None
                continue
            turns = [0.0] * reading.skipped + moves[span].tolist()
            contributions = Contributions(tuple(turns), value - math.fsum(turns), unit)
            turn = contributions.worst_turn(dimension.good)
            if turn is not None:
                row = turn - reading.skipped
                costs = parts[span][row] * (-1 if dimension.good == "high" else 1)
                role = int(reading.roles[row])
                causes = self._causes(reading.features[row], role, costs)
                contributions = replace(contributions, causes=causes)
            yield contributions

    def _causes(self, features: Floats, role: int, costs: Floats) -> tuple[Cause, ...]:
        """Returns the one or two features of a turn that lower the score most, if any.

        Args:
            features: The turn's features before they are standardised, [F].
            role: 0 for a user turn, 1 for an assistant turn.
            costs: How much each feature and embedding component of the turn lowers the score, [F +
                W].
        """
        names, means = self.reader.names, self.reader.scale.mean
        largest = max(costs[: len(names)].max(initial=0.0), costs[len(names) :].sum())
        causes = []
        order = np.argsort(-costs[: len(names)], kind="stable")
        for index in order[:_MOST_CAUSES].tolist():
            if costs[index] >= largest / 4 > 0:
                usual = float(means[role, index]) if means.any() else None
                causes.append(Cause(names[index], float(features[index]), usual))
        return tuple(causes)
