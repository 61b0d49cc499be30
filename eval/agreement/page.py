"""The page of ``medal agreement``: languages by dimensions, as MEDAL's Tables 4 and 5."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

from medal_judges.eval.agreement.agreement import ALL, POSITIONS, Agreement
from medal_judges.report.heat import empty_cell, heat_cell, heat_table
from medal_judges.report.markup import (
    Column,
    Group,
    estimate_cell,
    number_cell,
    row_head,
    section,
    sortable,
    text_cell,
    undefined,
)
from medal_judges.report.numbers import interval, label, number
from medal_judges.report.provenance import fact_section
from medal_judges.report.shell import whole_page
from medal_judges.stats.results import Estimate

_ANCHORS = (
    ("percent", "Percent agreement"),
    ("alpha", "Krippendorff's α"),
    ("spearman", "Spearman"),
    ("figures", "All figures"),
    ("ceilings", "Human ceilings"),
    ("facts", "How it was made"),
)
_PERCENT = (
    "Share of pairs of answers to one dialogue that are equal; for graded dimensions (marked "
    "±1) that differ by no more than one. Where all pairs or none agree, the interval is "
    "Wilson's with one trial a chatbot or conversation."
)
_ALPHA = (
    "Agreement beyond chance: 1 is perfect, 0 what shuffled answers would give. Nominal for "
    "issues, ordinal for graded dimensions. There is no interval where leaving "
    "out one chatbot or conversation leaves no α, as happens when an issue is rare."
)
_SPEARMAN = (
    "Spearman ρ of two annotators over the dialogues both answered, averaged over pairs of "
    "annotators by the number of those dialogues."
)
POSITION_NOTE = (
    "The rows do not name their annotators, so a pair is two positions in the label list. If a "
    "position is not the same person throughout, ρ mixes people; α and percent agreement do not "
    "depend on it."
)
_CEILING = (
    "One annotator against the mean of the others (graded), or one against another (issues), "
    "averaged over positions. A judge that is held against the mean of all of them can score "
    "higher without being better; medal benchmark holds it against the same others too."
)


def page(heading: str, found: Sequence[Agreement], facts: Sequence[tuple[str, str]]) -> str:
    """The whole page as text."""
    langs = {a.lang for a in found if a.lang != ALL}
    said = f"{_count(len(dimensions(found)), 'dimension')} · {_count(len(langs), 'language')}"
    spearman = _SPEARMAN
    if any(a.columns == POSITIONS for a in found):
        spearman = f"{spearman} {POSITION_NOTE}"
    sections = (
        section(
            "percent",
            "Percent agreement",
            _grid("Percent agreement by language", found, headline),
            _PERCENT,
        )
        + section(
            "alpha",
            "Krippendorff's α",
            _grid("Krippendorff's α by language", found, _alpha),
            _ALPHA,
        )
        + section(
            "spearman", "Spearman", _grid("Spearman ρ by language", found, _spearman), spearman
        )
        + section("figures", "All figures", _figures(found))
        + section("ceilings", "Human ceilings", _ceilings(found), _CEILING)
        + fact_section(facts)
    )
    return whole_page(heading, said, _ANCHORS, sections)


def dimensions(found: Sequence[Agreement]) -> list[str]:
    """Dimensions in order of appearance."""
    return list(dict.fromkeys(a.dimension for a in found))


def headline(one: Agreement) -> Estimate:
    """Adjacent agreement of a graded dimension, exact agreement of any other (Table 4)."""
    return one.figures["adjacent" if one.kind == "ordinal" else "exact"]


def _alpha(one: Agreement) -> Estimate:
    return one.figures["alpha"]


def _spearman(one: Agreement) -> Estimate:
    return one.figures["spearman"]


def _grid(caption: str, found: Sequence[Agreement], figure: Callable[[Agreement], Estimate]) -> str:
    """A heat map, one row a language and one column a dimension."""
    at = {(a.lang, a.dimension): a for a in found}
    marks = {a.dimension: " ±1" for a in found if figure is headline and a.kind == "ordinal"}
    columns = [name.replace("_", " ") + marks.get(name, "") for name in dimensions(found)]
    rows = [
        row_head(lang) + "".join(_cell(figure(at[lang, name])) for name in dimensions(found))
        for lang in dict.fromkeys(a.lang for a in found)
    ]
    return heat_table(caption, "Language", columns, rows)


def _cell(found: Estimate) -> str:
    """The figure over its interval; the colour's strength is the figure's."""
    if found.value is None:
        return empty_cell(found.reason)
    below = interval(found) or (undefined(found.reason) if found.reason else "")
    span = f'<br><span class="ci">{below}</span>' if below else ""
    shown = f"{number(found.value)}{span}"
    sign: Literal["pos", "neg"] = "neg" if found.value < 0 else "pos"
    return heat_cell(shown, abs(found.value), sign, found.reason or "")


def _figures(found: Sequence[Agreement]) -> str:
    """Every figure with its counts, one row a dimension, grouped by language."""
    columns: list[Column | str] = [Column("Dimension", "words")]
    columns += ["rows", "with 2+ answers", "pairs", Column("annotators", "words")]
    columns += ["mean answer", "exact", "±1", Column("α is", "words"), "α", "ρ"]
    groups = []
    for lang in dict.fromkeys(a.lang for a in found):
        rows = [_figure_row(a) for a in found if a.lang == lang]
        groups.append(Group(rows, heading=lang))
    return sortable("Figures by language and dimension", columns, groups) + (
        '<p class="note">The mean answer of an issue is the share of answers that mark it.</p>'
    )


def _figure_row(one: Agreement) -> str:
    annotators = text_cell(f"{one.annotators} {one.columns}")
    counts = "".join(number_cell(n) for n in (one.rows, one.shared, one.pairs))
    adjacent = one.figures.get("adjacent", Estimate(None, reason="not a graded dimension"))
    alpha = one.figures["alpha"]
    return (
        row_head(one.dimension.replace("_", " "))
        + counts
        + annotators
        + number_cell(one.mean, "no answer")
        + estimate_cell(one.figures["exact"])
        + estimate_cell(adjacent)
        + text_cell(one.measurement)
        + estimate_cell(alpha)
        + estimate_cell(one.figures["spearman"])
    )


def _ceilings(found: Sequence[Agreement]) -> str:
    """One table for graded dimensions and one for issues."""
    tables = (
        ("Graded dimensions", False, ("spearman", "pearson", "kendall")),
        ("Issues", True, ("f1_present", "f1_absent", "precision", "recall", "accuracy")),
    )
    parts = []
    for caption, binary, names in tables:
        mine = [a for a in found if a.ceiling and (a.kind == "binary") is binary]
        if mine:
            parts.append(_ceiling_table(caption, mine, names))
    return "".join(parts)


def _ceiling_table(caption: str, found: Sequence[Agreement], names: Sequence[str]) -> str:
    groups = [
        Group(
            [
                row_head(a.dimension.replace("_", " "))
                + "".join(estimate_cell(a.ceiling.get(name)) for name in names)
                for a in found
                if a.lang == lang
            ],
            heading=lang,
        )
        for lang in dict.fromkeys(a.lang for a in found)
    ]
    columns: list[Column | str] = [Column("Dimension", "words"), *(label(name) for name in names)]
    return sortable(caption, columns, groups)


def _count(n: int, name: str) -> str:
    return f"{n} {name}{'' if n == 1 else 's'}"
