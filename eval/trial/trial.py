"""Trial: judges score dialogues and edited versions of them. A table shows which edits moved the
scores."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import lru_cache, partial
from itertools import islice
from pathlib import Path

import numpy as np
import pandas as pd

from medal_judges import __version__
from medal_judges.config import config_text, parse_yaml
from medal_judges.data_prep.perturbation.edit import Donors, stable_hash
from medal_judges.data_prep.sources.registry import load_rows
from medal_judges.errors import ConfigError, NotAvailableError
from medal_judges.eval.trial.config import GROUPS, Group, TrialConfig, Verdict
from medal_judges.eval.trial.edits import LANGUAGE, Edit, trial_edits
from medal_judges.inference.scoring import ScoreOptions, load_or_score
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport, ReadOptions
from medal_judges.records.dialogue import Dialogue, Role, Turn
from medal_judges.records.dimension import EQUAL, Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.report.console import Printout, shorten
from medal_judges.report.page import Page, Section, count_text, facts_section
from medal_judges.report.table import Cell, Light, Row, Table, estimate_text
from medal_judges.stats.equal import Values
from medal_judges.stats.intervals import Estimate
from medal_judges.stats.means import MIN_FOR_MEAN, Sample, estimate_mean
from medal_judges.storage.jsonl import write_records

TRIAL_NAME = "trial.json"
MIN_PAIRS = 10  # a check with fewer pairs gets no verdict
BOUND = 0.1  # points by which a score may move for nothing
SHIPPED = "chitchat:test"
REFERENCE = "en"  # the language that translations are compared with
_MIN_TURNS = 6  # of a chitchat dialogue
_LOW, _HIGH = 1.0, 5.0  # the scale of every score of a trial
_TOLERANCE = EQUAL * (_HIGH - _LOW)
_PAIR = ["check", "conversation", "lang", "before", "after"]
_LEAD = (
    "The mean change of the score by an edit, in points from 1 (poor) to 5, with its 95% interval. "
    f"Red: the whole interval is beyond {BOUND} points in the wrong direction. A fault is red "
    "unless the whole interval is below 0."
)
_JUDGES = 3  # sentences in the terminal
Progress = Callable[[str, int], None]  # label, rows done since the last call


@dataclass(frozen=True, slots=True)
class TrialJudge:
    """A judge of a trial (a test of scores before and after edits).

    Attributes:
        name: The judge's name in the table and in file names.
        judge: The judge.
    """

    name: str
    judge: Judge


@dataclass(frozen=True, slots=True)
class TrialFinding:
    """The result of one check (an edit) for one judge.

    Attributes:
        group: What the score should do after the edit, such as ``must_fall``.
        check: The name of the edit, such as ``lower_case``.
        description: What the edit does, in a sentence.
        verdict: ``green`` if the score reacts as it should, ``red`` if not. ``none`` with fewer
            than 10 pairs or 5 conversations.
        change: The mean change of the score, in points on a scale from 1 to 5.
        pairs: The number of pairs of an edited dialogue and the one it is compared with.
        conversations: The number of different conversations in the pairs.
    """

    group: Group
    check: str
    description: str
    verdict: Verdict
    change: Estimate
    pairs: int
    conversations: int


@dataclass(frozen=True, slots=True)
class TrialResult:
    """One judge's results in a trial (a test of scores before and after edits), as in trial.json.

    Attributes:
        judge: The judge's name in the table.
        signature: The judge's name, version and settings as text.
        quality: The dimension whose score is tested, such as ``overall``. If there are several,
            their mean is tested, and their names are separated by commas.
        version: The version of this package.
        seed: The seed of every random choice.
        data: A hash of all scored dialogues.
        dialogues: The number of dialogues before editing.
        versions: The number of all scored dialogues, edited ones included.
        languages: The languages of the compared dialogues.
        findings: One result for each check.
        notes: Messages on data that was missing.
    """

    judge: str
    signature: str
    quality: str
    version: str
    seed: int
    data: str
    dialogues: int
    versions: int
    languages: tuple[str, ...]
    findings: tuple[TrialFinding, ...]
    notes: tuple[str, ...] = ()


# -- the dialogues and their versions --------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """The dialogues of a trial (a test of scores before and after edits), and the pairs to compare.

    Attributes:
        edits: The edits that were made.
        dialogues: Id -> dialogue: originals, edited versions, controls (versions with harmless
            edits, for comparison) and translations.
        originals: The number of dialogues before editing.
        pairs: A table with the columns check, conversation, lang, before and after. The last two
            are ids of dialogues.
        notes: Messages on data that is missing on this machine.
    """

    edits: Sequence[Edit]
    dialogues: Mapping[str, Dialogue]
    originals: int
    pairs: pd.DataFrame
    notes: tuple[str, ...]


def plan_trial(
    config: TrialConfig,
    data: str | None = None,
    *,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
) -> TrialPlan:
    """Chooses the dialogues of a trial, edits them, and plans which pairs to compare.

    Args:
        config: The size of the trial, the seed and the checks.
        data: A file or data set (default: ``chitchat:test`` and shipped conversations).
        reading: Collects the problems of the file.
        options: How to read the file.

    Raises:
        ConfigError: There is no dialogue, or a check is unknown.
    """
    notes: list[str] = []
    rows: list[LabelledDialogue] = []
    try:
        rows = load_rows(data or SHIPPED, reading=reading, options=options)
    except NotAvailableError as error:
        notes.append(f"without real conversations in English: {error}")
    translations = []
    for name, by_language in shipped_dialogues().items():
        for language in config.languages:
            dialogue = by_language[language]
            translations.append(LabelledDialogue(dialogue, {}, {}, group=name))
    originals = _choose_rows(rows, config, is_shipped=data is None)
    if data is None:
        originals += translations
    if not originals:
        raise ConfigError(
            f"no dialogue is left for the trial ({len(rows)} read)",
            hint="Type how many take part: dialogues=24",
        )
    edits = trial_edits(config, Donors.from_rows([*rows, *translations]))
    dialogues = {row.id: row.dialogue for row in originals}
    pairs: list[tuple[str, ...]] = []
    for edit in edits:
        versions = _make_versions(originals, edit, config.seed)
        for row, version, control in islice(versions, config.per_check):
            after = f"{row.id}+{edit.name}"
            before = row.id
            if control.turns != row.dialogue.turns:
                before = f"{after}.control"
                dialogues[before] = replace(control, id=before)
            dialogues[after] = replace(version, id=after)
            pairs.append((edit.name, row.group, row.dialogue.lang, before, after))
    has_reference = data is None and REFERENCE in config.languages
    if has_reference and config.selects(LANGUAGE, "same"):
        pairs += _add_translations(translations, dialogues)
    frame = pd.DataFrame(pairs, columns=_PAIR)
    return TrialPlan(edits, dialogues, len(originals), frame, tuple(notes))


def _add_translations(
    translations: Sequence[LabelledDialogue], dialogues: dict[str, Dialogue]
) -> list[tuple[str, ...]]:
    """Adds ``translations`` and their English originals to ``dialogues``, which
    maps id -> dialogue.

    Returns:
        For each translation a row of ``TrialPlan.pairs``, which compares it with the original.
    """
    pairs: list[tuple[str, ...]] = []
    for row in translations:
        reference = shipped_dialogues()[row.group][REFERENCE]
        if row.dialogue.lang != REFERENCE:
            dialogues |= {reference.id: reference, row.id: row.dialogue}
            pair = (LANGUAGE, row.group, row.dialogue.lang, reference.id, row.id)
            pairs.append(pair)
    return pairs


def _choose_rows(
    rows: Sequence[LabelledDialogue], config: TrialConfig, *, is_shipped: bool
) -> list[LabelledDialogue]:
    """Draws at most ``config.dialogues`` of ``rows`` at random, by the seed of ``config``. Only
    dialogues with an assistant turn are drawn.

    Args:
        is_shipped: Whether to draw only dialogues of 6 to ``config.max_turns`` turns.
    """
    candidates = []
    for row in rows:
        turns = len(row.dialogue.turns)
        fits = not is_shipped or _MIN_TURNS <= turns <= config.max_turns
        if (
            fits
            and turns > 1
            and row.level == "dialogue"
            and row.dialogue.assistant_turns
        ):
            candidates.append(row)
    candidates.sort(key=lambda row: (stable_hash(config.seed, "trial", row.id), row.id))
    return candidates[: config.dialogues]


@lru_cache(maxsize=1)
def shipped_dialogues() -> Mapping[str, Mapping[str, Dialogue]]:
    """Returns the conversations of configs/trial/dialogues.yaml, as name ->
    language -> dialogue."""
    roles: tuple[Role, Role] = ("user", "assistant")
    conversations: dict[str, dict[str, Dialogue]] = {}
    for entry in parse_yaml(
        config_text("trial/dialogues"), "configs/trial/dialogues.yaml"
    ):
        name = f"own-{entry['id']}"
        conversations[name] = {}
        for language in entry["turns"][0]:
            turns = []
            for i, texts in enumerate(entry["turns"]):
                turns.append(Turn(roles[i % 2], texts[language]))
            dialogue = Dialogue(
                f"{name}-{language}", tuple(turns), language, source="trial"
            )
            conversations[name][language] = dialogue
    return conversations


def _make_versions(
    rows: Sequence[LabelledDialogue], edit: Edit, seed: int
) -> Iterator[tuple[LabelledDialogue, Dialogue, Dialogue]]:
    """Yields each of ``rows`` that can be edited, the edited dialogue, and the dialogue to compare
    it with. The order is random, drawn with ``seed``."""

    def order(row: LabelledDialogue) -> tuple[int, str]:
        return stable_hash(seed, edit.name, row.id), row.id

    for row in sorted(rows, key=order):
        rng = np.random.default_rng(stable_hash(seed, row.id, edit.name))
        versions = edit.make(row.dialogue, rng, row.group)
        if versions is not None and versions[0].turns != versions[1].turns:
            yield row, *versions


# -- scoring and findings --------------------------------------------------------------------------


def run_trial(
    judges: Sequence[TrialJudge],
    out: Path,
    config: TrialConfig,
    *,
    data: str | None = None,
    reading: ReadingReport | None = None,
    options: ReadOptions = DEFAULT_READING,
    progress: Progress | None = None,
) -> list[TrialResult]:
    """Scores dialogues before and after edits with each judge, and tests how the scores change.

    Writes versions.jsonl, pairs.jsonl and each judge's judgements into ``out``. A second run reuses
    the judgements.

    Args:
        judges: The judges to test.
        config: The size of the trial and the checks.
        data: A file or data set (default: ``chitchat:test`` and shipped conversations).
        reading: Collects the problems of the file.
        options: How to read the file.
        progress: Called with a label and the number of dialogues scored since its last call.

    Returns:
        One result for each judge.

    Raises:
        ConfigError: A check is unknown, or there is no dialogue.
    """
    plan = plan_trial(config, data, reading=reading, options=options)
    dialogues = list(plan.dialogues.values())
    write_records(out / "versions.jsonl", dialogues)
    write_records(out / "pairs.jsonl", plan.pairs.to_dict("records"))
    results = []
    for trial_judge in judges:
        judge = trial_judge.judge
        advance = None
        if progress is not None:
            label = f"{trial_judge.name}: {len(dialogues):,} versions"
            advance = partial(progress, label)
        judgements = load_or_score(
            judge,
            dialogues,
            out / "judgements" / f"{trial_judge.name}.jsonl",
            ScoreOptions(),
            progress=advance,
        )
        parts = [d for d in judge.dimensions if d.name == "overall"] or judge.dimensions
        scores = {
            judgement.id: quality_score(judgement, parts) for judgement in judgements
        }
        pairs = _score_changes(plan, scores, judge.languages or ())
        result = TrialResult(
            judge=trial_judge.name,
            signature=str(judge.signature()),
            quality=", ".join(dimension.name for dimension in parts),
            version=__version__,
            seed=config.seed,
            data=content_hash([dialogue.to_record() for dialogue in dialogues]),
            dialogues=plan.originals,
            versions=len(dialogues),
            languages=tuple(sorted(pairs.lang.unique())),
            findings=tuple(trial_findings(plan.edits, pairs)),
            notes=plan.notes,
        )
        results.append(result)
    return results


def quality_score(judgement: Judgement, parts: Sequence[Dimension]) -> float | None:
    """Returns the mean score of ``judgement`` over some dimensions, on a scale from 1 (poor) to 5
    (good). Returns None if one of them has no score.

    Args:
        parts: The dimensions to average.
    """
    total = 0.0
    for dimension in parts:
        score = judgement.scores.get(dimension.name)
        if score is None:
            return None
        unit = dimension.to_unit(score)
        if dimension.good != "high":
            unit = 1 - unit
        total += unit
    return _LOW + (_HIGH - _LOW) * total / len(parts)


def _score_changes(
    plan: TrialPlan, scores: Mapping[str, float | None], languages: Sequence[str]
) -> pd.DataFrame:
    """Returns the pairs of ``plan`` of which both dialogues are scored, with a column ``change``
    (score after the edit minus before).

    Args:
        scores: Id of a dialogue -> its score, None if unscored.
        languages: The judge's languages. Pairs in other languages are left out, unless no pair
            would remain.
    """
    pairs = plan.pairs
    before = pairs.before.map(scores).astype(float)
    change = pairs.after.map(scores).astype(float) - before
    pairs = pairs.assign(change=change.where(~(change.abs() <= _TOLERANCE), 0.0))
    supported = pairs.lang.isin(languages)
    if supported.any():
        pairs = pairs[supported]
    return pairs.dropna(subset=["change"])


def trial_findings(
    edits: Sequence[Edit], pairs: pd.DataFrame
) -> Iterator[TrialFinding]:
    """Yields the result of each check (an edit) for one judge.

    Args:
        edits: The edits that were made.
        pairs: A table of all scored pairs. Its columns are check (name of the edit), conversation,
            lang and change (score after the edit minus score before).
    """
    for group in GROUPS:
        for edit in edits:
            if edit.group == group:
                yield _make_finding(
                    group, edit.name, edit.description, pairs, edit.harm
                )
        if group == "same" and (pairs.check == LANGUAGE).any():
            description = "The same dialogue in another language, against English."
            yield _make_finding("same", LANGUAGE, description, pairs)


def _make_finding(
    group: Group, check: str, description: str, pairs: pd.DataFrame, harm: str = "up"
) -> TrialFinding:
    rows = pairs[pairs.check == check]
    changes = Values(rows.change.to_numpy(dtype=float), _TOLERANCE)
    change = estimate_mean(Sample(changes, rows.conversation.tolist()))
    count = rows.conversation.nunique()
    verdict: Verdict = "none"
    if len(rows) >= MIN_PAIRS and count >= MIN_FOR_MEAN:
        verdict = verdict_of(group, change, harm)
    return TrialFinding(group, check, description, verdict, change, len(rows), count)


def verdict_of(group: Group, change: Estimate, harm: str) -> Verdict:
    """Returns whether a score reacted to an edit as it should (``green``) or not (``red``).

    In the group ``must_fall``, green needs an interval wholly below 0. In all other groups, red
    needs an interval wholly more than 0.1 points away from 0 in a wrong direction.

    Args:
        group: What the score should do: ``same`` (stay), ``no_gain`` (not rise), ``must_fall``
            (fall) or ``attack`` (not move in the direction ``harm``).
        change: The mean change of the score, in points on a scale from 1 to 5. If it has no
            interval, its value counts.
        harm: ``up`` if an attacker wants a higher score, ``down`` if a lower one. Used only for
            ``attack``.
    """
    assert change.value is not None
    low = change.value if change.low is None else change.low
    high = change.value if change.high is None else change.high
    rises, falls = low > BOUND, high < -BOUND
    is_red = {
        "same": rises or falls,
        "no_gain": rises,
        "attack": falls if harm == "down" else rises,
        "must_fall": high >= 0,
    }
    return "red" if is_red[group] else "green"


# -- the page --------------------------------------------------------------------------------------


def trial_page(results: Sequence[TrialResult]) -> Page:
    """Returns the page trial.html, with the change and verdict of each check and judge.

    Args:
        results: The results, one entry for each judge.
    """
    first = results[0]
    table = trial_table(results)
    facts = [
        ("Seed", str(first.seed)),
        ("Data", first.data),
        *(("Missing", note) for note in first.notes),
        *((result.judge, result.signature) for result in results),
    ]
    counts = [
        (len(results), "judge"),
        (first.dialogues, "dialogue"),
        (first.versions, "version"),
    ]
    return Page(
        name="trial",
        title=f"Trial: {', '.join(result.judge for result in results)}",
        subtitle=count_text(counts),
        sections=[Section("checks", "Checks", [table], _LEAD), facts_section(facts)],
        tables={"trial": table},
        record={"trials": [asdict(result) for result in results]},
        printout=Printout(
            [_summary_table(results)],
            first.notes,
            head=[_answer_sentence(result) for result in results[:_JUDGES]],
        ),
    )


def _answer_sentence(result: TrialResult) -> str:
    """Returns a sentence of at most 100 characters: how many and which checks
    of ``result`` are red."""
    red: list[str] = []
    few = 0
    for finding in result.findings:
        few += finding.verdict == "none"
        if finding.verdict == "red":
            red.append(finding.check.replace("_", " "))
    text = f"{result.judge}: {len(red)} of {len(result.findings) - few} checks are red"
    if few:
        text += f" ({few} have too few dialogues)"
    if red:
        text += f": {', '.join(red[:3])}"
    if len(red) > 3:
        text += f" and {len(red) - 3} more"
    return shorten(f"{text}.")


def _summary_table(results: Sequence[TrialResult]) -> Table:
    """Returns a table with the number of green checks for each group and judge."""
    rows: list[Row] = []
    for group, heading in GROUPS.items():
        cells: list[Cell] = [heading]
        for result in results:
            verdicts = [f.verdict for f in result.findings if f.group == group]
            decided = len(verdicts) - verdicts.count("none")
            cells.append(f"{verdicts.count('green')} of {decided}")
        rows.append(cells)
    columns = ("Green checks", *(result.judge for result in results))
    return Table("", columns, rows)


def trial_table(results: Sequence[TrialResult]) -> Table:
    """Returns a table with a row for each check (an edit) and a column for each judge. A cell is
    empty if the judge was not checked, such as with translations into languages that it does not
    support."""
    rows: list[Row] = []
    headings: dict[int, str] = {}
    blank = [""] * len(results)
    for group, heading in GROUPS.items():
        checks: dict[str, list[Cell]] = {}
        for column, result in enumerate(results, 1):
            for finding in result.findings:
                if finding.group == group:
                    change = finding.change
                    text = estimate_text(change)
                    cells = checks.setdefault(finding.check, [finding.pairs, *blank])
                    cells[column] = Light(
                        finding.verdict, text, finding.description, change.value
                    )
        if checks:
            headings[len(rows)] = heading
        for check, cells in checks.items():
            rows.append((check.replace("_", " "), *cells))
    columns = ("Check", "Pairs", *(result.judge for result in results))
    return Table("Change of the score by an edit", columns, rows, headings=headings)
