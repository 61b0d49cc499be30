"""A trial: judges score dialogues and edited versions of them; findings say what moved them.

The judgements are in ``OUT/judgements/JUDGE/``, written as they come; a second run resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medal_judges import __version__
from medal_judges.eval.trial.config import Bounds, TrialConfig, load_bounds
from medal_judges.eval.trial.edits import (
    AGAIN,
    DIMENSION_ORDER,
    ROW_ORDER,
    Edit,
    TrialPlan,
    load_data,
    make_plan,
    trial_edits,
)
from medal_judges.eval.trial.findings import Analysis, TrialResult, worst_pairs
from medal_judges.inference.scoring import ScoreOptions, judge_once, judging_time
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport, ReadOptions
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import content_hash
from medal_judges.storage.jsonl import write_records

Progress = Callable[[str, int], None]  # label, rows done since the last call


@dataclass(frozen=True, slots=True)
class TrialJudge:
    """A judge on trial. ``afresh`` returns the same judge without its cache, for the second
    scoring of the originals; None: ``judge`` itself."""

    name: str
    judge: Judge
    afresh: Callable[[], Judge] | None = None


@dataclass(frozen=True, slots=True)
class Trial:
    """The result and the worst pairs of each judge."""

    results: tuple[TrialResult, ...]
    worst: dict[str, list[dict[str, Any]]]
    plan: TrialPlan
    bounds: Bounds
    notes: tuple[str, ...]


def run_trial(
    judges: Sequence[TrialJudge],
    out: Path,
    config: TrialConfig | None = None,
    *,
    data: str | None = None,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
    edits: Sequence[Edit] = (),
    progress: Progress | None = None,
) -> Trial:
    """Puts ``judges`` on trial, with ``edits`` in addition to the shipped ones.

    ``data``: a file or spec, read by ``options``; default: the shipped dialogues. Writes the
    judgements, versions.jsonl and pairs.jsonl under ``out``; ``write_trial`` writes the page.
    Raises ConfigError for an unknown check and if no dialogue can carry an edit.
    """
    config = config or TrialConfig()
    bounds = load_bounds(config.bounds)
    given = load_data(config, data, reading=reading, options=options)
    plan = make_plan(given, config, trial_edits(given, config, edits))
    write_records(out / "versions.jsonl", plan.dialogues.values())
    write_records(out / "pairs.jsonl", plan.pairs.to_dict("records"))
    results, worst = [], {}
    names: dict[str, int] = {}
    for one in judges:
        number = names[one.name] = names.get(one.name, 0) + 1
        if number > 1:  # the second ``length`` is ``length-2``
            one = replace(one, name=f"{one.name}-{number}")
        analysis = _judged(one, plan, config, bounds, out, progress or (lambda *_: None))
        parts = ", ".join(d.name for d in analysis.parts)
        result = TrialResult(
            judge=one.name,
            signature=str(one.judge.signature()),
            quality=parts if len(analysis.parts) == 1 else f"the mean of {parts}",
            version=__version__,
            seed=config.seed,
            data=plan.data,
            dialogues=len(plan.originals),
            versions=len(plan.dialogues),
            judged=analysis.judged,
            made_for=tuple(analysis.languages),
            findings=tuple(analysis.findings()),
            notes=tuple(given.notes),
        )
        results.append(result)
        worst[one.name] = worst_pairs(analysis)
    return Trial(tuple(results), worst, plan, bounds, tuple(given.notes))


def _judged(
    one: TrialJudge,
    plan: TrialPlan,
    config: TrialConfig,
    bounds: Bounds,
    out: Path,
    progress: Progress,
) -> Analysis:
    """Scores everything the plan needs of one judge, each file once."""
    judge, folder = one.judge, out / "judgements" / one.name

    def scored(
        name: str, dialogues: Sequence[Dialogue], judge: Judge = judge, **options: Any
    ) -> list[Judgement]:
        what = f"{one.name}: {len(dialogues):,} {name.replace('_', ' ')}"
        return judge_once(
            judge,
            dialogues,
            folder / f"{name}.jsonl",
            ScoreOptions(unknown_language="allow", **options),
            data=content_hash([d.to_record() for d in dialogues]),
            progress=lambda n: progress(what, n),
        )

    def by_id(judgements: Sequence[Judgement]) -> Mapping[str, Judgement]:
        return {judgement.id: judgement for judgement in judgements}

    originals = [plan.dialogues[id] for id in plan.originals]
    names = [d.name for d in judge.dimensions]
    versions = by_id(scored("versions", list(plan.dialogues.values())))
    analysis = Analysis(plan, bounds, judge.dimensions, judge.languages or (), versions)
    if config.wants(ROW_ORDER, "same"):  # other batches too: half of the tokens in each
        budget = max(1, judge.token_budget // 2)
        analysis.again[ROW_ORDER] = by_id(scored(ROW_ORDER, originals[::-1], token_budget=budget))
    if config.wants(DIMENSION_ORDER, "same") and len(names) > 1:
        judgements = scored(DIMENSION_ORDER, originals, dimensions=names[::-1])
        analysis.again[DIMENSION_ORDER] = by_id(judgements)
    if config.wants(AGAIN, "same"):
        fresh = judge if one.afresh is None else one.afresh()
        analysis.again[AGAIN] = by_id(scored(AGAIN, originals, fresh))
        count, seconds = judging_time(folder / f"{AGAIN}.jsonl")
        analysis.seconds = seconds / count if count else None
    return analysis
