"""A trial: judges over paired versions of the same dialogues, and what moved them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medal_judges.errors import ConfigError
from medal_judges.eval.trial.config import TrialConfig, load_bounds
from medal_judges.eval.trial.dialogues import load_data
from medal_judges.eval.trial.edits import Edit
from medal_judges.eval.trial.findings import Analysis, BoundsByName
from medal_judges.eval.trial.plan import TrialPlan, make_plan, trial_edits
from medal_judges.eval.trial.results import TrialResult
from medal_judges.eval.trial.runner import TrialJudge, TrialRunner, named_apart
from medal_judges.eval.trial.use import UseFindings
from medal_judges.eval.trial.worst import WorstPair, worst_pairs
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.reading.report import ReadingReport
from medal_judges.storage.jsonl import write_records

# A name, rows done since the last call, rows in all.
TrialProgress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Trial:
    """What a trial came to: a result and the worst pairs of each judge, by the plan it was made
    of."""

    results: tuple[TrialResult, ...]
    worst: dict[str, list[WorstPair]]
    plan: TrialPlan
    bounds: BoundsByName
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
    progress: TrialProgress | None = None,
) -> Trial:
    """Put ``judges`` on trial, with ``edits`` beside those that ship.

    The dialogues are those of ``data`` (a file or a spec, read by ``options``, bad rows counted in
    ``reading``), without it those that ship. Judgements, versions.jsonl and pairs.jsonl go under
    ``out``, where no other run may write; page and trial.json are written by ``write_trial``.

    Raises ConfigError for an unknown check and for a plan without a pair, and what reading the data
    and ``Judge.score`` raise.
    """
    config = config or TrialConfig()
    bounds = load_bounds(config.bounds)
    given = load_data(config, data, reading=reading, options=options)
    plan = make_plan(given, config, trial_edits(given, config, edits))
    if not plan.pairs and not plan.originals:
        raise ConfigError("no dialogue can carry any of the edits")
    runner = TrialRunner(plan, given.rated, config, out, progress)
    results, worst = [], {}
    write_records(out / "versions.jsonl", plan.dialogues.values())
    write_records(out / "pairs.jsonl", plan.pairs)
    for one in named_apart(judges):
        analysis = Analysis(plan, runner.answers(one), bounds)
        use = UseFindings(analysis, given.rated, runner.turn_pairs())
        results.append(_result(analysis, use, config.seed, given.notes))
        worst[one.name] = worst_pairs(analysis)
    return Trial(tuple(results), worst, plan, bounds, tuple(given.notes))


def _result(analysis: Analysis, use: UseFindings, seed: int, notes: Sequence[str]) -> TrialResult:
    from medal_judges import __version__

    answers, plan = analysis.answers, analysis.plan
    return TrialResult(
        judge=answers.name,
        signature=answers.signature,
        quality=analysis.scale.told,
        version=__version__,
        seed=seed,
        data=plan.data,
        dialogues=len(plan.originals),
        versions=len(plan.dialogues),
        judged=analysis.judged,
        made_for=tuple(answers.languages or ()),
        findings=(*analysis.findings(), *use.located(), *use.all()),
        notes=tuple(notes),
    )
