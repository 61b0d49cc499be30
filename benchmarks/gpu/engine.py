"""vLLM's engine beside our own local path: likelihoods in bounded memory, prefixes, schemas."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import torch

from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.trial import ALLOWED_HALF
from medal_judges.models.llm.protocol import Likelihood
from medal_judges.models.llm.vllm.model import VLLMModel

from .language import (
    SCHEMA,
    follow_up_groups,
    loaded,
    mean_difference,
    requests,
    token_counts,
)
from .measure import Agreement, Row, Setting, attempt, release, seconds_of
from .models import model_folder

ROOM_GIB = 8.0  # that log-probabilities of prompts may take beside weights and cache


def used_gib() -> float:
    """Memory of the device in use by all processes: the engine has one of its own."""
    if not torch.cuda.is_available():
        return 0.0
    free, whole = torch.cuda.mem_get_info()
    return (whole - free) / 2**30


def started(setting: Setting) -> VLLMModel:
    """The engine on the 4B's shape, with less than half of the device."""
    folder = model_folder("Qwen3-4B", setting.folder, small=setting.small, device=setting.device)
    own = {"gpu_memory_utilization": 0.4, "max_num_batched_tokens": 2048, "enforce_eager": True}
    llm = load_llm(
        {"backend": "vllm", "model": str(folder), "context": setting.of(4096, 1024)}
        | (own if setting.device.type == "cuda" else {})
    )
    assert isinstance(llm, VLLMModel)
    return llm


def engine(setting: Setting) -> Iterator[Row]:
    """Rows of one engine; our own path's numbers are read first, and its memory is let go of."""
    needs = ("vllm",)
    groups = follow_up_groups(setting)
    wanted: list[list[Likelihood]] = []
    counts: list[int] = []
    models: list[VLLMModel] = []

    def ours() -> Row:
        llm = loaded(setting)
        counts.extend(token_counts(llm, groups))
        spent = seconds_of(lambda: wanted.extend(llm.loglikelihood(groups)))
        return Row("", tokens_per_s=counts[0] / spent)

    def start() -> Row:
        spent = seconds_of(lambda: models.append(started(setting)))
        return Row("", said=f"{spent:.0f} s")

    def likelihoods(shared: bool) -> Row:
        model = models[0]
        model.share_prefix = shared
        model.engine.reset_prefix_cache()
        before = used_gib()
        model.loglikelihood(groups[:1])
        found: list[list[Likelihood]] = []
        spent = seconds_of(lambda: found.extend(model.loglikelihood(groups)))
        more = used_gib() - before
        apart = Agreement(
            "mean nats from our own path",
            mean_difference(found, wanted),
            ALLOWED_HALF,
            f"; {more:.1f} GiB more while it reads ({ROOM_GIB:.0f} are allowed)",
        )
        row = apart.row(tokens_per_s=counts[0] / spent)
        return replace(row, state="failed") if more > ROOM_GIB else row

    yield attempt("our own prefix tree, in this environment", ours, needs)
    release()
    yield attempt("the engine starts", start, needs)
    if models:
        yield attempt("likelihoods, prefixes shared", lambda: likelihoods(True), needs)
        yield attempt("likelihoods, each prefix read anew", lambda: likelihoods(False), needs)
        yield attempt("answers of a schema", lambda: schema(models[0], setting), needs)
        models[0].close()


def schema(model: VLLMModel, setting: Setting) -> Row:
    """Every answer is JSON of the schema."""
    asked = [replace(request, schema=SCHEMA, max_tokens=32) for request in requests(setting)]
    done = []
    spent = seconds_of(lambda: done.extend(model.chat(asked)))
    fits = sum(json.loads(a.text)["score"] in range(1, 6) for a in done if a.failure is None)
    written = sum(answer.usage.output for answer in done)
    state = "done" if fits == len(asked) else "failed"
    said = f"{fits} of {len(asked)} fit"
    return Row("", state, tokens_per_s=written / spent, said=said)
