"""Native against translated dialogues (MEDAL, section 3.2 and appendix C.5): pairs, a prompted
judge's verdicts on each criterion in both orders, and win, tie and loss rates with 95% intervals.

Pairs of one seed context resemble each other (other languages, other chatbots), so the intervals
come from a jackknife over contexts. If each context has one pair, a share has Wilson's interval; so
has, with one trial a context, a share on which all pairs agree.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from medal_judges.data_prep.jobs import (
    JsonJob,
    JsonJobsConfig,
    JsonRunner,
    UnusableError,
)
from medal_judges.errors import MedalError
from medal_judges.models.prompted.prompt import transcript
from medal_judges.records.labelled import LabelledDialogue
from medal_judges.records.languages import language
from medal_judges.report.console import rich_table, wide_console
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import Block, Section, counted, facts_section, write_page
from medal_judges.report.table import Row, Table
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, LOGIT, Clusters, wilson, with_intervals
from medal_judges.storage.files import atomic_write
from medal_judges.storage.jsonl import write_records

# One answer: ``choice`` (native or translated), or None and the ``failure``; and the ``reason``.
Answer = dict[str, str | None]
Verdict = dict[str, Any]
Key = tuple[str, str, str, str]
_W = r"\W{0,20}"
_LETTER = re.compile(rf"\A{_W}(?:(?:conversation|dialogue){_W})?([ab]){_W}\Z", re.IGNORECASE)


class CompareConfig(JsonJobsConfig):
    """``criteria``: name -> question for the judge."""

    prompt: str = "compare_native"
    criteria: dict[str, str] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class NativePair:
    """Two dialogues that differ in how they were made. ``group`` is their seed context's."""

    group: str
    lang: str
    user: str
    chatbot: str
    native: LabelledDialogue
    translated: LabelledDialogue

    @property
    def id(self) -> str:
        """Context, language, user and chatbot, unique to the pair."""
        return f"{self.group}--{self.lang}--{self.user}--{self.chatbot}"


def paired(
    native: Iterable[LabelledDialogue], translated: Iterable[LabelledDialogue]
) -> tuple[list[NativePair], int, int]:
    """Pairs of rows that agree in group, language, user and chatbot, in the order of the translated
    ones; and how many native and translated rows have no partner. Native rows in languages without
    any translation (the English ones) do not count.

    Raises MedalError for two rows of one side with the same four, for a dialogue that is on both
    sides, and if nothing matches.
    """

    def by_key(rows: Iterable[LabelledDialogue], side: str) -> dict[Key, LabelledDialogue]:
        keyed: dict[Key, LabelledDialogue] = {}
        for row in rows:
            models = row.dialogue.models
            speakers = models.get("user") or "", models.get("assistant") or ""
            same = keyed.setdefault((row.group, row.dialogue.lang, *speakers), row)
            if same is not row:
                raise MedalError(
                    f"{side} rows {same.id!r} and {row.id!r} have the same context, language, user "
                    "and chatbot: it is not clear which one to compare",
                    hint="leave one of them out",
                )
        return keyed

    theirs = by_key(translated, "translated")
    langs = {key[1] for key in theirs}
    ours = by_key((row for row in native if row.dialogue.lang in langs), "native")
    pairs = [NativePair(*key, ours[key], row) for key, row in theirs.items() if key in ours]
    if not pairs:
        raise MedalError(
            "no native dialogue has the context, language, user and chatbot of a translated one",
            hint="give the file of `medal generate` and its translation by `medal data translate`",
        )
    if same := [pair.native.id for pair in pairs if pair.native.id == pair.translated.id]:
        raise MedalError(
            f"{len(same)} dialogues, such as {same[0]!r}, are both native and translated",
            hint="give two files: native ones first, then those of `medal data translate`",
        )
    return pairs, len(ours) - len(pairs), len(theirs) - len(pairs)


class PairQuestion(JsonJob):
    """Which dialogue of ``pair`` is better by the ``criterion``, a question of ``config``."""

    def __init__(
        self, pair: NativePair, criterion: str, config: CompareConfig, *, native_first: bool
    ) -> None:
        order = "native first" if native_first else "translated first"
        super().__init__(f"{criterion}--{pair.id}--{pair.native.id}--{pair.translated.id}--{order}")
        self.pair, self.native_first, self.criterion = pair, native_first, criterion
        self.asked = config.criteria[criterion]

    def question(self) -> tuple[Mapping[str, str | None], Mapping[str, object]]:
        pair = self.pair
        shown = [transcript(row.dialogue.turns) for row in (pair.native, pair.translated)]
        first, second = shown if self.native_first else reversed(shown)
        country = pair.native.dialogue.context.get("country")
        values = {
            "language": language(pair.lang).name,
            "country": str(country) if country else None,
            "question": self.asked,
            "first": first,
            "second": second,
        }
        # The reason comes first: a choice that follows from it is better than one it defends.
        properties = {
            "reason": {"type": "string"},
            "better": {"type": "string", "enum": ["A", "B"]},
        }
        return values, properties

    def read(self, fields: Mapping[str, object]) -> Answer:
        better, reason = fields.get("better"), fields.get("reason")
        if not isinstance(better, str):
            raise UnusableError("the entry 'better' is missing or no text")
        letter = _LETTER.match(better)
        if letter is None:
            raise UnusableError(f"'better' names neither A nor B: {better[:40]!r}")
        native = (letter[1].upper() == "A") == self.native_first
        why = " ".join(reason.split()) if isinstance(reason, str) else ""
        return {"choice": "native" if native else "translated", "reason": why, "failure": None}


def result_of(*answers: Answer) -> Literal["win", "tie", "loss"] | None:
    """Of the native dialogue: win or loss if both answers agree, else tie; None if an answer is
    missing (MEDAL, appendix C.5)."""
    choices = {answer["choice"] for answer in answers}
    if None in choices:
        return None
    return "tie" if len(choices) > 1 else "win" if choices == {"native"} else "loss"


def comparer(config: CompareConfig, **options: Any) -> JsonRunner:
    """The runner that compares; ``options`` as for JsonRunner."""
    shown = ("language", "country", "question", "first", "second")
    what = "native against translated"
    return JsonRunner(config, what, shown, prompts=config.criteria, **options)


def pair_questions(config: CompareConfig, pairs: Sequence[NativePair]) -> list[PairQuestion]:
    """The questions, criterion by criterion; the two orders of a pair are neighbours."""
    return [
        PairQuestion(pair, name, config, native_first=order)
        for name in config.criteria
        for pair in pairs
        for order in (True, False)
    ]


def compare(
    runner: JsonRunner,
    questions: Sequence[PairQuestion],
    out: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> list[Verdict]:
    """A line of verdicts.jsonl for each pair and criterion: both answers, by the dialogue shown
    first, and the result. Also written to the file ``out``. An unusable answer is a failure with
    its reason, never a tie; the next run asks for it again.

    Raises MedalError if ``out`` holds verdicts of another judge.
    """
    runner.finish(questions, out, overwrite=overwrite, progress=progress)
    answers: list[Answer] = [
        each.value or {"choice": None, "reason": "", "failure": runner.failure(each)}
        for each in questions
    ]
    verdicts: list[Verdict] = [
        {
            "id": each.pair.id,
            "criterion": each.criterion,
            "group": each.pair.group,
            "lang": each.pair.lang,
            "native": each.pair.native.id,
            "translated": each.pair.translated.id,
            "native_first": first,
            "translated_first": second,
            "judge": runner.made_by,
            "result": result_of(first, second),
        }
        for each, first, second in zip(questions[::2], answers[::2], answers[1::2], strict=True)
    ]
    write_records(out, verdicts)
    return verdicts


ALL = "all"
FIGURES = {
    "win": "Win",
    "tie": "Tie",
    "loss": "Loss",
    "net": "Win − loss",
    "first_shown": "First shown",
}
_OUTCOMES: dict[str, tuple[str, Tone]] = {
    "win": ("native better", ("pos", 100)),
    "tie": ("tie", ("pos", 0)),
    "loss": ("translated better", ("neg", 100)),
}
_COLUMNS = ("Language", "Pairs", "Scored", "Contexts", *FIGURES.values())
_PRINTED = ("Language", "Pairs", "Scored", "Win", "Tie", "Loss", "Win − loss", "First shown")
_LEAD = (
    "Share of the pairs in which a judge prefers the dialogue written in the language to the one "
    "translated from English, on the same seed context. Each pair is shown in both orders: a side "
    "wins if it is chosen both times, and all else is a tie."
)
_NOTE = (
    "Shares of the scored pairs, with 95% intervals: Wilson's if each context has one pair; if "
    "several pairs share one (languages, chatbots), a jackknife over contexts, and for a share of "
    "0 or 1 Wilson's with one trial a context. Win − loss and First shown always have the "
    "jackknife's. Tie: the judge changed its answer when the order changed. First shown: share of "
    "its answers for the dialogue shown first; 0.5 means no bias."
)


@dataclass(frozen=True, slots=True)
class Rates:
    """One criterion and language (or ``all``).

    ``figures``: ``win``, ``tie`` and ``loss`` are shares of the scored pairs, ``first_shown`` is
    the share of answers that chose the dialogue shown first, ``net`` is win minus loss.
    ``unscored`` counts reasons, the most frequent first.
    """

    criterion: str
    lang: str
    pairs: int
    scored: int
    contexts: int
    figures: dict[str, Estimate]
    unscored: dict[str, int]


def rates(verdicts: Sequence[Verdict]) -> list[Rates]:
    """For each criterion: each language by code, then all if there are several."""
    listed = []
    for criterion in dict.fromkeys(v["criterion"] for v in verdicts):
        mine = [v for v in verdicts if v["criterion"] == criterion]
        langs = sorted({v["lang"] for v in mine})
        parts = {lang: [v for v in mine if v["lang"] == lang] for lang in langs}
        for lang, part in (parts | ({ALL: mine} if len(langs) > 1 else {})).items():
            scored = [v for v in part if v["result"] is not None]
            contexts = len({v["group"] for v in scored})
            failures = Counter(
                v["native_first"]["failure"] or v["translated_first"]["failure"] or "no answer came"
                for v in part
                if v["result"] is None
            )
            counts = (len(part), len(scored), contexts)
            figures = _figures(scored, contexts)
            listed.append(Rates(criterion, lang, *counts, figures, dict(failures.most_common())))
    return listed


def _figures(scored: Sequence[Verdict], contexts: int) -> dict[str, Estimate]:
    if not scored:
        return dict.fromkeys(FIGURES, Estimate(None, reason="no pair was scored"))
    choices = [(v["native_first"]["choice"], v["translated_first"]["choice"]) for v in scored]
    values = {  # one number a pair, whose mean is the figure
        name: np.array([float(v["result"] == name) for v in scored])
        for name in ("win", "tie", "loss")
    }
    first = [((one == "native") + (other == "translated")) / 2 for one, other in choices]
    values["first_shown"] = np.array(first)
    values["net"] = values["win"] - values["loss"]
    plain = {name: Estimate(float(column.mean())) for name, column in values.items()}

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        return {name: weights @ column / total for name, column in values.items()}

    clusters = Clusters("conversation", tuple(v["group"] for v in scored))
    figures = with_intervals(plain, statistic, clusters, lambda n: FISHER if n == "net" else LOGIT)
    for name in ("win", "tie", "loss"):  # each pair is in or out
        share = float(values[name].mean())
        if contexts == len(scored) or share in (0, 1):
            low, high = wilson(share * contexts, contexts)
            figures[name] = replace(plain[name], low=low, high=high)
    return figures


def write_report(rates: Sequence[Rates], facts: Mapping[str, str], folder: Path) -> Path:
    """Write results.json, report.html, its tables and figures; returns the path of the page."""
    record = {"facts": dict(facts), "rates": [asdict(one) for one in rates]}
    text = json.dumps(record, ensure_ascii=False, indent=1, allow_nan=False) + "\n"
    atomic_write(folder / "results.json", text)
    sections, figures, tables = [], {}, {}
    for i, (name, part) in enumerate(_by_criterion(rates).items()):
        anchor = f"criterion-{i}"
        bars = []
        for one in part:
            segments = [
                BarSegment(share, tone, f"{100 * share:.0f}%", f"{one.lang}: {outcome} {share:.1%}")
                for key, (outcome, tone) in _OUTCOMES.items()
                if (share := one.figures[key].value)
            ]
            bars.append(Bar(one.lang, segments))
        description = f"{name}: win, tie and loss by language, numbers in the table"
        panel = Bars("", bars, 1.0, description, wide=True)
        legend = list(_OUTCOMES.values())
        figures[anchor] = Figure(name, [panel], legend=legend, legend_name="Outcomes")
        tables[anchor] = _table(name, part)
        blocks: list[Block] = [figures[anchor], tables[anchor], *_unscored(part), _NOTE]
        sections.append(Section(anchor, name, blocks, _LEAD, link=name.capitalize()))
    langs = {one.lang for one in rates} - {ALL}
    return write_page(
        folder / "report.html",
        "Native against translated",
        f"{len(sections)} criteria · {counted([(len(langs), 'language')])}",
        [*sections, facts_section(facts.items())],
        tables=tables,
        figures=figures,
    )


def print_rates(rates: Sequence[Rates]) -> None:
    """One table a criterion, one row a language, and why pairs were not scored."""
    console = wide_console(piped=140)
    for name, part in _by_criterion(rates).items():
        console.print(rich_table(_table(name, part), _PRINTED))
        for line in _unscored(part):
            console.print(f"{name}, {line}", style="dim", highlight=False)


def _by_criterion(rates: Sequence[Rates]) -> dict[str, list[Rates]]:
    names = dict.fromkeys(one.criterion for one in rates)
    return {name: [one for one in rates if one.criterion == name] for name in names}


def _unscored(rates: Sequence[Rates]) -> list[str]:
    return [
        f"{one.lang}: {count} unscored: {reason}"
        for one in rates
        if one.lang != ALL
        for reason, count in one.unscored.items()
    ]


def _table(name: str, rates: Sequence[Rates]) -> Table:
    rows: list[Row] = [
        (one.lang, one.pairs, one.scored, one.contexts, *(one.figures[key] for key in FIGURES))
        for one in rates
    ]
    title, has_total = f"{name}: native against translated", rates[-1].lang == ALL
    return Table(title, _COLUMNS, rows, pinned={-1: "total"} if has_total else {})
