"""``medal data translate``: dialogues in, their translations out; goes on after a stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from medal_judges.data_prep.native.appending import append, earlier
from medal_judges.data_prep.native.translation import Task, Translator, translated_row
from medal_judges.data_prep.seeds.languages import language_name
from medal_judges.errors import ConfigError, MedalError
from medal_judges.jsonl import write_records
from medal_judges.labelled import LabelledDialogue, parse_labelled
from medal_judges.models.batching import windows


@dataclass(slots=True)
class TranslateReport:
    """``passed_over``: rows that are not in English (or in a target language already). ``earlier``
    stood in the file before; ``failures`` are reasons with their counts."""

    written: int = 0
    earlier: int = 0
    passed_over: int = 0
    failures: Counter[str] = field(default_factory=Counter)


def tasks_of(
    rows: Iterable[LabelledDialogue],
    languages: Sequence[str],
    report: TranslateReport,
    source: str = "en",
) -> Iterator[Task]:
    """Each dialogue in ``source`` with each language, dialogue by dialogue.

    Raises ConfigError for a language that is not listed, stands twice, or is the source's.
    """
    for lang in languages:
        language_name(lang)
    if not languages or len(set(languages)) < len(languages) or source in languages:
        given = ",".join(languages) or "nothing"
        raise ConfigError(
            f"--to takes languages, each once and not {source!r}; got {given}",
            hint="for example --to zh,de,fr,pt,es",
        )
    return _tasks(rows, languages, report, source)


def _tasks(
    rows: Iterable[LabelledDialogue], languages: Sequence[str], report: TranslateReport, source: str
) -> Iterator[Task]:
    for row in rows:
        if row.dialogue.lang != source:
            report.passed_over += 1
            continue
        yield from (Task(row, lang) for lang in languages)


def translate_to_file(
    tasks: Iterable[Task],
    translator: Translator,
    out: Path,
    report: TranslateReport,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> None:
    """Append a row for every task to ``out``, in order, window by window.

    Translations that stand there are kept and not asked for again. Those that failed go, with the
    reason, to ``failed_path(out)``; the next run tries them anew. Raises MedalError where ``out``
    holds rows of another translator; with ``overwrite`` it is begun anew.
    """
    signature = str(translator.signature())
    kept = [] if overwrite else earlier(out, parse_labelled)
    done = {row.id for row in _require_same(kept, signature, out)}
    failed: list[LabelledDialogue] = []
    for window in windows(tasks, translator.config.at_once):
        fresh = [task for task in window if task.id not in done]
        report.earlier += len(window) - len(fresh)
        translator.translate(fresh)
        good = [task for task in fresh if task.failure is None]
        if overwrite:  # only now that there is something in its place
            out.unlink(missing_ok=True)
            overwrite = False
        append(out, (_row(task, translator, signature) for task in good))
        report.written += len(good)
        for task in fresh:
            if task.failure is not None:
                report.failures[task.failure] += 1
                failed.append(_failed_row(task))
        if progress is not None:
            progress(len(window))
    _write_failed(out, failed)


def _row(task: Task, translator: Translator, signature: str) -> LabelledDialogue:
    checked = translator.language is not None and translator.language.knows(task.lang)
    return translated_row(task, signature, checked=checked)


def failed_path(out: Path) -> Path:
    """``x.failed.jsonl`` beside ``x.jsonl``."""
    return out.with_name(f"{out.stem}.failed.jsonl")


def _write_failed(out: Path, rows: Sequence[LabelledDialogue]) -> None:
    failed_path(out).unlink(missing_ok=True)
    if rows:
        write_records(failed_path(out), rows)


def _failed_row(task: Task) -> LabelledDialogue:
    """The original under the id that its translation would have had."""
    told = {"translated_from": task.row.id, "to": task.lang, "failure": task.failure}
    dialogue = replace(task.row.dialogue, id=task.id)
    return replace(
        task.row, dialogue=dialogue, labels={}, scales={}, extra=told | {"tries": task.tries}
    )


def _require_same(
    rows: list[LabelledDialogue], signature: str, out: Path
) -> list[LabelledDialogue]:
    for row in rows:
        by = row.extra.get("translated_by")
        if by != signature:
            raise MedalError(
                f"{out} holds translations by {by!r}, not {signature!r}",
                hint="give another --out, or --overwrite to begin anew",
            )
    return rows
