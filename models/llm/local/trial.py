"""A one-time trial of the quick ways to compute with a model, against its own forward pass.

A tree of shared beginnings, padding in a batch, a beginning read once: each is right for most
architectures and silently wrong for some. So each way is tried when a model is first used, the
result is cached, and a wrong way is not used. The reference is always one sequence alone, read in
one pass without cache, mask or padding. Prompts are random token ids: a fault (padding that is
attended to, wrong positions, a skipped step) shows on any text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.local import likelihood
from medal_judges.models.llm.local.generation import (
    Batching,
    end_ids,
    greedy,
    read_inputs,
)
from medal_judges.models.llm.local.likelihood import plain_logprobs, tree_logprobs
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_write, cache_folder

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

logger = logging.getLogger(__name__)

FORMAT = 10  # of the cached results; raise it if the trial changes
COMMON = 40  # tokens that the prompts begin with
OWN = (1, 4, 11, 11)  # tokens of each prompt after these
OTHER = 23  # tokens of a prompt that begins in another way
STEPS = 6  # tokens that are scored, or written, after each prompt
# Windows up to this size are filled by the trial. Sliding windows are narrowed for it; for other
# kinds the config alone decides.
WINDOW_TRIED = 128
NARROWED = 24  # tokens, fewer than the prompts share
# In fp32 the largest deviation counts. 16 bits round in each layer, and a router may choose another
# expert: there the mean counts, also relative to the noise between identical rows of a batch.
ALLOWED = 0.002
ALLOWED_HALF = 0.1
TIMES_NOISE = 4.0


@dataclass(frozen=True, slots=True)
class Paths:
    """For each way the reason why it is not used (None: it is right): ``tree`` (likelihoods of
    shared beginnings), ``alone`` (one answer, token by token), ``left`` (prompts padded at the
    left) and ``shared`` (common beginnings read once)."""

    tree: str | None
    alone: str | None
    left: str | None
    shared: str | None

    @property
    def batching(self) -> Batching:
        """The quickest way to batch prompts that is right."""
        if self.left:
            return "alone"
        if self.shared:
            return "left"
        return "shared"


_KNOWN: dict[str, Paths] = {}


def quick_paths(model: PreTrainedModel) -> Paths:
    """The results for ``model``: cached per config, precision, device, attention and versions of
    torch and transformers."""
    config = model.config.to_dict()
    for name in ("_name_or_path", "transformers_version"):
        config.pop(name, None)
    attention = str(getattr(model.config, "_attn_implementation", None))
    how = [type(model).__name__, str(model.dtype), model.device.type, attention]
    versions = [version("torch"), version("transformers"), FORMAT]
    key = content_hash([json.dumps(config, sort_keys=True, default=str), how, versions])
    if key not in _KNOWN:
        file = cache_folder() / "doctor" / f"{key}.json"
        try:
            _KNOWN[key] = Paths(**json.loads(file.read_text(encoding="utf-8")))
        except (OSError, ValueError, TypeError, RecursionError):
            # Not tried yet, or half written.
            _KNOWN[key] = paths = try_paths(model)
            wrong = {name: reason for name, reason in asdict(paths).items() if reason}
            logger.info("%s does without: %s", type(model).__name__, wrong)
            atomic_write(file, json.dumps(asdict(paths), indent=1) + "\n")
    return _KNOWN[key]


def try_paths(model: PreTrainedModel) -> Paths:
    """As ``quick_paths``, without the cache."""
    config, training = model.config, model.training
    window, _ = likelihood.layer_windows(config)
    common = COMMON
    if window is not None and window <= WINDOW_TRIED:
        common = max(COMMON, window + 16)
    longest = max(OWN) + STEPS
    model.train(False)
    try:
        with _narrowed(config):
            room = likelihood.context_of(config) - longest
            trial = Trial(model, common=min(common, room))
            _, windows = likelihood.layer_windows(config)
            tree: str | None = "a layer sees in a way that no mask expresses"
            if windows:
                tree = trial.tree()
            return Paths(
                tree=tree,
                alone=trial.answers([2]),
                left=trial.answers(range(4)),
                shared=_unshareable(config) or trial.answers(range(5), shared=True),
            )
    finally:
        model.train(training)


def _unshareable(config: PreTrainedConfig) -> str | None:
    """The reason why the model cannot read a beginning that prompts share once, by its config."""
    decoder = config.get_text_config(decoder=True)
    rope = getattr(decoder, "rope_parameters", None) or {}
    # One mapping for the model, or one for each kind of layer.
    for parameters in (rope, *rope.values()):
        kind = parameters.get("rope_type") if isinstance(parameters, dict) else None
        if kind in ("dynamic", "longrope"):
            return "its positions depend on the length of the whole text"
    _, windows = likelihood.layer_windows(config)
    if windows is None or any(window is not None for window in windows.values()):
        return "not every layer sees all tokens before"
    return None


@contextmanager
def _narrowed(config: PreTrainedConfig) -> Iterator[None]:
    """Limits the sliding window to NARROWED tokens inside the context, so that a short text fills
    it: masks and caches read the config at each pass."""
    decoder = config.get_text_config(decoder=True)
    size = getattr(decoder, "sliding_window", None)
    if isinstance(size, int) and size > NARROWED:
        decoder.sliding_window = NARROWED
    try:
        yield
    finally:
        if size is not None:
            decoder.sliding_window = size


class Trial:
    """Random prompts for one model with their reference numbers. All but the last prompt begin with
    the same ``common`` tokens."""

    def __init__(
        self, model: PreTrainedModel, *, common: int = COMMON, seed: int = 0
    ) -> None:
        self.model = model
        rng = np.random.default_rng(seed)
        config = model.config.get_text_config(decoder=True)
        marks = end_ids(model)
        for name in ("pad", "bos", "eos"):
            marks = [*marks, getattr(config, f"{name}_token_id", None)]
        first = min(1000, config.vocab_size // 10)  # low ids are marks and single bytes
        words = np.setdiff1d(
            np.arange(first, config.vocab_size),
            [mark for mark in marks if mark is not None],
        )
        beginning = rng.choice(words, common)
        prompts = []
        for length in OWN:
            prompts.append([*beginning.tolist(), *rng.choice(words, length).tolist()])
        prompts.append(rng.choice(words, OTHER).tolist())
        self.prompts = [tuple(prompt) for prompt in prompts]
        self.texts = [tuple(rng.choice(words, STEPS).tolist()) for _ in prompts]
        self.sequences = []
        for prompt, text in zip(self.prompts, self.texts, strict=True):
            self.sequences.append(TokenSequence(prompt + text, len(prompt)))
        self.wanted, _ = plain_logprobs(model, self.sequences)
        # Layers in 4 or 8 bits compute in bf16, also between layers in fp32.
        quantized = getattr(model, "is_quantized", False)
        self.half = quantized or "float32" not in str(model.dtype)
        # Weights that give nearly the same score to each word would hide a fault: scale by them.
        scale = min(1.0, float(np.std(self.wanted)))
        self.allowed = ALLOWED * scale
        if self.half:
            deviations = np.abs(np.array(self._written([0, 0, 0])) - self.wanted[0])
            noise = float(deviations.mean())
            self.allowed = max(ALLOWED_HALF * scale, TIMES_NOISE * noise)

    def tree(self) -> str | None:
        """Tries likelihoods from a tree."""
        rows = range(len(self.sequences))
        return self.wrong(lambda: tree_logprobs(self.model, self.sequences)[0], rows)

    def answers(self, rows: Sequence[int], *, shared: bool = False) -> str | None:
        """Tries to answer the prompts ``rows`` in one batch."""
        return self.wrong(lambda: self._written(rows, shared=shared), rows)

    def wrong(
        self, way: Callable[[], Sequence[np.ndarray]], rows: Sequence[int]
    ) -> str | None:
        """How ``way`` deviates from the reference of the sequences ``rows``; None if it is right.
        Raises OutOfMemoryError, which says nothing about the way."""
        try:
            values = way()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a model's own code raises anything
            return f"raises {type(error).__name__}: {str(error).strip()[:120]}"
        reference = np.array(self.wanted)[rows]
        apart = np.abs(np.array(values) - reference)
        deviation = float(apart.max())
        if self.half:
            deviation = float(apart.mean())
        if deviation <= self.allowed:
            return None
        return f"{deviation:.2g} nats off"  # or NaN

    def _written(
        self, rows: Sequence[int], *, shared: bool = False
    ) -> list[np.ndarray]:
        """Log-probabilities of the texts of ``rows``, written after their prompts in one batch."""
        prompts = [self.prompts[row] for row in rows]
        inputs = read_inputs(self.model, prompts, 0, shared=shared, shortest=8)
        forced = _Forced([self.texts[row] for row in rows], inputs.ids.shape[1])
        shaped = LogitsProcessorList([forced])
        _, recorder = greedy(
            self.model, inputs, pad=0, shaped=shaped, tokens=STEPS, top=1
        )
        return list(recorder.written().cpu().numpy().astype(float))


class _Forced(LogitsProcessor):
    """Makes row i write ``texts[i]``."""

    def __init__(self, texts: Sequence[Sequence[int]], prompt: int) -> None:
        self.texts, self.prompt = texts, prompt

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        step = input_ids.shape[1] - self.prompt
        forced = torch.full_like(scores, float("-inf"))
        for row, text in enumerate(self.texts):
            forced[row, text[step]] = 0
        return forced
