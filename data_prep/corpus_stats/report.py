"""Report: the page, the CSV files and the PNG figures of the statistics, and what is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from medal_judges import __version__
from medal_judges.data_prep.corpus_stats import tables
from medal_judges.data_prep.corpus_stats.findings import (
    MAX_NAMES,
    OVERALL,
    Distribution,
    Findings,
)
from medal_judges.data_prep.corpus_stats.mtld import UNDEFINED
from medal_judges.data_prep.corpus_stats.survey import NOT_STATED, SIDES, ScaledDimension, Subset
from medal_judges.report import console
from medal_judges.report.figure import Figure
from medal_judges.report.numbers import DASH, number
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    Sheet,
    counted,
    facts_section,
    folded,
    write_page,
)
from medal_judges.report.table import Table, unique_slugs
from medal_judges.stats.results import Estimate

_PAIRS = "Language and chatbot"
_BRIEF = 7  # columns from which on intervals are left to the page and the CSV files
_PIPED = 160  # these tables have more columns than others
_MAPS = (
    "Percent of the dialogues in which the issue is present, chatbots by languages, and the mean "
    "of overall. Orange is worse, blue is better: the deepest orange is {top}% in every map of an "
    "issue, and overall runs over its scale. The number is printed, and a cell's 95% interval and "
    "number of rows show on hover."
)
_OTHER_MAPS = (
    "Chatbots by languages. The deepest colour is the top of the scale; a cell's 95% interval and "
    "number of rows show on hover."
)
_NO_LABELS = "No row has a label: there are no issues and no scores to count."


def write_report(findings: Findings, folder: Path) -> Path:
    """Writes stats.html, tables/*.csv and figures/* under ``folder``; returns the page's path."""
    overall = [d for d in findings.graded if d.name == OVERALL]
    named = [("heatmaps", _maps(findings, [*findings.issues, *overall]))]
    named.append(("issues", tables.issue_figure(findings)))
    named += [(findings.label(d), tables.level_figure(findings, d)) for d in findings.graded]  # type: ignore[misc]
    drawn = [(name, figure) for name, figure in named if isinstance(figure, Figure)]
    slugs = unique_slugs([name for name, _ in drawn])
    figures = {slug: figure for slug, (_, figure) in zip(slugs, drawn, strict=True)}
    survey = findings.survey
    subsets = _by_subsets(findings)
    counts = [
        (sum(survey.levels.values()), "dialogue"),
        (len(findings.langs), "language"),
        (len([name for name in findings.names("chatbot") if name != NOT_STATED]), "chatbot"),
        (survey.answered, "labelled row"),
    ]
    single = [(head, p) for head, p in subsets if head != _PAIRS]
    texts = [tables.text_table(findings, head, p) for head, p in single]
    texts += [tables.side_table(findings, head, p) for head, p in single]
    texts += [tables.text_table(findings, head, p) for head, p in subsets if head == _PAIRS]
    issues = tables.issue_figure(findings)
    endings = [t for head, p in subsets if (t := tables.ending_table(findings, head, p))]
    tries = [t for head, p in subsets if (t := tables.tries_table(findings, head, p))]
    sections = (
        Section("texts", "Dialogues and texts", folded(texts, len(single)), link="Texts"),
        _map_section(findings),
        Section("bars", "Issues by language", [] if issues is None else [issues]),
        _level_section(findings),
        _label_section(findings, subsets),
        Section("course", "Ends and tries", folded(endings, 1) + folded(tries, 1)),
        facts_section(facts(findings)),
    )
    return write_page(
        folder / "stats.html",
        f"Statistics of {findings.name}",
        counted(counts),
        sections,
        leads=__package__,
        tables=_sheets(findings),
        figures=figures,
    )


def _by_subsets(findings: Findings) -> list[tuple[str, list[Subset]]]:
    """(Head, subsets) of the tables: languages, chatbots, users, pairs; none that is empty."""
    subsets = [
        ("Language", findings.langs),
        ("Chatbot", findings.chatbots),
        ("User model", findings.users),
        (_PAIRS, findings.pairs if len(findings.langs) > 1 else []),
    ]
    return [(head, some) for head, some in subsets if some]


def _maps(findings: Findings, dimensions: Sequence[ScaledDimension]) -> Figure | None:
    """Heat maps; None where no chatbot is named or nothing is labelled."""
    return tables.heat_figure(findings, dimensions) if findings.chatbots and dimensions else None


def _map_section(findings: Findings) -> Section:
    overall = [d for d in findings.graded if d.name == OVERALL]
    main = [*findings.issues, *overall]
    others = [d for d in [*findings.other_shares, *findings.graded] if d not in overall]
    blocks: list[Block] = []
    if (maps := _maps(findings, main)) is not None:
        blocks.append(maps)
    if (more := _maps(findings, others)) is not None:
        name = f"{len(others)} {'more ' if blocks else ''}dimensions"
        blocks.append(Fold(name, [more], is_open=not blocks))
    top = number(100 * tables.highest_share(findings), 1)
    lead = _MAPS.format(top=top) if findings.issues else _OTHER_MAPS
    return Section("heatmaps", "Chatbots by languages", blocks, lead)


def _level_section(findings: Findings) -> Section:
    """Stacked bars, overall in sight and further dimensions in a fold."""
    blocks: dict[ScaledDimension, list[Block]] = {}
    for dimension in findings.graded:
        figure = tables.level_figure(findings, dimension)
        if isinstance(figure, str):
            blocks[dimension] = [f"{findings.label(dimension)}: {DASH} {figure}."]
        else:
            table = tables.distribution_table(findings, dimension, findings.langs)
            blocks[dimension] = [figure, Fold("The numbers", [table])]
    main = [d for d in blocks if d.name == OVERALL] or list(blocks)
    rest = [blocks[d] for d in blocks if d not in main]
    shown = [block for d in main for block in blocks[d]]
    if rest:
        shown.append(Fold(f"{len(rest)} more dimensions", [b for each in rest for b in each]))
    heading = "Distribution of answers"
    return Section("distribution", heading, shown, link="Distribution")


def _label_section(findings: Findings, subsets: Sequence[tuple[str, list[Subset]]]) -> Section:
    """All shares and means with intervals; a sentence where nothing is labelled."""
    if not findings.survey.answered:
        return Section("labels", "Labels", [_NO_LABELS], "")
    blocks: list[Block] = []
    for what, some in (("Issues", findings.issues), ("Answers of 1", findings.other_shares)):
        if some:
            shares = [tables.share_table(findings, what, head, p, some) for head, p in subsets]
            blocks += folded(shares, 1)
    if graded := findings.graded:
        means = [tables.mean_table(findings, head, p, graded) for head, p in subsets]
        blocks += folded(means, 1)
    return Section("labels", "Labels", blocks)


def facts(findings: Findings) -> list[tuple[str, str]]:
    """How the figures were made, as (name, value) pairs."""
    survey = findings.survey
    pairs = [
        ("read", findings.name),
        ("rows", ", ".join(f"{n} at level {level}" for level, n in sorted(survey.levels.items()))),
        ("data", survey.data),
        ("sources", ", ".join(f"{name} ({n})" for name, n in survey.sources.most_common(20))),
        ("MTLD", f"threshold 0.72, at least 10 tokens a factor, mean of both directions; tokens "
         f"in lower case, punctuation left out. A dialogue without a value ({UNDEFINED}) is left "
         "out of the mean. Under 100 tokens a value is rough."),
        ("MTLD over", tables.tokens_note(findings).removeprefix("MTLD over: ")),
        ("run together", "dialogues in the order of the file as one text; the second pass reads "
         "each dialogue from its end, the dialogues in the same order"),
        ("several answers", f"{survey.repeated} rows have more than one answer to a question: "
         "their mean counts; an issue is present where it is 0.5 or more"),
        ("intervals", "95%: Wilson for shares where every row is a conversation of its own, else "
         "a jackknife that leaves out whole groups, with Student's t; "
         "Wilson over groups for shares of 0 and 100%"),
        ("version", f"medal-judges {__version__}"),
    ]  # fmt: skip
    if survey.weighting:
        pairs.append(("weights", survey.weighting))
    pairs += [("labels by", f"{by} ({n} rows)") for by, n in survey.labelled_by.most_common(20)]
    turns = survey.levels.get("turn", 0)
    cautions = [
        (turns, "turn level", "rows end at the turn that was judged: a conversation with several "
         "judged turns is counted as several dialogues, each up to its turn"),
        *(
            (len(names) if len(names) > MAX_NAMES else 0, what,
             f"names, more than {MAX_NAMES}: no tables by them")
            for what, names in (("chatbots", findings.names("chatbot")),
                                ("user models", findings.names("user")))
        ),
        (survey.failed, "failures", "rows lack labels: the judge gave none"),
        (survey.malformed, "malformed", "rows are marked malformed, and counted"),
        (survey.unreadable, "ends and tries", "rows have them in an unknown form: not counted"),
    ]  # fmt: skip
    return pairs + [(name, f"{n} {text}") for n, name, text in cautions if n]


def print_report(findings: Findings) -> None:
    """Print what a person wants to see first; the page and the CSV files have the rest."""
    overall = [d for d in findings.graded if d.name == OVERALL] or findings.graded[:3]
    issues = findings.issues
    shown: list[Table] = []
    for head, subsets in (("Language", findings.langs), ("Chatbot", findings.chatbots)):
        if not subsets:
            continue
        shown.append(tables.text_table(findings, head, subsets))
        if head == "Language":
            shown.append(tables.side_table(findings, head, subsets))
        if issues:
            shown.append(tables.share_table(findings, "Issues", head, subsets, issues))
        if overall:
            shown.append(tables.mean_table(findings, head, subsets, overall))
    unlabelled = "" if findings.survey.answered else "No row has a label."
    notes = [tables.tokens_note(findings), findings.survey.weighting or "", unlabelled]
    console.print_tables(shown, notes, piped=_PIPED, brief_from=_BRIEF)


_SUBSET = ("lang", "chatbot", "user")
_LEVEL = ("dimension", "scale", "level", "n", "rows", "share")
_LABEL = ("dimension", "scale", "figure", "n", "groups", "value", "low", "high", "method", "reason")
_TEXT = ("side", "figure", "unit", "n", "value", "reason")
Line = Sequence[object]


def _sheets(findings: Findings) -> dict[str, Table | Sheet]:
    """Every figure in full precision, one a line, by file name. An empty lang, chatbot or user
    means all; an empty value has a reason."""
    tools = sorted(findings.survey.lemmatisers.items())
    files: list[tuple[str, Sequence[str], Iterator[Line]]] = [
        ("texts", (*_SUBSET, *_TEXT), _text_lines(findings)),
        ("tokens", ("lang", "tokens"), ((lang, tool.name) for lang, tool in tools)),
        ("labels", (*_SUBSET, *_LABEL), _label_lines(findings)),
        ("levels", (*_SUBSET, *_LEVEL), _level_lines(findings)),
        (
            "ends",
            (*_SUBSET, "ended", "n", "share"),
            (
                (*_at(subset), ended, *ends)
                for subset in findings.subsets
                for ended, ends in sorted(findings.endings(subset).items())
            ),
        ),
        ("tries", (*_SUBSET, "turns", "n", "mean", "at_once", "most"), _try_lines(findings)),
        ("facts", ("fact", "value"), iter(facts(findings))),
    ]
    return {name: (head, lines) for name, head, lines in files}


def _at(subset: Subset) -> Line:
    return subset.lang, subset.chatbot, subset.user


def _text_lines(findings: Findings) -> Iterator[Line]:
    for subset in findings.subsets:
        n = findings.count(subset)
        lines: list[tuple[str, str, str, int, Estimate]] = []
        for side in SIDES:
            lines.append((side, "turns", "turns", n, findings.turns(subset, side)))
            for unit in findings.survey.units:
                turns = findings.count(subset, f"turns_{side}", unit)
                lines.append((side, "length", unit, turns, findings.length(subset, unit, side)))
            diverse = findings.count(subset, f"diverse_{side}")
            lines.append((side, "mtld", "tokens", diverse, findings.mtld(subset, side)))
        together = findings.survey.together(subset)
        lines.append(("all", "mtld run together", "tokens", n, together))
        for *about, e in lines:
            yield *_at(subset), *about, e.value, e.reason


def _label_lines(findings: Findings) -> Iterator[Line]:
    for subset in findings.subsets:
        for d in findings.survey.dimensions:
            figure = findings.figure(subset, d)
            e = figure.estimate
            kind = "share" if findings.survey.is_share(d) else "mean"
            about = (d.name, _scale(d), kind, figure.n, figure.groups)
            yield *_at(subset), *about, e.value, e.low, e.high, figure.method, e.reason


def _scale(dimension: ScaledDimension) -> str | None:
    return None if dimension.scale is None else "{:g} to {:g}".format(*dimension.scale)


def _level_lines(findings: Findings) -> Iterator[Line]:
    for subset in findings.subsets:
        for d in findings.graded:
            levels = findings.distribution(subset, d)
            if isinstance(levels, Distribution):
                cells = zip(levels.levels, levels.counts, levels.shares, strict=True)
                for level, count, share in cells:
                    yield *_at(subset), d.name, _scale(d), level, count, levels.n, share


def _try_lines(findings: Findings) -> Iterator[Line]:
    for subset in findings.subsets:
        for which in ("first", "later"):
            tries = findings.tries(subset, which)
            if tries.turns:
                once = tries.at_once.value
                yield *_at(subset), which, tries.turns, tries.mean.value, once, tries.most
