"""Native against translated dialogues (MEDAL, section 3.2 and appendix C.5): translation by a
prompted model, and a comparison by a prompted judge, with win, tie and loss rates.

The judge sees each pair in both orders, on each criterion. Pairs of one seed context (in other
languages, with other chatbots) resemble each other, so the 95% intervals come from a jackknife over
contexts. A share has Wilson's interval if each context has one pair, and also, with one trial a
context, if all pairs agree.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from medal_judges.data_prep.jobs import JsonJob, JsonJobsConfig, JsonRunner, UnusableError, beside
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.prompted.prompt import transcript
from medal_judges.reading.language_detection import LanguageIdentifier
from medal_judges.records.dialogue import language, load_languages
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.report.console import rich_table, wide_console
from medal_judges.report.figure import Bar, Bars, BarSegment, Figure, Tone
from medal_judges.report.page import Block, Section, counted, facts_section, write_page
from medal_judges.report.table import Pin, Row, Table
from medal_judges.stats.correlation import Floats
from medal_judges.stats.estimate import Estimate
from medal_judges.stats.intervals import FISHER, LOGIT, Clusters, wilson, with_intervals
from medal_judges.storage.files import write_json
from medal_judges.storage.jsonl import Journal, write_records

_UNCHANGED_FROM = 5  # words; shorter turns may read the same in two languages
_SURE, _LETTERS = 0.9, 10  # least confidence in another language, and letters of a turn
_WORD = re.compile(r"[^\W\d_]")
_W = r"\W{0,20}"
_LETTER = re.compile(rf"\A{_W}(?:(?:conversation|dialogue){_W})?([ab]){_W}\Z", re.IGNORECASE)


class TranslateConfig(JsonJobsConfig):
    """Settings of ``medal data translate``. ``check_language``: reject turns in another language,
    if the extra lang is installed."""

    what: ClassVar[str] = "translation"
    placeholders: ClassVar[tuple[str, ...]] = ("language", "dialogue")
    prompt: str = "translate"
    check_language: bool = True


class Translation(JsonJob):
    """The translation of one dialogue into ``lang``; its value is the text of each turn. ``check``
    rejects turns in another language."""

    def __init__(
        self, row: LabelledDialogue, lang: str, check: LanguageIdentifier | None = None
    ) -> None:
        super().__init__(f"{row.id}--in-{lang}")
        self.row, self.lang, self.source = row, lang, row.dialogue.turns
        self.check = check if check is not None and lang in check.known else None
        self.keys = [f"{i}_{turn.role}" for i, turn in enumerate(self.source, 1)]

    def question(self) -> tuple[Mapping[str, str | None], Mapping[str, object]]:
        shown = {key: turn.content for key, turn in zip(self.keys, self.source, strict=True)}
        values = {
            "language": language(self.lang).name,
            "dialogue": json.dumps(shown, ensure_ascii=False, indent=1),
        }
        return values, {key: {"type": "string"} for key in self.keys}

    def read(self, fields: Mapping[str, Any]) -> list[str]:
        if missing := [key for key in self.keys if key not in fields]:
            raise UnusableError(f"the entry {missing[0]!r} is missing")
        if unknown := [key for key in fields if key not in self.keys]:
            raise UnusableError(f"there is an unexpected entry {unknown[0]!r}")
        texts = []
        for number, (key, turn) in enumerate(zip(self.keys, self.source, strict=True), 1):
            text, where = fields[key], f"turn {number} ({turn.role})"
            if not isinstance(text, str):
                raise UnusableError(f"{where} is not a text")
            text = text.strip()
            if bool(text) != bool(turn.content.strip()):
                raise UnusableError(f"{where} is {'not ' if text else ''}empty")
            if _WORD.search(turn.content) and not _WORD.search(text):
                raise UnusableError(f"{where} has no word in it")
            words = turn.content.casefold().split()
            if len(words) >= _UNCHANGED_FROM and text.casefold().split() == words:
                raise UnusableError(f"{where} was left in the original language")
            if self.check is not None and len(_WORD.findall(text)) >= _LETTERS:
                found, chance = next(iter(self.check.chances(text).items()))
                if found != self.lang and chance >= _SURE:
                    names = load_languages()
                    other = names[found].name if found in names else repr(found)
                    raise UnusableError(f"{where} is in {other}, not in {language(self.lang).name}")
            texts.append(text)
        return texts


def translate(
    runner: JsonRunner,
    translations: Sequence[Translation],
    out: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Counter[str]:
    """Write the translations to ``out``, after the rows of earlier runs, and the failed ones to
    ``x.failed.jsonl`` with the reason. Returns the reasons. The next run tries the failed ones
    again.

    A translation has the roles, speakers, context, group and split of its source, but no labels.
    Raises MedalError if ``out`` holds rows of another translator.
    """
    runner.finish(translations, out, overwrite=overwrite, progress=progress)
    good: list[LabelledDialogue] = []
    if out.exists() and not overwrite:
        records = Journal(out).records(parse_labelled)
        good = [row for row in records if row.id not in runner.jobs]
    failed = []
    for each in translations:
        dialogue = replace(each.row.dialogue, id=each.id)
        extra: dict[str, Any] = {"translated_from": each.row.id}
        if (reason := runner.failure(each)) is not None:
            extra |= {"to": each.lang, "failure": reason, "tries": each.tries}
            failed.append(LabelledDialogue(dialogue, {}, {}, extra=extra))
            continue
        extra |= {"translated_by": runner.made_by, "tries": each.tries}
        extra["language_checked"] = each.check is not None
        pairs = zip(each.source, each.value, strict=True)
        turns = tuple(replace(turn, content=text) for turn, text in pairs)
        dialogue = replace(
            dialogue, lang=each.lang, turns=turns, source="medal-translated", meta={}
        )
        split, group = each.row.split, each.row.group
        good.append(LabelledDialogue(dialogue, {}, {}, split=split, group=group, extra=extra))
    write_records(out, good)
    beside(out, "failed").unlink(missing_ok=True)
    if failed:
        write_records(beside(out, "failed"), failed)
    return Counter(str(row.extra["failure"]) for row in failed)


def require_targets(languages: Sequence[str], source: str = "en") -> None:
    """Raises ConfigError for an unknown language, one that is given twice, and ``source``."""
    for lang in languages:
        language(lang)
    if not languages or len(set(languages)) < len(languages) or source in languages:
        given = ", ".join(languages) or "nothing"
        raise ConfigError(
            f"--to takes languages, each once and not {source!r}; got {given}",
            hint="for example --to zh --to de",
        )


# -- comparison ------------------------------------------------------------------------------------

# One answer: ``choice`` (native or translated), or None and the ``failure``; and the ``reason``.
Answer = dict[str, str | None]
Verdict = dict[str, Any]


class CompareConfig(JsonJobsConfig):
    """Settings of ``medal data compare-native``. ``criteria``: name -> question for the judge."""

    what: ClassVar[str] = "native against translated"
    placeholders: ClassVar[tuple[str, ...]] = ("language", "country", "question", "first", "second")
    prompt: str = "compare_native"
    criteria: dict[str, str] = Field(min_length=1)


@dataclass(frozen=True, slots=True)
class NativePair:
    """A native and a translated dialogue on one seed context (``group``), by the same models."""

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
    """Pairs of rows with the same group, language, user and chatbot, in the order of the translated
    rows; and the numbers of native and translated rows without a partner. Native rows in languages
    without any translation (English) are not counted.

    Raises MedalError if two rows of one side agree in all four, if a dialogue is on both sides, and
    if there is no pair.
    """

    def by_key(
        rows: Iterable[LabelledDialogue], side: str
    ) -> dict[tuple[str, str, str, str], LabelledDialogue]:
        keyed: dict[tuple[str, str, str, str], LabelledDialogue] = {}
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
    """Asks which dialogue of ``pair`` is better; ``text`` is the question of the ``criterion``."""

    def __init__(self, pair: NativePair, criterion: str, text: str, *, native_first: bool) -> None:
        order = "native first" if native_first else "translated first"
        super().__init__(f"{criterion}--{pair.id}--{pair.native.id}--{pair.translated.id}--{order}")
        self.pair, self.criterion, self.text = pair, criterion, text
        self.native_first = native_first

    def question(self) -> tuple[Mapping[str, str | None], Mapping[str, object]]:
        pair = self.pair
        shown = [transcript(row.dialogue.turns) for row in (pair.native, pair.translated)]
        first, second = shown if self.native_first else reversed(shown)
        country = pair.native.dialogue.context.get("country")
        values = {
            "language": language(pair.lang).name,
            "country": str(country) if country else None,
            "question": self.text,
            "first": first,
            "second": second,
        }
        # The reason comes first: a choice that follows from it is better than one it defends.
        better = {"type": "string", "enum": ["A", "B"]}
        return values, {"reason": {"type": "string"}, "better": better}

    def read(self, fields: Mapping[str, Any]) -> Answer:
        better, reason = fields.get("better"), fields.get("reason")
        if not isinstance(better, str):
            raise UnusableError("the entry 'better' is missing or no text")
        letter = _LETTER.match(better)
        if letter is None:
            raise UnusableError(f"'better' names neither A nor B: {better[:40]!r}")
        native = (letter[1].upper() == "A") == self.native_first
        why = " ".join(reason.split()) if isinstance(reason, str) else ""
        return {"choice": "native" if native else "translated", "reason": why, "failure": None}


def comparison(
    config: CompareConfig, pairs: Sequence[NativePair], **options: Any
) -> tuple[JsonRunner, list[PairQuestion]]:
    """The runner that compares (``options`` as for JsonRunner), and its questions, criterion by
    criterion; the two orders of a pair are adjacent."""
    runner = JsonRunner(config, prompts=config.criteria, **options)
    return runner, [
        PairQuestion(pair, name, text, native_first=order)
        for name, text in config.criteria.items()
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
    """Write one verdict for each criterion and pair to ``out`` and return them. An answer that
    fails is unscored, with its reason; the next run asks for it again.

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


def result_of(*answers: Answer) -> Literal["win", "tie", "loss"] | None:
    """The result of the native dialogue: a win or loss if both answers agree, else a tie; None if
    an answer is missing (MEDAL, appendix C.5)."""
    choices = {answer["choice"] for answer in answers}
    if None in choices:
        return None
    return "tie" if len(choices) > 1 else "win" if choices == {"native"} else "loss"


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
_LEAD = (
    "Share of the pairs in which a judge prefers the dialogue written in the language to the one "
    "translated from English, on the same seed context. Each pair is shown in both orders: a side "
    "wins if it is chosen both times, and all else is a tie."
)
_NOTE = (
    "Shares of the scored pairs with 95% intervals: Wilson's if each context has one pair or, with "
    "one trial a context, if the share is 0 or 1; else, and for Win − loss and First shown, a "
    "jackknife over contexts. Tie: the judge's answer changed with the order. First shown: share "
    "of answers for the dialogue shown first; 0.5 means no bias."
)


@dataclass(frozen=True, slots=True)
class Rates:
    """The results on one criterion in one language, or in ``all``.

    ``figures``: ``win``, ``tie`` and ``loss`` are shares of the scored pairs, ``net`` is win minus
    loss, ``first_shown`` is the share of answers that chose the dialogue shown first. ``unscored``:
    how many pairs have no result, by reason, the most frequent first.
    """

    criterion: str
    lang: str
    pairs: int
    scored: int
    contexts: int
    figures: dict[str, Estimate]
    unscored: dict[str, int]


def rates(verdicts: Sequence[Verdict]) -> list[Rates]:
    """The rates of each criterion: each language by code, then all of them if there are several."""
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
            counts, why = (len(part), len(scored), contexts), dict(failures.most_common())
            listed.append(Rates(criterion, lang, *counts, _figures(scored, contexts), why))
    return listed


def _figures(scored: Sequence[Verdict], contexts: int) -> dict[str, Estimate]:
    if not scored:
        return dict.fromkeys(FIGURES, Estimate(None, reason="no pair was scored"))
    choices = [(v["native_first"]["choice"], v["translated_first"]["choice"]) for v in scored]
    # One number a pair, whose mean is the figure.
    values = {n: np.array([float(v["result"] == n) for v in scored]) for n in _OUTCOMES}
    first = [((one == "native") + (other == "translated")) / 2 for one, other in choices]
    values["first_shown"] = np.array(first)
    values["net"] = values["win"] - values["loss"]
    plain = {name: Estimate(float(column.mean())) for name, column in values.items()}

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        return {name: weights @ column / total for name, column in values.items()}

    clusters = Clusters("conversation", tuple(v["group"] for v in scored))
    figures = with_intervals(plain, statistic, clusters, lambda n: FISHER if n == "net" else LOGIT)
    for name in _OUTCOMES:  # each pair is in or out
        share = float(values[name].mean())
        if contexts == len(scored) or share in (0, 1):
            low, high = wilson(share * contexts, contexts)
            figures[name] = replace(plain[name], low=low, high=high)
    return figures


def write_report(rates: Sequence[Rates], facts: Mapping[str, str], folder: Path) -> Path:
    """Print one table a criterion, and write results.json, report.html, its tables and figures.
    Returns the path of the page."""
    record = {"facts": dict(facts), "rates": [asdict(one) for one in rates]}
    write_json(folder / "results.json", record)
    console = wide_console(piped=140)
    sections, figures, tables = [], {}, {}
    for i, name in enumerate(dict.fromkeys(one.criterion for one in rates)):
        anchor, part = f"criterion-{i}", [one for one in rates if one.criterion == name]
        rows: list[Row] = [
            (one.lang, one.pairs, one.scored, one.contexts, *(one.figures[key] for key in FIGURES))
            for one in part
        ]
        pinned: dict[int, Pin] = {-1: "total"} if part[-1].lang == ALL else {}
        title = f"{name}: native against translated"
        tables[anchor] = Table(title, _COLUMNS, rows, pinned=pinned)
        bars, unscored = [], []
        for one in part:
            segments = [
                BarSegment(share, tone, f"{100 * share:.0f}%", f"{one.lang}: {outcome} {share:.1%}")
                for key, (outcome, tone) in _OUTCOMES.items()
                if (share := one.figures[key].value)
            ]
            bars.append(Bar(one.lang, segments))
            reasons = one.unscored if one.lang != ALL else {}
            unscored += [f"{one.lang}: {n} unscored: {reason}" for reason, n in reasons.items()]
        description = f"{name}: win, tie and loss by language, numbers in the table"
        panel = Bars("", bars, 1.0, description, wide=True)
        legend = list(_OUTCOMES.values())
        figures[anchor] = Figure(name, [panel], legend=legend, legend_name="Outcomes")
        blocks: list[Block] = [figures[anchor], tables[anchor], *unscored, _NOTE]
        sections.append(Section(anchor, name, blocks, _LEAD, link=name.capitalize()))
        console.print(rich_table(tables[anchor]))
        for line in unscored:
            console.print(f"{name}, {line}", style="dim", highlight=False)
    langs = {one.lang for one in rates} - {ALL}
    return write_page(
        folder / "report.html",
        "Native against translated",
        f"{len(sections)} criteria · {counted([(len(langs), 'language')])}",
        [*sections, facts_section(facts.items())],
        tables=tables,
        figures=figures,
    )
