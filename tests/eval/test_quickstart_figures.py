"""The documents' quickstart figures come out of results.json and of the page's own snippet."""

from pathlib import Path

import pytest

from medal_judges.errors import ConfigError
from medal_judges.eval.benchmark.figures import INJECTED_COLUMNS

from ..doc_tables import read_csv
from ..quickstart_figures import JUDGES, injected_rows, printed, replaced

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "python.md"
COLUMNS = ("Issue", "Judge", *INJECTED_COLUMNS.values(), "Injected rows", "Coverage")


def results(value: float = 0.864) -> dict[str, object]:
    def cells(judge: str) -> list[object]:
        shown = value if judge == JUDGES[0] else 0.5
        return [*[{"value": shown, "low": None, "high": None}] * len(INJECTED_COLUMNS), 40, 1.0]

    rows = [["repetitive", judge, *cells(judge)] for judge in JUDGES]
    return {"tables": [{"title": "Injected issues: injected", "columns": COLUMNS, "rows": rows}]}


def test_the_table_in_the_results_has_the_form_that_the_command_writes() -> None:
    head, row = injected_rows(results())
    both, first = "0.86 / 0.50 / 0.50", ["repetitive", "0.86 / 0.50 / 0.50", "0.86"]
    assert row == [*first, both, both, "0.86 (0.86)"]
    kept = read_csv("injected")
    assert kept[0] == head and kept[1][0] == "repetitive" and len(kept) == 9
    text = PAGE.read_text(encoding="utf-8")
    changed = replaced(text, "prints", "new")
    assert "new" in changed and changed.count("<!-- end -->") == 1
    assert changed.split("<!-- quickstart: prints -->")[0] in text


def test_the_snippet_is_run_as_it_stands() -> None:
    assert printed("```python\nprint(1 + 1)\nprint('x')\n```") == "    2\n    x"
    with pytest.raises(ConfigError, match=r"(?s)snippet failed: .*ZeroDivisionError"):
        printed("```python\n1 / 0\n```")
    assert "<!-- quickstart: prints -->" in PAGE.read_text(encoding="utf-8")


def test_results_without_the_table_are_refused() -> None:
    with pytest.raises(ConfigError, match="no table of injected issues"):
        injected_rows({"tables": []})
    with pytest.raises(ConfigError, match=r"no <!-- quickstart: prints"):
        replaced("text", "prints", "x")
