"""A sentence-transformers model as a map from texts of any length to vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.saving import read_weights, require_no_differences
from medal_judges.models.embedded import resolve
from medal_judges.models.special_tokens import SpecialTokens

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer


Floats = npt.NDArray[np.float64]


class SentenceEncoder:
    """Vectors of texts. A text longer than the model's window is read in pieces of that length, and
    its vector is their mean weighted by tokens (the paper's SBERT reads the first 256 tokens)."""

    def __init__(self, model: SentenceTransformer) -> None:
        self.model = model.eval()
        self.marks = SpecialTokens(model.tokenizer)
        # sentence-transformers 5 has the longer name
        width: Callable[[], int] | None = getattr(model, "get_embedding_dimension", None)
        self.width = int((width or model.get_sentence_embedding_dimension)() or 0)

    @classmethod
    def create(cls, base: str, revision: str | None, device: str | None = None) -> SentenceEncoder:
        """Loads the model of a hub id, a folder or ``embedded:minilm``. Raises JudgeLoadError."""
        return cls(_load(resolve(base), base, revision=revision, device=device))

    @classmethod
    def load(cls, folder: Path, device: str | None = None) -> SentenceEncoder:
        """Loads the model saved in ``folder``; needs no network. Raises JudgeLoadError."""
        if not (folder / "modules.json").is_file():
            raise JudgeLoadError(
                f"{folder.parent}: the judge has no {folder.name}/modules.json",
                hint="copy or download the whole folder again",
            )
        model = _load(str(folder), folder.name, device=device, local_files_only=True)
        # The library draws missing weights at random and ignores others: all must fit.
        saved = {k for path in folder.glob("*.safetensors") for k in read_weights(path)}
        network: Any = model[0]
        state = network.auto_model.state_dict()
        stored = {state[name].data_ptr() for name in saved & state.keys()}
        missing = [n for n in state.keys() - saved if state[n].data_ptr() not in stored]
        require_no_differences(folder, {"missing": missing, "unexpected": saved - state.keys()})
        return cls(model)

    def save(self, folder: Path) -> None:
        """Write the model into ``folder``, safetensors only."""
        self.model.save_pretrained(str(folder), create_model_card=False, safe_serialization=True)

    def lengths(self, texts: Sequence[str]) -> list[int]:
        """Returns the number of tokens of each text."""
        if not texts:
            return []
        plain = [self.marks.broken_up(text) for text in texts]
        return [len(ids) for ids in self._tokenize(plain)["input_ids"]]

    def embed(self, texts: Sequence[str], budget: int) -> Floats:
        """Returns vectors [len(texts), width] (float64); ``budget`` bounds the padded tokens of a
        batch."""
        vectors = np.zeros((len(texts), self.width))
        if not texts:
            return vectors
        window = max(1, int(self.model.max_seq_length or 512) - 2)  # without special tokens
        pieces: list[tuple[int, str, int]] = []  # row, piece of its text, share in tokens
        for row, text in enumerate(map(self.marks.broken_up, texts)):
            spans: Any = ()
            if len(text) > window:  # a token has at least one character
                spans = self._tokenize([text], offsets=True)["offset_mapping"][0]
            if len(spans) <= window:
                pieces.append((row, text, 1))
                continue
            for start in range(0, len(spans), window):
                part = spans[start : start + window]
                pieces.append((row, text[part[0][0] : part[-1][1]], len(part)))
        encoded = self.model.encode(
            [piece for _, piece, _ in pieces],
            batch_size=max(1, budget // window),
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        weights = np.zeros(len(texts))
        for (row, _, tokens), vector in zip(pieces, encoded, strict=True):
            vectors[row] += vector.astype(np.float64) * tokens
            weights[row] += tokens
        return vectors / weights[:, None]

    def _tokenize(self, texts: list[str], offsets: bool = False) -> Any:
        return self.model.tokenizer(
            texts,
            add_special_tokens=False,
            return_offsets_mapping=offsets,
            truncation=False,
            verbose=False,
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
