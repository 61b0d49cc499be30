"""UniEval: yes-or-no questions about an answer, put to a T5 (Zhong et al., EMNLP 2022)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.dialogue import Dialogue
from medal_judges.dimension import Dimension, load_rubric
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.llm.truncation import oldest_kept
from medal_judges.models.trained_metrics.checkpoint import (
    load_checkpoint,
    plain,
    public_name,
    weights_hash,
)
from medal_judges.models.trained_metrics.sentences import sentences
from medal_judges.models.trained_metrics.turn_metric import (
    Asked,
    Query,
    TokenIds,
    TurnMetric,
    by_turn,
    padded,
)
from medal_judges.signature import Signature, content_hash

OVERALL = "overall"
FieldName = Literal["response", "dialogue history", "fact"]


class Question(Config):
    """One question and the fields that follow it. ``by`` sentence: asked of each sentence."""

    question: str
    fields: tuple[FieldName, ...]
    by: Literal["turn", "sentence"] = "turn"
    needs_fact: bool = False


class InputLayout(Config):
    """How the network's input is put together: configs/prompts/unieval.yaml."""

    separator: str
    turn_separator: str
    history_end: str
    questions: dict[str, Question]

    def text(self, question: Question, fields: Mapping[str, str]) -> str:
        """The input that asks ``question``."""
        parts = [f"question: {question.question}", *(f"{k}: {fields[k]}" for k in question.fields)]
        return self.separator.join(parts)

    def history(self, turns: Sequence[str]) -> str:
        """The turns before the answer as one field."""
        return self.turn_separator.join(turns) + self.history_end if turns else ""


class UniEvalConfig(Config):
    """``model``: a folder or hub id, a T5 trained as UniEval is. ``dimensions``: those of
    ``rubric`` that are scored (all, unless said). ``sentences``: how a question by sentence is
    pooled: ``mean``, or ``sum`` as in the published code. ``fact_keys``: where a dialogue's
    context may hold its fact, the first found is taken."""

    family: Literal["unieval"] = "unieval"
    name: str = "unieval"
    model: str
    revision: str | None = None
    tokenizer: str | None = None
    rubric: str = "unieval"
    prompt: str = "prompts/unieval"
    dimensions: tuple[str, ...] | None = None
    sentences: Literal["mean", "sum"] = "mean"
    fact_keys: tuple[str, ...] = ("knowledge", "fact")
    max_tokens: int = Field(default=1024, ge=16)
    device: str | None = None
    dtype: Literal["fp32", "bf16", "fp16"] = "fp32"


class UniEvalJudge(TurnMetric):
    """P(Yes) / (P(Yes) + P(No)) of the first answer token, for each question about an answer.

    Engagingness is the mean over the answer's sentences. The published code adds them up, so that
    longer answers score more; ``sentences: sum`` does the same (then x / (1 + x) on the scale, and
    the sum as ``raw`` in the details). ``overall`` is the mean of the dimensions scored. At
    level dialogue everything is the mean over all assistant turns. An input longer than
    ``max_tokens`` loses whole oldest turns, counted; the published code cuts its end instead.
    """

    family = "unieval"

    def __init__(self, config: UniEvalConfig, network: Any, tokenizer: Any) -> None:
        self.config, self.name = config, config.name
        self.network, self.tokenizer, self.device = network, tokenizer, network.device
        self.layout = build_config(InputLayout, read_yaml(config.prompt), where=config.prompt)
        self.dimensions = _chosen(load_rubric(config.rubric), config.dimensions)
        self.parts = [d.name for d in self.dimensions if d.name != OVERALL]
        if unasked := [name for name in self.parts if name not in self.layout.questions]:
            raise ConfigError(
                f"{config.prompt} has no question for {', '.join(map(repr, unasked))}",
                hint=f"it has: {', '.join(self.layout.questions)}",
            )
        self._answers = [_answer_id(tokenizer, word) for word in ("Yes", "No")]
        self._weights = weights_hash(network)

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any]) -> UniEvalJudge:
        """A judge of configs/judges/; fields as in UniEvalConfig. Raises JudgeLoadError."""
        config = build_config(UniEvalConfig, dict(settings), where="unieval judge")
        network, tokenizer = load_checkpoint(
            config.model,
            "T5ForConditionalGeneration",
            revision=config.revision,
            tokenizer=config.tokenizer,
            device=config.device,
            dtype=config.dtype,
        )
        return cls(config, network, tokenizer)

    def signature(self) -> Signature:
        from medal_judges import __version__

        pooling = {"sentences": self.config.sentences, "fact_keys": self.config.fact_keys}
        return Signature(
            judge=self.name,
            revision=self._weights,
            base=public_name(self.config.model),
            prompt=content_hash([self.layout.model_dump(), pooling]),
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype=self.config.dtype,
            truncation=f"oldest turns beyond {self.config.max_tokens} tokens",
            version=__version__,
        )

    # -- what is asked -----------------------------------------------------------------------------

    def _ask(self, dialogue: Dialogue, turn: int, asked: Asked) -> None:
        said = [plain(t.content, self.tokenizer).strip() for t in dialogue.turns[: turn + 1]]
        fact = plain(self._fact(dialogue), self.tokenizer)
        for name in self.parts:
            question = self.layout.questions[name]
            if question.needs_fact and not fact:
                keys = " or ".join(f"context.{key}" for key in self.config.fact_keys)
                asked.refuse(name, f"the dialogue brings no fact ({keys})")
                continue
            found = self._inputs(question, said, fact, asked)
            if isinstance(found, str):
                asked.unseen.add(turn)
                asked.refuse(name, found)
            else:
                asked.queries += [Query(name, turn, ids) for ids in found]

    def _inputs(
        self, question: Question, said: Sequence[str], fact: str, asked: Asked
    ) -> list[TokenIds] | str:
        """Token ids of each input about the last of ``said``, or why there is no room for one."""
        found: list[TokenIds] = []
        for answer in sentences(said[-1]) if question.by == "sentence" else [said[-1]]:
            ids, dropped = self._fitted(question, answer, said[:-1], fact)
            if len(ids) > self.config.max_tokens:
                return (
                    f"an input of {len(ids)} tokens without history; {self.config.max_tokens} fit"
                )
            if "dialogue history" in question.fields:
                asked.unseen.update(range(dropped))
            found.append(ids)
        return found

    def _fitted(
        self, question: Question, answer: str, before: Sequence[str], fact: str
    ) -> tuple[TokenIds, int]:
        """Ids with the newest turns that fit, and how many oldest ones were dropped."""

        def encoded(start: int) -> TokenIds:
            history = self.layout.history(before[start:])
            fields = {"response": answer, "dialogue history": history, "fact": fact}
            return tuple(self.tokenizer(self.layout.text(question, fields)).input_ids)

        start = oldest_kept(len(before), lambda k: len(encoded(k)) <= self.config.max_tokens)
        return encoded(start), start

    def _fact(self, dialogue: Dialogue) -> str:
        for key in self.config.fact_keys:
            value = dialogue.context.get(key)
            text = "\n".join(map(str, value)) if isinstance(value, list) else str(value or "")
            if text.strip():
                return text.strip()
        return ""

    # -- what is answered --------------------------------------------------------------------------

    def _forward(self, batch: Sequence[TokenIds]) -> list[float]:
        import torch

        ids, mask = padded(batch, self.tokenizer.pad_token_id or 0, self.device)
        start = torch.full((len(batch), 1), self.network.config.decoder_start_token_id or 0)
        with torch.inference_mode():
            out = self.network(
                input_ids=ids, attention_mask=mask, decoder_input_ids=start.to(self.device)
            )
        yes, no = out.logits[:, 0, self._answers].float().unbind(-1)
        # The softmax over all words cancels in P(Yes) / (P(Yes) + P(No)).
        chances: list[float] = torch.sigmoid(yes - no).tolist()
        return chances

    def _needed(self, dimensions: Sequence[str]) -> set[str]:
        return set(self.parts) if OVERALL in dimensions else set(dimensions)

    def _turn_values(
        self, asked: Asked, dimension: str, found: Mapping[TokenIds, float]
    ) -> dict[int, float]:
        """As in TurnMetric; overall is the mean of the parts, of turns that have all of them."""
        if dimension == OVERALL:
            parts = [self._turn_values(asked, name, found) for name in self.parts]
            shared = set(parts[0]).intersection(*parts[1:]) if parts else set()
            return {turn: sum(p[turn] for p in parts) / len(parts) for turn in sorted(shared)}
        values = by_turn(asked, dimension, found)
        if self._summed(dimension):
            return {turn: sum(each) for turn, each in values.items()}
        return {turn: sum(each) / len(each) for turn, each in values.items()}

    def _summed(self, dimension: str) -> bool:
        question = self.layout.questions.get(dimension)
        by_sentence = question is not None and question.by == "sentence"
        return by_sentence and self.config.sentences == "sum"

    def _unbounded(self, dimension: str) -> bool:
        if dimension == OVERALL:
            return any(map(self._summed, self.parts))
        return self._summed(dimension)


def _chosen(rubric: Sequence[Dimension], names: Sequence[str] | None) -> tuple[Dimension, ...]:
    known = {d.name: d for d in rubric}
    if missing := [name for name in names or () if name not in known]:
        raise ConfigError(
            f"the rubric has no dimension {', '.join(map(repr, missing))}",
            hint=f"it has: {', '.join(known)}",
        )
    return tuple(known[name] for name in (names or known))


def _answer_id(tokenizer: Any, word: str) -> int:
    """Id of the first token of an answer. Raises JudgeLoadError where the word is unknown."""
    first = tokenizer(word).input_ids[0]
    if first == tokenizer.unk_token_id:
        raise JudgeLoadError(f"the tokenizer does not know {word!r}: it is not UniEval's")
    return int(first)
