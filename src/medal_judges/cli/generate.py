"""``medal generate``: seed contexts in, dialogues between simulated users and chatbots out."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from medal_judges.cli import options as opt
from medal_judges.config import load_config
from medal_judges.data_prep.generation.config import GenerateConfig
from medal_judges.data_prep.generation.counts import generation_bar
from medal_judges.data_prep.generation.estimate import Assumed, estimate
from medal_judges.data_prep.generation.outputs import DIALOGUES, REJECTED
from medal_judges.data_prep.generation.run import GenerationRun, prepare
from medal_judges.report.console import wide_console


def generate(
    config: Annotated[
        str, typer.Option("--config", help="YAML file, or the name of one in configs/generate/.")
    ],
    overrides: opt.Overrides = None,
    out: Annotated[
        str | None, typer.Option("--out", help="Folder to write; else the config's out.")
    ] = None,
    chatbots: Annotated[
        list[str] | None,
        typer.Option("--chatbots", help="Only this chatbot of the config speaks; may be repeated."),
    ] = None,
    overwrite: opt.Overwrite = False,
    dry_run: opt.DryRun = False,
    max_cost: opt.MaxCost = None,
) -> None:
    """Generate dialogues. The same command resumes after a stop."""
    changed = [*(overrides or []), *([f"out={out}"] if out else [])]
    settings = load_config(GenerateConfig, config, changed, folder="generate")
    if dry_run:
        _estimate(settings, chatbots or [])
        return
    _run(settings, chatbots or [], overwrite, max_cost)


def _run(
    config: GenerateConfig, chatbots: list[str], overwrite: bool, max_cost: float | None
) -> None:
    run = prepare(config, chatbots=chatbots or None, overwrite=overwrite, max_cost=max_cost)
    before = run.counts.finished
    try:
        others = sum(not run.plan.speaks(id) for id in run.dialogues.done)
        with generation_bar(run.plan.dialogues + others, len(run.plan.speaking)) as advance:
            advance(run.counts, 0)
            run.go(advance)
    finally:
        with suppress(OSError):  # a full disk: the error that ended the run is shown
            run.outputs.summarise(run.counts.to_record() | {"waiting": run.parked})
    _show(run, before)
    if run.parked:
        typer.echo(f"dialogues in {Path(config.out) / DIALOGUES}")
        raise typer.Exit(5)
    if not run.counts.finished:
        typer.echo(f"error: {_nothing(run)}", err=True)
        raise typer.Exit(3)
    typer.echo(f"dialogues in {Path(config.out) / DIALOGUES}")


def _nothing(run: GenerationRun) -> str:
    counts = run.counts
    return (
        f"not one dialogue was generated: the user judge accepted none of {counts.rejected} "
        f"first messages ({counts.unreadable} verdicts were neither yes nor no)\n"
        f"  read {Path(run.config.out) / REJECTED}; give another user_judge, check.enforce=true "
        "for one that does not keep to Yes and No, or more first_turn.tries, and --overwrite"
    )


def _show(run: GenerationRun, before: int) -> None:
    counts, console = run.counts, wide_console(stderr=True)
    earlier = f" ({before} from before)" if before else ""
    ended = ", ".join(f"{how} {count}" for how, count in sorted(counts.ended.items()))
    console.print(f"{counts.finished} dialogues{earlier}; ended by {ended or 'nothing yet'}")
    asked = counts.accepted + counts.rejected
    if asked:
        console.print(
            f"user turns: {counts.accepted} accepted, {counts.rejected} rejected "
            f"({counts.by_rule} by rule, {counts.unreadable} by a verdict that was neither yes "
            "nor no)"
        )
    if counts.failed_openers:
        console.print(f"{counts.failed_openers} first messages had no accepted try: no dialogues")
    table = Table("agent", "answers", "tokens in", "tokens out", "dollars")
    for agent, usage in sorted(counts.usage.items()):
        money = f"{usage['money']:.4f}" if "money" in usage else "–"
        read, written = int(usage["input_tokens"]), int(usage["output_tokens"])
        table.add_row(agent, str(usage["requests"]), str(read), str(written), money)
    console.print(table)
    for id, reason in list(run.parked.items())[:5]:
        console.print(f"waits: {id}: {reason}", highlight=False)
    if run.parked:
        console.print(
            f"{len(run.parked)} dialogues wait; run the same command again to resume them"
        )


def _estimate(config: GenerateConfig, chatbots: list[str]) -> None:
    assumed, costs = Assumed(), estimate(config, chatbots=chatbots or None)
    openers = config.contexts.n * len(config.languages) * len(config.users)
    speaking = len(chatbots or config.chatbots)
    typer.echo(f"{openers} first messages, {openers * speaking} dialogues")
    table = Table("agent", "requests", "tokens in", "tokens out", "dollars")
    for agent, cost in costs.items():
        money = "no price known" if cost.money is None else f"{cost.money:.2f}"
        table.add_row(agent, str(cost.requests), str(cost.input), str(cost.output), money)
    wide_console().print(table)
    known = [cost.money for cost in costs.values() if cost.money is not None]
    unknown = len(costs) - len(known)
    more = f", and what {unknown} agents without a known price take" if unknown else ""
    typer.echo(
        f"at most about ${sum(known):.2f}{more}; nothing was sent. Assumed: "
        f"{assumed.acceptance:.0%} of tries accepted, {assumed.user_words} words a user message, "
        f"{assumed.chatbot_words} a chatbot's, no dialogue ends early; tokens counted from above, "
        "without what a model thinks before it answers; nothing that OUT holds is taken off"
    )
