"""Saves judges as folders, and loads them from a folder, the Hub or a YAML file.

Nothing is unpickled and no code in a folder is run, because a folder can come from anybody."""

from __future__ import annotations

import fnmatch
import inspect
import json
import os
import re
import shutil
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from importlib.metadata import entry_points
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medal_judges.config import judge_yaml, packaged_judge_folder, read_yaml
from medal_judges.errors import ConfigError, JudgeLoadError, MedalError
from medal_judges.models.base.hub import PARTS, TOP_FILES, download_judge
from medal_judges.models.base.safe_folder import require_safe_folder
from medal_judges.models.llm.settings import TransformersLLM, VllmLLM, llm_config
from medal_judges.models.model_files import MODEL_FILES, files_hash
from medal_judges.storage.files import atomic_path, read_json_if_there

if TYPE_CHECKING:
    from torch import Tensor, nn


# family -> "module:class". Each class has `load(folder, **options)` or `from_settings(settings)`.
FAMILIES = {
    "linear": "medal_judges.models.linear.judge:LinearJudge",
    "encoder": "medal_judges.models.encoder.judge:EncoderJudge",
    "followup": "medal_judges.models.followup.judge:FollowUpJudge",
    "geval": "medal_judges.models.prompted.geval:GEvalJudge",
    "gptscore": "medal_judges.models.prompted.geval:GPTScoreJudge",
    "hybrid": "medal_judges.models.hybrid.judge:HybridJudge",
    "lora": "medal_judges.models.lora.judge:LoraJudge",
    "prompted": "medal_judges.models.prompted.judge:PromptedJudge",
    "unieval": "medal_judges.models.trained_metrics.turn_metric:UniEvalJudge",
    "endex": "medal_judges.models.trained_metrics.turn_metric:EnDexJudge",
}
GROUP = "medal_judges.families"
CONFIG_NAME = "judge.json"  # config.json belongs to transformers
WEIGHTS_NAME = "model.safetensors"
GOLDEN_NAME = "golden.json"
# Files in a judge's folder, beside the subfolders PARTS, on which its scores depend.
_TOP = (CONFIG_NAME, *TOP_FILES, "prompt.yaml", "rubric.yaml")
# Fields of judge.json on which no score depends.
_NO_NUMBERS = ("name", "facts", "languages", "medal_judges_version")
FORMAT = 4  # raise it if an older package would load a saved judge wrongly
_SHOWN = 6  # names in a message; a body has hundreds


# -- saving ------------------------------------------------------------------------------------


def save_judge(judge: Any, path: Path) -> Path:
    """Saves ``judge`` in the folder ``path``, sets ``judge.revision`` to the hash of its files, and
    returns the folder.

    An existing folder is replaced atomically. Files in it that do not belong to a judge are kept.

    Raises:
        ConfigError: Judges of this kind cannot be saved.
    """

    def ignored_names(folder: str, names: list[str]) -> list[str]:
        if Path(folder) != path:
            return []
        ignored = {GOLDEN_NAME, *PARTS, *os.listdir(partial)}
        for pattern in _TOP:
            ignored.update(fnmatch.filter(names, pattern))
        return list(ignored)

    with atomic_path(path.resolve()) as partial:  # a link stays a link
        # Left by a killed process with this number.
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        judge._save(partial)
        judge.revision = hash_judge_files(partial)
        if path.is_dir():
            shutil.copytree(
                path,
                partial,
                ignore=ignored_names,
                copy_function=_link_or_copy,
                dirs_exist_ok=True,
            )
    return path


def _link_or_copy(source: str, target: str) -> None:
    """Makes ``target`` a hard link to ``source``, or a copy where there are no hard links."""
    try:
        os.link(source, target)
    except OSError:  # a file system without hard links
        shutil.copy2(source, target)


def write_config(folder: Path, judge: Any, settings: Mapping[str, object]) -> None:
    """Writes judge.json into ``folder``: the fields that all judges have, such as ``dimensions``,
    and the fields in ``settings``.

    Args:
        settings: Further fields of judge.json, such as ``{"name": "my-judge", "facts": {"seed":
            0}}``.
    """
    from medal_judges import __version__

    head: dict[str, object] = {
        "family": judge.family,
        "format": FORMAT,
        "medal_judges_version": __version__,
        "dimensions": [d.to_record() for d in judge.dimensions],
        "languages": None if judge.languages is None else list(judge.languages),
    }
    text = json.dumps({**head, **settings}, indent=2, ensure_ascii=False)
    (folder / CONFIG_NAME).write_text(text + "\n", encoding="utf-8")


def hash_judge_files(folder: Path) -> str:
    """Returns a hash of the files in ``folder`` on which scores depend: weights, tokenizer
    and settings.

    The members of a hybrid (the judges that it combines) are left out.
    """
    parts = [part for part in PARTS if part != "members"]
    in_parts = [f"{part}/**/{kind}" for part, kind in product(parts, MODEL_FILES)]
    return files_hash(folder, [*_TOP, *in_parts], leave_out=_NO_NUMBERS)


# -- loading -----------------------------------------------------------------------------------


def load_judge(
    source: str | Path, *, revision: str | None = None, **options: Any
) -> Any:
    """Loads a judge from a folder, a YAML file or the Hub.

    Args:
        source: The name of a shipped judge such as ``boxed``, a folder, a YAML file, or a Hub id.
        revision: A branch, tag or commit of the Hub id. None is main.
        options: ``device``, ``dtype``, or other settings, which override the settings in the folder
            or YAML file.

    Raises:
        JudgeLoadError: The judge is not found, cannot be downloaded, or has damaged files.
        JudgeLoadError, ConfigError: A setting is unknown or wrong, or something that the judge
            needs is not available, such as the device.
    """
    described = judge_yaml(source)
    if described is None or revision is not None:
        return _load_saved_judge(find_or_download_judge(source, revision), options)
    try:
        settings = read_yaml(described)
        settings |= place_device_and_dtype(settings, options, described)
    except ConfigError as error:
        raise JudgeLoadError(error.message, hint=error.hint) from error
    return judge_from_settings(settings, described)


def find_or_download_judge(source: str | Path, revision: str | None = None) -> Path:
    """Returns the folder of a saved judge. A judge on the Hub is downloaded first.

    Args:
        source: The name of a shipped judge such as ``boxed``, a folder, or a Hub id.
        revision: A branch, tag or commit of the Hub id. None is main.

    Raises:
        HubError: There is no such judge, or the download fails.
    """
    folder = packaged_judge_folder(source) or Path(source)
    if revision is None and folder.is_dir():
        return folder
    return download_judge(str(source), revision)


def read_training_chat_hashes(judge: str, revision: str | None = None) -> set[str]:
    """Returns the hashes of the chats on which a saved judge was trained. A judge on the Hub is
    downloaded first.

    Args:
        judge: The name of a shipped judge such as ``boxed``, a folder, a Hub id, or a YAML file.
            For a YAML file the result is empty, because it describes a judge that is not trained.
        revision: A branch, tag or commit of the Hub id. None is main.

    Raises:
        HubError: There is no such judge, or the download fails.
    """
    chats: set[str] = set()
    if judge_yaml(judge) is None:
        folder = find_or_download_judge(judge, revision)
        for entry in read_json_if_there(folder / "data.json", []):
            chats.update(entry.get("chats", "").split())
    return chats


def read_config(folder: Path) -> dict[str, Any]:
    """Returns the content of judge.json in ``folder``.

    Raises:
        JudgeLoadError: The file is missing, damaged, or in the format of another version of this
            package.
    """
    path = folder / CONFIG_NAME
    if not path.is_file():
        raise JudgeLoadError(
            f"{folder}: not a judge, it has no {CONFIG_NAME}",
            hint="Train the model to be a judge. Type: medal train --config ...",
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    # Not JSON, nested too deep, or not even UTF-8.
    except (ValueError, RecursionError) as error:
        raise JudgeLoadError(
            f"{path}: not valid JSON. Copy the whole folder again: {error}"
        ) from error
    if not isinstance(config, dict) or "family" not in config:
        raise JudgeLoadError(
            f"{path}: not a judge of this project, it names no 'family'",
            hint="Train the model to be a judge. Type: medal train --config ...",
        )
    if config.get("format") != FORMAT:
        raise JudgeLoadError(
            f"{folder}: saved by another version of medal-judges, in format "
            f"{config.get('format')!s:.40}; this one reads format {FORMAT}",
            hint="Train it again",
        )
    return config


def _import_family_class(name: object, where: str) -> Any:
    """Imports and returns the class of the judges of the family ``name``, a kind of judge such as
    ``encoder``.

    Args:
        where: The start of the error message, such as the judge's folder.

    Raises:
        JudgeLoadError: The family is unknown or cannot be imported.
    """
    families = {
        point.name: point.value for point in entry_points(group=GROUP)
    } | FAMILIES
    if not isinstance(name, str) or name not in families:
        raise JudgeLoadError(
            f"{where}: unknown family {name!r}",
            hint=f"Use one of: {', '.join(sorted(families))}",
        )
    module, _, cls = families[name].partition(":")
    try:
        return getattr(import_module(module), cls)
    except (ImportError, AttributeError) as error:
        raise JudgeLoadError(
            f"{where}: family {name!r} ({families[name]}): {error}"
        ) from error


def _load_saved_judge(folder: Path, options: Mapping[str, object]) -> Any:
    if (folder / CONFIG_NAME).is_file():
        require_safe_folder(folder)
    config = read_config(folder)
    family = _import_family_class(config["family"], str(folder))
    if not hasattr(family, "load"):
        raise JudgeLoadError(
            f"{folder}: judges of family {family.family!r} are not saved. Give their YAML file"
        )
    names = list(inspect.signature(family.load).parameters)[1:]
    unknown = [option for option in options if option not in names]
    if unknown and "options" not in names:
        raise JudgeLoadError(
            f"{folder}: a saved judge of family {family.family!r} has no setting "
            f"{unknown[0]!r}",
            hint=f"Use one of: {', '.join(names)}",
        )
    try:
        judge = family.load(folder, **options)
        judge.languages = (
            _checked_languages(config.get("languages"), str(folder)) or judge.languages
        )
        judge.revision = hash_judge_files(folder)
    except (MedalError, KeyboardInterrupt, SystemExit):
        raise
    except (
        BaseException
    ) as error:  # whatever a library raises for damaged files, Rust's panic too
        message = str(error) or type(error).__name__
        if isinstance(error, KeyError):
            message = f"no {error} in {CONFIG_NAME}"
        why = message.splitlines()[0][:500]
        raise JudgeLoadError(
            f"{folder}: its files are damaged or of another version: {why}",
            hint=f"Install the version that saved it: {config.get('medal_judges_version', '?')}",
        ) from error
    return judge


def judge_from_settings(settings: Mapping[str, object], name: str) -> Any:
    """Returns the judge that a YAML file describes.

    Args:
        settings: The content of the YAML file.
        name: The file's path, with which error messages start.

    Raises:
        JudgeLoadError: The family (the kind of judge) is unknown, or its judges are made by
            training only.
        JudgeLoadError, ConfigError: A setting is missing, unknown or wrong.
    """
    settings = dict(settings)
    family = _import_family_class(settings.pop("family", None), name)
    languages = settings.pop("languages", None)
    if not hasattr(family, "from_settings"):
        raise JudgeLoadError(
            f"{name}: a judge of family {family.family!r} is trained, not described in YAML",
            hint="Give the folder that medal train wrote",
        )
    try:
        judge = family.from_settings(settings)
        judge.languages = _checked_languages(languages, name) or judge.languages
    except KeyError as error:
        raise JudgeLoadError(f"{name}: the setting {error} is missing") from error
    except ValueError as error:
        raise JudgeLoadError(f"{name}: {error}") from error
    return judge


def _checked_languages(languages: Any, where: str) -> tuple[str, ...] | None:
    """Returns the ``languages`` of a judge's config as a tuple, or None for None.

    Args:
        where: The start of the error message.

    Raises:
        ConfigError: They are not a list of ISO 639-1 codes.
    """
    if languages is None:
        return None
    is_list = isinstance(languages, list) and bool(languages)
    if not is_list or not all(re.fullmatch("[a-z]{2,3}", str(x)) for x in languages):
        raise ConfigError(
            f"{where}: languages must be a list of ISO 639-1 codes, not {languages!r:.60}",
            hint='Write languages: [en, "no"], or leave it out for all languages',
        )
    return tuple(languages)


def require_enough_weights(build: Callable[[], nn.Module], *weights: Path) -> None:
    """Raises JudgeLoadError if weight files are too small to hold the weights of a network.

    Args:
        build: Returns the network. It is called on torch's meta device, on which weights take no
            memory.
        weights: The paths of the weight files.
    """
    import torch

    with torch.device("meta"):
        count = sum(weight.numel() for weight in build().parameters())
    size = sum(path.stat().st_size for path in weights if path.is_file())
    if count > size:
        raise JudgeLoadError(
            f"{weights[0].parent}: weights and config do not fit: the config asks for {count:,} "
            f"weights, and the files have {size:,} bytes",
            hint="Copy or download the whole folder again",
        )


# -- weights, every key accounted for ----------------------------------------------------------


def write_weights(tensors: Mapping[str, Tensor], path: Path) -> None:
    """Writes ``tensors`` (name -> tensor) to ``path`` as a safetensors file."""
    from safetensors.torch import save_file

    state = {
        name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()
    }
    save_file(state, path, metadata={"format": "pt"})


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the tensors in the safetensors file ``path``, as name -> tensor.

    Raises:
        JudgeLoadError: The file is missing or damaged, or has values that are not finite
            floating-point numbers.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    if not path.is_file():
        raise JudgeLoadError(
            f"{path.parent}: the judge has no {path.name}, and a pickle (.bin, .pt) is not "
            "loaded, because it can run code",
            hint="Copy or download the whole folder again",
        )
    try:
        tensors = dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise JudgeLoadError(f"{path}: a damaged safetensors file: {error}") from error
    for name, tensor in tensors.items():
        if not tensor.is_floating_point() or not tensor.isfinite().all():
            raise JudgeLoadError(
                f"{path}: {name} has values that are not finite numbers",
                hint="Copy or download the whole folder again",
            )
    return tensors


def require_matching_tensors(
    expected: Mapping[str, Any], state: Mapping[str, Tensor], path: Path
) -> None:
    """Raises JudgeLoadError unless the saved tensors have exactly the names and shapes of a
    network's tensors.

    Args:
        expected: Name -> a tensor of the network.
        state: Name -> the saved tensor.
        path: The file of the saved tensors, for the error message.
    """
    misshapen = []
    for key in expected.keys() & state.keys():
        shape, right = list(state[key].shape), list(expected[key].shape)
        if shape != right:
            misshapen.append(f"{key} {shape} instead of {right}")
    require_no_differences(
        path,
        {
            "missing": expected.keys() - state.keys(),
            "unexpected": state.keys() - expected.keys(),
            "of another shape": misshapen,
        },
    )


def require_no_differences(
    path: Path, differences: Mapping[str, Iterable[object]]
) -> None:
    """Raises JudgeLoadError if ``differences`` has a name. The error message lists the names.

    Args:
        path: The file or folder of the weights, for the error message.
        differences: How saved weights differ from a network, as kind of difference -> names of
            weights, such as ``{"missing": ["score.weight"]}``. The lists are empty if all weights
            fit.
    """
    problems = []
    for problem, keys in differences.items():
        names = sorted(map(str, keys))
        if names:
            problems.append(f"{problem} {', '.join(names[:_SHOWN])}")
    if problems:
        raise JudgeLoadError(
            f"{path}: weights and config do not fit: {'; '.join(problems)}",
            hint="The folder mixes files of two judges, or was saved by another version. "
            "Copy or download it whole",
        )


OPTIONS = ("device", "dtype")
_LLM_FAMILIES = ("prompted", "followup", "geval", "gptscore")
_OWN_FIELDS = ("unieval", "endex")  # families with settings of these names


def place_device_and_dtype(
    settings: Mapping[str, object],
    options: Mapping[str, object],
    name: str,
    *,
    strict: bool = True,
) -> dict[str, object]:
    """Returns ``options`` with ``device`` and ``dtype`` moved to where a judge's
    settings have them.

    A judge with a network of its own has them at the top level. A judge that asks a local language
    model has them in ``llm``, the settings of the model: ``{"llm": {"model": "embedded:smollm2",
    "device": "cuda"}}``.

    Args:
        settings: The content of the judge's YAML file.
        options: Settings that the user gave, such as ``{"device": "cuda"}``.
        name: The judge's name, for the error message.
        strict: Whether it is an error to give ``device`` or ``dtype`` for a judge that cannot use
            it. If false, both are left out of the result.

    Raises:
        ConfigError: The judge cannot use ``device`` or ``dtype``, and ``strict`` is true.
    """
    others = {key: value for key, value in options.items() if key not in OPTIONS}
    placement = {key: options[key] for key in OPTIONS if options.get(key) is not None}
    family = settings.get("family")
    if not placement or family in _OWN_FIELDS:
        return others | placement
    llm = {**settings, **others}.get("llm", "embedded:smollm2")
    if isinstance(llm, str):
        llm = {"model": llm}
    if family in _LLM_FAMILIES and isinstance(llm, Mapping):
        config = llm_config(llm)
        # vLLM finds its GPUs itself.
        takes_dtype = isinstance(config, VllmLLM) and "device" not in placement
        if takes_dtype or isinstance(config, TransformersLLM):
            return others | {"llm": {**llm, **placement}}
    if strict:
        option = next(iter(placement))
        raise ConfigError(
            f"{name}: a judge of family {family!r} has no weights of its own, so --{option} "
            "changes nothing",
            hint=f"Leave --{option} out",
        )
    return others
