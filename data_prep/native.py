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
from itertools import groupby
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from medal_judges.data_prep.jobs import (
    JsonJob,
    JsonJobsConfig,
    JsonRunner,
    UnusableError,
    beside,
)
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
from medal_judges.stats.estimate import Estimate, undefined
from medal_judges.stats.intervals import (
    FISHER,
    LOGIT,
    Clusters,
    Scale,
    estimated,
    wilson,
)
from medal_judges.storage.files import write_json
from medal_judges.storage.jsonl import Journal, write_records

_UNCHANGED_FROM = 5  # words; shorter turns may read the same in two languages
# least confidence in another language, and letters of a turn
_SURE = 0.9
_LETTERS = 10
_WORD = re.compile(r"[^\W\d_]")
_W = r"\W{0,20}"
_LETTER = re.compile(
    rf"\A{_W}(?:(?:conversation|dialogue){_W})?([ab]){_W}\Z", re.IGNORECASE
)


class TranslateConfig(JsonJobsConfig):
    """Settings of ``medal data translate``. ``check_language``: reject turns in another language,
    if the extra lang is installed."""

    task: ClassVar[str] = "translation"
    placeholders: ClassVar[tuple[str, ...]] = ("language", "dialogue")
    prompt: str = "translate"
    check_language: bool = True


class Translation(JsonJob):
    """The translation of one dialogue into ``lang``; its value is the text of each turn. ``check``
    rejects turns in another language."""

    def __init__(
        self,
        row: LabelledDialogue,
        lang: str,
        check: LanguageIdentifier | None = None,
    ) -> None:
        super().__init__(f"{row.id}--in-{lang}")
        self.row = row
        self.lang = lang
        self.check = check if check is not None and lang in check.known else None
        self.turns = {
            f"{i}_{turn.role}": turn for i, turn in enumerate(row.dialogue.turns, 1)
        }

    def question(self) -> tuple[Mapping[str, str | None], Mapping[str, object]]:
        texts = {key: turn.content for key, turn in self.turns.items()}
        dialogue = json.dumps(texts, ensure_ascii=False, indent=1)
        values = {"language": language(self.lang).name, "dialogue": dialogue}
        return values, {key: {"type": "string"} for key in self.turns}

    def read(self, fields: Mapping[str, Any]) -> list[str]:
        if missing := [key for key in self.turns if key not in fields]:
            raise UnusableError(f"the entry {missing[0]!r} is missing")
        if unknown := [key for key in fields if key not in self.turns]:
            raise UnusableError(f"there is an unexpected entry {unknown[0]!r}")
        texts = []
        for number, (key, turn) in enumerate(self.turns.items(), 1):
            text = fields[key]
            problem = "is not a text"
            if isinstance(text, str):
                text = text.strip()
                problem = self._problem(turn.content, text)
            if problem:
                raise UnusableError(f"turn {number} ({turn.role}) {problem}")
            texts.append(text)
        return texts

    def _problem(self, original: str, text: str) -> str:
        """What is wrong with the translated text of a turn; empty if nothing is."""
        if not text and original.strip():
            return "is empty"
        if text and not original.strip():
            return "is not empty"
        if _WORD.search(original) and not _WORD.search(text):
            return "has no word in it"
        words = original.casefold().split()
        if len(words) >= _UNCHANGED_FROM and text.casefold().split() == words:
            return "was left in the original language"
        if self.check is not None and len(_WORD.findall(text)) >= _LETTERS:
            likeliest, chance = next(iter(self.check.chances(text).items()))
            if likeliest != self.lang and chance >= _SURE:
                names = load_languages()
                name = names[likeliest].name if likeliest in names else repr(likeliest)
                return f"is in {name}, not in {language(self.lang).name}"
        return ""


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
    rows: list[LabelledDialogue] = []
    if out.exists() and not overwrite:
        earlier = Journal(out).records(parse_labelled)
        rows = [row for row in earlier if row.id not in runner.jobs]
    failed = []
    for job in translations:
        dialogue = replace(job.row.dialogue, id=job.id)
        extra: dict[str, Any] = {"translated_from": job.row.id}
        reason = runner.failure(job)
        if reason is not None:
            extra |= {"to": job.lang, "failure": reason, "tries": job.tries}
            failed.append(LabelledDialogue(dialogue, {}, {}, extra=extra))
            continue
        extra |= {"translated_by": runner.made_by, "tries": job.tries}
        extra["language_checked"] = job.check is not None
        pairs = zip(dialogue.turns, job.value, strict=True)
        turns = tuple(replace(turn, content=text) for turn, text in pairs)
        dialogue = replace(
            dialogue,
            lang=job.lang,
            turns=turns,
            source="medal-translated",
            meta={},
        )
        split = job.row.split
        group = job.row.group
        rows.append(
            LabelledDialogue(
                dialogue,
                {},
                {},
                split=split,
                group=group,
                extra=extra,
            )
        )
    write_records(out, rows)
    beside(out, "failed").unlink(missing_ok=True)
    if failed:
        write_records(beside(out, "failed"), failed)
    return Counter(str(row.extra["failure"]) for row in failed)


def require_targets(languages: Sequence[str], source: str = "en") -> None:
    """Raises ConfigError for an unknown language, one that is given twice, and ``source``."""
    for lang in languages:
        language(lang)
    if not languages or len(set(languages)) < len(languages) or source in languages:
        typed = ", ".join(languages) or "nothing"
        raise ConfigError(
            f"--to takes languages, each once and not {source!r}; got {typed}",
            hint="for example --to zh --to de",
        )


# -- comparison ------------------------------------------------------------------------------------

# One answer: ``choice`` (native or translated), or None and the ``failure``; and the ``reason``.
Answer = dict[str, str | None]
Verdict = dict[str, Any]


class CompareConfig(JsonJobsConfig):
    """Settings of ``medal data compare-native``. ``criteria``: name -> question for the judge."""

    task: ClassVar[str] = "native against translated"
    placeholders: ClassVar[tuple[str, ...]] = (
        "language",
        "country",
        "question",
        "first",
        "second",
    )
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
    translated_by_key = _by_key(translated, "translated")
    langs = {lang for _, lang, _, _ in translated_by_key}
    in_langs = (row for row in native if row.dialogue.lang in langs)
    native_by_key = _by_key(in_langs, "native")
    pairs = []
    for key, translated_row in translated_by_key.items():
        native_row = native_by_key.get(key)
        if native_row is None:
            continue
        if native_row.id == translated_row.id:
            raise MedalError(
                f"dialogues, such as {native_row.id!r}, are both native and translated",
                hint="give two files: native ones first, then those of `medal data translate`",
            )
        pairs.append(NativePair(*key, native_row, translated_row))
    if not pairs:
        raise MedalError(
            "no native dialogue has the context, language, user and chatbot of a translated one",
            hint="give the file of `medal generate` and its translation by `medal data translate`",
        )
    return pairs, len(native_by_key) - len(pairs), len(translated_by_key) - len(pairs)


def _by_key(
    rows: Iterable[LabelledDialogue], side: str
) -> dict[tuple[str, str, str, str], LabelledDialogue]:
    """The rows by group, language, user and chatbot. Raises MedalError if two agree in all."""
    row_by_key: dict[tuple[str, str, str, str], LabelledDialogue] = {}
    for row in rows:
        models = row.dialogue.models
        speakers = (models.get("user") or "", models.get("assistant") or "")
        first = row_by_key.setdefault((row.group, row.dialogue.lang, *speakers), row)
        if first is not row:
            raise MedalError(
                f"{side} rows {first.id!r} and {row.id!r} have the same context, language, user "
                "and chatbot: it is not clear which one to compare",
                hint="leave one of them out",
            )
    return row_by_key


class PairQuestion(JsonJob):
    """Asks which dialogue of ``pair`` is better; ``text`` is the question of the ``criterion``."""

    def __init__(
        self,
        pair: NativePair,
        criterion: str,
        text: str,
        *,
        native_first: bool,
    ) -> None:
        order = "native first" if native_first else "translated first"
        super().__init__(
            f"{criterion}--{pair.id}--{pair.native.id}--{pair.translated.id}--{order}"
        )
        self.pair = pair
        self.criterion = criterion
        self.text = text
        self.native_first = native_first

    def question(self) -> tuple[Mapping[str, str | None], Mapping[str, object]]:
        pair = self.pair
        first = transcript(pair.native.dialogue.turns)
        second = transcript(pair.translated.dialogue.turns)
        if not self.native_first:
            first, second = second, first
        country = pair.native.dialogue.context.get("country")
        values = {
            "language": language(pair.lang).name,
            "country": str(country) if country else None,
            "question": self.text,
            "first": first,
            "second": second,
        }
        # The reason comes first: a choice that follows from it is better than one it defends.
        properties = {
            "reason": {"type": "string"},
            "better": {"type": "string", "enum": ["A", "B"]},
        }
        return values, properties

    def read(self, fields: Mapping[str, Any]) -> Answer:
        better = fields.get("better")
        reason = fields.get("reason")
        if not isinstance(better, str):
            raise UnusableError("the entry 'better' is missing or no text")
        letter = _LETTER.match(better)
        if letter is None:
            raise UnusableError(f"'better' names neither A nor B: {better[:40]!r}")
        chooses_first = letter[1].upper() == "A"
        choice = "native" if chooses_first == self.native_first else "translated"
        reason = " ".join(reason.split()) if isinstance(reason, str) else ""
        return {"choice": choice, "reason": reason, "failure": None}


def comparison(
    config: CompareConfig, pairs: Sequence[NativePair], **options: Any
) -> tuple[JsonRunner, list[PairQuestion]]:
    """The runner that compares (``options`` as for JsonRunner), and its questions, criterion by
    criterion; the two orders of a pair are adjacent."""
    questions = []
    for criterion, text in config.criteria.items():
        for pair in pairs:
            questions.append(PairQuestion(pair, criterion, text, native_first=True))
            questions.append(PairQuestion(pair, criterion, text, native_first=False))
    return JsonRunner(config, prompts=config.criteria, **options), questions


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
    verdicts: list[Verdict] = []
    for question, swapped in zip(questions[::2], questions[1::2], strict=True):
        pair = question.pair
        first = _answer(runner, question)
        second = _answer(runner, swapped)
        verdicts.append(
            {
                "id": pair.id,
                "criterion": question.criterion,
                "group": pair.group,
                "lang": pair.lang,
                "native": pair.native.id,
                "translated": pair.translated.id,
                "native_first": first,
                "translated_first": second,
                "judge": runner.made_by,
                "result": result_of(first, second),
            }
        )
    write_records(out, verdicts)
    return verdicts


def _answer(runner: JsonRunner, job: PairQuestion) -> Answer:
    return job.value or {"choice": None, "reason": "", "failure": runner.failure(job)}


def result_of(first: Answer, second: Answer) -> Literal["win", "tie", "loss"] | None:
    """The result of the native dialogue: a win or loss if both answers agree, else a tie; None if
    an answer is missing (MEDAL, appendix C.5)."""
    choices = {first["choice"], second["choice"]}
    if None in choices:
        return None
    if len(choices) > 1:
        return "tie"
    if "native" in choices:
        return "win"
    return "loss"


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
    rates = []
    for criterion, of_criterion in _grouped(verdicts, "criterion").items():
        groups = dict(sorted(_grouped(of_criterion, "lang").items()))
        if len(groups) > 1:
            groups[ALL] = of_criterion
        rates += [_rates(criterion, lang, group) for lang, group in groups.items()]
    return rates


def _grouped(verdicts: Sequence[Verdict], field: str) -> dict[str, list[Verdict]]:
    groups: dict[str, list[Verdict]] = {}
    for verdict in verdicts:
        groups.setdefault(verdict[field], []).append(verdict)
    return groups


def _rates(criterion: str, lang: str, verdicts: Sequence[Verdict]) -> Rates:
    """The results of one criterion in one language, or in ``all``."""
    scored = []
    failures: Counter[str] = Counter()
    for verdict in verdicts:
        if verdict["result"] is not None:
            scored.append(verdict)
            continue
        reason = (
            verdict["native_first"]["failure"] or verdict["translated_first"]["failure"]
        )
        failures[reason or "no answer came"] += 1
    contexts = len({verdict["group"] for verdict in scored})
    figures = _figures(scored, contexts)
    unscored = dict(failures.most_common())
    return Rates(
        criterion,
        lang,
        len(verdicts),
        len(scored),
        contexts,
        figures,
        unscored,
    )


def _figures(scored: Sequence[Verdict], contexts: int) -> dict[str, Estimate]:
    """The figures of the scored pairs (see ``Rates``) with their intervals (see ``_NOTE``)."""
    if not scored:
        return undefined(FIGURES, "no pair was scored")
    # One number a pair, whose mean is the figure.
    results = np.array([verdict["result"] for verdict in scored])
    columns = {
        outcome: np.array(results == outcome, dtype=float) for outcome in _OUTCOMES
    }
    columns["net"] = columns["win"] - columns["loss"]
    first_shown = []
    for verdict in scored:
        first_of_two = verdict["native_first"]["choice"] == "native"
        swapped = verdict["translated_first"]["choice"] == "translated"
        first_shown.append((first_of_two + swapped) / 2)
    columns["first_shown"] = np.array(first_shown)

    def statistic(weights: Floats) -> dict[str, Floats]:
        total = weights.sum(axis=1)
        return {name: weights @ column / total for name, column in columns.items()}

    def scale(name: str) -> Scale:
        if name == "net":
            return FISHER
        return LOGIT

    clusters = Clusters("conversation", tuple(verdict["group"] for verdict in scored))
    figures = estimated(statistic, clusters, "no pair was scored", scale=scale)
    for name in _OUTCOMES:  # each pair is in or out
        share = float(columns[name].mean())
        if contexts == len(scored) or share in (0, 1):
            figures[name] = Estimate(share, *wilson(share * contexts, contexts))
    return figures


def write_report(
    rates: Sequence[Rates], facts: Mapping[str, str], folder: Path
) -> Path:
    """Print one table a criterion, and write results.json, report.html, its tables and figures.
    Returns the path of the page."""
    record = {"facts": dict(facts), "rates": [asdict(rate) for rate in rates]}
    write_json(folder / "results.json", record)
    console = wide_console(piped=140)
    sections: list[Section] = []
    figures = {}
    tables = {}
    for criterion, group in groupby(rates, key=lambda rate: rate.criterion):
        by_lang = list(group)
        anchor = f"criterion-{len(sections)}"
        table = tables[anchor] = _table(criterion, by_lang)
        figure = figures[anchor] = _figure(criterion, by_lang)
        unscored = _unscored_lines(by_lang)
        blocks: list[Block] = [figure, table, *unscored, _NOTE]
        sections.append(
            Section(anchor, criterion, blocks, _LEAD, link=criterion.capitalize())
        )
        console.print(rich_table(table))
        for line in unscored:
            console.print(f"{criterion}, {line}", style="dim", highlight=False)
    langs = {rate.lang for rate in rates} - {ALL}
    return write_page(
        folder / "report.html",
        "Native against translated",
        f"{len(sections)} criteria · {counted([(len(langs), 'language')])}",
        [*sections, facts_section(facts.items())],
        tables=tables,
        figures=figures,
    )


def _table(criterion: str, rates: Sequence[Rates]) -> Table:
    """The table of one criterion: a row for each language, and the last for all of them."""
    rows: list[Row] = []
    for rate in rates:
        counts = (rate.pairs, rate.scored, rate.contexts)
        rows.append((rate.lang, *counts, *(rate.figures[name] for name in FIGURES)))
    pinned: dict[int, Pin] = {-1: "total"} if rates[-1].lang == ALL else {}
    return Table(
        f"{criterion}: native against translated", _COLUMNS, rows, pinned=pinned
    )


def _figure(criterion: str, rates: Sequence[Rates]) -> Figure:
    """The bars of one criterion: the shares of win, tie and loss in each language."""
    bars = []
    for rate in rates:
        segments = []
        for name, (outcome, tone) in _OUTCOMES.items():
            if share := rate.figures[name].value:
                tooltip = f"{rate.lang}: {outcome} {share:.1%}"
                segments.append(BarSegment(share, tone, f"{100 * share:.0f}%", tooltip))
        bars.append(Bar(rate.lang, segments))
    description = f"{criterion}: win, tie and loss by language, numbers in the table"
    panel = Bars("", bars, 1.0, description, wide=True)
    legend = list(_OUTCOMES.values())
    return Figure(criterion, [panel], legend=legend, legend_name="Outcomes")


def _unscored_lines(rates: Sequence[Rates]) -> list[str]:
    lines = []
    for rate in rates:
        if rate.lang != ALL:
            for reason, count in rate.unscored.items():
                lines.append(f"{rate.lang}: {count} unscored: {reason}")
    return lines
