"""Seed contexts out of a file, as ``medal data seeds`` writes it or as written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges.data_prep.seeds.context import SeedContext, parse_context
from medal_judges.errors import ConfigError
from medal_judges.jsonl import read_records


def listed_contexts(path: str, n: int, languages: Sequence[str]) -> list[SeedContext]:
    """The first ``n`` contexts of the file in each of ``languages``, context by context.

    Raises DataError for a bad line, and ConfigError where there are fewer, or one is not there in
    a language.
    """
    groups: dict[str, dict[str, SeedContext]] = {}
    for context in read_records(path, parse_context):
        groups.setdefault(context.group, {})[context.lang] = context
    if len(groups) < n:
        raise ConfigError(
            f"contexts: {path} has {len(groups)} contexts, not {n}",
            hint=f"contexts.n={len(groups)}",
        )
    chosen = list(groups.items())[:n]
    for name, found in chosen:
        missing = [lang for lang in languages if lang not in found]
        if missing:
            raise ConfigError(
                f"contexts: {name} in {path} has no {missing[0]!r}",
                hint=f"it has: {', '.join(found)}; medal data seeds --lang writes what is named",
            )
    return [found[lang] for _, found in chosen for lang in languages]
