"""Provenance: how the page was made, and the signature of every figure at its foot."""

from __future__ import annotations

from collections.abc import Iterable

from medal_judges.eval.page.arrangement import Arrangement
from medal_judges.report.markup import details, escape, section


def facts(view: Arrangement) -> str:
    """The facts as pairs; empty where the benchmark has none."""
    return fact_section(view.benchmark.facts)


def fact_section(found: Iterable[tuple[str, str]]) -> str:
    """The section of (name, value) pairs; empty where there are none."""
    pairs = "".join(
        f'<div><dt>{escape(name)}</dt><dd dir="auto">{escape(value)}</dd></div>'
        for name, value in found
    )
    body = f'<dl class="facts">{pairs}</dl>' if pairs else ""
    return section("facts", "How it was made", body)


def signatures(view: Arrangement) -> str:
    """Every distinct signature, by judge. Two figures compare only where these agree."""
    by_judge: dict[str, dict[str, None]] = {judge: {} for judge in view.judges}
    for row in view.benchmark.rows:
        by_judge[row.judge][row.signature] = None
    body = "".join(_judge(judge, list(found)) for judge, found in by_judge.items())
    lead = "What must be equal for two numbers to be comparable, as written with every figure."
    return section("signatures", "Signatures", body, lead)


def _judge(judge: str, found: list[str]) -> str:
    """What all signatures of a judge share in sight; the full ones in a fold where they differ."""
    parts = [signature.split("|") for signature in found]
    shared = "|".join(p for p in parts[0] if all(p in other for other in parts))
    head = f'<h3 dir="auto">{escape(judge)}</h3><p><code>{escape(shared)}</code></p>'
    if len(found) == 1:
        return head
    items = "".join(f"<li><code>{escape(signature)}</code></li>" for signature in found)
    fold = details(f"{len(found)} signatures in full", f'<ul class="signatures">{items}</ul>')
    return head + fold
