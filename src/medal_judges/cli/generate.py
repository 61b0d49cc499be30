"""``medal generate``: generates dialogues between simulated users and chatbots."""

from __future__ import annotations

import json
from contextlib import suppress

import typer

from medal_judges.cli.options import with_options
from medal_judges.config import MAX_COST, OVERRIDES, OVERWRITE, load_config, option
from medal_judges.data_prep.generation.protocol import GenerateConfig
from medal_judges.data_prep.generation.run import DIALOGUES, REJECTED, GenerationRun
from medal_judges.errors import CoverageError
from medal_judges.report.console import ProgressBar, rich_table, wide_console
from medal_judges.report.table import Row, Table
from medal_judges.storage.files import write_json


@with_options()
def generate(
    *,
    config: str = option(help="YAML file, or the name of one in configs/generate/."),
    overrides: tuple[str, ...] = OVERRIDES,
    out: str | None = option(
        None, help="Folder to write.  [default: out of the config]"
    ),
    chatbots: tuple[str, ...] = option(
        (), help="Only this chatbot of the config. May be repeated."
    ),
    overwrite: bool = OVERWRITE,
    max_cost: float | None = MAX_COST,
) -> None:
    """Generate chats between simulated users and chatbots, and write them to a folder. The same
    command resumes after a stop.

    Example: medal generate --config quickstart --out made
    """
    settings = list(overrides)
    if out:
        settings.append(f"out={json.dumps(out)}")
    protocol = load_config(GenerateConfig, config, settings, folder="generate")
    run = GenerationRun(
        protocol, chatbots=chatbots, overwrite=overwrite, max_cost=max_cost
    )
    counts, before, total = (
        run.counts,
        run.counts.finished_count,
        run.expected_dialogue_count,
    )
    turns = counts.user_turns
    try:
        with ProgressBar("generating", total) as bar:

            def advance() -> None:
                # A first message without an accepted try takes its dialogues off the total.
                left = total - counts.failed_opener_count * len(run.speaking)
                bar.advance(finished=counts.finished_count, total=left)

            advance()
            run.run(advance)
    finally:
        with suppress(OSError):  # a full disk: the error that ended the run is shown
            summary = counts.to_record() | {"waiting": run.waiting}
            write_json(protocol.out / "summary.json", summary)
    _print_summary(run, before)
    if not counts.finished_count and not run.waiting:
        raise CoverageError(
            f"no dialogue was generated: the user judge accepted none of {turns['rejected']} first "
            f"messages ({turns['unreadable']} verdicts were neither yes nor no)",
            hint=f"Read {protocol.out / REJECTED}. Then type --overwrite with another user_judge, "
            "check.enforce=true (verdicts of Yes or No only), or more first_turn.tries",
        )
    typer.echo(f"dialogues in {protocol.out / DIALOGUES}")
    if run.waiting:
        raise typer.Exit(5)


def _print_summary(run: GenerationRun, before: int) -> None:
    """Prints how many dialogues ``run`` generated, what they cost, and which dialogues wait for a
    new run.

    Args:
        before: Number of dialogues that earlier runs had finished.
    """
    counts = run.counts
    ended = ", ".join(f"{how} {count}" for how, count in sorted(counts.ended.items()))
    typer.echo(
        f"{counts.finished_count} dialogues ({before} resumed); ended by {ended or 'nothing yet'}",
        err=True,
    )
    rows: list[Row] = []
    for agent, usage in sorted(counts.usage.items()):
        tokens = int(usage["input_tokens"]), int(usage["output_tokens"])
        rows.append((agent, int(usage["requests"]), *tokens, usage.get("money")))
    columns = ("agent", "requests", "tokens in", "tokens out", "dollars")
    wide_console(stderr=True).print(rich_table(Table("", columns, rows)))
    for id, reason in list(run.waiting.items())[:5]:
        typer.echo(f"waits: {id}: {reason}", err=True)
    if run.waiting:
        typer.echo(
            f"{len(run.waiting)} dialogues wait. Type the same command again to resume them",
            err=True,
        )
