"""Encoder-decoder language models (BlenderBot, as FULL used it). The encoder reads the dialogue,
and the decoder scores the next turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from medal_judges.errors import ConfigError
from medal_judges.models.batching import SpecialTokens
from medal_judges.models.llm.local.likelihood import context_length
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)
from medal_judges.models.model_files import network_hash, tokenizer_hash
from medal_judges.records.signature import content_hash
from medal_judges.storage.files import PicklableLock

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

BETWEEN = "  "  # what BlenderBot was trained with between turns


class EncoderDecoderModel(LanguageModel):
    """An encoder-decoder model of transformers. It computes likelihoods and writes no answers.

    Args:
        model: The network.
        tokenizer: The tokenizer of the model.
        name: The name of the model.
        context: The context length in tokens, if it should be lower than the model's own.
        weights: A hash of the model's files. None computes a hash of the parameters of ``model``.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        name: str,
        context: int | None = None,
        weights: str | None = None,
    ) -> None:
        self.model, self.tokenizer, self.name = model, tokenizer, name
        positions = context_length(model.config)
        self.context = min(positions, context or positions)
        self.marks = SpecialTokens(tokenizer)
        self._weights, self._vocabulary = weights, tokenizer_hash(tokenizer)
        self.computing = PicklableLock()  # one network, one thread at a time

    def identity(self) -> Mapping[str, str]:
        return {
            "template": content_hash(self.tokenizer.chat_template or BETWEEN),
            "dtype": str(self.model.dtype).removeprefix("torch."),
            "tokenizer": self._vocabulary,
            "weights": self._weights or network_hash(self.model),
        }

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        """Always raises ConfigError, because the model computes likelihoods only."""
        raise ConfigError(
            f"{self.name} has an encoder and gives likelihoods only",
            hint="Use a model without encoder, or write family: followup",
        )

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return len(self._encoder_ids(messages))

    def _encoder_ids(self, messages: Sequence[Message]) -> list[int]:
        """Returns the token ids that the encoder reads for ``messages``."""
        break_up = self.marks.break_up
        if self.tokenizer.chat_template:
            chat = [{"role": m.role, "content": break_up(m.content)} for m in messages]
            text = self.tokenizer.apply_chat_template(chat, tokenize=False)
            return list(self.tokenizer(text, add_special_tokens=False).input_ids)
        # Without roles: such models are trained to write the next turn of either speaker.
        text = BETWEEN.join(" ".join(break_up(m.content).split()) for m in messages)
        return list(self.tokenizer(text).input_ids)

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        """Computes how likely the model is to write given texts (continuations), each as the next
        turn of a chat.

        Args:
            groups: Lists of continuations. Within a list, each distinct chat is encoded once.
            joint: Must be False, because the encoder gives no log-probability of the chat.

        Returns:
            For each list, the likelihoods of its continuations, in order.

        Raises:
            ConfigError: ``joint`` is True, or a text is empty, or a text or its chat is longer than
                the context length.
        """
        if joint:
            raise ConfigError(
                f"{self.name} reads a dialogue in its encoder, where it has no likelihood",
                hint="Write likelihood: conditional, or use a model without encoder",
            )
        import torch

        answers = []
        with self.computing, torch.inference_mode():
            for group in groups:
                read: dict[tuple[Message, ...], tuple[int, Any]] = {}
                likelihoods = []
                for continuation in group:
                    messages = continuation.messages
                    if messages not in read:
                        ids = self._encoder_ids(messages)
                        self.require_room(len(ids))
                        encoded = torch.tensor([ids], device=self.model.device)
                        states = self.model.get_encoder()(input_ids=encoded)
                        read[messages] = (len(ids), states)
                    length, states = read[messages]
                    logprobs = self._logprobs_of(states, continuation)
                    likelihoods.append(Likelihood(tuple(logprobs), None, length))
                answers.append(likelihoods)
        return answers

    def _decoder_ids(self, continuation: Continuation) -> tuple[list[int], int]:
        """Returns (token ids for the decoder, index of the first scored token).

        Args:
            continuation: The text to score and its ``prefill``, the unscored beginning of the turn.

        Raises:
            ConfigError: The text is empty.
        """
        text, prefill = continuation.text.strip(), continuation.prefill.strip()
        if not text:
            raise ConfigError("a continuation without text has no likelihood")
        special = self.tokenizer.all_special_ids
        turn = f"{prefill} {text}".lstrip()
        ids = list(self.tokenizer(text_target=turn).input_ids)
        start = 0
        while ids[start] in special:  # BART's decoder begins with such a token
            start += 1
        if prefill:
            tokens = self.tokenizer(text_target=prefill, add_special_tokens=False)
            start += len(tokens.input_ids)
        while not continuation.score_eos and ids[-1] in special:
            ids.pop()
        return ids, start

    def _logprobs_of(self, states: Any, continuation: Continuation) -> list[float]:
        """Returns the log-probability of each scored token of ``continuation``.

        Args:
            states: The output of the encoder for the chat before the continuation.
        """
        import torch

        # One continuation at a time, because decoders differ in how they mask padding.
        target, start = self._decoder_ids(continuation)
        self.require_room(len(target))
        device, begin = self.model.device, self.model.config.decoder_start_token_id
        before = torch.tensor([[begin, *target[:-1]]], device=device)
        out = self.model(
            encoder_outputs=states, decoder_input_ids=before, use_cache=False
        )
        column = torch.tensor(target, device=device)[:, None]
        logprobs = torch.log_softmax(out.logits[0].float(), -1).gather(1, column)[:, 0]
        scored: list[float] = logprobs[start:].tolist()
        return scored
