"""Device and dtype of a judge described in YAML."""

from __future__ import annotations

from collections.abc import Mapping

from medal_judges.config import read_yaml
from medal_judges.errors import ConfigError
from medal_judges.models.llm.settings import VLLMLLM, TransformersLLM, llm_config
from medal_judges.shipped import judge_file

OPTIONS = ("device", "dtype")
_LLM_FAMILIES = ("prompted", "followup", "geval", "gptscore")
_OWN_FIELDS = ("unieval", "endex")  # they have settings of these names
_DEFAULT_LLM = "embedded:smollm2"


def placed(
    settings: Mapping[str, object],
    options: Mapping[str, object],
    name: str,
    *,
    strict: bool = True,
) -> dict[str, object]:
    """Returns ``options`` with ``device`` and ``dtype`` moved to where the judge of the YAML
    ``settings`` reads them.

    Raises ConfigError for a judge that has no model here. With ``strict`` False (a member of a
    hybrid, whose other members may have one) the option is left out.
    """
    given = {key: options[key] for key in OPTIONS if options.get(key) is not None}
    rest = {key: value for key, value in options.items() if key not in OPTIONS}
    family = settings.get("family")
    if not given or family in _OWN_FIELDS:
        return rest | given
    first = next(iter(given))
    if family == "hybrid":
        members = rest.get("members", settings.get("members"))
        if isinstance(members, Mapping):
            members = {key: _placed_member(member, given) for key, member in members.items()}
        return rest | {"members": members}
    problem = f"a judge of family {family!r} has no weights, so --{first} changes nothing"
    if family in _LLM_FAMILIES:
        llm = rest.get("llm", settings.get("llm", _DEFAULT_LLM))
        problem = f"its language model is loaded already, --{first} comes too late"
        if isinstance(llm, str | Mapping):
            config = llm_config(llm)
            vllm = isinstance(config, VLLMLLM)
            if isinstance(config, TransformersLLM) or (vllm and first == "dtype"):
                return rest | {
                    "llm": {**({"model": llm} if isinstance(llm, str) else llm), **given}
                }
            where = "vLLM chooses it" if vllm else "it runs on a server, which has its own"
            problem = f"{config.backend}:{config.model} cannot use --{first}: {where}"
    if strict:
        raise ConfigError(f"{name}: {problem}", hint=f"leave --{first} out")
    return rest


def _placed_member(member: object, given: Mapping[str, object]) -> object:
    """A member's settings with ``given`` in its options, if it has a model here."""
    if not isinstance(member, dict) or not isinstance(path := member.get("path"), str):
        return member  # HybridSettings reports what is wrong with it
    options = {**dict(member.get("options") or {}), **given}
    if (file := judge_file(path)) is not None:
        options = placed(read_yaml(file), options, path, strict=False)
    return member | {"options": options}
