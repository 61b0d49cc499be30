"""One peer of against_peers.py, in a process of its own: texts in, one vector a text out.

    python peer_encoder.py NAME MODEL TEXTS.json VECTORS.npy [EXPORTED]

Prints seconds from the process's start until the first text was encoded, and of all texts, as JSON.
ONNX and OpenVINO models are exported into the folder EXPORTED once, and then read from there: who
uses them often does so too.
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
CALIBRATED = 24  # texts that OpenVINO's int8 scales are taken from
PASS = 2048  # tokens of a pass of the bare forward: the quickest of 512 to 8,192 on this machine


def sentence_transformers(model: str, precision: str, backend: str = "torch") -> Encode:
    from sentence_transformers import SentenceTransformer

    options: dict[str, Any] = {"device": "cpu", "backend": backend}
    if backend == "torch":
        import torch

        dtype = torch.bfloat16 if precision == "bf16" else torch.float32
        encoder = SentenceTransformer(
            model, model_kwargs={"torch_dtype": dtype}, **options
        )
    else:
        folder = (
            Path(sys.argv[5])
            / f"{backend}-{'int8' if precision == 'int8' else 'float'}"
        )
        if not folder.exists():
            exported(model, backend, precision, folder)
        given: dict[str, Any] = {}
        if backend == "onnx":
            (given["file_name"],) = (
                path.relative_to(folder).as_posix()
                for path in folder.glob("onnx/*.onnx")
                if ("int8" in path.name) == (precision == "int8")
            )
        elif precision != "int8":
            hint = {"fp32": "f32", "bf16": "bf16"}[precision]
            given["ov_config"] = {"INFERENCE_PRECISION_HINT": hint}
        encoder = SentenceTransformer(str(folder), **options, model_kwargs=given)
    return lambda texts: encoder.encode(
        texts, batch_size=BATCH, show_progress_bar=False
    )


def exported(model: str, backend: str, precision: str, folder: Path) -> None:
    """Write ``model`` for ``backend`` into ``folder``, as sentence-transformers' documentation does
    it: int8 of ONNX for this CPU's instructions, of OpenVINO calibrated on the texts."""
    from sentence_transformers import SentenceTransformer

    partial = tempfile.mkdtemp(prefix=folder.name, dir=folder.parent)
    encoder = SentenceTransformer(
        model, device="cpu", backend=backend, model_kwargs={"export": True}
    )
    encoder.save_pretrained(partial)
    if precision == "int8" and backend == "onnx":
        from sentence_transformers import export_dynamic_quantized_onnx_model

        export_dynamic_quantized_onnx_model(encoder, "avx512_vnni", partial)
    elif precision == "int8":
        import nncf
        import openvino

        inner = encoder[0].auto_model
        texts = json.loads(Path(sys.argv[3]).read_text())[:CALIBRATED]
        batches = [
            dict(encoder.tokenizer(text, return_tensors="np").items()) for text in texts
        ]
        found = nncf.quantize(
            inner.model,
            nncf.Dataset(batches),
            model_type=nncf.ModelType.TRANSFORMER,
            subset_size=len(batches),
        )
        (path,) = Path(partial).glob("openvino/*.xml")
        path.with_suffix(".bin").unlink()
        openvino.save_model(found, path, compress_to_fp16=False)
    Path(partial).rename(folder)


def pipeline(model: str, precision: str) -> Encode:
    import torch
    from transformers import pipeline as make

    dtype = torch.bfloat16 if precision == "bf16" else torch.float32
    run = make("feature-extraction", model=model, device="cpu", dtype=dtype)

    def encode(texts: list[str]) -> Any:
        # it keeps the padding
        lengths = [len(ids) for ids in run.tokenizer(texts)["input_ids"]]
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
        f"the encoder alone, {p}": lambda model, p=p: bare(model, p)  # type: ignore[misc]
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
    name, model, texts_file, out = sys.argv[1:5]
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
