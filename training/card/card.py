"""README.md of a saved judge: what its folder says about it, and how it goes to the Hub."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from medal_judges.data_prep.sources.registry import SOURCES, parse_spec, source_of
from medal_judges.errors import ConfigError, DataError, JudgeLoadError, SourceError
from medal_judges.models.base.golden import read_golden
from medal_judges.models.base.hub import is_hub_id
from medal_judges.models.base.saving import read_config
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.model_files import HUB_IDS, PREFIX
from medal_judges.records.dimension import Dimension
from medal_judges.records.signature import Signature
from medal_judges.stats.estimate import Estimate
from medal_judges.storage.files import atomic_write, read_json, read_json_if_there
from medal_judges.training.agreement import METRICS, read_agreement
from medal_judges.training.card.plain import LIBRARIES, plain_use

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

CARD_NAME = "README.md"
TRIAL_NAME = "trial.json"
# Of a benchmark's figures.
_SHOWN = ("spearman", "within_system", "f1_present", "f1_absent")
_ON_THE_HUB = {"spearman": "spearmanr", "f1_present": "f1"}
_CHANCE = {"roc_auc": 0.5, "spearmanr": 0.0}
_LICENCES = {  # of the models that the embedded defaults are copies of
    "minilm": "apache-2.0",
    "smollm2": "apache-2.0",
    "e5": "mit",
}
_UNKNOWN = "not stated here: see the model's page"


def write_card(
    folder: Path,
    *,
    repo_id: str | None = None,
    revision: str | None = None,
    results: Path | None = None,
) -> None:
    """Write the card of the judge in ``folder``. Its code example loads ``repo_id`` at ``revision``
    if they are given, else the folder's name.

    Raises JudgeLoadError and ConfigError as ``read_metadata`` does.
    """
    judge = read_metadata(folder, results)
    environment = Environment(
        loader=PackageLoader("medal_judges.training.card"),
        trim_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )
    environment.filters["figure"] = _figure
    text = environment.get_template("card.md").render(
        judge=judge,
        hub=_hub_metadata(judge),
        folder=folder.name,
        repo_id=repo_id,
        revision=revision,
        metrics=METRICS,
    )
    atomic_write(folder / CARD_NAME, text)


def read_metadata(folder: Path, results: Path | None = None) -> dict[str, Any]:
    """What the card says of the judge in ``folder``, with its own figures of a benchmark's
    results.json.

    Raises JudgeLoadError if there is no judge or no golden.json, ConfigError if the results
    have no row of this judge at this revision.
    """
    config, golden = read_config(folder), read_golden(folder)
    settings = read_json_if_there(folder / "train_config.json", {})
    signature = Signature.parse(golden["signature"])
    base = None
    if signature.base and _has_model(config):
        # A run writes the name of a base's folder there, not its path.
        model = settings.get("model") or {}
        base = _base_model(model.get("base") or signature.base)
    data = [
        _data_source(record) for record in read_json_if_there(folder / "data.json", [])
    ]
    languages: set[str] = set()
    for entry in data:
        if entry["part"] == "train":
            languages.update(entry["languages"])
    agreement = read_agreement(folder)
    at_chance = []
    for row in agreement:
        if row.low is not None and row.low <= _CHANCE[row.metric]:
            at_chance.append(row)
    benchmark = []
    if results is not None:
        benchmark = _benchmark_figures(results, signature)
    return {
        "name": config.get("name", folder.name),
        "family": config["family"],
        "plain": plain_use(folder, config),
        "dimensions": [Dimension(**record) for record in config["dimensions"]],
        "signature": signature,
        "base": base,
        "data": data,
        "languages": sorted(languages - {"unknown"}),
        "supported": config.get("languages") or (),
        "figures": read_json_if_there(folder / "validation.json", {}),
        "agreement": agreement,
        "at_chance": at_chance,
        "calibration": config.get("calibration") or {},
        "golden": golden,
        "run": config.get("facts") or {},
        "benchmark": benchmark,
        "trial": trial_of(folder),
        "aligned": _aligned(folder),
        "split": settings.get("split"),
        "notes": settings.get("card_notes", ()),
    }


def _aligned(folder: Path) -> Any:
    """Returns the record of ``medal align``; None without. Raises JudgeLoadError if it is another
    file of that name."""
    record = read_json_if_there(folder / "align.json", None)
    if record is None or (isinstance(record, dict) and "dimensions" in record):
        return record
    raise JudgeLoadError(
        f"align.json of {folder.name} is not of medal align",
        hint="remove it, or align again",
    )


def _has_model(config: Mapping[str, Any]) -> bool:
    """Returns whether a judge has a base model; else the base in its signature is features or
    members."""
    if config["family"] == "linear":
        return LinearConfig(**config["linear"]).reads_base
    return bool(config["family"] != "hybrid")


def _is_same_judge(a: Signature, b: Signature) -> bool:
    return (a.revision, a.base, a.rubric) == (b.revision, b.base, b.rubric)


def _base_model(base: str) -> dict[str, Any]:
    """``name``, ``hub_id`` (None for a folder) and ``licence`` of a base model.

    The licence of a model of the Hub comes from its card in the cache; it is never guessed.
    """
    name = Path(base).name
    if base.startswith(PREFIX):
        embedded = base.removeprefix(PREFIX)
        terms = _LICENCES.get(embedded, _UNKNOWN)
        return {"name": base, "hub_id": HUB_IDS.get(embedded), "licence": terms}
    if not is_hub_id(base):
        return {"name": name, "hub_id": None, "licence": "of no model on the Hub"}
    from huggingface_hub import ModelCard, try_to_load_from_cache

    cached = try_to_load_from_cache(base, "README.md")
    licence = None
    if isinstance(cached, str):  # else not cached, or known not to exist
        licence = ModelCard.load(cached).data.to_dict().get("license")
    return {"name": base, "hub_id": base, "licence": str(licence or _UNKNOWN)}


def _data_source(record: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a line of data.json with the registry's facts on its source. ``known``: the source is
    one of data_prep, not a file. ``labelled_by``: the model that labelled it, empty for people and
    for injected rows. ``licensed``: the source without the part of its data."""
    name = str(record["source"])
    source = None
    with suppress(SourceError):
        spec = parse_spec(name)
        if not spec.is_file:
            source = SOURCES[spec.name]
    facts: dict[str, Any] = {
        "part": record["part"],
        "rows": record["rows"],
        "revision": record["hash"],
        "annotators": record.get("annotators", 0),
        "injected": bool(record.get("injected")),
        "known": source is not None,
    }
    labeller = ", ".join(map(_labeller, record.get("labels_by", ())))
    if source is None:
        facts["source"] = Path(name).name  # the name of a file, not its folder
        facts["languages"] = record.get("languages", ())
        facts["licence"] = "a file of the maker's own: not stated"
        facts["citation"] = ""
    else:
        facts["source"] = name
        facts["languages"] = record.get("languages") or source.languages
        facts["licence"], facts["citation"] = source.licence, source.citation
        labeller = labeller or source.labelled_by or ""
    facts["licensed"] = source_of(facts["source"])
    facts["labelled_by"] = None if facts["injected"] else labeller or None
    return facts


def _labeller(text: str) -> str:
    """Returns who labelled rows in words: ``text`` is a signature, or the labeller's name alone."""
    signature = Signature.parse(text)
    model = signature.base or signature.judge
    if not signature.revision:
        return model
    return f"judge {signature.judge} at revision {signature.revision}, {model}"


def _benchmark_figures(results: Path, signature: Signature) -> list[dict[str, Any]]:
    """Returns this judge's figures in results.json. A set has the like-for-like figure and the
    human ceiling beside it; a set with several languages also has a figure for each."""
    if not results.is_file():
        raise ConfigError(
            f"no results of a benchmark at {results}", hint="medal benchmark ..."
        )
    rows = read_json(results)["rows"]
    figures = []
    has_row = False
    for row in rows:
        if _is_same_judge(Signature.parse(row["signature"]), signature):
            has_row = True
            figures += _row_figures(row)
    if not has_row:
        judges = ", ".join(sorted({row["judge"] for row in rows}))
        raise ConfigError(
            f"{results}: no row is of this judge at revision {signature.revision}; it has {judges}",
            hint="run medal benchmark with --judge NAME=FOLDER of this folder first",
        )
    return figures


def _row_figures(row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the figures of one row of results.json: of the set, then of its languages."""
    facts = {name: row[name] for name in ("set_name", "level", "dimension", "scored")}
    # A set may have another name for it: the card is about what the judge says.
    facts["judge_dimension"] = row["judge_dimension"] or row["dimension"]
    facts |= {"lang": None, "rows": row["n"]}
    facts |= {"estimate": None, "like_for_like": None, "ceiling": None}
    if row["scored"] < row["min_coverage"] * row["n"]:
        return [facts | {"metric": "none: too few rows scored"}]
    sections = [(facts, row["metrics"])]
    languages = [name for name in row["slices"] if name.startswith("lang:")]
    if len(languages) > 1:
        for name in languages:
            size = {"lang": name.removeprefix("lang:"), "scored": ""}
            size["rows"] = row["slice_sizes"].get(name, "")
            sections.append((facts | size, row["slices"][name]))
    figures = []
    for section, estimates in sections:
        for metric in _SHOWN:
            if metric not in estimates:
                continue
            estimate = Estimate(**estimates[metric])
            figure = section | {"metric": metric, "estimate": estimate}
            # Only the row of the whole set shows them.
            for name in ("like_for_like", "ceiling"):
                if metric in row[name]:
                    figure[name] = Estimate(**row[name][metric])
            figures.append(figure)
    return figures


def _hub_metadata(judge: Mapping[str, Any]) -> str:
    """Returns the YAML head of the card, with the figures that are defined. The Hub has one entry
    for all metrics of a set and language, so that the dimension has to be in the metric's name."""
    from huggingface_hub import ModelCardData

    results = []
    for row in judge["agreement"]:
        results += _hub_result(
            row.estimate,
            row.n,
            dataset_name=row.source,
            dataset_split=row.part,
            dataset_config=row.lang,
            metric_type=row.metric,
            metric_name=f"{METRICS[row.metric]}, {row.dimension}",
        )
    for figure in judge["benchmark"]:
        metric = figure["metric"]
        if metric in _ON_THE_HUB and figure["lang"] is None:
            results += _hub_result(
                figure["estimate"],
                figure["scored"],
                dataset_name=figure["set_name"],
                dataset_split="test",
                metric_type=_ON_THE_HUB[metric],
                metric_name=f"{metric}, {figure['judge_dimension']} ({figure['level']})",
            )
    usage, base = judge["plain"], judge["base"] or {}
    task = "text-classification"
    if usage is not None and usage.kind == "generative":
        task = "text-generation"
    data = ModelCardData(
        language=list(judge["supported"]) or None,
        license="other",
        license_name="see-the-chain-in-the-card",
        license_link="README.md#licences",
        library_name=LIBRARIES.get(judge["family"], "medal_judges"),
        pipeline_tag=task,
        tags=[
            "dialogue-evaluation",
            "llm-as-a-judge",
            f"medal-judges:{judge['family']}",
        ],
        base_model=base.get("hub_id"),
        model_name=judge["name"],
        eval_results=results or None,
    )
    return str(data.to_yaml())


def _hub_result(estimate: Estimate, rows: int, **facts: Any) -> list[EvalResult]:
    """Returns the Hub's form of one estimate; nothing for one that is undefined. ``facts`` are
    further fields of EvalResult."""
    from huggingface_hub import EvalResult

    if estimate.value is None:
        return []
    arguments: dict[str, Any] = {}
    if estimate.low is not None and estimate.high is not None:
        arguments["interval_95"] = [round(estimate.low, 4), round(estimate.high, 4)]
    arguments["n"] = rows
    result = EvalResult(
        task_type="text-classification",
        task_name="dialogue evaluation",
        dataset_type=facts["dataset_name"],
        metric_value=round(estimate.value, 4),
        metric_args=arguments,
        **facts,
    )
    return [result]


def _figure(estimate: Estimate | None) -> str:
    """``0.42 [0.30, 0.55]``, or the reason why it is undefined."""
    if estimate is None:
        return ""
    if estimate.value is None:
        return f"none: {estimate.reason or 'undefined'}"
    if estimate.low is None:
        return f"{estimate.value:.2f} (no interval)"
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"


# -- the judge's trial ----------------------------------------------------------------------------


def trial_of(folder: Path) -> Mapping[str, Any] | None:
    """The record of ``medal trial`` on the judge in ``folder`` (eval/trial/findings.py).

    None without trial.json, or if it is of another judge or revision. Raises DataError for a file
    that is not a trial.
    """
    path = folder / TRIAL_NAME
    if not path.is_file():
        return None
    try:
        record = read_json(path)
        tried = Signature.parse(record["signature"])
        verdicts = [
            (finding["group"], finding["verdict"]) for finding in record["findings"]
        ]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise DataError(
            path,
            None,
            f"not the trial of a judge: {error}",
            hint="medal trial JUDGE writes one",
        ) from error
    if not _is_same_judge(tried, Signature.parse(read_golden(folder)["signature"])):
        return None
    return {**record, "verdicts": verdicts}


def require_trial(folder: Path) -> None:
    """Raises ConfigError if ``folder`` has no trial of the judge that is in it."""
    if trial_of(folder) is not None:
        return
    problem = "has no trial.json"
    if (folder / TRIAL_NAME).is_file():
        problem = "has the trial of another judge or revision"
    raise ConfigError(
        f"{folder} {problem}: users of the judge could not see its weaknesses",
        hint=f"medal trial {quote(str(folder))} --out trial --save; or medal push ... --no-trial",
    )
