"""README.md of a saved judge: what it is, from the facts in its folder only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from medal_judges.models.base.base_licence import BaseModel, base_model
from medal_judges.training.card.facts import CardFacts, DataFact, read_facts
from medal_judges.training.card.figures import (
    benchmark_section,
    eval_results,
    test_section,
    validation_section,
)

CARD_NAME = "README.md"


def write_card(
    folder: Path,
    *,
    repo_id: str | None = None,
    revision: str | None = None,
    results: Path | None = None,
) -> None:
    """Write the card of the judge in ``folder``; its snippet loads ``repo_id`` at ``revision``
    where they are given, else the folder's name.

    Raises JudgeLoadError and ConfigError as ``read_facts`` does.
    """
    facts = read_facts(folder, results)
    base = None if facts.base is None else base_model(facts.base)
    sections = {
        "Dimensions": _dimensions(facts),
        "Use": _snippet(repo_id or folder.name, revision),
        "Data": _data(facts),
        "Training": _training(facts),
        "Licences": "\n".join(f"- {line}" for line in _licences(facts, base)),
        "Agreement with people": benchmark_section(facts),
        "Validation": validation_section(facts),
        "Test sets": test_section(facts),
        "What it cannot do": "\n".join(f"- {line}" for line in _limits(facts)),
        "Emissions": _emissions(facts),
        "How to check it": _check(facts, repo_id or "FOLDER"),
    }
    intro = (
        f"# {facts.name}\n\nA judge of open-domain dialogue (family {facts.family}"
        + (f", on {base.hub_id or base.name}" if base else "")
        + ") made with `medal_judges`. It scores the assistant's side of a dialogue."
    )
    parts = [_metadata(facts, base), intro, *(f"## {k}\n\n{v}" for k, v in sections.items())]
    (folder / CARD_NAME).write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _metadata(facts: CardFacts, base: BaseModel | None) -> str:
    """The YAML head of the card, as huggingface_hub writes it."""
    from huggingface_hub import ModelCardData

    extra: dict[str, Any] = {}
    if facts.emissions and facts.emissions["kg_co2"] is not None:
        extra["co2_eq_emissions"] = {
            "emissions": round(1000 * facts.emissions["kg_co2"], 3),  # the Hub counts grams
            "source": facts.emissions["tool"],
            "training_type": "fine-tuning",
            "hardware_used": facts.emissions["hardware"],
        }
    data = ModelCardData(
        language=list(facts.languages) or None,
        license="other",
        license_name="see-the-chain-in-the-card",
        license_link="README.md#licences",
        library_name="medal_judges",
        pipeline_tag="text-classification",
        tags=["dialogue-evaluation", "llm-as-a-judge", f"medal-judges:{facts.family}"],
        base_model=base.hub_id if base else None,
        model_name=facts.name,
        eval_results=eval_results(facts) or None,
        **extra,
    )
    return f"---\n{data.to_yaml()}\n---"


def _dimensions(facts: CardFacts) -> str:
    head = "| dimension | kind | scale | good end | definition |\n|---|---|---|---|---|"
    rows = (
        f"| {d.name} | {d.kind} | {d.low:g} to {d.high:g} | {d.good} | {d.definition} |"
        for d in facts.dimensions
    )
    note = "A score of a binary dimension is the probability of label 1."
    if facts.calibrated:
        fitted = ", ".join(f"{name} ({rows} rows)" for name, rows in facts.calibrated.items())
        note += f" Calibrated on validation rows: {fitted}."
    return "\n".join([head, *rows, "", note])


def _snippet(name: str, revision: str | None) -> str:
    at = f', revision="{revision}"' if revision else ""
    return f"""```python
from medal_judges import Dialogue, Judge, Turn

judge = Judge.from_pretrained("{name}"{at})  # a hub id, or the path of this folder
turns = (Turn("user", "Hi, how was your day?"), Turn("assistant", "Good, thanks! Yours?"))
for judgement in judge.score([Dialogue("1", turns)]):
    print(judgement.scores)
```"""


def _data(facts: CardFacts) -> str:
    if not facts.data:
        return "Not stated: the folder has no data.json."
    head = "| part | source | rows | languages | revision | labels by |\n|---|---|---|---|---|---|"
    rows = (
        f"| {d.part} | {d.source} | {d.rows} | {', '.join(d.languages) or 'not stated'} "
        f"| {d.revision} | {_labeller(d)} |"
        for d in facts.data
    )
    return "\n".join([head, *rows, *_label_notes(facts)])


def _training(facts: CardFacts) -> str:
    run = facts.run
    if "attention" not in run:
        return "Not stated."
    kept = f", the weights of step {run['best_step']} kept" if run.get("best_step") else ""
    text = (
        f"{run['steps']} optimiser steps{kept}; seed {run['seed']}; {run['processes']} process"
        f"{'es' * (run['processes'] > 1)} ({run['strategy']}); attention {run['attention']}; "
        f"precision {'fp32' if run['precision'] == 'no' else run['precision']}"
    )
    for option in ("gradient_checkpointing", "liger"):
        text += f"; {option.replace('_', ' ')}" if run[option] else ""
    return text + "."


def _labeller(data: DataFact) -> str:
    if data.planted:
        return "the rules that planted the issues"
    return data.labelled_by or ("people" if data.known else "not stated")


def _label_notes(facts: CardFacts) -> Iterator[str]:
    """What labels by a model, and labels by rules, mean for whoever uses the judge."""
    for model in sorted({d.labelled_by for d in facts.data if d.labelled_by}):
        yield (
            f"\nLabels made by {model}: the judge has learnt to say what {model} would say of a "
            f"dialogue, its blind spots included. Agreement with such labels is agreement with "
            f"{model}, not with people; look at the figures on human ratings. The terms of the "
            f"maker of {model} on training models with its output bind those who use the labels "
            f"or what was trained on them."
        )
    if any(d.planted for d in facts.trained_on):
        yield (
            "\nPlanted rows: issues put by rules into dialogues taken to be clean. A judge that "
            "finds them has shown that it can find these, and no more."
        )


def _licences(facts: CardFacts, base: BaseModel | None) -> Iterator[str]:
    """The chain: the base model, then each source, then the labels' maker, then the code."""
    if base is not None:
        yield f"base model {base.hub_id or base.name}: {base.licence}"
    for source in dict.fromkeys(d.source.split(":")[0] for d in facts.trained_on):
        first = next(d for d in facts.trained_on if d.source.split(":")[0] == source)
        cited = f" ({first.citation})" if first.citation else ""
        yield f"training data {source}: {first.licence}{cited}"
    for model in sorted({d.labelled_by for d in facts.trained_on if d.labelled_by}):
        yield f"labels by {model}: the terms of its maker on the use of output"
    if not facts.data:
        yield "training data: not stated"
    yield "code of medal_judges: Apache-2.0"
    yield "the weights stand under all of the above together; where one states no licence, ask"


def _limits(facts: CardFacts) -> Iterator[str]:
    trained = ", ".join(facts.languages)
    yield (
        f"It has learnt from dialogues in: {trained}. It answers in any other language too, and "
        "nothing says how well."
        if trained
        else "The languages it has learnt from are not stated."
    )
    yield (
        "It has been validated on the rows above and on nothing else: other kinds of dialogue and "
        "other raters need a benchmark of their own (`medal benchmark`)."
    )
    if facts.signature.truncation:
        yield f"It does not see everything: {facts.signature.truncation} are left out, and counted."
    yield "It looks nothing up: what is true in the world it knows only as far as its base does."
    yield "A score of one dialogue is an estimate, not a verdict on it or on whoever wrote it."
    weak = [r for r in facts.agreement if r["low"] is not None and _chance(r)]
    if weak:
        named = ", ".join(f"{r['dimension']} ({r['source']}, {r['lang']})" for r in weak)
        yield f"No better than chance on validation or test, by the interval: {named}."


def _chance(record: Any) -> bool:
    return bool(record["low"] <= (0.5 if record["metric"] == "roc_auc" else 0.0))


def _emissions(facts: CardFacts) -> str:
    if not facts.emissions:
        return "Not measured (install `medal-judges[carbon]` before training to have it measured)."
    e = facts.emissions
    grams = (
        f"not stated in grams (MEDAL_JUDGES_COUNTRY named no grid): {e['kwh']:.4f} kWh"
        if e["kg_co2"] is None
        else f"{1000 * e['kg_co2']:.2f} g CO2 equivalent ({e['country']}), {e['kwh']:.4f} kWh"
    )
    return (
        f"{grams} in {e['seconds']:.0f} s on {e['hardware']} ({e['tool']}; this machine alone: "
        "neither the base model's training nor runs that were thrown away)."
    )


def _check(facts: CardFacts, name: str) -> str:
    then = ", ".join(f"{k} {v}" for k, v in facts.golden["versions"].items())
    return (
        f"`medal doctor {name}` scores {len(facts.golden['scores'])} dialogues and compares with "
        f"golden.json, to {facts.golden['tolerance']:.0e} of the scale in {facts.golden['dtype']} "
        f"on {facts.golden['device']}. "
        f"Saved with {then}.\n\nSignature: `{facts.signature}`"
    )
