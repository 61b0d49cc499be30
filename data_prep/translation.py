"""``medal data translate``: dialogues in another language, by a prompted model (MEDAL, section 3.2
and appendix C.5)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import Field

from medal_judges import __version__
from medal_judges.config import Config
from medal_judges.data_prep.jobs import (
    START_AGAIN,
    Agents,
    Answer,
    JobRunner,
    path_beside,
)
from medal_judges.errors import ConfigError, MedalError
from medal_judges.models.llm.protocol import ChatRequest, strict_object_schema
from medal_judges.models.llm.settings import LLMConfig
from medal_judges.models.prompted.answers import parse_json, without_thinking
from medal_judges.models.prompted.prompt import load_prompt
from medal_judges.records.dialogue import Turn, language
from medal_judges.records.labelled import LabelledDialogue, parse_labelled
from medal_judges.records.signature import Signature, content_hash
from medal_judges.storage.jsonl import Journal, read_records, write_records

_AT_ONCE = 64  # dialogues
_UNCHANGED_FROM = 5  # words; shorter turns may read the same in two languages
_LETTER = re.compile(r"[^\W\d_]")


class TranslateConfig(Config):
    """Settings of ``medal data translate``.

    Attributes:
        llm: The model that translates.
        tries: The maximum number of attempts at one dialogue.
        max_tokens: The maximum length of the translation of one dialogue, in tokens.
    """

    llm: LLMConfig
    tries: int = Field(default=3, ge=1)
    max_tokens: int = Field(default=4096, ge=1)


class UnusableError(ValueError):
    """Raised if a model's answer is not a usable translation.

    The message of the error says why. It becomes part of the prompt of the next attempt.
    """


def _parse_object(answer: str) -> dict[str, Any]:
    """Returns the JSON object in ``answer``, ignoring the model's thinking. Raises UnusableError if
    the rest of the answer is not exactly one object."""
    try:
        value = parse_json(without_thinking(answer))
    except ValueError:
        value = None
    if not isinstance(value, dict):
        raise UnusableError("the answer is not one JSON object alone")
    return value


class Translation:
    """The translation of one dialogue, finished or in progress.

    The caller gives ``row`` and ``lang``. The run fills ``texts``, ``tries`` and ``reason``.

    Attributes:
        row: The original dialogue.
        lang: The language to translate into, such as ``de``.
        row_id: The id of the translated dialogue, such as ``ID--in-de``.
        id: ``row_id`` and a hash of the original text. It names the translation in the file of
            answers.
        turns: Key in the model's JSON answer, such as ``1_user`` -> original turn.
        texts: The translated text of each turn, None until an answer is usable.
        tries: The number of answers so far.
        reason: Why the latest answer is not usable, or None.
    """

    def __init__(self, row: LabelledDialogue, lang: str) -> None:
        self.row_id = f"{row.id}--in-{lang}"
        self.id = f"{self.row_id}:{row.dialogue.text_hash}"
        self.row = row
        self.lang = lang
        self.turns: dict[str, Turn] = {}
        for number, turn in enumerate(row.dialogue.turns, 1):
            self.turns[f"{number}_{turn.role}"] = turn
        self.texts: list[str] | None = None
        self.tries = 0
        self.reason: str | None = None

    @property
    def stage(self) -> str:
        return f"0:{self.tries}"

    def parse_texts(self, fields: Mapping[str, Any]) -> list[str]:
        """Returns the translated text of each turn, in the order of the turns.

        Args:
            fields: The JSON object that a model answered: key of a turn, such as ``1_user`` -> its
                translation.

        Raises:
            UnusableError: A turn is missing, unexpected or not a plausible translation.
        """
        for key in self.turns:
            if key not in fields:
                raise UnusableError(f"the entry {key!r} is missing")
        for key in fields:
            if key not in self.turns:
                raise UnusableError(f"there is an unexpected entry {key!r}")
        texts = []
        for number, (key, turn) in enumerate(self.turns.items(), 1):
            text = fields[key]
            problem = "is not a text"
            if isinstance(text, str):
                text = text.strip()
                problem = self._find_problem(turn.content, text)
            if problem:
                raise UnusableError(f"turn {number} ({turn.role}) {problem}")
            texts.append(text)
        return texts

    def _find_problem(self, original: str, text: str) -> str:
        """Returns why ``text`` is no plausible translation of ``original``, such as ``is empty``,
        or ""."""
        if original.strip() and not text:
            return "is empty"
        if text and not original.strip():
            return "is not empty"
        if _LETTER.search(original) and not _LETTER.search(text):
            return "has no word in it"
        words = original.casefold().split()
        if len(words) >= _UNCHANGED_FROM and text.casefold().split() == words:
            return "was left in the original language"
        return ""


class TranslationRunner(JobRunner[Translation]):
    """Runner that asks one model for translations of dialogues. It asks again after an
    unusable answer.

    Attributes:
        config: The settings.
        prompt: The prompt that asks for a translation.
        jobs: Id in the file of answers -> translation, for all translations of the run.
        earlier: The number of translations that earlier runs finished with success.
        finished: The number of finished translations, including ``earlier`` and failed ones.
    """

    def __init__(
        self,
        config: TranslateConfig,
        *,
        agents: Agents | None = None,
        max_cost: float | None = None,
    ) -> None:
        self.config = config
        self.prompt = load_prompt("translate", {"language", "dialogue", "reason"})
        self.jobs: dict[str, Translation] = {}
        self.earlier = 0  # translations of earlier runs
        self.finished = 0
        self._left: Iterator[Translation] = iter(())
        agents = agents or Agents({config.llm.model: config.llm})
        super().__init__(Journal(Path()), agents, max_cost=max_cost, failures=1)

    @property
    def signature_text(self) -> str:
        """The names and hashes of the model, the settings and the prompt, as one text. Saved
        translations name their translator by it."""
        llm = self.agents.get(self.config.llm.model)
        decoding = self.config.model_dump(exclude={"llm"})
        signature = Signature(
            judge="translation",
            revision=content_hash([decoding, dict(llm.identity())]),
            base=llm.name,
            prompt=content_hash(self.prompt.model_dump()),
            version=__version__,
        )
        return str(signature)

    def translate_all(
        self,
        translations: Sequence[Translation],
        out: Path,
        *,
        overwrite: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Translates ``translations``, and sets the field ``texts`` of each. If all attempts at a
        dialogue fail, its ``texts`` stays None.

        The model's answers go to a journal beside the file ``out``, from which a second run
        resumes. ``out`` is not written.

        Args:
            translations: The dialogues to translate, each with its target language.
            out: The file in which the caller will save the translations.
            overwrite: Whether to discard the journal of an earlier run.
            progress: Called after each answer, with the number of finished translations.

        Raises:
            MedalError: Two dialogues have the same id, ``out`` exists without its journal, the
                journal is from a run with other settings, or the model fails 25 times in a row.
            CostLimitError: The cost limit is reached.
        """
        self.made_by = self.signature_text
        run = {"translated_by": self.made_by}
        self.journal = Journal(path_beside(out, "answers"), run)
        if overwrite:
            self.journal.path.unlink(missing_ok=True)
        elif out.exists() and not self.journal.path.exists():
            problem = (
                f"{out} exists, but not {self.journal.path.name}, which a resume needs"
            )
            raise MedalError(problem, hint=START_AGAIN)
        self.jobs = {}
        for job in translations:
            if self.jobs.setdefault(job.id, job) is not job:
                problem = f"two dialogues have the id {job.row.id!r}"
                raise MedalError(problem, hint="Leave one of them out")
        self.replay_journal()
        open_jobs = []
        for job in translations:
            if job.texts is not None:
                self.earlier += 1
            elif job.id not in self.active:
                open_jobs.append(job)
        self.finished = self.earlier
        self._left = iter(open_jobs)

        def report_progress() -> None:
            if progress is not None:
                progress(self.finished)

        self.run(report_progress)

    def belongs_to_run(self, answer: Answer) -> bool:
        return answer.id in self.jobs

    def begin_job(self, id: str) -> Translation | None:
        job = self.jobs[id]
        if job.texts is not None:
            return None
        job.tries = 0
        job.reason = None
        return job

    def activate_jobs(self) -> None:
        while len(self.active) < _AT_ONCE and (job := next(self._left, None)):
            self.begin_job(job.id)
            self.active[job.id] = job

    def apply_answer(self, job: Translation, answer: Answer) -> None:
        job.tries += 1
        job.reason = None
        try:
            job.texts = job.parse_texts(_parse_object(answer.answer))
        except UnusableError as error:
            job.reason = str(error)
            if answer.cut:
                job.reason += " (the answer was truncated at its token limit)"
        if job.reason is None or job.tries == self.config.tries:
            del self.active[job.id]
            self.finished += 1

    def make_request(self, job: Translation) -> ChatRequest:
        """Returns the request for the next attempt at ``job``. Each attempt has its own seed."""
        texts = {key: turn.content for key, turn in job.turns.items()}
        values = {
            "language": language(job.lang).name,
            "dialogue": json.dumps(texts, ensure_ascii=False, indent=1),
        }
        again = []
        if job.reason is not None:
            again.append({"reason": job.reason})
        schema = strict_object_schema({key: {"type": "string"} for key in job.turns})
        return ChatRequest(
            tuple(self.prompt.messages(values, again=again)),
            max_tokens=self.config.max_tokens,
            temperature=0.0,
            seed=job.tries,
            schema=schema,
        )


def translate_to_file(
    runner: TranslationRunner,
    translations: Sequence[Translation],
    out: Path,
    *,
    overwrite: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Counter[str]:
    """Translates dialogues with ``runner``, and writes the translations, without labels,
    to ``out``.

    If ``out`` is ``x.jsonl``, dialogues without a usable translation are written to
    ``x.failed.jsonl``, each with the reason.

    Args:
        runner: The runner of the model that translates.
        translations: The dialogues to translate, each with its target language.
        out: The file to write. Rows in it that are not in ``translations`` are kept.
        overwrite: Whether to discard the translations and the journal of earlier runs.
        progress: Called after each answer, with the number of finished translations.

    Returns:
        Reason of failure -> number of failed translations.

    Raises:
        MedalError: Two dialogues have the same id, ``out`` exists without its journal, the journal
            is from a run with other settings, or the model fails 25 times in a row.
        CostLimitError: The cost limit is reached.
    """
    runner.translate_all(translations, out, overwrite=overwrite, progress=progress)
    rows: list[LabelledDialogue] = []
    if out.exists() and not overwrite:
        ids = {job.row_id for job in translations}
        for row in read_records(out, parse_labelled):
            if row.id not in ids:
                rows.append(row)
    failed = []
    for job in translations:
        dialogue = replace(job.row.dialogue, id=job.row_id)
        extra: dict[str, Any] = {"translated_from": job.row.id, "tries": job.tries}
        if job.texts is None:
            reason = runner.waiting.get(job.id) or job.reason
            extra |= {"to": job.lang, "failure": reason}
            failed.append(LabelledDialogue(dialogue, {}, {}, extra=extra))
            continue
        extra["translated_by"] = runner.made_by
        pairs = zip(dialogue.turns, job.texts, strict=True)
        turns = []
        for turn, text in pairs:
            turns.append(replace(turn, content=text))
        dialogue = replace(
            dialogue,
            lang=job.lang,
            turns=tuple(turns),
            source="medal-translated",
            meta={},
        )
        source = job.row
        row = LabelledDialogue(
            dialogue, {}, {}, split=source.split, group=source.group, extra=extra
        )
        rows.append(row)
    write_records(out, rows)
    path_beside(out, "failed").unlink(missing_ok=True)
    if failed:
        write_records(path_beside(out, "failed"), failed)
    return Counter(str(row.extra["failure"]) for row in failed)


def require_target_languages(languages: Sequence[str], source: str = "en") -> None:
    """Checks the languages to translate into.

    Args:
        languages: Language codes, such as ``de``.
        source: The language of the original dialogues.

    Raises:
        ConfigError: There is no language, or one is unknown, repeated or equal to ``source``.
    """
    for lang in languages:
        language(lang)
    if not languages or len(set(languages)) < len(languages) or source in languages:
        typed = ", ".join(languages) or "nothing"
        raise ConfigError(
            f"--to takes languages, each once and not {source!r}; got {typed}",
            hint="Type for example --to zh --to de",
        )
