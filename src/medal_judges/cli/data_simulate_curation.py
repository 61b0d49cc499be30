"""``medal data simulate-curation``: what each policy of ``medal curate`` saves, on rated data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from medal_judges.data_prep.curation.policy import Policy
    from medal_judges.data_prep.curation.simulation import Outcome, Setting


def simulate_curation(
    human: Annotated[
        str, typer.Argument(metavar="HUMAN", help="Annotated set: JSONL, or a spec: dstc9:test.")
    ],
    judgements: Annotated[
        list[str], typer.Option("--judgements", help="File of medal score, one a judge; repeat.")
    ],
    out: Annotated[Path, typer.Option("--out", help="Folder for simulation.json and .csv.")],
    dimension: Annotated[str, typer.Option("--dimension", help="What is correlated.")] = "overall",
    lang: Annotated[
        list[str] | None, typer.Option("--lang", help="Only this language; may be repeated.")
    ] = None,
    policies: Annotated[
        str, typer.Option("--policies", help="Comma-separated; all that the judges allow.")
    ] = "",
    sizes: Annotated[
        str, typer.Option("--sizes", help="Numbers of annotations, comma-separated.")
    ] = "25,50,75,100,150,200,300",
    reference: Annotated[
        int, typer.Option("--reference", help="Random annotations that the others are held to.")
    ] = 100,
    repetitions: Annotated[
        int, typer.Option("--repetitions", min=2, help="Selections drawn for each size.")
    ] = 400,
    resamples: Annotated[
        int, typer.Option("--resamples", min=10, help="Bootstrap resamples for each selection.")
    ] = 200,
    judged_issues: Annotated[
        bool, typer.Option("--judged-issues", help="Balanced by a judge's issues too.")
    ] = False,
    expected_correlation: Annotated[
        float, typer.Option("--expected-correlation", help="Judges with people; a guess.")
    ] = 0.4,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of selections and resamples.")] = 0,
) -> None:
    """How many annotations each policy needs for one width of the interval, and whether the
    interval holds the true value."""
    from medal_judges.data_prep.curation.candidate import label_reading
    from medal_judges.data_prep.curation.human_set import read_human_set
    from medal_judges.data_prep.curation.simulation import Setting, simulate
    from medal_judges.data_prep.curation.simulation_report import require_reference

    people, counts = read_human_set(
        human,
        judgements,
        label_reading(),
        dimension=dimension,
        langs=lang or [],
        judged_issues=judged_issues,
    )
    setting = Setting(
        _sizes(sizes),
        repetitions,
        resamples,
        seed,
        expected_correlation,
        _policies(policies, people.table.names, people.table.has_spreads),
    )
    require_reference(setting, len(people.human), reference)
    labels = "level and issues" if judged_issues else "level"
    facts = {"dialogues": len(people.human), **counts, "dimension": dimension}
    facts |= {"labels of the balanced policy": labels, **_facts(setting), "reference": reference}
    _report(simulate(people, setting), reference, facts, out)


def _facts(setting: Setting) -> dict[str, Any]:
    """What of the setting stands in simulation.json."""
    return {
        "repetitions": setting.repetitions,
        "resamples": setting.resamples,
        "seed": setting.seed,
        "expected correlation": setting.correlation,
    }


def _report(outcomes: list[Outcome], reference: int, facts: dict[str, Any], out: Path) -> None:
    """Files first, then the table and what to make of it."""
    from medal_judges.data_prep.curation.simulation_report import (
        print_verdicts,
        verdicts,
        write_simulation,
    )

    found, rated = verdicts(outcomes, reference), int(facts["dialogues"])
    facts["judges"] = {o.judge: o.full for o in outcomes}
    write_simulation(outcomes, found, facts, out)
    for name, full in dict.fromkeys((o.judge, o.full) for o in outcomes):
        typer.echo(f"{name}: Spearman {full:.3f} on all {rated} dialogues")
    most = max(o.n for o in outcomes)
    print_verdicts(found, reference, most)
    if most > rated / 4:
        typer.echo(
            f"{most} of {rated} dialogues are a large part of the set: the bootstrap "
            "does not know that, and its intervals there are wider than they need be"
        )
    typer.echo(f"written: {out / 'simulation.json'}")


def _sizes(text: str) -> tuple[int, ...]:
    from medal_judges.errors import ConfigError

    try:
        return tuple(sorted({int(part) for part in text.split(",")}))
    except ValueError as error:
        raise ConfigError(f"--sizes takes whole numbers such as 25,50,100, not {text!r}") from error


def _policies(text: str, judges: tuple[str, ...], spreads: bool) -> tuple[Policy, ...]:
    """Those named; else all but the ones that these judges cannot serve."""
    from medal_judges.data_prep.curation.policy import POLICIES, parse_policy

    if text:
        return tuple(parse_policy(part.strip()) for part in text.split(","))
    unfit = set() if spreads else {"uncertainty"}
    unfit |= set() if len(judges) > 1 else {"disagreement"}
    return tuple(policy for policy in POLICIES if policy not in unfit)
