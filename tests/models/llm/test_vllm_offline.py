"""vLLM's requests and answers without vLLM: an engine of our own stands in for it.

Its log-probabilities are a tiny model's, computed by the plain loop; its prefix cache works in
blocks, and for cached tokens it reports what vLLM's two model runners do: the older one leftover
memory, the newer one nothing. benchmarks/vllm_prefix.py is for the real engine.
"""

import copy
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from medal_judges.errors import ConfigError, MissingExtraError
from medal_judges.models.llm.chat_template import TokenSequence
from medal_judges.models.llm.loading import load_llm
from medal_judges.models.llm.local.likelihood import plain_logprobs
from medal_judges.models.llm.local.model import LocalModel
from medal_judges.models.llm.protocol import ChatRequest, Continuation, Likelihood, Message
from medal_judges.models.llm.settings import VLLMLLM
from medal_judges.models.llm.vllm.model import (
    VLLMModel,
    chat_settings,
    completion_of,
    engine_settings,
)

BLOCK = 3  # the prefix of HI has 8 tokens: two blocks and a rest
HI = (Message("user", "music film garden train"), Message("assistant", "bread river winter"))


def words(*texts: str) -> list[Continuation]:
    return [Continuation(HI, text, role="user") for text in texts]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> LocalModel:
    import torch
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    names = ["[UNK]", "music", "film", "garden", "train", "bread", "river", "winter", "coffee"]
    inner = Tokenizer(models.WordLevel({n: i for i, n in enumerate(names)}, unk_token="[UNK]"))
    inner.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(names),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=64,
        initializer_range=0.5,  # so that the words' probabilities differ
    )
    return LocalModel(LlamaForCausalLM(config).eval(), tokenizer, name="tiny")


class Engine:
    """Answers ``generate`` as vllm.LLM does, for requests that score a prompt."""

    def __init__(
        self, local: LocalModel, *, runner: int, length: int = 64, block: int = BLOCK
    ) -> None:
        self.local, self.runner, self.block = local, runner, block
        self.model_config = SimpleNamespace(
            max_model_len=length,
            dtype="torch.float32",
            quantization=None,
            hf_config=SimpleNamespace(_commit_hash="abc"),
            model="org/name",
        )
        self.blocks: set[tuple[int, ...]] = set()
        self.read = 0
        self.calls: list[list[Mapping[str, Any]]] = []

    def generate(
        self, prompts: Sequence[Any], params: Sequence[Any], *, use_tqdm: bool
    ) -> list[Any]:
        self.calls.append(list(params))
        return [
            self.one(tuple(prompt["prompt_token_ids"]), each)
            for prompt, each in zip(prompts, params, strict=True)
        ]

    def one(self, ids: tuple[int, ...], params: Mapping[str, Any]) -> Any:
        cached = self.cached(ids) if not params.get("skip_reading_prefix_cache", True) else 0
        self.blocks |= {ids[:end] for end in range(self.block, len(ids) + 1, self.block)}
        self.read += len(ids) - cached
        (values,), _ = plain_logprobs(self.local.model, [TokenSequence(ids, 1)])
        found: list[Any] = [
            {token: SimpleNamespace(logprob=float(value), decoded_token=None)}
            for token, value in zip(ids[1:], values, strict=True)
        ]
        leftover = [{token: SimpleNamespace(logprob=-99.0)} for token in ids[1 : cached + 1]]
        kept = (leftover if self.runner == 1 else []) + found[cached:]
        answer = SimpleNamespace(text="x", token_ids=[1], logprobs=None, finish_reason="length")
        return SimpleNamespace(
            prompt_token_ids=list(ids),
            prompt_logprobs=[None, *kept],
            num_cached_tokens=cached,
            outputs=[answer],
        )

    def cached(self, ids: tuple[int, ...]) -> int:
        """Tokens of whole blocks that were read before; the last token is always read anew."""
        ends = range(self.block, len(ids), self.block)
        return max((end for end in ends if ids[:end] in self.blocks), default=0)


def model(engine: Engine, **options: Any) -> VLLMModel:
    return VLLMModel(
        engine, engine.local.tokenizer, name="vllm/tiny", params=lambda each: each, **options
    )


def close(found: Sequence[Sequence[Likelihood]], expected: Sequence[Sequence[Likelihood]]) -> None:
    assert [len(group) for group in found] == [len(group) for group in expected]
    pairs = zip(chain.from_iterable(found), chain.from_iterable(expected), strict=True)
    for a, b in pairs:
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
        assert a.prefix_tokens == b.prefix_tokens
        assert (a.prefix_logprob is None) == (b.prefix_logprob is None)
        if a.prefix_logprob is not None:
            assert a.prefix_logprob == pytest.approx(b.prefix_logprob, abs=1e-4)


GROUPS = [
    words("music", "film garden", "coffee coffee coffee coffee coffee coffee"),
    [],
    words("coffee coffee coffee coffee coffee film", "music"),  # begin alike for over a block
    [Continuation(HI[:1], "train", prefill="river winter", score_eos=False)],
]


@pytest.mark.parametrize("block", [3, 4])  # 4: the prefix ends with a block
@pytest.mark.parametrize("runner", [1, 2])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("share", [False, True])
def test_likelihoods_are_those_of_transformers_whatever_is_cached(
    local: LocalModel, runner: int, joint: bool, share: bool, block: int
) -> None:
    engine = Engine(local, runner=runner, block=block)
    llm = model(engine, share_prefix=share)
    expected = local.loglikelihood(GROUPS, joint=joint)
    for _ in range(2):  # the second time everything is in the engine's cache
        close(llm.loglikelihood(GROUPS, joint=joint), expected)


def test_sharing_reads_the_prefix_once(local: LocalModel) -> None:
    group = words("music", "film", "garden", "train", "bread", "river")
    engines = {share: Engine(local, runner=2) for share in (True, False)}
    for share, engine in engines.items():
        model(engine, share_prefix=share).loglikelihood([group])
    sizes = [len(local.template.sequence(c).ids) for c in group]
    assert engines[False].read == sum(sizes)
    assert engines[True].read <= sizes[0] + 5 * (BLOCK + 3)
    joint = Engine(local, runner=2)
    model(joint).loglikelihood([group], joint=True)
    assert joint.read == engines[True].read


def test_a_prompt_that_does_not_fit_is_refused(local: LocalModel) -> None:
    llm = model(Engine(local, runner=1, length=12))
    assert llm.context == 11
    with pytest.raises(ConfigError, match="do not fit the 11 tokens"):
        llm.loglikelihood([words("music film garden train bread river winter")])
    (answer,) = llm.chat([ChatRequest(HI, max_tokens=50)])
    assert answer.finish == "failed" and "50 do not fit" in str(answer.failure)


def test_chat_settings() -> None:
    schema = {"type": "object"}
    assert chat_settings(ChatRequest(HI)) == {
        "max_tokens": 256,
        "temperature": 0.0,
        "top_p": 1.0,
        "seed": 0,
    }
    settings = chat_settings(ChatRequest(HI, seed=7, schema=schema, top_logprobs=50))
    assert settings["seed"] == 7
    assert settings["structured_outputs"] == {"json": schema}
    assert settings["logprobs"] == 20
    assert "presence_penalty" not in settings
    for name in ("presence_penalty", "frequency_penalty"):
        assert chat_settings(ChatRequest(HI, **{name: 0.6}))[name] == 0.6  # type: ignore[arg-type]


def test_engine_settings() -> None:
    own = {"dtype": "bf16", "revision": "v1", "context": 2048}
    others = {"tensor_parallel_size": 2, "seed": 3}
    found = engine_settings(VLLMLLM.model_validate({"model": "m", **own, **others}))
    assert found == {
        "dtype": "bfloat16",
        "enable_prefix_caching": True,
        "seed": 3,
        "revision": "v1",
        "tokenizer_revision": "v1",
        "max_model_len": 2048,
        "tensor_parallel_size": 2,
    }


def choice(text: str, logprob: float) -> Any:
    return SimpleNamespace(decoded_token=text, logprob=logprob)


def output(reason: str, **fields: Any) -> Any:
    answer = SimpleNamespace(text="4", token_ids=[9, 2], logprobs=None, finish_reason=reason)
    answer.__dict__.update(fields)
    return SimpleNamespace(prompt_token_ids=[1] * 7, num_cached_tokens=4, outputs=[answer])


def test_a_completion_is_read() -> None:
    first = {9: choice("4", -0.5), 8: choice("3", -1.0), 7: choice("4", -3.0)}
    first[6] = choice("no", float("-inf"))
    found = output("stop", logprobs=[first, {2: choice("", -0.1)}])
    answer = completion_of(found, ChatRequest(HI, schema={}, top_logprobs=2))
    assert (answer.text, answer.finish, answer.enforced) == ("4", "stop", True)
    assert answer.tokens[0].alternatives == {"4": -0.5, "3": -1.0}
    assert (answer.tokens[0].text, answer.tokens[0].logprob) == ("4", -0.5)
    usage = answer.usage
    assert (usage.input, usage.cached, usage.output) == (7, 4, 2)
    assert completion_of(output("length"), ChatRequest(HI)).finish == "length"
    failed = completion_of(output("abort"), ChatRequest(HI))
    assert failed.finish == "failed" and "abort" in str(failed.failure)


@pytest.mark.skipif(find_spec("vllm") is not None, reason="vLLM is installed here")
def test_without_vllm_the_extra_is_named() -> None:
    with pytest.raises(MissingExtraError, match=r"medal-judges\[vllm\]"):
        load_llm("vllm:org/name")


def test_thinking_is_a_request_of_its_own_and_its_tokens_are_counted_apart(local: LocalModel):
    tokenizer = copy.deepcopy(local.tokenizer)
    tokenizer.chat_template = (
        "{% for m in messages %}{{ m.content }} {% endfor %}"
        "{% if add_generation_prompt %}music<think>{% endif %}{# </think> #}"
    )
    tokenizer.add_tokens(["<think>", "</think>"])
    engine = Engine(local, runner=2)
    engine.one = lambda ids, params: SimpleNamespace(  # type: ignore[method-assign]
        prompt_token_ids=list(ids),
        num_cached_tokens=0,
        outputs=[SimpleNamespace(text="4", token_ids=[1, 2], logprobs=None, finish_reason="stop")],
    )
    llm = VLLMModel(engine, tokenizer, name="v", params=lambda each: each, thinking=20)
    schema = {"type": "object"}
    (answer,) = llm.chat([ChatRequest(HI[:1], 5, schema=schema, top_logprobs=2)])
    (thought,), (said,) = engine.calls
    assert thought["stop"] == ["</think>"] and thought["max_tokens"] == 20
    assert "structured_outputs" not in thought and "logprobs" not in thought
    assert said["structured_outputs"] == {"json": schema} and said["max_tokens"] == 5
    assert answer.text == "4" and answer.enforced
    assert (answer.usage.reasoning, answer.usage.output) == (2, 4)
    assert llm.context == 63 - 20 and llm.fingerprint()["thinking"] == "20"
