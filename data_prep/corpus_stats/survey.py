"""Survey: one pass over the rows of a set; counts are kept, texts are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from medal_judges.data_prep.corpus_stats.course import Course
from medal_judges.data_prep.corpus_stats.labels import Labels
from medal_judges.data_prep.corpus_stats.lemmas import Lemmatiser, lemmatiser
from medal_judges.data_prep.corpus_stats.mtld import UNDEFINED, RunTogether
from medal_judges.data_prep.corpus_stats.part import NOT_STATED, Part, cell_of
from medal_judges.data_prep.corpus_stats.texts import TextCounts
from medal_judges.data_prep.corpus_stats.units import Unit, length, unit_of
from medal_judges.errors import MedalError
from medal_judges.labelled import LabelledDialogue
from medal_judges.signature import content_hash
from medal_judges.stats.results import Estimate
from medal_judges.stats.weights import USED, Weights, curation_weight, unused


class Survey:
    """What is known of the rows seen so far. ``levels`` counts rows by level, ``sources`` by the
    source that they name, ``labelled_by`` by the signature of a judge that labelled them;
    ``failed`` rows lack a label by a judge's failure, ``malformed`` ones were set apart by their
    user's faults. ``lemmatisers`` holds what split each language. ``curated`` rows carry a weight
    of a selection, which counts where ``weights`` says so."""

    def __init__(self, *, lemmas: bool = True, weights: Weights = "none") -> None:
        self.lemmas = lemmas
        self.weights = weights
        self.curated = 0
        self.labels = Labels()
        self.levels: Counter[str] = Counter()
        self.sources: Counter[str] = Counter()
        self.labelled_by: Counter[str] = Counter()
        self.failed = 0
        self.malformed = 0
        self.lemmatisers: dict[str, Lemmatiser] = {}
        self._texts: dict[Part, TextCounts] = {}
        self._courses: dict[Part, Course] = {}
        self._together: dict[Part, RunTogether] = {}
        self._seen: set[int] = set()
        self._contents: list[str] = []

    def add(self, row: LabelledDialogue) -> None:
        """Count a row in. Raises MedalError for an id that came before, and where weights are
        asked for and the row has none."""
        self._check_new(row)
        cell, weight = cell_of(row), self._weight(row)
        self.levels[row.level] += 1
        self.sources[row.dialogue.source or NOT_STATED] += 1
        self._contents.append(content_hash(row.to_record()))
        self._add_labelling(row.extra)
        self.labels.add(row, cell, weight)
        self._courses.setdefault(cell, Course()).add_row(row.extra, weight)
        self._add_text(row, cell, weight)

    def _weight(self, row: LabelledDialogue) -> float:
        stated = curation_weight(row)
        self.curated += stated is not None
        if self.weights == "none":
            return 1
        if stated is None:
            raise MedalError(
                f"--weights {self.weights}: the row {row.id!r} has no curation.weight",
                hint="medal curate writes weights into all rows; leave out --weights to count "
                "all rows alike",
            )
        return stated

    def _check_new(self, row: LabelledDialogue) -> None:
        mark = hash(row.id)  # 8 bytes a row instead of the id
        if mark in self._seen:
            raise MedalError(
                f"the id {row.id!r} comes twice: its dialogue would be counted twice",
                hint="give every dialogue in one file only",
            )
        self._seen.add(mark)

    def _add_labelling(self, extra: Mapping[str, Any]) -> None:
        """What ``medal label`` wrote on the row."""
        by = extra.get("labels_by")
        if isinstance(by, str):
            self.labelled_by[by] += 1
        self.failed += "label_failure" in extra
        self.malformed += "malformed" in extra

    @property
    def data(self) -> str:
        """12 hex digits over everything in the rows, whatever their order, as in the signatures
        of a benchmark."""
        return content_hash(sorted(self._contents))

    def _add_text(self, row: LabelledDialogue, cell: Part, weight: float) -> None:
        turns, lang = row.dialogue.turns, row.dialogue.lang
        counts = self._texts.setdefault(cell, TextCounts())
        unit = unit_of(lang)
        counts.dialogues += 1
        counts.weight += weight
        for turn in turns:
            counts.add_turn(turn.role, length(turn.content, unit), unit, weight)
        tool = self._lemmatiser(lang)
        if tool.split is None:
            counts.unsplit += 1
            counts.why.add(tool.name)
            return
        split: Callable[[str], list[str]] = tool.split
        tokens = counts.add_tokens([(t.role, split(t.content)) for t in turns], weight)
        for part in (Part(lang), Part(lang, cell.chatbot)):
            self._together.setdefault(part, RunTogether()).add(tokens)

    def _lemmatiser(self, lang: str) -> Lemmatiser:
        if lang not in self.lemmatisers:
            self.lemmatisers[lang] = lemmatiser(lang, lemmas=self.lemmas)
        return self.lemmatisers[lang]

    @property
    def weighting(self) -> str | None:
        """How rows count where that is not alike, or might not be."""
        if self.weights != "none":
            return USED
        return unused(self.curated, self.labels.rows) if self.curated else None

    @property
    def cells(self) -> list[Part]:
        return list(self._texts)

    @property
    def langs(self) -> list[str]:
        return sorted({str(cell.lang) for cell in self._texts})

    @property
    def chatbots(self) -> list[str]:
        return sorted({str(cell.chatbot) for cell in self._texts})

    @property
    def users(self) -> list[str]:
        return sorted({str(cell.user) for cell in self._texts})

    @property
    def units(self) -> list[Unit]:
        """The units of the languages seen, words first."""
        return sorted({unit_of(lang) for lang in self.langs}, reverse=True)

    def text(self, part: Part) -> TextCounts:
        """Sums over the dialogues of ``part``."""
        found = TextCounts()
        for cell, counts in self._texts.items():
            if part.holds(cell):
                found.add(counts)
        return found

    def course(self, part: Part) -> Course:
        """Ends and tries of the dialogues of ``part``."""
        found = Course()
        for cell, counts in self._courses.items():
            if part.holds(cell):
                found.add(counts)
        return found

    def together(self, part: Part) -> Estimate:
        """MTLD of the dialogues of ``part`` run together, by language and by its chatbots."""
        if self.weights != "none":
            return Estimate(None, reason="texts run together have no weights")
        if part.lang is None:
            langs = {cell.lang for cell in self._texts if part.holds(cell)}
            if len(langs) != 1:
                return Estimate(None, reason="texts of several languages are not run together")
            part = Part(langs.pop(), part.chatbot, part.user)
        found = self._together.get(part)
        if found is None:
            why = self.text(part).why
            reason = "; ".join(sorted(why)) or "run together by language and chatbot only"
            return Estimate(None, reason=reason)
        value = found.value
        return Estimate(value, reason=None if value is not None else UNDEFINED)


def survey(
    rows: Iterable[LabelledDialogue], *, lemmas: bool = True, weights: Weights = "none"
) -> Survey:
    """Read the rows once. Raises MedalError for an id that comes twice or a row without the weight
    asked for, and MissingExtraError."""
    found = Survey(lemmas=lemmas, weights=weights)
    for row in rows:
        found.add(row)
    return found
