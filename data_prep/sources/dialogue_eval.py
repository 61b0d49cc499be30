"""Dialogue-Eval: chats of crowd workers with ten chatbots, scored by the worker who chatted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from medal_judges.data_prep.sources.public_form import exchanges, rated
from medal_judges.data_prep.sources.source import Source, SourceFile, hash_split
from medal_judges.records.labelled import LabelledDialogue

QUALITY_CONTROL = "quality_control"  # the degraded bot that catches careless workers
_MODELS = {
    "A": "biencoder",
    "B": "polyencoder",
    "C": "kvmemnn",
    "D": "seq2seq",
    "E": "lan_model",
    "QualityControl": QUALITY_CONTROL,
}


def read_dialogue_eval(path: Path) -> Iterator[LabelledDialogue]:
    """Yields the rows of dialogue_data/pass_free(run1).json; labels are z scores per worker.

    Numbers replace the workers' ids. The public file has no splits: all rows of a worker share one,
    by a hash of the worker's number (other than in the line format).
    """
    workers: dict[str, str] = {}
    number = 0
    for hit in json.loads(path.read_text(encoding="utf-8")):
        worker = workers.setdefault(hit["WorkerId"], f"worker-{len(workers):04d}")
        for chat in hit["data"]:
            raw, z = _with_overall(chat["raw scores"]), _with_overall(chat["z scores"])
            name = chat["model"]
            base = _MODELS.get(name) or _MODELS[name.removesuffix("_p")] + "_p"
            extra = {
                "raw_labels": {k: [v] for k, v in raw.items()},
                "raw_scales": {k: [0, 100] for k in raw},
                "run": "free1",
                "worker": worker,
            }
            yield rated(
                f"dialogue-eval-dial-{number:04d}",
                exchanges((each["user"], each["bot"]) for each in chat["dialogue"]),
                {name: [float(score)] for name, score in z.items()},
                dict.fromkeys(z),
                source="dialogue_eval",
                group=f"dialogue-eval-{number:04d}",
                model=base,
                split=hash_split(worker, seed=0),
                extra=extra | ({QUALITY_CONTROL: True} if base == QUALITY_CONTROL else {}),
            )
            number += 1


def _with_overall(scores: dict[str, float]) -> dict[str, float]:
    """The seven answers and their mean as overall, which is no question of its own."""
    return scores | {"overall": sum(scores.values()) / len(scores)}


DIALOGUE_EVAL = Source(
    name="dialogue_eval",
    title="Dialogue-Eval: 1,290 free-topic chats with ten chatbots, rated by the chat partner",
    licence="MIT",
    citation="Ji et al., ACL 2022: Achieving Reliable Human Assessment of Open-Domain Dialogue "
    "Systems",
    languages=("en",),
    parts=(
        SourceFile(
            "dialogue",
            "dialogue",
            "dialogue_eval.jsonl.gz",
            "9bc376aa6c1d1489edc92d9352b68771a74722c51aff569f1194c52f7d450a2c",
            "https://raw.githubusercontent.com/TianboJi/Dialogue-Eval/main/dialogue_data/"
            "pass_free(run1).json",
            "dialogue_eval_pass_free_run1.json",
            "af2c6e49139f067bba07634e1b216213c64e006513e59660787cf8edea3a4379",
            read_dialogue_eval,
        ),
    ),
    notes=(
        "Rows of the model quality_control are a degraded bot: leave them out of a correlation.",
        "robotic and repetitive are reversed in the source: higher is better in every dimension.",
    ),
)
