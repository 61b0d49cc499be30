"""What the simulation found: a table of policies, and every figure as JSON and CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from medal_judges.data_prep.curation.simulation import Outcome, Setting, annotations_needed
from medal_judges.errors import ConfigError
from medal_judges.report.console import wide_console
from medal_judges.report.csv_tables import write_table

BELIEVABLE = 0.9  # coverage of a 95% interval under which it is called misleading


@dataclass(frozen=True, slots=True)
class PolicyVerdict:
    """A policy with or without weights, means over the judges.

    ``for_width`` and ``for_error`` are the annotations it needs for the interval width and for the
    error (RMSE) that a random sample has at the reference size; None outside the sizes tried.
    ``width``, ``error`` and ``bias`` (mean of absolute values) are at the reference size;
    ``coverage`` is the lowest of any judge there, ``coverage_at_most`` at the largest size.
    """

    policy: str
    weighted: bool
    for_width: float | None
    for_error: float | None
    width: float
    error: float
    bias: float
    coverage: float
    coverage_at_most: float

    @property
    def misleading(self) -> bool:
        """True where intervals miss the true value too often, however narrow they are, and where
        no selection gave one."""
        return not (self.coverage >= BELIEVABLE and self.coverage_at_most >= BELIEVABLE)


def require_reference(setting: Setting, rows: int, reference: int) -> None:
    """Raises ConfigError where random sampling is not tried at ``reference``."""
    sizes = setting.sizes_within(rows)
    if "random" not in setting.policies:
        raise ConfigError(
            "nothing to compare with: random is not among the policies",
            hint=f"--policies random,{','.join(setting.policies)}",
        )
    if sizes and reference not in sizes:
        raise ConfigError(
            f"nothing to compare with: no random sample of {reference} annotations",
            hint=f"--reference is one of {', '.join(map(str, sizes))}, or put it among --sizes "
            f"(the set has {rows} dialogues)",
        )


def verdicts(outcomes: Sequence[Outcome], reference: int) -> list[PolicyVerdict]:
    """One verdict for each policy and estimator, beside random sampling at ``reference``, which
    is among ``outcomes`` (``require_reference``)."""
    base = [o for o in outcomes if (o.policy, o.weighted, o.n) == ("random", False, reference)]
    width, error = _mean([o.width for o in base]), _mean([o.rmse for o in base])
    found = []
    for policy, weighted in dict.fromkeys((o.policy, o.weighted) for o in outcomes):
        if policy == "random" and weighted:
            continue  # all weights are equal
        own = [o for o in outcomes if (o.policy, o.weighted) == (policy, weighted)]
        found.append(_verdict(policy, weighted, own, reference, width, error))
    return found


def _verdict(
    policy: str, weighted: bool, own: Sequence[Outcome], reference: int, width: float, error: float
) -> PolicyVerdict:
    sizes = sorted({o.n for o in own})
    by_size = {n: [o for o in own if o.n == n] for n in sizes}
    here, most = by_size[reference], by_size[sizes[-1]]
    return PolicyVerdict(
        policy=policy,
        weighted=weighted,
        for_width=annotations_needed(_means(by_size, "width"), width),
        for_error=annotations_needed(_means(by_size, "rmse"), error),
        width=_mean([o.width for o in here]),
        error=_mean([o.rmse for o in here]),
        bias=_mean([abs(o.bias) for o in here]),
        coverage=min(o.coverage for o in here),
        coverage_at_most=min(o.coverage for o in most),
    )


def _means(by_size: Mapping[int, Sequence[Outcome]], figure: str) -> dict[int, float]:
    return {n: _mean([getattr(o, figure) for o in found]) for n, found in by_size.items()}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def print_verdicts(found: Sequence[PolicyVerdict], reference: int, most: int) -> None:
    """Print the table of policies; misleading ones say so."""
    console = wide_console()
    heads = ("policy", "weights", f"n for width of random {reference}", "n for its error",
             "width", "error", "bias", "coverage", f"at {most}", "")  # fmt: skip
    table = Table(*heads, box=box.SIMPLE, title=f"95% intervals of Spearman at {reference}")
    table.columns[0].no_wrap = True
    for v in found:
        table.add_row(
            v.policy,
            "yes" if v.weighted else "no",
            _count(v.for_width),
            _count(v.for_error),
            *(_shown(value, ".3f") for value in (v.width, v.error, v.bias)),
            _shown(v.coverage, ".1%"),
            _shown(v.coverage_at_most, ".1%"),
            "misleading" if v.misleading else "",
        )
    console.print(table)


def _count(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _shown(value: float, form: str) -> str:
    return format(value, form) if math.isfinite(value) else "–"


def write_simulation(
    outcomes: Sequence[Outcome],
    found: Sequence[PolicyVerdict],
    facts: Mapping[str, Any],
    folder: Path,
) -> None:
    """Write simulation.json and simulation.csv into ``folder``; undefined is null, and empty."""
    folder.mkdir(parents=True, exist_ok=True)
    record = {
        "facts": dict(facts),
        "verdicts": [{**_defined(v), "misleading": v.misleading} for v in found],
        "outcomes": [_defined(o) for o in outcomes],
    }
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    (folder / "simulation.json").write_text(text, encoding="utf-8")
    lines = [list(_defined(o).values()) for o in outcomes]
    write_table(folder / "simulation.csv", [f.name for f in fields(Outcome)], lines)


def _defined(of: Outcome | PolicyVerdict) -> dict[str, Any]:
    pairs = asdict(of).items()
    return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in pairs}
