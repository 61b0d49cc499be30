"""``medal data seeds``: draw seed contexts and write them."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import typer
from rich.table import Table

from medal_judges.cli.options import from_options, writes
from medal_judges.config import Config, build_config, option
from medal_judges.data_prep.seeds.contexts import SeedsConfig, draws_for, in_languages
from medal_judges.records.languages import language
from medal_judges.report.console import wide_console
from medal_judges.storage.files import require_other_file
from medal_judges.storage.jsonl import write_records

_SIX = ("zh", "en", "de", "fr", "pt", "es")


class SeedsOptions(Config):
    out: Path = option(help="File to write (.jsonl or .jsonl.gz).")
    lang: tuple[str, ...] = option(
        (), help="ISO 639-1 code; may be repeated. Default: MEDAL's six languages."
    )
    n: int = option(400, ge=1, help="Contexts, each in every language.")
    scenes: str = option("embedded", help="embedded, or ATOMIC10X.jsonl (.gz).")
    personas: str = option("embedded", help="embedded, or PersonaHub's persona.jsonl (.gz).")
    critic: str = option("rec_0.5", help="Field of a scenes file that says what to keep, or no.")
    seed: int = option(0, ge=0, help="Seed of every random draw.")
    show: int = option(3, ge=0, help="How many to print.")


@writes("scenes", "personas")
@from_options
def seeds(options: SeedsOptions) -> None:
    """Draw scenes, personas, genders and feelings for simulated users, the same in all languages.

    More contexts of the same seed begin with the same ones.
    """
    require_other_file(options.out, [options.scenes, options.personas])
    settings = options.model_dump(include={"n", "scenes", "personas"})
    settings["critic"] = None if options.critic == "no" else options.critic
    config = build_config(SeedsConfig, settings, where="medal data seeds")
    languages = list(dict.fromkeys(options.lang or _SIX))
    for code in languages:
        language(code)  # an unknown one is refused before anything is drawn
    draws = draws_for(config, options.seed)
    contexts = in_languages(draws, languages, options.seed)
    write_records(options.out, contexts)
    console = wide_console()
    for each in contexts[:: len(languages)][: options.show]:
        feeling = f" Feels {each.affect}." if each.affect else ""
        shown = f"{each.scene}{feeling}\n  {each.persona} ({each.gender})\n"
        console.print(shown, highlight=False, soft_wrap=True)
    counted = {
        "relation": Counter(each.relation for each in draws),
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
    typer.echo(f"{len(contexts)} contexts written to {options.out}")
