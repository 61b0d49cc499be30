"""Writes the model card (README.md) of a saved judge from the files in the judge's folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader

from medal_judges.models.base.golden import read_golden
from medal_judges.models.base.hub import is_hub_id
from medal_judges.models.base.saving import read_config
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.model_files import HUB_IDS, PREFIX
from medal_judges.records.signature import Signature
from medal_judges.storage.files import atomic_write, read_json, read_json_if_there

if TYPE_CHECKING:
    from huggingface_hub import EvalResult

CARD_NAME = "README.md"
TRIAL_NAME = "trial.json"
METRICS = {"spearmanr": "Spearman's ρ", "roc_auc": "ROC AUC"}
_CHANCE = {"spearmanr": 0.0, "roc_auc": 0.5}
_LIBRARIES = {"encoder": "transformers", "lora": "peft"}
_LICENCES = {  # of the models that the embedded defaults are copies of
    "minilm": "apache-2.0",
    "smollm2": "apache-2.0",
    "e5": "mit",
}
_UNKNOWN = "not stated here: see the model's page"


def write_card(
    folder: Path, *, repo_id: str | None = None, revision: str | None = None
) -> None:
    """Writes the model card of the judge in ``folder`` to README.md in the same folder.

    Args:
        repo_id: The Hub repository in the card's code example. None shows how to load a local
            folder.
        revision: The branch, tag or commit of the repository in the code example. None leaves it
            out.

    Raises:
        JudgeLoadError: ``folder`` has no judge or no golden.json.
    """
    config, golden = read_config(folder), read_golden(folder)
    settings = read_json_if_there(folder / "train_config.json", {})
    agreement = read_json_if_there(folder / "agreement.json", [])
    data = read_json_if_there(folder / "data.json", [])
    languages: set[str] = set()
    for entry in data:
        if entry["part"] == "train":
            languages.update(entry["languages"])
    at_chance = []
    for row in agreement:
        if row["low"] is not None and row["low"] <= _CHANCE[row["metric"]]:
            at_chance.append(row)
    facts = {
        "judge": config,
        "name": config.get("name", folder.name),
        "signature": Signature.parse(golden["signature"]),
        "base": _base_model_facts(config, settings),
        "data": data,
        "languages": sorted(languages - {"unknown"}),
        "agreement": agreement,
        "at_chance": at_chance,
        "aligned": read_json_if_there(folder / "align.json", None),
        "golden": golden,
        "run": config.get("facts") or {},
        "trial": read_current_trial(folder),
        "settings": settings,
        "place": repo_id or folder.name,
        "repo_id": repo_id,
        "revision": revision,
        "metrics": METRICS,
    }
    environment = Environment(
        loader=PackageLoader("medal_judges.models.card"),
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    text = environment.get_template("card.md").render(hub=_hub_metadata(facts), **facts)
    atomic_write(folder / CARD_NAME, text)


def _base_model_facts(
    config: Mapping[str, Any], settings: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Returns the name and the licence of a judge's base model, or None if it has none.

    Args:
        config: The content of judge.json.
        settings: The content of train_config.json.

    Returns:
        A dict with ``name``, ``hub_id`` (None for a local folder) and ``licence``.
    """
    family = config["family"]
    if "base" not in config.get(family, {}):
        return None
    if family == "linear" and not LinearConfig(**config["linear"]).needs_base:
        return None
    base = str(config[family]["base"])
    if base.startswith(PREFIX):
        embedded = base.removeprefix(PREFIX)
        licence = _LICENCES.get(embedded, _UNKNOWN)
        return {"name": base, "hub_id": HUB_IDS.get(embedded), "licence": licence}
    if not is_hub_id(base):
        name = Path((settings.get("model") or {}).get("base") or base).name
        return {"name": name, "hub_id": None, "licence": "of no model on the Hub"}
    from huggingface_hub import ModelCard, try_to_load_from_cache

    cached = try_to_load_from_cache(base, "README.md")
    terms: Any = None
    if isinstance(cached, str):
        terms = ModelCard.load(cached).data.to_dict().get("license")
    return {"name": base, "hub_id": base, "licence": str(terms or _UNKNOWN)}


def _hub_metadata(facts: Mapping[str, Any]) -> str:
    """Returns the YAML metadata that the Hub reads at the top of the card.

    Args:
        facts: Name -> value that the card's template shows, such as ``base`` and ``agreement``.
    """
    from huggingface_hub import ModelCardData

    family = facts["judge"]["family"]
    base = facts["base"] or {}
    data = ModelCardData(
        language=list(facts["judge"].get("languages") or ()) or None,
        license="other",
        license_name="see-the-chain-in-the-card",
        license_link="README.md#licences",
        library_name=_LIBRARIES.get(family, "medal_judges"),
        pipeline_tag="text-classification",
        tags=["dialogue-evaluation", "llm-as-a-judge", f"medal-judges:{family}"],
        base_model=base.get("hub_id"),
        model_name=facts["name"],
        eval_results=_eval_results(facts["agreement"]) or None,
    )
    return str(data.to_yaml())


def _eval_results(agreement: Sequence[Mapping[str, Any]]) -> list[EvalResult]:
    """Returns a judge's agreement with human ratings in the form that the Hub shows.

    Args:
        agreement: The content of agreement.json, one dict for each data set, language, dimension
            and metric. Dicts whose ``value`` is None are skipped.
    """
    from huggingface_hub import EvalResult

    results = []
    for row in agreement:
        if row["value"] is None:
            continue
        arguments: dict[str, Any] = {"n": row["n"]}
        if row["low"] is not None:
            arguments["interval_95"] = [round(row["low"], 4), round(row["high"], 4)]
        result = EvalResult(
            task_type="text-classification",
            task_name="dialogue evaluation",
            dataset_type=row["source"],
            dataset_name=row["source"],
            dataset_split=row["part"],
            dataset_config=row["lang"],
            metric_type=row["metric"],
            # Without the dimension the Hub would merge the results of all.
            metric_name=f"{METRICS[row['metric']]}, {row['dimension']}",
            metric_value=round(row["value"], 4),
            metric_args=arguments,
        )
        results.append(result)
    return results


def read_current_trial(folder: Path) -> Mapping[str, Any] | None:
    """Returns the result of ``medal trial`` that is saved in a judge's ``folder``. The trial tests
    how scores react to edited dialogues.

    Returns:
        The content of trial.json with one more field, ``verdicts``. It has a pair for each check:
            how the score should react (``same``: not change) and the verdict, such as ``("same",
            "green")``. None if there is no trial, or the judge has changed since.

    Raises:
        JudgeLoadError: golden.json, which identifies the judge, is missing or damaged.
    """
    path = folder / TRIAL_NAME
    if not path.is_file():
        return None
    record = read_json(path)
    tried = Signature.parse(record["signature"])
    verdicts = [(one["group"], one["verdict"]) for one in record["findings"]]
    judge = Signature.parse(read_golden(folder)["signature"])
    if (tried.revision, tried.rubric) != (judge.revision, judge.rubric):
        return None
    return {**record, "verdicts": verdicts}
