"""Asking several models at once."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

from medal_judges.data_prep.jobs import Call, ask_all
from medal_judges.models.llm.cache import CachedModel
from medal_judges.models.llm.protocol import (
    ChatRequest,
    Completion,
    Continuation,
    LanguageModel,
    Likelihood,
    Message,
)
from medal_judges.models.llm.settings import llm_config


class Local(LanguageModel):
    """Says on which thread it computes."""

    context = 100

    def __init__(self, name: str) -> None:
        self.name = name

    def chat(self, requests: Sequence[ChatRequest]) -> list[Completion]:
        return [Completion(threading.current_thread().name) for _ in requests]

    def count_tokens(self, messages: Sequence[Message]) -> int:
        return 1

    def loglikelihood(
        self, groups: Sequence[Sequence[Continuation]], *, joint: bool = False
    ) -> list[list[Likelihood]]:
        raise NotImplementedError

    def fingerprint(self) -> Mapping[str, str]:
        return {}


def test_local_models_compute_one_after_the_other_with_a_cache_too(tmp_path: Path) -> None:
    said: dict[tuple[str, int], str] = {}

    def call(model: LanguageModel) -> Call:
        def on_answer(index: int, completion: Completion) -> None:
            said[model.name, index] = completion.text

        requests = [ChatRequest((Message("user", f"{i}"),)) for i in range(5)]
        return Call(model, requests, on_answer)

    models = [CachedModel(Local("a"), tmp_path), CachedModel(Local("b"), tmp_path), Local("c")]
    assert ask_all([call(model) for model in models], per_call=2) == []
    assert len(said) == 15 and set(said.values()) == {threading.main_thread().name}


def test_which_settings_are_behind_a_server() -> None:
    served = ["openai:gpt-4.1", {"model": "openai:gpt-4.1"}, {"backend": "openai", "model": "m"}]
    own = [
        "embedded:smollm2",
        "vllm:a/b",
        {"backend": "vllm", "model": "openai:m"},
        {"model": "a/b"},
    ]
    assert all(llm_config(each).api for each in served)
    assert not any(llm_config(each).api for each in own)
