"""``medal label``: checks the simulated users, labels the well-formed rows, and sorts all rows.

A judge finds the dialogues whose simulated user is malformed (plays the assistant, or writes in
another language). They are not labelled (MEDAL, section 3.4 and appendix C.3)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

import pandas as pd

from medal_judges.data_prep.share_bars import share_panel
from medal_judges.errors import MedalError
from medal_judges.inference.scoring import ScoreOptions, ScoreReport, score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import (
    DEFAULT_READING,
    ReadingReport,
    ReadOptions,
    stream_labelled,
)
from medal_judges.records.dialogue import UNKNOWN_LANGUAGE
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.console import ProgressBar
from medal_judges.report.figure import Figure, write_figures
from medal_judges.report.table import Row, Share, Table
from medal_judges.stats.intervals import Estimate, wilson_interval
from medal_judges.storage.files import atomic_path, write_json
from medal_judges.storage.jsonl import json_line, open_text
from medal_judges.storage.judgements import read_judgements

LABELS_BY = "labels_by"
COMMENTS = "comments"
FAILURE = "label_failure"
EARLIER = "earlier_labels"
ANNOTATORS = "annotators"
KINDS = ("labelled", "malformed", "unlabelled")
_UNNAMED = "unnamed"
_FIRST_COUNT = 3  # of the counts of users after lang, user and checked


def with_labels(
    row: LabelledDialogue,
    judgement: Judgement,
    dimensions: Sequence[Dimension],
    repeats: int = 1,
) -> LabelledDialogue:
    """Returns a copy of ``row`` with the scores of ``judgement`` as labels. The judge's comments
    and name go to ``extra``.

    Earlier labels move to ``extra["earlier_labels"]``. If the judge gave no score, the row keeps
    its labels, and ``extra["label_failure"]`` has the reason.

    Args:
        row: The dialogue, with or without labels.
        judgement: The judge's scores and comments.
        dimensions: The dimensions to label. A dimension without a score gets no label.
        repeats: How often the judge was asked. With 2 or more, a label has one value for each time.
    """
    labels: dict[str, tuple[float | None, ...]] = {}
    scales = {}
    for dimension in dimensions:
        name = dimension.name
        values = (judgement.scores.get(name),)
        if repeats > 1:
            answers = judgement.details.get(name, {}).get("repeats")
            values = tuple(answers or (None,) * repeats)
        if any(value is not None for value in values):
            labels[name] = values
            scales[name] = (dimension.low, dimension.high)
    if not labels:
        return replace(
            row, extra={**row.extra, FAILURE: judgement.failure or "no reason given"}
        )
    extra = {**row.extra, **earlier_labels_field(row)}
    extra.pop(ANNOTATORS, None)  # these labels are not theirs
    extra.pop(FAILURE, None)
    extra |= {COMMENTS: _comments(judgement), LABELS_BY: judgement.judge}
    if judgement.failure is not None:
        extra[FAILURE] = judgement.failure
    return replace(row, labels=labels, scales=scales, aggregated=False, extra=extra)


def _comments(judgement: Judgement) -> dict[str, str]:
    """Returns dimension -> the judge's comment, for the dimensions with a comment
    in ``judgement``."""
    comments = {}
    for name, details in judgement.details.items():
        if comment := details.get("comment"):
            comments[name] = comment
    return comments


def earlier_labels_field(row: LabelledDialogue) -> dict[str, Any]:
    """Returns the labels of ``row`` as ``{"earlier_labels": [...]}``. This field goes to ``extra``
    when new labels replace them.

    The list has the oldest labels first and the current ones last. The dict is empty if ``row`` has
    no labels.
    """
    if not row.labels:
        return {}
    record = row.to_record()
    names = ("labels", "scales", "aggregated", COMMENTS, LABELS_BY, ANNOTATORS)
    current = {name: record[name] for name in names if name in record}
    return {EARLIER: [*row.extra.get(EARLIER, ()), current]}


def user_faults(check: Judgement) -> tuple[str, ...]:
    """Returns the names of the faults of a simulated user, such as ``("role_confusion",)`` for one
    that plays the assistant.

    Args:
        check: A judge's scores of the user, one for each fault. A score of 0.5 or more means that
            the user has the fault.
    """
    return tuple(name for name, score in check.scores.items() if (score or 0) >= 0.5)


def with_user_check(row: LabelledDialogue, check: Judgement) -> LabelledDialogue:
    """Returns a copy of ``row`` that keeps the result of ``check`` in ``extra``.

    If the user has a fault, the key in ``extra`` is ``malformed``, and its value names the faults
    and has the judge's comments. Otherwise the key is ``user_check``.

    Args:
        row: The dialogue.
        check: A judge's scores of its simulated user, one for each fault.
    """
    if reasons := user_faults(check):
        verdict = {
            "reasons": list(reasons),
            "comments": _comments(check),
            "by": check.judge,
        }
        return replace(row, extra={**row.extra, "malformed": verdict})
    note = {"by": check.judge}
    if check.failure is not None:
        note["failure"] = check.failure
    return replace(row, extra={**row.extra, "user_check": note})


def require_labellable(
    rows: Iterator[LabelledDialogue], *, replace_labels: bool, need_lang: bool
) -> None:
    """Checks that each of ``rows`` can be labelled as a whole dialogue.

    Args:
        rows: The dialogues.
        replace_labels: Whether rows may have labels already.
        need_lang: Whether each row must state its language. The check of simulated users needs it,
            because writing in another language is a fault.

    Raises:
        MedalError: A row is about one turn and not a whole dialogue, has labels that may not be
            replaced, or lacks a needed language.
    """
    count = with_labels = 0
    for row in rows:
        count += 1
        with_labels += bool(row.labels)
        if row.level != "dialogue":
            problem = f"row {row.id!r} is about one turn, and medal label judges whole dialogues"
            raise MedalError(
                problem, hint="To judge last answers, type: medal score --level last"
            )
        if need_lang and row.dialogue.lang == UNKNOWN_LANGUAGE:
            raise MedalError(
                f"row {row.id!r} has no 'lang', so its user cannot be checked for another language",
                hint="Give each row its ISO 639-1 code, or leave the check out: --users skip",
            )
    if with_labels and not replace_labels:
        raise MedalError(
            f"{with_labels} of {count} rows have labels already",
            hint=f"Type --replace-labels, which writes new labels and moves these to {EARLIER!r}. "
            "Or type --users only, which checks the users and keeps the labels",
        )


def label_file(
    file: str | Path,
    out: Path,
    judge: Judge | None,
    user_judge: Judge | None = None,
    *,
    min_coverage: float = 0.98,
    overwrite: bool = False,
    retry_failed: bool = False,
    reading: ReadOptions = DEFAULT_READING,
) -> tuple[LabelCounts, ScoreReport]:
    """Labels the dialogues in ``file`` with ``judge``, and writes them to the folder ``out``.

    A dialogue goes to malformed.jsonl if its simulated user has a fault. Otherwise it goes to
    labelled.jsonl, or to unlabelled.jsonl if it got no label. Give at least one of the two judges.

    Args:
        file: The dialogues.
        out: The folder to write.
        judge: Judges the dialogues. With None, only the simulated users are checked, and dialogues
            keep their labels.
        user_judge: Finds simulated users with a fault, such as playing the assistant. Their
            dialogues get no label. With None, users are not checked.
        min_coverage: The minimum fraction of users that ``user_judge`` must judge, on [0, 1].
        overwrite: Whether to discard the judgements of an earlier run.
        retry_failed: Whether to ask again about dialogues that failed in an earlier run.
        reading: How to read ``file``.

    Returns:
        The counts of the run, and the scoring report of ``judge``. Without ``judge``, it is the
        report of ``user_judge``.

    Raises:
        CoverageError: ``user_judge`` judged too few users.
        MedalError: ``file`` was changed during the run.
    """
    from medal_judges.models.prompted.judge import PromptedJudge

    checks_file = out / "user_judgements.jsonl"
    labels_file = out / "judgements.jsonl"
    options = ScoreOptions(overwrite=overwrite, retry_failed=retry_failed)

    def read_rows() -> Iterator[LabelledDialogue]:
        return stream_labelled(file, reading, ReadingReport())

    def score(judge: Judge, path: Path, malformed: Container[str] = ()) -> ScoreReport:
        dialogues = (row.dialogue for row in read_rows() if row.id not in malformed)
        with ProgressBar("scoring") as bar:
            return score_to_file(dialogues, judge, path, options, progress=bar.advance)

    checks: dict[str, Judgement] | None = None
    judgements: dict[str, Judgement] | None = None
    malformed: set[str] = set()
    dimensions: Sequence[Dimension] = ()
    repeats = 1
    if user_judge is not None:
        report = score(user_judge, checks_file)
        report.require_coverage(min_coverage)
        checks = {check.id: check for check in read_judgements(checks_file)}
        malformed = {id for id, check in checks.items() if user_faults(check)}
    if judge is not None:
        report = score(judge, labels_file, malformed)
        judgements = {j.id: j for j in read_judgements(labels_file)}
        dimensions = judge.dimensions
        if isinstance(judge, PromptedJudge):
            repeats = judge.config.repeats
    summary = LabelCounts(dimensions, repeats)
    label_and_write_rows(read_rows(), checks, judgements, out, summary)
    record = {
        "labels_by": judge and str(judge.signature()),
        "users_checked_by": user_judge and str(user_judge.signature()),
        **summary.to_record(),
    }
    write_json(out / "report.json", record)
    if record["users"]:
        write_figures(
            {"malformed": malformed_users_figure(record["users"])}, out / "figures"
        )
    return summary, report


def label_and_write_rows(
    rows: Iterable[LabelledDialogue],
    checks: Mapping[str, Judgement] | None,
    judgements: Mapping[str, Judgement] | None,
    folder: Path,
    summary: LabelCounts,
) -> None:
    """Labels ``rows``, and writes each to one of three files in ``folder``.

    A row goes to malformed.jsonl if its simulated user has a fault. Otherwise it goes to
    labelled.jsonl, or to unlabelled.jsonl if it got no label.

    Args:
        rows: The dialogues.
        checks: Row id -> judgement of the simulated user. None if users were not checked.
        judgements: Row id -> judgement of the dialogue. With None, rows keep their labels.
        folder: The folder to write.
        summary: The counts to update. It also names the dimensions to label.

    Raises:
        MedalError: A row has no judgement.
    """
    # The files appear together at the end, or not at all.
    with ExitStack() as renames, ExitStack() as open_files:
        files = {}
        for kind in KINDS:
            path = renames.enter_context(atomic_path(folder / f"{kind}.jsonl"))
            files[kind] = open_files.enter_context(open_text(path, "w"))
        for row in rows:
            reasons: tuple[str, ...] = ()
            if checks is not None:
                check = _judgement_of(row, checks)
                reasons = user_faults(check)
                summary.add_check(row, check)
                row = with_user_check(row, check)
            if reasons:
                kind = "malformed"
            elif judgements is None:
                kind = "labelled" if row.labels else "unlabelled"
            else:
                before = row.labels
                judgement = _judgement_of(row, judgements)
                row = with_labels(row, judgement, summary.dimensions, summary.repeats)
                summary.add_judgement(judgement)
                kind = "unlabelled" if row.labels is before else "labelled"
            summary.kinds[kind] += 1
            files[kind].write(json_line(row))


def malformed_users_figure(users: Sequence[Mapping[str, Any]]) -> Figure:
    """Returns a bar chart of the share of simulated users with a fault, in percent of those checked
    (MEDAL, Figure 7).

    The first panel is for any fault, each further panel for one fault. A bar stands for one
    language and user model, and has Wilson's interval.

    Args:
        users: Counts for each language and user model, at least one entry such as ``{"lang": "en",
            "user": NAME, "checked": 50, "malformed": 4,
            ...}``. The further keys are faults. An entry with ``checked`` 0 has no bar.
    """
    panels = []
    for name in list(users[0])[_FIRST_COUNT:]:
        shares = {}
        for user in users:
            if checked := user["checked"]:
                share = user[name] / checked
                estimate = Estimate(share, *wilson_interval(user[name], checked))
                shares[f"{user['lang']}, {user['user']}"] = estimate
        panels.append(share_panel(name.replace("_", " "), shares))
    return Figure("Malformed users, % of those checked", panels)


def _judgement_of(
    row: LabelledDialogue, judgements: Mapping[str, Judgement]
) -> Judgement:
    """Returns the judgement of ``row``. Raises MedalError if it is missing.

    Args:
        judgements: Row id -> judgement.
    """
    judgement = judgements.get(row.id)
    if judgement is None:
        raise MedalError(
            f"no judgement of row {row.id!r}: FILE was changed while it was labelled",
            hint="Type the same command again",
        )
    return judgement


class LabelCounts:
    """Counts of a labelling run, for report.json.

    The caller gives ``dimensions`` and ``repeats``. The counts are filled during the run.

    Attributes:
        dimensions: The dimensions that the judge labels.
        repeats: How often the judge was asked about each dialogue.
        kinds: Output file (``labelled``, ``malformed`` or ``unlabelled``) -> number of rows.
        failures: Reason -> number of failed judgements.
        users: One mapping for each simulated user that a judge checked for faults: ``{"lang": "en",
            "user": NAME, "checked": 1, "malformed": 1, "role_confusion": 1}``. A count is 0 or 1.
        deviations: Dimension -> standard deviations (n - 1) of the scores over repeats, one for
            each dialogue.
    """

    def __init__(self, dimensions: Sequence[Dimension], repeats: int = 1) -> None:
        self.dimensions = dimensions
        self.repeats = repeats
        self.kinds: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.users: list[dict[str, Any]] = []
        self.deviations: dict[str, list[float]] = defaultdict(list)

    def add_check(self, row: LabelledDialogue, check: Judgement) -> None:
        """Counts ``check``, a judge's scores of the faults of the simulated user in ``row``."""
        reasons = user_faults(check)
        entry: dict[str, Any] = {
            "lang": row.dialogue.lang,
            "user": row.dialogue.models.get("user") or _UNNAMED,
            "checked": int(bool(reasons) or check.scored),
            "malformed": int(bool(reasons)),
        }
        self.users.append(entry | dict.fromkeys(reasons, 1))

    def add_judgement(self, judgement: Judgement) -> None:
        """Counts ``judgement`` if it failed. If the judge was asked more than once, adds the
        standard deviation of its scores on each dimension to ``deviations``."""
        if judgement.failure is not None:
            self.failures[judgement.failure] += 1
        for name, details in judgement.details.items():
            answers = details.get("repeats", ())
            numbers = [answer for answer in answers if answer is not None]
            if len(numbers) > 1:
                self.deviations[name].append(stdev(numbers))

    def to_record(self) -> dict[str, Any]:
        """Returns the counts as a JSON object for report.json, with ``users`` summed for each
        language and user model.

        If the judge was asked more than once, ``std_over_repeats`` maps each dimension to ``std``
        (the mean standard deviation over repeats) and ``dialogues`` (their number). The smallest
        ``std`` is first (MEDAL, Table 3).
        """
        users: list[dict[str, Any]] = []
        if self.users:
            counts = pd.DataFrame(self.users).groupby(["lang", "user"]).sum()
            users = counts.astype(int).reset_index().to_dict("records")
        record: dict[str, Any] = {
            "rows": dict(self.kinds),
            "failures": dict(self.failures),
            "repeats": self.repeats,
            "users": users,
        }
        if self.repeats > 1:
            means = {}
            for name, deviations in self.deviations.items():
                means[name] = {"std": fmean(deviations), "dialogues": len(deviations)}
            record["std_over_repeats"] = dict(
                sorted(means.items(), key=lambda mean: mean[1]["std"])
            )
        return record

    def tables(self) -> Iterator[Table]:
        """Yields the tables to print: standard deviations over repeats (MEDAL, Table 3), and shares
        of simulated users with a fault (Figure 7). A table without rows is left out."""
        record = self.to_record()
        rows: list[Row]
        if deviations := record.get("std_over_repeats"):
            title = f"standard deviation over {self.repeats} repeats (n - 1), mean over dialogues"
            rows = []
            for name, mean in deviations.items():
                rows.append((name, f"{mean['std']:.4f}", mean["dialogues"]))
            yield Table(title, ("dimension", "std", "dialogues"), rows)
        if users := record["users"]:
            rows = []
            for user in users:
                share = None
                if user["checked"]:
                    share = Share(Estimate(user["malformed"] / user["checked"]))
                rows.append((*user.values(), share))
            columns = (*users[0], "share of malformed")
            yield Table("malformed users, of those checked", columns, rows)
