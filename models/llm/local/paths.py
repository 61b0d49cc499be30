"""Which ways of computing a model is given, found out once by trying them.

A tree of shared prefixes, padding in a batch, a beginning read once: each is right for most
architectures and wrong for some, mostly in silence. So each way is held against the model's own
forward pass (probes.py) when a model is first used, and the finding kept in the cache: a way that
is shown to be wrong is not taken. This is the quick form of ``medal doctor --llm``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.files import atomic_write, cache_folder
from medal_judges.models.llm.local.batches import Batching
from medal_judges.models.llm.local.probes import COMMON, LONGEST, Finding, Probe, decoder_config
from medal_judges.signature import content_hash

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

logger = logging.getLogger(__name__)

FORMAT = 5  # of the kept findings: raise it when a probe changes
# Windows up to here are filled by the quick probes; longer ones are known from the config alone.
WINDOW_TRIED = 128
_KNOWN: dict[str, Paths] = {}
# The names under which configs of transformers keep a window, in tokens.
_WINDOWS = (
    *("sliding_window", "attention_window", "attention_window_size"),
    *("attention_chunk_size", "local_attention", "window_size"),
)
_CONTEXTS = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_LIMITED = ("sliding", "chunked", "local", "window")


@dataclass(frozen=True, slots=True)
class Paths:
    """What each way (``tree``, ``alone``, ``together``, ``kept``, ``left``, ``shared``) was found
    to be; the ways are Probe's."""

    findings: Mapping[str, Finding]

    @property
    def tree(self) -> bool:
        """Whether likelihoods may be read off a tree; else the plain loop is taken."""
        return self.findings["tree"].holds

    @property
    def batching(self) -> Batching:
        """The quickest way to batch prompts that holds."""
        shared = self.findings["shared"].holds
        if not self.findings["together"].holds:
            return Batching("alone", shared=False)
        if self.findings["kept"].holds:
            return Batching("kept", shared=True)
        return Batching("left" if self.findings["left"].holds else "none", shared=shared)


def quick_paths(model: PreTrainedModel) -> Paths:
    """The ways that hold for ``model``, from the cache where it was tried before: with this config,
    precision, device, attention and these versions of torch and transformers."""
    key = _key(model)
    if key not in _KNOWN:
        file = cache_folder() / "doctor" / f"{key}.json"
        _KNOWN[key] = _kept(file) or _tried(model, file)
    return _KNOWN[key]


def _key(model: PreTrainedModel) -> str:
    config = model.config.to_dict()
    for name in ("_name_or_path", "transformers_version"):
        config.pop(name, None)
    how = [type(model).__name__, str(model.dtype), model.device.type]
    how += [str(getattr(model.config, "_attn_implementation", None))]
    versions = [version("torch"), version("transformers"), FORMAT]
    return content_hash([json.dumps(config, sort_keys=True, default=str), how, versions])


def _kept(file: Path) -> Paths | None:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
        return Paths({name: Finding(**each) for name, each in record.items()})
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None  # not tried yet, or not written whole


def _tried(model: PreTrainedModel, file: Path) -> Paths:
    paths = try_paths(model)
    for name, finding in paths.findings.items():
        if not finding.holds:
            logger.info("%s: not %s (%s)", type(model).__name__, name, finding.reason)
    records = {name: asdict(finding) for name, finding in paths.findings.items()}
    atomic_write(file, json.dumps(records, indent=1) + "\n")
    return paths


def try_paths(model: PreTrainedModel) -> Paths:
    """As ``quick_paths``, tried now whatever was kept."""
    window = smallest_window(model.config)
    common = COMMON if window is None or window > WINDOW_TRIED else max(COMMON, window + 16)
    common = min(common, (context_of(model.config) or common + LONGEST) - LONGEST)
    training = model.training
    model.train(False)
    try:
        probe = Probe(model, common=common)
        no_tree = None if attends_to_all(model.config) else "not every layer sees all before it"
        no_kept = no_tree or _moved_states(model.config)
        findings = {
            "tree": Finding(None, probe.allowed, no_tree) if no_tree else probe.tree(),
            "alone": probe.alone(),
            "together": probe.together(),
            "kept": Finding(None, probe.allowed, no_kept) if no_kept else probe.kept(),
            "left": probe.left(),
            "shared": probe.shared(),
        }
    finally:
        model.train(training)
    return Paths(findings)


# -- what a config says of how far its layers see ------------------------------------------------


def context_of(config: PreTrainedConfig) -> int | None:
    """Tokens that the model's positions reach; None where its config sets no bound."""
    own = decoder_config(config)
    sizes = (getattr(own, name, None) for name in _CONTEXTS)
    return next((int(n) for n in sizes if isinstance(n, int) and n > 0), None)


def smallest_window(config: PreTrainedConfig) -> int | None:
    """The shortest window of any layer, in tokens; None where every layer sees all before it."""
    own = decoder_config(config)
    kinds = layer_kinds(own)
    if kinds is not None and not any(word in kind for kind in kinds for word in _LIMITED):
        return None
    if kinds is None and not getattr(own, "use_sliding_window", True):
        return None
    sizes = (getattr(own, name, None) for name in _WINDOWS)
    return min((n for n in sizes if isinstance(n, int) and n > 0), default=None)


def attends_to_all(config: PreTrainedConfig) -> bool:
    """Whether every layer of a model attends to all that stands before: a tree mask needs that.

    Sliding windows, chunks and recurrent layers do not.
    """
    own = decoder_config(config)
    kinds = layer_kinds(own)
    if kinds is not None and any(kind not in ("full_attention", "global") for kind in kinds):
        return False
    recurrent = any(word in own.model_type for word in ("mamba", "rwkv", "jamba", "zamba"))
    return smallest_window(config) is None and not recurrent


def _moved_states(config: PreTrainedConfig) -> str | None:
    """Why states of a text are others in a longer one; None where they are not."""
    own = decoder_config(config)
    rope = getattr(own, "rope_parameters", None) or {}
    each = [rope, *(value for value in rope.values() if isinstance(value, dict))]
    if any(one.get("rope_type") in ("dynamic", "longrope") for one in each):
        return "its positions are scaled by the length of the whole text"
    return None


def layer_kinds(config: PreTrainedConfig) -> list[str] | None:
    """The kind of each layer by its config's own words; None where it does not tell."""
    # GPT-Neo, the oldest of them, calls the list otherwise.
    kinds = getattr(config, "layer_types", None) or getattr(config, "attention_layers", None)
    return None if kinds is None else [str(kind) for kind in kinds]
