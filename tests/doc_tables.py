"""Tables of the documents, made from the CSV files in docs/results/data: none is typed.

    python tests/doc_tables.py                            # every table of README.md and docs/ again
    python tests/doc_tables.py take RUN [NAME=JUDGE ...]  # figures of a `medal benchmark` run first
    python tests/doc_tables.py languages RUN [NAME=JUDGE ...]  # ρ of a set of languages, likewise

Between ``<!-- table: NAME -->`` and the next ``<!-- end -->`` is NAME.csv, or
what a function of TABLES makes of files. ``take`` puts overall quality from RUN/tables/figures.csv
into overall.csv; ``languages`` puts RUN/tables/languages.csv into fed_languages.csv.
"""

import csv
import math
import re
import sys
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

ROOT = Path(__file__).parent.parent
DATA = ROOT / "docs" / "results" / "data"
_PLACE = re.compile(r"(<!-- table: ([a-z0-9_]+) -->\n).*?(<!-- end -->)", re.DOTALL)
Rows = list[list[str]]

SETS = {
    "fed": "FED",
    "dialogue_eval test": "dialogue_eval test",
    # Its dialogues that ConTurE has too are left out: their ratings helped to choose judges.
    "dstc9 test without overlaps": "dstc9 test",
    "conture": "ConTurE",
}
# What README adds to a judge's name.
SIZES = dict(boxed=22, human_embedded=22, contrast=135, multilingual=118, geval=135)
ABOUT = {f"`{name}`": f"`{name}` ({size}M)" for name, size in SIZES.items()}
# ConTurE's ratings helped to choose these judges.
CHOSEN = ("`boxed`", "`multilingual`")
LANGUAGES_HEAD = ["judge", "language", "n", "spearman", "low", "high"]


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
    """Returns ρ and its interval, such as ``0.68 [0.57, 0.77]``, or the range over the seeds of a
    judge in seeds.csv. † marks ratings that helped to choose the judge."""
    if row["note"]:
        return row["note"]
    if of_seeds := seeds().get((row["judge"], row["set"])):
        return f"{min(of_seeds):.2f} to {max(of_seeds):.2f}, {len(of_seeds)} seeds"
    number = f"{float(row['spearman']):.2f}"
    if row["low"]:
        number += f" [{float(row['low']):.2f}, {float(row['high']):.2f}]"
    if row["judge"] in CHOSEN and row["set"] == "conture":
        number += " †"
    return number


def within(row: dict[str, str]) -> str:
    """Returns ρ among the dialogues of one chatbot."""
    return row["within_system"] and f"{float(row['within_system']):.2f}"


def overall(table: str, text: Callable[[dict[str, str]], str] = cell) -> Rows:
    """The rows of overall.csv that belong to ``table``, a line a judge, a column a set, without
    judges whose cells are empty."""
    head, *body = read_csv("overall")
    rows = [dict(zip(head, line, strict=True)) for line in body]
    rows = [row for row in rows if table in row["tables"].split()]
    sizes = {row["set"]: row["n"] for row in rows if row["n"]}
    made: Rows = []
    for judge in dict.fromkeys(row["judge"] for row in rows):
        by = {row["set"]: text(row) for row in rows if row["judge"] == judge}
        if any(by.values()):
            made.append([judge, *(by.get(name, "") for name in SETS)])
    return [["judge", *(f"{SETS[n]} (n {sizes[n]})" for n in SETS)], *made]


def columns(name: str, *numbers: int) -> Rows:
    """Returns some columns of NAME.csv."""
    return [[row[n] for n in numbers] for row in read_csv(name)]


def pairs() -> Rows:
    """How many pairs a correlation puts in the right order, if both are normally distributed."""
    rows = [["Spearman's ρ", "pairs in the right order"]]
    for tenths in range(10):
        pearson = 2 * math.sin(math.pi * tenths / 60)
        right = 50 + 100 * math.asin(pearson) / math.pi
        rows.append([f"{tenths / 10:.1f}", f"{right:.0f}%"])
    return rows


def fed_languages() -> Rows:
    """fed_languages.csv, a line a judge, a column a language; the mean where there are all."""
    rows = [
        dict(zip(LANGUAGES_HEAD, line, strict=True))
        for line in read_csv("fed_languages")[1:]
    ]
    languages = list(dict.fromkeys(row["language"] for row in rows))
    made = [["judge", *languages, "mean"]]
    for judge in dict.fromkeys(row["judge"] for row in rows):
        by = {row["language"]: row for row in rows if row["judge"] == judge}
        values = [float(by[name]["spearman"]) for name in languages]
        values.append(sum(values) / len(values))
        made.append([judge, *(f"{value:.2f}" for value in values)])
    return made


def gpu_memory() -> Rows:
    """The memory of the trainings in gpu.csv, without and with gradient checkpointing."""
    made = [["training", "memory, GiB", "with gradient checkpointing, GiB"]]
    for plain, saving in pairwise(read_csv("gpu")):
        if plain[0] == saving[0] and saving[1].endswith("checkpointing"):
            made.append([plain[0].partition(" (")[0], plain[4], saving[4]])
    return made


TABLES: dict[str, Callable[[], Rows]] = {
    "readme": lambda: [[ABOUT.get(j, j), *rest] for j, *rest in overall("readme")],
    "judges": lambda: overall("judges"),
    "judges_within": lambda: overall("judges", within),
    "gpu": gpu_memory,
    # every second row: chatbots with contexts of their own
    "unfair_judge": lambda: columns("comparison_coverage_2", 1, 3, 4, 5)[:5:2],
    "llm_peers": lambda: columns("llm_peers", 0, 3, 9),
    "against_peers": lambda: [
        row for row in columns("against_peers", 0, 2, 5)[:12] if "bf16" not in row[0]
    ],
    "fed_languages": fed_languages,
    "pairs": pairs,
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
            about = figure["dimension"], figure["level"]
            if row is None or about != ("overall", "dialogue"):
                continue
            if figure["metric"] == "spearman":
                row |= {"spearman": figure["value"], "n": figure["n"], "note": ""}
                row |= {"low": figure["low"], "high": figure["high"]}
            elif figure["metric"] == "within_system":
                row["within_system"] = figure["value"]
    body = [[row[name] for name in head] for row in rows.values()]
    write_csv("overall", [head, *body])


def take_languages(run: Path, names: dict[str, str]) -> None:
    """Put ρ in each language of ``run``'s translations of FED into fed_languages.csv."""
    before = read_csv("fed_languages")[1:]
    kept = [line for line in before if line[0] not in names.values()]
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
