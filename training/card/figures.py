"""The figures of a card: tables with intervals, and the same as metadata of the Hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medal_judges.training.card.facts import CardFacts

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

METRICS = {"spearmanr": "Spearman's ρ", "roc_auc": "ROC AUC"}
_SHOWN = ("spearman", "within_system", "f1_present", "f1_absent")  # of a benchmark's figures


def validation_section(facts: CardFacts) -> str:
    """A table of the agreement with the validation labels, per source, dimension, language."""
    records = [r for r in facts.agreement if r["part"] == "validation"]
    if records:
        return _agreement(
            "Agreement with the labels of the validation rows, which early stopping and "
            "calibration have seen",
            records,
        )
    if not facts.figures:
        return "None: the run had no validation rows."
    lines = [f"| {name} | {value:.4f} |" for name, value in facts.figures.items()]
    return "\n".join(["Without intervals.", "", "| figure | value |", "|---|---|", *lines])


def test_section(facts: CardFacts) -> str:
    """The same of the run's test sets, which nothing was learnt or chosen from."""
    records = [r for r in facts.agreement if r["part"] == "test"]
    if records:
        return _agreement("Agreement with the labels of rows that the run never read", records)
    listed = any(d.part == "test" and d.rows for d in facts.data)
    return (
        "None: no test row has a label of its dimensions, or the judge was not asked."
        if listed
        else "None: the run had no test rows."
    )


def _agreement(what: str, records: Sequence[Mapping[str, Any]]) -> str:
    plain = list(records[0]["baselines"])
    head = (
        f"{what}; 95% intervals leave out each chatbot (or conversation) in turn. Beside it what "
        f"needs no training: {' and '.join(plain)} of the answers, pointed the way of the training "
        "labels.\n\n"
        "| source | dimension | language | n | figure | value |"
        + "".join(f" {name} |" for name in plain)
        + "\n|---|---|---|---|---|---|"
        + "---|" * len(plain)
    )
    rows = (
        f"| {r['source']} | {r['dimension']} | {r['lang']} | {_count(r)} "
        f"| {METRICS[r['metric']]} | {_value(r)} |"
        + "".join(f" {_plain(r['baselines'][name])} |" for name in plain)
        for r in records
    )
    return "\n".join([head, *rows])


def _plain(value: float | None) -> str:
    return "–" if value is None else f"{value:.2f}"


def _count(record: Mapping[str, Any]) -> str:
    return f"{record['n']}" + (f" ({record['missed']} unscored)" if record["missed"] else "")


def _value(record: Mapping[str, Any]) -> str:
    """``0.42 [0.30, 0.55]``; where there is none, why."""
    if record.get("value") is None:
        return f"none: {record.get('reason') or 'undefined'}"
    text = f"{record['value']:.2f}"
    if record.get("low") is None:
        return f"{text} (no interval)"
    return f"{text} [{record['low']:.2f}, {record['high']:.2f}]"


def benchmark_section(facts: CardFacts) -> str:
    """A table of the benchmark's rows of this judge, the human ceiling beside each figure."""
    if not facts.benchmark:
        return (
            "None given. `medal benchmark --judge NAME=FOLDER`, then "
            "`medal push ... --results runs/x/results.json`."
        )
    head = (
        "On sets with human ratings; 95% intervals as above. The ceiling is one annotator "
        "against the others; like for like, the judge stands in the annotator's place, on the same "
        "rows.\n\n"
        "| set | dimension | rows | scored | figure | judge | like for like | ceiling |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    return "\n".join([head, *(line for row in facts.benchmark for line in _benchmark_lines(row))])


def _benchmark_lines(row: Mapping[str, Any]) -> Iterator[str]:
    """One line a figure, of the whole set and of each language."""
    name = f"{row['set_name']} ({row['level']})"
    parts = {k.removeprefix("lang:"): v for k, v in row["slices"].items() if k.startswith("lang:")}
    if row["scored"] < row["min_coverage"] * row["n"]:
        yield (
            f"| {name} | {row['dimension']} | {row['n']} | {row['scored']} "
            f"| none: too few rows scored |  |  |  |"
        )
        return
    for metric in _SHOWN:
        if metric in row["metrics"]:
            beside = (row[side].get(metric) for side in ("like_for_like", "ceiling"))
            shown = " | ".join(_value(found) if found else "–" for found in beside)
            yield (
                f"| {name} | {row['dimension']} | {row['n']} | {row['scored']} | {metric} "
                f"| {_value(row['metrics'][metric])} | {shown} |"
            )
    for lang, metrics in parts.items() if len(parts) > 1 else ():
        size = row["slice_sizes"].get(f"lang:{lang}", "")
        for metric in _SHOWN:
            if metric in metrics:
                yield (
                    f"| {name}, {lang} | {row['dimension']} | {size} |  | {metric} "
                    f"| {_value(metrics[metric])} |  |  |"
                )


def eval_results(facts: CardFacts) -> list[EvalResult]:
    """The figures that are defined, as model-index entries. The Hub gathers the metrics of one set
    and language in one entry, so that the dimension has to stand in the metric's name."""
    from huggingface_hub import EvalResult

    found = [
        EvalResult(
            task_type="text-classification",
            task_name="dialogue evaluation",
            dataset_type=r["source"],
            dataset_name=r["source"],
            dataset_config=r["lang"],
            dataset_split=r["part"],
            metric_type=r["metric"],
            metric_name=f"{METRICS[r['metric']]}, {r['dimension']}",
            metric_value=round(r["value"], 4),
            metric_args=_args(r),
        )
        for r in facts.agreement
        if r["value"] is not None
    ]
    return [*found, *_benchmark_results(facts)]


def _args(record: Mapping[str, Any]) -> dict[str, Any]:
    if record.get("low") is None:
        return {"n": record.get("n")}
    interval = [round(record["low"], 4), round(record["high"], 4)]
    return {"interval_95": interval} | ({"n": record["n"]} if "n" in record else {})


def _benchmark_results(facts: CardFacts) -> Iterator[EvalResult]:
    from huggingface_hub import EvalResult

    names = {"spearman": "spearmanr", "f1_present": "f1"}
    for row in facts.benchmark:
        for metric, kind in names.items():
            found = row["metrics"].get(metric)
            if found and found["value"] is not None:
                yield EvalResult(
                    task_type="text-classification",
                    task_name="dialogue evaluation",
                    dataset_type=row["set_name"],
                    dataset_name=row["set_name"],
                    dataset_split="test",
                    metric_type=kind,
                    metric_name=f"{metric}, {row['dimension']} ({row['level']})",
                    metric_value=round(found["value"], 4),
                    metric_args=_args({**found, "n": row["scored"]}),
                )
