"""A labelling run: users are checked, well-formed rows are labelled, and rows are sorted.

Both judges run as in ``medal score``, whose journal a second run resumes. The sorting into files
needs no judge and is repeated each time: rows are read beside the judgements of both judges, so
that a file of any size fits, and all files appear together at the end, or not at all.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from medal_judges.data_prep.labelling.labels import labelled, malformed_reasons, with_check
from medal_judges.errors import MedalError
from medal_judges.inference.scoring import ScoreOptions, ScoreReport, score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport, ReadOptions, labelled_of
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.report.progress import ProgressBar
from medal_judges.report.table import Percent, Row, Table
from medal_judges.storage.files import atomic_path, atomic_write
from medal_judges.storage.jsonl import open_text, to_line
from medal_judges.storage.judgements import read_judgements

KINDS = ("labelled", "malformed", "unlabelled")
_UNNAMED = "unnamed"


def label_file(
    file: str | Path,
    out: Path,
    judge: Judge,
    user_judge: Judge | None = None,
    *,
    min_coverage: float = 0.98,
    overwrite: bool = False,
    retry_failed: bool = False,
    reading: ReadOptions = DEFAULT_READING,
) -> tuple[Summary, ScoreReport]:
    """Label ``file`` into the folder ``out``; returns the counts and the labelling judge's report.

    ``user_judge`` None does not check users. ``min_coverage``: minimum share of users with a
    verdict before anything is labelled. The file is read several times.
    Raises CoverageError if too few users could be checked, and what score_to_file raises.
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
    malformed = {check.id for check in checks() or () if malformed_reasons(check)}
    well = (row.dialogue for row in well_formed(rows(), checks()))
    report = score(well, judge, labels, gone=malformed)
    repeats = judge.config.repeats if isinstance(judge, PromptedJudge) else 1
    summary = Summary(judge.dimensions, repeats)
    sort_rows(rows(), checks(), read_judgements(labels), out, summary)
    record = {
        "labels_by": str(judge.signature()),
        "users_checked_by": user_judge and str(user_judge.signature()),
        **summary.to_record(),
    }
    atomic_write(out / "report.json", json.dumps(record, indent=2, ensure_ascii=False) + "\n")
    return summary, report


def sort_rows(
    rows: Iterable[LabelledDialogue],
    checks: Iterator[Judgement] | None,
    judgements: Iterator[Judgement],
    folder: Path,
    summary: Summary,
) -> None:
    """Write labelled.jsonl, malformed.jsonl and unlabelled.jsonl, and count in ``summary``.

    ``checks`` has one judgement a row, in order (None: users were not checked); ``judgements`` one
    for each row that is not malformed. Raises MedalError if they are of other rows.
    """
    with ExitStack() as renames, ExitStack() as open_files:
        paths = {n: renames.enter_context(atomic_path(folder / f"{n}.jsonl")) for n in KINDS}
        files = {n: open_files.enter_context(open_text(path, "w")) for n, path in paths.items()}
        for row in rows:
            why: tuple[str, ...] = ()
            if checks is not None:
                check = _next(checks, row)
                why = malformed_reasons(check)
                summary.add_user(row, why, checked=bool(why) or check.scored)
                row = with_check(row, check)
            kind = "malformed"
            if not why:
                judgement = _next(judgements, row)
                if judgement.failure is not None:
                    summary.failures[judgement.failure] += 1
                before = row.labels
                row = labelled(row, judgement, summary.dimensions, summary.repeats)
                kind = "unlabelled" if row.labels is before else "labelled"
                if kind == "labelled":
                    summary.add_labelled(row)
            summary.kinds[kind] += 1
            files[kind].write(to_line(row))


def well_formed(
    rows: Iterable[LabelledDialogue], checks: Iterator[Judgement] | None
) -> Iterator[LabelledDialogue]:
    """The rows whose user is in order, or could not be checked; all without ``checks``."""
    for row in rows:
        if checks is None or not malformed_reasons(_next(checks, row)):
            yield row


def _next(judgements: Iterator[Judgement], row: LabelledDialogue) -> Judgement:
    judgement = next(judgements, None)
    if judgement is None or judgement.id != row.id:
        there = "no more judgements" if judgement is None else f"a judgement of {judgement.id!r}"
        raise MedalError(
            f"{there} at row {row.id!r}: FILE was changed while it was labelled",
            hint="--overwrite starts again from the beginning; cached answers cost nothing",
        )
    return judgement


def share_limiter(judges: Iterable[Judge]) -> None:
    """Let judges that pay share one limiter, so that --max-cost holds for their sum."""
    models = [model for judge in judges for model in judge.language_models()]
    limiters = [model.limiter for model in models if model.limiter is not None]
    for model in models if limiters else ():
        model.spend_from(limiters[0])


class Summary:
    """The counts of a run with ``repeats`` answers on each of ``dimensions``.

    ``rows``: of each labelled row the language, the chatbot, and the mean over the repeats of each
    dimension. ``users`` counts rows, those checked and those malformed by (language, user model),
    ``reasons`` why. ``deviations``: of each dimension, the sample standard deviations (n - 1; MEDAL
    does not say which) over the repeats of a dialogue with at least two answers.
    """

    def __init__(self, dimensions: Sequence[Dimension], repeats: int = 1) -> None:
        self.dimensions, self.repeats = dimensions, repeats
        self.rows: list[dict[str, Any]] = []
        self.users: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.reasons: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
        self.kinds: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.deviations: dict[str, list[float]] = defaultdict(list)

    def add_labelled(self, row: LabelledDialogue) -> None:
        """Count a labelled row under its language and its chatbot."""
        means: dict[str, float] = {}
        for name, values in row.labels.items():
            given = [value for value in values if value is not None]
            if given:
                means[name] = fmean(given)
            if len(given) > 1:
                self.deviations[name].append(stdev(given))
        names = {"language": row.dialogue.lang, "chatbot": row.dialogue.chatbot or _UNNAMED}
        self.rows.append({**names, "means": means})

    def add_user(self, row: LabelledDialogue, reasons: Sequence[str], *, checked: bool) -> None:
        """Count the user of ``row``: the ``reasons`` why it is malformed, and whether the user
        judge gave a verdict."""
        key = (row.dialogue.lang, row.dialogue.models.get("user") or _UNNAMED)
        self.users[key].update(rows=1, checked=int(checked), malformed=int(bool(reasons)))
        self.reasons[key].update(reasons)

    def consistency(self) -> dict[str, dict[str, Any]]:
        """How far the judge agrees with itself (MEDAL, Table 3): dimension -> mean ``std`` over
        ``dialogues``, smallest first."""
        rows = {
            name: {"std": fmean(values), "dialogues": len(values)}
            for name, values in self.deviations.items()
        }
        return dict(sorted(rows.items(), key=lambda row: row[1]["std"]))

    def by(self, what: str) -> dict[str, dict[str, Any]]:
        """Language or chatbot -> its ``rows``, and for each dimension the rows with the issue (a
        mean of 0.5 or more), or the mean of another dimension; None if no row has the label."""
        groups: dict[str, dict[str, Any]] = {}
        for name in sorted({row[what] for row in self.rows}):
            means = [row["means"] for row in self.rows if row[what] == name]
            groups[name] = {"rows": len(means)}
            for d in self.dimensions:
                values = [each[d.name] for each in means if d.name in each]
                figure: float | None = None
                if values:
                    figure = sum(v >= 0.5 for v in values) if d.is_issue else fmean(values)
                groups[name][d.name] = figure
        return groups

    def to_record(self) -> dict[str, Any]:
        """report.json."""
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
        return record | ({"std_over_repeats": self.consistency()} if self.repeats > 1 else {})

    def tables(self) -> Iterator[Table]:
        """Labels per language and chatbot, deviations over repeats (MEDAL, Table 3), and shares of
        malformed dialogues per language and user model (Figure 7), as far as there are any."""
        for what in ("language", "chatbot") if self.rows else ():
            groups = self.by(what)
            names = ("rows", *(d.name for d in self.dimensions))
            rows: list[Row] = [(name, *(g[name] for g in groups.values())) for name in names]
            yield Table(f"rows with the issue, or mean rating, by {what}", ("", *groups), rows)
        if deviations := self.consistency():
            title = f"standard deviation over {self.repeats} repeats (n - 1), mean over dialogues"
            rows = [(name, f"{d['std']:.4f}", d["dialogues"]) for name, d in deviations.items()]
            yield Table(title, ("dimension", "std", "dialogues"), rows)
        if users := self.to_record()["users"]:
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
