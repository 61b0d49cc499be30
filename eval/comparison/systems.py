"""The dialogues of several systems with their scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from pydantic import model_validator

from medal_judges.config import BOXED, Config, option
from medal_judges.errors import ConfigError, MedalError
from medal_judges.eval.scores.bad import THRESHOLDS
from medal_judges.eval.scores.columns import read_columns
from medal_judges.eval.scores.scores import dimensions_and_scores
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.inference.scoring import score_to_file
from medal_judges.models.base.judge import Judge
from medal_judges.reading.dialogues import ReadingReport, ReadOptions, stream_dialogues
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import Dimension, merge_dimensions
from medal_judges.records.signature import Signature
from medal_judges.report.table import slug
from medal_judges.stats.correlation import Floats
from medal_judges.storage.files import output_lock
from medal_judges.storage.judgements import holds_judgements, read_frame, to_frame

if TYPE_CHECKING:
    from pandas import DataFrame

_MOST_SYSTEMS = 100  # 4,950 pairs of each dimension
_SCORE = "score "  # begins the names of columns of scores


class CompareOptions(Config):
    """Options of ``medal compare``: the systems' files, the judge, human labels,
    and limits to check.

    Attributes:
        bad: Limits beyond which a score counts as bad. With ``overall=1.5``, systems are also
            compared on the share of scores below 1.5.
        reading: How to read chats and labels.

    >>> CompareOptions(files=["all.jsonl"], by="chatbot").min_coverage
    0.98
    """

    files: tuple[str, ...] = option(
        argument=True,
        metavar="[NAME=]FILE...",
        help="Scores, or chats to score. One file for each system.",
    )
    by: str | None = option(
        None,
        help="Column that names the system: chatbot, or one kept by medal score --keep.",
    )
    judge: str | None = option(
        None,
        help="Judge that scores chats: name, YAML file, folder or Hub id.  [default: boxed]",
    )
    human: tuple[str, ...] = option(
        (),
        metavar="[NAME=]FILE",
        help="People's labels, which correct the judge. May be repeated.",
    )
    context: str | None = option(
        None,
        help="Column whose values systems share, such as scene.  [default: id]",
    )
    cluster: str | None = option(
        None, help="Column whose rows vary together, such as user."
    )
    dimensions: tuple[str, ...] = option(
        (),
        flag="--dimension",
        help="Only this dimension. May be repeated.",
    )
    bad: tuple[str, ...] = THRESHOLDS
    fail_if_worse: float | None = option(
        None,
        ge=0,
        help="Gate: fails if a system is worse than the first one by more than MARGIN.",
    )
    fail_if_more_bad: float | None = option(
        None,
        ge=0,
        le=1,
        help="Gate: fails if a system's share of bad scores is larger than the first one's by "
        "more than MARGIN (0.05: 5 points).",
    )
    min_coverage: float = option(
        0.98,
        ge=0,
        le=1,
        help="Share of chats that a gate needs scores of. Exit code 3 below it.",
    )
    junit: Path | None = option(
        None,
        help="File to write: the gates as JUnit XML, which CI shows.",
    )
    out: Path | None = option(
        None,
        help="Folder to write: page, JSON, tables, and scores to resume from.",
    )
    reading: ReadOptions = ReadOptions()

    @model_validator(mode="after")
    def _check_options(self) -> CompareOptions:
        has_gate = self.fail_if_worse is not None or self.fail_if_more_bad is not None
        if self.junit is not None and not has_gate:
            raise ConfigError("--junit needs a gate. Type --fail-if-worse MARGIN")
        if self.fail_if_more_bad is not None and not self.bad:
            hint = "Type for example: --bad overall=1.5"
            raise ConfigError("--fail-if-more-bad needs --bad", hint=hint)
        return self

    @property
    def columns(self) -> list[str]:
        """Returns the values of the options ``by``, ``context`` and ``cluster``, such as
        ``["chatbot", "scene", "user"]``. They name columns to read. Options that are not set are
        left out."""
        names = (self.by, self.context, self.cluster)
        return list(dict.fromkeys(filter(None, names)))

    @property
    def sources(self) -> dict[str, Path]:
        """Returns a mapping, name of a system -> its file. A system without a name is
        named after its file.

        Raises:
            MedalError: Two systems have the same name.
        """
        sources: dict[str, Path] = {}
        for text in self.files:
            name, _, file = text.partition("=")
            if not name or not file or "/" in name or Path(text).exists():
                name, file = "", text
            path = Path(file)
            system = name or path.name.removesuffix(".gz").rpartition(".")[0]
            system = system or path.name
            if system in sources:
                hint = "Type a name before each file: v1=old.jsonl v2=new.jsonl"
                raise MedalError(f"two systems are named {system!r}", hint=hint)
            sources[system] = path
        return sources


@dataclass(slots=True)
class Systems:
    """The dialogues of all systems (chatbots or versions) with their scores.

    Attributes:
        frame: A table with a row for each dialogue. Its columns are system, id, turn (index of the
            last judged turn) and chat (hash of the text). Columns such as ``scene`` are added if an
            option names them.
        judge: The judge's name, version and settings as text.
        dimensions: Dimension name -> dimension.
        scores: Dimension name -> scores [rows], NaN if unscored. The score of a dialogue is the
            mean over its judged turns if turns were judged.
        unnamed: The number of dialogues that are skipped because they name no system.
    """

    frame: DataFrame
    judge: str
    dimensions: dict[str, Dimension]
    scores: dict[str, Floats]
    unnamed: int = 0

    @property
    def names(self) -> list[str]:
        return list(self.frame["system"].unique())


def read_or_score_systems(
    options: CompareOptions,
    judge: Judge | None = None,
    reading: ReadingReport | None = None,
    progress: Callable[[int], None] | None = None,
) -> Systems:
    """Reads the files of all systems. Files of chats are scored first.

    With ``options.out``, scores are stored in that folder, and an earlier run is resumed.

    Args:
        options: The files, and how to read them.
        judge: Scores files of chats, in place of the judge that ``options.judge`` names.
        reading: Counts unreadable rows.
        progress: Called with the number of chats judged since its last call.

    Raises:
        MedalError: Files were scored by different judges, no dialogue has a score, or there are
            fewer than 2 or more than 100 systems.
        ConfigError: ``options.judge`` is set, but all files hold scores.
    """
    import pandas

    sources = options.sources
    holds_scores = {}
    for path in sources.values():
        holds_scores[path] = holds_judgements(path)
    if options.judge is not None and all(holds_scores.values()):
        raise ConfigError(
            "--judge is for chats, and all files hold scores",
            hint="Leave --judge out, or give the chats in place of their scores",
        )
    if judge is None and not all(holds_scores.values()):
        judge = choose_judge(options.judge or BOXED).load()
    frames: list[DataFrame] = []
    scales_by_file: list[tuple[str, Sequence[Dimension]]] = []
    file_of_judge: dict[str, Path] = {}
    for name, path in sources.items():
        dialogues = None
        if judge is None or holds_scores[path]:
            frame = read_frame(path)
        else:
            dialogues = list(stream_dialogues(path, options.reading, reading))
            frame = _score_chats(dialogues, judge, options.out, name, progress)
        for text in frame["judge"].unique():
            signature = Signature.parse(text)
            signature = replace(signature, data=None, dimension=None, seed=None)
            file_of_judge.setdefault(str(signature), path)
        if len(frame):
            rows, scales = _dialogue_means_and_dimensions(
                name, frame, dialogues, options
            )
            frames.append(rows)
            scales_by_file.append((str(path), list(scales.values())))
    _require_one_judge(file_of_judge, reading or ReadingReport())
    dimensions = merge_dimensions(scales_by_file)
    table = pandas.concat(frames, ignore_index=True)
    if options.by is not None:
        table["system"] = table[options.by]
        table = table.sort_values("system", kind="stable", ignore_index=True)
    unnamed = int(table["system"].isna().sum())
    table = table[table["system"].notna()]
    scores = {}
    # "overall" comes first.
    for dimension in sorted(dimensions, key=lambda name: name != "overall"):
        scores[dimension] = table[_SCORE + dimension].to_numpy(np.float64)
    systems = Systems(table, next(iter(file_of_judge)), dimensions, scores, unnamed)
    _require_comparable_systems(systems)
    return systems


def _require_one_judge(file_of_judge: dict[str, Path], reading: ReadingReport) -> None:
    if not file_of_judge:
        reading.require_dialogues()
    if len(file_of_judge) > 1:
        (first, first_file), (second, second_file) = list(file_of_judge.items())[:2]
        parts = set(first.split("|")).symmetric_difference(second.split("|"))
        raise MedalError(
            f"{first_file} and {second_file} were scored by different judges: "
            f"{', '.join(sorted(parts))}",
            hint="Score both with one judge: medal score, or give the chats with --judge NAME",
        )


def _score_chats(
    dialogues: list[Dialogue],
    judge: Judge,
    out: Path | None,
    name: str,
    progress: Callable[[int], None] | None,
) -> DataFrame:
    """Scores ``dialogues`` and returns a table of judgements.

    Args:
        out: The folder to store the judgements in and to resume from. None stores nothing.
        name: The name of the system.
        progress: Called with the number of chats judged since its last call.
    """
    if out is None:
        return to_frame(judge.score(dialogues, progress=progress))
    file = out / "scores" / f"{slug(name)}.jsonl"
    with output_lock(file):
        score_to_file(iter(dialogues), judge, file, progress=progress)
    return read_frame(file)


def _dialogue_means_and_dimensions(
    system: str,
    frame: DataFrame,
    dialogues: list[Dialogue] | None,
    options: CompareOptions,
) -> tuple[DataFrame, dict[str, Dimension]]:
    """Returns a table with one row for each dialogue of a system, and dimension name -> dimension.

    Args:
        system: The name of the system.
        frame: A table of the system's judgements. Scores of turns are averaged.
        dialogues: The chats, for columns that ``frame`` lacks.
        options: The dimensions and columns to keep.
    """
    dimensions, scores = dimensions_and_scores(frame, options.dimensions)
    frame = frame.assign(**{_SCORE + name: numbers for name, numbers in scores.items()})
    grouped = frame.groupby("id", sort=False)
    means = grouped[[_SCORE + name for name in scores]].mean().reset_index()
    last = grouped.tail(1).reset_index(drop=True)
    last.attrs = frame.attrs
    rows = last.reindex(columns=["id", "turn", "chat"]).assign(system=system)
    columns = read_columns(last, options.columns, dialogues)
    rows = rows.join(columns[options.columns])
    return rows.merge(means, on="id"), dimensions


def _require_comparable_systems(systems: Systems) -> None:
    count = len(systems.names)
    if not systems.dimensions:
        raise MedalError(
            "no dialogue has a score",
            hint="Read the reasons in the field failure of each line",
        )
    if count < 2:
        raise MedalError(
            f"all rows are of the system {''.join(systems.names)!r}: nothing to compare",
            hint="Give two files or more, or type --by COLUMN",
        )
    if count > _MOST_SYSTEMS:
        raise MedalError(
            f"{count:,} systems are too many pairs: at most {_MOST_SYSTEMS} are compared",
            hint="Leave some out, or type another column for --by",
        )
