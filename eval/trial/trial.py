"""A trial: judges score dialogues and edited versions of them; findings say what moved them.

The judgements are in ``OUT/judgements/JUDGE/``, written as they come; a second run resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError
from medal_judges.eval.trial.config import Bounds, TrialConfig, load_bounds
from medal_judges.eval.trial.dialogues import TrialData, load_data
from medal_judges.eval.trial.edits import (
    AGAIN,
    DIMENSION_ORDER,
    ROW_ORDER,
    Edit,
    TrialPlan,
    VersionPair,
    make_plan,
    trial_edits,
)
from medal_judges.eval.trial.findings import Analysis, TrialAnswers
from medal_judges.eval.trial.results import TrialResult
from medal_judges.eval.trial.worst import WorstPair, worst_pairs
from medal_judges.inference.predictions import judge_once, judging_time
from medal_judges.inference.scoring import ScoreOptions
from medal_judges.models.base.judge import Judge
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.report import ReadingReport
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
    worst: dict[str, list[WorstPair]]
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
    from medal_judges import __version__

    config = config or TrialConfig()
    bounds = load_bounds(config.bounds)
    given = load_data(config, data, reading=reading, options=options)
    plan = make_plan(given, config, trial_edits(given, config, edits))
    if not plan.pairs and not plan.originals:
        raise ConfigError("no dialogue can carry any of the edits")
    write_records(out / "versions.jsonl", plan.dialogues.values())
    write_records(out / "pairs.jsonl", plan.pairs)
    results, worst = [], {}
    names: dict[str, int] = {}
    for one in judges:
        number = names[one.name] = names.get(one.name, 0) + 1
        if number > 1:  # the second ``length`` is ``length-2``
            one = replace(one, name=f"{one.name}-{number}")
        answers = _answers(one, plan, given, config, out, progress or (lambda what, done: None))
        analysis = Analysis(plan, answers, bounds, given.rated)
        result = TrialResult(
            judge=one.name,
            signature=answers.signature,
            quality=analysis.scale.text,
            version=__version__,
            seed=config.seed,
            data=plan.data,
            dialogues=len(plan.originals),
            versions=len(plan.dialogues),
            judged=analysis.judged,
            made_for=tuple(one.judge.languages or ()),
            findings=tuple(analysis.findings()),
            notes=tuple(given.notes),
        )
        results.append(result)
        worst[one.name] = worst_pairs(analysis)
    return Trial(tuple(results), worst, plan, bounds, tuple(given.notes))


def _answers(
    one: TrialJudge,
    plan: TrialPlan,
    data: TrialData,
    config: TrialConfig,
    out: Path,
    progress: Progress,
) -> TrialAnswers:
    """Scores everything the plan asks of one judge, each file once."""
    judge, folder = one.judge, out / "judgements" / one.name

    def scored(
        judge: Judge, dialogues: Sequence[Dialogue], name: str, **options: Any
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

    def by_id(
        judge: Judge, dialogues: Sequence[Dialogue], name: str, **options: Any
    ) -> Mapping[str, Judgement]:
        return {j.id: j for j in scored(judge, dialogues, name, **options)}

    originals = [plan.dialogues[id] for id in plan.originals]
    names = [d.name for d in judge.dimensions]
    versions = by_id(judge, list(plan.dialogues.values()), "versions")
    answers = TrialAnswers(str(judge.signature()), judge.dimensions, judge.languages, versions)
    if config.wants(ROW_ORDER, "same"):  # other batches too: half of the tokens in each
        budget = max(1, judge.token_budget // 2)
        answers.again[ROW_ORDER] = by_id(judge, originals[::-1], ROW_ORDER, token_budget=budget)
    if config.wants(DIMENSION_ORDER, "same") and len(names) > 1:
        answers.again[DIMENSION_ORDER] = by_id(
            judge, originals, DIMENSION_ORDER, dimensions=names[::-1]
        )
    for rated in data.rated if config.wants("calibration", "use") else ():
        name = f"rated-{content_hash(rated.name)}"
        answers.rated[rated.name] = by_id(judge, rated.dialogues, name)
    answers.turn_pairs = _turn_pairs(plan, config)
    ids = dict.fromkeys(id for pair in answers.turn_pairs for id in (pair.before, pair.after))
    if ids:
        dialogues = [plan.dialogues[id] for id in ids]
        judged = scored(judge, dialogues, "turns", level="turn")
        answers.turns = {(j.id, j.turn): j for j in judged if j.turn is not None}
    if config.wants(AGAIN, "same"):
        fresh = judge if one.afresh is None else one.afresh()
        answers.again[AGAIN] = by_id(fresh, originals, AGAIN)
        count, seconds = judging_time(folder / f"{AGAIN}.jsonl")
        answers.seconds = seconds / count if count else None
    return answers


def _turn_pairs(plan: TrialPlan, config: TrialConfig) -> list[VersionPair]:
    """Returns pairs with the strongest injected issues, one of each issue in rotation."""
    strongest = max(config.doses, default=0)
    issues = {edit.name for edit in plan.edits if edit.issue is not None}
    by_issue: dict[str, list[VersionPair]] = {}
    for pair in plan.pairs:
        if pair.check in issues and pair.strength == strongest and pair.touched:
            by_issue.setdefault(pair.check, []).append(pair)
    rounds = max((len(pairs) for pairs in by_issue.values()), default=0)
    mixed = [p[i] for i in range(rounds) for p in by_issue.values() if i < len(p)]
    return mixed[: config.turn_level]
