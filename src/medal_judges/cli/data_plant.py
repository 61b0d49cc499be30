"""``medal data plant``: plant issues into the dialogues of a file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def plant(
    source: Annotated[
        str, typer.Argument(metavar="IN", help="Clean dialogues: JSONL, or a spec: chitchat:test.")
    ],
    out: Annotated[Path, typer.Option("--out", help="File to write (.jsonl or .jsonl.gz).")],
    issues: Annotated[
        str, typer.Option("--issues", help="Comma-separated; all eight when not given.")
    ] = "",
    strength: Annotated[
        str, typer.Option("--strength", help="1 subtle, 2 plain, 3 gross; comma-separated.")
    ] = "1,2,3",
    per_issue: Annotated[
        int | None, typer.Option("--per-issue", min=1, help="Pairs per issue; all when not given.")
    ] = None,
    split: Annotated[
        str, typer.Option("--split", help="Part of the sentence tables: train, val or test.")
    ] = "train",
    seed: Annotated[int, typer.Option("--seed")] = 0,
    min_turns: Annotated[int, typer.Option("--min-turns", min=1, help="Leave out shorter.")] = 1,
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="Leave out longer.")
    ] = None,
) -> None:
    """Write clean, planted and innocently edited versions of dialogues, labelled.

    Give one split of your conversations at a time, with the same --split.
    """
    from typing import cast

    from medal_judges.data_prep.perturbation import ISSUES, Tally, planted_set
    from medal_judges.data_prep.perturbation.tables import Split
    from medal_judges.data_prep.sources.registry import files_of, load_spec
    from medal_judges.files import require_other_file
    from medal_judges.jsonl import write_records

    require_other_file(out, files_of(source))
    tally = Tally()
    rows = planted_set(
        (
            row
            for row in load_spec(source)
            if min_turns <= len(row.dialogue.turns) <= (max_turns or len(row.dialogue.turns))
        ),
        seed=seed,
        per_issue=per_issue,
        issues=_listed(issues) or ISSUES,
        strengths=_strengths(strength),
        split=cast(Split, split),
        tally=tally,
    )
    count = write_records(out, rows)
    typer.echo("\n".join(tally.lines()), err=True)
    typer.echo(f"{count} dialogues written to {out}")


def _listed(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _strengths(text: str) -> list[int]:
    from medal_judges.errors import ConfigError

    try:
        return [int(part) for part in _listed(text)]
    except ValueError as error:
        raise ConfigError(
            f"--strength takes 1, 2, 3 or a list such as 1,2, not {text!r}"
        ) from error
