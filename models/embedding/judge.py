"""The embedding judge: a frozen sentence encoder, and a small fitted net for each dimension.

It is ORALIS's classifier (sections 4.4 and 4.5), and the ridge baseline that trained judges must
beat."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch
from pydantic import Field
from scipy.special import expit, softmax
from transformers import AutoConfig

from medal_judges.config import Config
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.heads import Calibration, isotonic_map, normal_bins, on_scale
from medal_judges.models.base.judge import ScoreRequest
from medal_judges.models.base.learned import LearnedJudge, centred, learned_state, unit_of
from medal_judges.models.base.saving import (
    WEIGHTS_NAME,
    read_config,
    read_weights,
    require_enough_weights,
    require_no_differences,
    write_weights,
)
from medal_judges.models.base.trained import TrainedConfig
from medal_judges.models.base.turn_features import (
    ALL_FEATURES,
    ROLE_INDEX,
    SIMILARITY_NAMES,
    USUAL_FEATURES,
    TurnFeatures,
    turn_features,
    turn_similarities,
)
from medal_judges.models.batching import SpecialTokens
from medal_judges.models.llm.local.weights import model_path
from medal_judges.models.model_files import base_hash, require_base
from medal_judges.models.turns.body import body_of
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Contributions, Judgement

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

EmbeddingHead = Literal["ridge", "mlp_classifier", "mlp_regressor"]


class RidgeGrid(Config):
    """The grid for each ridge dimension: penalties, and the size of an embedding column relative to
    a feature column (both standardised first; 0 leaves embeddings out)."""

    alphas: tuple[float, ...] = Field(default=(1.0, 10.0, 100.0, 1e3, 1e4, 1e5), min_length=1)
    shares: tuple[float, ...] = Field(default=(0.0, 0.1, 0.3, 1.0), min_length=1)


class MlpGrid(Config):
    """The grid for each MLP dimension, in scikit-learn's terms (``alpha`` is the L2 penalty,
    ``epochs`` is max_iter). The search for the class range uses the first value of each setting."""

    hidden: tuple[tuple[int, ...], ...] = Field(default=((64,), (16,), (64, 32)), min_length=1)
    alpha: tuple[float, ...] = Field(default=(1.0, 0.01, 10.0), min_length=1)
    epochs: tuple[int, ...] = Field(default=(100, 30), min_length=1)
    learning_rate: tuple[float, ...] = Field(default=(1e-3,), min_length=1)


class EmbeddingConfig(TrainedConfig):
    """The settings of an embedding judge, stored whole in its judge.json.

    ``base`` is a sentence-transformers model by hub id or folder, or ``embedded:minilm``. With
    ``reading: turns`` the input is the mean vector of the assistant's turns and that of the user's
    turns; with ``reading: dialogue`` it is one vector of the whole text, as in ORALIS (section
    4.4). The means of ``features`` (base/turn_features.py) over each side's turns are appended.

    With ``reading: answers`` the base, mostly a language model, reads the conversation as one text,
    without the oldest turns beyond ``max_tokens``; the input is the mean state over the tokens of
    each of the last ``answers`` answers (with ``next_turn`` where the user would speak after it),
    each with ``decay`` times the weight of the one after it, and ``features`` are those of the same
    answers. What follows the last answer is not read. With ``each_answer`` a conversation has the
    score of its mean answer, or for an issue (a dimension whose good end is low) of its worst
    answer. With ``learn_last`` the labels are of the last answer, and training reads no other.
    ``depth``: only so many of the base's first layers. ``save_encoder: false`` saves the fitted
    nets only: the encoder is loaded from ``base``, and refused if its weights have changed.

    ``head`` (``heads`` for single dimensions) is ``ridge``, or an MLP over the classes 0 to k, to
    which Equation 1 maps the scale. The k are searched in ``class_ranges``, for all dimensions
    together; a binary dimension has the classes 0 and 1. ``decode``: a classifier's score is its
    expected class, or its likeliest class as in the paper. Without validation rows, settings are
    chosen by cross-validation with ``folds`` folds of conversations, or by leaving out one chatbot
    at a time (``fold_by: chatbot``).
    """

    family: Literal["embedding"] = "embedding"
    base: str = "embedded:minilm"
    base_revision: str | None = None
    save_encoder: bool = True
    depth: int | None = Field(default=None, ge=1)
    reading: Literal["turns", "dialogue", "answers"] = "turns"
    answers: int = Field(default=1, ge=1)
    each_answer: bool = False
    learn_last: bool = False
    decay: float = Field(default=1.0, gt=0, le=1)
    next_turn: bool = False
    max_tokens: int = Field(default=2048, ge=16)
    features: TurnFeatures = USUAL_FEATURES
    head: EmbeddingHead = "ridge"
    heads: dict[str, EmbeddingHead] = Field(default_factory=dict)
    class_ranges: tuple[Annotated[int, Field(ge=1)], ...] = Field(
        default=(8, 2, 4, 6, 10), min_length=1
    )
    decode: Literal["expected", "argmax"] = "expected"
    ridge: RidgeGrid = Field(default_factory=RidgeGrid)
    mlp: MlpGrid = Field(default_factory=MlpGrid)
    folds: int = Field(default=5, ge=2)
    fold_by: Literal["conversation", "chatbot"] = "conversation"

    def head_of(self, dimension: str) -> EmbeddingHead:
        """Returns the head of one dimension."""
        return self.heads.get(dimension, self.head)


Floats = npt.NDArray[np.float64]


class SentenceEncoder:
    """Embeds texts with a sentence-transformers model. A text longer than the model's window is
    split into pieces; its vector is the mean of theirs, weighted by tokens (the paper's SBERT reads
    only the first 256 tokens)."""

    def __init__(self, model: SentenceTransformer, depth: int | None = None) -> None:
        self.model = model.eval()
        self.marks = SpecialTokens(model.tokenizer)
        # sentence-transformers 5 has the longer name
        width: Callable[[], int] | None = getattr(model, "get_embedding_dimension", None)
        self.width = int((width or model.get_sentence_embedding_dimension)() or 0)
        network: Any = model[0]
        if depth is not None and hasattr(network.auto_model, "norm"):
            network.auto_model.norm.forward = lambda states: states  # it is for the last layer
        named = network.auto_model.config.architectures or ()
        self.causal = any("CausalLM" in name for name in named)  # no state depends on later turns

    @classmethod
    def create(
        cls, base: str, revision: str | None, device: str | None = None, depth: int | None = None
    ) -> SentenceEncoder:
        """Loads the model (its first ``depth`` layers) of a hub id, a folder or an ``embedded:``
        name. Raises JudgeLoadError."""
        path = model_path(base)
        if depth is not None:
            known = AutoConfig.from_pretrained(path, revision=revision, trust_remote_code=False)
            if depth > known.num_hidden_layers:  # the library would draw the others at random
                raise ConfigError(f"depth {depth}: {base} has {known.num_hidden_layers} layers")
        return cls(_load(path, base, revision=revision, device=device, depth=depth), depth)

    @classmethod
    def load(
        cls, folder: Path, device: str | None = None, depth: int | None = None
    ) -> SentenceEncoder:
        """Loads the model saved in ``folder``; needs no network. Raises JudgeLoadError."""
        if not (folder / "modules.json").is_file():
            raise JudgeLoadError(
                f"{folder.parent}: the judge has no {folder.name}/modules.json",
                hint="copy or download the whole folder again",
            )

        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        require_enough_weights(lambda: body_of(settings), *folder.glob("*.safetensors"))
        model = _load(str(folder), folder.name, device=device, local_files_only=True)
        # The library draws missing weights at random and ignores others: all must fit.
        saved = {k for path in folder.glob("*.safetensors") for k in read_weights(path)}
        network: Any = model[0]
        state = network.auto_model.state_dict()
        stored = {state[name].data_ptr() for name in saved & state.keys()}
        missing = [n for n in state.keys() - saved if state[n].data_ptr() not in stored]
        require_no_differences(folder, {"missing": missing, "unexpected": saved - state.keys()})
        return cls(model, depth)

    def save(self, folder: Path) -> None:
        """Writes the model into ``folder``, as safetensors."""
        self.model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Returns the number of tokens of each text."""
        if not texts:
            return []
        plain = [self.marks.broken_up(text) for text in texts]
        return [len(ids) for ids in self._tokenize(plain)["input_ids"]]

    def embed(self, texts: Sequence[str], budget: int) -> Floats:
        """Returns vectors [len(texts), width] (float64); ``budget`` is the maximum number of padded
        tokens in a batch."""
        vectors = np.zeros((len(texts), self.width))
        if not texts:
            return vectors
        window = max(1, int(self.model.max_seq_length or 512) - 2)  # without special tokens
        pieces: list[tuple[int, str, int]] = []  # row, piece of its text, share in tokens
        for row, text in enumerate(map(self.marks.broken_up, texts)):
            spans: Any = ()
            if len(text) > window:  # a token has at least one character
                spans = self._tokenize([text], offsets=True)["offset_mapping"][0]
            if len(spans) <= window:
                pieces.append((row, text, 1))
                continue
            for start in range(0, len(spans), window):
                part = spans[start : start + window]
                pieces.append((row, text[part[0][0] : part[-1][1]], len(part)))
        encoded = self.model.encode(
            [piece for _, piece, _ in pieces],
            batch_size=max(1, budget // window),
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        weights = np.zeros(len(texts))
        for (row, _, tokens), vector in zip(pieces, encoded, strict=True):
            vectors[row] += vector.astype(np.float64) * tokens
            weights[row] += tokens
        return vectors / weights[:, None]

    @torch.inference_mode()
    def in_context(
        self, text: str, spans: Sequence[tuple[int, int]], window: int
    ) -> tuple[Floats, bool]:
        """Returns the mean token state [len(spans), width] of each span (start, end) of characters
        in the last ``window`` tokens of ``text``, 0 for a span without tokens; and whether ``text``
        has more tokens."""
        network: Any = self.model[0]
        inputs = self.model.tokenizer(
            text, return_offsets_mapping=True, return_tensors="pt", verbose=False
        )
        # Only a last turn that is longer than the window is cut.
        is_cut = inputs["input_ids"].shape[1] > window
        given = {key: value[:, -window:].to(self.model.device) for key, value in inputs.items()}
        first, last = given.pop("offset_mapping")[0].cpu().T
        states = network.auto_model(**given).last_hidden_state[0]
        inside = [(first < end) & (last > start) & (last > first) for start, end in spans]
        shares = torch.stack(inside).double()
        shares = shares / shares.sum(dim=1, keepdim=True).clamp_min(1)
        means: Floats = (shares @ states.cpu().double()).numpy()
        return means, is_cut

    def _tokenize(self, texts: list[str], offsets: bool = False) -> Any:
        return self.model.tokenizer(
            texts,
            add_special_tokens=False,
            return_offsets_mapping=offsets,
            truncation=False,
            verbose=False,
        )


def _load(
    source: str,
    name: str,
    *,
    device: str | None,
    revision: str | None = None,
    local_files_only: bool = False,
    depth: int | None = None,
) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    level = logging.get_verbosity()
    if depth is not None:  # the library lists the weights of the other layers
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    try:
        return SentenceTransformer(
            source,
            device=device,
            revision=revision,
            local_files_only=local_files_only,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
            config_kwargs={} if depth is None else {"num_hidden_layers": depth},
        )
    except (OSError, ValueError) as error:
        raise JudgeLoadError(
            f"cannot load the sentence encoder {name}: {str(error).splitlines()[0]}",
            hint="give a sentence-transformers model by hub id (with a network, or cached), a "
            "folder, or embedded:minilm (with reading: answers also a language model)",
        ) from error
    finally:
        logging.set_verbosity(level)


@dataclass(frozen=True, slots=True)
class FittedNet:
    """The net of one dimension over dialogue vectors x [n, W]: layers of (x - mean) * scale.

    ``layers`` are (weight [in, out], bias [out]) with ReLU between them. ``top`` is the highest
    class (1 for ridge, whose output is on [0, 1]); ``classes`` [c] are the classes in a
    classifier's training rows, empty for other heads.
    """

    head: EmbeddingHead
    mean: Floats
    scale: Floats
    layers: tuple[tuple[Floats, Floats], ...]
    top: int = 1
    classes: tuple[int, ...] = ()

    def raw(self, x: Floats) -> Floats:
        """Returns the output of the last layer [n, outputs], before a softmax."""
        values = (x - self.mean) * self.scale
        for number, (weight, bias) in enumerate(self.layers):
            if number:
                values = np.maximum(values, 0.0)
            values = values @ weight + bias
        return values

    def probabilities(self, x: Floats) -> Floats:
        """Returns the probability [n, top + 1] of each class 0 to ``top`` by a classifier, 0 for
        classes that were not in its training rows."""
        if len(self.classes) == 1:
            known = np.ones((len(x), 1))
        elif len(self.classes) == 2:  # scikit-learn has one logistic output for two classes
            p = expit(self.raw(x))
            known = np.concatenate([1 - p, p], axis=1)
        else:
            known = softmax(self.raw(x), axis=1)
        chances = np.zeros((len(x), self.top + 1))
        chances[:, list(self.classes)] = known
        return chances

    def units(self, x: Floats, decode: str) -> Floats:
        """Returns scores [n] on [0, 1] (the inverse of Equation 1)."""
        if self.head != "mlp_classifier":
            return on_scale(self.raw(x)[:, 0] / self.top)
        p = self.probabilities(x)
        chosen = p.argmax(axis=1) if decode == "argmax" else p @ np.arange(self.top + 1)
        units: Floats = chosen / self.top
        return units

    def record(self) -> dict[str, Any]:
        """Returns the net's part of judge.json."""
        shape = {"head": self.head, "top": self.top, "classes": list(self.classes)}
        return shape | {"layers": len(self.layers)}

    def tensors(self, name: str) -> dict[str, Floats]:
        """Returns the net's arrays, under names that begin with the dimension's."""
        arrays = {f"{name}.mean": self.mean, f"{name}.scale": self.scale}
        for i, (weight, bias) in enumerate(self.layers):
            arrays |= {f"{name}.{i}.weight": weight, f"{name}.{i}.bias": bias}
        return {key: np.ascontiguousarray(array) for key, array in arrays.items()}

    @classmethod
    def of(cls, name: str, record: Mapping[str, Any], tensors: Mapping[str, Floats]) -> FittedNet:
        """Returns the net of a ``record`` and ``tensors``. Raises JudgeLoadError for shapes that do
        not fit, and KeyError for a missing array."""
        layers = tuple(
            (tensors[f"{name}.{i}.weight"], tensors[f"{name}.{i}.bias"])
            for i in range(record["layers"])
        )
        mean, scale = tensors[f"{name}.mean"], tensors[f"{name}.scale"]
        width = len(mean)
        for weight, bias in layers:
            if weight.shape != (width, len(bias)):
                raise JudgeLoadError(
                    f"weights of {name!r}: a layer is {weight.shape}, expected "
                    f"({width}, {len(bias)})",
                    hint="copy or download the whole folder again",
                )
            width = len(bias)
        return cls(record["head"], mean, scale, layers, record["top"], tuple(record["classes"]))


def on_levels(probabilities: Floats, levels: int) -> Floats:
    """Returns distributions over levels [n, levels] for ``probabilities`` of classes [n, k + 1]:
    each class is split between the two nearest levels so that the expected value stays."""
    places = np.linspace(0, levels - 1, probabilities.shape[1])
    distances = np.abs(places[:, None] - np.arange(levels))
    shares: Floats = probabilities @ np.clip(1 - distances, 0, None)
    return shares


GRID_NAME = "grid.csv"
ENCODER_FOLDER = "encoder"


class DialogueVector(NamedTuple):
    """``vector`` [W] of the dialogue, the sum over turns of ``weights`` [T] times ``turns`` [T, W]
    (None with ``reading: dialogue``, which does not tell turns apart); ``tokens``, the number of
    tokens of all turns; ``dropped``, the number of oldest turns that do not fit; ``cut``, the
    number of turns of which a part does not fit."""

    vector: Floats
    turns: Floats | None
    weights: Floats
    tokens: int
    dropped: int = 0
    cut: int = 0


class TurnStates(NamedTuple):
    """The ``states`` [T, W] of a dialogue's turns up to the last answer (0 for others), and the
    numbers of oldest turns that are ``dropped`` and of turns that are ``cut``."""

    states: Floats
    dropped: int = 0
    cut: int = 0


class EmbeddingJudge(LearnedJudge):
    """Scores dialogues by their sentence embeddings and surface features.

    Distributions are an MLP classifier's class probabilities on the dimension's levels, for other
    heads a normal with the calibrated spread; of a binary dimension they are the calibrated
    probability. The interval of its score is the range of the calibrations without one fold. A
    ridge that tells turns apart has contributions, in units of the raw score, relative to the mean
    training dialogue. ``search`` is the table of settings that training has tried.
    """

    family = "embedding"
    config: EmbeddingConfig

    def __init__(
        self,
        config: EmbeddingConfig,
        encoder: SentenceEncoder,
        dimensions: Sequence[Dimension],
        nets: Mapping[str, FittedNet],
        *,
        name: str = "embedding",
        calibration: Mapping[str, Calibration] | None = None,
        facts: Mapping[str, object] | None = None,
        search: Sequence[Mapping[str, object]] = (),
    ) -> None:
        self.describe(dimensions, name, calibration, facts)
        self.config, self.encoder, self.nets = config, encoder, dict(nets)
        self.search = [dict(row) for row in search]
        self.columns = [ALL_FEATURES.index(name) for name in config.features]
        if config.reading == "answers":
            self.window = 32  # half a minute of work, which a kill can lose

    @property
    def is_feature(self) -> np.ndarray:
        """Which columns of a dialogue's vector [W] are features; the others are embeddings."""
        features, embedding = [True] * len(self.columns), [False] * self.encoder.width
        if self.config.reading == "dialogue":
            return np.array(embedding + features * 2)
        return np.array((features + embedding) * (1 if self.config.reading == "answers" else 2))

    def _save(self, folder: Path) -> None:
        state = {k: v for name, net in self.nets.items() for k, v in net.tensors(name).items()}
        write_weights({k: torch.from_numpy(v) for k, v in state.items()}, folder / WEIGHTS_NAME)
        hashed = None
        if self.config.save_encoder:
            self.encoder.save(folder / ENCODER_FOLDER)
        else:
            hashed = base_hash(self.config.base, self.config.base_revision)
        records = {name: net.record() for name, net in self.nets.items()}
        self.write_state(folder, nets=records, body_hash=hashed)
        if self.search:
            pd.DataFrame(self.search).to_csv(folder / GRID_NAME, index=False)

    @classmethod
    def load(
        cls, folder: Path, *, device: str | None = None, dtype: str = "fp32"
    ) -> EmbeddingJudge:
        """Loads the judge saved in ``folder``; needs no network. Raises JudgeLoadError."""
        saved = read_config(folder)
        if dtype != "fp32":
            raise JudgeLoadError(f"an embedding judge runs in fp32, not {dtype!r}")
        path = folder / WEIGHTS_NAME
        tensors = {k: v.double().numpy() for k, v in read_weights(path).items()}
        nets = {name: FittedNet.of(name, r, tensors) for name, r in saved["nets"].items()}
        known = {key for name, net in nets.items() for key in net.tensors(name)}
        require_no_differences(path, {"unexpected": set(tensors) - known})
        config = EmbeddingConfig(**saved["embedding"])
        if config.save_encoder:
            encoder = SentenceEncoder.load(folder / ENCODER_FOLDER, device, config.depth)
        else:
            require_base(folder, saved["body_hash"], config.base, config.base_revision)
            encoder = SentenceEncoder.create(
                config.base, config.base_revision, device, config.depth
            )
        judge = cls(config, encoder, nets=nets, **learned_state(saved))
        width = len(judge.is_feature)
        wrong = [
            f"{k} {len(net.mean)} instead of {width}"
            for k, net in nets.items()
            if len(net.mean) != width
        ]
        require_no_differences(path, {"of another width": wrong})
        return judge

    # -- from a dialogue to its vector ---------------------------------------------------------

    def read(
        self, dialogues: Sequence[Dialogue], known: dict[str, Floats] | None = None
    ) -> list[DialogueVector]:
        """Returns the vector of each dialogue. ``reading: turns``: the mean assistant turn, then
        the mean user turn (features, then embedding). ``reading: dialogue``: the whole text's
        embedding, then the mean features of both sides. ``reading: answers``: features, then
        states, of the last answers. Each distinct text is encoded once; ``known`` has the vectors
        of earlier texts and receives the new ones."""
        config = self.config
        texts = list(dict.fromkeys(turn.content for d in dialogues for turn in d.turns))
        lengths = dict(zip(texts, self.encoder.lengths(texts), strict=True))
        table: dict[str, Floats] = {}
        if config.reading == "turns" or set(config.features) & set(SIMILARITY_NAMES):
            table = self._embedded(texts, known)
        joined = [_text(d) for d in dialogues] if config.reading == "dialogue" else []
        wholes = self._embedded(list(dict.fromkeys(joined)), known)
        states = self._states(dialogues, lengths) if config.reading == "answers" else []
        found = []
        for number, dialogue in enumerate(dialogues):
            surface = turn_features(dialogue).astype(np.float64)
            similar = np.zeros((len(surface), len(SIMILARITY_NAMES)))
            if table:
                embedded = np.array([table[turn.content] for turn in dialogue.turns])
                roles = torch.tensor([[ROLE_INDEX[turn.role] for turn in dialogue.turns]])
                vectors = torch.from_numpy(embedded).float()[None]
                mask = torch.ones_like(roles).bool()
                similar = turn_similarities(vectors, roles, mask)[0].numpy()
            rows: Floats = np.concatenate([surface, similar], axis=1)[:, self.columns]
            tokens, weights = sum(lengths[t.content] for t in dialogue.turns), np.zeros(len(rows))
            if config.reading == "answers":
                vectors_in_context, dropped, cut = states[number]
                rows = np.concatenate([rows, vectors_in_context], axis=1)
                answers = [i for i in dialogue.assistant_turns if i >= dropped][-config.answers :]
                weights[answers] = config.decay ** np.arange(len(answers))[::-1]
                weights /= weights.sum()
                vector = weights @ rows
                found.append(DialogueVector(vector, rows, weights, tokens, dropped, cut))
                continue
            if config.reading == "turns":
                rows = np.concatenate([rows, embedded], axis=1)
            means = []
            for side in _sides(dialogue):
                means.append(rows[side].mean(axis=0) if side else np.zeros(rows.shape[1]))
                weights[side] = 1 / max(1, len(side))
            whole = config.reading == "dialogue"
            if whole:
                means.insert(0, wholes[joined[number]])
            vector = np.concatenate(means)
            found.append(DialogueVector(vector, None if whole else rows, weights, tokens))
        return found

    def _states(
        self, dialogues: Sequence[Dialogue], lengths: Mapping[str, int]
    ) -> list[TurnStates]:
        """Returns the states of each dialogue. A causal model reads a dialogue and the dialogues
        that are its beginnings, as at level turn, once. A judge of features alone reads nothing."""
        config, found = self.config, dict[int, TurnStates]()
        if config.ridge.shares == (0.0,) and config.head == "ridge" and not config.heads:
            return [TurnStates(np.zeros((len(d.turns), self.encoder.width))) for d in dialogues]
        (mark,) = self.encoder.lengths(["\nAssistant: "])
        window = min(config.max_tokens, int(self.encoder.model.max_seq_length or config.max_tokens))
        read: dict[tuple[Turn, ...], Floats] = {}
        for place in sorted(range(len(dialogues)), key=lambda i: -len(dialogues[i].turns)):
            dialogue = dialogues[place]
            turns = dialogue.turns[: dialogue.assistant_turns[-1] + 1]
            rest = ((0, len(dialogue.turns) - len(turns)), (0, 0))
            if turns in read:
                found[place] = TurnStates(np.pad(read[turns], rest))
                continue
            start, room = len(turns), window - 2 * mark
            while start and (room := room - lengths[turns[start - 1].content] - mark) >= 0:
                start -= 1
            start = min(start, len(turns) - 1)
            names = [turn.role.capitalize() for turn in turns[start:]] + ["User"]
            text, spans = "", []
            for turn, name, after in zip(turns[start:], names, names[1:], strict=False):
                begin = len(text) + len(name) + 1
                text += f"{name}: {self.encoder.marks.broken_up(turn.content)}\n"
                colon = len(text) + len(after)
                spans.append((colon, colon + 1) if config.next_turn else (begin, len(text) - 1))
            states = np.zeros((len(turns), self.encoder.width))
            states[start:], is_cut = self.encoder.in_context(f"{text}User:", spans, window)
            found[place] = TurnStates(np.pad(states, rest), start, int(is_cut))
            reusable = self.encoder.causal and not start and not is_cut
            for end in range(1, len(turns) + 1) if reusable else ():
                if end == len(turns) or not config.next_turn or turns[end].role == "user":
                    read[turns[:end]] = states[:end]
        return [found[i] for i in range(len(dialogues))]

    def _embedded(self, texts: Sequence[str], known: dict[str, Floats] | None) -> dict[str, Floats]:
        known = {} if known is None else known
        new = [text for text in texts if text not in known]
        known.update(zip(new, self.encoder.embed(new, self.token_budget), strict=True))
        return known

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        vectors = self.read([request.dialogue for request in requests])
        for request, vector in zip(requests, vectors, strict=True):
            request.payload, request.tokens = vector, vector.tokens
            request.truncated_turns, request.cut_turns = vector.dropped, vector.cut

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        details: list[dict[str, dict[str, Any]]] = [{} for _ in requests]
        rows: list[tuple[dict[str, float | None], dict[str, list[float]], dict[str, Contributions]]]
        rows = [({}, {}, {}) for _ in requests]
        for name in dimensions:
            fitted, dimension, net = self.fitted(name), self.dimension(name), self.nets[name]
            pooled = [self._pooled(request, dimension) for request in requests]
            vectors = np.stack([vector for vector, _ in pooled])
            if net.head != "mlp_classifier":
                for own, value in zip(details, net.raw(vectors)[:, 0].tolist(), strict=True):
                    own[name] = {"raw": dimension.from_unit(value / net.top)}
            given = self.units(name, vectors).tolist()
            units = [fitted.map_unit(unit) for unit in given]
            if fitted.others:
                for own, unit in zip(details, given, strict=True):
                    others = (float(isotonic_map(unit, knots)) for knots in fitted.others)
                    reach = [fitted.moved(chance) for chance in others]
                    own.setdefault(name, {})["interval"] = [min(reach), max(reach)]
            chances = self._distributions(
                dimension, vectors, np.array([fitted.chance(unit) for unit in given])
            )
            for k, (request, unit, chance) in enumerate(zip(requests, units, chances, strict=True)):
                rows[k][0][name] = dimension.from_unit(unit)
                if len(chance):
                    rows[k][1][name] = chance.tolist()
                if net.head == "ridge" and request.payload.turns is not None:
                    raw = details[k][name]["raw"]
                    weights = pooled[k][1]
                    rows[k][2][name] = self._contributions(dimension, request, weights, raw)
        return [
            Judgement(scores=s, distributions=d, contributions=c, details=own)
            for (s, d, c), own in zip(rows, details, strict=True)
        ]

    def _pooled(self, request: ScoreRequest, dimension: Dimension) -> tuple[Floats, Floats]:
        """Returns the vector that the dimension's net reads, and the weight of each turn in it."""
        payload: DialogueVector = request.payload
        if not self.config.each_answer or request.turn is not None or payload.turns is None:
            return payload.vector, payload.weights
        answers = [i for i in request.dialogue.assistant_turns if i >= payload.dropped]
        if dimension.good == "low":
            units = self.units(dimension.name, payload.turns[answers])
            answers = [answers[int(np.argmax(units))]]
        weights = np.zeros(len(payload.turns))
        weights[answers] = 1 / len(answers)
        return weights @ payload.turns, weights

    def units(self, name: str, vectors: Floats) -> Floats:
        """Returns scores [n] of dialogue ``vectors`` on [0, 1], before calibration."""
        return self.nets[name].units(vectors, self.config.decode)

    def _distributions(self, dimension: Dimension, vectors: Floats, units: Floats) -> Floats:
        """Returns the probability per level [n, levels]; no columns if there is none."""
        net, levels = self.nets[dimension.name], len(dimension.levels)
        if dimension.kind == "binary":  # the calibrated probability of label 1
            return np.stack([1 - units, units], axis=1)
        if net.head == "mlp_classifier" and levels > 1:
            return on_levels(net.probabilities(vectors), levels)
        spread = self.fitted(dimension.name).spread
        if levels < 2 or not spread:
            return np.zeros((len(vectors), 0))
        bins: Floats = normal_bins(torch.from_numpy(units), spread, levels).double().numpy()
        return bins

    def _contributions(
        self, dimension: Dimension, request: ScoreRequest, pooling: Floats, raw: float
    ) -> Contributions:
        """Returns contributions relative to the mean training dialogue, which the net subtracts."""
        net, turns = self.nets[dimension.name], request.payload.turns
        half, width = turns.shape[1], dimension.high - dimension.low
        weights = (net.layers[0][0][:, 0] * net.scale).reshape(-1, half)
        sides = [int(turn.role == "user") * (len(weights) - 1) for turn in request.dialogue.turns]
        shares = pooling * (turns * weights[sides]).sum(axis=1)
        means = (weights * net.mean.reshape(-1, half)).sum(axis=1)[sides]
        mapped = self.fitted(dimension.name).isotonic is not None
        return centred(
            (width * shares).tolist(),
            pooling.tolist(),
            (width * means).tolist(),
            raw,
            unit_of("score", mapped=mapped),
        )


def _sides(dialogue: Dialogue) -> list[list[int]]:
    """Returns the indices of the assistant's turns, then of the user's turns."""
    turns = list(enumerate(dialogue.turns))
    return [[i for i, t in turns if t.role == side] for side in ("assistant", "user")]


def _text(dialogue: Dialogue) -> str:
    return "\n".join(f"{turn.role.capitalize()}: {turn.content}" for turn in dialogue.turns)
