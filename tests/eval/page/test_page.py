"""The page as text: well formed, self-contained, escaped, complete, the same every time."""

import re
from dataclasses import replace
from pathlib import Path

import pytest
from tests.pages import Tree, page_text

from medal_judges.errors import MedalError
from medal_judges.eval.benchmark.page import benchmark_page
from medal_judges.eval.benchmark.results import Benchmark
from medal_judges.eval.benchmark.view import View
from medal_judges.eval.metaeval.metaeval import Disagreement, ResultRow
from medal_judges.records.judgement import Contributions
from medal_judges.stats.estimate import Estimate

LOADING = {
    "src",
    "srcset",
    "action",
    "data",
    "poster",
    "formaction",
    "xlink:href",
    "background",
}


def render(benchmark: Benchmark) -> str:
    return page_text(lambda out: benchmark_page(benchmark).write(out))


@pytest.fixture(scope="module")
def html(report: Path) -> str:
    return (report / "report.html").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tree(html: str) -> Tree:
    return Tree(html)


def test_tags_nest_and_ids_are_unique(tree: Tree) -> None:
    assert tree.open == []
    ids = [attributes["id"] for _, attributes in tree.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    anchors = {a["href"].lstrip("#") for a in tree.named("a")}
    assert len(anchors) == 10 and anchors <= set(ids)
    # different names
    assert len({text for element, text in tree.data if element == "a"}) == 10
    assert sum(1 for _ in tree.named("h1")) == 1
    assert next(tree.named("html"))["lang"] == "en"


def test_asks_for_nothing_from_outside(html: str, tree: Tree) -> None:
    for tag, attributes in tree.tags:
        assert not LOADING & set(attributes), (tag, attributes)
        assert not any(name.startswith("on") for name in attributes), (tag, attributes)
        if "href" in attributes:
            assert attributes["href"].startswith(("#", "data:")), attributes["href"]
    assert re.findall(r"https?://|//cdn|url\(|@import|@font-face", html) == []
    policy = next(m for m in tree.named("meta") if m.get("http-equiv"))["content"]
    assert "default-src 'none'" in policy


def test_hostile_names_stay_text() -> None:
    evil = '"><script>alert(1)</script>'
    metrics = {"spearman": Estimate(0.5), "preferred": Estimate(0.7)}
    row = ResultRow(evil, evil, evil, evil, evil, "ordinal", 30, 30, metrics)
    row = replace(row, slices={f"lang:{evil}": {}, "lang:en": {}}, counts={evil: 1})
    told = Contributions((0.5,), 3.0)
    chat = Disagreement(evil, evil, evil, evil, 1, 2, 0.1, 0.9, [(evil, evil)], told)
    benchmark = Benchmark(
        evil, [row, replace(row, dimension="d", kind="binary")], [chat]
    )
    found = Tree(render(benchmark))
    assert found.open == []
    assert sum(1 for _ in found.named("script")) == 1


def test_a_sentence_says_what_the_figures_mean_in_use(html: str) -> None:
    said = re.findall("When people prefer one of two chats.*?</p>", html)
    # by overall and engaging; fluent is undefined, issues have none
    assert len(said) == 2
    assert [text.count(" of pairs [") for text in said] == [3, 3]
    assert "(human_embedded (MiniLM), ρ 0." in said[0] and "(length" not in said[0]
    few = ResultRow(
        "j", "s", "s", "dialogue", "d", "ordinal", 9, 9, {"preferred": Estimate(0.7)}
    )
    assert "When people prefer" not in render(Benchmark("t", [few]))


def test_half_surrogate_pairs_and_nul_are_written(
    benchmark_record: Benchmark, tmp_path: Path
):
    chat = replace(benchmark_record.disagreements[0], turns=[("user", "a\ud800b\x00c")])
    benchmark_page(replace(benchmark_record, rows=(), disagreements=[chat])).write(
        tmp_path
    )
    assert "a\ufffdb\ufffdc" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_numbers_have_two_decimals_and_undefined_its_reason(html: str) -> None:
    row = ResultRow("j", "s", "s1", "dialogue", "overall", "ordinal", 50, 50, {})
    some = {
        "spearman": Estimate(-0.004, -0.126, 0.118),
        "within_system": Estimate(None, reason="1 bot"),
    }
    page = render(Benchmark("t", [replace(row, metrics=some)]))
    assert '0.00</span> <span class="ci">[−0.13, 0.12]' in page
    assert 'title="1 bot">–' in page
    assert 'title="not computed">–' in page  # pearson and kendall were never given
    assert "all labels are equal" in html


def test_under_the_floor_is_marked_and_has_no_number(html: str) -> None:
    row = ResultRow("j", "s", "s1", "dialogue", "overall", "ordinal", 1000, 979, {})
    row = replace(row, metrics={"spearman": Estimate(0.7777)})
    page = render(Benchmark("t", [row]))
    assert "0.78" not in page and "under floor" in page
    assert "coverage 97.9% is below the minimum of 98%" in page
    assert "0.78" in render(Benchmark("t", [replace(row, scored=980)]))
    assert "under floor" in html
    assert (
        "Rows that no figure counts: Qwen3-8B, prompted on dialogue_eval: 5 of 100"
        in html
    )


def test_right_to_left_and_long_dialogues(html: str) -> None:
    assert html.count('class="said" dir="auto"') == 3 * (12 + 3 * 4)
    assert "مرحبا" in html and "我喜欢看科幻电影" in html
    assert "<summary>6 more turns</summary>" in html
    assert "(empty turn)" in html


def test_a_card_says_what_contributions_add_up_to(benchmark_record: Benchmark) -> None:
    first = benchmark_record.disagreements[0]
    moves = (0.5, -1.25) + (0.0,) * (len(first.turns) - 2)
    ends = {
        ("score", 3.0): "2.45, in units of the raw score; as a score 3.00",
        (
            "logit",
            4.6,
        ): "2.45, in logits of the score's place on its scale; as a score 4.60",
    }
    for (unit, score), end in ends.items():
        given = Contributions(moves, 3.2, unit)  # type: ignore[arg-type]
        page = render(
            Benchmark("t", (), [replace(first, contributions=given, score=score)])
        )
        assert f"Baseline 3.20 − 0.75 by its turns = {end}<" in page.replace(
            "&#39;", "'"
        )
        assert "raised the score above the baseline" in page
        assert 'class="turn user pos" style="--s:40%"' in page
        assert 'class="turn assistant neg" style="--s:100%"' in page


def test_an_empty_benchmark_is_a_page(tmp_path: Path) -> None:
    page = (
        benchmark_page(Benchmark("nothing yet", ()))
        .write(tmp_path)
        .read_text(encoding="utf-8")
    )
    assert Tree(page).open == [] and "<section" not in page


def test_same_benchmark_same_bytes(
    benchmark_record: Benchmark, report: Path, tmp_path: Path
):
    few = replace(benchmark_record, rows=benchmark_record.rows[:8])
    for folder in ("a", "b"):
        benchmark_page(few).write(tmp_path / folder)
    made = sorted(p.relative_to(tmp_path / "a") for p in (tmp_path / "a").rglob("*.*"))
    assert len(made) > 10
    for path in made:
        assert (tmp_path / "a" / path).read_bytes() == (
            tmp_path / "b" / path
        ).read_bytes(), path
    again = render(benchmark_record)
    assert again == (report / "report.html").read_text(encoding="utf-8")


def test_signatures_of_other_data_are_refused(benchmark_record: Benchmark) -> None:
    row = benchmark_record.rows[0]
    other = replace(row, judge="other", signature="judge:other|data:another-revision")
    with pytest.raises(MedalError, match="data differs"):
        View([row, other])


def test_without_matplotlib_a_line_says_that_figure_files_are_skipped(
    monkeypatch: pytest.MonkeyPatch,
    benchmark_record: Benchmark,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    # import then fails
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    benchmark_page(replace(benchmark_record, rows=benchmark_record.rows[:6])).write(
        tmp_path
    )
    (line,) = caplog.messages
    assert line.startswith("skipped the figure files") and "'.[report]'" in line
    assert not (tmp_path / "figures").exists()
    assert (tmp_path / "report.html").is_file() and (
        tmp_path / "tables" / "figures.csv"
    ).is_file()


def _row(
    judge: str, set_name: str, value: float, rows: int, p_value: float = 0.5
) -> ResultRow:
    reason = "no interval: 9 rows, fewer than 10" if rows < 10 else None
    made = {"spearman": Estimate(value, p_value=p_value, reason=reason)}
    signature = f"judge:{judge}|data:{set_name}@1|dimension:overall"
    return ResultRow(
        judge, signature, set_name, "dialogue", "overall", "ordinal", rows, rows, made
    )


def test_fewer_than_ten_rows_get_no_rank() -> None:
    """On the small set b is far ahead of a; a is first all the same, and nobody is best there."""
    small, large = "little", "large"
    rows = [
        _row("a", large, 0.5, 50),
        _row("b", large, 0.4, 50),
        _row("a", small, 0.1, 9),
        _row("b", small, 0.9, 9),
    ]
    text = render(Benchmark("t", rows))
    board = text[text.index('id="leaderboard"') :]
    matrix = board[: board.index("</table>")]
    assert matrix.index(">a<") < matrix.index(">b<")
    best = re.findall(r'<td class="num best"[^>]*>.*?(\d\.\d\d)', matrix)
    assert best == ["0.50", "0.50"]  # the worst set and the large one
    assert "9 rows, fewer than 10" in matrix
