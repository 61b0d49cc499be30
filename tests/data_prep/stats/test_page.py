"""The page, the CSV files and the figures: the same numbers everywhere, and nothing but text."""

import csv
import re
from collections.abc import Callable
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.pages import page_text

from medal_judges.data_prep.corpus_stats.report import statistics_page
from medal_judges.data_prep.corpus_stats.statistics import CorpusStatistics, Subset
from medal_judges.records.labelled import LabelledDialogue

MakeRow = Callable[..., LabelledDialogue]
# a machine may have no font with Chinese
pytestmark = pytest.mark.filterwarnings("ignore:Glyph")
VOID = {"meta", "link", "br", "img", "line", "rect", "path", "circle"}
ISSUES = ("unsafe", "repetitive")
LANGS = ("de", "en", "zh")
BOTS = ("Aya <8b>", "通义千问")


class Page(HTMLParser):
    """Tags, cells of every table by its caption, and what was left open."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.tables: dict[str, list[list[str]]] = {}
        self.texts: list[str] = []
        self.open: list[str] = []
        self._rows: list[list[str]] = []
        self._caption = ""
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows, self._caption = [], ""
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if "caption" in self.open:
            self._caption += data
        elif "td" in self.open or "th" in self.open:
            self._rows[-1][-1] += data


def render(stats: CorpusStatistics) -> str:
    return page_text(lambda folder: statistics_page(stats).write(folder))


def count(html: str, tag: str) -> int:
    return sum(name == tag for name, _ in Page(html).tags)


@pytest.fixture
def findings(make_row: MakeRow) -> CorpusStatistics:
    """Two chatbots in three languages, no dialogue of the second one in German."""
    rows = []
    for i in range(60):
        lang, bot = LANGS[i % 3], BOTS[i // 3 % 2]
        if (lang, bot) == ("de", BOTS[1]):
            continue
        labels = {"unsafe": i % 5 == 0, "repetitive": i % 4 == 0, "overall": 1 + i % 5}
        text = "好 我们 好 我们" if lang == "zh" else "again and again and never"
        rows.append(
            make_row(
                str(i),
                [text, f"{text} {i}"],
                lang=lang,
                bot=bot,
                group=str(i // 12),
                labels={name: [float(value)] for name, value in labels.items()},
            )
        )
    return CorpusStatistics(rows, "rows.jsonl", lemmas=False)


def test_heat_maps_print_the_numbers_of_the_table(findings: CorpusStatistics) -> None:
    tables = Page(render(findings)).tables
    assert findings.names("chatbot") == sorted(BOTS)
    for dimension in findings.issues:
        head, *lines = tables[f"{dimension.name}, %"]
        assert head == ["Chatbot", *LANGS, "all"]
        assert [line[0] for line in lines] == [*sorted(BOTS), "all"]
        pairs = tables["Issues by language and chatbot"]
        column = next(
            i for i, name in enumerate(pairs[0]) if name.startswith(dimension.name)
        )
        by_name = {row[0]: row[column] for row in pairs[1:]}
        for line in lines[:-1]:
            for lang, cell in zip(LANGS, line[1:-1], strict=True):
                if (lang, line[0]) == ("de", BOTS[1]):
                    assert cell == "– no dialogue"
                    continue
                value = float(by_name[f"{lang} · {line[0]}"].split(" ")[0])
                assert float(cell) == pytest.approx(value, abs=0.0501)
        sums = {row[0]: row[column] for row in tables["Issues by chatbot"][1:]}
        for line in lines:
            value = float(sums[line[0]].split(" ")[0])
            assert float(line[-1]) == pytest.approx(value, abs=0.0501)


def test_heat_maps_by_counting(findings: CorpusStatistics) -> None:
    # zh has i = 2, 5, 8, ...: the first chatbot 2, 8, 14, ..., 56, of which 20 and 50 are fives.
    unsafe = Page(render(findings)).tables["unsafe, %"]
    row = next(line for line in unsafe if line[0] == BOTS[0])
    assert row[3] == "20.0"
    overall = Page(render(findings)).tables["overall (1–5), mean"]
    assert next(line for line in overall if line[0] == BOTS[0])[3] == "3.00"


def test_the_deepest_orange_is_the_highest_share(findings: CorpusStatistics) -> None:
    html = render(findings)
    strengths = [
        int(s) for s in re.findall(r'<td class="neg" style="--s:(\d+)%"', html)
    ]
    assert max(strengths) == 100
    top = re.search(r"deepest orange is ([\d.]+)%", html)
    cells = [
        float(cell)
        for d in findings.issues
        for line in Page(html).tables[f"{d.name}, %"][1:]
        for cell in line[1:]
        if not cell.startswith("–")
    ]
    assert top is not None and float(top[1]) == max(cells)


def test_bars_and_levels_print_the_numbers_of_the_tables(
    findings: CorpusStatistics,
) -> None:
    html = render(findings)
    for dimension in findings.issues:
        panel = re.search(
            rf">{dimension.name}</b></figcaption>\s*(<svg.*?</svg>)", html
        )
        assert panel is not None
        shown = re.findall(r'<text x="[\d.]+" y="[\d.]+">([^<]+)</text>', panel[1])
        values = [findings.figure(part, dimension).value for part in findings.langs]
        assert shown == [f"{100 * value:.1f}" for value in values if value is not None]
    tips = re.findall(r"<title>(\w+), (\d): ([\d.]+)% \((\d+) of (\d+)\)</title>", html)
    assert len(tips) == 15
    (overall,) = findings.graded
    for lang, level, share, n, of in tips:
        levels = findings.distribution(Subset(lang), overall)
        assert (int(n), int(of)) == (levels.counts[int(level) - 1], sum(levels.counts))
        assert float(share) == pytest.approx(
            100 * levels.shares[int(level) - 1], abs=0.0501
        )
        assert 100 * int(n) / int(of) == pytest.approx(float(share), abs=0.0501)


def test_every_dash_says_why(findings: CorpusStatistics) -> None:
    html = render(findings)
    dashes = re.findall(
        r"<t[dh][^>]*>(?:(?!</t[dh]>).)*–(?:(?!</t[dh]>).)*</t[dh]>", html
    )
    cells = [dash for dash in dashes if ">–" in dash]
    assert len(cells) > 5
    assert all(
        re.search(r'<abbr class="undef" title="[^"]+">–', cell) for cell in cells
    )


def test_page_stands_alone(findings: CorpusStatistics) -> None:
    html = render(findings)
    page = Page(html)
    assert page.open == []
    assert re.findall(r"https?://|//cdn|url\(|@import|@font-face", html) == []
    assert "default-src 'none'" in html and count(html, "script") == 1
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    anchors = [a["href"] for tag, a in page.tags if tag == "a"]
    assert {str(a).lstrip("#") for a in anchors} <= set(ids) and len(anchors) == 6
    assert html == render(findings)


def test_hostile_text_stays_text(make_row: MakeRow) -> None:
    evil = '"><script>alert(1)</script><img src=x onerror=alert(1)>'
    rows = [
        make_row(
            f"{lang}{evil}{i}",
            [evil, evil],
            bot=evil,
            user=evil,
            source=evil,
            labels={evil: [1], f"x{evil}": [0], "overall": [2]},
            scales={f"x{evil}": [0, 2]},
            level="turn",
        )
        for i in range(2)
        for lang in ("en", evil.lower())
    ]
    rows[1::2] = [
        replace(r, dialogue=replace(r.dialogue, lang=evil)) for r in rows[1::2]
    ]
    html = render(CorpusStatistics(rows, evil, lemmas=False))
    assert Page(html).open == []
    assert count(html, "script") == 1 and count(html, "img") == 0
    assert any("<script>alert" in text for text in Page(html).texts)


def test_rows_without_labels(make_row: MakeRow, tmp_path: Path) -> None:
    rows = [make_row(str(i), ["a b", "c"]) for i in range(3)]
    path = statistics_page(CorpusStatistics(rows, "generated", lemmas=False)).write(
        tmp_path
    )
    page = Page(path.read_text(encoding="utf-8"))
    assert any("No row has a label" in text for text in page.texts)
    sections = [a["id"] for tag, a in page.tags if tag == "section"]
    assert sections == ["texts", "labels", "facts"]
    assert not (tmp_path / "figures").exists()


def test_turn_level_rows_are_said_to_repeat_their_conversation(
    make_row: MakeRow,
) -> None:
    rows = [make_row(str(i), ["a", "b"], level="turn") for i in range(2)]
    html = render(CorpusStatistics(rows, "s", lemmas=False))
    assert "2 rows end at the judged turn" in html


def test_csv_has_the_numbers_of_every_table(
    findings: CorpusStatistics, tmp_path: Path
) -> None:
    statistics_page(findings).write(tmp_path)
    with (tmp_path / "tables" / "issues-by-chatbot.csv").open(
        encoding="utf-8", newline=""
    ) as file:
        head, *lines = csv.reader(file)
    names = [findings.label(d) for d in findings.issues]
    assert head == ["Chatbot", "Rows", *(f"{name}, %" for name in names)]
    for line, part in zip(lines, [*findings.chatbots, Subset()], strict=True):
        for cell, dimension in zip(line[2:], findings.issues, strict=True):
            value = findings.figure(part, dimension).value
            assert value is not None and float(cell.split(" ")[0]) == pytest.approx(
                100 * value
            )
    written = {path.stem for path in (tmp_path / "tables").glob("*.csv")}
    assert {"dialogues-and-texts-by-language", "mean-answers-by-chatbot"} <= written


def test_figures_are_the_same_bytes_again(
    findings: CorpusStatistics, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib")
    names = ["heatmaps", "issues", "overall-1-5", "answers"]
    for folder in ("one", "two"):
        statistics_page(findings).write(tmp_path / folder)
    for name in names:
        first = (tmp_path / "one" / "figures" / f"{name}.png").read_bytes()
        assert first.startswith(b"\x89PNG")
        assert first == (tmp_path / "two" / "figures" / f"{name}.png").read_bytes()
    assert {p.stem for p in (tmp_path / "one" / "figures").iterdir()} == set(names)
