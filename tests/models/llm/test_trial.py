"""The trial of quick ways on random tiny models of many architectures: those taken are right."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from medal_judges.errors import ConfigError
from medal_judges.models.llm.local import likelihood, trial
from medal_judges.models.llm.local.likelihood import plain_logprobs
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.local.trial import Trial, quick_paths, try_paths
from medal_judges.models.llm.protocol import ChatRequest, Continuation, Message

from . import architectures

# Read off a tree: a layer sees all before it, or within a window, and positions are given.
TREE = (
    *("mistral", "gemma2", "gemma3", "cohere2", "gpt-oss"),
    *(
        "llama",
        "qwen2",
        "qwen3",
        "qwen3-moe",
        "phi3",
        "granite",
        "granitemoe",
        "cohere",
        "falcon",
    ),
    *("gpt2", "gpt-neox", "gptj", "opt", "olmo", "olmo2", "smollm3", "deepseek-v3"),
)
WINDOWED = ("mistral", "gemma2", "gemma3", "cohere2", "gpt-neo", "gpt-oss", "llama4")
RECURRENT = ("qwen3-next", "lfm2", "mamba", "falcon-h1", "jamba")
# Their state takes in padding, wherever it stands; RWKV's, in this transformers, other rows too.
UNPADDED = {"recurrent-gemma": "alone", "rwkv": "alone"}
TALK = (
    Message("user", "Hi! Did you have a nice weekend?"),
    Message("assistant", "I read a book about trains."),
)


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(tmp_path))
    monkeypatch.setattr(trial, "_KNOWN", {})
    return tmp_path


def tiny(name: str) -> LocalModel:
    return LocalModel(
        architectures.tiny_model(name), architectures.tiny_tokenizer(), name=name
    )


@pytest.mark.parametrize("name", architectures.ARCHITECTURES)
def test_likelihoods_and_answers_are_those_of_the_models_own_forward_pass(
    name: str,
) -> None:
    llm = tiny(name)
    texts = ("That's wrong.", "That's so nice!", "No.")
    group = [
        Continuation(TALK[:k], text, role="user") for k in (1, 2) for text in texts
    ]
    given = llm.loglikelihood([group], joint=True)[0]
    plain, before = plain_logprobs(
        llm.model, [llm.template.sequence(c) for c in group], joint=True
    )
    for ours, theirs, prefix in zip(given, plain, before, strict=True):
        np.testing.assert_allclose(ours.logprobs, theirs, atol=1e-4)
        assert ours.prefix_logprob == pytest.approx(prefix, abs=1e-2)
    asked = [
        ChatRequest((*TALK, Message("user", "x" * n)), 5, top_logprobs=2)
        for n in (3, 9, 40)
    ]
    asked.append(ChatRequest((*TALK, Message("user", "y" * 9)), 5, top_logprobs=2))
    for request, together in zip(asked, llm.chat(asked), strict=True):
        (alone,) = llm.chat([request])
        assert together.text == alone.text and len(together.tokens) > 0
        np.testing.assert_allclose(
            [t.logprob for t in together.tokens],
            [t.logprob for t in alone.tokens],
            atol=1e-4,
        )
    found = llm.paths  # a way is taken where it fits, and not elsewhere
    assert (found.tree is None) == (name in TREE)
    assert found.alone is None
    assert (found.left is None) == (name not in UNPADDED)
    left = name in (*WINDOWED, *RECURRENT, "mpt", "minimax")
    assert found.batching == UNPADDED.get(name, "left" if left else "shared")


def test_findings_are_cached_and_a_torn_file_is_tried_again(
    fresh_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = architectures.tiny_model("mpt")
    first = quick_paths(model)
    (file,) = (fresh_cache / "doctor").iterdir()
    assert json.loads(file.read_text())["tree"] == first.tree is not None
    monkeypatch.setattr(trial, "_KNOWN", {})
    monkeypatch.setattr(trial, "try_paths", lambda _: pytest.fail("tried again"))
    assert quick_paths(architectures.tiny_model("mpt", seed=1)) == first
    monkeypatch.undo()
    monkeypatch.setenv("MEDAL_JUDGES_CACHE", str(fresh_cache))
    monkeypatch.setattr(trial, "_KNOWN", {})
    file.write_text('{"tree": ')
    assert quick_paths(model) == first


def test_a_model_whose_answers_are_not_its_own_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    llm = tiny("llama")
    wrong = replace(llm.paths, alone="1.2 nats off")
    monkeypatch.setattr(LocalModel, "paths", wrong)
    with pytest.raises(
        ConfigError, match="does not answer as its own forward pass says"
    ):
        llm.chat([ChatRequest(TALK, 5)])


def test_a_fault_after_the_last_layer_is_seen() -> None:
    """Granite's scaling left out, is more than a nat off: the trial sees it."""
    model = architectures.tiny_model("granite")
    tried = Trial(model)
    model.config.logits_scaling = model.logits_scaling = 1.0
    rows = range(len(tried.sequences))
    reason = tried.wrong(lambda: plain_logprobs(model, tried.sequences)[0], rows)
    assert reason is not None and float(reason.split()[0]) > 1


@pytest.mark.parametrize("name", ["mistral", "gemma3", "gpt-oss"])
def test_a_long_window_is_narrowed_for_the_trial(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    model = architectures.tiny_model(name)
    model.config.sliding_window = 1024
    assert try_paths(model).tree is None and model.config.sliding_window == 1024
    # a mask without a window
    monkeypatch.setattr(likelihood, "layer_windows", lambda config: (None, {"": None}))
    assert try_paths(model).tree is not None
