"""Report: the page, the CSV files and the PNG figures of the statistics, and what is printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from medal_judges import __version__
from medal_judges.data_prep.corpus_stats.charts import (
    heat_figure,
    highest_share,
    issue_figure,
    level_figure,
)
from medal_judges.data_prep.corpus_stats.findings import (
    MAX_NAMES,
    OVERALL,
    Distribution,
    Findings,
)
from medal_judges.data_prep.corpus_stats.mtld import UNDEFINED
from medal_judges.data_prep.corpus_stats.survey import NOT_STATED, SIDES, Part, ScaledDimension
from medal_judges.data_prep.corpus_stats.tables import (
    distribution_table,
    ending_table,
    mean_table,
    share_table,
    side_table,
    text_table,
    tokens_note,
    tries_table,
)
from medal_judges.report import console
from medal_judges.report.figure import Figure
from medal_judges.report.numbers import DASH, number
from medal_judges.report.page import (
    Block,
    Fold,
    Section,
    counted,
    facts_section,
    folded,
    render_page,
)
from medal_judges.report.png import write_png
from medal_judges.report.table import Table, unique_slugs, write_csv

_PAIRS = "Language and chatbot"
_BRIEF = 7  # columns from which on intervals are left to the page and the CSV files
_PIPED = 160  # these tables have more columns than others
_TEXTS = (
    "Turns per dialogue; words per turn (what stands between spaces), and for languages written "
    "without spaces the characters per turn. MTLD is the mean over the dialogues, each read as one "
    "text; run together, all dialogues of a language are one text. A row over several "
    "languages averages the dialogues of all of them."
)
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
_ISSUES = (
    "Percent of the dialogues of a language in which the issue is present, with 95% "
    "intervals. Every panel has its own axis."
)
_LEVELS = (
    "Percent of the rows at each level, by language: orange the lower half of the scale, blue "
    "the upper half. The table under each figure has the numbers."
)
_LABELS = "Every share and mean of the figures above, with its 95% interval."
_NO_LABELS = "No row has a label: there are no issues and no scores to count."
_COURSE = "As recorded by the generation: how dialogues ended, and how often a user turn was tried."


def write_report(findings: Findings, folder: Path) -> Path:
    """Write stats.html, tables/*.csv and figures/*.png under ``folder``; path of the page.

    Raises MissingExtraError, after page and tables are written, where matplotlib is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "stats.html"
    path.write_text(render(findings), encoding="utf-8", newline="\n")
    write_tables(findings, folder / "tables")
    overall = [d for d in findings.graded if d.name == OVERALL]
    named = [("heatmaps", _maps(findings, [*findings.issues, *overall]))]
    named.append(("issues", issue_figure(findings)))
    named += [(findings.label(d), level_figure(findings, d)) for d in findings.graded]  # type: ignore[misc]
    drawn = [(name, figure) for name, figure in named if isinstance(figure, Figure)]
    slugs = unique_slugs([name for name, _ in drawn])
    figures = {slug: figure for slug, (_, figure) in zip(slugs, drawn, strict=True)}
    write_png(figures, folder / "figures")
    return path


def render(findings: Findings) -> str:
    """The whole page as text; the same bytes for the same findings."""
    survey = findings.survey
    parts = _by_parts(findings)
    counts = [
        (sum(survey.levels.values()), "dialogue"),
        (len(findings.langs), "language"),
        (len([name for name in findings.chatbot_names if name != NOT_STATED]), "chatbot"),
        (survey.answered, "labelled row"),
    ]
    single = [(head, p) for head, p in parts if head != _PAIRS]
    texts = [text_table(findings, head, p) for head, p in single]
    texts += [side_table(findings, head, p) for head, p in single]
    texts += [text_table(findings, head, p) for head, p in parts if head == _PAIRS]
    issues = issue_figure(findings)
    endings = [t for head, p in parts if (t := ending_table(findings, head, p))]
    tries = [t for head, p in parts if (t := tries_table(findings, head, p))]
    sections = (
        Section("texts", "Dialogues and texts", folded(texts, len(single)), _TEXTS, link="Texts"),
        _map_section(findings),
        Section("bars", "Issues by language", [] if issues is None else [issues], _ISSUES),
        _level_section(findings),
        _label_section(findings, parts),
        Section("course", "Ends and tries", folded(endings, 1) + folded(tries, 1), _COURSE),
        facts_section(facts(findings)),
    )
    return render_page(f"Statistics of {findings.name}", counted(counts), sections)


def _by_parts(findings: Findings) -> list[tuple[str, list[Part]]]:
    """(Head, parts) of the tables: languages, chatbots, user models, pairs; none that is empty."""
    parts = [
        ("Language", findings.langs),
        ("Chatbot", findings.chatbots),
        ("User model", findings.users),
        (_PAIRS, findings.pairs if len(findings.langs) > 1 else []),
    ]
    return [(head, some) for head, some in parts if some]


def _maps(findings: Findings, dimensions: Sequence[ScaledDimension]) -> Figure | None:
    """Heat maps; None where no chatbot is named or nothing is labelled."""
    return heat_figure(findings, dimensions) if findings.chatbots and dimensions else None


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
    top = number(100 * highest_share(findings), 1)
    lead = _MAPS.format(top=top) if findings.issues else _OTHER_MAPS
    return Section("heatmaps", "Chatbots by languages", blocks, lead)


def _level_section(findings: Findings) -> Section:
    """Stacked bars, overall in sight and further dimensions in a fold."""
    blocks: dict[ScaledDimension, list[Block]] = {}
    for dimension in findings.graded:
        figure = level_figure(findings, dimension)
        if isinstance(figure, str):
            blocks[dimension] = [f"{findings.label(dimension)}: {DASH} {figure}."]
        else:
            table = distribution_table(findings, dimension, findings.langs)
            blocks[dimension] = [figure, Fold("The numbers", [table])]
    main = [d for d in blocks if d.name == OVERALL] or list(blocks)
    rest = [blocks[d] for d in blocks if d not in main]
    shown = [block for d in main for block in blocks[d]]
    if rest:
        shown.append(Fold(f"{len(rest)} more dimensions", [b for each in rest for b in each]))
    heading = "Distribution of answers"
    return Section("distribution", heading, shown, _LEVELS, link="Distribution")


def _label_section(findings: Findings, parts: Sequence[tuple[str, list[Part]]]) -> Section:
    """All shares and means with intervals; a sentence where nothing is labelled."""
    if not findings.survey.answered:
        return Section("labels", "Labels", [_NO_LABELS])
    blocks: list[Block] = []
    for what, dimensions in (("Issues", findings.issues), ("Answers of 1", findings.other_shares)):
        if dimensions:
            tables = [share_table(findings, what, head, p, dimensions) for head, p in parts]
            blocks += folded(tables, 1)
    if findings.graded:
        blocks += folded([mean_table(findings, head, p, findings.graded) for head, p in parts], 1)
    return Section("labels", "Labels", blocks, _LABELS)


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
        ("MTLD over", tokens_note(findings).removeprefix("MTLD over: ")),
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
            for what, names in (("chatbots", findings.chatbot_names),
                                ("user models", findings.user_names))
        ),
        (survey.failed, "failures", "rows lack labels: the judge gave none"),
        (survey.malformed, "malformed", "rows are marked malformed, and counted"),
        (survey.unreadable, "ends and tries", "rows have them in an unknown form: not counted"),
    ]  # fmt: skip
    return pairs + [(name, f"{n} {text}") for n, name, text in cautions if n]


def print_report(findings: Findings) -> None:
    """Print what a person wants to see first; the page and the CSV files have the rest."""
    overall = [d for d in findings.graded if d.name == OVERALL] or findings.graded[:3]
    tables: list[Table] = []
    for head, parts in (("Language", findings.langs), ("Chatbot", findings.chatbots)):
        if not parts:
            continue
        tables.append(text_table(findings, head, parts))
        if head == "Language":
            tables.append(side_table(findings, head, parts))
        if findings.issues:
            tables.append(share_table(findings, "Issues", head, parts, findings.issues))
        if overall:
            tables.append(mean_table(findings, head, parts, overall))
    unlabelled = "" if findings.survey.answered else "No row has a label."
    notes = [tokens_note(findings), findings.survey.weighting or "", unlabelled]
    console.print_tables(tables, notes, piped=_PIPED, brief_from=_BRIEF)


_PART = ("lang", "chatbot", "user")
_LEVEL = ("dimension", "scale", "level", "n", "rows", "share")
_LABEL = ("dimension", "scale", "figure", "n", "groups", "value", "low", "high", "method", "reason")
_TEXT = ("side", "figure", "unit", "n", "value", "reason")
Line = Sequence[object]


def write_tables(findings: Findings, folder: Path) -> list[Path]:
    """Write every figure as CSV in full precision, one a line; paths as written. An empty lang,
    chatbot or user stands for all, an empty value has a reason."""
    tools = sorted(findings.survey.lemmatisers.items())
    tables: list[tuple[str, Sequence[str], Iterator[Line]]] = [
        ("texts", (*_PART, *_TEXT), _text_lines(findings)),
        ("tokens", ("lang", "tokens"), ((lang, tool.name) for lang, tool in tools)),
        ("labels", (*_PART, *_LABEL), _label_lines(findings)),
        ("levels", (*_PART, *_LEVEL), _level_lines(findings)),
        ("ends", (*_PART, "ended", "n", "share"), _end_lines(findings)),
        ("tries", (*_PART, "turns", "n", "mean", "at_once", "most"), _try_lines(findings)),
        ("facts", ("fact", "value"), iter(facts(findings))),
    ]
    return [write_csv(folder / f"{name}.csv", head, lines) for name, head, lines in tables]


def _at(part: Part) -> Line:
    return part.lang, part.chatbot, part.user


def _text_lines(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        texts, at = findings.texts(part), _at(part)
        n = texts.dialogues
        for side in SIDES:
            figures = [("turns", "turns", n, texts.mean_turns(side))]
            figures += [
                ("length", unit, texts.turns(unit, side), texts.mean_length(unit, side))
                for unit in findings.survey.units
            ]
            figures.append(("mtld", "tokens", texts.diverse(side), texts.mean_mtld(side)))
            for *about, e in figures:
                yield *at, side, *about, e.value, e.reason
        together = findings.survey.together(part)
        yield *at, "all", "mtld run together", "tokens", n, together.value, together.reason


def _label_lines(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        for d in findings.survey.dimensions:
            figure = findings.figure(part, d)
            e = figure.estimate
            kind = "share" if findings.survey.is_share(d) else "mean"
            about = (d.name, _scale(d), kind, figure.n, figure.groups)
            yield *_at(part), *about, e.value, e.low, e.high, figure.method, e.reason


def _scale(dimension: ScaledDimension) -> str | None:
    return None if dimension.scale is None else "{:g} to {:g}".format(*dimension.scale)


def _level_lines(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        for d in findings.graded:
            levels = findings.distribution(part, d)
            if isinstance(levels, Distribution):
                cells = zip(levels.levels, levels.counts, levels.shares, strict=True)
                for level, count, share in cells:
                    yield *_at(part), d.name, _scale(d), level, count, levels.n, share


def _end_lines(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        course = findings.course(part)
        for ended, n in sorted(course.ended.items()):
            yield *_at(part), ended, n, course.shares[ended]


def _try_lines(findings: Findings) -> Iterator[Line]:
    for part in findings.parts:
        course = findings.course(part)
        for name, tries in (("first", course.first), ("later", course.later)):
            if tries.turns:
                once = tries.at_once.value
                yield *_at(part), name, tries.turns, tries.mean.value, once, tries.most
