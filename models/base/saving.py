"""Judges as folders: save, load from folder, hub or YAML, push."""

from __future__ import annotations

import inspect
import json
import shutil
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.judged_languages import stated
from medal_judges.models.base.placement import placed
from medal_judges.models.base.remote_code import require_data_only
from medal_judges.shipped import judge_file

# family -> "module:class". Each class has `load(folder, **options)` or `from_settings(settings)`.
FAMILIES = {
    "embedding": "medal_judges.models.embedding.judge:EmbeddingJudge",
    "encoder": "medal_judges.models.encoder.judge:EncoderJudge",
    "feature": "medal_judges.models.feature.judge:FeatureJudge",
    "followup": "medal_judges.models.followup.judge:FollowUpJudge",
    "geval": "medal_judges.models.prompted.geval:GEvalJudge",
    "gptscore": "medal_judges.models.prompted.gptscore:GPTScoreJudge",
    "hybrid": "medal_judges.models.hybrid.judge:HybridJudge",
    "lora": "medal_judges.models.lora.judge:LoraJudge",
    "prompted": "medal_judges.models.prompted.judge:PromptedJudge",
    "unieval": "medal_judges.models.trained_metrics.unieval:UniEvalJudge",
    "endex": "medal_judges.models.trained_metrics.endex:EnDexJudge",
}
CONFIG_NAME = "config.json"
# Raised when an older package would read a saved judge wrongly. Judges without a number are of 1.
FORMAT = 1
_OLDEST = 1


def load_judge(source: str | Path, *, revision: str | None = None, **options: Any) -> Judge:
    """See Judge.from_pretrained."""
    text = str(source)
    described = judge_file(text)
    if described is not None:
        return _load_yaml(described, options)
    if Path(source).is_dir():
        return _load_folder(Path(source), options)
    from medal_judges.models.base.hub import pull

    return _load_folder(pull(text, revision), options)


def save_judge(judge: Judge, path: Path) -> Path:
    """See Judge.save_pretrained. The folder appears whole or not at all."""
    partial = path.with_name(f".partial-{path.name}")
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(parents=True)
    judge._save(partial)
    if not path.exists():
        partial.replace(path)
        return path
    for written in partial.iterdir():  # keep what else stands there (checkpoints, logs)
        target = path / written.name
        if target.is_dir():
            shutil.rmtree(target)
        written.replace(target)
    partial.rmdir()
    return path


def push_judge(judge: Judge, repo_id: str, **options: Any) -> str:
    """See Judge.push_to_hub. ``options`` go to models/base/hub.py's ``push_folder``."""
    import tempfile

    from medal_judges.models.base.golden import write_golden
    from medal_judges.models.base.hub import push_folder

    with tempfile.TemporaryDirectory() as place:
        folder = judge.save_pretrained(Path(place) / "judge")
        write_golden(judge, folder)
        return push_folder(folder, repo_id, **options)


def write_config(folder: Path, judge: Judge, settings: dict[str, Any]) -> None:
    """Write config.json: family, package version, dimensions and the family's settings."""
    from medal_judges import __version__

    head: dict[str, Any] = {
        "family": judge.family,
        "format": FORMAT,
        "medal_judges_version": __version__,
        "dimensions": [d.to_record() for d in judge.dimensions],
        "languages": None if judge.languages is None else list(judge.languages),
    }
    text = json.dumps(head | settings, indent=2, ensure_ascii=False)
    (folder / CONFIG_NAME).write_text(text + "\n", encoding="utf-8")


def read_config(folder: Path) -> dict[str, Any]:
    """config.json of a judge folder. Raises JudgeLoadError when it is not a judge's."""
    path = folder / CONFIG_NAME
    if not path.is_file():
        raise JudgeLoadError(f"{folder}: not a judge, it has no {CONFIG_NAME}")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:  # not JSON, or not even UTF-8
        raise JudgeLoadError(f"{path}: not valid JSON: {error}") from error
    if not isinstance(config, dict) or "family" not in config:
        raise JudgeLoadError(
            f"{path}: not a judge of this project, it names no 'family'",
            hint="a plain model becomes a judge by training: medal train --config ...",
        )
    _check_format(folder, config)
    return config


def _check_format(folder: Path, config: Mapping[str, Any]) -> None:
    from medal_judges import __version__

    found = config.get("format", 1)
    if isinstance(found, int) and _OLDEST <= found <= FORMAT:
        return
    written = config.get("medal_judges_version", "?")
    newer = not isinstance(found, int) or found > FORMAT
    wanted = f">={written}" if newer else f"=={written}"
    raise JudgeLoadError(
        f"{folder}: saved by medal-judges {written} in format {found}; this is {__version__}, "
        f"which reads formats {_OLDEST} to {FORMAT}",
        hint=f"pip install --upgrade 'medal-judges{wanted}'",
    )


def _family(name: object, where: str, written: str | None = None) -> Any:
    """The class of a family; ``written`` is the version of the package that saved the judge."""
    from medal_judges import __version__

    if not isinstance(name, str) or name not in FAMILIES:
        by = f" (saved by medal-judges {written}; this is {__version__})" if written else ""
        other = written and written != __version__
        hint = f"pip install --upgrade 'medal-judges=={written}'; " if other else ""
        raise JudgeLoadError(
            f"{where}: unknown family {name!r}{by}",
            hint=f"{hint}known here: {', '.join(sorted(FAMILIES))}",
        )
    module, _, cls = FAMILIES[name].partition(":")
    return getattr(import_module(module), cls)


def _load_folder(folder: Path, options: dict[str, Any]) -> Judge:
    config = read_config(folder)
    family = _family(config["family"], str(folder), config.get("medal_judges_version"))
    require_data_only(folder)
    _require_options(family, folder, options)
    try:
        judge: Judge = family.load(folder, **options)
        judge.languages = stated(config.get("languages"), str(folder)) or judge.languages
    except (KeyError, ValueError, OSError) as error:
        raise JudgeLoadError(
            f"{folder}: its files are not whole, or not of this version: {_told(error)}",
            hint=_versions(config),
        ) from error
    return judge


def _require_options(family: Any, folder: Path, options: Mapping[str, Any]) -> None:
    """Raise JudgeLoadError for an option that a saved judge of this family does not have."""
    taken = inspect.signature(family.load).parameters
    if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values()):
        return
    known = [name for name in taken if name != "folder"]
    if unknown := [name for name in options if name not in known]:
        raise JudgeLoadError(
            f"{folder}: a saved judge of family {family.family!r} has no setting {unknown[0]!r}",
            hint=f"it has: {', '.join(known)}" if known else None,
        )


def _told(error: Exception) -> str:
    return f"no {error} in {CONFIG_NAME}" if isinstance(error, KeyError) else str(error)


def _versions(config: Mapping[str, Any]) -> str:
    from medal_judges import __version__

    written = config.get("medal_judges_version", "an unknown version")
    return f"saved by medal-judges {written}; this is {__version__}"


def _load_yaml(name: str, options: dict[str, Any]) -> Judge:
    from medal_judges.config import read_yaml

    try:
        settings = read_yaml(name)
    except ConfigError as error:
        raise JudgeLoadError(error.message, hint=error.hint) from error
    try:
        given = placed(settings, options, name)
    except ConfigError as error:
        raise JudgeLoadError(error.message, hint=error.hint) from error
    return judge_of_settings(settings | given, name)


def judge_of_settings(settings: Mapping[str, Any], name: str) -> Judge:
    """The judge that a YAML file's ``settings`` describe; ``name`` opens the error message.

    Raises JudgeLoadError for a family that is trained, and for settings that are missing or wrong.
    """
    rest = dict(settings)
    family = _family(rest.pop("family", None), name)
    languages = rest.pop("languages", None)
    if not hasattr(family, "from_settings"):
        raise JudgeLoadError(
            f"{name}: a judge of family {family.family!r} is trained, not described in YAML",
            hint="give the folder that medal train wrote",
        )
    try:
        judge: Judge = family.from_settings(rest)
        judge.languages = stated(languages, name) or judge.languages
    except KeyError as error:
        raise JudgeLoadError(f"{name}: the setting {error} is missing") from error
    except ValueError as error:
        raise JudgeLoadError(f"{name}: {error}") from error
    return judge
