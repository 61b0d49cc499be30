"""The frozen base of a linear judge: a pretrained model that turns texts into vectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.hub import fetch_repo
from medal_judges.models.base.pretrained import adapt_and_check_base, require_known_ids
from medal_judges.models.base.saving import WEIGHTS_NAME
from medal_judges.models.batching import (
    SpecialTokens,
    batch_longest_first,
    pad_rows,
    retry_on_oom,
)
from medal_judges.models.device import (
    cast_weights,
    quiet_loading,
    set_fastest_attention,
    torch_dtype,
)
from medal_judges.models.linear.config import LinearConfig
from medal_judges.models.linear.packing import PACKABLE, PASS_TOKENS, PackedBert
from medal_judges.models.llm.local.weights import find_or_convert_model
from medal_judges.models.model_files import MODEL_FILES
from medal_judges.storage.files import read_json, read_json_if_there

Pieces = list[list[int]]  # the token ids of a text, in pieces that fit the window


class TextEncoder:
    """Turns texts into embeddings with the pretrained model of a linear judge.

    On a CPU, ``embedded:minilm`` and ``embedded:e5`` run without transformers, which is slow to
    import.

    Args:
        folder: The folder of a sentence-transformers model.
        config: The judge's settings.

    Raises:
        JudgeLoadError: The model cannot be loaded.
        ConfigError: The architecture is not supported, or ``config.max_tokens`` is more than the
            model can read.
    """

    def __init__(self, folder: Path, config: LinearConfig) -> None:
        self.folder, self.config = folder, config
        self.packed: PackedBert | None = None
        self.can_pack = config.base in PACKABLE
        if self.can_pack:
            self.settings: Any = SimpleNamespace(**read_json(folder / "config.json"))
            self.width = self.settings.hidden_size
            backend = Tokenizer.from_file(str(folder / "tokenizer.json"))
            tokenizer: Any = SimpleNamespace(
                backend_tokenizer=backend,
                added_tokens_decoder=backend.get_added_tokens_decoder(),
                all_special_tokens=(),
            )
        else:
            self.settings = self.model[0].auto_model.config
            self.width = int(self.model.get_embedding_dimension())
            tokenizer = self.model.tokenizer
        adapt_and_check_base(config, self.settings)
        self.marks = SpecialTokens(tokenizer)
        self.tokenizer = tokenizer.backend_tokenizer
        # A call of transformers' class may have left truncation and padding on.
        self.tokenizer.no_truncation()
        self.tokenizer.no_padding()
        # Ids that the tokenizer puts before and after a single sequence.
        letter = self.tokenizer.encode("a", add_special_tokens=False).ids[0]
        ids = self.tokenizer.encode("a").ids
        place = ids.index(letter)
        self.prefix, self.suffix = ids[:place], ids[place + 1 :]
        self.limit = config.max_tokens - len(ids) + 1

    @classmethod
    def load_base(cls, config: LinearConfig) -> TextEncoder:
        """Loads the encoder ``config.base``, and downloads it if it is on the Hub.

        Raises:
            JudgeLoadError: The encoder cannot be loaded.
            ConfigError: The architecture is not supported, or ``config.max_tokens`` is more than
                the encoder can read.
        """
        path = Path(find_or_convert_model(config.base))
        if not path.is_dir():
            path = fetch_repo(config.base, config.base_revision, patterns=MODEL_FILES)
        return cls(path, config)

    @cached_property
    def model(self) -> Any:
        """The model of sentence-transformers, loaded without network access.

        Raises:
            JudgeLoadError: The model cannot be loaded. Or its folder could run code: it has .bin
                files, or modules that are not from sentence-transformers.
        """
        folder = self.folder
        foreign = [path.name for path in folder.rglob("*.bin")]
        for module in read_json_if_there(folder / "modules.json", []):
            kind = str(module["type"])
            if not kind.startswith("sentence_transformers."):
                foreign.append(kind)
        if foreign:
            raise JudgeLoadError(
                f"{folder}: {foreign[0]} can run code, and is not loaded",
                hint="Use a base with safetensors weights and without Python files",
            )
        from sentence_transformers import SentenceTransformer

        try:
            with quiet_loading():
                model: Any = SentenceTransformer(
                    str(folder),
                    device="cpu",
                    local_files_only=True,
                    trust_remote_code=False,
                    model_kwargs={"use_safetensors": True, "dtype": torch.float32},
                )
        except (OSError, ValueError) as error:
            raise JudgeLoadError(
                f"cannot load the base {self.config.base}: {str(error).splitlines()[0]}",
                hint="Give a Hub id, a folder with safetensors weights, embedded:minilm or "
                "embedded:e5",
            ) from error
        if any(not weight.isfinite().all() for weight in model.parameters()):
            raise JudgeLoadError(
                f"{folder}: some weights are not finite numbers. Download it again"
            )
        body = model[0].auto_model
        require_known_ids(body, model.tokenizer, folder)
        # BERT's layer on the first token, which is not used
        body.pooler = None
        return model.eval()

    def save(self, folder: Path) -> None:
        """Writes the encoder into ``folder`` as safetensors."""
        self.model.save(str(folder), create_model_card=False)

    def move_to(self, device: torch.device, dtype: str) -> None:
        """Moves the encoder to ``device`` and converts its weights to ``dtype`` (``fp32``, ``bf16``
        or ``fp16``)."""
        self.packed = None
        if self.can_pack and device.type == "cpu":
            self.packed = PackedBert(
                load_file(self.folder / WEIGHTS_NAME), self.settings, torch_dtype(dtype)
            )
            return
        body = self.model.to(device)[0].auto_model
        cast_weights(body, torch_dtype(dtype))
        set_fastest_attention(body, device, dtype)

    def token_ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Returns the token ids of each of ``texts``, without special tokens such as ``[CLS]``."""
        unmarked = [self.marks.break_up(text) for text in texts]
        # Masks, offsets and objects of transformers' class take as long as the tokens.
        encodings = self.tokenizer.encode_batch_fast(unmarked, add_special_tokens=False)
        return [encoding.ids for encoding in encodings]

    def to_pieces(self, ids: Sequence[int]) -> Pieces:
        """Splits a text into pieces that the encoder can read at once.

        Args:
            ids: The token ids of the text, without special tokens.

        Returns:
            The token ids of each piece, with special tokens such as ``[CLS]``. A piece has at most
            ``config.max_tokens`` ids, special tokens included.
        """
        pieces = []
        for start in range(0, max(1, len(ids)), self.limit):
            part = ids[start : start + self.limit]
            pieces.append([*self.prefix, *part, *self.suffix])
        return pieces

    @torch.inference_mode()
    def embed(self, texts: Sequence[Pieces], budget: int) -> npt.NDArray[np.float32]:
        """Returns the embedding of each text, a unit vector: [texts, width].

        The embeddings of the pieces of one text are averaged, with their numbers of tokens as
        weights. The mean is then scaled to length 1.

        Args:
            texts: For each text, the token ids of its pieces, from ``to_pieces``.
            budget: The maximum number of tokens in a batch, with padding.
        """
        pass_sums = self._token_sums
        if self.packed is not None:
            pass_sums = self.packed.token_sums
            budget = min(budget, PASS_TOKENS)
        all_pieces: Pieces = list(chain.from_iterable(texts))
        rows = np.repeat(np.arange(len(texts)), list(map(len, texts)))
        lengths = list(map(len, all_pieces))

        def token_sums(batch: Sequence[int]) -> list[Tensor]:
            return list(pass_sums([all_pieces[number] for number in batch]))

        sums = torch.zeros(len(texts), self.width)
        # A piece without text and marks has no tokens.
        numbers = np.flatnonzero(lengths).tolist()
        for batch in batch_longest_first(
            numbers, lengths.__getitem__, budget, tight=self.packed is None
        ):
            vectors = torch.stack(retry_on_oom(token_sums, batch))
            sums.index_add_(0, torch.from_numpy(rows[batch]), vectors)
        return functional.normalize(sums, dim=-1).numpy()

    def _token_sums(self, pieces: Sequence[list[int]]) -> Tensor:
        """Returns the embedding of each of ``pieces`` multiplied by its number of tokens, [pieces,
        width]."""
        device = self.model.device
        ids, mask = pad_rows(pieces, int(self.model.tokenizer.pad_token_id or 0))
        ids, mask = ids.to(device), mask.to(device)
        features: dict[str, Any] = {"input_ids": ids, "attention_mask": mask}
        for layer in self.model:
            # Lengths are set to 1 after the pieces of a text are added up.
            if type(layer).__name__ != "Normalize":
                features = layer(features)
        vectors: Tensor = features["sentence_embedding"].float()
        return (vectors * mask.sum(1, keepdim=True)).cpu()
