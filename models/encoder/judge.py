"""The encoder judge: any Hugging Face encoder as body, one small head a dimension."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from medal_judges.contributions import Contributions, Unit, centred, unit_of
from medal_judges.dialogue import Dialogue
from medal_judges.dimension import Dimension
from medal_judges.errors import JudgeLoadError
from medal_judges.models.base.attention import set_attention
from medal_judges.models.base.calibration import Calibration
from medal_judges.models.base.heads import Head, HeadKind
from medal_judges.models.base.judge import Judge, Prediction, ScoreRequest
from medal_judges.models.base.saving import read_config, write_config
from medal_judges.models.base.weights import load_weights
from medal_judges.models.batching import budget_batches, retry_on_oom
from medal_judges.models.encoder.config import EncoderConfig
from medal_judges.models.encoder.net import (
    EncoderNet,
    Logits,
    check_window,
    load_body,
    without_pooler,
)
from medal_judges.models.encoder.turn_batch import (
    EncodedDialogue,
    TurnTokenizer,
    collate,
    collate_pieces,
    collate_sequences,
)
from medal_judges.signature import Signature, content_hash

WEIGHTS_NAME = "model.safetensors"
_UNITS: dict[HeadKind, Unit] = {
    "regression": "score",
    "binary": "logit",
    "ordinal": "mean logit",
    "classification": "logit per level",
}
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


class EncoderJudge(Judge):
    """Scores dialogues with one forward pass over each distinct turn (or each dialogue, ``flat``).

    Contributions are in units of the score for a regression head, in logits otherwise, around the
    average turn of the training data: ``turn_means`` has for each dimension what one of the user
    and one of the assistant adds to ``Head.linear``.
    """

    family = "encoder"

    def __init__(
        self,
        net: EncoderNet,
        tokenizer: Any,
        dimensions: Sequence[Dimension],
        *,
        name: str = "encoder",
        calibration: Mapping[str, Calibration] | None = None,
        turn_means: Mapping[str, Sequence[float]] | None = None,
        facts: Mapping[str, Any] | None = None,
        device: str | torch.device | None = None,
        dtype: str = "fp32",
    ) -> None:
        self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
        self.dtype = dtype
        self.net = net.to(self.device).eval()
        if dtype != "fp32":
            self.net.body.to(DTYPES[dtype])
        set_attention(self.net.body, net.config.attention, self.device, dtype)
        self.config, self.dimensions, self.name = net.config, tuple(dimensions), name
        self.tokenizer = tokenizer
        self.turns = TurnTokenizer(tokenizer, net.config)
        self.calibration = dict(calibration or {})
        self.turn_means = {k: (float(u), float(a)) for k, (u, a) in (turn_means or {}).items()}
        self.facts = dict(facts or {})  # of the run that trained it: seed, data, weights hash

    # -- making, saving, loading ---------------------------------------------------------------

    @classmethod
    def create(
        cls,
        config: EncoderConfig,
        dimensions: Sequence[Dimension],
        *,
        name: str = "encoder",
        device: str | torch.device | None = None,
    ) -> EncoderJudge:
        """A fresh judge on the pretrained body ``config.base``; heads drawn from torch's seed."""
        body, tokenizer = load_body(config.base, config.base_revision)
        check_window(config, body.config)
        net = EncoderNet(body, body.config.hidden_size, config, dimensions)
        return cls(net, tokenizer, dimensions, name=name, device=device)

    def _save(self, folder: Path) -> None:
        from safetensors.torch import save_file

        state = {k: v.detach().cpu().contiguous() for k, v in self.net.state_dict().items()}
        save_file(state, folder / WEIGHTS_NAME, metadata={"format": "pt"})
        calibration = {k: v.model_dump() for k, v in self.calibration.items()}
        weights = content_hash((folder / WEIGHTS_NAME).read_bytes())
        # Both decide the numbers, so both are the revision of the signature.
        self.facts["weights"] = content_hash([weights, calibration]) if calibration else weights
        self.tokenizer.save_pretrained(folder / "tokenizer")
        write_config(
            folder,
            self,
            {
                "name": self.name,
                "encoder": self.config.model_dump(),
                "body": _public(json.loads(self.net.body.config.to_json_string(use_diff=False))),
                "calibration": calibration,
                "turn_means": self.turn_means,
                "facts": self.facts,
            },
        )

    @classmethod
    def load(
        cls, folder: Path, *, device: str | torch.device | None = None, dtype: str = "fp32"
    ) -> EncoderJudge:
        """The judge saved in ``folder``; needs no network.

        Raises JudgeLoadError when the weights are missing or do not fit the config.
        """
        from transformers import AutoConfig, AutoModel, AutoTokenizer

        saved = read_config(folder)
        if dtype not in DTYPES:
            raise JudgeLoadError(f"dtype {dtype!r} is not one of {', '.join(DTYPES)}")
        dimensions = [Dimension(**d) for d in saved["dimensions"]]
        body_config = AutoConfig.for_model(**saved["body"])
        body = without_pooler(AutoModel.from_config(body_config, trust_remote_code=False))  # type: ignore[no-untyped-call]
        net = EncoderNet(
            body, body_config.hidden_size, EncoderConfig(**saved["encoder"]), dimensions
        )
        load_weights(net, folder / WEIGHTS_NAME)
        return cls(
            net,
            AutoTokenizer.from_pretrained(folder / "tokenizer", trust_remote_code=False),
            dimensions,
            name=saved["name"],
            calibration={k: Calibration(**v) for k, v in saved["calibration"].items()},
            turn_means=saved["turn_means"],
            facts=saved["facts"],
            device=device,
            dtype=dtype,
        )

    def signature(self) -> Signature:
        from medal_judges import __version__

        limit = self.config.max_tokens if self.config.shape == "flat" else self.config.max_turns
        unit = "tokens" if self.config.shape == "flat" else "turns"
        return Signature(
            judge=self.name,
            revision=self.facts.get("weights", "unsaved"),
            base=self.config.base,
            rubric=content_hash([d.to_record() for d in self.dimensions]),
            dtype=self.dtype,
            truncation=f"oldest turns beyond {limit} {unit}",
            seed=self.facts.get("seed"),
            version=__version__,
        )

    # -- the hooks of Judge ----------------------------------------------------------------------

    def _prepare(self, items: Sequence[ScoreRequest]) -> None:
        encoded = [self.turns.encode(item.dialogue) for item in items]
        vectors = self._window_vectors(encoded)
        for item, one, rows in zip(items, encoded, vectors, strict=True):
            item.payload = (one, rows)
            item.truncated_turns = one.dropped
            item.tokens = len(one.ids) if one.ids else sum(self._lengths[t] for t in one.texts)

    def _window_vectors(self, encoded: Sequence[EncodedDialogue]) -> list[Any]:
        """Hierarchical: (table, row numbers) of each dialogue, each distinct turn encoded once."""
        if self.config.shape == "flat":
            return [None] * len(encoded)
        texts = list(dict.fromkeys(text for one in encoded for text in one.texts))
        table = self.embed_texts(texts)
        rows = {text: row for row, text in enumerate(texts)}
        return [(table, [rows[text] for text in one.texts]) for one in encoded]

    @torch.inference_mode()
    def embed_texts(self, texts: Sequence[str]) -> Tensor:
        """Mean token vector [len(texts), H] (fp32, CPU) of each text, batched by token budget."""
        pieces = self.turns.pieces(texts)
        self._lengths = {t: sum(map(len, p)) for t, p in zip(texts, pieces, strict=True)}
        if not self.config.embedding:  # features only: the body is not asked
            return torch.zeros(len(texts), self.net.hidden)
        flat = [(row, piece) for row, parts in enumerate(pieces) for piece in parts]
        sums = torch.zeros(len(texts), self.net.hidden)
        counts = torch.zeros(len(texts), 1)
        for batch in budget_batches(flat, lambda entry: len(entry[1]), self.token_budget):
            for row, total, count in retry_on_oom(self._piece_sums, batch):
                sums[row] += total
                counts[row] += count
        return sums / counts.clamp_min(1)

    def _piece_sums(
        self, batch: Sequence[tuple[int, list[int]]]
    ) -> list[tuple[int, Tensor, Tensor]]:
        ids, mask = collate_pieces([piece for _, piece in batch], self._pad)
        total, count = self.net.piece_sums(ids.to(self.device), mask.to(self.device))
        rows = [row for row, _ in batch]
        return list(zip(rows, total.cpu(), count.cpu(), strict=True))

    @property
    def _pad(self) -> int:
        return int(self.tokenizer.pad_token_id or 0)

    @torch.inference_mode()
    def _score_batch(
        self, items: Sequence[ScoreRequest], dimensions: Sequence[str]
    ) -> list[Prediction]:
        members = self.members(items)
        answers: list[dict[str, Any]] = [{"s": {}, "d": {}, "c": {}} for _ in items]
        encoded = [item.payload[0] for item in items]
        for name in dimensions:
            logits, evidence, pooling = (
                self.net.combine([m[k] for m in members], name) for k in range(3)
            )
            head = self.net.heads[0][name]
            self._decode(head, logits, evidence, pooling, encoded, answers)
        return [Prediction(a["s"], a["d"], a["c"]) for a in answers]

    def members(self, items: Sequence[ScoreRequest]) -> list[tuple[Logits, Logits, Logits]]:
        """What each member of the net says of ``items``: see EncoderNet.forward."""
        batch = collate([item.payload[0] for item in items]).to(self.device)
        members: list[tuple[Logits, Logits, Logits]] = self.net(
            self._batch_vectors(items, batch.mask.shape[1]), batch
        )
        return members

    def _batch_vectors(self, items: Sequence[ScoreRequest], longest: int) -> Tensor:
        if self.config.shape == "flat":
            ids, mask, segments = collate_sequences([i.payload[0] for i in items], self._pad)
            device = self.device
            return self.net.sequence_vectors(
                ids.to(device), mask.to(device), segments.to(device), longest
            )
        vectors = torch.zeros(len(items), longest, self.net.hidden)
        for row, item in enumerate(items):
            table, numbers = item.payload[1]
            vectors[row, : len(numbers)] = table[numbers]
        return vectors.to(self.device)

    def _decode(
        self,
        head: Head,
        logits: Tensor,
        evidence: Tensor,
        pooling: Tensor,
        encoded: Sequence[EncodedDialogue],
        answers: list[dict[str, Any]],
    ) -> None:
        """Scores, distributions and contributions of one dimension into ``answers``."""
        name = head.dimension.name
        fitted = self.calibration.get(name, Calibration())
        scores, chances = head.answers(logits, fitted)
        values, turns, weights = head.linear(logits).tolist(), evidence.tolist(), pooling.tolist()
        for row, (answer, one) in enumerate(zip(answers, encoded, strict=True)):
            answer["s"][name] = scores[row]
            if chances[row]:
                answer["d"][name] = chances[row]
            if turns[row]:  # the net ``sequence`` does not tell turns apart
                answer["c"][name] = self._account(
                    head, fitted, one, values[row], turns[row], weights[row]
                )

    def _account(
        self,
        head: Head,
        fitted: Calibration,
        one: EncodedDialogue,
        value: float,
        evidence: Sequence[float],
        weights: Sequence[float],
    ) -> Contributions:
        """Contributions of one dialogue, in the units that ``head`` and its calibration have."""
        dimension, seen = head.dimension, len(one.roles)
        regression = head.config.kind == "regression"
        factor = dimension.high - dimension.low if regression else 1 / fitted.temperature
        means = self.turn_means.get(dimension.name, (0.0, 0.0))
        before = [0.0] * one.dropped
        return centred(
            [*before, *(factor * e for e in evidence[:seen])],
            [*before, *weights[:seen]],
            [*before, *(factor * means[role] for role in one.roles)],
            factor * value + (dimension.low if regression else 0.0),
            unit_of(_UNITS[head.config.kind], mapped=fitted.isotonic is not None),
        )

    # -- what training uses --------------------------------------------------------------------

    def prepare(self, dialogues: Sequence[Dialogue]) -> list[EncodedDialogue]:
        """Token ids, roles and features of each dialogue."""
        return [self.turns.encode(dialogue) for dialogue in dialogues]


def _public(body: dict[str, Any]) -> dict[str, Any]:
    """The body's config without the place on this disk that it was read from."""
    return {k: v for k, v in body.items() if k != "_name_or_path"}
