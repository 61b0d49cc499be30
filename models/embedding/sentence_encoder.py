"""A sentence-transformers model as a map from texts to vectors, of any length of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from medal_judges.errors import JudgeLoadError
from medal_judges.models.embedded import resolve
from medal_judges.models.embedding.net import Floats
from medal_judges.models.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


class SentenceEncoder:
    """Vectors of texts. A text longer than the model's window is read in pieces of that length,
    and its vector is their mean weighted by tokens: nothing is cut off (the paper's SBERT reads
    the first 256 tokens)."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model.eval()
        self.marks = SpecialTokens(model.tokenizer)
        # sentence-transformers 5 has the longer name
        width: Callable[[], int] | None = getattr(model, "get_embedding_dimension", None)
        self.width = int((width or model.get_sentence_embedding_dimension)() or 0)

    @classmethod
    def create(cls, base: str, revision: str | None, device: str | None = None) -> SentenceEncoder:
        """The model of a hub id, a folder or ``embedded:minilm``. Raises JudgeLoadError."""
        return cls(_load(resolve(base), base, revision=revision, device=device))

    @classmethod
    def load(cls, folder: Path, device: str | None = None) -> SentenceEncoder:
        """The model saved in ``folder``; needs no network. Raises JudgeLoadError."""
        if not (folder / "modules.json").is_file():
            raise JudgeLoadError(
                f"{folder.parent}: the judge has no {folder.name}/modules.json",
                hint="copy or download the whole folder again",
            )
        model = _load(str(folder), folder.name, device=device, local_files_only=True)
        _require_own_weights(model, folder)
        return cls(model)

    def save(self, folder: Path) -> None:
        """Write the model into ``folder``, safetensors only."""
        self.model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Tokens of each text."""
        if not texts:
            return []
        plain = [self.marks.broken_up(text) for text in texts]
        return [len(ids) for ids in self._tokenize(plain)["input_ids"]]

    def embed(self, texts: Sequence[str], budget: int) -> Floats:
        """Vectors [len(texts), width] float64; at most ``budget`` padded tokens a batch."""
        vectors = np.zeros((len(texts), self.width))
        if not texts:
            return vectors
        plain = map(self.marks.broken_up, texts)
        pieces = [p for row, text in enumerate(plain) for p in self._pieces(row, text)]
        size = max(1, budget // max(1, self._window))
        encoded = self.model.encode(
            [piece for _, piece, _ in pieces],
            batch_size=size,
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        weights = np.zeros(len(texts))
        for (row, _, tokens), vector in zip(pieces, encoded, strict=True):
            vectors[row] += vector.astype(np.float64) * tokens
            weights[row] += tokens
        return vectors / weights[:, None]

    @property
    def _window(self) -> int:
        """Tokens of a piece, the two special ones left out."""
        return max(1, int(self.model.max_seq_length or 512) - 2)

    def _pieces(self, row: int, text: str) -> list[tuple[int, str, int]]:
        """(row, piece of the text, its share in tokens) of one text."""
        if len(text) <= self._window:  # a token has at least one character
            return [(row, text, 1)]
        spans = self._tokenize([text], offsets=True)["offset_mapping"][0]
        if len(spans) <= self._window:
            return [(row, text, 1)]
        starts = range(0, len(spans), self._window)
        parts = [spans[start : start + self._window] for start in starts]
        return [(row, text[part[0][0] : part[-1][1]], len(part)) for part in parts]

    def _tokenize(self, texts: list[str], offsets: bool = False) -> Any:
        return self.model.tokenizer(
            texts,
            add_special_tokens=False,
            return_offsets_mapping=offsets,
            truncation=False,
            verbose=False,
        )


def _require_own_weights(model: SentenceTransformer, folder: Path) -> None:
    """Raise JudgeLoadError where config and weights in ``folder`` are of two networks: what the
    file lacks would have been drawn at random, and what it has beyond would have been left out."""
    from safetensors import safe_open

    saved: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(path, "pt") as file:
            saved |= set(file.keys())
    network: Any = model[0]
    state = network.auto_model.state_dict()
    stored = {state[name].data_ptr() for name in saved & state.keys()}
    missing = sorted(n for n in state.keys() - saved if state[n].data_ptr() not in stored)
    if wrong := [*missing, *sorted(saved - state.keys())]:
        raise JudgeLoadError(
            f"{folder}: its weights and its config.json do not fit: {wrong[0]} "
            f"and {len(wrong) - 1} more",
            hint="copy or download the whole folder again",
        )


def _load(
    source: str,
    name: str,
    *,
    device: str | None,
    revision: str | None = None,
    local_files_only: bool = False,
) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(
            source,
            device=device,
            revision=revision,
            local_files_only=local_files_only,
            trust_remote_code=False,
            model_kwargs={"use_safetensors": True},
        )
    except (OSError, ValueError) as error:
        raise JudgeLoadError(
            f"cannot load the sentence encoder {name}: {str(error).splitlines()[0]}",
            hint="give a sentence-transformers model by hub id (with a network, or cached), a "
            "folder, or embedded:minilm",
        ) from error
