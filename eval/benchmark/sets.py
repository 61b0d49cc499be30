"""Sets of a benchmark: the rows behind a SetConfig, and a hash of what they hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from medal_judges.errors import ConfigError, DataError, SourceError
from medal_judges.eval.benchmark.config import InjectedConfig, SetConfig
from medal_judges.models.base.judge import ScoreLevel
from medal_judges.reading.options import DEFAULT_READING, ReadOptions
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.signature import content_hash
from medal_judges.stats.weights import Weights


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """Rows to judge. ``left_out`` rows are of the source but not of the set.

    ``data`` names the set's rows in signatures. ``published`` maps a labeller to its judgements.
    ``weights`` says how rows count in figures.
    """

    name: str
    level: ScoreLevel
    rows: tuple[LabelledDialogue, ...]
    data: str
    left_out: tuple[LabelledDialogue, ...] = ()
    published: tuple[tuple[str, tuple[Judgement, ...]], ...] = ()
    weights: Weights = "none"

    @property
    def weighted_data(self) -> str:
        """``data`` with the weights of its figures: figures with and without do not compare."""
        return self.data if self.weights == "none" else f"{self.data}, {self.weights} weights"

    @property
    def issues(self) -> list[str]:
        """The issues injected into the rows, in order of appearance."""
        issues = dict.fromkeys(row.extra.get("planted", {}).get("issue") for row in self.rows)
        return [issue for issue in issues if issue]


def load_set(config: SetConfig, *, offline: bool | None = None) -> BenchmarkSet | str:
    """The set, or why it is not here (optional sets only).

    Raises SourceError or DataError where a set that is not optional is missing, and ConfigError
    where no row is left or none has a dimension that the configuration names.
    """
    try:
        source = _load(config.source, offline, config.read_options)
    except (SourceError, DataError) as error:
        if config.optional:
            return error.message
        raise
    rows = _viewed(source, config)
    kept = [row for row in rows if _belongs(row, config)]
    names = {row.id for row in kept}
    _check(kept, config)
    return BenchmarkSet(
        name=config.name,
        level="dialogue" if config.level == "dialogue" else "last",
        rows=tuple(kept),
        data=f"{config.name}@{data_hash(kept)}",
        left_out=tuple(row for row in rows if row.id not in names),
        published=tuple((name, _published(source, name)) for name in config.published),
    )


def load_injected(config: InjectedConfig, *, offline: bool | None = None) -> BenchmarkSet | str:
    """The injected rows, or why they are not here (optional sets only). Raises as ``load_set``."""
    try:
        rows = _load(config.source, offline)
    except (SourceError, DataError) as error:
        if config.optional:
            return error.message
        raise
    if not any("planted" in row.extra for row in rows):
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} has injected issues",
            hint="make such a file with: medal data plant IN.jsonl --out OUT.jsonl",
        )
    data = f"{config.name}@{data_hash(rows)}"
    return BenchmarkSet(config.name, "dialogue", tuple(rows), data)


def data_hash(rows: Sequence[LabelledDialogue]) -> str:
    """12 hex digits over everything in the rows, whatever their order."""
    return content_hash(sorted(content_hash(row.to_record()) for row in rows))


def _load(
    source: str, offline: bool | None, options: ReadOptions = DEFAULT_READING
) -> list[LabelledDialogue]:
    from medal_judges.data_prep.sources.registry import load_spec

    return load_spec(source, offline=offline, options=options)


def _viewed(rows: list[LabelledDialogue], config: SetConfig) -> list[LabelledDialogue]:
    if config.view == "rows":
        return rows
    from medal_judges.data_prep.sources.abceval import lift_to_dialogues, to_issues

    issues = [to_issues(row) for row in rows]
    return issues if config.view == "abceval_issues_by_turn" else list(lift_to_dialogues(issues))


def _published(rows: list[LabelledDialogue], labeller: str) -> tuple[Judgement, ...]:
    from medal_judges.data_prep.sources.abceval import published_judgements

    return tuple(published_judgements(rows, labeller))


def _belongs(row: LabelledDialogue, config: SetConfig) -> bool:
    if config.exclude_overlaps and row.extra.get("overlaps"):
        return False
    return row.level == config.level and row.dialogue.chatbot not in config.exclude_chatbots


def _check(rows: Sequence[LabelledDialogue], config: SetConfig) -> None:
    if not rows:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} at level {config.level} is left",
            hint="level is dialogue or turn; exclude_chatbots and exclude_overlaps take rows away",
        )
    known = dict.fromkeys(name for row in rows for name in row.labels)
    for name in config.dimensions:
        if name not in known:
            raise ConfigError(
                f"set {config.name!r} has no dimension {name!r}", hint=f"it has: {', '.join(known)}"
            )
