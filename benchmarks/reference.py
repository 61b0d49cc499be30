"""Writes configs/references/boxed.json: how boxed scores Dialogue-Eval, as percentiles.

    python benchmarks/reference.py

Dialogue-Eval (MIT) has free-topic chats of crowd workers with ten chatbots. The degraded bot of its
quality control is left out. The file holds percentiles alone, no row. Needs $MEDAL_JUDGES_DATA and
takes two minutes on one core; run it after `make boxed`.
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from medal_judges import Judge
from medal_judges.data_prep.sources.registry import load_spec
from medal_judges.eval.scores.options import ScoreSelection
from medal_judges.eval.scores.relative import make_reference
from medal_judges.eval.scores.scores import load_scores
from medal_judges.storage.files import write_json
from medal_judges.storage.judgements import to_frame

ROOT = Path(__file__).parent.parent
DIGITS = 4  # scores depend by less on the batch


def main() -> None:
    dialogues = []
    for row in load_spec("dialogue_eval"):
        if row.dialogue.chatbot != "quality_control":
            dialogues.append(row.dialogue)
    frame = to_frame(Judge.from_pretrained("boxed").score(dialogues))
    scores = load_scores(frame, ScoreSelection(scores=("dialogue_eval",)))
    about = (
        f"{len(dialogues):,} chats of crowd workers with ten chatbots (Dialogue-Eval)"
    )
    record = asdict(make_reference(scores, about))
    for name, quantiles in record["quantiles"].items():
        record["quantiles"][name] = [round(score, DIGITS) for score in quantiles]
    write_json(ROOT / "configs/references/boxed.json", record)


if __name__ == "__main__":
    main()
