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

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.eval.align import proof
from medal_judges.eval.align.proof import FEW_SHOT, REWRITTEN, Material, Rows
from medal_judges.models.base.judge import ScoreLevel
from medal_judges.models.base.saving import judge_of_settings
from medal_judges.models.hybrid.members import Member
from medal_judges.models.llm.cost import CostLimitError
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import ChatRequest, Message
from medal_judges.models.prompted.prompt import (
    Layout,
    Prompt,
    Variant,
    load_prompt,
    resolve,
    transcript,
)
from medal_judges.records.dimension import Dimension
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.stats.correlation import Floats
from medal_judges.storage.files import atomic_write

_LEAST = 60  # dialogues of a rewriting: with fewer it changes nothing
# Of the limit of cost; the judge itself has the rest.
_COST_SHARES = {FEW_SHOT: 0.3, REWRITTEN: 0.5}
# Parts of a prompt with these fields hold data, and are not rewritten.
_DATA_FIELDS = {"dialogue", "response", "examples", "form"}
_RATED = "Conversations that people rated, in the same way as you are asked to:\n\n{examples}"
_EXAMPLE = "{dialogue}\nRating: {score}"
_FIELD = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True, slots=True)
class PromptLimits:
    """Limits of changed prompts: ``calls`` is the most dialogues that are judged, ``cost`` the most
    US dollars. ``reflect_with`` is the language model that rewrites (default: the judge's)."""

    calls: int | None
    cost: float | None
    reflect_with: str | None

    @property
    def are_set(self) -> bool:
        return self != PromptLimits(None, None, None)

    def refuse_for_other_judges(self) -> None:
        """Raises ConfigError if an option was typed that only a prompted judge has."""
        option = None
        if self.reflect_with is not None:
            option = "--reflect-with"
        elif self.calls is not None:
            option = "--max-calls"
        if option is not None:
            raise ConfigError(
                f"{option} is for prompted judges: it changes their prompts"
            )


@dataclass(slots=True)
class FittedPrompts:
    """``materials`` of ``proof.crossed``, with the scores by changed prompts as further inputs; the
    ``members`` with the prompts of all rows; ``notes`` on prompts that are left out, because of the
    limits or because chats have no score."""

    materials: list[Material]
    members: list[Member]
    notes: list[str]


def fit_prompts(
    member: Member,
    dimension: Dimension,
    rows: Sequence[LabelledDialogue],
    material: Material,
    folder: Path,
    limits: PromptLimits,
) -> FittedPrompts:
    """Fits a few-shot prompt and a rewritten one to the rows of each fold, and to all rows."""
    all_rows = np.arange(len(rows))
    learnt_rows = [learnt for learnt, _ in proof.folds(all_rows, material.contexts)]
    learnt_rows.append(all_rows)
    fitted = FittedPrompts([material] * len(learnt_rows), [], [])
    for kind in proof.PROMPTS:
        prompts: list[_Prompt] = []
        problem = "it needs a higher limit"
        calls = _calls_for(kind, limits.calls, len(learnt_rows), len(rows))
        fewest_calls = 0
        if kind == REWRITTEN:
            fewest_calls = _LEAST
        if calls is None or calls >= fewest_calls:
            try:
                for number, learnt in enumerate(learnt_rows):
                    cost = None
                    if limits.cost is not None:
                        cost = _COST_SHARES[kind] * limits.cost / len(learnt_rows)
                    prompt_folder = folder / f"{kind}-{number}"
                    prompt = _Prompt(
                        member, dimension, rows, material.targets, prompt_folder, cost
                    )
                    prompt.fit(kind, learnt, calls, limits.reflect_with)
                    prompts.append(prompt)
            except CostLimitError:
                prompts = []
        unscored_count = max((prompt.unscored_count for prompt in prompts), default=0)
        if prompts and len(rows) - unscored_count < proof.MIN_LABELS:
            problem = f"it leaves {unscored_count} of {len(rows)} chats unscored"
            prompts = []
        if not prompts:
            fitted.notes.append(f"{dimension.name}: {kind} prompt not tried: {problem}")
            continue
        prompted = Member(
            f"{kind}-{dimension.name}", prompts[-1].judge, {}, prompts[-1].settings
        )
        fitted.members.append(prompted)
        for index, prompt in enumerate(prompts):
            earlier = fitted.materials[index]
            fitted.materials[index] = replace(
                earlier,
                inputs=(*earlier.inputs, f"{prompted.name}:{dimension.name}"),
                scores=np.column_stack([earlier.scores, prompt.row_scores]),
            )
    return fitted


def _calls_for(
    kind: str, calls: int | None, run_count: int, row_count: int
) -> int | None:
    """Returns how many dialogues a run may judge while it is fitted; None for no limit. Each kind
    of prompt then judges all rows, and rewriting comes second."""
    if calls is None:
        return None
    judged_kinds = proof.PROMPTS.index(kind) + 1
    return calls // run_count - judged_kinds * row_count


@dataclass
class _Prompt:
    """A prompt in the making, with its own language model if ``cost`` limits it. ``units`` [n] are
    people's means on [0, 1]; ``row_scores`` [n] are the judge's scores with the prompt, NaN for
    none."""

    member: Member
    dimension: Dimension
    rows: Sequence[LabelledDialogue]
    units: Floats
    folder: Path
    cost: float | None
    is_stopped = False

    def __post_init__(self) -> None:
        self.settings = dict(self.member.settings or {})
        self.llm = self.member.judge.language_models()[0]
        if self.cost is not None:
            llm_settings = self.settings["llm"]
            if not isinstance(llm_settings, Mapping):
                llm_settings = {"model": llm_settings}
            self.llm = load_llm({**llm_settings, "max_cost": self.cost})

    def fit(
        self, kind: str, learnt: Rows, calls: int | None, reflect_with: str | None
    ) -> None:
        """Makes the prompt from the rows ``learnt``, and scores all rows with it."""
        if kind == REWRITTEN:
            self.rewrite(learnt, calls, reflect_with)
        else:
            self.add_examples(learnt)
        self.row_scores = self.scores(range(len(self.rows)))

    @property
    def unscored_count(self) -> int:
        return int(np.isnan(self.row_scores).sum())

    def scores(self, indices: Sequence[int]) -> Floats:
        """Returns the judge's scores of the rows ``indices`` on [0, 1], NaN for none."""
        level: ScoreLevel = "dialogue"
        if self.rows[0].level == "turn":
            level = "last"
        name = self.dimension.name
        dialogues = [self.rows[i].dialogue for i in indices]
        judgements = self.judge.score(dialogues, level=level, dimensions=[name])
        scores: Floats = np.array(
            [judgement.scores[name] for judgement in judgements], float
        )
        dimension = self.judge.dimension(name)
        units: Floats = (scores - dimension.low) / (dimension.high - dimension.low)
        return units

    # -- files of a changed prompt -----------------------------------------------------------------

    def _prompt(self) -> Prompt:
        return load_prompt((self.member.settings or {})["prompts"])

    def change(self, texts: Mapping[str, str]) -> None:
        """Writes the judge's prompt with other ``texts`` of its parts, and loads the judge of
        it."""
        prompt = self._prompt()
        self._load(prompt.model_copy(update={"parts": {**prompt.parts, **texts}}))

    def add_examples(self, learnt: Rows) -> None:
        """Writes the judge's prompt with the rows ``learnt`` as rated examples, and loads the judge
        of it."""
        prompt = self._prompt()
        parts = {"example": _EXAMPLE, **prompt.parts}
        layouts = dict(prompt.layouts)
        if not any("{examples}" in text for text in parts.values()):
            parts["rated"] = _RATED
            for name, layout in layouts.items():
                layouts[name] = _with_first_part(layout, "rated")
        variant = self.settings.get("variant") or prompt.variant or "aligned"
        few_shot = prompt.variants.get(variant, Variant()).model_copy(
            update={"examples": 3}
        )
        variants = {**prompt.variants, variant: few_shot}
        examples = []
        for i in learnt.tolist():
            dialogue = self.rows[i].dialogue
            scores = {self.dimension.name: float(self.units[i])}
            turns = dialogue.to_record()["dialogue"]
            examples.append({"id": dialogue.id, "turns": turns, "scores": scores})
        self._write("examples", {"source": "labels", "examples": examples})
        self.settings["variant"] = variant
        # The examples have no rating of the judge's other dimensions to show.
        self.settings["dimensions"] = [self.dimension.name]
        changes = {"parts": parts, "layouts": layouts, "variants": variants}
        self._load(prompt.model_copy(update=changes))

    def _load(self, prompt: Prompt) -> None:
        self._write("prompts", prompt.model_dump(mode="json"))
        self.judge = judge_of_settings(
            self.settings | {"llm": self.llm}, self.folder.name
        )

    def _write(self, setting: str, content: Mapping[str, object]) -> None:
        file = self.folder / f"{setting}.yaml"
        atomic_write(file, yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        self.settings[setting] = str(file)

    # -- rewriting: an adapter of gepa -------------------------------------------------------------

    propose_new_texts = None

    def rewrite(
        self, learnt: Rows, calls: int | None, reflect_with: str | None
    ) -> None:
        """Rewrites the instructions by reflection on disagreements with half of ``learnt``, and
        chooses on the other half."""
        try:
            optimize = import_module("gepa.api").optimize
        except ImportError:
            raise MissingExtraError("gepa", "align", "rewriting prompts") from None
        self.seed = self._instructions()
        reflecting = self.llm
        if reflect_with is not None:
            reflecting = load_llm({"model": reflect_with})

        def reflect(prompt: str | list[dict[str, Any]]) -> str:
            if not isinstance(prompt, str):
                prompt = str(prompt[-1]["content"])
            request = ChatRequest(
                (Message("user", prompt),), max_tokens=2048, temperature=1.0
            )
            return reflecting.chat([request])[0].text

        reflected, validated = learnt[::2].tolist(), learnt[1::2].tolist()
        most_calls = 300
        if calls is not None:
            # gepa ends after the round in which its limit falls; a round asks for one reflection.
            spare = len(validated) + 6
            most_calls = max(1, 3 * (calls - spare) // 4)
        result: Any = optimize(
            seed_candidate=self.seed,
            trainset=reflected,
            valset=validated,
            adapter=self,
            reflection_lm=reflect,
            max_metric_calls=most_calls,
            stop_callbacks=[lambda _: self.is_stopped],
            logger=self,
            seed=0,
        )
        self.change(result.best_candidate)

    def _instructions(self) -> dict[str, str]:
        """Returns the texts that may be rewritten: parts of the prompt without data."""
        chosen: Any = {key: self.settings.get(key) for key in ("variant", "layout")}
        resolved = resolve(self._prompt(), **chosen)
        instructions = {}
        for name in (*resolved.layout.system, *resolved.layout.dialogue):
            text = resolved.parts.get(name)
            if text and _DATA_FIELDS.isdisjoint(_FIELD.findall(text)):
                instructions[name] = text
        return instructions

    def log(self, message: str) -> None:
        """gepa's log is not shown."""

    def evaluate(
        self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        """Returns gepa's record of the scores of the rows ``batch`` with the texts ``candidate``.
        A text that lost or gained a field is not tried."""
        scores = np.full(len(batch), np.nan)
        if all(
            _fields(candidate[name]) == _fields(text)
            for name, text in self.seed.items()
        ):
            self.change(candidate)
            try:
                scores = self.scores(batch)
            except CostLimitError:
                self.is_stopped = True
        agreement = np.nan_to_num(1 - np.abs(scores - self.units[batch])).tolist()
        outputs = list(zip(batch, scores.tolist(), strict=True))
        traces = None
        if capture_traces:
            traces = outputs
        evaluation_batch: Any = import_module("gepa.core.adapter").EvaluationBatch
        return evaluation_batch(outputs, agreement, traces)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: Any,
        components_to_update: list[str],
    ) -> dict[str, list[dict[str, str]]]:
        """Returns what gepa's language model reads about each dialogue, for each text."""
        dimension = self.dimension
        scale = f"on a scale from {dimension.low:g} to {dimension.high:g}."
        records = []
        for i, score in eval_batch.trajectories:
            output = "no number"
            if not np.isnan(score):
                output = f"{dimension.from_unit(score):.1f}"
            rating = dimension.from_unit(float(self.units[i]))
            feedback = f"People rate {dimension.name} {rating:.1f}, {scale}"
            text = transcript(self.rows[i].dialogue.turns)
            records.append(
                {"Inputs": text, "Generated Outputs": output, "Feedback": feedback}
            )
        return dict.fromkeys(components_to_update, records)


def _with_first_part(layout: Layout, part: str) -> Layout:
    """Returns the layout with ``part`` before the parts of a dialogue and of a turn, if it has
    any."""
    changes = {}
    for level in ("dialogue", "turn"):
        parts = getattr(layout, level)
        if parts:
            changes[level] = (part, *parts)
    return layout.model_copy(update=changes)


def _fields(text: str) -> set[str]:
    return set(_FIELD.findall(text))
