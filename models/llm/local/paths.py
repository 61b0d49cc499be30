"""Which ways of computing a model is given, found out once by trying them.

A tree of shared prefixes, padding in a batch, a beginning read once: each is right for most
architectures and wrong for some, mostly in silence. So each way is held against the model's own
forward pass (probes.py) when a model is first used, and the finding kept in the cache: a way that
is shown to be wrong is not taken.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from medal_judges.models.llm.local.batches import Batching
from medal_judges.models.llm.local.layers import (
    attends_to_all,
    context_of,
    moved_states,
    narrowed,
    smallest_window,
    tree_windows,
)
from medal_judges.models.llm.local.probes import COMMON, LONGEST, Finding, Probe
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import atomic_write, cache_folder

if TYPE_CHECKING:
    from transformers import PreTrainedModel

logger = logging.getLogger(__name__)

FORMAT = 6  # of the kept findings: raise it when a probe changes
# Windows up to here are filled by the quick probes; longer ones of other kinds than a sliding one,
# which is narrowed while it is tried, are known from the config alone.
WINDOW_TRIED = 128
NARROWED = 24  # tokens; fewer than the prompts of a probe have in common
_KNOWN: dict[str, Paths] = {}


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
    training = model.training
    model.train(False)
    try:
        with narrowed(model.config, NARROWED):
            return Paths(_findings(model))
    finally:
        model.train(training)


def _findings(model: PreTrainedModel) -> dict[str, Finding]:
    window = smallest_window(model.config)
    common = COMMON if window is None or window > WINDOW_TRIED else max(COMMON, window + 16)
    common = min(common, (context_of(model.config) or common + LONGEST) - LONGEST)
    probe = Probe(model, common=common)
    no_tree = None if tree_windows(model.config) else "a layer sees other than what stands before"
    no_kept = moved_states(model.config)
    if not attends_to_all(model.config):
        no_kept = "not every layer sees all before it"
    return {
        "tree": Finding(None, probe.allowed, no_tree) if no_tree else probe.tree(),
        "alone": probe.alone(),
        "together": probe.together(),
        "kept": Finding(None, probe.allowed, no_kept) if no_kept else probe.kept(),
        "left": probe.left(),
        "shared": probe.shared(),
    }
