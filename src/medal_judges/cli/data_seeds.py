"""``medal data seeds``: draw seed contexts and write them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from medal_judges.cli import options as opt
from medal_judges.config import build_config
from medal_judges.data_prep.seeds.context import SeedContext
from medal_judges.data_prep.seeds.sampling import Draw, SeedsConfig, draws_for, in_languages
from medal_judges.records.languages import language
from medal_judges.report.console import wide_console
from medal_judges.storage.files import require_other_file
from medal_judges.storage.jsonl import write_records

_SIX = ("zh", "en", "de", "fr", "pt", "es")


@opt.writes("scenes", "personas", "affects")
def seeds(
    out: Annotated[Path, typer.Option("--out", help="File to write (.jsonl or .jsonl.gz).")],
    lang: opt.Languages = None,
    n: Annotated[int, typer.Option("--n", min=1, help="Contexts, each in every language.")] = 400,
    scenes: Annotated[
        str, typer.Option("--scenes", help="embedded, or ATOMIC10X.jsonl (.gz, .csv).")
    ] = "embedded",
    personas: Annotated[
        str, typer.Option("--personas", help="embedded, or PersonaHub's persona.jsonl (.gz, .csv).")
    ] = "embedded",
    affects: Annotated[
        str, typer.Option("--affects", help="embedded, or a YAML file of states by quadrant.")
    ] = "embedded",
    critic: Annotated[
        str, typer.Option("--critic", help="Field of a scenes file that says what to keep, or no.")
    ] = "rec_0.5",
    seed: opt.Seed = 0,
    show: Annotated[int, typer.Option("--show", min=0, help="How many to print.")] = 3,
) -> None:
    """Draw scenes, personas, genders and feelings for simulated users, the same in all languages
    (MEDAL's six unless --lang is given).

    More contexts of the same seed begin with the same ones.
    """
    settings = {"n": n, "scenes": scenes, "personas": personas, "affects": affects}
    settings["critic"] = None if critic == "no" else critic
    require_other_file(out, [scenes, personas, affects])
    config = build_config(SeedsConfig, settings, where="medal data seeds")
    languages = list(dict.fromkeys(lang or _SIX))
    for code in languages:
        language(code)  # one that is not known is refused before anything is drawn
    draws = draws_for(config, seed)
    contexts = in_languages(draws, languages, seed)
    write_records(out, contexts)
    _print(draws, contexts, languages, show)
    typer.echo(f"{len(contexts)} contexts written to {out}")


def _print(draws: list[Draw], contexts: list[SeedContext], languages: list[str], show: int) -> None:
    console = wide_console()
    for each in contexts[:: len(languages)][:show]:
        feeling = f" Feels {each.affect}." if each.affect else ""
        said = f"{each.scene}{feeling}\n  {each.persona} ({each.gender})\n"
        console.print(said, highlight=False, soft_wrap=True)
    counted = {
        "relation": Counter(each.scene.relation for each in draws),
        "quadrant": Counter(each.quadrant or "(named by the scene)" for each in draws),
        "gender": Counter(str(each.gender) for each in draws),
        "language": Counter(each.lang for each in contexts),
        "country": Counter(each.country for each in contexts),
    }
    table = Table("what", "contexts")
    table.add_column("of which", overflow="fold")
    for what, counts in counted.items():
        shares = ", ".join(f"{name} {count}" for name, count in sorted(counts.items()))
        table.add_row(what, str(counts.total()), shares)
    console.print(table)
