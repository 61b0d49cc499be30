"""The frozen base of a linear judge: a pretrained model that turns texts into vectors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModel
from transformers.utils.hub import cached_file

from medal_judges.errors import ConfigError, JudgeLoadError
from medal_judges.models.base.pretrained import (
    load_base,
    load_saved,
    positions_of,
    prepare_base,
)
from medal_judges.models.batching import (
    SpecialTokens,
    budget_batches,
    pad_rows,
    retry_on_oom,
)
from medal_judges.models.device import cast_weights, set_attention, torch_dtype
from medal_judges.models.linear.config import LinearConfig, Pooling
from medal_judges.models.linear.packing import PASS_TOKENS, can_pack, packed_sums
from medal_judges.models.llm.local.weights import model_path

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

Floats = npt.NDArray[np.float64]
Pieces = list[list[int]]  # the token ids of a text, in pieces that fit the window
# Fields of sentence-transformers before version 6, which has pooling_mode: mean.
_POOLING_FIELDS: dict[Pooling, str] = {
    "mean": "pooling_mode_mean_tokens",
    "cls": "pooling_mode_cls_token",
    "lasttoken": "pooling_mode_lasttoken",
}


class TextEncoder:
    """Computes the vectors of texts."""

    def __init__(
        self,
        body: Any,
        tokenizer: PreTrainedTokenizerBase,
        config: LinearConfig,
        pooling: Pooling,
    ) -> None:
        self.body = body.train(False)  # a model of transformers
        if getattr(body, "pooler", None) is not None:
            body.pooler = None  # BERT's layer on the first token, which is not used
        self.tokenizer, self.pooling = tokenizer, pooling
        self.marks = SpecialTokens(tokenizer)
        settings: Any = body.config
        self.width = int(settings.hidden_size)
        self.window = min(
            config.max_tokens, positions_of(settings) or config.max_tokens
        )
        # Ids that the tokenizer puts before and after a single sequence.
        letter = tokenizer("a", add_special_tokens=False).input_ids[0]
        ids = tokenizer("a").input_ids
        place = ids.index(letter)
        self.prefix, self.suffix = ids[:place], ids[place + 1 :]
        self.limit = self.window - len(self.prefix) - len(self.suffix)

    @classmethod
    def create(cls, config: LinearConfig) -> TextEncoder:
        """Loads the base of ``config``. Raises JudgeLoadError, and ConfigError for settings that
        the base does not have."""
        path = model_path(config.base)
        body, tokenizer = load_base(
            AutoModel, path, config, partial(prepare_base, config), dtype=torch.float32
        )
        pooling = config.pooling or _pooling_of(path, config.base_revision)
        return cls(body, tokenizer, config, pooling)

    @classmethod
    def load(cls, folder: Path, config: LinearConfig) -> TextEncoder:
        """Loads the base saved in ``folder``; needs no network. Raises JudgeLoadError."""
        body, tokenizer = load_saved(
            AutoModel, folder, partial(prepare_base, config), unused="pooler."
        )
        return cls(body, tokenizer, config, config.pooling or "mean")

    def save(self, folder: Path) -> None:
        """Writes the base into ``folder``, as safetensors."""
        self.body.save_pretrained(folder, safe_serialization=True)
        self.tokenizer.save_pretrained(folder)

    def place(self, device: torch.device, dtype: str) -> None:
        """Moves the base to ``device`` and casts it to ``dtype``."""
        self.body = self.body.to(device).float()
        if dtype != "fp32":
            cast_weights(self.body, torch_dtype(dtype, device))
        set_attention(self.body, device, dtype)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each text, without the tokenizer's marks."""
        if not texts:
            return []
        unmarked = [self.marks.broken_up(text) for text in texts]
        # The library under transformers' class, whose masks, offsets and objects take as long as
        # the tokens. An earlier call may have left truncation and padding on.
        backend: Any = self.tokenizer.backend_tokenizer
        backend.no_truncation()
        backend.no_padding()
        encodings = backend.encode_batch_fast(unmarked, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def pieces(self, ids: Sequence[int]) -> Pieces:
        """Returns the token ids of a text in pieces that fit the window, each with the tokenizer's
        marks."""
        return [
            [*self.prefix, *ids[start : start + self.limit], *self.suffix]
            for start in range(0, max(1, len(ids)), self.limit)
        ]

    @torch.inference_mode()
    def embed(self, texts: Sequence[Pieces], budget: int) -> npt.NDArray[np.float32]:
        """Returns the vector [texts, width] of each text in ``pieces``, of length 1.

        It is the mean over the text's pieces, weighted by their tokens. ``budget`` is the maximum
        number of padded tokens in a batch.
        """
        packing = self.pooling == "mean" and can_pack(self.body)
        pass_sums = partial(packed_sums, self.body) if packing else self._padded_sums
        if packing:
            budget = min(budget, PASS_TOKENS)
        rows_and_ids: list[tuple[int, list[int]]] = []
        for row, pieces in enumerate(texts):
            # A piece without text and marks has no tokens.
            rows_and_ids += [(row, ids) for ids in pieces if ids]

        def token_sums(batch: Sequence[tuple[int, list[int]]]) -> list[Tensor]:
            return list(pass_sums([ids for _, ids in batch]))

        sums = torch.zeros(len(texts), self.width)
        for batch in budget_batches(
            rows_and_ids, lambda entry: len(entry[1]), budget, tight=not packing
        ):
            rows = torch.tensor([row for row, _ in batch])
            sums.index_add_(0, rows, torch.stack(retry_on_oom(token_sums, batch)))
        return functional.normalize(sums, dim=-1).numpy()

    def _padded_sums(self, pieces: Sequence[list[int]]) -> Tensor:
        """Returns the pooled vector of each piece times its number of tokens [pieces, width]."""
        ids, mask = pad_rows(pieces, int(self.tokenizer.pad_token_id or 0))
        ids, mask = ids.to(self.body.device), mask.to(self.body.device)
        states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        counts = mask.sum(1)
        if self.pooling == "mean":
            sums: Tensor = (states * mask.unsqueeze(-1)).sum(1).cpu()
            return sums
        last = torch.zeros_like(counts) if self.pooling == "cls" else counts - 1
        chosen: Tensor = states[torch.arange(len(states), device=states.device), last]
        return (chosen * counts.unsqueeze(-1)).cpu()


def _pooling_of(path: str, revision: str | None) -> Pooling:
    """Returns how sentence-transformers pools the token vectors of the base ``path``; the mean if
    its files do not say."""
    file = cached_file(
        path,
        "1_Pooling/config.json",
        revision=revision,
        _raise_exceptions_for_missing_entries=False,
        _raise_exceptions_for_connection_errors=False,
    )
    if file is None:
        return "mean"
    try:
        settings = json.loads(Path(file).read_text(encoding="utf-8"))
    except ValueError as error:
        raise JudgeLoadError(
            f"{file} is no JSON: {error}", hint="download it again"
        ) from error
    for pooling in get_args(Pooling):
        if settings.get("pooling_mode") == pooling or settings.get(
            _POOLING_FIELDS[pooling]
        ):
            chosen: Pooling = pooling
            return chosen
    raise ConfigError(
        f"{path} pools its token vectors in a way that is not supported",
        hint=f"set model.pooling to one of {', '.join(get_args(Pooling))}",
    )
