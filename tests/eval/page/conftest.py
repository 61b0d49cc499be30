"""A synthetic benchmark that holds the cases a page must show: no real data, no outside file."""

from pathlib import Path

import numpy as np
import pytest

from medal_judges.eval.benchmark.page import benchmark_page
from medal_judges.eval.benchmark.results import Benchmark
from medal_judges.eval.metaeval.comparison import comparison_tables
from medal_judges.eval.metaeval.metaeval import (
    JudgedRows,
    evaluate,
    measure_rank_agreement,
)
from medal_judges.records.dialogue import Dialogue, Turn
from medal_judges.records.judgement import Judgement
from medal_judges.records.labelled import LabelledDialogue

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
JUDGES = {"good": 0.4, "$x$ \ud800": 1.0, HOSTILE: 3.0, "partial": 0.4}
TURNS = (Turn("user", "hello"), Turn("assistant", "hi"))
ROWS = 60


def evaluations(name: str, dimension: str) -> list[JudgedRows]:
    rng = np.random.default_rng(len(name))
    latent = rng.normal(3, 1, ROWS)
    answers = np.clip(np.round(latent[:, None] + rng.normal(0, 0.7, (ROWS, 2))), 1, 5)
    scale = (1.0, 5.0)
    if dimension == "unsafe":
        answers, scale = (answers > 3).astype(float), (0.0, 1.0)
    rows = []
    for i in range(ROWS):
        models = {"assistant": f"bot-{i % 6}"}
        dialogue = Dialogue(f"d{i}", TURNS, ("en", "de")[i % 2], models=models)
        labels = {dimension: tuple(answers[i].tolist())}
        row = LabelledDialogue(dialogue, labels, {dimension: scale}, group=f"g{i}")
        rows.append(row)
    found = []
    for judge, noise in JUDGES.items():
        scores = latent + noise * rng.normal(size=ROWS)
        if dimension == "unsafe":
            scores = 1 / (1 + np.exp(3 - scores))
        scored = ROWS // 2 if judge == "partial" else ROWS
        said = [
            Judgement(f"d{i}", "j", {dimension: float(scores[i])})
            for i in range(scored)
        ]
        about = {"judge": judge, "set_name": name}
        about["signature"] = f"judge:j|data:{name}|dimension:{dimension}"
        found += evaluate(said, rows, {dimension: dimension}, **about)
    return found


@pytest.fixture(scope="session")
def benchmark_record() -> Benchmark:
    made = [
        *evaluations("talks", "overall"),
        *evaluations("other talks", "overall"),
        *evaluations("talks", "unsafe"),
    ]
    return Benchmark(
        "A synthetic benchmark",
        [one.row for one in made],
        [("Command", "medal benchmark")],
        comparison_tables(made),
        measure_rank_agreement(made),
    )


@pytest.fixture(scope="session")
def report(
    benchmark_record: Benchmark, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The folder of a written page."""
    folder = tmp_path_factory.mktemp("report")
    benchmark_page(benchmark_record).write(folder)
    return folder
