"""Loading of the sets of a benchmark, and of labels by models in their rows."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medal_judges.errors import ConfigError, DataError, SourceError
from medal_judges.eval.benchmark.config import SetConfig
from medal_judges.eval.benchmark.published import is_same_model
from medal_judges.reading.dialogues import ReadingReport
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import (
    LabelledDialogue,
    Level,
    Scale,
)
from medal_judges.records.signature import Signature, content_hash


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """The labelled dialogues or turns of one set.

    Attributes:
        rows: The labelled dialogues or turns that are judged.
        data: The set's name and a hash of its content, such as ``fed@3f2a...``.
        dimensions: Name of a dimension in the set -> the judges' usual name for it.
        level: What is judged: the whole ``dialogue``, or its last ``turn``.
        left_out: Rows of the source that the set's settings exclude.
        is_injected: Whether ``medal data plant`` made the rows by injecting issues into dialogues.
    """

    rows: Sequence[LabelledDialogue]
    data: str
    dimensions: Mapping[str, str]
    level: Level = "dialogue"
    left_out: Sequence[LabelledDialogue] = ()
    is_injected: bool = False


@dataclass(frozen=True, slots=True)
class SetJudgements:
    """The judgements of one set by one judge.

    Attributes:
        judge: The judge's name.
        signature: The judge's name, version and settings as text.
        judgements: The judgements, in any order.
        names: Name of a dimension in the set -> the judge's name for it, such as ``{"engaging":
            "engagingness"}``.
        scales: The judge's name of a dimension -> (lowest, highest) score. A dimension with an
            unknown scale is absent.
    """

    judge: str
    signature: str
    judgements: Sequence[Judgement]
    names: Mapping[str, str]
    scales: Mapping[str, Scale] = field(default_factory=dict)


def load_set(config: SetConfig) -> BenchmarkSet | str:
    """Loads the set that ``config`` describes.

    Returns:
        The set. If the set is optional and its data is missing, a message that says why.

    Raises:
        SourceError: The data is missing, and the set is not optional.
        DataError: A file cannot be read, and the set is not optional.
        ConfigError: No row is left, or a dimension has no label.
    """
    from medal_judges.data_prep.sources.registry import load_rows

    reading = ReadingReport(strict=True)
    try:
        rows = load_rows(config.source, reading=reading, options=config.read_options)
    except (SourceError, DataError) as error:
        if config.optional:
            return error.one_line
        raise
    reading.show()
    if config.view == "planted":
        return _injected_set(config, rows)
    return _rated_set(config, rows)


def _injected_set(config: SetConfig, rows: Sequence[LabelledDialogue]) -> BenchmarkSet:
    rows = [row for row in rows if "planted" in row.extra]
    issues = dict.fromkeys(row.extra["planted"].get("issue") for row in rows)
    dimensions = {issue: issue for issue in issues if issue}
    if not dimensions:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} has injected issues",
            hint="Make such a file. Type: medal data plant IN.jsonl --out OUT.jsonl",
        )
    data = f"{config.name}@{data_hash(rows)}"
    return BenchmarkSet(rows, data, dimensions, is_injected=True)


def _rated_set(config: SetConfig, rows: Sequence[LabelledDialogue]) -> BenchmarkSet:
    from medal_judges.data_prep.sources import abceval

    level: Level = "dialogue"
    if config.view == "abceval_issues_by_dialogue":
        rows = list(abceval.to_dialogue_issues(rows))
    if config.level == "last":
        rows = [_to_turn_row(row) for row in rows if row.level == "dialogue"]
    if config.level != "dialogue":
        level = "turn"
    chosen = config.select_langs(
        [row for row in rows if _is_in_set(config, row, level)]
    )
    chosen = chosen[: config.limit]
    if not chosen:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} at level {config.level} is left",
            hint="Type level: dialogue, turn or last, or leave out groups, exclude_chatbots and "
            "exclude_overlaps, which remove rows",
        )
    labelled: dict[str, object] = {}
    for row in chosen:
        labelled |= row.labels
    for name in config.dimensions:
        if name not in labelled:
            problem = f"set {config.name!r} has no dimension {name!r}"
            raise ConfigError(problem, hint=f"Use one of: {', '.join(labelled)}")
    ids = {row.id for row in chosen}
    left_out = [row for row in rows if row.id not in ids]
    data = f"{config.name}@{data_hash(chosen)}"
    return BenchmarkSet(chosen, data, config.dimensions, level, left_out)


def _to_turn_row(row: LabelledDialogue) -> LabelledDialogue:
    """Returns ``row`` at turn level: the dialogue up to its last assistant turn,
    with the same labels."""
    turns = row.dialogue.turns
    for end in range(len(turns), 0, -1):
        if turns[end - 1].role == "assistant":
            turns = turns[:end]
            break
    return replace(row, level="turn", dialogue=replace(row.dialogue, turns=turns))


def _is_in_set(config: SetConfig, row: LabelledDialogue, level: Level) -> bool:
    if row.level != level or row.dialogue.chatbot in config.exclude_chatbots:
        return False
    if config.exclude_overlaps and row.extra.get("overlaps"):
        return False
    return not config.groups or row.group in config.groups


def judgements_from_labels(
    config: SetConfig, rows: Sequence[LabelledDialogue], labeller: str
) -> SetJudgements:
    """Returns labels that a model gave to ``rows`` as judgements. The model is then
    evaluated like a judge.

    Args:
        config: The set, which names the dimensions.
        rows: The rows of the set, with labels by the model.
        labeller: The name of the model, such as ``gpt-4.1``.

    Raises:
        ConfigError: No row has a label by this model.
    """
    judgements = []
    names: dict[str, str] = {}
    for row in rows:
        labels = _labels_of_model(labeller, row)
        names |= {name: name for name in config.dimensions if name in labels}
        failure = None
        if not config.dimensions.keys() <= labels.keys():
            failure = f"no label by {labeller}"
        judgement = Judgement(
            row.id,
            f"judge:{labeller}",
            {name: labels.get(name) for name in config.dimensions},
            row.turn,
            failure=failure,
            chat=row.dialogue.chat_hash,
        )
        judgements.append(judgement)
    if not names:
        raise ConfigError(
            f"set {config.name!r}: no row of {config.source} has labels by {labeller!r} of "
            f"{', '.join(config.dimensions)}",
            hint='Write them into each row: "machine_labels": {"overall": {"gpt-4.1": 4}}',
        )
    name = f"{labeller} (published)"
    return SetJudgements(name, f"judge:{labeller}", judgements, names)


def _labels_of_model(labeller: str, row: LabelledDialogue) -> dict[str, float]:
    """Returns dimension -> label that the model ``labeller`` gave to ``row``.

    Reads the row's fields ``machine_labels`` and ``earlier_labels`` (written by ``medal label``).
    """
    values: dict[str, Any] = {}
    for name, by_model in row.extra.get("machine_labels", {}).items():
        for model, value in by_model.items():
            if is_same_model(model, labeller):
                values[name] = value
    for earlier in row.extra.get("earlier_labels", ()):
        signature = Signature.parse(str(earlier.get("labels_by")))
        if is_same_model(signature.base or signature.judge, labeller):
            values |= earlier["labels"]
    labels = {}
    for name, value in values.items():
        values_by_answer = value if isinstance(value, Sequence) else [value]
        numbers = [float(number) for number in values_by_answer if number is not None]
        if numbers:
            labels[name] = sum(numbers) / len(numbers)
    return labels


def data_hash(rows: Iterable[LabelledDialogue]) -> str:
    """Returns 12 hex digits that identify the content of ``rows``. Their order has no effect."""
    return content_hash(sorted(content_hash(row.to_record()) for row in rows))
