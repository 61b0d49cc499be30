"""Puts the judge of configs/train/boxed.yaml into the package: ``boxed_package.py FOLDER TARGET``.

The head of ``repetitive`` is taken out on the way: it tells what its own raters said, and says no
of every dialogue of ABC-Eval (F1 0.00 where two in three have the issue), so the judge must not
tell it. Golden scores are taken again and the card is written; what is left of the weights is the
run's own.
"""

import json
import sys
from pathlib import Path

from safetensors.torch import load_file, save_file

from medal_judges import Judge
from medal_judges.models.base.golden import require_golden_scores, write_golden_scores
from medal_judges.models.card.writer import write_card

LEFT_OUT = "repetitive"
AS_THEY_ARE = ("train_config.json", "data.json")


def package(folder: Path, target: Path) -> None:
    target.mkdir(parents=True, exist_ok=True)
    config = json.loads((folder / "judge.json").read_text(encoding="utf-8"))
    names = [dimension["name"] for dimension in config["dimensions"]]
    weights = load_file(folder / "model.safetensors")
    head = f"heads.{LEFT_OUT}."
    others = {
        name: tensor for name, tensor in weights.items() if not name.startswith(head)
    }
    save_file(others, target / "model.safetensors", metadata={"format": "pt"})
    config["dimensions"].pop(names.index(LEFT_OUT))
    for fitted in ("calibration", "heads"):
        config[fitted].pop(LEFT_OUT, None)
    _write(target / "judge.json", config)
    for name in AS_THEY_ARE:
        (target / name).write_bytes((folder / name).read_bytes())
    rows = json.loads((folder / "agreement.json").read_text(encoding="utf-8"))
    _write(
        target / "agreement.json", [row for row in rows if row["dimension"] != LEFT_OUT]
    )
    judge = Judge.from_pretrained(target)
    write_golden_scores(judge, target)
    require_golden_scores(target, judge.unsaved_options())
    write_card(target)


def _write(path: Path, value: object) -> None:
    path.write_text(
        json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    package(Path(sys.argv[1]), Path(sys.argv[2]))
