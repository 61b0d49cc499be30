"""One peer of against_peers.py, in a process of its own: texts in, one vector a text out.

    python peer_encoder.py NAME MODEL TEXTS.json VECTORS.npy

Prints seconds from the process's start until the first text was encoded, and of all texts, as JSON.
Imports nothing of this project: it also runs where another transformers is installed.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Encode = Callable[[list[str]], Any]
BATCH = 32  # what sentence-transformers takes by default
PASS = 2048  # tokens of a pass of the bare forward: the quickest of 512 to 8,192 on this machine


def sentence_transformers(model: str, precision: str, backend: str = "torch") -> Encode:
    from sentence_transformers import SentenceTransformer

    options: dict[str, Any] = {"device": "cpu", "backend": backend}
    if backend == "torch":
        import torch

        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        encoder = SentenceTransformer(model, model_kwargs={"torch_dtype": dtype}, **options)
    elif backend == "onnx":
        encoder = SentenceTransformer(model, **options, model_kwargs={"export": True})
        if precision == "int8":
            encoder = quantized_onnx(encoder, model)
    else:
        hint = {"fp32": "f32", "bf16": "bf16"}.get(precision)
        given: dict[str, Any] = {"export": True}
        if hint:
            given["ov_config"] = {"INFERENCE_PRECISION_HINT": hint}
        encoder = SentenceTransformer(model, **options, model_kwargs=given)
        if precision == "int8":
            encoder = quantized_openvino(encoder, model)
    return lambda texts: encoder.encode(texts, batch_size=BATCH, show_progress_bar=False)


def quantized_onnx(encoder: Any, model: str) -> Any:
    from sentence_transformers import SentenceTransformer, export_dynamic_quantized_onnx_model

    folder = copied(model)
    encoder.save_pretrained(folder)
    export_dynamic_quantized_onnx_model(encoder, "avx512_vnni", folder)
    name = next(Path(folder).glob("onnx/*quint8*")).name
    kwargs = {"file_name": f"onnx/{name}"}
    return SentenceTransformer(folder, device="cpu", backend="onnx", model_kwargs=kwargs)


def quantized_openvino(encoder: Any, model: str) -> Any:
    """Weights and activations in int8, calibrated on the first texts that are encoded."""
    import nncf
    import openvino

    inner = encoder[0].auto_model
    texts = json.loads(Path(sys.argv[3]).read_text())[:200]
    batches = [dict(encoder.tokenizer(text, return_tensors="np").items()) for text in texts]
    found = nncf.quantize(
        inner.model,
        nncf.Dataset(batches),
        model_type=nncf.ModelType.TRANSFORMER,
        subset_size=len(batches),
    )
    inner.model = found
    inner.request = None
    inner.compile()
    assert openvino.__version__
    return encoder


def copied(model: str) -> str:
    return tempfile.mkdtemp(prefix=f"{Path(model).name}-")


def pipeline(model: str, precision: str) -> Encode:
    import torch
    from transformers import pipeline as make

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    run = make("feature-extraction", model=model, device="cpu", dtype=dtype)

    def encode(texts: list[str]) -> Any:
        lengths = [len(ids) for ids in run.tokenizer(texts)["input_ids"]]  # it keeps the padding
        with torch.inference_mode():
            found = run(texts, batch_size=BATCH, return_tensors=True)
            return [
                each[0, :length].float().mean(0).numpy()
                for each, length in zip(found, lengths, strict=True)
            ]

    return encode


def bare(model: str, precision: str) -> Encode:
    """transformers' forward over all tokens in one stream, cut into equal rows: nothing is padded,
    masked, sorted or pooled. The vectors mean nothing; only the time counts. Tokens are counted
    beforehand: tokenising is no part of the limit."""
    import torch
    from transformers import AutoModel, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(model)
    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    body = AutoModel.from_pretrained(model, dtype=dtype).eval()
    given = json.loads(Path(sys.argv[3]).read_text())
    ids = [i for row in tokenizer(given)["input_ids"] for i in row]
    length = round(len(ids) / len(given))
    rows = torch.tensor(ids[: len(ids) // length * length]).view(-1, length)

    def encode(texts: list[str]) -> Any:
        with torch.inference_mode():
            for part in rows.split(PASS // length) if len(texts) > 1 else [rows[:1]]:
                body(input_ids=part)

    return encode


PEERS: dict[str, Callable[[str], Encode]] = {
    **{
        f"bare packed forward, {p}": lambda model, p=p: bare(model, p)  # type: ignore[misc]
        for p in ("fp32", "bf16")
    },
    **{
        f"transformers pipeline, {p}": lambda model, p=p: pipeline(model, p)  # type: ignore[misc]
        for p in ("fp32", "bf16")
    },
    **{
        f"sentence-transformers {b}, {p}": (
            lambda model, b=b, p=p: sentence_transformers(model, p, b)  # type: ignore[misc]
        )
        for b, precisions in {
            "torch": ("fp32", "bf16"),
            "onnx": ("fp32", "int8"),
            "openvino": ("fp32", "bf16", "int8"),
        }.items()
        for p in precisions
    },
}


def main() -> None:
    name, model, texts_file, out = sys.argv[1:]
    begin = float(os.environ["BEGIN"])
    texts = json.loads(Path(texts_file).read_text())
    encode = PEERS[name](model)
    encode(texts[:1])
    ready = time.time()
    vectors = encode(texts)
    done = time.time()
    if vectors is not None:
        np.save(out, np.asarray(vectors, dtype=np.float32))
    print(json.dumps({"start": ready - begin, "seconds": done - ready}))


if __name__ == "__main__":
    main()
