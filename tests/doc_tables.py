"""Tables of the documents, made from the CSV files in docs/results/data: none is typed.

    python tests/doc_tables.py                            # every table of README.md and docs/ again
    python tests/doc_tables.py take RUN [NAME=JUDGE ...]  # figures of a `medal benchmark` run first
    python tests/doc_tables.py languages RUN [NAME=JUDGE ...]  # ρ of a set of languages, likewise

(``make tables``.) Between ``<!-- table: NAME -->`` and the next ``<!-- end -->`` stands NAME.csv as
it is, or what a function of TABLES makes of files; tests/test_site.py compares. ``take`` puts what
RUN/tables/figures.csv says of overall quality into overall.csv, a judge under the name that the
tables have for it; ``languages`` what RUN/tables/languages.csv says of each into fed_languages.csv.
"""

import csv
import gzip
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "results" / "data"
_PLACE = re.compile(r"(<!-- table: ([a-z0-9_]+) -->\n).*?(<!-- end -->)", re.DOTALL)
Rows = list[list[str]]

SETS = {
    "fed": "FED",
    "dialogue_eval test": "dialogue_eval test",
    "dstc9 test": "dstc9 test",
    "dstc9 test without overlaps": "dstc9 test without ConTurE",
    "conture": "ConTurE",
}
# What README adds to a judge's name, for who meets it there first.
ABOUT = {
    "`boxed`, the judge in the package": "`boxed` (22M)",
    "`human_embedded`, seed 0": "`human_embedded` (22M, learnt from dstc9 and dialogue_eval)",
    "`contrast`": "`contrast` (135M, likelihood of user reactions)",
    "`multilingual`": "`multilingual` (118M)",
    "`geval`": "`geval` with the model of `contrast`",
}
# ConTurE's ratings helped to choose these judges (settings.md), and dstc9's test has its dialogues.
CHOSEN = ("`boxed`, the judge in the package", "`multilingual`")
NOT_HELD_OUT = ("conture", "dstc9 test")
LANGUAGES_HEAD = ["judge", "language", "n", "spearman", "low", "high"]
IN_README = ("fed", "dialogue_eval test", "dstc9 test", "conture")


def read_csv(name: str) -> Rows:
    """The rows of docs/results/data/NAME.csv, the header first."""
    with (DATA / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def write_csv(name: str, rows: Rows) -> None:
    """Write docs/results/data/NAME.csv, the header first."""
    with (DATA / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def markdown(rows: Rows) -> str:
    """A table of Markdown, the header first."""
    head, *body = rows
    lines = [head, ["---"] * len(head), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def tables_of(text: str) -> Iterator[tuple[str, Rows]]:
    """The tables in ``text``, each with the line of bold print above it, or an empty one."""
    caption, rows = "", []
    for line in [*text.splitlines(), ""]:
        if line.startswith("|"):
            cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
            if set("".join(cells)) - {"-"}:
                rows.append(cells)
        elif rows:
            yield caption, rows
            caption, rows = "", []
        if line.startswith("**"):
            caption = line.replace("**", "")


def keep(name: str, text: str) -> None:
    """Write the tables of ``text`` into NAME.csv; several into NAME_1.csv and so on, or, where each
    has a caption, into one with the caption as its first column."""
    found = list(tables_of(text))
    if all(caption for caption, _ in found):
        body = [[caption, *row] for caption, rows in found for row in rows[1:]]
        write_csv(name, [["set", *found[0][1][0]], *body])
    elif len(found) == 1:
        write_csv(name, found[0][1])
    else:
        for number, (_, rows) in enumerate(found, 1):
            write_csv(f"{name}_{number}", rows)


def seeds() -> dict[tuple[str, str], list[float]]:
    """ρ of each seed by (judge, set), for judges whose ρ there depends on the seed."""
    found: dict[tuple[str, str], list[float]] = {}
    for judge, name, _, value in read_csv("seeds")[1:]:
        found.setdefault((judge, name), []).append(float(value))
    return found


def cell(row: dict[str, str]) -> str:
    """``0.68 [0.57, 0.77] (0.32)``: ρ, its interval, ρ within one chatbot.

    A judge of seeds.csv has the range of its seeds first: its recipe's ρ, not its luckiest seed's.
    The rest is about the seed in the package. † marks a set that helped to choose the judge, or has
    dialogues of one.
    """
    if row["note"]:
        return row["note"]
    number = f"{float(row['spearman']):.2f}"
    mark = ""
    if row["judge"] in CHOSEN and row["set"] in NOT_HELD_OUT:
        mark = " †"
    if of_seeds := seeds().get((row["judge"], row["set"])):
        span = f"{min(of_seeds):.2f} to {max(of_seeds):.2f}"
        number = f"{span} over {len(of_seeds)} seeds; in the package {number}"
    if row["low"]:
        number += f" [{float(row['low']):.2f}, {float(row['high']):.2f}]"
    if row["within_system"]:
        number += f" ({float(row['within_system']):.2f})"
    return number + mark


def overall(table: str, sets: Sequence[str] = tuple(SETS)) -> Rows:
    """The rows of overall.csv that belong to ``table``, a line a judge, a column a set."""
    head, *body = read_csv("overall")
    rows = [dict(zip(head, line, strict=True)) for line in body]
    rows = [row for row in rows if table in row["tables"].split()]
    sizes = {row["set"]: row["n"] for row in rows if row["n"]}
    made: Rows = []
    for judge in dict.fromkeys(row["judge"] for row in rows):
        by = {row["set"]: cell(row) for row in rows if row["judge"] == judge}
        made.append([judge, *(by.get(name, "") for name in sets)])
    told = [f"{SETS[n]} (n {sizes[n]})" if n in sizes else SETS[n] for n in sets]
    return [["judge", *told], *made]


def pairs() -> Rows:
    """How many pairs a correlation puts in the right order, if both are normally distributed."""
    rows = [["Spearman's ρ", "pairs in the right order"]]
    for tenths in range(10):
        pearson = 2 * math.sin(math.pi * tenths / 60)
        rows.append(
            [f"{tenths / 10:.1f}", f"{50 + 100 * math.asin(pearson) / math.pi:.0f}%"]
        )
    return rows


def settings() -> Rows:
    """settings.csv, with the number of rows that the file of boxed's settings has."""
    with gzip.open(
        DATA / "boxed_settings.csv.gz", "rt", encoding="utf-8", newline=""
    ) as file:
        tried = sum(1 for _ in csv.reader(file)) - 1
    return [
        [cell.replace("{boxed}", f"{tried:,}") for cell in row]
        for row in read_csv("settings")
    ]


def fed_languages() -> Rows:
    """fed_languages.csv, a line a judge, a column a language; the mean where there are all."""
    rows = [
        dict(zip(LANGUAGES_HEAD, line, strict=True))
        for line in read_csv("fed_languages")[1:]
    ]
    languages = list(dict.fromkeys(row["language"] for row in rows))
    made = [["judge", "dialogues of each", *languages, "mean"]]
    for judge in dict.fromkeys(row["judge"] for row in rows):
        by = {row["language"]: row for row in rows if row["judge"] == judge}
        sizes = sorted({int(row["n"]) for row in by.values()})
        values = [float(by[name]["spearman"]) for name in languages]
        told = f"{sizes[0]} to {sizes[-1]}" if len(sizes) > 1 else str(sizes[0])
        made.append(
            [
                judge,
                told,
                *(f"{v:.2f}" for v in values),
                f"{sum(values) / len(values):.2f}",
            ]
        )
    return made


TABLES: dict[str, Callable[[], Rows]] = {
    "readme": lambda: [
        [ABOUT.get(row[0], row[0]), *row[1:]] for row in overall("readme", IN_README)
    ],
    "judges": lambda: overall("judges"),
    "families": lambda: overall("families", IN_README),
    "boxed": lambda: [*overall("boxed"), *read_csv("boxed_aims")[1:]],
    "fed_languages": fed_languages,
    "pairs": pairs,
    "settings": settings,
}


def rendered(text: str) -> str:
    """``text`` with its tables as the files say."""

    def table(place: re.Match[str]) -> str:
        rows = TABLES[place[2]]() if place[2] in TABLES else read_csv(place[2])
        return f"{place[1]}{markdown(rows)}\n{place[3]}"

    return _PLACE.sub(table, text)


def pages() -> list[Path]:
    """README.md and the pages of the site that have tables of this kind."""
    found = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [page for page in found if _PLACE.search(page.read_text(encoding="utf-8"))]


def rewrite_pages() -> None:
    """Write every table again."""
    for page in pages():
        page.write_text(rendered(page.read_text(encoding="utf-8")), encoding="utf-8")


def take(run: Path, names: dict[str, str]) -> None:
    """Put what ``run`` found of overall quality at dialogue level into overall.csv."""
    head, *body = read_csv("overall")
    rows = {(line[0], line[1]): dict(zip(head, line, strict=True)) for line in body}
    with (run / "tables" / "figures.csv").open(encoding="utf-8", newline="") as file:
        for figure in csv.DictReader(file):
            judge = names.get(figure["judge"], figure["judge"])
            row = rows.get((judge, figure["set"]))
            if (
                row is None
                or figure["dimension"] != "overall"
                or figure["level"] != "dialogue"
            ):
                continue
            if figure["metric"] == "spearman":
                row |= {"spearman": figure["value"], "n": figure["n"], "note": ""}
                row |= {"low": figure["low"], "high": figure["high"]}
            elif figure["metric"] == "within_system":
                row["within_system"] = figure["value"]
    write_csv(
        "overall", [head, *([row[name] for name in head] for row in rows.values())]
    )


def take_languages(run: Path, names: dict[str, str]) -> None:
    """Put ρ in each language of ``run``'s translations of FED into fed_languages.csv, for ``names``
    alone."""
    kept = [
        line for line in read_csv("fed_languages")[1:] if line[0] not in names.values()
    ]
    with (run / "tables" / "languages.csv").open(encoding="utf-8", newline="") as file:
        for found in csv.DictReader(file):
            asked = found["dimension"] == "overall" and found["metric"] == "spearman"
            asked = asked and found["set"] == "fed in ten languages"
            if asked and found["judge"] in names:
                figures = (found[name] for name in ("n", "value", "low", "high"))
                kept.append([names[found["judge"]], found["language"], *figures])
    write_csv("fed_languages", [LANGUAGES_HEAD, *kept])


if __name__ == "__main__":
    if sys.argv[1:2] in (["take"], ["languages"]):
        put = take if sys.argv[1] == "take" else take_languages
        put(Path(sys.argv[2]), dict(name.split("=", 1)[::-1] for name in sys.argv[3:]))
    rewrite_pages()
