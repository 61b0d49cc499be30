"""The prompted judge: a language model is asked, and its answer is read.

MEDAL, ORALIS, the DSTC-12 baseline and MEEP are files of configs/judges/ for this one family.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medal_judges.config import build_config
from medal_judges.dialogue import Turn
from medal_judges.dimension import load_rubric
from medal_judges.errors import ConfigError
from medal_judges.models.base.judge import Judge, Prediction, ScoreRequest
from medal_judges.models.llm.amounts import add_usage, usage_of
from medal_judges.models.llm.batched import asks_in_batches
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    LanguageModel,
    Message,
    Usage,
)
from medal_judges.models.llm.truncation import oldest_kept
from medal_judges.models.prompted import expected
from medal_judges.models.prompted.answers import Said, to_scores
from medal_judges.models.prompted.asking_again import is_asked_again, read_again, second_request
from medal_judges.models.prompted.context import kept_turns, summary_words, turns_to_shorten
from medal_judges.models.prompted.examples import Example, chosen_examples, load_examples
from medal_judges.models.prompted.geval_ratings import Found
from medal_judges.models.prompted.likelihood_questions import tells_likelihoods
from medal_judges.models.prompted.parsing.parser import Parsed, parse_answer
from medal_judges.models.prompted.prompt import Prompt, fill, load_prompt, resolve
from medal_judges.models.prompted.question import Asker, Question, Shown
from medal_judges.models.prompted.settings import PromptedConfig
from medal_judges.signature import Signature, content_hash

ALTERNATIVES = 20  # how many an API reports at most
A_BATCH = 10_000  # dialogues in one call of a batch API: each call waits for hours


@dataclass(slots=True)
class Plan:
    """What is shown of one item, and what it took to get there."""

    turns: list[Turn | None]
    response: Turn | None
    left_out: int = 0
    shortened: int = 0
    usage: dict[str, float] = field(default_factory=dict)
    failure: str | None = None
    transient: bool = False

    def shown(self, start: int) -> Shown:
        """The turns from ``start`` on (an index into ``turns``)."""
        return Shown(tuple(self.turns[start:]), self.response)


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer about the item at position ``item`` of a batch, and what was read in it."""

    item: int
    question: Question
    request: ChatRequest
    completion: Completion
    parsed: Mapping[str, Parsed]
    earlier: tuple[Usage, ...] = ()  # of an answer that this one was asked for after


class PromptedJudge(Judge):
    """Asks a language model for numbers, one request a dimension or one for all.

    Which step of the parser read an answer is in ``details``, with the expected rating and its
    spread. A dialogue whose answer cannot be read has its reason in ``failure``. Requests of one
    batch go to the model in one call.
    """

    family = "prompted"
    token_budget = 65536  # what a batch asks at once; a local model cuts it to its own memory
    window = 16  # some seconds to a minute of work: what a kill can lose

    def __init__(self, config: PromptedConfig) -> None:
        self.config, self.name = config, config.name
        known = {d.name: d for d in load_rubric(config.rubric)}
        if missing := [name for name in config.dimensions if name not in known]:
            raise ConfigError(
                f"{config.name}: the rubric {config.rubric} has no dimension {missing[0]!r}",
                hint=f"it has: {', '.join(known)}",
            )
        self.dimensions = tuple(known[name] for name in config.dimensions or known)
        self.prompt = load_prompt(config.prompt)
        self.askers = self._askers(self.prompt)
        self.words = summary_words(config.context)
        self.shortening = load_prompt(config.summary_prompt) if self.words else None
        shows = any(asker.chosen.examples for asker in self.askers.values())
        self.examples = load_examples(config.examples, self.dimensions) if shows else ()
        scales = next(iter(self.askers.values()))
        self.ratings = {d.name: expected.ratings_of(d, scales.scale(d)) for d in self.dimensions}
        self.llm: LanguageModel = load_llm(config.llm)
        own = self.words is not None and config.summary_llm is not None
        self.shortener = load_llm(config.summary_llm) if own else self.llm
        if asks_in_batches(self.llm):
            self.window, self.token_budget = A_BATCH, A_BATCH * self.llm.context
        if config.expected == "likelihood" and not tells_likelihoods(self.llm):
            raise ConfigError(
                f"{config.name}: {self.llm.name} cannot tell the likelihood of a text",
                hint="expected=alternatives or expected=none",
            )

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> PromptedJudge:
        """A judge of configs/judges/; fields as in PromptedConfig. Raises ConfigError."""
        return cls(build_config(PromptedConfig, dict(settings), where="prompted judge"))

    def _askers(self, prompt: Prompt) -> dict[str, Asker]:
        """Language -> how it is asked; all that the prompt has for ``auto``, else one."""
        config = self.config
        languages = ["en", *prompt.languages] if config.language == "auto" else [config.language]
        return {
            language: Asker(
                resolve(
                    prompt,
                    variant=config.variant,
                    layout=config.layout,
                    language=language,
                    answer=config.answer,
                ),
                self.dimensions,
                config.role,
            )
            for language in languages
        }

    def language_models(self) -> list[LanguageModel]:
        return [self.llm, self.shortener]

    def signature(self) -> Signature:
        from medal_judges import __version__

        fingerprint = dict(self.llm.fingerprint())
        # What files hold is hashed below; where they lie does not matter.
        files = {"prompt", "rubric", "examples", "summary_prompt"}
        settings = self.config.model_dump(exclude={"name", "llm", "summary_llm", "seed", *files})
        if self.shortener is not self.llm:
            settings["summary_llm"] = [self.shortener.name, dict(self.shortener.fingerprint())]
        texts = {language: asker.chosen.hash for language, asker in self.askers.items()}
        shorten = self.shortening.parts if self.shortening else None
        shown = [e.model_dump() for e in self.examples]
        return Signature(
            judge=self.name,
            revision=content_hash([settings, fingerprint]),
            base=self.llm.name,
            prompt=content_hash([texts, shorten, shown]),
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype=fingerprint.get("dtype"),
            truncation=f"oldest turns beyond {self.prompt_budget} tokens",
            seed=self.config.seed,
            version=__version__,
        )

    @property
    def answer_tokens(self) -> int:
        """Tokens an answer may take: ``max_tokens``, and half of the model's window at most."""
        return min(self.config.max_tokens, self.llm.context // 2)

    @property
    def prompt_budget(self) -> int:
        """Tokens a prompt may take."""
        budget = self.llm.context - self.answer_tokens
        return min(budget, self.config.max_prompt_tokens or budget)

    def asker(self, item: ScoreRequest) -> Asker:
        """In the dialogue's language where the judge has it, else in its first one."""
        first = next(iter(self.askers.values()))
        return self.askers.get(item.dialogue.lang, first)

    # -- what is shown -------------------------------------------------------------------------

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        plans = [self._plan(item) for item in items]
        if self.words is not None:
            self._shorten(plans)
        for item, plan in zip(items, plans, strict=True):
            self._fit(item, plan)

    def _plan(self, item: ScoreRequest) -> Plan:
        turns = item.dialogue.turns
        response = None if item.turn is None else turns[item.turn]
        before = turns if item.turn is None else turns[: item.turn]
        kept = kept_turns(before, self.config.context)
        shown: list[Turn | None] = []
        for i, index in enumerate(kept):
            if i and index != kept[i - 1] + 1:
                shown.append(None)
            shown.append(before[index])
        return Plan(shown, response, left_out=len(before) - len(kept))

    def _shorten(self, plans: Sequence[Plan]) -> None:
        """Replace long answers by the model's own summaries: one more request each."""
        places = [
            (plan, i)
            for plan in plans
            for i in turns_to_shorten(
                [t for t in plan.turns if t is not None],
                longest=self.config.summary_from,
                dialogue=self.config.summary_dialogue,
            )
        ]
        requests = [self._shortening_request(plan.turns[i]) for plan, i in places]
        answers = self.shortener.chat(requests) if requests else []
        for (plan, i), request, done in zip(places, requests, answers, strict=True):
            add_usage(plan.usage, usage_of(self.shortener, request, done))
            plan.shortened += 1
            if done.finish == "stop" and done.text.strip():
                plan.turns[i] = Turn("assistant", done.text.strip())
            else:
                reason = done.failure or f"an answer that ended by {done.finish!r}"
                plan.failure = f"a turn could not be shortened: {reason}"
                plan.transient = plan.transient or done.transient

    def _shortening_request(self, turn: Turn | None) -> ChatRequest:
        assert turn is not None and self.words is not None and self.shortening is not None
        chosen = resolve(self.shortening)
        text = fill(
            chosen.template(chosen.layout.dialogue),
            {"words": str(self.words), "response": " ".join(turn.content.split())},
        )
        return ChatRequest((Message("user", text),), max_tokens=6 * self.words)

    def _fit(self, item: ScoreRequest, plan: Plan) -> None:
        """Whole oldest turns go until the longest of the item's prompts fits."""
        asker = self.asker(item)
        lengths = {q: self._length(item, plan, q, 0) for q in asker.questions}
        longest = max(lengths, key=lambda q: lengths[q])
        start, item.tokens = 0, lengths[longest]
        if item.tokens > self.prompt_budget:
            most = len(plan.turns) - (plan.response is None)
            start = oldest_kept(
                most, lambda k: self._length(item, plan, longest, k) <= self.prompt_budget
            )
            item.tokens = self._length(item, plan, longest, start)
        if item.tokens > self.prompt_budget:
            fits = self.prompt_budget
            told = f"a prompt of {item.tokens} tokens with the last turn alone; {fits} fit"
            plan.failure = plan.failure or told
        item.truncated_turns = sum(turn is not None for turn in plan.turns[:start])
        plan.turns = plan.turns[start:]
        item.payload = plan

    def _length(self, item: ScoreRequest, plan: Plan, question: Question, start: int) -> int:
        return self.llm.count_tokens(self._messages(item, question, plan.shown(start)))

    def _messages(
        self, item: ScoreRequest, question: Question, shown: Shown
    ) -> tuple[Message, ...]:
        asker = self.asker(item)
        examples = self._examples(item, asker, question)
        excerpt, lang = self.config.excerpt_turns, item.dialogue.lang
        return asker.messages(question, shown, examples, excerpt, lang)

    def _examples(self, item: ScoreRequest, asker: Asker, question: Question) -> list[Example]:
        if not asker.chosen.examples:
            return []
        return chosen_examples(
            self.examples,
            question.dimensions[0].name,
            asker.chosen.examples,
            seed=self.config.seed,
            without=item.dialogue.id,
        )

    def _units(self, items: Sequence[ScoreRequest]) -> list[list[int]]:
        """The turns of one dialogue together: their prompts begin alike."""
        units: dict[str, list[int]] = {}
        for i, item in enumerate(items):
            units.setdefault(item.dialogue.id, []).append(i)
        return list(units.values())

    # -- what is asked and said ----------------------------------------------------------------

    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        asked = [
            (i, question)
            for i, item in enumerate(items)
            if item.payload.failure is None
            for question in self.asker(item).questions
            if any(d.name in dimensions for d in question.dimensions)
        ]
        requests = [r for i, question in asked for r in self._requests(items[i], question)]
        completions = self.llm.chat(requests) if requests else []
        repeated = [each for each in asked for _ in range(self.config.repeats)]
        replies = [
            Reply(i, question, request, completion, self._parsed(items[i], question, completion))
            for (i, question), request, completion in zip(
                repeated, requests, completions, strict=True
            )
        ]
        return self._scores(items, self._asked_again(items, replies), dimensions)

    def _asked_again(self, items: Sequence[ScoreRequest], replies: Sequence[Reply]) -> list[Reply]:
        """``replies``, those without a number that can be told replaced by what a second question
        for the number alone gives."""
        done = list(replies)
        wanted = {
            i: second_request(self.llm, asker, r.question, r.request, r.completion)
            for i, r in enumerate(replies if self.config.ask_again else ())
            if is_asked_again(
                asker := self.asker(items[r.item]), r.question, r.completion, r.parsed
            )
        }
        answers = self.llm.chat(list(wanted.values())) if wanted else []
        for (i, request), answer in zip(wanted.items(), answers, strict=True):
            r = replies[i]
            parsed = read_again(self.asker(items[r.item]), r.question, answer, r.parsed)
            earlier = (usage_of(self.llm, r.request, r.completion),)
            done[i] = Reply(r.item, r.question, request, answer, parsed, earlier)
        return done

    def _requests(self, item: ScoreRequest, question: Question) -> list[ChatRequest]:
        config, asker = self.config, self.asker(item)
        json = asker.chosen.answer.format == "json" and config.enforce
        request = ChatRequest(
            self._messages(item, question, item.payload.shown(0)),
            max_tokens=self.answer_tokens,
            temperature=config.temperature,
            top_p=config.top_p,
            seed=config.seed,
            schema=asker.schema(question, config.comment_chars) if json else None,
            top_logprobs=ALTERNATIVES if config.expected == "alternatives" else 0,
        )
        return [replace(request, seed=config.seed + k) for k in range(config.repeats)]

    def _parsed(
        self, item: ScoreRequest, question: Question, completion: Completion
    ) -> dict[str, Parsed]:
        return parse_answer(completion, question.wanted, self.asker(item).chosen.answer)

    def _scores(
        self, items: Sequence[ScoreRequest], replies: Sequence[Reply], dimensions: Sequence[str]
    ) -> list[Prediction]:
        said: list[dict[str, Said]] = [{} for _ in items]
        usages = [dict(item.payload.usage) for item in items]
        for reply, weighed in zip(replies, self._weighed(items, replies), strict=True):
            for usage in (*reply.earlier, usage_of(self.llm, reply.request, reply.completion)):
                add_usage(usages[reply.item], usage)
            for name, found in weighed.items():
                for usage in found.usages if found is not None else ():
                    add_usage(usages[reply.item], usage)
                each = said[reply.item].setdefault(name, Said())
                each.parsed.append(reply.parsed[name])
                each.found.append(found)
        scores = [
            self._one(item, each, usage, dimensions)
            for item, each, usage in zip(items, said, usages, strict=True)
        ]
        missing = {reply.item for reply in replies if reply.completion.transient}
        for i, (item, answer) in enumerate(zip(items, scores, strict=True)):
            answer.transient = item.payload.transient or i in missing
        return scores

    def _one(
        self,
        item: ScoreRequest,
        said: Mapping[str, Said],
        usage: dict[str, float],
        dimensions: Sequence[str],
    ) -> Prediction:
        plan, usage = item.payload, usage or {"tokens": 0.0}
        if plan.failure is not None:
            scores = Prediction(dict.fromkeys(dimensions), failure=plan.failure, usage=usage)
        else:
            wanted = [self.dimension(name) for name in dimensions]
            scores = to_scores(said, self.asker(item), wanted, self.ratings, self.config, usage)
        scores.left_out_turns, scores.shortened_turns = plan.left_out, plan.shortened
        return scores

    def _weighed(
        self, items: Sequence[ScoreRequest], replies: Sequence[Reply]
    ) -> list[dict[str, Found | None]]:
        """For each reply, dimension -> the distribution over its ratings, None where not known."""
        if self.config.expected == "likelihood":
            asked = [
                expected.continuations(
                    r.request.messages,
                    r.completion,
                    r.parsed[name],
                    self.ratings[name],
                    bare=self.asker(items[r.item]).chosen.answer.format == "number",
                )
                for r in replies
                for name in r.parsed
            ]
            owners = [r.item for r in replies for _ in r.parsed]
            found = iter(expected.by_likelihood(self.llm, asked, owners))
            return [{name: next(found) for name in r.parsed} for r in replies]
        known = self.config.expected == "alternatives"
        return [
            {
                name: expected.from_alternatives(r.completion, parsed, self.ratings[name])
                if known
                else None
                for name, parsed in r.parsed.items()
            }
            for r in replies
        ]
