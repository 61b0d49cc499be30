"""Where a judge in YAML runs and in which precision: device and dtype are obeyed, or refused."""

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
    """``options`` with ``device`` and ``dtype``, where they are given, put where the judge that the
    YAML ``settings`` describe reads them.

    Raises ConfigError for a judge that cannot obey: its model runs on a server, or it has none.
    With ``strict`` False (a member of a hybrid, whose others may obey) what cannot is left out.
    """
    given = {key: options[key] for key in OPTIONS if options.get(key) is not None}
    rest = {key: value for key, value in options.items() if key not in OPTIONS}
    family = settings.get("family")
    if not given or family in _OWN_FIELDS:
        return rest | given
    if family == "hybrid":
        members = rest.get("members", settings.get("members"))
        if isinstance(members, Mapping):
            members = {key: _placed_member(member, given) for key, member in members.items()}
        return rest | {"members": members}
    if family in _LLM_FAMILIES:
        llm = rest.get("llm", settings.get("llm", _DEFAULT_LLM))
        try:
            return rest | {"llm": _placed_llm(llm, given, name)}
        except ConfigError:
            if strict:
                raise
            return rest
    if not strict:
        return rest
    raise ConfigError(
        f"{name}: a judge of family {family!r} has no weights, so --{next(iter(given))} says "
        "nothing to it",
        hint=f"leave --{next(iter(given))} out",
    )


def _placed_llm(llm: object, given: Mapping[str, object], name: str) -> dict[str, object]:
    if given.get("dtype") == "auto":
        raise ConfigError(
            f"{name}: --dtype auto goes with encoder judges, and this one asks a language model",
            hint="give fp32 or bf16, or leave --dtype out",
        )
    if not isinstance(llm, str | Mapping):
        raise ConfigError(
            f"{name}: its language model is loaded already, --{next(iter(given))} comes too late"
        )
    config = llm_config(llm)
    if isinstance(config, TransformersLLM):
        obeyed: tuple[str, ...] = OPTIONS
    else:
        obeyed = ("dtype",) if isinstance(config, VLLMLLM) else ()
    if refused := [key for key in given if key not in obeyed]:
        where = "vLLM chooses it" if obeyed else "it runs on a server, which has its own"
        raise ConfigError(
            f"{name}: --{refused[0]} cannot be obeyed for {config.backend}:{config.model}: {where}",
            hint=f"leave --{refused[0]} out",
        )
    return {**({"model": llm} if isinstance(llm, str) else llm), **given}


def _placed_member(member: object, given: Mapping[str, object]) -> object:
    """A member's settings whose options have ``given``, where it has a model of its own."""
    if not isinstance(member, dict) or not isinstance(path := member.get("path"), str):
        return member  # HybridSettings says what is wrong with it
    options = {**dict(member.get("options") or {}), **given}
    if (file := judge_file(path)) is not None:
        options = placed(read_yaml(file), options, path, strict=False)
    return member | {"options": options}
