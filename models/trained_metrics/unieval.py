"""UniEval: a T5 answers yes-or-no questions about a reply (Zhong et al., EMNLP 2022)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.llm.protocol import oldest_kept
from medal_judges.models.trained_metrics.turn_metric import (
    CheckpointConfig,
    Queries,
    TokenIds,
    TurnMetric,
)
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.records.signature import content_hash

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

OVERALL = "overall"
FieldName = Literal["response", "dialogue history", "fact"]
# After a full stop, question or exclamation mark with its closing quotes. Scripts without spaces
# between sentences have their own marks, which no abbreviation or decimal uses.
_END = re.compile(r"(?<=[.!?…])(?<!\b[A-Z]\.)[\"'”’)\]]*\s+|(?<=[。！？｡।؟۔])[\"'”’」』）]*\s*|\n+")


class UniEvalQuestion(Config):
    """One question and the fields that follow it. ``by`` sentence: asked about each sentence."""

    question: str
    fields: tuple[FieldName, ...]
    by: Literal["turn", "sentence"] = "turn"
    needs_fact: bool = False


class InputLayout(Config):
    """The layout of the network's input: configs/prompts/unieval.yaml."""

    separator: str
    turn_separator: str
    history_end: str
    questions: dict[str, UniEvalQuestion]


class UniEvalConfig(CheckpointConfig):
    """``model``: a T5 trained as UniEval is. ``dimensions``: those of ``rubric`` to score (default:
    all). ``sentences``: how a question by sentence is pooled: ``mean``, or ``sum`` as in the
    published code. ``fact_keys``: keys of the dialogue's context for its fact; the first that
    exists is used."""

    family: Literal["unieval"] = "unieval"
    name: str = "unieval"
    rubric: str = "unieval"
    prompt: str = "prompts/unieval"
    dimensions: tuple[str, ...] | None = None
    sentences: Literal["mean", "sum"] = "mean"
    fact_keys: tuple[str, ...] = ("knowledge", "fact")
    max_tokens: int = Field(default=1024, ge=16)


class UniEvalJudge(TurnMetric[UniEvalConfig]):
    """P(Yes) / (P(Yes) + P(No)) of the first answer token, for each question about an answer.

    Engagingness is the mean over the answer's sentences. The published code sums them, so that
    longer answers score more; ``sentences: sum`` does the same (then x / (1 + x) on the scale, with
    the sum as ``raw`` in the details). ``overall`` is the mean of the scored dimensions. At level
    dialogue all are means over the assistant turns. An input longer than ``max_tokens`` loses whole
    oldest turns, which are counted; the published code cuts its end instead.
    """

    family = "unieval"
    config_class = UniEvalConfig
    network_class = "T5ForConditionalGeneration"

    def __init__(
        self, config: UniEvalConfig, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        super().__init__(config, network, tokenizer)
        self.layout = build_config(InputLayout, read_yaml(config.prompt), where=config.prompt)
        self.dimensions = load_rubric(config.rubric, config.dimensions or ())
        self.parts = [d.name for d in self.dimensions if d.name != OVERALL]
        if unasked := [name for name in self.parts if name not in self.layout.questions]:
            raise ConfigError(
                f"{config.prompt} has no question for {', '.join(map(repr, unasked))}",
                hint=f"it has: {', '.join(self.layout.questions)}",
            )
        self._answers = [int(tokenizer(word).input_ids[0]) for word in ("Yes", "No")]
        if tokenizer.unk_token_id in self._answers:
            raise JudgeLoadError("the tokenizer does not know Yes and No: it is not UniEval's")
        pooling = {"sentences": config.sentences, "fact_keys": config.fact_keys}
        self.prompt_hash = content_hash([self.layout.model_dump(), pooling])
        self.truncation = f"oldest turns beyond {config.max_tokens} tokens"

    def _ask(self, dialogue: Dialogue, turn: int, queries: Queries) -> None:
        texts = [self.marks.broken_up(t.content).strip() for t in dialogue.turns[: turn + 1]]
        before, limit, fact = texts[:-1], self.config.max_tokens, ""
        for key in reversed(self.config.fact_keys):  # the first one with text counts
            value = dialogue.context.get(key)
            text = "\n".join(map(str, value)) if isinstance(value, list) else str(value or "")
            fact = self.marks.broken_up(text.strip()) or fact
        for name in self.parts:
            question = self.layout.questions[name]
            if question.needs_fact and not fact:
                keys = " or ".join(f"context.{key}" for key in self.config.fact_keys)
                queries.refused.setdefault(name, f"the dialogue brings no fact ({keys})")
                continue
            answers = sentences(texts[-1]) if question.by == "sentence" else [texts[-1]]
            inputs = [self._fitted(question, answer, before, fact) for answer in answers]
            if too_long := [len(ids) for ids, _ in inputs if len(ids) > limit]:
                queries.unseen.add(turn)
                reason = f"an input of {too_long[0]} tokens without history; {limit} fit"
                queries.refused.setdefault(name, reason)
                continue
            if "dialogue history" in question.fields:
                queries.unseen.update(*(range(dropped) for _, dropped in inputs))
            queries.asked += [(name, turn, ids) for ids, _ in inputs]

    def _fitted(
        self, question: UniEvalQuestion, answer: str, before: Sequence[str], fact: str
    ) -> tuple[TokenIds, int]:
        """(token ids with the newest turns that fit, number of older turns dropped)."""
        layout = self.layout

        def encoded(start: int) -> TokenIds:
            turns = before[start:]
            history = layout.turn_separator.join(turns) + layout.history_end if turns else ""
            fields = {"response": answer, "dialogue history": history, "fact": fact}
            parts = [f"{field}: {fields[field]}" for field in question.fields]
            text = layout.separator.join([f"question: {question.question}", *parts])
            return tuple(self.tokenizer(text).input_ids)

        start = oldest_kept(len(before), lambda k: len(encoded(k)) <= self.config.max_tokens)
        return encoded(start), start

    def _probability(self, ids: Tensor, mask: Tensor) -> Tensor:
        start = ids.new_full((len(ids), 1), self.network.config.decoder_start_token_id or 0)
        out = self.network(input_ids=ids, attention_mask=mask, decoder_input_ids=start)
        yes, no = out.logits[:, 0, self._answers].float().unbind(-1)
        # The softmax over all words cancels in P(Yes) / (P(Yes) + P(No)).
        chance: Tensor = (yes - no).sigmoid()
        return chance

    def _needed(self, dimensions: Sequence[str]) -> set[str]:
        return set(self.parts) if OVERALL in dimensions else set(dimensions)

    def _turn_values(
        self, dimension: str, answers: Mapping[str, Mapping[int, list[float]]]
    ) -> tuple[dict[int, float], bool]:
        """As in TurnMetric; overall is the mean of the parts, of turns that have all of them."""
        if dimension == OVERALL:
            parts = [self._turn_values(name, answers) for name in self.parts]
            shared = set.intersection(*(set(values) for values, _ in parts)) if parts else set()
            means = {t: sum(v[t] for v, _ in parts) / len(parts) for t in sorted(shared)}
            return means, all(bounded for _, bounded in parts)
        question = self.layout.questions[dimension]
        if question.by == "sentence" and self.config.sentences == "sum":
            return {t: sum(values) for t, values in answers.get(dimension, {}).items()}, False
        return super()._turn_values(dimension, answers)


def sentences(text: str) -> list[str]:
    """Returns the non-empty sentences in order; a text without words is one empty sentence."""
    parts: list[str] = []
    start = 0
    for end in _END.finditer(text):
        parts.append(text[start : end.end()].strip())
        start = end.end()
    parts.append(text[start:].strip())
    return [part for part in parts if part] or [text.strip()]
