"""``medal doctor``: checks this machine, or a saved judge."""

from __future__ import annotations

from collections.abc import Iterable

import typer

from medal_judges.cli.options import from_options
from medal_judges.config import REVISION, Config, judge_file, option
from medal_judges.errors import ConfigError
from medal_judges.inference.doctor import judge_facts, machine_facts
from medal_judges.inference.judge_choice import choose_judge
from medal_judges.models.base.golden import compare, write_golden
from medal_judges.models.base.judge import Judge
from medal_judges.models.base.saving import GOLDEN_NAME, judge_folder, read_config


class DoctorOptions(Config):
    words: tuple[str, ...] = option(
        (),
        argument=True,
        metavar="[JUDGE] [FIELD=VALUE]...",
        help="Folder or hub id of a saved judge, and MEMBER.FIELD=VALUE for a hybrid's members; "
        "without them, the machine is checked.",
    )
    revision: str | None = REVISION
    device: str | None = option(
        None,
        help="cpu, cuda, cuda:1, ...; by default the device that golden.json names.",
    )
    write: bool = option(False, help="Write golden.json if the folder has none.")


@from_options
def doctor(options: DoctorOptions) -> None:
    """Show which features are installed and what others need. With JUDGE, check its golden scores
    (exits with status 1 if they differ)."""
    if not options.words:
        from medal_judges.data_prep.sources.registry import sources_here

        sources = sources_here()
        names = [name for name, is_here in sources.items() if is_here]
        counts = (
            f"{len(names)} of {len(sources)} sources here: {', '.join(names) or 'none'}"
        )
        data = f"{counts}; the others, for benchmarks and training: medal data list"
        _show([*machine_facts(), ("data", data)])
        return
    judge, *settings = options.words
    if not all("=" in setting for setting in settings):
        raise ConfigError(
            "medal doctor checks one judge; other arguments are MEMBER.FIELD=VALUE"
        )
    if judge_file(judge) is not None:
        raise ConfigError(
            f"{judge} is a YAML file, which has no weights and no golden scores",
            hint="give the folder or hub id of a saved judge",
        )
    folder = judge_folder(judge, options.revision)
    read_config(folder)
    changed = choose_judge(str(folder), settings).options
    if options.write:
        if (folder / GOLDEN_NAME).exists():
            raise ConfigError(
                f"{folder} has a {GOLDEN_NAME}; --write is for judges without one"
            )
        write_golden(Judge.from_pretrained(folder, device="cpu", **changed), folder)
    check = compare(folder, device=options.device, options=changed)
    _show(judge_facts(check))
    if not check.holds:
        typer.echo(f"error: {judge} does not give its golden scores", err=True)
        raise typer.Exit(1)
    typer.echo("the judge gives its golden scores")


def _show(facts: Iterable[tuple[str, str]]) -> None:
    for name, value in facts:
        typer.echo(f"{name:24} {value}")
