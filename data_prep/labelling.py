"""``medal label``: checks the simulated users, labels the well-formed rows, and sorts all rows.

MEDAL, section 3.4 and appendix C.3: a judge finds the dialogues whose simulated user is malformed
(plays the assistant, or writes in another language); they are removed before labelling. Both judges
run as in ``medal score``, whose journal a second run resumes. Sorting the rows into files needs no
judge and is repeated each time. It reads rows and judgements side by side, so files of any size
fit; the files appear together at the end, or not at all.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from medal_judges.errors import MedalError
from medal_judges.inference.scoring import ScoreOptions, ScoreReport, score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport, ReadOptions, labelled_of
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.records.signature import Signature
from medal_judges.records.validation import mapping
from medal_judges.report.console import ProgressBar
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure
from medal_judges.report.figure_files import write_figures
from medal_judges.report.table import Percent, Row, Table, number
from medal_judges.stats.intervals import wilson
from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.storage.jsonl import open_text, to_line
from medal_judges.storage.judgements import read_judgements

LABELS_BY, COMMENTS, FAILURE = "labels_by", "comments", "label_failure"
EARLIER, ANNOTATORS, MACHINE = "earlier_labels", "annotators", "machine_labels"
KINDS = ("labelled", "malformed", "unlabelled")
_UNNAMED = "unnamed"


def labelled(
    row: LabelledDialogue, judgement: Judgement, dimensions: Sequence[Dimension], repeats: int = 1
) -> LabelledDialogue:
    """``row`` with the judge's labels (one value per repeat, None for an answer without a number),
    comments and signature. The row's own labels are appended to ``extra["earlier_labels"]``.

    ``extra["label_failure"]`` says why a label is missing; if all are, nothing else changes.
    """
    labels: dict[str, tuple[float | None, ...]] = {}
    for d in dimensions:
        values = (judgement.scores.get(d.name),)
        if repeats > 1:
            given = judgement.details.get(d.name, {}).get("repeats")
            values = tuple(given or (None,) * repeats)
        if any(value is not None for value in values):
            labels[d.name] = values
    if not labels:
        return replace(row, extra={**row.extra, FAILURE: judgement.failure or "no reason given"})
    scales = {d.name: (d.low, d.high) for d in dimensions if d.name in labels}
    extra = {**row.extra, **earlier_labels(row)}
    extra.pop(ANNOTATORS, None)  # these labels are not theirs
    extra |= {COMMENTS: _comments(judgement), LABELS_BY: judgement.judge}
    extra.pop(FAILURE, None)
    if judgement.failure is not None:
        extra[FAILURE] = judgement.failure
    return replace(row, labels=labels, scales=scales, aggregated=False, extra=extra)


def _comments(judgement: Judgement) -> dict[str, str]:
    return {n: d["comment"] for n, d in judgement.details.items() if d.get("comment")}


def earlier_labels(row: LabelledDialogue) -> dict[str, Any]:
    """The field of ``extra`` that preserves the row's own labels, after those that it already
    holds; empty if the row has no labels."""
    if not row.labels:
        return {}
    record = row.to_record()
    own: dict[str, Any] = {
        name: record[name] for name in ("labels", "scales", "aggregated") if name in record
    }
    own |= {k: row.extra[k] for k in (COMMENTS, LABELS_BY, ANNOTATORS) if k in row.extra}
    return {EARLIER: [*row.extra.get(EARLIER, ()), own]}


def machine_labels(row: LabelledDialogue) -> dict[str, LabelledDialogue]:
    """``row`` with the labels of each model that labelled it: those in ``extra["machine_labels"]``
    (dimension -> model -> label, on the row's scales), and those that the row held earlier, the
    newest of a model. Raises RecordError."""
    expected = "an object of dimension: {model: label}"
    record = row.to_record()
    given: dict[str, dict[str, Any]] = {}
    for name in mapping(row.extra, MACHINE, expected):
        for model, label in mapping(row.extra[MACHINE], name, expected).items():
            own = given.setdefault(model, {"labels": {}, "scales": record["scales"]})
            own["labels"][name] = label
    for held in row.extra.get(EARLIER, ()):
        if isinstance(by := held.get(LABELS_BY), str):
            given[Signature.parse(by).base or Signature.parse(by).judge] = held
    record |= {"scales": {}, "aggregated": False}
    return {model: parse_labelled(record | own) for model, own in given.items()}


def malformed_reasons(check: Judgement) -> tuple[str, ...]:
    """The faults that the check found (dimensions with a score of at least 0.5), in the rubric's
    order."""
    return tuple(name for name, score in check.scores.items() if score is not None and score >= 0.5)


def with_check(row: LabelledDialogue, check: Judgement) -> LabelledDialogue:
    """``row`` with ``extra["malformed"]`` (``reasons``, ``comments``, ``by``) if its user is
    malformed, else with ``extra["user_check"]`` (``by``, and the ``failure`` of an incomplete
    check)."""
    if reasons := malformed_reasons(check):
        why = {"reasons": list(reasons), "comments": _comments(check), "by": check.judge}
        return replace(row, extra={**row.extra, "malformed": why})
    note = {"by": check.judge}
    if check.failure is not None:
        note["failure"] = check.failure
    return replace(row, extra={**row.extra, "user_check": note})


def require_labellable(
    rows: Iterator[LabelledDialogue], *, replace_labels: bool, need_lang: bool
) -> None:
    """Raises MedalError for rows about single turns, for rows that have labels unless
    ``replace_labels``, and for rows without ``lang`` if ``need_lang``."""
    count = had = 0
    for row in rows:
        count += 1
        had += bool(row.labels)
        if row.level != "dialogue":
            problem = f"row {row.id!r} is about one turn; medal label judges whole dialogues"
            raise MedalError(problem, hint="medal score --level last judges last answers")
        if need_lang and row.dialogue.lang == "und":
            raise MedalError(
                f"row {row.id!r} has no 'lang', so its user cannot be checked for another language",
                hint="give each row its ISO 639-1 code, or leave the check out: --no-user-check",
            )
    if had and not replace_labels:
        raise MedalError(
            f"{had} of {count} rows have labels already",
            hint=f"--replace-labels replaces them in the output and moves them to {EARLIER!r}; "
            "FILE is not changed; --users-only checks the users and keeps the labels",
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
) -> tuple[Summary, ScoreReport]:
    """Label ``file`` into the folder ``out``. Returns the counts and the labelling judge's report.

    Without a ``user_judge`` users are not checked; without a ``judge`` that is all, rows keep their
    labels, and the report is of the users. ``min_coverage``: minimum share of users with a verdict
    before anything is labelled. The file is read several times.
    Raises CoverageError if too few users could be checked, and the errors of score_to_file.
    """
    from medal_judges.models.prompted.judge import PromptedJudge

    users, labels = out / "user_judgements.jsonl", out / "judgements.jsonl"

    def rows() -> Iterator[LabelledDialogue]:
        return labelled_of(file, reading, ReadingReport())

    def checks() -> Iterator[Judgement] | None:
        return None if user_judge is None else read_judgements(users)

    def score(
        dialogues: Iterator[Dialogue], judge: Judge, path: Path, gone: Container[str] = ()
    ) -> ScoreReport:
        options = ScoreOptions(overwrite=overwrite, retry_failed=retry_failed)
        with ProgressBar("scoring") as bar:
            return score_to_file(dialogues, judge, path, options, gone=gone, progress=bar.advance)

    if user_judge is not None:
        checked = score((row.dialogue for row in rows()), user_judge, users)
        checked.require_coverage(min_coverage)
    elif overwrite:  # an earlier run's verdicts do not count here
        users.unlink(missing_ok=True)
    # A later verdict removes its dialogue from those that were labelled, or adds it.
    if judge is None:
        report, summary, judged = checked, Summary(()), None
    else:
        malformed = {check.id for check in checks() or () if malformed_reasons(check)}
        well = (row.dialogue for row in rows() if row.id not in malformed)
        report = score(well, judge, labels, gone=malformed)
        repeats = judge.config.repeats if isinstance(judge, PromptedJudge) else 1
        summary, judged = Summary(judge.dimensions, repeats), read_judgements(labels)
    sort_rows(rows(), checks(), judged, out, summary)
    record = {
        "labels_by": judge and str(judge.signature()),
        "users_checked_by": user_judge and str(user_judge.signature()),
        **summary.to_record(),
    }
    atomic_write(out / "report.json", json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    if record["users"]:
        write_figures({"malformed": malformed_figure(record["users"])}, out / "figures")
    return summary, report


def sort_rows(
    rows: Iterable[LabelledDialogue],
    checks: Iterator[Judgement] | None,
    judgements: Iterator[Judgement] | None,
    folder: Path,
    summary: Summary,
) -> None:
    """Write labelled.jsonl, malformed.jsonl and unlabelled.jsonl, and count in ``summary``.

    ``checks`` has one judgement for each row, in order (None: users were not checked);
    ``judgements`` one for each row that is not malformed (None: rows keep their labels). Raises
    MedalError if they do not match.
    """
    with ExitStack() as renames, ExitStack() as open_files:
        paths = {n: renames.enter_context(atomic_path(folder / f"{n}.jsonl")) for n in KINDS}
        files = {n: open_files.enter_context(open_text(path, "w")) for n, path in paths.items()}
        for row in rows:
            kind = "malformed"
            why: tuple[str, ...] = ()
            if checks is not None:
                check = _next(checks, row)
                why = malformed_reasons(check)
                user = (row.dialogue.lang, row.dialogue.models.get("user") or _UNNAMED)
                counts = {"checked": int(bool(why) or check.scored), "malformed": int(bool(why))}
                summary.users[user].update(rows=1, **counts)
                summary.reasons[user].update(why)
                row = with_check(row, check)
            if not why and judgements is None:
                kind = "labelled" if row.labels else "unlabelled"
            elif not why and judgements is not None:
                judgement = _next(judgements, row)
                if judgement.failure is not None:
                    summary.failures[judgement.failure] += 1
                before = row.labels
                row = labelled(row, judgement, summary.dimensions, summary.repeats)
                kind = "unlabelled" if row.labels is before else "labelled"
                if kind == "labelled":
                    means: dict[str, float] = {}
                    for name, values in row.labels.items():
                        given = [value for value in values if value is not None]
                        means |= {name: fmean(given)} if given else {}
                        if len(given) > 1:
                            summary.deviations[name].append(stdev(given))
                    bot = row.dialogue.chatbot or _UNNAMED
                    summary.rows.append(
                        {"language": row.dialogue.lang, "chatbot": bot, "means": means}
                    )
            summary.kinds[kind] += 1
            files[kind].write(to_line(row))


def malformed_figure(users: Sequence[Mapping[str, Any]]) -> Figure:
    """The share of malformed users and of each reason, by language and user model (MEDAL, Figure
    7), with Wilson's intervals. ``users`` as in report.json."""
    panels = []
    for name in (
        "malformed",
        *dict.fromkeys(reason for user in users for reason in user["reasons"]),
    ):
        bars, end = [], 0.0
        for user in (user for user in users if user["checked"]):
            count = user["malformed"] if name == "malformed" else user["reasons"].get(name, 0)
            share, (low, high) = count / user["checked"], wilson(count, user["checked"])
            who, end = f"{user['lang']}, {user['user']}", max(end, 100 * high)
            text = number(100 * share, 1)
            bars.append(Bar(who, [BarSegment(100 * share, 1)], (100 * low, 100 * high), text))
        panels.append(Bars(name.replace("_", " "), bars, end or 1.0, name))
    return Figure("Malformed users, % of those checked", panels)


def _next(judgements: Iterator[Judgement], row: LabelledDialogue) -> Judgement:
    judgement = next(judgements, None)
    if judgement is None or judgement.id != row.id:
        there = "no more judgements" if judgement is None else f"a judgement of {judgement.id!r}"
        raise MedalError(
            f"{there} at row {row.id!r}: FILE was changed while it was labelled",
            hint="--overwrite starts again from the beginning; cached answers cost nothing",
        )
    return judgement


class Summary:
    """The counts of a run with ``repeats`` answers on each of ``dimensions``.

    ``rows``: the language, the chatbot and the mean labels of each labelled row. ``kinds``: rows by
    file. ``failures``: by reason. ``users``: rows, checked users and malformed users by (language,
    user model), and ``reasons`` for malformed ones. ``deviations``: for each dimension, the
    standard deviation over the repeats of each dialogue with at least two answers (n - 1; MEDAL
    does not say which).
    """

    def __init__(self, dimensions: Sequence[Dimension], repeats: int = 1) -> None:
        self.dimensions, self.repeats = dimensions, repeats
        self.rows: list[dict[str, Any]] = []
        self.users: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.kinds: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.deviations: dict[str, list[float]] = defaultdict(list)

    def by(self, what: str) -> dict[str, dict[str, Any]]:
        """For each language or chatbot: the number of ``rows``; for each issue the number of rows
        with it (a mean of 0.5 or more), for each other dimension the mean; None without labels."""
        groups: dict[str, dict[str, Any]] = {}
        for name in sorted({row[what] for row in self.rows}):
            means = [row["means"] for row in self.rows if row[what] == name]
            groups[name] = {"rows": len(means)}
            for d in self.dimensions:
                values = [each[d.name] for each in means if d.name in each]
                figure = sum(v >= 0.5 for v in values) if d.is_issue else fmean(values or [0])
                groups[name][d.name] = figure if values else None
        return groups

    def to_record(self) -> dict[str, Any]:
        """The content of report.json. ``std_over_repeats`` says how far the judge agrees with
        itself (MEDAL, Table 3): the mean ``std`` over dialogues, smallest first."""
        record: dict[str, Any] = {
            "rows": dict(self.kinds),
            "failures": dict(self.failures),
            "repeats": self.repeats,
            "by_language": self.by("language"),
            "by_chatbot": self.by("chatbot"),
        }
        record["users"] = [
            {
                **{"lang": lang, "user": user, **counts},
                "share": counts["malformed"] / counts["checked"] if counts["checked"] else None,
                "reasons": dict(self.reasons[lang, user]),
            }
            for (lang, user), counts in sorted(self.users.items())
        ]
        if self.repeats > 1:
            means = sorted(self.deviations.items(), key=lambda each: fmean(each[1]))
            record["std_over_repeats"] = {
                name: {"std": fmean(values), "dialogues": len(values)} for name, values in means
            }
        return record

    def tables(self) -> Iterator[Table]:
        """Labels per language and chatbot, deviations over repeats (MEDAL, Table 3), and shares of
        malformed dialogues per language and user model (Figure 7); without empty tables."""
        record = self.to_record()
        for what in ("language", "chatbot") if self.rows else ():
            groups = record[f"by_{what}"]
            names = ("rows", *(d.name for d in self.dimensions))
            rows: list[Row] = [(name, *(g[name] for g in groups.values())) for name in names]
            yield Table(f"rows with the issue, or mean rating, by {what}", ("", *groups), rows)
        if deviations := record.get("std_over_repeats"):
            title = f"standard deviation over {self.repeats} repeats (n - 1), mean over dialogues"
            rows = [(name, f"{d['std']:.4f}", d["dialogues"]) for name, d in deviations.items()]
            yield Table(title, ("dimension", "std", "dialogues"), rows)
        if users := record["users"]:
            reasons = list(dict.fromkeys(name for user in users for name in user["reasons"]))
            rows = [
                (
                    *(user[key] for key in ("lang", "user", "checked")),
                    *(user["reasons"].get(name, 0) for name in reasons),
                    None if user["share"] is None else Percent(user["share"]),
                )
                for user in users
            ]
            columns = ("language", "user", "checked", *reasons, "malformed")
            yield Table("malformed users, of those checked", columns, rows)
