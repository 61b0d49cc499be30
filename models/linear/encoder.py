"""The frozen base of a linear judge: a pretrained model that turns texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Normalize,
    Pooling,
    Transformer,
)
from torch import Tensor
from torch.nn import functional

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.hub import download
from medal_judges.models.base.pretrained import (
    positions_of,
    prepare_base,
    require_known_ids,
)
from medal_judges.models.batching import (
    SpecialTokens,
    budget_batches,
    pad_rows,
    retry_on_oom,
)
from medal_judges.models.device import (
    cast_weights,
    quiet_loading,
    set_attention,
    torch_dtype,
)
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.packing import PASS_TOKENS, can_pack, packed_sums
from medal_judges.models.llm.local.weights import model_path
from medal_judges.models.model_files import MODEL_FILES
from medal_judges.storage.files import read_json_if_there

Pieces = list[list[int]]  # the token ids of a text, in pieces that fit the window


class TextEncoder:
    """Computes vectors of texts with the frozen base of a linear judge, a model of
    sentence-transformers."""

    def __init__(self, model: SentenceTransformer, config: LinearConfig) -> None:
        self.model = model.eval()
        network: Any = model[0]
        self.body = network.auto_model  # a model of transformers
        prepare_base(config, self.body.config)
        if getattr(self.body, "pooler", None) is not None:
            self.body.pooler = (
                None  # BERT's layer on the first token, which is not used
            )
        # Lengths are set to 1 at the end, after the pieces of a text are added up.
        self.layers = [layer for layer in model if not isinstance(layer, Normalize)]
        kinds = [type(layer) for layer in self.layers]
        self.is_mean = (
            kinds == [Transformer, Pooling] and model[1].pooling_mode == "mean"
        )
        self.tokenizer: Any = model.tokenizer
        self.marks = SpecialTokens(self.tokenizer)
        self.width = int(model.get_embedding_dimension() or 0)
        positions = positions_of(self.body.config) or config.max_tokens
        # Ids that the tokenizer puts before and after a single sequence.
        letter = self.tokenizer("a", add_special_tokens=False).input_ids[0]
        ids = self.tokenizer("a").input_ids
        place = ids.index(letter)
        self.prefix, self.suffix = ids[:place], ids[place + 1 :]
        self.limit = min(config.max_tokens, positions) - len(ids) + 1

    @classmethod
    def create(cls, config: LinearConfig) -> TextEncoder:
        """Loads the base that ``config`` names, and downloads it if it is on the Hub. Raises
        JudgeLoadError if it cannot be loaded, and ConfigError if ``max_tokens`` is more than it can
        read."""
        path = Path(model_path(config.base))
        if not path.is_dir():
            path = download(config.base, config.base_revision, patterns=MODEL_FILES)
        return cls.load(path, config)

    @classmethod
    def load(cls, folder: Path, config: LinearConfig) -> TextEncoder:
        """Loads the base in ``folder`` without network access. ``config``: the judge's settings.
        Raises JudgeLoadError if it cannot be loaded, or if it could run code: pickles, or modules
        from outside sentence-transformers."""
        modules = read_json_if_there(folder / "modules.json", [])
        foreign = [str(path.name) for path in folder.rglob("*.bin")]
        for module in modules:
            if not str(module["type"]).startswith("sentence_transformers."):
                foreign.append(str(module["type"]))
        if foreign:
            raise JudgeLoadError(
                f"{folder}: {foreign[0]} can run code, and is not loaded",
                hint="Use a base with safetensors weights and without Python files",
            )
        try:
            with quiet_loading():
                model = SentenceTransformer(
                    str(folder),
                    device="cpu",
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True, "dtype": torch.float32},
                )
        except (OSError, ValueError) as error:
            raise JudgeLoadError(
                f"cannot load the base {config.base}: {str(error).splitlines()[0]}",
                hint="Give a Hub id, a folder with safetensors weights, embedded:minilm or "
                "embedded:e5",
            ) from error
        if any(not weight.isfinite().all() for weight in model.parameters()):
            raise JudgeLoadError(
                f"{folder}: some weights are not finite numbers. Download it again"
            )
        require_known_ids(model[0].auto_model, model.tokenizer, folder)
        return cls(model, config)

    def save(self, folder: Path) -> None:
        """Writes the base into ``folder`` as safetensors."""
        self.model.save(str(folder), create_model_card=False)

    def place(self, device: torch.device, dtype: str) -> None:
        """Moves the base to ``device`` and casts it to ``dtype`` (``fp32``, ``bf16`` or
        ``fp16``)."""
        self.model = self.model.to(device).float()
        if dtype != "fp32":
            cast_weights(self.body, torch_dtype(dtype))
        set_attention(self.body, device, dtype)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each of ``texts``, without the special tokens that the tokenizer
        adds."""
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
        """Splits the token ``ids`` of a text into pieces that fit ``max_tokens``. Each piece gets
        the special tokens that the tokenizer adds."""
        pieces = []
        for start in range(0, max(1, len(ids)), self.limit):
            part = ids[start : start + self.limit]
            pieces.append([*self.prefix, *part, *self.suffix])
        return pieces

    @torch.inference_mode()
    def embed(self, texts: Sequence[Pieces], budget: int) -> npt.NDArray[np.float32]:
        """Returns a unit vector of each of ``texts``, [texts, width]. Each text is its pieces of
        token ids.

        The vector is the mean over the text's pieces, weighted by their numbers of tokens.
        ``budget``: the maximum number of padded tokens in a batch.
        """
        packing = self.is_mean and can_pack(self.body)
        pass_sums = partial(packed_sums, self.body) if packing else self._padded_sums
        if packing:
            budget = min(budget, PASS_TOKENS)
        all_pieces: Pieces = list(chain.from_iterable(texts))
        rows = np.repeat(np.arange(len(texts)), list(map(len, texts)))
        lengths = list(map(len, all_pieces))

        def token_sums(batch: Sequence[int]) -> list[Tensor]:
            return list(pass_sums([all_pieces[number] for number in batch]))

        sums = torch.zeros(len(texts), self.width)
        # A piece without text and marks has no tokens.
        numbers = np.flatnonzero(lengths).tolist()
        for batch in budget_batches(
            numbers, lengths.__getitem__, budget, tight=not packing
        ):
            vectors = torch.stack(retry_on_oom(token_sums, batch))
            sums.index_add_(0, torch.from_numpy(rows[batch]), vectors)
        return functional.normalize(sums, dim=-1).numpy()

    def _padded_sums(self, pieces: Sequence[list[int]]) -> Tensor:
        """Returns the pooled vector of each of ``pieces`` times its number of tokens, [pieces,
        width]."""
        ids, mask = pad_rows(pieces, int(self.tokenizer.pad_token_id or 0))
        ids, mask = ids.to(self.body.device), mask.to(self.body.device)
        features: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        for layer in self.layers:
            features = layer(features)
        vectors: Tensor = features["sentence_embedding"].float()
        return (vectors * mask.sum(1, keepdim=True)).cpu()
