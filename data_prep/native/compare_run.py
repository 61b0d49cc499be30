"""The verdicts of all pairs, written as they come; goes on after a stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from medal_judges.data_prep.native.appending import append, earlier
from medal_judges.data_prep.native.comparison import Comparer
from medal_judges.data_prep.native.pairs import Pair
from medal_judges.data_prep.native.verdict import Verdict, parse_verdict
from medal_judges.errors import MedalError
from medal_judges.jsonl import write_records
from medal_judges.models.batching import windows

Key = tuple[str, str, str, str]


def compare_to_file(
    pairs: Sequence[Pair],
    comparer: Comparer,
    out: Path,
    *,
    progress: Callable[[int], None] | None = None,
) -> list[Verdict]:
    """A verdict for each pair and criterion, criterion by criterion, also in the file ``out``.

    Verdicts that stand there are kept; those without a result are asked for again. Raises
    MedalError where ``out`` holds verdicts of another judge.
    """
    signature = str(comparer.signature())
    done: dict[Key, Verdict] = {}
    for verdict in earlier(out, parse_verdict):
        if verdict.judge != signature:
            raise MedalError(
                f"{out} holds verdicts by {verdict.judge!r}, not {signature!r}",
                hint="give another --out, or --overwrite to begin anew",
            )
        done[_key(verdict)] = verdict  # a later line replaces one without a result
    wanted = [(pair, name) for name in comparer.config.criteria for pair in pairs]
    for window in windows(wanted, comparer.config.at_once):
        fresh = [(p, name) for p, name in window if not _has_result(done.get(_asked(p, name)))]
        found = comparer.compare(fresh)
        append(out, found)
        done |= {_key(verdict): verdict for verdict in found}
        if progress is not None:
            progress(len(window))
    verdicts = [done[_asked(pair, name)] for pair, name in wanted]
    write_records(out, verdicts)  # in order, each once
    return verdicts


def _has_result(verdict: Verdict | None) -> bool:
    return verdict is not None and verdict.result is not None


def _key(verdict: Verdict) -> Key:
    return verdict.id, verdict.criterion, verdict.native, verdict.translated


def _asked(pair: Pair, criterion: str) -> Key:
    return pair.id, criterion, pair.native.id, pair.translated.id
