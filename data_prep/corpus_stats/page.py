"""Page: the statistics of a set as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Sequence

from medal_judges import __version__
from medal_judges.data_prep.corpus_stats.bars import distributions, issue_bars
from medal_judges.data_prep.corpus_stats.findings import MAX_NAMES, Findings
from medal_judges.data_prep.corpus_stats.heatmaps import heatmaps
from medal_judges.data_prep.corpus_stats.mtld import UNDEFINED
from medal_judges.data_prep.corpus_stats.part import NOT_STATED, Part
from medal_judges.data_prep.corpus_stats.tables import (
    ending_table,
    mean_table,
    share_table,
    side_table,
    text_table,
    tokens_note,
    tries_table,
)
from medal_judges.report.further_tables import table_html
from medal_judges.report.markup import details, section
from medal_judges.report.provenance import fact_section
from medal_judges.report.shell import whole_page
from medal_judges.stats.results import Table

_NAVIGATION = (
    ("texts", "Texts"),
    ("heatmaps", "Chatbots by languages"),
    ("bars", "Issues by language"),
    ("distribution", "Distribution"),
    ("labels", "Labels"),
    ("course", "Ends and tries"),
    ("facts", "How it was made"),
)
_PAIRS = "Language and chatbot"
_TEXTS = (
    "Turns per dialogue; words per turn (what stands between spaces), and for languages written "
    "without spaces the characters per turn. MTLD is the mean over the dialogues, each read as one "
    "text; run together, all dialogues of a language are one text. A row over several "
    "languages averages the dialogues of all of them."
)


def render(findings: Findings) -> str:
    """The whole page as text; the same bytes for the same findings."""
    sections = (
        _texts(findings)
        + heatmaps(findings)
        + issue_bars(findings)
        + distributions(findings)
        + _labels(findings)
        + _course(findings)
        + fact_section(facts(findings))
    )
    title = f"Statistics of {findings.name}"
    return whole_page(title, _said(findings), _NAVIGATION, sections)


def _said(findings: Findings) -> str:
    survey = findings.survey
    counts = [
        (sum(survey.levels.values()), "dialogue"),
        (len(survey.langs), "language"),
        (len([name for name in survey.chatbots if name != NOT_STATED]), "chatbot"),
        (survey.labels.answered, "labelled row"),
    ]
    return " · ".join(f"{n:,} {name}{'' if n == 1 else 's'}" for n, name in counts)


def by_parts(findings: Findings) -> list[tuple[str, list[Part]]]:
    """(Head, parts) of the tables: languages, chatbots, user models, pairs; none that is empty."""
    found = [
        ("Language", findings.langs),
        ("Chatbot", findings.chatbots),
        ("User model", findings.users),
        (_PAIRS, findings.pairs if len(findings.langs) > 1 else []),
    ]
    return [(head, parts) for head, parts in found if parts]


def _texts(findings: Findings) -> str:
    parts = by_parts(findings)
    single = [(head, p) for head, p in parts if head != _PAIRS]
    tables = [text_table(findings, head, p) for head, p in single]
    tables += [side_table(findings, head, p) for head, p in single]
    tables += [text_table(findings, head, p) for head, p in parts if head == _PAIRS]
    return section("texts", "Dialogues and texts", _folded(tables, len(single)), _TEXTS)


def _folded(tables: Sequence[Table], in_sight: int) -> str:
    body = "".join(table_html(table, 1) for table in tables[:in_sight])
    return body + "".join(details(t.title, table_html(t, 1)) for t in tables[in_sight:])


def _labels(findings: Findings) -> str:
    """All shares and means with intervals; a sentence where nothing is labelled."""
    if not findings.survey.labels.answered:
        body = '<p class="note">No row has a label: there are no issues and no scores to count.</p>'
        return section("labels", "Labels", body)
    parts = by_parts(findings)
    groups = [
        [share_table(findings, "Issues", head, p, findings.issues) for head, p in parts]
        if findings.issues
        else [],
        [share_table(findings, "Answers of 1", head, p, findings.other_shares) for head, p in parts]
        if findings.other_shares
        else [],
        [mean_table(findings, head, p, findings.graded) for head, p in parts]
        if findings.graded
        else [],
    ]
    lead = "Every share and mean of the figures above, with its 95% interval."
    return section("labels", "Labels", "".join(_folded(g, 1) for g in groups), lead)


def _course(findings: Findings) -> str:
    parts = by_parts(findings)
    endings = [t for head, p in parts if (t := ending_table(findings, head, p))]
    tries = [t for head, p in parts if (t := tries_table(findings, head, p))]
    body = _folded(endings, 1) + _folded(tries, 1)
    lead = (
        "As recorded by the generation: how dialogues ended, and how often a user turn was tried."
    )
    return section("course", "Ends and tries", body, lead)


def facts(findings: Findings) -> list[tuple[str, str]]:
    """How the figures were made, as (name, value) pairs."""
    survey, labels = findings.survey, findings.survey.labels
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
        ("several answers", f"{labels.repeated} rows have more than one answer to a question: "
         "their mean counts; an issue is present where it is 0.5 or more"),
        ("intervals", "95%: Wilson for shares where every row is a conversation of its own, else "
         "a jackknife that leaves out whole groups, with Student's t; "
         "Wilson over groups for shares of 0 and 100%"),
        ("version", f"medal-judges {__version__}"),
    ]  # fmt: skip
    if survey.weighting:
        pairs.append(("weights", survey.weighting))
    judges = [("labels by", f"{by} ({n} rows)") for by, n in survey.labelled_by.most_common(20)]
    return [*pairs, *judges, *_cautions(findings)]


def _cautions(findings: Findings) -> list[tuple[str, str]]:
    survey = findings.survey
    found = []
    turns = survey.levels.get("turn", 0)
    if turns:
        found.append(
            ("turn level", f"{turns} rows end at the turn that was judged: a conversation with "
             "several judged turns is counted as several dialogues, each up to its turn")
        )  # fmt: skip
    for what, names in (("chatbots", survey.chatbots), ("user models", survey.users)):
        if len(names) > MAX_NAMES:
            found.append((what, f"{len(names)} names, more than {MAX_NAMES}: no tables by them"))
    if survey.failed:
        found.append(("failures", f"{survey.failed} rows lack labels: the judge gave none"))
    if survey.malformed:
        found.append(("malformed", f"{survey.malformed} rows are marked malformed, and counted"))
    odd = survey.course(Part()).unreadable
    if odd:
        found.append(("ends and tries", f"{odd} rows have them in an unknown form: not counted"))
    return found
