"""Prompts fitted to labels: few-shot examples, and instructions that ``gepa`` rewrites.

A prompt of an outer fold is made from the labels of the other folds, and so measured on chats that
it does not know.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from medal_judges.errors import MissingExtraError
from medal_judges.eval.align import proof
from medal_judges.eval.align.proof import REWRITTEN, Material, Rows
from medal_judges.models.base.judge import ScoreLevel
from medal_judges.models.base.saving import judge_of_settings
from medal_judges.models.hybrid.members import Member
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.prompted.prompt import Variant, load_prompt, resolve, transcript
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats
from medal_judges.storage.files import atomic_write

_LEAST = 60  # dialogues of a rewriting: with fewer it changes nothing
_RATED = "Conversations that people rated, in the same way as you are asked to:\n\n{examples}"
_EXAMPLE = "{dialogue}\nRating: {score}"
_HOLE = re.compile(r"\{(\w+)\}")


def fit_prompts(
    member: Member,
    dimension: Dimension,
    rows: Sequence[LabelledDialogue],
    material: Material,
    place: Path,
    calls: int | None,
    cost: float | None,
    reflect_with: str | None,
) -> tuple[list[Material], list[Member], list[str]]:
    """Returns the materials of ``proof.crossed`` with the scores by changed prompts, the judges
    with the prompts of all rows, and notes on prompts that are left out, as the limits do not allow
    them or chats have no score."""
    every = np.arange(len(rows))
    learns = [*(learn for learn, _ in proof.folds(every, material.contexts)), every]
    runs, judges, notes = len(learns), list[Member](), list[str]()
    materials = [material] * runs
    # Of the cost; the judge itself has the rest.
    for name, share in zip(proof.PROMPTS, (0.3, 0.5), strict=True):
        least, times = (_LEAST, 2) if name == REWRITTEN else (0, 1)
        most = None if calls is None else calls // runs - times * len(rows)
        fitted, why = list[tuple[Member, Floats]](), "it needs a higher limit"
        try:
            for number, learn in enumerate(learns if most is None or most >= least else ()):
                most_cost = None if cost is None else share * cost / runs
                own = place / f"{name}-{number}"
                run = _Run(member, dimension, rows, material.targets, own, most_cost)
                if name == REWRITTEN:
                    run.rewrite(learn, most, reflect_with)
                else:
                    run.change(examples=learn)
                scores = run.scores(every.tolist())
                changed = Member(f"{name}-{dimension.name}", run.judge, {}, run.settings)
                fitted.append((changed, scores))
        except CostLimitError:
            fitted = []
        lost = max((int(np.isnan(scores).sum()) for _, scores in fitted), default=0)
        if len(rows) - lost < proof.MIN_LABELS and fitted:
            fitted, why = [], f"it leaves {lost} of {len(rows)} chats unscored"
        if not fitted:
            notes.append(f"{dimension.name}: {name} prompt not tried: {why}")
            continue
        judges.append(fitted[-1][0])
        key = f"{judges[-1].name}:{dimension.name}"
        materials = [
            replace(one, inputs=(*one.inputs, key), scores=np.column_stack([one.scores, scores]))
            for one, (_, scores) in zip(materials, fitted, strict=True)
        ]
    return materials, judges, notes


@dataclass
class _Run:
    """One prompt in the making, with its own language model if ``cost`` limits it."""

    member: Member
    dimension: Dimension
    rows: Sequence[LabelledDialogue]
    units: Floats
    place: Path
    cost: float | None
    stopped = False

    def __post_init__(self) -> None:
        self.settings = dict(self.member.settings or {})
        self.llm, llm = self.member.judge.language_models()[0], self.settings["llm"]
        if self.cost is not None:
            group = dict(llm) if isinstance(llm, Mapping) else {"model": llm}
            self.llm = load_llm(group | {"max_cost": self.cost})

    def change(self, texts: Mapping[str, str] | None = None, examples: Rows | None = None) -> None:
        """Writes the judge's prompt with other ``texts`` of its parts, or with rows as rated
        ``examples``, and loads the judge of it."""
        prompt, settings = load_prompt((self.member.settings or {})["prompt"]), self.settings
        parts, layouts, variants = dict(prompt.parts), dict(prompt.layouts), dict(prompt.variants)
        if examples is not None:
            variant = settings.get("variant") or prompt.variant or "aligned"
            variants[variant] = variants.get(variant, Variant()).model_copy(update={"examples": 3})
            parts = {"example": _EXAMPLE} | parts
            if not any("{examples}" in text for text in parts.values()):
                parts["rated"] = _RATED
                for key, one in layouts.items():
                    first = {
                        k: ("rated", *v) for k in ("dialogue", "turn") if (v := getattr(one, k))
                    }
                    layouts[key] = one.model_copy(update=first)
            listed = []
            for i in examples.tolist():
                row, scores = self.rows[i].dialogue, {self.dimension.name: float(self.units[i])}
                turns = row.to_record()["dialogue"]
                listed.append({"id": row.id, "turns": turns, "scores": scores})
            self._write("examples", {"source": "labels", "examples": listed})
            settings["variant"] = variant
            # The examples have no rating of the judge's other dimensions to show.
            settings["dimensions"] = [self.dimension.name]
        changed = {"parts": parts | dict(texts or {}), "layouts": layouts, "variants": variants}
        self._write("prompt", prompt.model_copy(update=changed).model_dump(mode="json"))
        self.judge = judge_of_settings(settings | {"llm": self.llm}, self.place.name)

    def _write(self, setting: str, content: Mapping[str, object]) -> None:
        file = self.place / f"{setting}.yaml"
        atomic_write(file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        self.settings[setting] = str(file)

    def scores(self, rows: Sequence[int]) -> Floats:
        """Returns the judge's scores of ``rows`` on [0, 1], NaN for none."""
        name = self.dimension.name
        level: ScoreLevel = "last" if self.rows[0].level == "turn" else "dialogue"
        judged = self.judge.score(
            [self.rows[i].dialogue for i in rows], level=level, dimensions=[name]
        )
        scale, values = self.judge.dimension(name), [one.scores[name] for one in judged]
        return np.array([np.nan if v is None else scale.to_unit(v) for v in values], float)

    # -- rewriting: an adapter of gepa -------------------------------------------------------------

    propose_new_texts = None

    def rewrite(self, learn: Rows, most: int | None, reflect_with: str | None) -> None:
        """Rewrites the instructions by reflection on disagreements with half of ``learn``, and
        chooses on the other half."""
        try:
            optimize = import_module("gepa.api").optimize
        except ImportError:
            raise MissingExtraError("gepa", "align", "rewriting prompts") from None
        how: Any = {key: self.settings.get(key) for key in ("variant", "layout")}
        resolved = resolve(load_prompt(self.settings["prompt"]), **how)
        names = dict.fromkeys((*resolved.layout.system, *resolved.layout.dialogue))
        fixed = {"dialogue", "response", "examples", "form"}
        self.seed = {
            name: text
            for name in names
            if (text := resolved.parts.get(name)) and not fixed & set(_HOLE.findall(text))
        }
        reflecting = self.llm if reflect_with is None else load_llm({"model": reflect_with})

        def reflect(prompt: str | list[dict[str, Any]]) -> str:
            text = prompt if isinstance(prompt, str) else str(prompt[-1]["content"])
            ask = ChatRequest((Message("user", text),), max_tokens=2048, temperature=1.0)
            return reflecting.chat([ask])[0].text

        # gepa ends after the round in which its limit falls; a round asks for one reflection.
        spare = len(learn[1::2]) + 6
        result: Any = optimize(
            seed_candidate=self.seed,
            trainset=learn[::2].tolist(),
            valset=learn[1::2].tolist(),
            adapter=self,
            reflection_lm=reflect,
            max_metric_calls=300 if most is None else max(1, 3 * (most - spare) // 4),
            stop_callbacks=[lambda _: self.stopped],
            logger=self,
            seed=0,
        )
        self.change(result.best_candidate)

    def log(self, message: str) -> None:
        """gepa's log is not shown."""

    def evaluate(
        self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        scores = np.full(len(batch), np.nan)
        if all({*_HOLE.findall(candidate[k])} == {*_HOLE.findall(v)} for k, v in self.seed.items()):
            self.change(candidate)
            try:
                scores = self.scores(batch)
            except CostLimitError:
                self.stopped = True
        found = np.nan_to_num(1 - np.abs(scores - self.units[batch])).tolist()
        traces = list(zip(batch, scores.tolist(), strict=True))
        batch_of: Any = import_module("gepa.core.adapter").EvaluationBatch
        return batch_of(traces, found, traces if capture_traces else None)

    def make_reflective_dataset(
        self, candidate: dict[str, str], eval_batch: Any, components_to_update: list[str]
    ) -> dict[str, list[dict[str, str]]]:
        shown, one = [], self.dimension
        for i, score in eval_batch.trajectories:
            said = "no number" if np.isnan(score) else f"{one.from_unit(score):.1f}"
            people = f"People rate {one.name} {one.from_unit(self.units[i]):.1f}"
            feedback = f"{people}, on a scale from {one.low:g} to {one.high:g}."
            text = transcript(self.rows[i].dialogue.turns)
            shown.append({"Inputs": text, "Generated Outputs": said, "Feedback": feedback})
        return dict.fromkeys(components_to_update, shown)
