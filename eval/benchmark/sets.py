"""Loads the sets of a benchmark, and the labels by models that their rows hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from medal_judges.data_prep.labelling import EARLIER, MACHINE, machine_labels
from medal_judges.errors import ConfigError, DataError, RecordError, SourceError
from medal_judges.eval.benchmark.config import (
    BenchmarkConfig,
    InjectedConfig,
    JudgeConfig,
    PredictionConfig,
    SetConfig,
)
from medal_judges.eval.benchmark.published import check_published, same_model
from medal_judges.eval.benchmark.results import Answers, BenchmarkRun, BenchmarkSet
from medal_judges.reading.dialogues import DEFAULT_READING, ReadingReport
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import (
    LabelledDialogue,
    Level,
    Rating,
    Scale,
    mean,
)
from medal_judges.records.signature import content_hash


def prepare(config: BenchmarkConfig, *, offline: bool | None = None) -> BenchmarkRun:
    """Loads the sets; missing optional sets become notes. Raises ConfigError if a judge maps a
    dimension that no set has."""
    check_published(config)
    run = BenchmarkRun(config)
    for set_config in config.sets:
        loaded = load_set(set_config, offline=offline)
        if isinstance(loaded, str):
            run.notes.append(f"set {set_config.name} left out: {loaded}")
            continue
        curated_count = sum("curation" in row.extra for row in loaded.rows)
        if curated_count:
            run.notes.append(
                f"set {set_config.name}: {curated_count} of {len(loaded.rows)} rows were selected "
                "by medal curate; the figures are of the selection, not of its pool"
            )
        published = _published_answers(run, set_config, loaded.rows)
        run.sets[set_config.name] = replace(loaded, published=tuple(published))
    for injected_config in config.injected:
        loaded = load_set(injected_config, offline=offline)
        if isinstance(loaded, str):
            run.notes.append(f"injected set {injected_config.name} left out: {loaded}")
        else:
            run.injected[injected_config.name] = loaded
    run.answers = {name: [] for name in run.sets | run.injected}
    _require_mapped_dimensions(run)
    return run


def _published_answers(
    run: BenchmarkRun, config: SetConfig, rows: Sequence[LabelledDialogue]
) -> list[Answers]:
    published = []
    for labeller in config.published:
        try:
            published.append(published_labels(config, rows, labeller))
        except ConfigError as error:
            if not config.optional:
                raise
            run.notes.append(f"labels by {labeller} left out: {error.one_line}")
    return published


def _require_mapped_dimensions(run: BenchmarkRun) -> None:
    """Raises ConfigError if a judge maps a dimension that no set has, unless a missing injected set
    may have it."""
    config = run.config
    if len(run.injected) < len(config.injected):
        return
    dimensions: set[str] = set()
    for set_config in config.sets:
        dimensions.update(set_config.dimensions)
    for data in run.injected.values():
        dimensions.update(data.dimensions)
    judges: list[JudgeConfig | PredictionConfig] = [*config.judges, *config.predictions]
    for judge in judges:
        for name in judge.dimensions:
            if name not in dimensions:
                raise ConfigError(
                    f"judge {judge.name!r} maps the dimension {name!r}, which no set has",
                    hint=f"dimensions map the set's name to the judge's; the sets have: "
                    f"{', '.join(sorted(dimensions))}",
                )


def load_set(
    config: SetConfig | InjectedConfig, *, offline: bool | None = None
) -> BenchmarkSet | str:
    """Loads a set. If its data is missing, returns the reason as text for an optional set.

    Raises SourceError or DataError for another set without data, and ConfigError if no row is left
    or no row has a dimension of ``config``.
    """
    from medal_judges.data_prep.sources.registry import load_spec

    options = DEFAULT_READING
    if isinstance(config, SetConfig):
        options = config.read_options
    reading = ReadingReport(strict=True)
    try:
        rows = load_spec(
            config.source, offline=offline, reading=reading, options=options
        )
    except (SourceError, DataError) as error:
        if config.optional:
            return error.one_line
        raise
    reading.show()
    if isinstance(config, InjectedConfig):
        return _injected_set(config, rows)
    return _rated_set(config, rows)


def _injected_set(
    config: InjectedConfig, rows: Sequence[LabelledDialogue]
) -> BenchmarkSet:
    if not any("planted" in row.extra for row in rows):
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} has injected issues",
            hint="make such a file with: medal data plant IN.jsonl --out OUT.jsonl",
        )
    issues = dict.fromkeys(row.extra.get("planted", {}).get("issue") for row in rows)
    dimensions = {issue: issue for issue in issues if issue}
    return BenchmarkSet(tuple(rows), f"{config.name}@{data_hash(rows)}", dimensions)


def _rated_set(config: SetConfig, rows: Sequence[LabelledDialogue]) -> BenchmarkSet:
    from medal_judges.data_prep.sources import abceval

    level = config.level
    if config.view == "abceval_issues_by_dialogue":
        rows = list(abceval.lift_to_dialogues(map(abceval.to_issues, rows)))
    if level == "last":
        level = "turn"
        rows = [_up_to_answer(row) for row in rows if row.level == "dialogue"]
    chosen = config.in_langs([row for row in rows if _is_in_set(config, row, level)])
    chosen = chosen[config.skip :][: config.limit]
    if not chosen:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} at level {config.level} is left",
            hint="level is dialogue, turn or last; groups, exclude_chatbots, exclude_overlaps, "
            "skip and split remove rows",
        )
    labels: dict[str, object] = {}
    for row in chosen:
        labels |= row.labels
    for name in config.dimensions:
        if name not in labels:
            problem = f"set {config.name!r} has no dimension {name!r}"
            raise ConfigError(problem, hint=f"it has: {', '.join(labels)}")
    ids = {row.id for row in chosen}
    return BenchmarkSet(
        tuple(chosen),
        f"{config.name}@{data_hash(chosen)}",
        config.dimensions,
        level,
        left_out=tuple(row for row in rows if row.id not in ids),
    )


def _up_to_answer(row: LabelledDialogue) -> LabelledDialogue:
    """Returns the row of a dialogue as one of its last answer, without the turns after it."""
    turns = row.dialogue.turns
    for end in range(len(turns), 0, -1):
        if turns[end - 1].role == "assistant":
            turns = turns[:end]
            break
    return replace(row, level="turn", dialogue=replace(row.dialogue, turns=turns))


def _is_in_set(config: SetConfig, row: LabelledDialogue, level: Level) -> bool:
    if row.level != level or row.dialogue.chatbot in config.exclude_chatbots:
        return False
    if config.groups and row.group not in config.groups:
        return False
    if config.exclude_overlaps and row.extra.get("overlaps"):
        return False
    return config.split is None or config.split.part_of(row.group) == "test"


def published_labels(
    config: SetConfig, rows: Sequence[LabelledDialogue], labeller: str
) -> Answers:
    """Returns the labels that the model ``labeller`` gave the rows, as a judge's answers. Raises
    ConfigError if no row has any."""
    ratings_by_row: list[dict[str, Rating]] = []
    rated: dict[str, Rating] = {}
    scales: dict[str, Scale] = {}
    labellers: dict[str, object] = {}
    for row in rows:
        try:
            labels_by_model = machine_labels(row)
        except RecordError as error:
            raise DataError(
                config.source, None, f"row {row.id!r}: {error.message}"
            ) from error
        labellers |= labels_by_model
        ratings = _ratings_by(labeller, labels_by_model, config.dimensions)
        ratings_by_row.append(ratings)
        rated |= ratings
        for name, rating in ratings.items():
            if rating.scale:
                scales[name] = rating.scale
    names = [name for name in config.dimensions if name in rated]
    if not names:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} has labels by {labeller!r} of "
            f"{', '.join(config.dimensions)}",
            hint=f"its rows have labels by: {', '.join(labellers) or 'no model'} (fields "
            f"{MACHINE} and {EARLIER})",
        )
    judgements = []
    for row, ratings in zip(rows, ratings_by_row, strict=True):
        scores: dict[str, float | None] = dict.fromkeys(names)
        scores.update({name: mean(rating) for name, rating in ratings.items()})
        judgements.append(_as_judgement(row, scores, labeller))
    return Answers(
        f"{labeller} (published)",
        f"judge:{labeller}",
        judgements,
        names={name: name for name in config.dimensions},
        scales=scales,
    )


def _ratings_by(
    labeller: str,
    labels_by_model: Mapping[str, LabelledDialogue],
    dimensions: Mapping[str, str],
) -> dict[str, Rating]:
    """Returns the labels that the model ``labeller`` gave one row, by the set's dimension."""
    ratings = {}
    for model, labels in labels_by_model.items():
        if same_model(model, labeller):
            for name, judge_dimension in dimensions.items():
                rating = labels.rating(name) or labels.rating(judge_dimension)
                if rating is not None:
                    ratings[name] = rating
    return ratings


def _as_judgement(
    row: LabelledDialogue, scores: dict[str, float | None], labeller: str
) -> Judgement:
    missing = [name for name, score in scores.items() if score is None]
    failure = None
    if missing:
        failure = f"no label by {labeller}: {', '.join(missing)}"
    chat = row.dialogue.chat_hash
    return Judgement(
        row.id, f"judge:{labeller}", scores, row.turn, failure=failure, chat=chat
    )


def data_hash(rows: Iterable[LabelledDialogue]) -> str:
    """Returns 12 hex digits that identify the content of the rows, whatever their order."""
    return content_hash(sorted(content_hash(row.to_record()) for row in rows))
