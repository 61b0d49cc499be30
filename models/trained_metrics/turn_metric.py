"""UniEval and EnDex: published networks that answer questions about single assistant turns.

The papers define no score of a dialogue. Here it is the mean over all assistant turns. UniEval
reads a turn with the turns before it, EnDex reads the turn alone.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from medal_judges.config import Config, build_config, read_yaml
from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.hub import fetch_repo
from medal_judges.models.base.judge import (
    DimensionScore,
    Judge,
    ScoreRequest,
    as_judgement,
)
from medal_judges.models.base.pretrained import load_with_tokenizer, max_positions
from medal_judges.models.base.safe_folder import require_safe_folder
from medal_judges.models.base.saving import require_no_differences
from medal_judges.models.batching import (
    SpecialTokens,
    batch_longest_first,
    pad_rows,
    retry_on_oom,
)
from medal_judges.models.device import Dtype, torch_device, torch_dtype
from medal_judges.models.llm.protocol import first_fitting_start
from medal_judges.models.model_files import network_hash, tokenizer_hash
from medal_judges.records.dialogue import Dialogue
from medal_judges.records.dimension import load_rubric
from medal_judges.records.judgement import Judgement
from medal_judges.records.signature import Signature, content_hash
from medal_judges.storage.files import PicklableLock

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

# Of a checkpoint, without pickles.
_FILES = ("*.json", "*.safetensors", "*.model", "*.txt")
# Weights that must not be left over; a training head may.
_LAYER = re.compile(r"\.(?:layer|layers|block|h)\.\d+\.")
TokenIds = tuple[int, ...]


class MetricConfig(Config):
    """The settings of a published metric, a network such as EnDex that scores assistant turns.

    Attributes:
        name: The judge's name.
        model: The folder or Hub id of the network's weights.
        revision: The branch, tag or commit of a Hub id. None is main.
        tokenizer: The folder or Hub id of the tokenizer. None is the one in ``model``.
        device: Where the metric runs, such as ``cpu``. None is the GPU if there is one.
        dtype: The precision of the weights: ``fp32``, ``bf16`` or ``fp16``.
    """

    name: str
    model: str
    revision: str | None = None
    tokenizer: str | None = None
    device: str | None = None
    dtype: Dtype = "fp32"


def load_checkpoint(
    config: MetricConfig, network_class: str
) -> tuple[Any, PreTrainedTokenizerBase]:
    """Loads a published metric, and returns (network, tokenizer). The network is in
    evaluation mode.

    Args:
        config: The settings, which name the model.
        network_class: The network's class in transformers, such as ``T5ForConditionalGeneration``.

    Raises:
        JudgeLoadError: The model cannot be loaded, or its weights are not in safetensors files.
    """
    import transformers

    kind = getattr(transformers, network_class)
    folder = Path(config.model)
    if not folder.is_dir():
        folder = fetch_repo(config.model, config.revision, patterns=_FILES)
    require_safe_folder(folder)
    device = torch_device(config.device)

    try:
        network, tokenizer, report = load_with_tokenizer(
            kind,
            str(folder),
            lambda settings: None,
            tokenizer=config.tokenizer,
            dtype=torch_dtype(config.dtype),
        )
    except (OSError, ValueError, KeyError) as error:
        raise JudgeLoadError(
            f"cannot load {config.model}: {error}",
            hint=f"Give a {network_class} with safetensors weights. If you trust a pickle, load "
            "it with transformers once, save it and its tokenizer with save_pretrained, and "
            "set model=FOLDER. Another tokenizer: tokenizer=ORG/NAME",
        ) from error
    # transformers would only warn: it draws missing weights at random, and drops others.
    differences = {
        "missing": [*report["missing_keys"], *report["mismatched_keys"]],
        "unexpected": filter(_LAYER.search, report["unexpected_keys"]),
    }
    require_no_differences(folder, differences)
    return network.to(device).eval(), tokenizer


@dataclass(slots=True)
class Queries:
    """The inputs of a metric's network for one dialogue. They are about one turn, or about all
    assistant turns.

    Attributes:
        inputs: (dimension, turn index, token ids) of each input. A turn whose sentences are scored
            separately has an input for each sentence.
        dropped: The indices of the dialogue's turns that are left out of an input because it would
            be too long.
        cut: The indices of scored turns whose input is truncated at its end.
    """

    inputs: list[tuple[str, int, TokenIds]] = field(default_factory=list)
    dropped: set[int] = field(default_factory=set)
    cut: set[int] = field(default_factory=set)


class TurnMetric(Judge):
    """Base class of published metrics that score each assistant turn. A dialogue gets the mean
    score of its turns.

    Args:
        config: The settings, an object of ``config_class``.
        network: The network, in evaluation mode.
        tokenizer: The network's tokenizer.

    Attributes:
        max_tokens: The maximum number of tokens of an input.
        config_class: The class of ``config``.
        network_class: The name of the network's class in transformers, such as
            ``T5ForConditionalGeneration``.
        prompt_hash: A hash of the prompt, or None for a metric without a prompt.
        truncation: What is left out of an input that is too long, such as ``oldest turns beyond 512
            tokens``.
        missing: The message for a dimension without a score, such as ``no input``.
        parts: Dimension -> the dimensions whose mean it is, such as ``{"overall": ["coherence",
            "naturalness"]}``. A dimension that is left out is scored by the network itself.
        sums: Dimensions for which the probabilities of a turn's sentences are added up. For all
            other dimensions they are averaged.
    """

    config: Any
    max_tokens: int
    config_class: ClassVar[type[MetricConfig]] = MetricConfig
    network_class: ClassVar[str]
    prompt_hash: str | None = None
    truncation: str
    missing: ClassVar[str] = "no input"  # why a dimension has no score
    parts: Mapping[str, Sequence[str]] = {}
    sums: Collection[str] = ()

    def __init__(
        self, config: Any, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        self.config, self.name = config, config.name
        self.network, self.tokenizer = network, tokenizer
        # Broken up in turns, which cannot add fields.
        self.marks = SpecialTokens(tokenizer)
        self.computing = PicklableLock()
        self.revision = content_hash([network_hash(network), tokenizer_hash(tokenizer)])

    @classmethod
    def from_settings(cls, settings: Mapping[str, object]) -> TurnMetric:
        """Returns the judge that ``settings``, the content of a YAML file, describe.

        Raises:
            ConfigError: A field is wrong, or the network does not fit the metric.
            JudgeLoadError: The model cannot be loaded.
        """
        where = f"{cls.family} judge"
        config = build_config(cls.config_class, dict(settings), where=where)
        return cls(config, *load_checkpoint(config, cls.network_class))

    def signature(self) -> Signature:
        model = self.config.model  # of a folder the name without its path
        return self.make_signature(
            revision=self.revision,
            base=Path(model).resolve().name if Path(model).is_dir() else model,
            prompt=self.prompt_hash,
            dtype=self.config.dtype,
            truncation=self.truncation,
        )

    def _tokenize_truncated(self, text: str, turn: int, queries: Queries) -> TokenIds:
        """Returns the token ids of ``text``, truncated to ``max_tokens``. If it is truncated, adds
        ``turn`` to ``queries.cut``."""
        ids = self.tokenizer(text).input_ids
        if len(ids) > self.max_tokens:
            queries.cut.add(turn)
            fitting = self.tokenizer(text, truncation=True, max_length=self.max_tokens)
            ids = fitting.input_ids
        return tuple(ids)

    @abstractmethod
    def add_inputs(self, dialogue: Dialogue, turn: int, queries: Queries) -> None:
        """Adds the network's inputs for one turn to ``queries``.

        Args:
            dialogue: The dialogue. Turns after ``turn`` must not be read.
            turn: The index of the turn to score.
            queries: The inputs so far, to which the new inputs are added.
        """

    @abstractmethod
    def _batch_probabilities(self, ids: Tensor, mask: Tensor) -> Tensor:
        """Returns the network's probability of the positive class for each input, [B].

        Args:
            ids: [B, L] token ids.
            mask: [B, L], 1 for a token, 0 for padding.
        """

    def _prepare(self, requests: Sequence[ScoreRequest]) -> None:
        for request in requests:
            dialogue, turn = request.dialogue, request.turn
            request.payload = queries = Queries()
            for asked_turn in dialogue.assistant_turns if turn is None else (turn,):
                self.add_inputs(dialogue, asked_turn, queries)
            request.tokens = sum(len(ids) for _, _, ids in queries.inputs)
            request.truncated_turns = len(queries.dropped)
            request.cut_turns = len(queries.cut)

    def _score_batch(
        self, requests: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Judgement]:
        parts = {part for name in dimensions for part in self.parts.get(name, [name])}
        probabilities = self._compute_probabilities(requests, parts)
        judgements = []
        for request in requests:
            queries: Queries = request.payload
            answers: dict[str, dict[int, list[float]]] = {}
            for name, turn, ids in queries.inputs:
                if ids in probabilities:
                    turns = answers.setdefault(name, {})
                    turns.setdefault(turn, []).append(probabilities[ids])
            results = {}
            for name in dimensions:
                results[name] = self._dimension_score(name, answers)
            judgements.append(as_judgement(results))
        return judgements

    def _compute_probabilities(
        self, requests: Sequence[ScoreRequest], dimensions: set[str]
    ) -> dict[TokenIds, float]:
        """Runs the network and returns token ids -> probability for each distinct input about one
        of ``dimensions``."""
        import torch

        device = self.network.device

        @torch.inference_mode()
        def forward(batch: Sequence[TokenIds]) -> list[float]:
            ids, mask = pad_rows(batch, int(self.tokenizer.pad_token_id or 0))
            values = self._batch_probabilities(ids.to(device), mask.to(device))
            return list(values.tolist())

        sequences = set()
        for request in requests:
            for name, _, ids in request.payload.inputs:
                if name in dimensions:
                    sequences.add(ids)
        probabilities: dict[TokenIds, float] = {}
        for batch in batch_longest_first(
            sorted(sequences), len, self.token_budget, tight=True
        ):
            probabilities.update(zip(batch, retry_on_oom(forward, batch), strict=True))
        return probabilities

    def _dimension_score(
        self, name: str, answers: Mapping[str, Mapping[int, list[float]]]
    ) -> DimensionScore:
        """Returns the score of a dialogue on the dimension ``name``: the mean of the turns' values.

        A turn counts only if every dimension in ``parts[name]`` has a value for it.

        Args:
            answers: Dimension -> turn index -> the probability of the turn, or of each of its
                sentences.
        """
        dimension, parts = self.dimension(name), self.parts.get(name, [name])
        values_by_turn: dict[int, list[float]] = {}
        for part in parts:
            for turn, chances in answers.get(part, {}).items():
                value = sum(chances)
                if part not in self.sums:
                    value /= len(chances)
                values_by_turn.setdefault(turn, []).append(value)
        turns = {}
        for turn, values in sorted(values_by_turn.items()):
            if len(values) == len(parts):
                turns[turn] = sum(values) / len(parts)
        if not turns:
            return DimensionScore(failure=f"{name}: {self.missing}")
        raw = sum(turns.values()) / len(turns)
        if set(parts) & set(self.sums):  # above 1; x / (1 + x) keeps ranks
            score = dimension.from_unit(raw / (1 + raw))
            return DimensionScore(score, details={"raw": raw})
        distribution = [1 - raw, raw] if dimension.kind == "binary" else ()
        return DimensionScore(dimension.from_unit(raw), distribution)


ENGAGING = 1  # label of the class "engaging" (the published model's documentation)


class EnDexJudge(TurnMetric):
    """EnDex (Xu et al., EMNLP 2022): the probability that an assistant turn is engaging.

    A RoBERTa classifier reads the turn without the turns before it. It was trained on Reddit posts,
    labelled by how users reacted to them. The end of a turn that is too long is not read.

    Raises:
        ConfigError: The network does not have two classes.
    """

    family = "endex"
    network_class = "RobertaForSequenceClassification"

    def __init__(
        self, config: Any, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        super().__init__(config, network, tokenizer)
        if network.config.num_labels != 2:
            raise ConfigError(
                f"{config.name}: EnDex has two classes, this model {network.config.num_labels}"
            )
        self.dimensions = load_rubric("endex")
        self.max_tokens = max_positions(network.config) or 0
        self.truncation = f"ends of turns beyond {self.max_tokens} tokens"

    def add_inputs(self, dialogue: Dialogue, turn: int, queries: Queries) -> None:
        text = self.marks.break_up(dialogue.turns[turn].content)
        ids = self._tokenize_truncated(text, turn, queries)
        for dimension in self.dimensions:
            queries.inputs.append((dimension.name, turn, ids))

    def _batch_probabilities(self, ids: Tensor, mask: Tensor) -> Tensor:
        logits: Tensor = self.network(input_ids=ids, attention_mask=mask).logits.float()
        return logits.softmax(dim=-1)[:, ENGAGING]


OVERALL = "overall"
# Keys of the dialogue's context in which its fact is looked up, in this order.
FACT_KEYS = ("knowledge", "fact")
# After a full stop, question or exclamation mark with its closing quotes. Scripts without spaces
# between sentences have their own marks, which no abbreviation or decimal uses.
_END = re.compile(
    r"(?<=[.!?…])(?<!\b[A-Z]\.)[\"'”’)\]]*\s+|(?<=[。！？｡।؟۔])[\"'”’」』）]*\s*|\n+"
)


class UniEvalConfig(MetricConfig):
    """The settings of UniEval.

    Attributes:
        dimensions: The names of the dimensions to score. None is all.
        sentences: Whether the probabilities of a turn's sentences are averaged (``mean``) or added
            up (``sum``). The published code adds them up, which favours long turns.
        max_tokens: The maximum number of tokens of an input.
    """

    dimensions: tuple[str, ...] | None = None
    sentences: Literal["mean", "sum"] = "mean"
    max_tokens: int = Field(default=1024, ge=16)


class UniEvalJudge(TurnMetric):
    """UniEval (Zhong et al., EMNLP 2022): for each dimension, a T5 answers a yes-or-no question
    about an assistant turn, such as whether the turn is coherent.

    The score of a turn is P(Yes) / (P(Yes) + P(No)). ``overall`` is the mean of the other
    dimensions.

    Raises:
        JudgeLoadError: The tokenizer has no tokens for Yes and No.
    """

    family = "unieval"
    config_class = UniEvalConfig
    network_class = "T5ForConditionalGeneration"
    missing = f"the dialogue has no fact (context.{' or context.'.join(FACT_KEYS)})"

    def __init__(
        self, config: Any, network: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
    ) -> None:
        super().__init__(config, network, tokenizer)
        self.layout, self.max_tokens = read_yaml("prompts/unieval"), config.max_tokens
        self.dimensions = load_rubric("unieval", config.dimensions or ())
        questions = self.layout["questions"]
        names = [d.name for d in self.dimensions if d.name != OVERALL]
        self.parts = {OVERALL: names}
        if config.sentences == "sum":
            self.sums = [name for name in names if "by" in questions[name]]
        self._answers = [int(tokenizer(word).input_ids[0]) for word in ("Yes", "No")]
        if tokenizer.unk_token_id in self._answers:
            raise JudgeLoadError(
                "the tokenizer does not know Yes and No. Give the one of UniEval"
            )
        pooling = {"sentences": config.sentences, "fact_keys": FACT_KEYS}
        self.prompt_hash = content_hash([self.layout, pooling])
        self.truncation = f"oldest turns beyond {config.max_tokens} tokens"

    def add_inputs(self, dialogue: Dialogue, turn: int, queries: Queries) -> None:
        turns = dialogue.turns[: turn + 1]
        *before, response = (self.marks.break_up(t.content).strip() for t in turns)
        fact = self._find_fact(dialogue)
        for name in self.parts[OVERALL]:
            question = self.layout["questions"][name]
            if "needs_fact" in question and not fact:
                continue
            answers = split_sentences(response) if "by" in question else [response]
            for answer in answers:
                text, dropped = self._build_fitting_input(
                    question, answer, before, fact
                )
                queries.inputs.append(
                    (name, turn, self._tokenize_truncated(text, turn, queries))
                )
                if "dialogue history" in question["fields"]:
                    queries.dropped.update(range(dropped))

    def _find_fact(self, dialogue: Dialogue) -> str:
        """Returns the background fact that a reply should use, from ``dialogue.context``, or an
        empty string."""
        for key in FACT_KEYS:
            value = dialogue.context.get(key)
            if isinstance(value, list):
                value = "\n".join(map(str, value))
            fact = self.marks.break_up(str(value or "").strip())
            if fact:
                return fact
        return ""

    def _build_fitting_input(
        self, question: Mapping[str, Any], answer: str, before: Sequence[str], fact: str
    ) -> tuple[str, int]:
        """Returns the network's input about one reply, with as many of the newest turns as fit, and
        the number of older turns left out.

        Args:
            question: An entry of prompts/unieval.yaml: the ``question`` and the names of the
                ``fields`` to show.
            answer: The reply, or one sentence of it.
            before: The turns before the reply.
            fact: The background fact, or an empty string.
        """
        layout = self.layout

        def text(start: int) -> str:
            history = layout["turn_separator"].join(before[start:])
            if start < len(before):
                history += layout["history_end"]
            fields = {"response": answer, "dialogue history": history, "fact": fact}
            parts = [f"question: {question['question']}"]
            parts += [f"{field}: {fields[field]}" for field in question["fields"]]
            return str(layout["separator"].join(parts))

        def fits(start: int) -> bool:
            return len(self.tokenizer(text(start)).input_ids) <= self.max_tokens

        start = first_fitting_start(len(before), fits)
        return text(start), start

    def _batch_probabilities(self, ids: Tensor, mask: Tensor) -> Tensor:
        start = ids.new_full(
            (len(ids), 1), self.network.config.decoder_start_token_id or 0
        )
        out = self.network(input_ids=ids, attention_mask=mask, decoder_input_ids=start)
        logits: Tensor = out.logits[:, 0, self._answers].float()
        # The softmax over all words cancels in P(Yes) / (P(Yes) + P(No)).
        return (logits[:, 0] - logits[:, 1]).sigmoid()


def split_sentences(text: str) -> list[str]:
    """Returns the sentences of ``text``. For an empty text it returns one empty sentence."""
    parts, start = [], 0
    for end in _END.finditer(text):
        parts.append(text[start : end.end()].strip())
        start = end.end()
    parts.append(text[start:].strip())
    return list(filter(None, parts)) or [text.strip()]
