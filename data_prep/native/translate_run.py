"""``medal data translate``: dialogues in, their translations out; resumed after a stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medal_judges.data_prep.native.asking import require_same
from medal_judges.data_prep.native.translation import Translation, Translator
from medal_judges.errors import ConfigError
from medal_judges.models.batching import windows
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.records.languages import language
from medal_judges.storage.journal import Journal
from medal_judges.storage.jsonl import write_records


@dataclass(slots=True)
class TranslateReport:
    """``skipped``: rows that are not in English. ``earlier`` were in the file before;
    ``failures`` are reasons with their counts."""

    written: int = 0
    earlier: int = 0
    skipped: int = 0
    failures: Counter[str] = field(default_factory=Counter)


def translations_of(
    rows: Iterable[LabelledDialogue],
    languages: Sequence[str],
    report: TranslateReport,
    source: str = "en",
) -> Iterator[Translation]:
    """Each dialogue in ``source`` with each language, dialogue by dialogue.

    Raises ConfigError for a language that is not listed, is given twice, or is the source's.
    """
    for lang in languages:
        language(lang)
    if not languages or len(set(languages)) < len(languages) or source in languages:
        given = ", ".join(languages) or "nothing"
        raise ConfigError(
            f"--to takes languages, each once and not {source!r}; got {given}",
            hint="for example --to zh --to de",
        )

    def translations() -> Iterator[Translation]:
        for row in rows:
            if row.dialogue.lang != source:
                report.skipped += 1
                continue
            yield from (Translation(row, lang) for lang in languages)

    return translations()


def translate_to_file(
    translations: Iterable[Translation],
    translator: Translator,
    out: Path,
    report: TranslateReport,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Append a row for every translation to ``out``, in order, window by window.

    Translations that stand there are kept and not asked for again. Those that failed go, with the
    reason, to ``failed_path(out)``; the next run tries them again. Raises MedalError where ``out``
    holds rows of another translator; with ``overwrite`` it starts again from the beginning.
    """
    journal = Journal(out)
    done = {} if overwrite else journal.by_key(parse_labelled, lambda row: row.id)
    by = (row.extra.get("translated_by") for row in done.values())
    require_same(by, str(translator.signature()), out, "translations")
    failed: list[LabelledDialogue] = []
    for window in windows(translations, translator.config.at_once):
        new = [each for each in window if each.id not in done]
        report.earlier += len(window) - len(new)
        translator.translate(new)
        if overwrite:  # only now that there is something in its place
            out.unlink(missing_ok=True)
            overwrite = False
        good = [translator.row(each) for each in new if each.failure is None]
        journal.append(good)
        report.written += len(good)
        failed += [_failed_row(each) for each in new if each.failure is not None]
        report.failures.update(each.failure for each in new if each.failure is not None)
        if progress is not None:
            progress(len(window))
    out.parent.mkdir(parents=True, exist_ok=True)
    out.touch()  # there is a file also where every translation failed
    failed_path(out).unlink(missing_ok=True)
    if failed:
        write_records(failed_path(out), failed)


def failed_path(out: Path) -> Path:
    """``x.failed.jsonl`` beside ``x.jsonl`` or ``x.jsonl.gz``."""
    return out.with_name(f"{out.name.removesuffix('.gz').removesuffix('.jsonl')}.failed.jsonl")


def _failed_row(translation: Translation) -> LabelledDialogue:
    """The original under the id that its translation would have had."""
    row = translation.row
    extra = {
        "translated_from": row.id,
        "to": translation.lang,
        "failure": translation.failure,
        "tries": translation.tries,
    }
    dialogue = replace(row.dialogue, id=translation.id)
    return replace(row, dialogue=dialogue, labels={}, scales={}, extra=extra)
