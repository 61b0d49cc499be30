"""The page of medal compare in Debian's chromium. Run with ``-m browser``."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.browser import CHROMIUM, CONTRAST, DESKTOP, PHONE, Browser

from medal_judges import CompareOptions
from medal_judges.eval.comparison.compare import compare
from medal_judges.eval.comparison.report import write_comparison
from medal_judges.storage.jsonl import write_records

pytestmark = CHROMIUM
SYSTEMS = {"release-2025-11": 3.1, "candidate A": 3.5, "kandidat-ä (ohne Suche)": 3.4, "助手": 2.4}


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("compare")
    rng, people, files = np.random.default_rng(0), [], {}
    for k, (name, mean) in enumerate(SYSTEMS.items()):
        rows = []
        for i in range(90):
            human = float(np.clip(rng.normal(mean, 0.8), 1, 5))
            score = float(np.clip(human + rng.normal(0.4 * (k == 1), 0.5), 1, 5))
            unsafe = float(rng.random() * 0.3)
            said = [{"role": "user", "content": f"Frage {i}"}]
            about = {"id": f"{k}-{i}", "lang": ("de", "en")[i % 2], "dialogue": said}
            rows.append(
                {"id": about["id"], "turn": None, "judge": "judge:x"}
                | {"scores": {"overall": score, "unsafe": unsafe}}
            )
            people.append(about)
            if i < 25:
                about |= {"labels": {"overall": [round(human)]}, "scales": {"overall": [1, 5]}}
        files[name] = folder / f"{k}.jsonl"
        write_records(files[name], rows)
    write_records(folder / "chats.jsonl", people)
    labelled = [row for row in people if "labels" in row]
    write_records(folder / "people.jsonl", labelled)
    options = CompareOptions(
        files=[f"{name}={path}" for name, path in files.items()],
        human=[str(folder / "people.jsonl")],
        chats=[str(folder / "chats.jsonl")],
    )
    found = compare(options)
    return write_comparison(found, folder / "out")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [DESKTOP, PHONE])
def test_the_page_fits_and_asks_for_nothing(
    page: Path, browser: Browser, width: int, scheme: str, tmp_path: Path
) -> None:
    browser.open(page, width, scheme)
    browser.ask("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    assert browser.ask("document.documentElement.scrollWidth") <= width
    assert browser.ask(CONTRAST) == []
    assert browser.complaints() == [] and browser.requests() == [page.as_uri()]
    assert browser.ask("document.querySelectorAll('#verdict li').length") == 2
    browser.screenshot(tmp_path / f"compare-{width}-{scheme}.png")
