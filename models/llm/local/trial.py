"""A one-time trial of the quick ways to compute with a model, against its own forward pass.

A tree of shared beginnings, padding in a batch, a beginning read once: each is right for most
architectures and silently wrong for some. So each way is tried when a model is first used, the
finding is cached, and a way that is wrong is not taken. The reference is always one sequence alone,
read in one pass without cache, mask or padding. Prompts are random token ids: a fault (padding that
is attended to, wrong positions, a skipped step) shows on any text.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from transformers import LogitsProcessor, LogitsProcessorList

from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.local.generation import Batching, greedy, read_inputs
from medal_judges.models.llm.local.layers import (
    attends_to_all,
    context_of,
    decoder_config,
    narrowed,
    scales_positions,
    smallest_window,
    tree_windows,
)
from medal_judges.models.llm.local.likelihood import plain_logprobs, tree_logprobs
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_write, cache_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

FORMAT = 7  # of the cached findings; raise it if the trial changes
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
class Finding:
    """``deviation`` in nats (None: not tried, or it raised) against ``allowed``; ``reason`` says
    why the way is not taken."""

    deviation: float | None
    allowed: float
    reason: str | None = None

    @property
    def holds(self) -> bool:
        """Whether the way may be taken."""
        return self.reason is None


@dataclass(frozen=True, slots=True)
class Paths:
    """The finding for each way: ``tree`` (likelihoods of shared beginnings), ``alone`` (one answer,
    token by token), ``together`` (prompts of one length), ``left`` (padded prompts) and ``shared``
    (common beginnings read once)."""

    findings: Mapping[str, Finding]

    @property
    def tree(self) -> bool:
        """Whether likelihoods may come from a tree instead of the plain loop."""
        return self.findings["tree"].holds

    @property
    def batching(self) -> Batching:
        """The quickest way to batch prompts that holds."""
        for batching, ways in _BATCHINGS.items():
            if all(self.findings[way].holds for way in ways):
                return batching
        return "alone"


_BATCHINGS: dict[Batching, tuple[str, ...]] = {
    "shared": ("together", "left", "shared"),
    "left": ("together", "left"),
    "none": ("together",),
}
_KNOWN: dict[str, Paths] = {}


def quick_paths(model: PreTrainedModel) -> Paths:
    """The findings for ``model``: cached per config, precision, device, attention and versions of
    torch and transformers."""
    config = model.config.to_dict()
    for name in ("_name_or_path", "transformers_version"):
        config.pop(name, None)
    how = [type(model).__name__, str(model.dtype), model.device.type]
    how += [str(getattr(model.config, "_attn_implementation", None))]
    versions = [version("torch"), version("transformers"), FORMAT]
    key = content_hash([json.dumps(config, sort_keys=True, default=str), how, versions])
    if key not in _KNOWN:
        file = cache_folder() / "doctor" / f"{key}.json"
        _KNOWN[key] = _cached(file) or _tried(model, file)
    return _KNOWN[key]


def _cached(file: Path) -> Paths | None:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        return Paths({name: Finding(**each) for name, each in record.items()})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None  # not tried yet, or half written


def _tried(model: PreTrainedModel, file: Path) -> Paths:
    paths = try_paths(model)
    for name, finding in paths.findings.items():
        if not finding.holds:
            logger.info("%s: not %s (%s)", type(model).__name__, name, finding.reason)
    records = {name: asdict(finding) for name, finding in paths.findings.items()}
    atomic_write(file, json.dumps(records, indent=1) + "\n")
    return paths


def try_paths(model: PreTrainedModel) -> Paths:
    """As ``quick_paths``, without the cache."""
    training = model.training
    model.train(False)
    try:
        with narrowed(model.config, NARROWED):
            return Paths(_findings(model))
    finally:
        model.train(training)


def _findings(model: PreTrainedModel) -> dict[str, Finding]:
    config, window = model.config, smallest_window(model.config)
    common = COMMON if window is None or window > WINDOW_TRIED else max(COMMON, window + 16)
    longest = max(OWN) + STEPS
    trial = Trial(model, common=min(common, (context_of(config) or common + longest) - longest))
    sharing = "not every layer sees all tokens before" if not attends_to_all(config) else None
    if scales_positions(config):
        sharing = "its positions depend on the length of the whole text"
    no_tree = "a layer sees in a way that no mask expresses"
    return {
        "tree": trial.tree() if tree_windows(config) else Finding(None, trial.allowed, no_tree),
        "alone": trial.answers([2]),
        "together": trial.answers([2, 3]),
        "left": trial.answers(range(4)),
        "shared": Finding(None, trial.allowed, sharing)
        if sharing
        else trial.answers(range(5), shared=True),
    }


class Trial:
    """Random prompts for one model with their reference numbers. All but the last prompt begin with
    the same ``common`` tokens."""

    def __init__(self, model: PreTrainedModel, *, common: int = COMMON, seed: int = 0) -> None:
        self.model = model
        rng = np.random.default_rng(seed)
        words = _ordinary_ids(model)
        start = rng.choice(words, common)
        own = [(*start, *rng.choice(words, n)) for n in OWN] + [rng.choice(words, OTHER)]
        self.prompts = [tuple(map(int, prompt)) for prompt in own]
        self.texts = [tuple(map(int, rng.choice(words, STEPS))) for _ in own]
        pairs = zip(self.prompts, self.texts, strict=True)
        self.sequences = [TokenSequence((*p, *text), len(p)) for p, text in pairs]
        self.wanted, _ = plain_logprobs(model, self.sequences)
        self.half = "float32" not in str(model.dtype)
        # Weights that give nearly the same score to each word would hide a fault: scale by them.
        scale = min(1.0, float(np.std(np.concatenate(self.wanted))))
        self.allowed = ALLOWED * scale
        if self.half:
            rows = self._written([0, 0, 0])
            noise = float(np.mean([np.abs(row - self.wanted[0]).mean() for row in rows]))
            self.allowed = max(ALLOWED_HALF * scale, TIMES_NOISE * noise)

    def tree(self) -> Finding:
        """Likelihoods from a tree."""
        rows = range(len(self.sequences))
        return self.finding(lambda: tree_logprobs(self.model, self.sequences)[0], rows)

    def answers(self, rows: Sequence[int], *, shared: bool = False) -> Finding:
        """The prompts ``rows`` answered in one batch."""
        return self.finding(lambda: self._written(rows, shared=shared), rows)

    def finding(self, way: Callable[[], Sequence[np.ndarray]], rows: Sequence[int]) -> Finding:
        """What ``way`` returns for the sequences ``rows`` against the reference. Raises
        OutOfMemoryError, which says nothing about the way."""
        try:
            values = way()
        except torch.OutOfMemoryError:
            raise
        except Exception as error:  # a model's own code raises what it likes
            text = (str(error).strip().splitlines() or [""])[0][:120]
            return Finding(None, self.allowed, f"raises {type(error).__name__}: {text}")
        apart = [np.abs(v - self.wanted[row]) for v, row in zip(values, rows, strict=True)]
        apart_all = np.concatenate(apart)
        deviation = float(apart_all.mean() if self.half else apart_all.max())
        wrong = not deviation <= self.allowed  # negated, so that NaN is wrong
        return Finding(deviation, self.allowed, f"{deviation:.2g} nats off" if wrong else None)

    def _written(self, rows: Sequence[int], *, shared: bool = False) -> list[np.ndarray]:
        """Log-probabilities of the texts of ``rows``, written after their prompts in one batch."""
        prompts = [self.prompts[row] for row in rows]
        inputs = read_inputs(self.model, prompts, 0, shared=shared, least=8)
        forced = _Forced([self.texts[row] for row in rows], inputs.ids.shape[1])
        shaped = LogitsProcessorList([forced])
        _, recorder = greedy(self.model, inputs, pad=0, shaped=shaped, tokens=STEPS, top=1)
        assert recorder is not None
        return list(recorder.own().cpu().numpy().astype(float))


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


def _ordinary_ids(model: PreTrainedModel) -> np.ndarray:
    """Token ids that neither end an answer nor pad."""
    config = decoder_config(model.config)
    ends = model.generation_config.eos_token_id
    special = {*(ends if isinstance(ends, list) else [ends])}
    special |= {getattr(config, f"{name}_token_id", None) for name in ("pad", "bos", "eos")}
    first = min(1000, config.vocab_size // 10)  # the low ids are marks and single bytes
    return np.array([i for i in range(first, config.vocab_size) if i not in special])
